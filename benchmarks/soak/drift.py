"""Drift: how far a figure has moved from the first third of the judged time to the last.

A third is represented by its median, so that single samples, garbage that is not yet collected and a busy minute of the
machine do not count. Only a rise is a fault.
"""

import statistics
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

__all__ = ["Drift", "drift_of", "warm_up"]

#: Seconds before the judged time; a shorter run leaves out its first third.
WARM_UP = 600.0
#: Fewer samples than this in a third say nothing.
FEWEST = 5


@dataclass(frozen=True)
class Drift:
    """The first and the last third of one figure, and whether it may have risen so far.

    :param allowed: the rise that is allowed, as a share of the first third.
    :param grain: a rise up to this is allowed in any case; one of a thing that is counted is no drift.
    """

    name: str
    unit: str
    first: float
    last: float
    allowed: float
    grain: float = 0.0

    @property
    def share(self) -> float:
        """The rise as a share of the first third."""
        return (self.last - self.first) / self.first if self.first else 0.0

    @property
    def flat(self) -> bool:
        """Whether the rise is within what is allowed."""
        return self.last - self.first <= max(self.allowed * self.first, self.grain)


def warm_up(seconds: float) -> float:
    """Return how much of a run of so many seconds is not judged."""
    return min(WARM_UP, seconds / 3)


def drift_of(name: str, unit: str, samples: Sequence[Tuple[float, float]], begun: float, ended: float, allowed: float,
             grain: float = 0.0) -> Optional[Drift]:
    """Return the drift of a figure, or None when there are too few samples.

    :param samples: pairs of time and value.
    :param begun: the judged time, as the samples have it.
    :param ended: its end.
    """
    third = (ended - begun) / 3
    first: List[float] = [value for moment, value in samples if begun <= moment < begun + third]
    last: List[float] = [value for moment, value in samples if ended - third <= moment <= ended]
    if min(len(first), len(last)) < FEWEST:
        return None
    return Drift(name, unit, statistics.median(first), statistics.median(last), allowed, grain)

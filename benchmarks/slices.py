"""Measures in turns: floor, peer, floor, peer ...; medians and ratios of the slices."""

import statistics
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, Optional

__all__ = ["Figure", "Measurement", "take_turns"]


@dataclass
class Figure:
    """The measurements of one peer, slice by slice."""

    values: List[float] = field(default_factory=list)
    #: Each value divided by the mean of the floor's slices before and after it.
    ratios: List[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> Optional[float]:
        """The median of the ratios to the floor; None where there is no floor."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def noisy(self) -> bool:
        """Whether the slices differ so much that the median means little."""
        middle = sorted(self.ratios or self.values)
        cut = len(middle) // 10
        middle = middle[cut:len(middle) - cut]
        return len(middle) > 1 and (middle[0] <= 0 or middle[-1] / middle[0] > 1.6)


@dataclass
class Measurement:
    """One row of the table."""

    key: str
    title: str
    unit: str
    figures: Dict[str, Figure] = field(default_factory=dict)
    #: Why a peer has no figure.
    failures: Dict[str, str] = field(default_factory=dict)

    def ratio(self, to: str) -> Optional[float]:
        """Return the ratio of our figure to the floor's or another peer's, the latter through the floor if there is one."""
        ours, other = self.figures.get("ours"), self.figures.get(to)
        if ours is None or other is None:
            return None
        if to == "floor":
            return ours.ratio
        if ours.ratio is not None and other.ratio:
            return ours.ratio / other.ratio
        return ours.value / other.value if other.value else None


def take_turns(measurement: Measurement, rounds: int, steps: Mapping[str, Callable[[], float]],
               is_failure: Callable[[Exception], bool]) -> None:
    """Run the steps *rounds* times in turn, the one called "floor" between all others.

    A step whose error *is_failure* accepts is noted and left out from then on.
    """
    steps = dict(steps)
    floor = steps.pop("floor", None)
    figures = measurement.figures

    def take(name: str, step: Callable[[], float]) -> Optional[float]:
        try:
            value = step()
        except Exception as error:
            if not is_failure(error):
                raise
            measurement.failures[name] = str(error)
            figures.pop(name, None)
            return None
        figures.setdefault(name, Figure()).values.append(value)
        return value

    before = None
    for _ in range(rounds):
        for name, step in steps.items():
            if name in measurement.failures:
                continue
            if floor is not None and before is None:
                before = take("floor", floor)
            value = take(name, step)
            if floor is None:
                continue
            after = take("floor", floor)
            if value is not None and before is not None and after is not None:
                figures[name].ratios.append(value / ((before + after) / 2))
            before = after

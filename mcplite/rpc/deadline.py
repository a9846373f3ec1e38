"""One deadline for one operation, carried through every step of it.

May import: nothing of ours.
"""

import time
from typing import Optional

__all__ = ["Deadline"]


class Deadline:
    """A point in monotonic time, or none at all.

    :param timeout: seconds from now; None means that there is no deadline.
    """

    __slots__ = ("at",)

    def __init__(self, timeout: Optional[float]) -> None:
        self.at = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> Optional[float]:
        """Return the seconds that are left, never below zero; None when there is no deadline."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.at is not None and time.monotonic() >= self.at

"""One deadline for one operation, carried through every step of it."""

import time
from typing import Optional

__all__ = ["Deadline"]


class Deadline:
    """A point in monotonic time, or none at all.

    :param timeout: seconds from now; None means that there is no deadline.
    """

    __slots__ = ("at", "_stopped")

    def __init__(self, timeout: Optional[float]) -> None:
        self.at = None if timeout is None else time.monotonic() + timeout
        self._stopped: Optional[float] = None

    def remaining(self) -> Optional[float]:
        """Return the seconds that are left, never below zero; None when there is no deadline."""
        return None if self.at is None else max(0.0, self.at - self._now())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.at is not None and self._now() >= self.at

    def _now(self) -> float:
        return time.monotonic() if self._stopped is None else self._stopped

    def stop(self) -> None:
        """Let no time pass until :meth:`go`, by the thread that works for it: somebody logs in."""
        self._stopped = time.monotonic()

    def go(self) -> None:
        """Go on."""
        if self.at is not None and self._stopped is not None:
            self.at += time.monotonic() - self._stopped
        self._stopped = None

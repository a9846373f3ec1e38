"""One deadline for one operation, passed through all of its steps.

A channel computes the remaining time of each step from it, so that the steps together keep one limit. Unlike
the clock in :mod:`.pending`, which all calls of a connection share, it belongs to one operation.
"""

import time
from typing import Optional

__all__ = ["Deadline"]


class Deadline:
    """A point in monotonic time that an operation must not pass; it may be unlimited.

    :param timeout: seconds from now; None for no limit.
    """

    __slots__ = ("at", "_paused")

    def __init__(self, timeout: Optional[float]) -> None:
        self.at = None if timeout is None else time.monotonic() + timeout
        self._paused: Optional[float] = None

    def remaining(self) -> Optional[float]:
        """Return the remaining seconds, never below zero; None without a limit."""
        return None if self.at is None else max(0.0, self.at - self._now())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.at is not None and self._now() >= self.at

    def _now(self) -> float:
        return time.monotonic() if self._paused is None else self._paused

    def pause(self) -> None:
        """Let no time pass until :meth:`resume`: a user logs in. Not thread-safe: one thread owns a deadline."""
        self._paused = time.monotonic()

    def resume(self) -> None:
        """Let time pass again."""
        if self.at is not None and self._paused is not None:
            self.at += time.monotonic() - self._paused
        self._paused = None

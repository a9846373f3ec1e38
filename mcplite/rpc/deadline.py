"""One deadline for one operation, passed through all of its steps; and what a signal can end: waits, and a program's start.

A channel computes the remaining time of each step from it, so that the steps together keep one limit. Unlike
the clock in :mod:`.pending`, which all calls of a connection share, it belongs to one operation.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Iterator, Optional

__all__ = ["WAKE_SECONDS", "Deadline", "end_at_interrupt", "wait_interruptibly"]

#: Seconds that a thread of the user sleeps at a time. A signal can come between Python's last check and the system call, or
#: on another thread that is just started; it does not end the sleep then. Python runs its handler, which may raise, on the
#: main thread when the sleep is over.
WAKE_SECONDS = 0.5


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


def wait_interruptibly(wait: Callable[[float], bool], timeout: Optional[float]) -> bool:
    """Wait on a thread of the user, which Ctrl-C must end; return what *wait* returned last.

    :param wait: waits for so many seconds at most; returns whether that for which it waits has come.
    :param timeout: seconds in all; None for no limit.
    """
    deadline = Deadline(timeout)
    while True:
        remaining = deadline.remaining()
        if remaining is not None and remaining <= WAKE_SECONDS:
            return wait(remaining)
        if wait(WAKE_SECONDS):
            return True


@contextlib.contextmanager
def end_at_interrupt() -> Iterator[None]:
    """End the process with status 130 at Ctrl-C in the block, in which a program loads its modules.

    A KeyboardInterrupt is not enough: Python drops one that is raised in a callback of the import system, and the code
    of a module may turn one into another exception. At that time there is no thread, child or file to end.
    On another thread than the main one, and where Ctrl-C has another effect than Python's own, nothing changes.
    """
    import signal
    import threading

    def end(number: int, frame: Any) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""One deadline for one operation, passed through all of its steps; and what a signal can end: waits, and a program's start.

A channel computes the remaining time of each step from it, so that the steps together keep one limit. Unlike
the clock in :mod:`.pending`, which all calls of a connection share, it belongs to one operation.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, Optional

__all__ = ["WAKE_SECONDS", "Sleepers", "Deadline", "WakeSignal", "end_at_interrupt", "poll_until", "undo",
           "wait_interruptibly"]

#: Seconds that a thread of the user sleeps at a time. A signal can come between Python's last check and the system call, or
#: on another thread that is just started; it does not end the sleep then. Python runs its handler, which may raise, on the
#: main thread when the sleep is over.
WAKE_SECONDS = 0.5


class undo:
    """A block that calls *action* when an exception ends it, Ctrl-C and SystemExit included, and raises the exception further.

    A signal handler may raise between the line before the block and the block. Where that would cost more than the call, the
    code has a ``finally`` instead.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._action()


class Deadline:
    """A point in monotonic time that an operation must not pass; it may be unlimited.

    :param timeout: seconds from now; None for no limit.
    :param now: returns the time, as that of a :class:`.pending.Clock`, which can be paused; by default that of the system.
    """

    __slots__ = ("at", "_now")

    def __init__(self, timeout: Optional[float], now: Optional[Callable[[], float]] = None) -> None:
        self._now = now or time.monotonic
        self.at = None if timeout is None else self._now() + timeout

    def remaining(self) -> Optional[float]:
        """Return the remaining seconds, never below zero; None without a limit."""
        return None if self.at is None else max(0.0, self.at - self._now())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.at is not None and self._now() >= self.at


def poll_until(condition: Callable[[], object], deadline: Deadline, seconds: float) -> bool:
    """Wait until a condition is true of which no thread tells; return whether it is, before the deadline.

    :param seconds: between two looks.
    """
    while not condition():
        if deadline.expired:
            return False
        time.sleep(seconds)
    return True


class WakeSignal:
    """What one thread sleeps on until another wakes it.

    Each step is one call into C. The conditions and events of :mod:`threading` are written in Python: an exception that a
    signal handler raises inside of them leaves their lock taken for ever, or releases one that is not held.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        #: Free while there is a wake-up that was not taken; it guards nothing.
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """End the present wait, or the next one."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                return  # another thread has done it in this moment

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Sleep until woken, and take the wake-up; return False if none came in *timeout* seconds."""
        return self._lock.acquire(True, -1 if timeout is None else timeout)

    def sleep(self, remaining: Optional[float]) -> bool:
        """Sleep until woken, or for a while, on a thread of the user; False if no time remains.

        :param remaining: seconds; None for no limit.
        """
        if remaining is not None and remaining <= 0:
            return False
        self._lock.acquire(True, WAKE_SECONDS if remaining is None or remaining > WAKE_SECONDS else remaining)
        return True

    def clear(self) -> None:
        """Take the wake-up, if there is one."""
        self._lock.acquire(False)


class Sleepers:
    """Lets threads of the user sleep until another thread has changed something; a signal handler may raise meanwhile."""

    def __init__(self) -> None:
        #: One for each thread that sleeps. Without a lock: each change is one step in C.
        self._sleepers: Dict[WakeSignal, None] = {}

    def notify(self) -> None:
        """Have the sleeping threads look again; called after the change."""
        for sleeper in list(self._sleepers):
            sleeper.set()

    def wait_for(self, condition: Callable[[], object], timeout: Optional[float]) -> bool:
        """Wait until the condition is true; return whether it is. The caller must hold no lock.

        :param condition: it is asked without a lock.
        :param timeout: seconds; None for no limit.
        """
        deadline, sleeper = Deadline(timeout), WakeSignal()
        self._sleepers[sleeper] = None
        try:
            while not condition():
                if not sleeper.sleep(deadline.remaining()):
                    return False
            return True
        finally:
            self._sleepers.pop(sleeper, None)


def wait_interruptibly(wait: Callable[[float], bool], timeout: Optional[float]) -> bool:
    """Wait on a thread of the user, which Ctrl-C must end; return what *wait* returned last.

    Python runs signal handlers on the main thread only, so another thread sleeps for the whole time: hundreds of open event
    streams would otherwise wake up twice a second each.

    :param wait: waits for so many seconds at most; returns whether that for which it waits has come.
    :param timeout: seconds in all; None for no limit.
    """
    deadline = Deadline(timeout)
    longest = WAKE_SECONDS if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
    while True:
        remaining = deadline.remaining()
        if remaining is not None and remaining <= longest:
            return wait(remaining)
        if wait(longest):
            return True


@contextlib.contextmanager
def end_at_interrupt() -> Iterator[None]:
    """End the process with status 130 at Ctrl-C in the block, in which a program loads its modules.

    A KeyboardInterrupt is not enough: Python drops one that is raised in a callback of the import system, and the code
    of a module may turn one into another exception. At that time there is no thread, child or file to end.
    On another thread than the main one, and where Ctrl-C has another effect than Python's own, nothing changes.
    """
    import signal

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

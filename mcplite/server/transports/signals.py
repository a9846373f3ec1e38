"""The signals that ask a process to stop, for as long as it serves."""

import contextlib
import queue
import signal
import threading
from typing import Any, Callable, Dict, Iterator

__all__ = ["sleep_until_told", "stop_signals"]

#: A thread that is just starting another one may get a signal in place of the main thread, whose sleep goes on then;
#: what is to be done about the signal is done by the main thread alone, when it wakes for whatever reason.
_LOOK_SECONDS = 0.5


@contextlib.contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Have the first SIGINT or SIGTERM call *stop*; the second does what it always did.

    :param stop: may run between any two steps of the main thread, so it takes no lock.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; whoever runs a server elsewhere keeps their own
        return
    before: Dict[int, Any] = {}

    def first(number: int, frame: Any) -> None:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        stop()

    for which in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(which) is not None:  # else it was not set from Python, and could not be put back
            before[which] = signal.signal(which, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def sleep_until_told(told: "queue.SimpleQueue[None]") -> None:
    """Return when something is put into *told*, by another thread or by what a signal calls."""
    while True:
        try:
            return told.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue

"""Stops a server on the signals that ask a process to stop.

Both servers, on stdio and over HTTP, wait on the main thread for a :class:`StopRequest`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from typing import Any, Callable, Dict, Iterator

from ...rpc.deadline import WAKE_SECONDS
from ...rpc.forks import on_fork, signals_held

__all__ = ["StopRequest", "stop_signals"]

#: The signals that ask a process to stop.
_STOPPING = [signal.SIGINT, signal.SIGTERM]
if sys.platform == "win32":
    _STOPPING.append(signal.SIGBREAK)


class StopRequest:
    """A request to stop, which another thread or a signal handler makes, and for which one thread waits.

    Not an Event: a signal handler that interrupts the main thread inside wait(), while it holds the event's lock, would
    deadlock in set(). A SimpleQueue's put() may interrupt its get().
    """

    def __init__(self) -> None:
        self._requests: "queue.SimpleQueue[None]" = queue.SimpleQueue()

    def set(self) -> None:
        """Make the request; it takes no lock."""
        self._requests.put(None)

    def wait(self) -> None:
        """Block until the request is made."""
        while True:
            try:
                return self._requests.get(timeout=WAKE_SECONDS)
            except queue.Empty:
                continue


@contextlib.contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call *stop* on the first SIGINT or SIGTERM within the block; the second has its former effect.

    On Windows SIGBREAK is a third such signal: Ctrl-Break, a closed console, or ``CTRL_BREAK_EVENT`` from another process.
    In a process that a handler forks, all of these signals have their former effect.

    :param stop: can run between any two steps of the main thread, so it must not take a lock.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers; a server on another thread leaves them alone
        return
    before: Dict[int, Any] = {}
    owner = os.getpid()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(number: int, frame: Any) -> None:
        restore()
        if os.getpid() == owner:
            stop()
        else:
            os.kill(os.getpid(), number)  # a process that has just been forked: it has its former effect there

    def on_forked(handler: Any, forked_from: int) -> None:
        restore()

    for which in _STOPPING:
        if signal.getsignal(which) is not None:  # None: not set from Python, so that it could not be restored
            before[which] = signal.signal(which, first)
    on_fork(first, on_forked)
    try:
        with signals_held(list(before)):
            yield
    finally:
        restore()
        before.clear()

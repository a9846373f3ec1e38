"""The time limit of one call of a tool.

A module of its own because two modules use it: tools.py starts and stops it, and the context pauses it while the tool
waits for an answer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Callable, Iterator, Optional

__all__ = ["Timeout"]


class Timeout:
    """Ends one call of a tool that declared a ``timeout``; it is paused while the tool waits for an answer.

    The client is answered at once; the handler, which cannot be stopped from outside, finds its
    token cancelled, and what it returns is dropped.

    :param seconds: how long the call may run.
    :param respond: answers the request when the time is over.
    :param cancel: cancels the request then, with a reason.
    """

    def __init__(self, seconds: float, respond: Callable[[], object], cancel: Callable[[str], object]) -> None:
        self._seconds = seconds
        self._left = seconds
        self._respond = respond
        self._cancel = cancel
        self._started = 0.0
        self._timer: Optional[threading.Timer] = None

    def start(self) -> None:
        """Start, or continue; the timer's thread ends with :meth:`stop` or by firing, and blocks on nothing else."""
        self._started = time.monotonic()
        self._timer = threading.Timer(self._left, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop; :meth:`start` continues with what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._left = max(0.0, self._left - (time.monotonic() - self._started))
            self._timer = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass within the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _fire(self) -> None:
        try:
            self._respond()
        finally:
            self._cancel(f"timeout of {self._seconds:g} s")

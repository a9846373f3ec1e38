"""A cancel token: set once, waitable, with callbacks and a reason.

Callers pass one to a call; handlers find theirs in the context.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional

from ..errors import Cancelled
from .deadline import wait_interruptibly
from .forks import new_event, new_rlock
from .tracing import get_logger

__all__ = ["CancelToken"]

_log = get_logger(__name__)


class CancelToken:
    """Tells any number of threads, once, that they should stop.

    The callbacks run on the thread that cancels. One that raises an Exception is logged; whatever it raises, the others still
    run.
    """

    def __init__(self) -> None:
        #: Guards ``_callbacks`` and the one transition of ``_cancelled``; held for dictionary work only.
        self._lock = new_rlock()
        self._cancelled = False
        #: What :meth:`wait` sleeps on, under the one key; made by the first that waits, since most tokens are only asked.
        #: Without the lock, which a signal handler that cancels may need while its own thread begins to wait.
        self._waited: Dict[str, threading.Event] = {}
        self._callbacks: Dict[int, Callable[[], object]] = {}
        self._next = 0
        self._reason: Optional[str] = None

    @property
    def cancelled(self) -> bool:
        """Whether the token was cancelled."""
        return self._cancelled

    @property
    def reason(self) -> Optional[str]:
        """The reason given to :meth:`cancel`; None without one."""
        return self._reason

    def cancel(self, reason: Optional[str] = None) -> bool:
        """Cancel the token; only the first call has an effect.

        :param reason: a sentence for logs and for the exception.
        :returns: whether this call was the first.
        """
        with self._lock:
            if self._cancelled:
                return False
            self._reason, self._cancelled = reason, True
            for event in list(self._waited.values()):
                event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        _run_all(callbacks)
        return True

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run *callback* when the token is cancelled; at once if it already is.

        :param callback: takes no arguments; it runs on the thread that cancels.
        :returns: a function that removes the callback.
        """
        with self._lock:
            if not self._cancelled:
                key = self._next
                self._next += 1
                self._callbacks[key] = callback

                def remove() -> None:
                    with self._lock:
                        self._callbacks.pop(key, None)

                return remove
        callback()
        return lambda: None

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Block until cancelled or until *timeout* seconds have passed; return whether cancelled."""
        event = self._waited.get("event") or self._waited.setdefault("event", new_event())
        return self._cancelled or wait_interruptibly(event.wait, timeout)

    def check(self) -> None:
        """Return if the token was not cancelled.

        :raises Cancelled: it was; with the reason.
        """
        if self._cancelled:
            raise Cancelled(self._reason)


def _run_all(callbacks: List[Callable[[], object]]) -> None:
    """Run callbacks, and remove them from the list; also those behind one that a Ctrl-C ends."""
    try:
        while callbacks:
            try:
                callbacks.pop(0)()
            except Exception:
                _log.exception("a cancel callback failed")
    finally:
        if callbacks:
            _run_all(callbacks)

"""A cancel token: set once, waitable, with callbacks and a reason.

Callers pass one to a call; handlers find theirs in the context.
"""

from __future__ import annotations

import itertools
import threading
from typing import Callable, Dict, Optional, Tuple

from ..errors import Cancelled
from ..protocol.error_text import quoted
from .deadline import wait_interruptibly
from .tracing import get_logger

__all__ = ["CancelToken", "check_token"]

_log = get_logger(__name__)
#: The key of the outcome.
_OUTCOME = "outcome"


class CancelToken:
    """Tells any number of threads, once, that they should stop.

    The callbacks run on the thread that cancels. One that raises an Exception is logged; whatever it raises, the others still
    run.
    """

    def __init__(self) -> None:
        #: The reason, under the one key; empty before the token is cancelled. Each change of it and of ``_callbacks`` is one
        #: step in C, so that no lock is needed: a signal handler may cancel, and a forked process goes on with its copy.
        self._outcome: Dict[str, Tuple[Optional[str]]] = {}
        #: What :meth:`wait` sleeps on, under the one key; made by the first that waits, since most tokens are only asked.
        self._waited: Dict[str, threading.Event] = {}
        self._callbacks: Dict[int, Callable[[], object]] = {}
        self._keys = itertools.count()

    @property
    def cancelled(self) -> bool:
        """Whether the token was cancelled."""
        return bool(self._outcome)

    @property
    def reason(self) -> Optional[str]:
        """The reason given to :meth:`cancel`; None without one."""
        return self._outcome[_OUTCOME][0] if self._outcome else None

    def cancel(self, reason: Optional[str] = None) -> bool:
        """Cancel the token; only the first call has an effect.

        :param reason: a sentence for logs and for the exception.
        :returns: whether this call was the first.
        """
        mine = (reason,)
        if self._outcome.setdefault(_OUTCOME, mine) is not mine:
            return False
        for event in list(self._waited.values()):
            event.set()
        self._run_callbacks()
        return True

    def _run_callbacks(self) -> None:
        """Run the callbacks, and remove them; also those behind one that a Ctrl-C ends."""
        callbacks = self._callbacks
        try:
            for key in list(callbacks):
                callback = callbacks.pop(key, None)  # another thread may remove it, or run it
                if callback is not None:
                    try:
                        callback()
                    except Exception:
                        _log.exception("a cancel callback failed")
        finally:
            if callbacks:
                self._run_callbacks()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run *callback* when the token is cancelled; at once if it already is.

        :param callback: takes no arguments; it runs on the thread that cancels.
        :returns: a function that removes the callback.
        """
        key = next(self._keys)
        self._callbacks[key] = callback
        # Looked at afterwards: either the thread that cancels finds the callback, or this one finds the token cancelled.
        if self._outcome and self._callbacks.pop(key, None) is not None:
            callback()

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Block until cancelled or until *timeout* seconds have passed; return whether cancelled."""
        event = self._waited.get("event") or self._waited.setdefault("event", threading.Event())
        return bool(self._outcome) or wait_interruptibly(event.wait, timeout)

    def check(self) -> None:
        """Return if the token was not cancelled.

        :raises Cancelled: it was; with the reason.
        """
        if self._outcome:
            raise Cancelled(self.reason)


def check_token(cancel: CancelToken) -> None:
    """Check what a caller gave for ``cancel=``.

    :raises TypeError: it is no token, such as an event of :mod:`threading`.
    """
    if not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel= takes an mcplite.CancelToken(), whose cancel() ends the call, not {quoted(cancel)}")

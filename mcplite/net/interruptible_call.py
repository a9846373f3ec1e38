"""One function on another thread, for which its caller waits within the limits of an exchange.

``requests`` blocks in places that no limit reaches: a name's lookup, the pause of a ``Retry``, a hook of the user's. So
:mod:`.session_sender` calls it here, and the caller can stop waiting at any time.
"""

import contextvars
import threading
from typing import Any, Callable, Optional

from ..rpc.deadline import WAKE_SECONDS, WakeSignal
from ..rpc.threads import Workers
from .exchange import Exchange, Stopped

__all__ = ["ThreadedCall"]


class ThreadedCall:
    """One call of a function, on a thread of a pool and with the caller's context variables.

    :param function: what to call.
    :param interrupt: called with the thread's identity when the caller stops waiting: makes the function return, if it can.
    :param on_late: called once the function has ended after that, with what it returned; None if it raised an error.
    """

    def __init__(self, function: Callable[[], Any], interrupt: Callable[[int], object],
                 on_late: Callable[[Any], object]) -> None:
        self._function = function
        self._interrupt = interrupt
        self._on_late = on_late
        #: Guards the fields below, and is held during an interrupt: until then the thread does not begin anything else.
        self._lock = threading.Lock()
        self._finished = False
        self._result: Any = None
        self._error: Optional[BaseException] = None
        #: The thread while it runs the function.
        self._thread: Optional[int] = None
        #: Whether the caller has stopped waiting.
        self.given_up = False
        self._changed = WakeSignal()

    def run(self, workers: Workers, exchange: Exchange) -> Any:
        """Call the function and return its result.

        :raises Stopped: the caller no longer waits; the function may still run.
        :raises BaseException: what the function has raised.
        """
        context = contextvars.copy_context()
        begun = False
        try:
            exchange.watch(self._changed.set)
            exchange.next_timeout()
            begun = True
            workers.spawn(lambda: context.run(self._run))
            while not self._finished:
                self._changed.wait(min(exchange.next_timeout(), WAKE_SECONDS))
        except BaseException:
            if begun and not self._give_up():
                self._on_late(self._result)
            raise
        finally:
            exchange.watch(None)
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # its traceback leads here

    def check(self) -> None:
        """Check, on the thread of the function, that the caller still waits.

        :raises Stopped: it does not.
        """
        if self.given_up:
            raise Stopped

    def _give_up(self) -> bool:
        """Stop to wait; return False if the function has ended."""
        with self._lock:
            if self._finished:
                return False
            self.given_up = True
            if self._thread is not None:
                self._interrupt(self._thread)
        return True

    def _run(self) -> None:
        result, error = None, None
        try:
            self._thread = threading.get_ident()
            self.check()
            result = self._function()
        except BaseException as raised:
            error = raised
        try:
            with self._lock:
                self._thread = None
                if not self.given_up:
                    self._result, self._error, self._finished = result, error, True
            if self.given_up:
                self._on_late(result)
        finally:
            # What the function has used goes with it, and does not wait for a garbage collection.
            del self._function, error, result
            self._changed.set()

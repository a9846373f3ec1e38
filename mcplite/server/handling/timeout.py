"""The time limit of one call of a tool."""

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Alarm"]

_log = logging.getLogger(__name__)


class Alarm:
    """Ends one call of a tool that declared a ``timeout``; it stands still while the tool waits for an answer.

    The client is answered at once; the handler, which cannot be stopped from outside, finds its
    token cancelled, and what it returns is dropped.

    :param context: of the call.
    :param seconds: how long it may run.
    :param expired: gives the result to answer with.
    """

    def __init__(self, context: "Context", seconds: float, expired: Callable[[], Dict[str, Any]]) -> None:
        self._context = context
        self._seconds = seconds
        self._left = seconds
        self._expired = expired
        self._started = 0.0
        self._timer: Optional[threading.Timer] = None

    def start(self) -> None:
        """Start, or go on; the timer's thread ends with :meth:`stop` or by firing, and blocks on nothing else."""
        self._started = time.monotonic()
        self._timer = threading.Timer(self._left, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop; :meth:`start` goes on with what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._left = max(0.0, self._left - (time.monotonic() - self._started))
            self._timer = None

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stand still for the time of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _fire(self) -> None:
        context = self._context
        _log.warning("%r ran for more than its timeout of %g s", context.method, self._seconds)
        context.respond(self._expired())
        context.token.cancel(f"timeout of {self._seconds:g} s")

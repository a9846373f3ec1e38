"""Bodies of responses that follow logs of a shared backend, which any process may write.

The thread of the HTTP request reads the logs and waits for them; no other thread is needed.
"""

import threading
import time
from typing import Dict, List, Optional, Set, Tuple

from ...backend.interface import Backend, Entry
from ...errors import BackendError
from ..limits import Limits
from .messages import KEEP_ALIVE, OPENING, PROBE_SECONDS, EndingBody, retry_event

__all__ = ["LogBody", "read_log"]

#: Seconds of one wait for the logs, after which the body looks whether it shall end.
_WAIT_SECONDS = 0.5
#: Seconds before the next attempt to read a store that cannot be reached.
_AWAY_SECONDS = 1.0


def read_log(backend: Backend, log: str, number: int) -> Tuple[List[Entry], int, bool]:
    """Return the entries of a log after a number, the number up to which that is, and whether entries are missing.

    :raises BackendError: the store failed.
    """
    entries = backend.since(log, number)
    if entries:
        return entries, entries[-1][0], False
    # What was appended may not have been sealed by this server, and is passed over; or the log was dropped, and begins again.
    last = backend.last(log)
    if last == number:
        return [], number, False
    if last < number:
        return backend.since(log, 0) or [], last, True
    later = backend.since(log, number)
    return later or [], later[-1][0] if later else last, entries is None


class LogBody(EndingBody):
    """The body of a response that follows logs, and is iterated by the thread of the request.

    While the store cannot be reached it sends keep-alive comments, and goes on when the store is back.

    :param backend: sealed.
    """

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._limits = limits
        #: Set to end the body.
        self._stopped = threading.Event()
        #: The logs that have grown since they were read.
        self._grown: Optional[Set[str]] = None
        self._begun = False
        self._probed = 0.0
        #: Sent at the end, once another body needs the room of this one.
        self._farewell = b""

    def __iter__(self) -> "LogBody":
        return self

    # --- what follows ---------------------------------------------------------------------------------

    def numbers(self) -> Dict[str, int]:
        """Return the number up to which each log was read."""
        raise NotImplementedError

    def read(self, grown: Set[str]) -> bytes:
        """Read the logs that have grown, and return what is to be sent; sets ``ending`` at the end of the stream.

        :raises BackendError: the store failed.
        """
        raise NotImplementedError

    def idle(self) -> bytes:
        """Called about twice a second while there is nothing to send; returns like :meth:`read`.

        :raises BackendError: the store failed.
        """
        return b""

    def opening(self) -> bytes:
        """Return what is sent first: many WSGI hosts send the headers of a response with the first bytes of its body."""
        return OPENING

    # --- the thread of the request ----------------------------------------------------------------------

    def __next__(self) -> bytes:
        if not self._begun:
            self._begun = True
            return self.opening()
        quiet_until = time.monotonic() + self._limits.keep_alive_seconds
        while True:
            data, farewell = self._read_once(), self._farewell
            if farewell and not self.ending:
                data, self.ending = data + farewell, True
            if data:
                self.last = self.ending
                return data
            if self._ends():
                raise StopIteration
            if time.monotonic() >= quiet_until:
                return KEEP_ALIVE
            self._wait(min(_WAIT_SECONDS, quiet_until - time.monotonic()))

    def _read_once(self) -> bytes:
        if self.ending or self._stopped.is_set():
            return b""
        try:
            grown, self._grown = self._grown, set()
            if grown is None:
                grown = set(self.numbers())
            data = self.read(grown) if grown else b""
            return data or (b"" if self.ending else self.idle())
        except BackendError:
            self._grown = None  # all are read again
            self._stopped.wait(_AWAY_SECONDS)
            return b""

    def _ends(self) -> bool:
        left, now = self.left, time.monotonic()
        if self.ending or self._stopped.is_set() or (left is not None and left <= 0):
            return True
        if now - self._probed < min(PROBE_SECONDS, self._limits.keep_alive_seconds):
            return False
        self._probed = now
        return self.disconnected()

    def _wait(self, seconds: float) -> None:
        left = self.left
        seconds = max(seconds if left is None else min(seconds, left), 0.001)
        began, numbers = time.monotonic(), self.numbers()
        try:
            grown = self._backend.wait(numbers, seconds)
        except BackendError:
            self._grown = None
            self._stopped.wait(_AWAY_SECONDS)
            return
        if self._grown is not None:
            self._grown.update(grown)
        if not grown and time.monotonic() - began < seconds / 2:
            self._stopped.wait(seconds)  # the backend is closed

    @property
    def complete(self) -> bool:
        return False

    def stop(self) -> None:
        self._stopped.set()

    def end_for_now(self, seconds: float) -> None:
        # Read with the next look at the logs, which are followed from there when the client comes back.
        self._farewell = retry_event(max(seconds, self._limits.retry_seconds))

    def close(self) -> None:
        self._stopped.set()
        self.closed()

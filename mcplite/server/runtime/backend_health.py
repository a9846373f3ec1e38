"""Whether the backend can be reached, as all threads of one process find: one line in the log for each outage."""

import threading
import time
from typing import Callable

from ...errors import SERVER_BUSY, BackendError, RemoteError
from ...rpc.tracing import get_logger

__all__ = ["Outage", "away_error"]

_log = get_logger(__name__)
#: Seconds after an outage in which another one is taken for the same: threads do not all find at once that it is over.
_CALM_SECONDS = 10.0
#: Seconds after a failure in which the backend is not tried for each request: somewhat longer than an operation may take. The
#: thread of the letters finds the end sooner.
_KNOWN_SECONDS = 6.0


def away_error() -> RemoteError:
    """Return the error for a request that needs the backend while that fails; over HTTP it is 503 with ``Retry-After``.

    It does not say which store that is and why it fails, which is for the log.
    """
    return RemoteError("Server busy: the store that its processes share cannot be used at present; try again later",
                       code=SERVER_BUSY)


class Outage:
    """The present outage of a backend, if there is one.

    Threads that use the backend again and again tell it what they find, so that an outage is one warning, however many
    threads meet it and however long it lasts.

    :param clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._present = False
        #: When an operation failed last, and when the last outage was over.
        self._found = self._passed = float("-inf")

    def __bool__(self) -> bool:
        return self._present

    def found(self, error: BackendError) -> None:
        """Note that an operation has failed."""
        with self._lock:
            before, self._present = self._present, True
            self._found = self._clock()
            same = self._found - self._passed < _CALM_SECONDS
        if not before and not same:
            _log.warning("what this server shares with other processes is away; what needs it waits or is refused until it is"
                         " back: %s", error)

    def check(self) -> None:
        """Refuse what needs the backend at once, if that has failed a moment ago: a store that hangs costs seconds each time.

        :raises RemoteError: as of :func:`away_error`.
        """
        if self._present and self._clock() - self._found < _KNOWN_SECONDS:
            raise away_error()

    def passed(self) -> None:
        """Note that an operation has succeeded."""
        if not self._present:
            return
        with self._lock:
            before, self._present = self._present, False
            self._passed = self._clock()
        if before:
            _log.info("what this server shares with other processes is back")

"""OpeningLock: one thread opens or renews a session; the others wait as long as their calls may, and share its failure.

A lock alone would have each of them try in turn, with the seconds of ``open_timeout`` for each.
"""

from __future__ import annotations

import contextlib
import copy
import time
from typing import Callable, Iterator, Optional

from ...rpc.forks import new_lock
from ..features.waiting import Waiting
from .rate_limit import RateLimit

__all__ = ["OpeningLock"]


class OpeningLock:
    """The right to open a session in place of one that is lost.

    :param per_minute: how many may be opened in a minute; None for any number.
    """

    def __init__(self, per_minute: Optional[int] = None) -> None:
        self._rate = RateLimit(per_minute)
        #: Held by the thread that opens a session, for as long as that takes; guards the fields below.
        self._lock = new_lock()
        #: How often opening has failed, and the last error. Threads that begin to wait read the number without the lock.
        self._failures = 0
        self._failure: Optional[Exception] = None
        self._admitted = False

    @contextlib.contextmanager
    def hold(self, waiting: Waiting, name: str, now: Callable[[], float] = time.monotonic
             ) -> Iterator[Optional[Exception]]:
        """Wait for the lock and hold it for the block; yield the failure of a thread that has held it meanwhile, or None.

        The block raises that error, if it still needs a session.

        :param waiting: of the call.
        :param name: of the server.
        :param now: the clock of the connection.
        :raises Cancelled, RequestTimeout: the call waits no longer, or the block has ended because of that.
        """
        failures = self._failures
        waiting.wait(lambda seconds: self._lock.acquire(timeout=seconds), name, now)
        try:
            shared = None if self._failure is None or self._failures == failures else _copy(self._failure)
            self._admitted = False
            try:
                yield shared
            except Exception as error:
                if error is shared:
                    raise
                if waiting.over:
                    self._retract()
                    raise waiting.error(name) from error
                self._failures, self._failure = self._failures + 1, error
                raise
            except BaseException:
                self._retract()
                raise
        finally:
            self._lock.release()

    def _retract(self) -> None:
        if self._admitted:
            self._rate.retract()

    def admit(self) -> bool:
        """Count a session that is opened now, or return False if there were too many; only while the lock is held.

        One that is given up because its call ends is not counted.
        """
        self._admitted = self._rate.admit()
        return self._admitted

    @property
    def recent(self) -> int:
        """How many sessions were opened in the last minute."""
        return self._rate.recent


def _copy(error: Exception) -> Exception:
    other = copy.copy(error)  # each thread raises its own, since raising changes it
    other.__cause__ = error.__cause__
    return other

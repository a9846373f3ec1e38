"""RateLimit: bounds events per minute: a server's questions (ELIC-22, SAMP-21), new sessions, restarts."""

from __future__ import annotations

import time
from collections import deque
from typing import Callable, Deque, Optional

from ...rpc.forks import new_lock

__all__ = ["RateLimit"]


class RateLimit:
    """Admits a number of events in any sixty seconds.

    :param per_minute: their number; None for no limit.
    :param clock: returns seconds.
    """

    def __init__(self, per_minute: Optional[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._per_minute = per_minute
        #: Guards ``_admitted``: the latest times, oldest first.
        self._lock = new_lock()
        self._admitted: Deque[float] = deque(maxlen=per_minute)

    @property
    def recent(self) -> int:
        """How many events were admitted in the last sixty seconds."""
        now = self._clock()
        with self._lock:
            return sum(now - at < 60 for at in self._admitted)

    def admit(self) -> bool:
        """Count one more event, or return False if there were too many."""
        if self._per_minute is None:
            return True
        now = self._clock()
        with self._lock:
            if len(self._admitted) == self._per_minute and now - self._admitted[0] < 60:
                return False
            self._admitted.append(now)  # the oldest falls out
            return True

    def retract(self) -> None:
        """Do not count the latest event."""
        with self._lock:
            if self._admitted:
                self._admitted.pop()

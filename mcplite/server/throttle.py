"""A token bucket: so many messages at once, then so many a second."""

import time
from typing import Optional

__all__ = ["Throttle"]


class Throttle:
    """Says whether one more message may go out now; not thread-safe, its owner locks.

    :param rate: messages a second; None for no bound.
    :param burst: messages that may go out at once before the rate counts; one at least.
    """

    __slots__ = ("_rate", "_burst", "_tokens", "_last")

    def __init__(self, rate: Optional[float], burst: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._tokens = self._burst
        self._last = time.monotonic()

    def allow(self) -> bool:
        """Take a token if there is one."""
        if self._rate is None:
            return True
        if self._tokens < 1:
            # The clock is read only when the burst is spent: a short run of messages costs nothing.
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
            self._last = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True

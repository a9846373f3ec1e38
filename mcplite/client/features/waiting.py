"""Waiting: what is left of a call's limits, and its token, while it waits for a session that another step opens.

The client, and the sessions that are renewed, use it for calls that find no open session.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Callable, Iterator, List, Optional, Tuple

from ...errors import Cancelled, MCPError, RequestTimeout
from ...rpc.cancel import CancelToken

__all__ = ["Waiting"]

#: Seconds that a thread sleeps before it looks at the token and at the time again.
_SLICE_SECONDS = 0.05
#: A limit with less than that is over: the timeouts of requests that share it are rounded.
_OVER_SECONDS = 0.01


class Waiting:
    """The wait of one call for a session. It belongs to one thread.

    :param timeout, max_timeout, cancel: those of the call; None for no limit.
    :param what: has not happened when the time is over, as the second part of a sentence.
    :param spent: seconds of the limits that are gone.
    """

    def __init__(self, timeout: Optional[float] = None, max_timeout: Optional[float] = None,
                 cancel: Optional[CancelToken] = None, what: str = "has not opened a session", spent: float = 0.0) -> None:
        self.cancel = cancel
        self.spent = spent
        self._what = what
        #: Each limit: how much of ``spent`` ends it, and how an error names it.
        self._ends: List[Tuple[float, str]] = []
        if timeout is not None:
            # One that has passed was restarted by progress.
            self._ends.append((timeout if spent < timeout else spent + timeout, f"{timeout:g} s (timeout)"))
        if max_timeout is not None:
            self._ends.append((max_timeout, f"{max_timeout:g} s in all (max_timeout)"))

    def least(self, seconds: Optional[float]) -> float:
        """Return *seconds*, or what is left of the limits if that is less; None for no other limit."""
        return max(0.001, min([math.inf if seconds is None else seconds, *(end - self.spent for end, _ in self._ends)]))

    @property
    def over(self) -> bool:
        """Whether the call waits no longer: a limit has passed, or it was cancelled."""
        return self.least(None) <= _OVER_SECONDS or (self.cancel is not None and self.cancel.cancelled)

    def error(self, name: str) -> MCPError:
        """Return the error for a call that waits no longer.

        :param name: of the server.
        """
        if self.cancel is not None and self.cancel.cancelled:
            return Cancelled(self.cancel.reason)
        return RequestTimeout(f"{name} {self._what} within {min(self._ends)[1]}; its session was being opened")

    def wait(self, wait: Callable[[float], bool], name: str, now: Callable[[], float] = time.monotonic) -> None:
        """Wait until *wait* returns True.

        :param wait: waits for so many seconds at most.
        :param now: the clock of the connection, which stands still while a user logs in.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        while True:
            if self.over:
                raise self.error(name)
            with self.counting(now):
                if wait(self.least(_SLICE_SECONDS)):
                    return

    @contextlib.contextmanager
    def counting(self, now: Callable[[], float]) -> Iterator[None]:
        """Count the seconds of the block, by the clock of the connection."""
        begun = now()
        try:
            yield
        finally:
            self.spent += now() - begun

"""How often a client opens sessions, answers and repeats a request: one opening at a time, events per minute, pauses.

:class:`OpeningLock`: one thread opens or renews a session; the others wait as long as their calls may, and share its failure.
A lock alone would have each of them try in turn, with the seconds of ``open_timeout`` for each. :func:`send_again` repeats a
request after 429 or 503 with ``Retry-After``, if it may run twice.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, Optional, Union

from ...errors import HTTPStatusError, RemoteError
from ...protocol.meta import REPEATABLE
from ...rpc.cancel import CancelToken
from ..call import Call, Waiting

__all__ = ["OpeningLock", "RateLimit", "send_again"]


class RateLimit:
    """Admits a number of events in any sixty seconds.

    :param per_minute: their number; None for no limit.
    :param clock: returns seconds.
    """

    def __init__(self, per_minute: Optional[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._per_minute = per_minute
        #: Guards ``_admitted``: the latest times, oldest first.
        self._lock = threading.Lock()
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


class OpeningLock:
    """The right to open a session in place of one that is lost.

    :param per_minute: how many may be opened in a minute; None for any number.
    """

    def __init__(self, per_minute: Optional[int] = None) -> None:
        self._rate = RateLimit(per_minute)
        #: Held by the thread that opens a session, for as long as that takes; guards the fields below.
        self._lock = threading.Lock()
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
            self._admitted = given_up = False
            try:
                given_up = True  # if Ctrl-C ends the block
                yield shared
                given_up = False
            except Exception as error:
                given_up = error is not shared and waiting.over
                if given_up:
                    raise waiting.error(name) from error
                if error is not shared:
                    self._failures, self._failure = self._failures + 1, error
                raise
            finally:
                if given_up and self._admitted:
                    self._rate.retract()
        finally:
            self._lock.release()

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


Refusal = Union[RemoteError, HTTPStatusError]
#: Seconds for which a request is repeated; its own time limits may be shorter.
_MOST_SECONDS = 60.0
#: Seconds between two attempts at most; a server that asks for longer pauses is not asked again.
_LONGEST_PAUSE_SECONDS = 10.0
#: Seconds between two attempts at least, whatever the server asks for.
_SHORTEST_PAUSE_SECONDS = 0.1
#: A handshake that was refused has opened no session.
_REPEATED = REPEATABLE | {"initialize"}
#: These have attempts of their own.
_OTHERWISE = frozenset({"subscriptions/listen"})


def send_again(send: Callable[[Call], Dict[str, Any]], call: Call, error: Refusal, spent: float) -> Dict[str, Any]:
    """Send a request again that a server has refused, while it is busy, and return its result.

    It is repeated only if it may run twice, or continues a call with ``requestState``, which a server takes once. The pause
    is the server's, and longer with each attempt. Both limits of the call hold for all attempts together.

    :param error: the refusal, which is raised again if it does not ask for another attempt.
    :param spent: the seconds of the call's limits that the first attempt took.
    :raises RemoteError, HTTPStatusError: the last answer of a server that stays busy, or what it answered otherwise.
    :raises Cancelled: the call was cancelled meanwhile.
    """
    if call.method in _OTHERWISE or (call.method not in _REPEATED and "requestState" not in (call.params or {})):
        raise error
    waiting, attempts = Waiting(call.timeout, call.max_timeout, call.cancel, spent=call.spent + spent), 0
    begun, left = time.monotonic(), waiting.least(_MOST_SECONDS)
    while True:
        attempts += 1
        asked = error.retry_after
        pause = None if asked is None else min(max(asked, _SHORTEST_PAUSE_SECONDS) * attempts,
                                               max(asked, _LONGEST_PAUSE_SECONDS))
        if pause is None or pause > _LONGEST_PAUSE_SECONDS or time.monotonic() - begun + pause >= left:
            raise error
        _wait(pause, call.cancel)
        try:
            return send(call._replace(id=None, spent=waiting.spent + time.monotonic() - begun))
        except (RemoteError, HTTPStatusError) as refusal:
            error = refusal


def _wait(seconds: float, cancel: Optional[CancelToken]) -> None:
    if cancel is None:
        time.sleep(seconds)
    elif cancel.wait(seconds):
        cancel.check()

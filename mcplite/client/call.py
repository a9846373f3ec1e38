"""Call: one request with its time limits, cancellation and progress, in one value, which all layers pass on.

:class:`Waiting`: what is left of the limits of a call while it waits for a session that another step opens.

:class:`OpeningLock`: one thread opens or renews a session. Other threads wait as long as the limits of their calls allow, and
raise the same error if that thread fails. With a plain lock, they would try one after another, each for ``open_timeout``
seconds.

:func:`send_again`: repeats a request after 429 or 503 with ``Retry-After``, if it may run twice.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from ..errors import Cancelled, HTTPStatusError, MCPError, RemoteError, RequestTimeout, copied
from ..protocol.error_text import Option, OptionText, quoted
from ..protocol.meta import REPEATABLE
from ..rpc.cancel import CancelToken, check_token
from ..types import Progress, codec

__all__ = [
    "Call", "DEFAULT", "Middleware", "OnProgress", "OpeningLock", "RateLimit", "RequestOptions", "Waiting", "check_positive",
    "progress_reader", "send_again", "sleep", "time_limits",
]

#: The default of ``timeout`` and ``max_timeout`` in calls: the value of the client is used. In contrast, None means no limit.
DEFAULT: Any = object()
#: The members of most progress notifications, and the types of their numbers.
_USUAL, _NUMBERS = {"progressToken", "progress", "total"}, (int, float)
OnProgress = Callable[[Progress], object]
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]


class RequestOptions(NamedTuple):
    """The keywords of one call as its caller gave them; :meth:`Features.request` documents them."""

    timeout: Optional[float] = DEFAULT
    max_timeout: Optional[float] = DEFAULT
    cancel: Optional[CancelToken] = None
    on_progress: Optional[OnProgress] = None
    meta: Optional[Dict[str, Any]] = None
    fresh: bool = False
    rounds: bool = True
    input_responses: Optional[Mapping[str, Any]] = None
    request_state: Optional[str] = None
    #: Seconds of its limits that were spent on opening a session.
    spent: float = 0.0


class Call(NamedTuple):
    """One request with all its options; :class:`Features` makes most, and sessions those of their own."""

    method: str
    params: Optional[Dict[str, Any]] = None
    #: Seconds without an answer; progress restarts them. None waits without a limit.
    timeout: Optional[float] = None
    #: Seconds in all, whatever the progress; None for no such limit.
    max_timeout: Optional[float] = None
    cancel: Optional[CancelToken] = None
    #: Gets the params of each progress notification.
    on_progress: Optional[Callable[[Dict[str, Any]], object]] = None
    #: Whether the client's handlers answer when the server asks for input; if they do not, ``InputNeeded`` is raised.
    rounds: bool = True
    #: Whether a cached result may not be used.
    fresh: bool = False
    #: Headers beyond those of the method, on a channel that carries headers.
    headers: Mapping[str, str] = {}
    #: Whether the server is notified when the call is cancelled.
    notice: bool = True
    #: Whether the response comes only at the end of something that lasts long, such as a subscription.
    lasting: bool = False
    #: Members of ``_meta`` that replace the client's own, for a request that is passed on for another client, in revisions
    #: where each request names its sender. A member whose value is None is left out.
    sender: Optional[Mapping[str, Any]] = None
    #: The id of its first message, from ``Peer.new_id``; None for a new id. Later messages of the call always have new ids.
    id: Optional[int] = None
    #: Seconds of its limits that are gone: they were spent on opening a session, or on an earlier message.
    spent: float = 0.0

    def waiting(self, spent: float, now: Callable[[], float]) -> Waiting:
        """Return what is left of the limits of the call, of which *spent* seconds are gone by the clock *now*."""
        return Waiting(self.timeout, self.max_timeout, self.cancel, f"did not answer {self.method!r}", spent, now)


def progress_reader(report: OnProgress) -> Callable[[Dict[str, Any]], object]:
    """Return a function that decodes the params of a progress notification and calls *report*."""
    decode = codec.decoder(Progress)

    def read(params: Dict[str, Any]) -> None:
        if params.keys() == _USUAL and type(params["progress"]) in _NUMBERS and type(params["total"]) in _NUMBERS:
            # Most servers send exactly these members. The result is that of the decoder, in half of its time.
            report(Progress(params["progress"], params["total"]))
            return
        params = params.copy()
        params.pop("progressToken", None)
        report(decode(params))

    return read


def time_limits(timeout: Optional[float], max_timeout: Optional[float],
                defaults: Tuple[Optional[float], Optional[float]]) -> Tuple[Optional[float], Optional[float]]:
    """Return ``timeout`` and ``max_timeout`` of a call: the values of its caller, and the client's defaults for the others.

    If the timeout is longer than a default maximum, it becomes the maximum as well. If it is longer than a maximum that the
    caller gave, it is None in the result, so that an error names the limit that holds.

    :raises ValueError: one of them is not positive.
    """
    if timeout is not DEFAULT:
        check_positive("timeout", timeout)
    if max_timeout is not DEFAULT:
        check_positive("max_timeout", max_timeout)
    seconds = defaults[0] if timeout is DEFAULT else timeout
    most = defaults[1] if max_timeout is DEFAULT else max_timeout
    if seconds is None and max_timeout is DEFAULT:
        return None, None  # without a timeout, the default maximum does not hold either
    if most is not None and seconds is not None and most < seconds:
        return (seconds, seconds) if max_timeout is DEFAULT else (None, most)
    return seconds, most


def check_positive(name: str, value: Optional[float]) -> None:
    """Check that a number is None or more than zero.

    :raises ValueError: it is zero or less; the text has its name.
    :raises TypeError: it is no number.
    """
    if value is None:
        return
    try:
        positive = 0.0 + value > 0
    except TypeError:
        raise TypeError(OptionText(Option(name, name), f" must be a positive number or None, not {quoted(value)}")) from None
    if not positive:
        raise ValueError(OptionText(Option(name, name), f" must be positive, not {value!r}"))


#: Seconds that a thread sleeps before it looks at the token and at the time again.
_SLICE_SECONDS = 0.05
#: If fewer seconds than these are left of a limit, it counts as over: the timeouts of the requests within it are rounded.
_OVER_SECONDS = 0.01


class Waiting:
    """The wait of one call for a session: what is left of its limits. It belongs to one thread.

    :param timeout, max_timeout, cancel: those of the call; None for no limit.
    :param what: the event that did not happen in time, as an error says it after the name of the server.
    :param spent: seconds of the limits that are gone.
    :param now: the clock of the client, which stands still while a person is asked.
    """

    def __init__(self, timeout: Optional[float] = None, max_timeout: Optional[float] = None,
                 cancel: Optional[CancelToken] = None, what: str = "has not opened a session", spent: float = 0.0,
                 now: Callable[[], float] = time.monotonic) -> None:
        if cancel is not None:
            check_token(cancel)
        self.cancel = cancel
        self._what, self._now, self._begun = what, now, now() - spent
        #: For each limit: the value of ``spent`` at which it is over, and how an error names it.
        self._ends: List[Tuple[float, str]] = []
        if timeout is not None:
            # If more than the timeout is spent, progress has restarted it. So it begins again now.
            self._ends.append((timeout if spent < timeout else spent + timeout, f"{timeout:g} s (timeout)"))
        if max_timeout is not None:
            self._ends.append((max_timeout, f"{max_timeout:g} s in all (max_timeout)"))

    @property
    def spent(self) -> float:
        """The seconds of the limits that are gone."""
        return self._now() - self._begun

    def least(self, seconds: Optional[float]) -> float:
        """Return *seconds* (None for no limit), or what is left of the limits of the call if that is less; at least 0.001."""
        spent = self.spent
        return max(0.001, min([math.inf if seconds is None else seconds, *(end - spent for end, _ in self._ends)]))

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

    def wait(self, wait: Callable[[float], bool], name: str) -> None:
        """Wait until *wait* returns True.

        :param wait: waits for the given seconds at most; returns whether the event has come that the call waits for.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        while True:
            if self.over:
                raise self.error(name)
            if wait(self.least(_SLICE_SECONDS)):
                return


def sleep(seconds: float, cancel: Optional[CancelToken]) -> None:
    """Sleep for *seconds*, or until the token is cancelled.

    :raises Cancelled: the token was cancelled.
    """
    cancel = cancel or CancelToken()
    cancel.wait(seconds)
    cancel.check()


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
    """A lock for opening a session in place of a lost one: waiting threads have time limits, and learn of a failure.

    :param per_minute: how many sessions may be opened in a minute; None for any number.
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
    def hold(self, waiting: Waiting, name: str) -> Iterator[Optional[Exception]]:
        """Wait for the lock and hold it for the block; yield the error of a thread that failed while this one waited, or None.

        The block raises that error, if it still needs a session.

        :param waiting: of the call.
        :param name: of the server.
        :raises Cancelled, RequestTimeout: the call waits no longer, or the block has ended because of that.
        """
        failures = self._failures
        waiting.wait(lambda seconds: self._lock.acquire(timeout=seconds), name)
        shared = None if self._failure is None or self._failures == failures else _copy(self._failure)
        self._admitted, given_up = False, True  # given_up stays true if Ctrl-C ends the block
        try:
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
            self._lock.release()

    def admit(self) -> bool:
        """Count a session that is opened now, or return False if there were too many; only while the lock is held.

        A session that is given up because its call ends is not counted.
        """
        self._admitted = self._rate.admit()
        return self._admitted

    @property
    def recent(self) -> int:
        """How many sessions were opened in the last minute."""
        return self._rate.recent


def _copy(error: Exception) -> Exception:
    other = copied(error)
    other.__cause__ = error.__cause__
    return other


Refusal = Union[RemoteError, HTTPStatusError]
#: Seconds for which a request is repeated; its own time limits may be shorter.
_MOST_SECONDS = 60.0
#: Seconds between two attempts at most; a server that asks for longer pauses is not asked again.
_LONGEST_PAUSE_SECONDS = 10.0
#: Seconds between two attempts at least, whatever the server asks for.
_SHORTEST_PAUSE_SECONDS = 0.1
#: The methods that may be sent again. ``initialize`` is one of them: a refused handshake has opened no session.
_REPEATED = REPEATABLE | {"initialize"}
#: The methods that are not sent again here, since a subscription makes attempts of its own.
_OTHERWISE = frozenset({"subscriptions/listen"})


def send_again(send: Callable[[Call], Dict[str, Any]], call: Call, error: Refusal, spent: float) -> Dict[str, Any]:
    """Send a request again that a busy server has refused, and return its result.

    It is repeated only if it may run twice, or if it continues a call with ``requestState``, which a server accepts only once.
    The pause is the one that the server asks for, times the number of the attempt, up to 10 seconds. Both limits of the call
    hold for all attempts together.

    :param error: the refusal, which is raised again if it does not ask for another attempt.
    :param spent: the seconds of the call's limits that the first attempt took.
    :raises RemoteError, HTTPStatusError: the last answer of a server that stays busy, or another error that it answered with.
    :raises Cancelled: the call was cancelled meanwhile.
    """
    if call.method in _OTHERWISE or (call.method not in _REPEATED and "requestState" not in (call.params or {})):
        raise error
    waiting, attempts = Waiting(call.timeout, call.max_timeout, call.cancel, spent=call.spent + spent), 0
    end = time.monotonic() + waiting.least(_MOST_SECONDS)
    while True:
        attempts += 1
        asked = error.retry_after
        pause = None if asked is None else min(max(asked, _SHORTEST_PAUSE_SECONDS) * attempts,
                                               max(asked, _LONGEST_PAUSE_SECONDS))
        if pause is None or pause > _LONGEST_PAUSE_SECONDS or time.monotonic() + pause >= end:
            raise error
        sleep(pause, call.cancel)
        try:
            return send(call._replace(id=None, spent=waiting.spent))
        except (RemoteError, HTTPStatusError) as refusal:
            error = refusal

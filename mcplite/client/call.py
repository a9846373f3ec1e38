"""Call: one request with its time limits, cancellation and progress, in one value.

The layers of a session pass it on and replace single fields, in place of eight arguments each. :class:`FeatureSession` is the
part of an open session that calls use; the sessions of both eras implement it. :class:`Waiting` is what is left of a call's
limits while it waits for a session that another step opens.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..errors import Cancelled, MCPError, RequestTimeout
from ..protocol.error_text import Option, OptionText
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..types import Progress, ServerCapabilities, Tool, codec

__all__ = [
    "Call", "DEFAULT", "FeatureSession", "OnProgress", "RequestOptions", "Waiting", "check_positive", "progress_reader",
    "time_limits",
]

#: The default of a time, in contrast to None, which means no limit.
DEFAULT: Any = object()
#: The members of most progress notifications, and the types of their numbers.
_USUAL, _NUMBERS = {"progressToken", "progress", "total"}, (int, float)
OnProgress = Callable[[Progress], object]


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
    """One request; made once, by :meth:`Features.request`, and handed down whole."""

    method: str
    params: Optional[Dict[str, Any]] = None
    #: Seconds without progress; None waits without a limit.
    timeout: Optional[float] = None
    #: Seconds in all.
    max_timeout: Optional[float] = None
    cancel: Optional[CancelToken] = None
    #: Gets the params of each progress notification.
    on_progress: Optional[Callable[[Dict[str, Any]], object]] = None
    #: Whether the client's handlers answer when the server asks for input; else ``InputNeeded`` is raised.
    rounds: bool = True
    #: Whether a cached result may not be used.
    fresh: bool = False
    #: Headers beyond those of the method, on a channel that carries headers.
    headers: Mapping[str, str] = {}
    #: Whether the server is notified when the call is cancelled.
    notice: bool = True
    #: Whether the response comes at the end of something that goes on for long.
    lasting: bool = False
    #: The members of ``_meta`` in place of the client's own, where each request names its sender: one that is passed on for
    #: another client. None as a value leaves a member out.
    sender: Optional[Mapping[str, Any]] = None
    #: The id of its first message, from ``Peer.new_id``; None takes a new one. Later messages always have new ones.
    id: Optional[int] = None
    #: Seconds of its limits that are gone: they were spent on opening a session, or on an earlier message.
    spent: float = 0.0


def progress_reader(report: OnProgress) -> Callable[[Dict[str, Any]], object]:
    """Return a function that decodes the params of a progress notification and calls *report*."""
    decode = codec.decoder(Progress)

    def read(params: Dict[str, Any]) -> None:
        if params.keys() == _USUAL and type(params["progress"]) in _NUMBERS and type(params["total"]) in _NUMBERS:
            # What most servers send, and what the decoder makes of it, for half of the time of a report.
            report(Progress(params["progress"], params["total"]))
            return
        params = params.copy()
        params.pop("progressToken", None)
        report(decode(params))

    return read


def time_limits(timeout: Optional[float], max_timeout: Optional[float],
                defaults: Tuple[Optional[float], Optional[float]]) -> Tuple[Optional[float], Optional[float]]:
    """Return ``timeout`` and ``max_timeout`` of a call: those of the caller, else the client's defaults.

    A value of the caller wins over a default of the other: a given timeout may exceed the default maximum. A timeout beyond
    the maximum is None, so that an error names the limit that holds.

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
    """Return when a number is None or more than zero.

    :raises ValueError: it is not; the text has its name.
    """
    if value is not None and not value > 0:
        raise ValueError(OptionText(Option(name, name), f" must be positive, not {value!r}"))


class FeatureSession:
    """The part of an open session that the calls of :class:`~.calls.Features` use."""

    #: The server's name in errors.
    name: str
    #: Declared by the server.
    capabilities: ServerCapabilities
    #: Whether the server notifies changes only on streams that the client opens, one for each subscription.
    change_streams = False

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        raise NotImplementedError

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`."""
        raise NotImplementedError

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        raise NotImplementedError

    def usable_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called over this session."""
        return tools

    def set_level(self, level: str) -> bool:
        """Make each later request ask for log messages of a level; False where the level needs a request of its own."""
        return False

    def now(self) -> float:
        """Return the seconds that count for time limits; they stand still while a question of the server is answered."""
        raise NotImplementedError

    def answer_inputs(self, requests: Dict[str, Any], cancel: Optional[CancelToken]) -> Dict[str, Any]:
        """Return the answers of the client's handlers to questions outside of a call, by key; see :class:`InputRounds`."""
        raise NotImplementedError


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

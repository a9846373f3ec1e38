"""Call: one request with its time limits, cancellation and progress, in one value.

The layers of a session pass it on and replace single fields, in place of eight arguments each.
"""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from ..protocol import codec
from ..protocol.error_text import Option, OptionText
from ..rpc.cancel import CancelToken
from ..types import Progress

__all__ = ["DEFAULT", "Call", "OnProgress", "RequestOptions", "check_positive", "progress_reader", "time_limits"]

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

"""Call: one request and everything that says how it is to be made, in one value."""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from ...protocol import codec
from ...rpc.cancel import CancelToken
from ...types import Progress

__all__ = ["DEFAULT", "Call", "OnProgress", "check_positive", "progress_reader", "time_limits"]

#: A time that was not given, in contrast to None, which is no limit.
DEFAULT: Any = object()
OnProgress = Callable[[Progress], object]


class Call(NamedTuple):
    """One request; made once, by :meth:`Features.request`, and handed down whole."""

    method: str
    params: Optional[Dict[str, Any]] = None
    #: Seconds without a sign of progress; None waits for ever.
    timeout: Optional[float] = None
    #: Seconds in all.
    max_timeout: Optional[float] = None
    cancel: Optional[CancelToken] = None
    #: Gets the params of each progress notification.
    on_progress: Optional[Callable[[Dict[str, Any]], object]] = None
    #: Whether the client's handlers answer when the server asks for input; else ``InputNeeded`` is raised.
    rounds: bool = True
    #: Whether only a new answer of the server will do, and no cached one.
    fresh: bool = False
    #: Headers beyond those of the method, on a channel that carries headers.
    headers: Mapping[str, str] = {}
    #: Whether the server is told when the call is given up.
    notice: bool = True


def progress_reader(report: OnProgress) -> Callable[[Dict[str, Any]], object]:
    """Return what decodes the params of a progress notification for *report*."""
    def read(params: Dict[str, Any]) -> None:
        report(codec.decode(Progress, {key: value for key, value in params.items() if key != "progressToken"}))

    return read


def time_limits(timeout: Optional[float], max_timeout: Optional[float],
                defaults: Tuple[Optional[float], Optional[float]]) -> Tuple[Optional[float], Optional[float]]:
    """Return ``timeout`` and ``max_timeout`` of a call from what the caller gave, and the client's defaults for the rest.

    What was given wins over a default: a given timeout may exceed the default of the other.

    :raises ValueError: one of them is not positive.
    """
    if timeout is not DEFAULT:
        check_positive("timeout", timeout)
    if max_timeout is not DEFAULT:
        check_positive("max_timeout", max_timeout)
    seconds = defaults[0] if timeout is DEFAULT else timeout
    most = defaults[1] if max_timeout is DEFAULT else max_timeout
    if seconds is None and max_timeout is DEFAULT:
        return None, None  # without a timeout there is no limit in all, unless it was given
    if most is not None and seconds is not None and most < seconds:
        return (seconds, seconds) if max_timeout is DEFAULT else (most, most)
    return seconds, most


def check_positive(name: str, value: Optional[float]) -> None:
    """Return when a number is None or more than zero.

    :raises ValueError: it is not; the text has its name.
    """
    if value is not None and not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}")

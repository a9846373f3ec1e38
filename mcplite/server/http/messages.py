"""The HTTP response that the endpoint returns to hosts, the refusal of a request, and a body that cannot be read.

The hosts are :mod:`mcplite.server.transports`: our own HTTP server and WSGI. Requests are in
:mod:`mcplite.server.handling.http_request`, since handlers see them.
"""

import time
from dataclasses import dataclass, field
from typing import Callable, Hashable, Iterable, Iterator, List, Optional, Tuple

from ...errors import INVALID_REQUEST
from ...protocol import jsonrpc
from ...protocol.http.headers import Headers
from ...revisions import find_revision
from ..handling.http_request import never_disconnected
from ..limits import Limits

__all__ = [
    "EVENTS", "EndingBody", "HTTPResponse", "KEEP_ALIVE", "OPENING", "PROBE_SECONDS", "Rejection", "SESSION", "StreamingBody",
    "UnreadableBody", "VERSION", "do_nothing", "names_modern", "priming_event", "retry_event",
]

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
#: The headers of an event stream.
EVENTS = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store, no-transform"), ("X-Accel-Buffering", "no")]
#: Comments of an event stream.
KEEP_ALIVE = b": keep-alive\n\n"
OPENING = b": open\n\n"
#: Seconds between two checks whether the client of a waiting body has disconnected.
PROBE_SECONDS = 5.0


class UnreadableBody(Exception):
    """A request's body is too large, too slow, or does not match its headers.

    :param status: of the response; the connection is closed after it, since the end of the body is not known.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def do_nothing() -> None:
    """The default of optional callbacks."""


class StreamingBody:
    """The body of a streaming response; each piece is sent at once.

    One thread iterates and closes it.
    """

    #: Whether the piece returned last is the final one, so that the end of the response can be sent with it.
    last: bool = False
    #: Whether the response lasts until one side ends it, and the client begins another one then.
    lasting: bool = False

    @property
    def complete(self) -> bool:
        """Whether all pieces are already there, so that iterating does not block."""
        return False

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError

    def stop(self) -> None:
        """End the iteration, from any thread, because the client has disconnected."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the body, after the response has been sent or has failed. Idempotent."""
        raise NotImplementedError


class EndingBody(StreamingBody):
    """The body of an event stream, which ends with the stream, with its client, or at a certain time."""

    #: Set to end this body after the messages that are there.
    ending = False
    #: When the body must end, by the monotonic clock.
    _due: Optional[float] = None
    #: Called at that time.
    on_due: Callable[[], object] = staticmethod(do_nothing)
    #: Returns whether the client has disconnected, as far as the host can tell.
    disconnected: Callable[[], bool] = staticmethod(never_disconnected)
    #: Called once when the response has ended.
    on_close: Optional[Callable[[], object]] = None
    #: Names the stream, so that its client is known when it comes back; None if it cannot be.
    name: Hashable = None
    #: Whether the session ends with this body, so that its client cannot come back.
    ends_session = False
    #: Whether its client could not get the rest of the stream by another body.
    must_stay = False

    def end_after(self, seconds: float, end: Callable[[], object]) -> None:
        """End the body after a time; called before it is iterated.

        :param end: called at that time; messages that it sends are still delivered.
        """
        self._due, self.on_due = time.monotonic() + seconds, end

    def end_for_now(self, seconds: float) -> None:
        """End the body after the messages that are there; from any thread.

        :param seconds: after which the client should come back, at least.
        """
        raise NotImplementedError

    @property
    def left(self) -> Optional[float]:
        """The seconds until the body must end; None for no limit."""
        return None if self._due is None or self.ending else self._due - time.monotonic()

    def closed(self) -> None:
        """Call :attr:`on_close`, the first time."""
        callback, self.on_close = self.on_close, None
        if callback is not None:
            callback()


@dataclass
class HTTPResponse:
    """One response; the host that sends it calls :meth:`close` in any case."""

    #: 0 if a route has written the response itself.
    status: int
    headers: List[Tuple[str, str]] = field(default_factory=list)
    #: A :class:`StreamingBody` if ``streaming``.
    body: Iterable[bytes] = ()
    #: Whether the length of the body is not known, and each piece is sent at once.
    streaming: bool = False

    @property
    def content(self) -> bytes:
        """The whole body of a response that is not streaming."""
        return b"".join(self.body)

    def close(self) -> None:
        """Release the body."""
        if self.streaming:
            assert isinstance(self.body, StreamingBody)
            self.body.close()


@dataclass
class Rejection:
    """The refusal of a request: a JSON-RPC error as body, without an id unless one could be read (HTTP-07)."""

    status: int
    message: str
    code: int = INVALID_REQUEST
    id: Optional[jsonrpc.Id] = None
    headers: List[Tuple[str, str]] = field(default_factory=list)
    #: Error data.
    data: object = None
    #: Whether the connection cannot be reused, because the body was not read.
    close: bool = False


def names_modern(headers: Headers) -> bool:
    """Whether a request's header names a revision without sessions, in which each request stands alone."""
    version = headers.get(VERSION)
    named = None if version is None else find_revision(version)
    return named is not None and named.modern


def priming_event(id: str, limits: Limits) -> bytes:
    """Return the empty event at the beginning of a stream, after which it can be resumed (HTTP-15)."""
    return b"id: %s\nretry: %d\ndata:\n\n" % (id.encode("ascii"), round(limits.retry_seconds * 1000))


def retry_event(seconds: float) -> bytes:
    """Return what tells a client when to come back (HTTP-16)."""
    return b"retry: %d\n\n" % round(seconds * 1000)

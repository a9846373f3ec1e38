"""The HTTP response that the endpoint returns to hosts, the refusal of a request, and a body that cannot be read.

The hosts are :mod:`mcplite.server.transports`: our own HTTP server and WSGI. Requests are in
:mod:`mcplite.server.handling.http_request`, since handlers see them.
"""

from typing import Iterable, List, Optional, Tuple

from ...errors import INVALID_REQUEST
from ...protocol import jsonrpc
from ...protocol.http.headers import Headers
from ...revisions import find_revision
from ..state.response_bodies import StreamingBody

__all__ = ["EVENTS", "HTTPResponse", "Rejection", "SESSION", "UnreadableBody", "VERSION", "names_modern"]

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
#: The headers of an event stream.
EVENTS = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store, no-transform"), ("X-Accel-Buffering", "no")]


class UnreadableBody(Exception):
    """A request's body is too large, too slow, or does not match its headers.

    :param status: of the response; the connection is closed after it, since the end of the body is not known.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HTTPResponse:
    """One response; the host that sends it calls :meth:`close` in any case.

    :param status: 0 if a route has written the response itself.
    :param body: a :class:`StreamingBody` if *streaming*.
    :param streaming: whether the length of the body is not known, and each piece is sent at once.
    """

    def __init__(self, status: int, headers: Optional[List[Tuple[str, str]]] = None, body: Iterable[bytes] = (),
                 streaming: bool = False) -> None:
        self.status = status
        self.headers = [] if headers is None else headers
        self.body = body
        self.streaming = streaming

    @property
    def content(self) -> bytes:
        """The whole body of a response that is not streaming."""
        return b"".join(self.body)

    def close(self) -> None:
        """Release the body."""
        if self.streaming:
            assert isinstance(self.body, StreamingBody)
            self.body.close()


class Rejection:
    """The refusal of a request: a JSON-RPC error as body, without an id unless one could be read (HTTP-07).

    :param data: of the error.
    :param close: whether the connection cannot be reused, because the body was not read.
    """

    def __init__(self, status: int, message: str, code: int = INVALID_REQUEST, id: Optional[jsonrpc.Id] = None,
                 headers: Optional[List[Tuple[str, str]]] = None, data: object = None, close: bool = False) -> None:
        self.status = status
        self.message = message
        self.code = code
        self.id = id
        self.headers = [] if headers is None else headers
        self.data = data
        self.close = close


def names_modern(headers: Headers) -> bool:
    """Whether a request's header names a revision without sessions, in which each request stands alone."""
    version = headers.get(VERSION)
    named = None if version is None else find_revision(version)
    return named is not None and named.modern

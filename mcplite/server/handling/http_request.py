"""The HTTP request that brought a message: hosts make it, the endpoint reads it, and handlers see it as ``ctx.http``.

A module of its own, below the endpoint, because the code that runs handlers passes it to them.
"""

import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple

from ...protocol.http.headers import Headers, check_header
from ..principals import Principal

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

__all__ = ["Around", "HTTPRequest", "always_room", "never_disconnected", "no_body"]

#: Called on the thread of a handler with a function that runs it; returns what that returns, before the response is sent.
Around = Callable[[Callable[[], Any]], Any]


def no_body(limit: int) -> bytes:
    """Return no bytes: the body of a request that has none, or whose body has been read."""
    return b""


def never_disconnected() -> bool:
    """Return False; for hosts that cannot tell whether a client has disconnected."""
    return False


def always_room(size: int) -> bool:
    """Return True; for hosts that do not bound the answers that their clients have not read."""
    return True


@dataclass
class HTTPRequest:
    """One HTTP request.

    A handler uses ``method``, ``path``, ``query``, ``headers``, ``remote`` and, under WSGI, ``environ``. A function of
    ``routes`` uses ``handler`` as well, under our own server.
    """

    method: str
    #: Decoded, and relative to where the application is mounted.
    path: str
    #: By name without regard to case: ``headers["user-agent"]``, ``headers.get("User-Agent")``.
    headers: Headers
    #: Not shown by repr, since it may hold a token.
    query: str = field(default="", repr=False)
    #: Where the application is mounted; empty at the root.
    mount: str = ""
    #: For the endpoint, before handlers run: called with a limit; returns the whole body, or raises ``UnreadableBody``.
    read: Callable[[int], bytes] = field(default=no_body, repr=False)
    #: The client's address, for the log: with its port, if the host tells it. Behind a reverse proxy that is not one of
    #: ``trusted_proxies``, the proxy's.
    remote: str = ""
    #: The key under which limits count this client, as :func:`mcplite.server.eviction.sender_at` returns it.
    network: str = ""
    #: The sender, from the host or, where tokens are required, from the token; None if not authenticated.
    principal: Optional[Principal] = None
    #: The port that the request arrived at, if it is known.
    port: Optional[int] = None
    #: Returns whether the client has disconnected, as far as the host can tell.
    disconnected: Callable[[], bool] = field(default=never_disconnected, repr=False)
    #: The code that runs handlers calls it before it makes a large answer, with the bytes of the answer. It returns whether the
    #: unread answers stay within the limit, after a moment's wait if they do not at once. The bytes count until the client has
    #: read the answer.
    reserve: Callable[[int], bool] = field(default=always_room, repr=False)
    #: Whether a handler may run on this thread. Once the endpoint has found the handler: whether that handler runs on it.
    inline: bool = False
    #: Whether the host of the application has accepted this ``Host`` header by a list of its own. Then the origin policy does
    #: not check the header, and accepts the web pages of that host.
    host_checked: bool = False
    #: Whether one process gets all requests of a client, so that state of one request is there for the next.
    single_process: bool = True
    #: The environment of a WSGI host; None elsewhere. Not shown by repr, since it may hold secrets.
    environ: Optional[Dict[str, Any]] = field(default=None, repr=False)
    #: The connection, as a handler of the standard library, for functions of ``routes``: one that writes the response to its
    #: ``wfile`` returns None. None under WSGI.
    handler: "Optional[BaseHTTPRequestHandler]" = field(default=None, repr=False)
    #: Called around each handler of this request.
    around: Optional[Around] = field(default=None, repr=False)
    #: Headers that :meth:`add_response_header` has added.
    response_headers: Sequence[Tuple[str, str]] = field(default=(), repr=False)
    #: The context variables of the thread that brought the request; each handler runs in a copy of them.
    variables: contextvars.Context = field(default_factory=contextvars.copy_context, repr=False)

    def add_response_header(self, name: str, value: str) -> None:
        """Add a header to the response that answers this request, such as ``Server-Timing``.

        It is for handlers and middleware. A response that has become an event stream has sent its headers: then this does
        nothing.

        :raises ValueError: it cannot stand in a header.
        """
        check_header(name, value)
        self.response_headers = (*self.response_headers, (name, value))

    @property
    def scheme(self) -> str:
        """How the request arrived here: "https" or "http"; a proxy in front may have got it by the other scheme."""
        if self.environ is not None:
            return str(self.environ.get("wsgi.url_scheme", "http"))
        return "https" if hasattr(getattr(self.handler, "connection", None), "getpeercert") else "http"

    @property
    def client_certificate(self) -> Optional[Dict[str, Any]]:
        """The client's certificate, verified, in the form of :meth:`ssl.SSLSocket.getpeercert`.

        None without mutual TLS (``client_ca=``), and under WSGI, where the environment may have one.
        """
        certificate: Optional[Dict[str, Any]] = None
        if self.scheme == "https" and self.handler is not None:
            certificate = self.handler.connection.getpeercert()
        return certificate or None

    @property
    def owner(self) -> Optional[str]:
        """The owner of the sessions, streams and waiting calls that the request may use: its principal's key, or None."""
        return None if self.principal is None else self.principal.key

    @property
    def sender(self) -> str:
        """The key under which limits count the request: its principal's key, or without a principal the client's address."""
        return self.network if self.principal is None else self.principal.key

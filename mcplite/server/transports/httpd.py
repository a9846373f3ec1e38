"""The HTTP host of our own: a listener, the connections that it accepts, a graceful end.

For a laptop, a desktop application, a test, a service behind a proxy. It speaks plain HTTP; what faces
the internet stands behind something that speaks TLS.
"""

import contextlib
import logging
import queue
import socket
import threading
from typing import Any, List, Optional, Sequence, Set

from ...protocol.http.wellknown import is_loopback
from ..http import make_endpoint
from ..http.messages import HTTPRequest, HTTPResponse
from ..http.origins import LOOPBACK
from ..runtime.runtime import Runtime
from .connection import Connection
from .poller import Lobby
from .signals import sleep_until_told, stop_signals

__all__ = ["HTTPServer", "serve_http", "serve_until_stopped", "warning_of"]

_log = logging.getLogger(__name__)
_FULL = (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n"
         b"Connection: close\r\n\r\ntoo many open connections\n")
#: How long connections get to write what is left of their responses at the end, besides the grace of handlers.
_FLUSH_SECONDS = 1.0


class HTTPServer:
    """One server on one port; bound when it is made, serving from ``start()`` or ``with`` on.

    :param runtime: of the server.
    :param host: the address to listen at. For anything but a loopback address *allowed_hosts* has to be given.
    :param port: 0 for any free one, which ``port`` then tells.
    :param path: of the endpoint.
    :param options: those of :func:`make_endpoint`.
    :raises OSError: the address cannot be had.
    :raises ValueError: an option is not written right, or the server would be open to a network by mistake.
    """

    def __init__(self, runtime: Runtime, *, host: str = "127.0.0.1", port: int = 8000, path: str = "/mcp",
                 allowed_hosts: Optional[Sequence[str]] = None, **options: Any) -> None:
        if not 0 <= port < 65_536:
            raise ValueError(f"there is no port {port}; the largest is 65535, and 0 is any free one")
        self.limits = runtime.limits
        self.host = host
        self.exchange = make_endpoint(runtime, path=path, allowed_hosts=_names(host, allowed_hosts), **options)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=self.limits.backlog)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}") from error
        self._listener.setblocking(False)
        self._port = int(self._listener.getsockname()[1])
        unguarded = warning_of(runtime, host)
        if unguarded is not None:
            _log.warning("%s", unguarded)
        self._lobby = Lobby(self.limits.idle_seconds, self._forget)
        self._lobby.listen(self._listener, self._accept)
        #: Guards the two fields below; held for set work only. Waited on for the last connection to end.
        self._changed = threading.Condition()
        self._connections: Set[Connection] = set()
        self._closing = False
        self._started = False

    @property
    def port(self) -> int:
        """The port that the server listens at."""
        return self._port

    @property
    def url(self) -> str:
        """What a client on this machine connects to."""
        name = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}{self.exchange.path}"

    def start(self) -> "HTTPServer":
        """Serve on threads of its own from now on, and return at once."""
        self._started = True
        self._lobby.start()
        return self

    def __enter__(self) -> "HTTPServer":
        return self if self._started else self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> bool:
        if not self._closing:
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return True  # it went away before it was accepted
            except OSError as error:
                # No descriptors left, most likely: those who are here go on, and new ones wait.
                _log.warning("no connection could be accepted: %s", error)
                return False
            self._welcome(sock, address)
        return True

    def _welcome(self, sock: socket.socket, address: Any) -> None:
        connection = Connection(sock, f"{address[0]}:{address[1]}", self._handle, self.limits, lambda: self._closing,
                                self._lobby.watch)
        with self._changed:
            full = len(self._connections) >= self.limits.connections or self._closing
            if not full:
                self._connections.add(connection)
        if full:
            _turn_away(sock)
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            _log.debug("the connection of %s ended: %s", address[0], error)
        self._lobby.welcome(connection)

    def _forget(self, connection: Connection) -> None:
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()

    def _handle(self, request: HTTPRequest) -> HTTPResponse:
        request.port = self._port
        return self.exchange.handle(request)

    def close(self, grace: Optional[float] = None) -> None:
        """Stop: take no new requests, let those in work end, then cut them off; idempotent.

        Handlers have *grace* seconds to end by themselves, and as many again after they find their tokens
        cancelled; one that still runs then is named in the log and left behind.

        :param grace: seconds; by default the server's ``Limits.grace``.
        """
        with self._changed:
            again, self._closing = self._closing, True
            connections = list(self._connections)
        if again:
            return
        self._lobby.close()
        self._listener.close()
        for connection in connections:
            if connection.idle:
                connection.stop_reading()
        self.exchange.close(grace)
        if not self._gone(_FLUSH_SECONDS):
            for connection in self._open():
                connection.hang_up()
            self._gone(_FLUSH_SECONDS)

    def _open(self) -> List[Connection]:
        with self._changed:
            return list(self._connections)

    def _gone(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._connections, seconds)


def _names(host: str, allowed: Optional[Sequence[str]]) -> Sequence[str]:
    """Return the names that a server at *host* answers to."""
    if allowed is not None:
        return allowed
    if not is_loopback(host):
        raise ValueError(
            f"to listen at {host!r}, which others can reach, say by which names they call this server:"
            " allowed_hosts=['mcp.example.com'] (or ['*'] for any name, when something in front checks it)")
    return sorted(LOOPBACK | {f"[{host}]" if ":" in host else host})


def warning_of(runtime: Runtime, host: str) -> Optional[str]:
    """Return what has to be said before a server listens at an address that others can reach; None when nothing has."""
    if runtime.auth is not None or is_loopback(host):
        return None
    return (f"{runtime.catalog.name} listens at {host or 'all addresses'} and asks nobody for a token: everybody who can reach this machine"
            " can call all of its tools. Say who may: Server(auth=StaticTokens({...})) or another auth=, on the command line"
            " --token-env NAME; or listen at 127.0.0.1 alone")


def _turn_away(sock: socket.socket) -> None:
    with contextlib.closing(sock):
        try:
            sock.setblocking(False)
            sock.send(_FULL)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(65_536)  # what is unread when a socket closes makes the kernel drop what was sent
        except OSError as error:
            _log.debug("a connection too many went away by itself: %s", error)


def serve_http(runtime: Runtime, **options: Any) -> None:
    """Serve until the process is told to stop by SIGINT or SIGTERM; a second one does not wait any more.

    :param options: those of :class:`HTTPServer`.
    :raises OSError: the address cannot be had.
    :raises ValueError: an option is not written right.
    """
    serve_until_stopped(HTTPServer(runtime, **options))


def serve_until_stopped(server: HTTPServer) -> None:
    """Serve until SIGINT or SIGTERM, and close the server."""
    # No Event: see server.stdio, which waits in the same way.
    ended: "queue.SimpleQueue[None]" = queue.SimpleQueue()
    with stop_signals(lambda: ended.put(None)), server:
        _log.info("serving at %s", server.url)
        sleep_until_told(ended)

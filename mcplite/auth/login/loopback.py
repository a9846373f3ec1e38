"""A listener on the loopback interface for the browser that comes back from a login (RFC 8252, section 7.3), and its pages.

Every user of this machine, and every page in a browser on it, can connect here. So only the request of the current login
is accepted, only once, and other connections cannot delay it (AUTH-41): the caller's thread accepts, and a thread for each
connection reads the request. The one that has brought the answer waits until the caller knows which page to show.
"""

import contextlib
import errno
import hmac
import html
import os
import selectors
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Collection, List, Optional, Set, Tuple
from urllib.parse import parse_qsl, urlsplit

from ...protocol.error_text import one_line
from ...protocol.http.headers import parse_host
from ...rpc.forks import close_socket
from ...rpc.tracing import get_logger

__all__ = ["HOSTS", "LoopbackListener", "has_state", "wait_ready"]

_log = get_logger(__name__)
#: The hosts of redirect URIs to this machine; "localhost" is both addresses, if the machine has both.
HOSTS = ("127.0.0.1", "::1", "localhost")
#: Fixed texts without scripts, and nothing from elsewhere: what an authorization server says must not run here, and the
#: address with the code in it must not leave by a Referer (AUTH-43).
_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"), ("Connection", "close"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"),
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(title)s</title>
<style>
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; line-height: 1.5; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; font-weight: 600; }
</style>
</head>
<body>
<h1>%(title)s</h1>
%(paragraphs)s</body>
</html>
"""
_REFUSALS = {
    400: "This is not the answer to the current login. If you were logging in, start again from the program.",
    404: "There is nothing here.",
    405: "Only a browser that comes back from a login is answered here.",
}
#: Characters of a foreign text that are shown, of the line of a request, and parameters of its query.
_LONGEST_TEXT, _LONGEST_LINE, _MOST_PARAMETERS = 200, 16_384, 50
#: Browsers open connections in advance, and retry; more connections than these do not come from a login.
_MOST_CONNECTIONS = 8
#: Attempts to find a port that is free at both addresses of localhost.
_ATTEMPTS = 20


def wait_ready(files: Collection[Any], seconds: float) -> Set[Any]:
    """Wait at most *seconds*; return the descriptors, sockets and servers that can be read."""
    # select() and poll() need no descriptor of their own. select() cannot take large descriptors, poll() on macOS no terminals.
    fallback = selectors.SelectSelector
    kind = fallback if sys.platform == "darwin" else getattr(selectors, "PollSelector", fallback)
    with kind() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return {key.fileobj for key, _ in selector.select(seconds)}


def has_state(query: str, state: str) -> bool:
    """Return whether a query answers the login with this state; the comparison takes constant time (AUTH-21)."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        return False
    given = [value for name, value in pairs if name == "state"]
    return len(given) == 1 and bool(state) and hmac.compare_digest(given[0].encode("utf-8", "replace"), state.encode("utf-8"))


class LoopbackListener:
    """Listens from its creation until it has an answer or is closed; one thread uses it.

    :param host: one of ``HOSTS``.
    :param port: 0 for any free port.
    :param path: of the redirect URI.
    :param preferred: a redirect URI to listen at, unless *port* is given. It is ignored if it does not lead to this machine;
        if its port is taken, another port is used.
    :param connection_seconds: for each read and write of one connection; default 5.
    :raises OSError: it cannot listen there.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, path: str = "/callback", *, preferred: Optional[str] = None,
                 connection_seconds: float = 5.0) -> None:
        self.connection_seconds = connection_seconds
        self._state = ""
        #: Guards the fields below; held for list work.
        self._lock = threading.Lock()
        self._connections: List[_BrowserConnection] = []
        #: The connection of the browser that has brought the answer, and waits for its page.
        self._answer: Optional[_BrowserConnection] = None
        self._closed = False
        address = None if port or preferred is None else _loopback_address(preferred)
        host, port, path = address or (host, port, path)
        try:
            self._servers = self._listen(host, port)
        except OSError:
            if address is None:
                raise
            address, self._servers = None, self._listen(host, 0)
        named = f"[{host}]" if ":" in host else host
        #: A registered one is sent to the letter (AUTH-42).
        self.redirect_uri = str(preferred) if address else f"http://{named}:{self._servers[0].server_address[1]}{path}"
        parts = urlsplit(self.redirect_uri)
        self._origin, self._path, self._name = f"http://{parts.netloc}", parts.path or "/", _host_and_port(parts.netloc)

    def _listen(self, host: str, port: int) -> "List[_PortServer]":
        for attempt in range(1, _ATTEMPTS + 1):
            first = _PortServer("127.0.0.1" if host == "localhost" else host, port, self)
            if host != "localhost":
                return [first]
            try:
                return [first, _PortServer("::1", first.server_address[1], self)]
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    return [first]  # a machine without IPv6
                # Another program has the port at the other address: it would get the codes of browsers that try that one first.
                first.server_close()
                if port or attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    def serve(self, state: str, seconds: float, source: Optional[int] = None) -> Optional[str]:
        """Accept connections for at most *seconds*; return the whole URL by which the browser came back, or None.

        With the answer, all connections are closed but the one that brought it; :meth:`send_page` responds to that one.

        :param state: the state that the answer has to carry.
        :param source: a descriptor that ends the waiting when it can be read.
        :raises ValueError: the listener was closed, or has had its answer.
        """
        if not self._servers:
            raise ValueError("this listener is closed")
        self._state = state
        found = wait_ready([*self._servers, *([] if source is None else [source])], seconds)
        for server in found.intersection(self._servers):
            server.handle_request()  # a thread runs _BrowserConnection.do_GET, whose deliver() sets _answer
        answer = self._answer
        if answer is None:
            return None
        self._stop_listening()
        return self._origin + answer.path

    def status_for(self, connection: "_BrowserConnection") -> int:
        """Return the status for a request; 200 if it is the answer to the current login."""
        # DNS rebinding: a page of evil.example, whose name now leads to 127.0.0.1, sends its own name.
        if [_host_and_port(host) for host in connection.headers.get_all("Host", [])] != [self._name]:
            return 421
        path, _, query = connection.path.partition("?")
        if len(connection.requestline) > _LONGEST_LINE:
            return 414
        if path != self._path:
            return 404
        if connection.command != "GET":
            return 405
        return 200 if has_state(query, self._state) else 400

    def enter(self, connection: "_BrowserConnection") -> None:
        """Note a new connection, on its thread; the oldest one is dropped where there are too many."""
        with self._lock:
            self._connections.append(connection)
            # The browser of a login sends its request at once, so the oldest connection is not that one.
            dropped = [connection] if self._closed else self._connections[:-_MOST_CONNECTIONS]
        for one in dropped:
            self.leave(one)

    def leave(self, connection: "_BrowserConnection") -> None:
        """End a connection; its thread closes it."""
        with self._lock, contextlib.suppress(ValueError, OSError):  # it has left already
            self._connections.remove(connection)
            connection.over.set()
            connection.connection.shutdown(socket.SHUT_RDWR)

    def deliver(self, connection: "_BrowserConnection") -> None:
        """Keep the connection that has brought the answer, on its thread, until it has its page; a second one is dropped."""
        with self._lock:
            if connection in self._connections and not self._closed:
                self._answer, self._closed = connection, True
                self._connections.remove(connection)
        if self._answer is connection:
            connection.over.wait()

    def send_page(self, status: int, title: str, *paragraphs: str) -> None:
        """Send the browser that came back its page; do nothing if none came back, or it has one already.

        :param paragraphs: each is cut to 200 characters, and escaped.
        """
        connection, self._answer = self._answer, None
        if connection is not None:
            with contextlib.suppress(OSError):  # the browser has gone, and needs no page
                connection.send_page(status, title, *paragraphs)
            connection.over.set()

    def close(self) -> None:
        """Close all sockets; idempotent."""
        self._stop_listening()
        connection, self._answer = self._answer, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.connection.shutdown(socket.SHUT_RDWR)
            connection.over.set()

    def _stop_listening(self) -> None:
        self._closed = True
        while self._servers:
            close_socket(self._servers.pop().socket)
        for connection in self._connections[:]:
            self.leave(connection)


class _PortServer(ThreadingHTTPServer):
    """Listens at one address."""

    # On POSIX SO_REUSEADDR frees the port from lingering connections of the last login, and admits no other listener.
    # On Windows it would admit others, and SO_EXCLUSIVEADDRUSE excludes them.
    allow_reuse_address = os.name == "posix"
    request_queue_size = 64
    #: Of handle_request(), which is called when there is a connection.
    timeout = 0

    def __init__(self, host: str, port: int, listener: LoopbackListener) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = listener
        super().__init__((host, port), _BrowserConnection)

    def server_bind(self) -> None:
        if os.name != "posix":
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE"), 1)
        self.socket.setblocking(False)
        TCPServer.server_bind(self)  # HTTPServer's looks up the name of the address

    def get_request(self) -> Tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)  # no descriptor is left; without the pause the caller's loop would spin
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a connection to the port of a login failed", exc_info=True)


class _BrowserConnection(BaseHTTPRequestHandler):
    """One connection, of a browser or of another client, on a thread of its own."""

    server: _PortServer

    def setup(self) -> None:
        self.over = threading.Event()
        super().setup()
        self.connection.settimeout(self.server.listener.connection_seconds)
        self.server.listener.enter(self)

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        status = self.server.listener.status_for(self)
        if status != 200:
            self.send_error(status)
        return status == 200

    def do_GET(self) -> None:
        self.server.listener.deliver(self)

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Refuse a request; the page reveals nothing about the login."""
        self.send_page(code, HTTPStatus(code).phrase, _REFUSALS.get(code, "This request is not understood here."))

    def send_page(self, code: int, title: str, *paragraphs: str) -> None:
        shown = "".join(f"<p>{html.escape(one_line(text, _LONGEST_TEXT))}</p>\n" for text in paragraphs)
        body = (_PAGE % {"title": html.escape(title), "paragraphs": shown}).encode("utf-8")
        self.request_version = self.protocol_version  # without one, as of what is no request, there would be no headers
        self.send_response_only(code)
        for name, value in (*_HEADERS, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        if code == 405:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def finish(self) -> None:
        super().finish()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            # Closing first could reset the connection before the client has read the response.
            until = time.monotonic() + self.server.listener.connection_seconds
            while self.connection.recv(65_536) and time.monotonic() < until:
                continue
        self.server.listener.leave(self)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: an address of this port has the code of a login in it."""


def _host_and_port(value: str) -> Optional[Tuple[str, int]]:
    found = parse_host(value)
    return None if found is None else (found[0], 80 if found[1] is None else found[1])


def _loopback_address(uri: str) -> Optional[Tuple[str, int, str]]:
    """Return host, port and path of a redirect URI; None if it does not lead to this machine."""
    try:
        parts = urlsplit(uri)
        port = 80 if parts.port is None else parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or parts.hostname not in HOSTS or "@" in parts.netloc or "#" in uri or not port:
        return None
    return parts.hostname, port, parts.path + (f"?{parts.query}" if parts.query else "")

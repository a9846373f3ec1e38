"""PageServer: the web server of the inspector's page, on the loopback interface.

The page is files in the folder ``page``; it talks to ``/api/...`` in JSON and reads ``/api/events``, an event stream. Every
user of this machine, and every page in a browser on it, can connect to the port. So nothing is served but

- to a request whose ``Host`` is this port of this machine (a name of elsewhere that leads here is DNS rebinding),
- whose ``Origin``, if there is one, is the page's own,
- with the cookie, which the browser gets once, for the token that the command prints,
- under ``/api/`` with the key, which the browser gets with the cookie and keeps for this port: a cookie goes to all ports of a
  host, so that a program which the user visits at another port could use it,
- as a POST of JSON, if it changes something: a form of another page cannot send one.

:class:`~http.server.ThreadingHTTPServer` of the standard library is enough: it serves a few connections of one browser, and
each connection ends with its response.
"""

import contextlib
import hmac
import json
import os
import re
import secrets
import socket
import threading
import time
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple
from urllib.parse import parse_qsl, urlsplit

from ..protocol.http.headers import media_type, parse_host, parse_origin
from ..protocol.http.oauth import is_loopback
from ..rpc.tracing import get_logger
from .page_questions import InspectorError
from .traffic import Traffic, to_json

__all__ = ["PageFile", "PageServer"]

_log = get_logger(__name__)
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
#: The media types of the page's files, by extension; no others are served.
_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
          ".svg": "image/svg+xml", ".png": "image/png"}
#: Header fields of every response. A text of an inspected server must not run as code in the page, and no Referer may have the
#: token.
_HEADERS = (
    ("Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:;"
     " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"), ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"), ("Connection", "close"),
)
#: Bytes of events that are written at once.
_WRITE_BYTES = 64 << 10
#: Bytes of a request's body.
_MOST_BODY = 16 << 20
#: Limits at any time: connections that have shown the cookie (a browser opens six), event streams among them, and connections
#: that have not shown it.
_MOST_CONNECTIONS, _MOST_STREAMS, _MOST_STRANGERS = 64, 16, 32
#: Seconds for each read and write of one connection, and seconds after which an event stream without events gets a comment.
_CONNECTION_SECONDS, _QUIET_SECONDS = 30.0, 15.0


#: The answer to a request without the cookie or the key.
_WHERE = ("open the address with the token, which the command has printed; the token works once, so start the inspector"
          " again for another browser")


class PageFile(NamedTuple):
    """What a GET of the page returns."""

    media_type: str
    body: bytes
    #: The name under which the browser saves it; None if the browser shows it.
    filename: Optional[str] = None


class PageServer(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1; each connection has a thread, which ends with it.

    A connection that has not shown the cookie is a stranger. If there are too many strangers, each new connection closes the
    oldest one, so that idle ones cannot keep the page out.

    :param port: 0 for any free port.
    :param reads: by NAME: the function that returns the answer to ``GET /api/NAME``; it gets the query.
    :param actions: by NAME: the function that carries out ``POST /api/NAME``; it gets the body, and returns the answer.
    :param traffic: the events.
    :raises OSError: it cannot listen there.
    """

    # On POSIX SO_REUSEADDR frees the port from lingering connections, and admits no other listener. On Windows it would.
    allow_reuse_address = os.name == "posix"
    request_queue_size = 64
    daemon_threads, block_on_close = True, False

    def __init__(self, port: int, reads: Mapping[str, Callable[[Mapping[str, str]], PageFile]],
                 actions: Mapping[str, Callable[[Dict[str, Any]], Any]], traffic: Traffic) -> None:
        self.reads, self.actions, self.traffic = reads, actions, traffic
        #: Guards the four fields below; held for dictionary work. ``_token`` is None once it was used. The value of a
        #: connection is None until its thread has begun.
        self._lock = threading.Lock()
        self._token: Optional[str] = secrets.token_urlsafe(32)
        self._streams = 0
        self._strangers: Dict[socket.socket, Optional[threading.Thread]] = {}
        self._own: Dict[socket.socket, Optional[threading.Thread]] = {}
        self._secret, self._key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        super().__init__(("127.0.0.1", port), _PageConnection)
        self.port: int = self.server_address[1]

    @property
    def url(self) -> str:
        """The address to open in a browser, with the token, which works once."""
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    def server_bind(self) -> None:
        if os.name != "posix":
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE"), 1)
        TCPServer.server_bind(self)  # the method of HTTPServer looks up the host name of the address

    def get_request(self) -> Tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)  # no descriptor is left; without the pause the loop would spin
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            oldest = next(iter(self._strangers)) if len(self._strangers) >= _MOST_STRANGERS else None
            if oldest is not None:
                del self._strangers[oldest]
                with contextlib.suppress(OSError):  # it is closed already
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            self._strangers[request] = None
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if request in self._strangers:
                self._strangers[request] = threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._strangers.pop(request, None)
                self._own.pop(request, None)

    def trust(self, connection: socket.socket) -> None:
        """Note that a connection has shown the cookie.

        :raises InspectorError: there are too many connections that have shown it.
        """
        with self._lock:
            if len(self._own) >= _MOST_CONNECTIONS:
                raise InspectorError(f"wait: {_MOST_CONNECTIONS} requests of the page are running", 429)
            self._strangers.pop(connection, None)
            self._own[connection] = threading.current_thread()

    def end_connections(self) -> None:
        """End all connections, and wait for their threads."""
        with self._lock:
            connections = {**self._strangers, **self._own}
        until = time.monotonic() + 2.0  # a thread may still wait for an inspected server; it ends after that
        for connection, thread in connections.items():
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
            if thread is not None:
                thread.join(max(0.0, until - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a connection to the inspector failed", exc_info=True)

    # --- who may ask -------------------------------------------------------------------------------------------

    @property
    def _cookie_name(self) -> str:
        # Cookies are shared by all ports of a host, so that two inspectors need two names.
        return f"mcplite_inspector_{self.port}"

    def take_token(self, token: str) -> Optional[List[Tuple[str, str]]]:
        """Return the headers that give the browser cookie and key, for the token; None if it is wrong, or was used before."""
        with self._lock:
            if self._token is None or not _same(token, self._token):
                return None
            self._token = None
        # A browser sends no server the part behind "#": only the script of the page gets the key.
        return [("Location", f"/#key={self._key}"),
                ("Set-Cookie", f"{self._cookie_name}={self._secret}; Path=/; HttpOnly; SameSite=Strict")]

    def check(self, request: "_PageConnection") -> None:
        """Check where a request comes from.

        :raises InspectorError: it does not come from the page.
        """
        hosts = [parse_host(host) for host in request.headers.get_all("Host", [])]
        if len(hosts) != 1 or hosts[0] is None or not is_loopback(hosts[0][0]) or (hosts[0][1] or 80) != self.port:
            raise InspectorError(f"open the address that the command has printed, on 127.0.0.1, port {self.port}", 421)
        origins = request.headers.get_all("Origin", [])
        own = ("http", hosts[0][0], None if self.port == 80 else self.port)
        if origins and [parse_origin(origin) for origin in origins] != [own]:
            raise InspectorError("only the inspector's own page may ask", 403)
        # A page at another port of this machine is of the same site, so the browser adds the cookie to its requests.
        if request.headers.get_all("Sec-Fetch-Site", []) not in ([], ["same-origin"], ["none"]):
            raise InspectorError("only the inspector's own page may ask", 403)

    def check_cookie(self, request: "_PageConnection") -> None:
        """Check that a request has the cookie.

        :raises InspectorError: it has not.
        """
        try:
            cookies = SimpleCookie("; ".join(request.headers.get_all("Cookie", [])))
        except CookieError:
            cookies = SimpleCookie()
        given = cookies.get(self._cookie_name)
        if given is None or not _same(given.value, self._secret):
            raise InspectorError(_WHERE, 401)

    def check_key(self, key: str) -> None:
        """Check the key of a request under ``/api/``.

        :raises InspectorError: the key is wrong.
        """
        if not _same(key, self._key):
            raise InspectorError(_WHERE, 401)

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Count one event stream for the length of the block.

        :raises InspectorError: there are too many.
        """
        with self._lock:
            if self._streams >= _MOST_STREAMS:
                raise InspectorError(f"close some of the {_MOST_STREAMS} pages that are open", 429)
            self._streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1


class _PageConnection(BaseHTTPRequestHandler):
    """One request of the page, or of another program that has connected."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mcplite-inspector", ""
    timeout = _CONNECTION_SECONDS

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, serve: Callable[[], None]) -> None:
        self.close_connection = True
        try:
            self.server.check(self)
            serve()
        except InspectorError as error:
            self._send_json({"error": str(error)}, error.status)
        except OSError:
            raise  # the browser has closed the connection
        except Exception as error:
            _log.exception("a request of the inspector's page failed")
            self._send_json({"error": f"the inspector failed: {type(error).__name__}"}, 500)

    def _get(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
        if parts.path == "/" and "token" in query:
            given = self.server.take_token(query["token"])
            if given is not None:
                return self._send(303, PageFile("text/plain", b""), given)
        self._admit(parts.path, query)
        if parts.path == "/" or parts.path.startswith("/page/"):
            return self._send_file(parts.path[len("/page/"):] or "index.html")
        if parts.path == "/api/events":
            # A browser that resumes a stream by itself sends the header, with the older number still in the query.
            return self._send_events(self.headers.get("Last-Event-ID") or query.get("after", "0"))
        self._send(200, self._found(self.server.reads, parts.path)(query))

    def _post(self) -> None:
        path = urlsplit(self.path).path
        self._admit(path, {})
        action = self._found(self.server.actions, path)
        self._send_json(action(self._body()))

    def _found(self, routes: Mapping[str, Callable[[Any], Any]], path: str) -> Callable[[Any], Any]:
        route = routes.get(path[len("/api/"):]) if path.startswith("/api/") else None
        if route is None:
            raise InspectorError(f"there is nothing at {path[:100]}", 404)
        return route

    def _admit(self, path: str, query: Mapping[str, str]) -> None:
        self.server.check_cookie(self)
        if path.startswith("/api/"):
            # The script of the page cannot give headers to an event stream or to a link to a file: their query has the key.
            self.server.check_key(self.headers.get("Inspector-Key") or query.get("key", ""))
        self.server.trust(self.connection)

    def _body(self) -> Dict[str, Any]:
        if media_type(self.headers.get("Content-Type")) != "application/json":
            raise InspectorError("send JSON, as application/json", 415)
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit() and len(length) < 12):
            raise InspectorError("send a body with a Content-Length", 411)
        if int(length) > _MOST_BODY:
            raise InspectorError(f"send less: the limit is {_MOST_BODY} bytes", 413)
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise InspectorError(f"this is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise InspectorError("send a JSON object")
        return body

    def _send_file(self, name: str) -> None:
        extension = os.path.splitext(name)[1]
        # The name must be one that the folder lists, so no request can lead to a file outside of the folder.
        if extension not in _TYPES or name not in _page_files():
            raise InspectorError(f"the page has no file {name[:100]!r}", 404)
        with open(os.path.join(_FOLDER, name), "rb") as file:
            self._send(200, PageFile(_TYPES[extension], file.read()))

    def _send_events(self, last: str) -> None:
        traffic = self.server.traffic
        number = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else 0
        with self.server.stream():
            self._begin(200, "text/event-stream", [])
            while not traffic.closed:
                entries = traffic.after(number, _QUIET_SECONDS)
                events = bytearray()
                for entry in entries:
                    lines = "\ndata: ".join(re.split("\r\n|\r|\n", entry.text()))
                    events += f"event: {entry.event}\nid: {entry.number}\ndata: {lines}\n\n".encode("utf-8")
                    number = entry.number
                    if len(events) >= _WRITE_BYTES or entry is entries[-1]:
                        self.wfile.write(events)  # many events at once: there may be thousands of them
                        events = bytearray()
                if not entries:
                    self.wfile.write(b": still here\n\n")

    def _send_json(self, value: Any, status: int = 200) -> None:
        self._send(status, PageFile("application/json", to_json(value).encode("ascii")))

    def _send(self, status: int, file: PageFile, more: List[Tuple[str, str]] = []) -> None:
        if file.filename is not None:
            more = [*more, ("Content-Disposition", f'attachment; filename="{file.filename}"')]
        self._begin(status, file.media_type, [("Content-Length", str(len(file.body))), *more])
        if self.command != "HEAD":
            self.wfile.write(file.body)

    def _begin(self, status: int, kind: str, more: List[Tuple[str, str]]) -> None:
        self.request_version = self.protocol_version  # for a malformed request it may be HTTP/0.9, which has no headers
        self.send_response_only(status)
        for name, value in (("Content-Type", kind), *_HEADERS, *more):
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Refuse a malformed request."""
        self.close_connection = True
        self._send_json({"error": message or HTTPStatus(code).phrase}, code)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
            self.connection.shutdown(socket.SHUT_WR)
            # Closing before a client has sent its whole request could reset the connection, and lose the response.
            until = time.monotonic() + 1.0
            self.connection.settimeout(1.0)
            while self.connection.recv(65_536) and time.monotonic() < until:
                continue

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: an address of this port has the token in it."""


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("ascii"))


def _page_files() -> Set[str]:
    return set(os.listdir(_FOLDER)) if os.path.isdir(_FOLDER) else set()

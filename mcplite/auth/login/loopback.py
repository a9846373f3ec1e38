"""A listener on the loopback interface for the browser that comes back from a login (RFC 8252, section 7.3), and its pages.

Every user of this machine, and every page in a browser on it, can connect here. So only the request of the current login
is accepted, only once, and other connections cannot delay it (AUTH-41). There is no thread: the caller's thread serves.
"""

import contextlib
import errno
import hmac
import html
import os
import selectors
import socket
import sys
import time
from typing import Any, Collection, List, Optional, Set, Tuple, Union
from urllib.parse import parse_qsl, urlsplit

from ...protocol.http.headers import parse_host
from ...protocol.http.http1 import BadRequest, HeadLimits, RequestHead, find_head, parse_head
from ...rpc.forks import close_socket, on_fork, release_socket

__all__ = [
    "HOSTS", "LoopbackListener", "completed_page", "failed_page", "has_state", "refusal_page", "unfinished_page",
    "wait_ready",
]

#: Fixed texts without scripts, and nothing from elsewhere: what an authorization server says must not run here, and the
#: address with the code in it must not leave by a Referer (AUTH-43).
_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Connection", "close"),
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; line-height: 1.5; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; font-weight: 600; }}
</style>
</head>
<body>
<h1>{title}</h1>
{paragraphs}
</body>
</html>
"""
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    414: "URI Too Long", 421: "Misdirected Request", 431: "Request Header Fields Too Large",
    505: "HTTP Version Not Supported",
}
_REFUSALS = {
    400: "This is not the answer to the current login. If you were logging in, start again from the program.",
    404: "There is nothing here.",
    405: "Only a browser that comes back from a login is answered here.",
}
#: Characters of a foreign text that are shown.
_LONGEST = 200


def completed_page(server: str) -> bytes:
    """Return the response for a login that has succeeded."""
    return _response(200, "You are logged in", f"The login for {_cut(server)} is complete.",
                     "You can close this page and go back to the program.")


def failed_page(server: str, text: str) -> bytes:
    """Return the response for a login that has failed.

    :param text: why; cut to 200 characters, and escaped.
    """
    return _response(400, "The login has failed", f"Logging in to {_cut(server)} did not work:", _cut(text),
                     "The program that asked you to log in can tell more.")


def unfinished_page(server: str) -> bytes:
    """Return the response for a login that the program gave up after the browser had come back."""
    return _response(400, "The login was not completed", f"The program has stopped logging in to {_cut(server)}.",
                     "To log in, start again from there.")


def refusal_page(status: int, *, with_body: bool = True) -> bytes:
    """Return the response for a request that is not the answer to a login; it reveals nothing about the login.

    :param with_body: False for HEAD.
    """
    text = _REFUSALS.get(status, "This request is not understood here.")
    return _response(status, _REASONS.get(status, "Bad Request"), text, with_body=with_body)


def _cut(text: str) -> str:
    plain = " ".join(str(text).split())
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST - 1] + "\u2026"


def _response(status: int, title: str, *paragraphs: Optional[str], with_body: bool = True) -> bytes:
    shown = "\n".join(f"<p>{html.escape(text)}</p>" for text in paragraphs if text)
    # Lone surrogates, which JSON can carry, have no encoding in UTF-8.
    body = _PAGE.format(title=html.escape(title), paragraphs=shown).encode("utf-8", "replace")
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Bad Request')}"]
    lines += [f"{name}: {value}" for name, value in _HEADERS]
    lines += ["Allow: GET"] if status == 405 else []
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("ascii") + (body if with_body else b"")


#: The hosts of redirect URIs to this machine; "localhost" is both addresses, if the machine has both.
HOSTS = ("127.0.0.1", "::1", "localhost")
_HEAD_BYTES = 16_384
#: Browsers open connections in advance, and retry; more connections than these do not come from a login.
_MOST_CONNECTIONS = 8
#: Connections that are not accepted yet; while it is full, a client retries after a second.
_BACKLOG = 64
#: Attempts to find a port that is free at both addresses of localhost.
_ATTEMPTS = 20
_MOST_PARAMETERS = 50
_File = Union[int, socket.socket]


def wait_ready(reading: Collection[_File], writing: Collection[_File], seconds: float) -> Set[_File]:
    """Wait at most *seconds*; return the descriptors and sockets that can be read or written."""
    # select() and poll() need no descriptor of their own. select() cannot take large descriptors, poll() on macOS no terminals.
    fallback = selectors.SelectSelector
    kind = fallback if sys.platform == "darwin" else getattr(selectors, "PollSelector", fallback)
    with kind() as selector:
        for file in reading:
            selector.register(file, selectors.EVENT_READ)
        for file in writing:
            selector.register(file, selectors.EVENT_WRITE)
        found: Set[Any] = {key.fileobj for key, _ in selector.select(seconds)}
        return found


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
    :param connection_seconds: that one connection has for its request, and again for reading the response; default 5.
    :raises OSError: it cannot listen there.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, path: str = "/callback", *, preferred: Optional[str] = None,
                 connection_seconds: float = 5.0) -> None:
        self._connection_seconds = connection_seconds
        self._connections: List[_BrowserConnection] = []
        #: The connection of the browser that has brought the answer, and waits for its page.
        self._answer_sock: Optional[socket.socket] = None
        address = None if port or preferred is None else _loopback_address(preferred)
        if address is None:
            self._sockets, self.redirect_uri = _listen(host, port, path)
        else:
            host, port, path = address
            try:
                self._sockets = _bind(host, port)
                #: Registered and sent to the letter (AUTH-42).
                self.redirect_uri = str(preferred)
            except OSError:
                self._sockets, self.redirect_uri = _listen(host, 0, path)
        parts = urlsplit(self.redirect_uri)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path or "/"
        self._name = _host_and_port(parts.netloc)

    def serve(self, state: str, seconds: float, source: Optional[int] = None) -> Optional[str]:
        """Serve connections for at most *seconds*; return the whole URL by which the browser came back, or None.

        With the answer, all sockets are closed but the one that brought it; :meth:`send_page` responds to that one.

        :param state: the state that the answer has to carry.
        :param source: a descriptor that ends the waiting when it can be read.
        :raises ValueError: the listener was closed, or has had its answer.
        """
        if not self._sockets:
            raise ValueError("this listener is closed")
        due = min((connection.until for connection in self._connections), default=None)
        if due is not None:
            seconds = min(seconds, max(0.0, due - time.monotonic()))
        reading = [*self._sockets, *(one.sock for one in self._connections if not one.outbox)]
        found = wait_ready([*reading, *([] if source is None else [source])],
                           [one.sock for one in self._connections if one.outbox], seconds)
        for connection in [one for one in self._connections if one.sock in found]:
            url = self._advance(connection, state)
            if url is not None:
                self._connections.remove(connection)
                self._answer_sock = connection.sock
                self._stop_listening()
                return url
        for listening in [one for one in self._sockets if one in found]:
            self._accept(listening)
        for connection in [one for one in self._connections if one.until <= time.monotonic()]:
            self._drop(connection)
        return None

    def send_page(self, response: bytes) -> None:
        """Send the browser that came back its page; do nothing if none came back, or it has one already."""
        sock, self._answer_sock = self._answer_sock, None
        if sock is None:
            return
        # The socket's buffer has room for a page: nothing was sent before. If the browser has gone, the page is not needed.
        with contextlib.closing(sock), contextlib.suppress(OSError):
            sock.send(response)
            sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all sockets; idempotent."""
        self._stop_listening()
        sock, self._answer_sock = self._answer_sock, None
        if sock is not None:
            close_socket(sock)

    def _stop_listening(self) -> None:
        while self._sockets:
            close_socket(self._sockets.pop())
        while self._connections:
            close_socket(self._connections.pop().sock)

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except BlockingIOError:
            return  # the client has closed it already
        except OSError:
            time.sleep(0.05)  # no descriptor is left; without the pause the loop would spin
            return
        on_fork(sock, release_socket)
        try:
            sock.setblocking(False)
        except OSError:
            sock.close()
            return
        if len(self._connections) == _MOST_CONNECTIONS:
            # The browser of a login sends its request at once, so the oldest connection is not that one.
            self._drop(self._connections[0])
        self._connections.append(_BrowserConnection(sock, time.monotonic() + self._connection_seconds))

    def _drop(self, connection: "_BrowserConnection") -> None:
        self._connections.remove(connection)
        close_socket(connection.sock)

    def _advance(self, connection: "_BrowserConnection", state: str) -> Optional[str]:
        """Read or write without blocking; return the URL if the connection has brought the answer."""
        try:
            if connection.outbox:
                connection.flush()
                return None
            data = connection.sock.recv(_HEAD_BYTES)
            if not data:
                self._drop(connection)
            elif not connection.answered:
                connection.inbox += data
                return self._read(connection, state)
        except BlockingIOError:
            pass  # spurious readiness; the next round tries again
        except OSError:
            self._drop(connection)  # the client has reset it
        return None

    def _read(self, connection: "_BrowserConnection", state: str) -> Optional[str]:
        limits = HeadLimits(line=_HEAD_BYTES, total=_HEAD_BYTES)
        with_body = True
        try:
            end = find_head(connection.inbox, limits)
            if end is None:
                return None
            head = parse_head(bytes(connection.inbox[:end]), limits)
            status, with_body = self._status_for(head, state), head.method != "HEAD"
            if status == 200:
                return self._origin + head.target
        except BadRequest as error:
            status = error.status
        connection.answered, connection.outbox = True, refusal_page(status, with_body=with_body)
        connection.until = time.monotonic() + self._connection_seconds
        connection.flush()
        return None

    def _status_for(self, head: RequestHead, state: str) -> int:
        # DNS rebinding: a page of evil.example, whose name now leads to 127.0.0.1, sends its own name.
        if _host_and_port(head.headers.get("host") or "") != self._name:
            return 421
        path, _, query = head.target.partition("?")
        if path != self._path:
            return 404
        if head.method != "GET":
            return 405
        return 200 if has_state(query, state) else 400


class _BrowserConnection:
    """One connection, of a browser or of another client.

    :param until: when it is closed, whatever its state; by the monotonic clock.
    """

    __slots__ = ("sock", "until", "inbox", "outbox", "answered")

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until
        self.inbox = bytearray()
        #: The rest of the response.
        self.outbox = b""
        #: Whether it has its response. From then on input is discarded until the client closes: closing first could reset
        #: the connection before the client has read the response.
        self.answered = False

    def flush(self) -> None:
        self.outbox = self.outbox[self.sock.send(self.outbox):]
        if not self.outbox:
            self.sock.shutdown(socket.SHUT_WR)


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


def _listen(host: str, port: int, path: str) -> Tuple[List[socket.socket], str]:
    """Return listening sockets and the redirect URI that leads to them."""
    sockets = _bind(host, port)
    try:
        return sockets, f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}{path}"
    except BaseException:
        for sock in sockets:
            sock.close()
        raise


def _bind(host: str, port: int, attempts: int = _ATTEMPTS) -> List[socket.socket]:
    if host != "localhost":
        return [_listen_at(host, port)]
    first = _listen_at("127.0.0.1", port)
    try:
        return [first, _listen_at("::1", first.getsockname()[1])]
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            return [first]  # a machine without IPv6
        # Another program has the port at the other address: it would get the codes of browsers that try that one first.
        first.close()
        if port or attempts == 1:
            raise
    return _bind(host, port, attempts - 1)


def _listen_at(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    on_fork(sock, release_socket)
    try:
        # On POSIX SO_REUSEADDR frees the port from lingering connections of the last login, and admits no other listener.
        # On Windows it would admit others, and SO_EXCLUSIVEADDRUSE excludes them.
        option = socket.SO_REUSEADDR if os.name == "posix" else getattr(socket, "SO_EXCLUSIVEADDRUSE")
        sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock

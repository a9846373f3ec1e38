"""Waits on this machine for the browser that comes back from a login.

Everybody on this machine, and every page in a browser on it, can knock here. So only the request of the login that is
under way is taken, only one, and nobody else can make it wait (AUTH-41). There is no thread: whoever waits serves.
"""

import contextlib
import errno
import hmac
import os
import selectors
import socket
import sys
import time
from typing import Any, Collection, List, Optional, Set, Tuple, Union
from urllib.parse import parse_qsl, urlsplit

from ....protocol.http.headers import parse_host
from ....protocol.http.http1 import BadRequest, HeadLimits, RequestHead, find_head, parse_head
from . import page

__all__ = ["HOSTS", "Listener", "carries", "ready"]

#: What a redirect URI to this machine may name; "localhost" is both addresses, where there are both.
HOSTS = ("127.0.0.1", "::1", "localhost")
_HEAD_BYTES = 16_384
#: Browsers open connections in advance, and retry; more than these have nothing to do with a login.
_MOST_CONNECTIONS = 8
#: Of those that are not accepted yet; whoever finds it full comes late by a second.
_BACKLOG = 64
#: For a port that is free at both addresses of localhost.
_ATTEMPTS = 20
_MOST_PARAMETERS = 50
_File = Union[int, socket.socket]


def ready(reading: Collection[_File], writing: Collection[_File], seconds: float) -> Set[_File]:
    """Return which of the descriptors and sockets can be read or written by now, after at most *seconds*."""
    # Neither of the two has a descriptor of its own. select() cannot take large descriptors, and poll() on macOS no terminals.
    kind = selectors.SelectSelector if sys.platform == "darwin" else getattr(selectors, "PollSelector", selectors.SelectSelector)
    with kind() as selector:
        for file in reading:
            selector.register(file, selectors.EVENT_READ)
        for file in writing:
            selector.register(file, selectors.EVENT_WRITE)
        found: Set[Any] = {key.fileobj for key, _ in selector.select(seconds)}
        return found


def carries(query: str, state: str) -> bool:
    """Whether a query is the answer to the login with this state; takes the same time for any wrong one (AUTH-21)."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        return False
    given = [value for name, value in pairs if name == "state"]
    return len(given) == 1 and bool(state) and hmac.compare_digest(given[0].encode("utf-8", "replace"), state.encode("utf-8"))


class Listener:
    """Listens from when it is made until it has an answer, or is closed; one thread uses it.

    :param host: one of ``HOSTS``.
    :param port: 0 for any free one.
    :param path: of the redirect URI.
    :param preferred: a redirect URI to listen at, unless *port* says another place. When it does not lead to this machine
        it is passed over, and when its port is taken another one is had.
    :param patience: seconds that one connection has for its request, and again for taking the answer; default 5.
    :raises OSError: it cannot listen there.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, path: str = "/callback", *, preferred: Optional[str] = None,
                 patience: float = 5.0) -> None:
        self._patience = patience
        self._connections: List[_Connection] = []
        #: The browser that has brought the answer, and waits to be told what came of it.
        self._held: Optional[socket.socket] = None
        place = None if port or preferred is None else _place(preferred)
        if place is None:
            self._sockets = _bind(host, port)
            self.redirect_uri = _uri(host, self._sockets, path)
        else:
            host, port, path = place
            try:
                self._sockets = _bind(host, port)
                #: As it has to be registered and sent: to the letter (AUTH-42).
                self.redirect_uri = str(preferred)
            except OSError:
                self._sockets = _bind(host, 0)
                self.redirect_uri = _uri(host, self._sockets, path)
        parts = urlsplit(self.redirect_uri)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path or "/"
        self._name = _host_and_port(parts.netloc)

    def serve(self, state: str, seconds: float, source: Optional[int] = None) -> Optional[str]:
        """Serve who comes, for at most *seconds*; return the whole URL by which the browser came back, or None.

        With the answer everything but the connection that brought it is closed; :meth:`answer` tells that one the end.

        :param state: what the answer has to carry.
        :param source: a descriptor that ends the waiting when it can be read.
        :raises ValueError: it has been closed, or has had its answer.
        """
        if not self._sockets:
            raise ValueError("nobody listens here any more")
        due = min((connection.until for connection in self._connections), default=None)
        if due is not None:
            seconds = min(seconds, max(0.0, due - time.monotonic()))
        found = ready([*self._sockets, *(one.sock for one in self._connections if not one.outbox),
                       *([] if source is None else [source])],
                      [one.sock for one in self._connections if one.outbox], seconds)
        for connection in [one for one in self._connections if one.sock in found]:
            url = self._advance(connection, state)
            if url is not None:
                self._connections.remove(connection)
                self._held = connection.sock
                self._stop_listening()
                return url
        for listening in [one for one in self._sockets if one in found]:
            self._accept(listening)
        for connection in [one for one in self._connections if one.until <= time.monotonic()]:
            self._drop(connection)
        return None

    def answer(self, response: bytes) -> None:
        """Send the browser that came back its page; nothing happens when none did, or it has one."""
        held, self._held = self._held, None
        if held is None:
            return
        # It has room for a page: nothing was sent on it so far. The browser may be gone, then nobody misses the page.
        with contextlib.closing(held), contextlib.suppress(OSError):
            held.send(response)
            held.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all that is open; may be called again."""
        self._stop_listening()
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _stop_listening(self) -> None:
        while self._sockets:
            self._sockets.pop().close()
        while self._connections:
            self._connections.pop().sock.close()

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except BlockingIOError:
            return  # whoever it was has left again
        except OSError:
            time.sleep(0.05)  # no descriptor is left; without the pause this would be tried without end
            return
        sock.setblocking(False)
        if len(self._connections) == _MOST_CONNECTIONS:
            # A request comes at once, so it is the oldest that comes from no login.
            self._drop(self._connections[0])
        self._connections.append(_Connection(sock, time.monotonic() + self._patience))

    def _drop(self, connection: "_Connection") -> None:
        self._connections.remove(connection)
        connection.sock.close()

    def _advance(self, connection: "_Connection", state: str) -> Optional[str]:
        """Do what can be done at once; return the URL when the connection has brought the answer."""
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
            pass  # it was ready for somebody else's news; the next time, then
        except OSError:
            self._drop(connection)  # the other side broke it off
        return None

    def _read(self, connection: "_Connection", state: str) -> Optional[str]:
        limits = HeadLimits(line=_HEAD_BYTES, total=_HEAD_BYTES)
        with_body = True
        try:
            end = find_head(connection.inbox, limits)
            if end is None:
                return None
            head = parse_head(bytes(connection.inbox[:end]), limits)
            status, with_body = self._judge(head, state), head.method != "HEAD"
            if status == 200:
                return self._origin + head.target
        except BadRequest as error:
            status = error.status
        connection.answered, connection.outbox = True, page.refusal(status, with_body=with_body)
        connection.until = time.monotonic() + self._patience
        connection.flush()
        return None

    def _judge(self, head: RequestHead, state: str) -> int:
        # A page of evil.example whose name leads to 127.0.0.1 by now sends its own name (DNS rebinding).
        if _host_and_port(head.headers.get("host") or "") != self._name:
            return 421
        path, _, query = head.target.partition("?")
        if path != self._path:
            return 404
        if head.method != "GET":
            return 405
        return 200 if carries(query, state) else 400


class _Connection:
    """One browser, or whoever else has come.

    :param until: when it is closed, whatever it has got by then; of the monotonic clock.
    """

    __slots__ = ("sock", "until", "inbox", "outbox", "answered")

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until
        self.inbox = bytearray()
        #: What is still to be sent.
        self.outbox = b""
        #: From then on what comes is thrown away, until the other side closes: closing first could cost it the answer.
        self.answered = False

    def flush(self) -> None:
        self.outbox = self.outbox[self.sock.send(self.outbox):]
        if not self.outbox:
            self.sock.shutdown(socket.SHUT_WR)


def _host_and_port(value: str) -> Optional[Tuple[str, int]]:
    found = parse_host(value)
    return None if found is None else (found[0], 80 if found[1] is None else found[1])


def _place(uri: str) -> Optional[Tuple[str, int, str]]:
    """Return host, port and path of a redirect URI; None when nobody here can listen at it."""
    try:
        parts = urlsplit(uri)
        port = 80 if parts.port is None else parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or parts.hostname not in HOSTS or "@" in parts.netloc or "#" in uri or not port:
        return None
    return parts.hostname, port, parts.path + (f"?{parts.query}" if parts.query else "")


def _uri(host: str, sockets: List[socket.socket], path: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}{path}"


def _bind(host: str, port: int, attempts: int = _ATTEMPTS) -> List[socket.socket]:
    if host != "localhost":
        return [_listen_at(host, port)]
    first = _listen_at("127.0.0.1", port)
    try:
        return [first, _listen_at("::1", first.getsockname()[1])]
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            return [first]  # a machine without IPv6
        # Whoever has the port at the other address would get the codes of browsers that try that one first.
        first.close()
        if port or attempts == 1:
            raise
    return _bind(host, port, attempts - 1)


def _listen_at(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # On POSIX so that the connections of the last login, which linger, do not keep the port; there it lets nobody else
        # in. On Windows it would, and the other option keeps everybody out.
        option = socket.SO_REUSEADDR if os.name == "posix" else getattr(socket, "SO_EXCLUSIVEADDRUSE")
        sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock

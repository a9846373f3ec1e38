"""Our own HTTP connections to one origin: keep-alive, one write for a request, one thread for each exchange, TLS for ``https``.

An :class:`~.origin_client.OriginClient` sends over them unless ``requests`` is needed, for example for a session of the user's
or for authentication that is made for ``requests``. A proxy gets requests for ``http`` with the whole URL, and a CONNECT for
``https``, inside of which TLS with the server begins.
"""

import contextlib
import re
import select
import socket
import sys
from time import monotonic
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlsplit

from ..protocol.http.headers import DEFAULT_PORTS
from ..protocol.http.http1 import (
    BadResponse,
    ChunkedDecoder,
    ResponseHead,
    ResponseHeads,
    find_response_head,
    parse_response_head,
)
from ..rpc.forks import on_fork, release_socket
from .exchange import Exchange, Reply, shut_down
from .settings import TLS, Guard, Proxy

__all__ = ["DirectReply", "DirectSender", "is_plain", "read_head", "receive", "send_whole", "written_by_requests"]

#: How many idle connections are kept for later requests.
_IDLE_CONNECTIONS = 100
_PLAIN_URL = re.compile(r"https?://([a-z0-9_](?:[a-z0-9_.\-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?"
                        r"/(?!/)[A-Za-z0-9\-._~!$&'()*+,;=:@/]*(\?[A-Za-z0-9\-._~!$&'()*+,;=:@/?]+)?")
#: A segment that ``requests`` would resolve; not one such as ``.well-known``.
_DOT_SEGMENT = re.compile(r"/\.\.?(?:[/?]|\Z)")
_PLAIN_TARGET = re.compile(r"/[A-Za-z0-9\-._~!$&'()*+,;=:@/?]*")
#: How many seconds a server keeps an idle connection, in its header Keep-Alive.
_KEPT = re.compile(r"(?:^|[,; ])timeout ?= ?([0-9]{1,9})(?![0-9])")
#: An idle connection is not used again for the last of those seconds: this many, or half of all if that is less. The server
#: could close it before the request arrives.
_LEFT_SECONDS = 1.0
#: Seconds for the answer to a CONNECT: the proxy looks up the server's name and connects to it first.
_TUNNEL_SECONDS = 30.0
#: Methods whose requests have no content, so that they do not say its length (RFC 9110, 8.6).
_WITHOUT_CONTENT = frozenset({"DELETE", "GET", "HEAD"})
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_SAFE = "!$&'()*+,;=:@/?"


def is_plain(url: str) -> bool:
    """Return whether a URL is one that ``requests`` would not write in another way."""
    return _PLAIN_URL.fullmatch(url) is not None and _DOT_SEGMENT.search(url) is None


def written_by_requests(url: str) -> Tuple[str, str]:
    """Return a URL as ``requests`` writes it, and the value of ``Authorization`` that its user and password make.

    :raises ValueError: it refuses the URL.
    """
    from requests import PreparedRequest

    request = PreparedRequest()
    request.prepare("GET", url)
    return str(request.url).partition("#")[0], str(request.headers.get("Authorization", ""))


def _close(sock: socket.socket) -> None:
    shut_down(sock)
    sock.close()


_PIECE_BYTES = 65_536
#: How many bytes the fields after a chunked body may have; they are dropped.
_TRAILER_BYTES = 65_536
#: How many responses with a status of 1xx may come before the answer.
_INTERIM_RESPONSES = 20


def receive(sock: Any, exchange: Exchange) -> bytes:
    """Return what has come, at least one byte; nothing at the end.

    :raises Stopped: the caller no longer waits.
    :raises OSError: the connection broke.
    """
    while True:
        seconds = exchange.next_timeout()
        if sock.gettimeout() != seconds:
            sock.settimeout(seconds)
        try:
            data: bytes = sock.recv(_PIECE_BYTES)
            return data
        except socket.timeout:
            continue


def send_whole(sock: Any, exchange: Exchange, data: bytes, body: bytes = b"") -> None:
    """Send all of *data*, and then a body; of a large body, only the beginning is copied.

    :raises Stopped, OSError: as for :func:`receive`.
    """
    _send(sock, exchange, data + body[:_PIECE_BYTES])
    if len(body) > _PIECE_BYTES:
        _send(sock, exchange, memoryview(body)[_PIECE_BYTES:])


def _send(sock: Any, exchange: Exchange, data: "Union[bytes, memoryview]") -> None:
    while True:
        seconds = exchange.next_timeout()
        if sock.gettimeout() != seconds:
            sock.settimeout(seconds)
        try:
            sent = sock.send(data)
        except socket.timeout:
            continue
        if sent == len(data):
            return
        data = memoryview(data)[sent:]


def read_head(sock: Any, exchange: Exchange, method: str, parse: Callable[[bytes, str], ResponseHead] = parse_response_head,
              ) -> Tuple[ResponseHead, bytes]:
    """Return the head of the answer, and the bytes that came behind it; interim responses before it are skipped.

    :param sock: a socket, or TLS on one.
    :param method: of the request.
    :param parse: takes the bytes of a head and the method, and returns the head.
    :raises BadResponse: it is malformed, or the connection ended before it was whole.
    :raises Stopped, OSError: as for :func:`receive`.
    """
    rest = b""
    for _ in range(_INTERIM_RESPONSES + 1):
        data: Any = rest or receive(sock, exchange)
        end = find_response_head(data) if data else None
        while end is None:
            more = receive(sock, exchange) if data else b""
            if not more:
                raise BadResponse("it closed the connection in the middle of the headers" if data
                                  else "it closed the connection without a response")
            if type(data) is bytes:
                data = bytearray(data)
            data += more
            end = find_response_head(data)
        head, rest = parse(bytes(data[:end]), method), bytes(data[end:])
        # RFC 9110, section 15.2: any number of interim responses may come first; their headers are not the answer's.
        if head.status >= 200 or head.status == 101:
            return head, rest
    raise BadResponse(f"more than {_INTERIM_RESPONSES} interim responses came before the answer")


class _Connection:
    """One connection to the origin; it serves one exchange at a time."""

    __slots__ = ("sock", "has_input", "kept", "until")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        #: For how many seconds after a response it may be used again, from the last header Keep-Alive of the server, and when
        #: they are over; None without that header.
        self.kept: Optional[float] = None
        self.until: Optional[float] = None
        #: Called with 0; true if something can be read, or the connection has ended: an idle one is of no use then.
        self.has_input: Callable[[int], Any] = lambda timeout: select.select([sock], [], [], timeout)[0]
        if sys.platform != "win32" and hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            self.has_input = poll.poll

    def note_kept(self, said: Optional[str]) -> None:
        """Note what the server says in its header Keep-Alive; None without one."""
        found = None if said is None else _KEPT.search(said)
        seconds = 0 if found is None else int(found.group(1))
        self.kept = None if found is None else seconds - min(_LEFT_SECONDS, seconds / 2)

    def begin_idling(self) -> None:
        """Note that no exchange uses it from now on."""
        self.until = None if self.kept is None else monotonic() + self.kept

    def is_idle(self) -> bool:
        """Whether a request can be sent: the server has not closed it, is not about to, and has sent nothing unasked."""
        if self.until is not None and monotonic() > self.until or self.sock.fileno() < 0:  # released in a forked process
            return False
        try:
            return not self.has_input(0)
        except (OSError, ValueError):  # the system does not say
            return False


class DirectSender:
    """Sends requests to one origin over connections of its own; any thread may use it.

    :param url: a plain one (:func:`is_plain`), or one that is :func:`written_by_requests`.
    :param headers: of all requests.
    :param guard: checks the addresses of new connections that go through no proxy.
    :param tls: begins TLS on the connections; None for ``http``.
    """

    def __init__(self, url: str, headers: Mapping[str, str], guard: Optional[Guard], tls: Optional[TLS] = None,
                 proxy: Optional[Proxy] = None) -> None:
        parts = urlsplit(url)
        self.proxied = proxy is not None
        self._proxy = proxy
        self._scheme = "http" if tls is None else "https"
        self.url = url
        self.headers = {name.lower(): value for name, value in headers.items()}
        self._host, self._guard, self._tls = str(parts.hostname), guard, tls
        self._port: int = parts.port or DEFAULT_PORTS[self._scheme]
        host = self._host.partition("%")[0]  # without the zone of a link-local address
        host = f"[{host}]" if ":" in host else host
        named = host if self._port == DEFAULT_PORTS[self._scheme] else f"{host}:{self._port}"
        #: Host and port, as a proxy is asked for them.
        self._authority = f"{host}:{self._port}"
        #: The text before the path in a request line: scheme and host if the request goes through a proxy without TLS;
        #: otherwise empty.
        self._base = f"http://{named}" if proxy is not None and tls is None else ""
        self._target = self._target_of(url)
        #: The lines of all requests, by name in lower case.
        self._lines: Dict[str, str] = {"host": f"Host: {named}\r\n"}
        self._lines.update((name.lower(), f"{name}: {value}\r\n") for name, value in headers.items())
        if proxy is not None and proxy.authorization and tls is None:
            self._lines["proxy-authorization"] = proxy.authorization
        #: What the last request's head was made of, and this head without the length of the content. Both are set in one step,
        #: so that no lock is needed.
        self._written: Tuple[Any, str] = (None, "")
        self._parse_head = ResponseHeads().parse
        #: The idle connections. The interpreter appends and pops each in one step, so that no lock is needed.
        self._idle: List[_Connection] = []
        self._closed = False

    def send(self, exchange: Exchange, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
             connect_seconds: float) -> Reply:
        """Send a request and return its response, as soon as its head has come.

        :param connect_seconds: for each address.
        :raises BadResponse: the response is malformed, or the connection ended before it.
        :raises OSError, ValueError: the server cannot be reached, or the request cannot be sent.
        :raises Stopped: the caller no longer waits.
        """
        request = self._head(method, self._target if url == self.url else self._target_of(url), headers, body)
        connection = self._take()
        exchange.reused = connection is not None
        if connection is None:
            connection = self._connect(exchange, connect_seconds)
        sock, reply = connection.sock, None
        try:
            exchange.attach(sock)
            try:
                send_whole(sock, exchange, request, body or b"")
            except (BrokenPipeError, ConnectionResetError):
                pass  # a server may respond before it has read all, and close
            head, rest = read_head(sock, exchange, method, self._parse_head)
            reply = DirectReply(self, connection, head, rest, exchange, url)
        finally:
            if reply is None:
                _close(sock)  # it stays attached, so the exchange knows that the request may have been sent
        if reply.status == 407 and self._proxy is not None and self._base:
            reply.close()  # the request has not reached the server
            raise ConnectionError(self._proxy.refusal())
        connection.note_kept(reply.headers.get("keep-alive"))
        return reply

    def _head(self, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes]) -> bytes:
        """Return the head of a request; it is written once for requests in a row that differ only in their content."""
        sized = body is not None or method not in _WITHOUT_CONTENT
        request = method, target, headers, sized
        before, fields = self._written
        if before != request:
            lines = self._lines.copy()
            for name, value in headers.items():
                lines[name.lower()] = f"{name}: {value}\r\n"
            if sized:
                lines.pop("content-length", None)
            fields = f"{method} {target} HTTP/1.1\r\n{''.join(lines.values())}"
            if fields.count("\n") != len(lines) + 1 or fields.count("\r") != len(lines) + 1 or "\0" in fields:
                raise ValueError("a header has a line break, and cannot be sent")
            self._written = (method, target, dict(headers), sized), fields
        if sized:
            fields += f"Content-Length: {0 if body is None else len(body)}\r\n"
        return (fields + "\r\n").encode("latin-1")

    def _target_of(self, url: str) -> str:
        parts = urlsplit(url if url.isascii() else written_by_requests(url)[0])
        if (parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[self._scheme]) != (self._scheme, self._host, self._port):
            raise ValueError("the URL is of another origin")
        path = parts.path or "/"
        if path.startswith("//"):
            path = "/" + path.lstrip("/")  # after two slashes, a server could read a host
        target = path + (f"?{parts.query}" if parts.query else "")
        if _PLAIN_TARGET.fullmatch(target):
            return self._base + target
        # As urllib3 does it: if each % begins an escape, the escapes stay as they are. If not, each % is escaped.
        escaped = _PERCENT.sub(lambda found: found.group().upper(), target)
        whole = len(_PERCENT.findall(target)) == target.count("%")
        return self._base + quote(escaped, safe=_SAFE + "%" if whole else _SAFE)

    # --- connections ----------------------------------------------------------------------------------

    def _take(self) -> Optional[_Connection]:
        """Return an idle connection that is still open; None if there is none."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                return None
            if connection.is_idle():
                return connection
            _close(connection.sock)
        return None

    def _connect(self, exchange: Exchange, seconds: float) -> _Connection:
        if self._closed:
            raise ConnectionError("the client was closed")
        if self._proxy is not None:
            return self._connect_to(self._proxy.host, self._proxy.port, exchange, seconds)
        # Connect to an address that the guard has checked: another look-up of the name may give another address (AUTH-36).
        names: Sequence[str] = [self._host] if self._guard is None else self._guard(self._host, self._port)
        for name in names[:-1]:
            with contextlib.suppress(OSError):
                return self._connect_to(name, self._port, exchange, seconds)
            exchange.next_timeout()
        return self._connect_to(names[-1], self._port, exchange, seconds)

    def _connect_to(self, name: str, port: int, exchange: Exchange, seconds: float) -> _Connection:
        # As bytes: a host given as text is encoded by a codec that takes longer than a request.
        host: Any = name.replace("%25", "%").encode("ascii" if name.isascii() else "idna")
        try:
            sock = socket.create_connection((host, port), seconds)
        except OSError as error:
            if self._proxy is None:
                raise
            raise ConnectionError(f"the proxy {self._proxy.name} cannot be reached: {error}") from None
        connection = None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                if self._proxy is not None:
                    self._open_tunnel(self._proxy, sock, exchange)
                    sock.settimeout(seconds)
                sock = self._tls.begin(sock, self._host)
            on_fork(sock, release_socket)  # a forked process must not read the answers of this one
            connection = _Connection(sock)
            return connection
        finally:
            if connection is None:
                sock.close()

    def _open_tunnel(self, proxy: Proxy, sock: socket.socket, exchange: Exchange) -> None:
        """Ask a proxy for a connection to the server, whose bytes it then passes on (RFC 9110, section 9.3.6).

        :raises OSError: it refuses, or does not answer.
        :raises Stopped: the caller no longer waits.
        """
        until = monotonic() + _TUNNEL_SECONDS

        def next_timeout() -> float:
            seconds, left = exchange.next_timeout(), until - monotonic()
            if left <= 0:
                raise TimeoutError(f"the proxy {proxy.name} did not answer within {_TUNNEL_SECONDS:g} s")
            return min(seconds, left)

        head = f"CONNECT {self._authority} HTTP/1.1\r\nHost: {self._authority}\r\n{proxy.authorization}\r\n"
        tunnel = Exchange(next_timeout)
        exchange.attach(sock)
        try:
            send_whole(sock, tunnel, head.encode("latin-1"))
            answer, _ = read_head(sock, tunnel, "CONNECT")
        except TimeoutError:
            raise
        except (BadResponse, OSError) as error:
            raise ConnectionError(f"the proxy {proxy.name} broke off: {error}") from None
        finally:
            exchange.detach()  # nothing of the request has reached the server
        if answer.status == 407:
            raise ConnectionError(proxy.refusal())
        if not 200 <= answer.status < 300:
            raise ConnectionError(f"the proxy {proxy.name} does not connect to {self._authority}: it answered with"
                                  f" {answer.status} {answer.reason}".rstrip())

    def put_back(self, connection: _Connection) -> None:
        """Keep a connection for a later request, or close it."""
        if len(self._idle) < _IDLE_CONNECTIONS and connection.sock.fileno() >= 0:
            connection.begin_idling()
            self._idle.append(connection)
            if not self._closed:
                return
            self.close()  # another thread has begun to close, and may have missed this connection
            return
        _close(connection.sock)

    def close(self) -> None:
        """Close the idle connections; those in use are closed by their replies."""
        self._closed = True
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread closes it
                _close(self._idle.pop().sock)


class DirectReply(Reply):
    """A response on one of our own connections.

    :param rest: bytes of the body that came with the head.
    """

    _decoder: Optional[ChunkedDecoder] = None

    def __init__(self, sender: DirectSender, connection: _Connection, head: ResponseHead, rest: bytes, exchange: Exchange,
                 url: str) -> None:
        super().__init__(head.status, head.headers, head.kind, exchange, url)
        self._sender, self._connection, self._rest = sender, connection, rest
        if head.chunked:
            self._decoder = ChunkedDecoder(None, _TRAILER_BYTES)
        self._missing = head.length
        self._ended = head.length == 0
        #: Whether the connection can serve another request after the body.
        self._keep_alive = head.keep_alive
        if head.status == 101 and head.length is None and not head.chunked:
            self._keep_alive, self._missing, self._ended = False, 0, True  # what follows is of the other protocol

    def read(self, limit: int) -> bytes:
        data = self._rest
        if not data or len(data) != self._missing or len(data) > limit:
            return super().read(limit)
        # The whole body came with the head, and nothing after it.
        self.check_plain()
        self._rest, self._missing, self._ended = b"", 0, True
        self._end()
        return data

    def _receive(self) -> bytes:
        if self._ended:
            return b""
        decoder = self._decoder
        data, self._rest = self._rest or receive(self._connection.sock, self._exchange), b""
        if decoder is not None:
            while True:
                if not data:
                    raise BadResponse("it ended in the middle of a chunked body")
                decoded = decoder.feed(data)
                if decoder.done:
                    self._ended, self._rest = True, decoder.rest
                if decoded or decoder.done:
                    return decoded
                data = receive(self._connection.sock, self._exchange)
        if self._missing is None:
            self._ended = not data
            return data
        if len(data) >= self._missing:
            data, self._rest = data[:self._missing], data[self._missing:]
            self._ended = True
        self._missing -= len(data)
        return data

    def _release(self) -> None:
        if self._keep_alive and not self._rest:
            self._sender.put_back(self._connection)
        else:
            _close(self._connection.sock)

    def _abort(self) -> None:
        _close(self._connection.sock)

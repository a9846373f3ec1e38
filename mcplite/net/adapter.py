"""Connections of ``requests`` whose every read and write asks first whether somebody still waits."""

import contextlib
import functools
import http.client
import io
import socket
import threading
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

__all__ = ["Direct", "Exchange", "Stopped", "make_adapter"]

#: How many connections rest between requests.
_KEPT = 100
#: Of all headers of a response.
_HEADER_BYTES = 65_536


class Stopped(Exception):
    """Nobody waits for this response any more."""


class Exchange:
    """One request and its response.

    :param left: returns the seconds after which it wants to be asked again; raises :class:`Stopped` when nobody waits.
    :param clock: by which the time for it is measured, if that is one that can be stopped.
    """

    def __init__(self, left: Callable[[], float], in_all: Callable[[], Optional[float]] = lambda: None,
                 clock: Any = None) -> None:
        self._left = left
        self._clock = clock
        #: Returns the seconds until all of it has to be over; None when there is no such bound.
        self.left_in_all = in_all
        #: Whether a user may be asked to log in on its behalf.
        self.may_ask = True
        #: Whether it was interrupted, which is why its socket is not usable.
        self.cut = False
        #: Whether its connection has served another request before.
        self.used = False
        #: Whether a response has begun.
        self.answered = False
        #: Whether somebody has to know the address that it talks to; and that address, None before, and for what is no
        #: socket of the internet.
        self.notes_address = False
        self.address: Optional[str] = None
        #: Guards ``_sock``: an interrupt must not strike a connection that serves somebody else by now.
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None

    def left(self) -> float:
        """Return the seconds that the next read or write may take.

        :raises Stopped: nobody waits any more.
        """
        if self.cut:
            raise Stopped
        return self._left()

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """Let no time pass for it, as far as its clock can be stopped: a person may be asked to log in."""
        if self._clock is not None:
            self._clock.stop()
        try:
            yield
        finally:
            if self._clock is not None:
                self._clock.go()

    def hold(self, sock: Optional[socket.socket]) -> None:
        """Note the socket that the exchange uses; None when it is done with it."""
        if sock is not None and self.notes_address:
            # Now: who breaks it off behind the answer would not be known any more, and could have itself looked up anew.
            with contextlib.suppress(OSError):
                self.address = str(sock.getpeername()[0])
        with self._lock:
            self._sock = sock

    def interrupt(self) -> None:
        """End it from another thread: a read that waits returns at once."""
        self.cut = True
        with self._lock:
            if self._sock is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # Past TLS, which would drop its state under the thread that reads.
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)


class _Raw(io.RawIOBase):
    """A socket's bytes, read in slices of the time that is left."""

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._sock = sock
        self._exchange = exchange
        # As long as this is open the socket is, which http.client closes before the body was read.
        self._held = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        sock, exchange = self._sock, self._exchange
        while True:
            sock.settimeout(exchange.left())
            try:
                return sock.recv_into(buffer)
            except socket.timeout:
                continue

    def close(self) -> None:
        self._held.close()
        super().close()


class _Source:
    """What http.client takes for a socket when it opens a response."""

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._pair = sock, exchange

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Raw(*self._pair), 65_536)


class _Response(http.client.HTTPResponse):
    """A response that reads through an exchange."""

    def __init__(self, exchange: Exchange, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_Source(sock, exchange), *arguments, **options)  # type: ignore[arg-type]

    def begin(self) -> None:
        # The standard library hands the headers to its parser for mail, which takes as long as everything else.
        if self.headers is not None:
            return  # its stubs do not know the time before
        version, status, reason = self._read_status()
        headers = self._read_headers()
        while status == 100:
            version, status, reason = self._read_status()
            headers = self._read_headers()
        self.code = self.status = status
        self.reason = reason.strip()
        self.version = 10 if version == "HTTP/1.0" else 11
        self.headers = self.msg = headers
        self.chunked = (headers.get("transfer-encoding") or "").lower() == "chunked"
        self.chunk_left = None
        self.will_close = self._check_close()
        length = headers.get("content-length") or ""
        self.length = int(length) if length.isdigit() and not self.chunked else None
        if status in (204, 304) or self._method == "HEAD":
            self.length = 0
        if not self.will_close and not self.chunked and self.length is None:
            self.will_close = True

    def _read_headers(self) -> http.client.HTTPMessage:
        message = http.client.HTTPMessage()
        left = _HEADER_BYTES
        while True:
            line = self.fp.readline(left + 1)
            left -= len(line)
            if left < 0:
                raise http.client.LineTooLong("headers")
            if line in (b"\r\n", b"\n", b""):
                return message
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or line[:1] in b" \t":
                raise http.client.HTTPException(f"a line among the headers is none: {line[:60]!r}")
            message[name] = value.strip(" \t\r\n")


class Direct:
    """Sends by an adapter's connections, past what ``requests`` does for each request and has done here already.

    :param adapter: ours.
    :param current: holds the current thread's exchange.
    :param settings: proxies, certificates and their like, as ``requests`` has them.
    """

    def __init__(self, adapter: Any, current: Any, settings: Mapping[str, Any]) -> None:
        from urllib3.exceptions import HTTPError

        self._adapter, self._current = adapter, current
        self._settings = settings
        #: What :meth:`send` raises, besides what a socket does.
        self.error = HTTPError
        self._pools: Dict[str, Tuple[Any, str]] = {}

    def _pool(self, request: Any) -> Tuple[Any, str]:
        known = self._pools.get(request.url)
        if known is None:
            adapter, settings = self._adapter, self._settings
            verify, proxies, cert = settings["verify"], settings["proxies"], settings["cert"]
            find = getattr(adapter, "get_connection_with_tls_context", None)  # since requests 2.32
            pool = (adapter.get_connection(request.url, proxies) if find is None
                    else find(request, verify, proxies=proxies, cert=cert))
            adapter.cert_verify(pool, request.url, verify, cert)
            known = self._pools[request.url] = pool, adapter.request_url(request, proxies)
        return known

    def send(self, request: Any, headers: Dict[str, str], body: Optional[bytes], connect_seconds: Optional[float]) -> Any:
        """Send a request and return urllib3's response.

        :param request: prepared, for its method and URL.
        """
        from urllib3.util import Timeout

        pool, target = self._pool(request)
        self._current.has_body = bool(body)
        return pool.urlopen(
            request.method, target, body=body, headers=headers, redirect=False, assert_same_host=False, retries=False,
            preload_content=False, decode_content=False, timeout=Timeout(connect=connect_seconds, read=None))

    def close(self) -> None:
        """Close the connections that rest; urllib3 does so by itself only when nobody holds their pool any more."""
        for pool, _ in self._pools.values():
            pool.close()


def make_adapter(guard: Optional[Callable[[str, int], Sequence[str]]] = None) -> Tuple[Any, Any]:
    """Return an adapter for ``requests``, and what holds the current thread's exchange as ``exchange``.

    :param guard: called with the host and the port of each new connection; returns the addresses to connect to, the next
        where one does not answer, or raises OSError. Certificates are held against the host all the same.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.exceptions import HTTPError

    current = threading.local()

    class Watched:
        """What our connections do in another way."""

        _held: Optional[bytes] = None
        _exchange: Optional[Exchange] = None
        sock: Any
        response_class: Any
        _dns_host: str
        port: int

        def _enter(self) -> None:
            exchange = self._exchange = getattr(current, "exchange", None)
            if exchange is not None:
                self.response_class = functools.partial(_Response, exchange)

        def _new_conn(self) -> Any:
            host = self._dns_host
            # What was looked at is what is connected to: a name may lead elsewhere the next time (AUTH-36).
            addresses = [host] if guard is None else guard(host, self.port)
            try:
                for self._dns_host in addresses[:-1]:
                    with contextlib.suppress(HTTPError):
                        return super()._new_conn()  # type: ignore[misc]
                    if self._exchange is not None:
                        self._exchange.left()
                self._dns_host = addresses[-1]
                return super()._new_conn()  # type: ignore[misc]
            finally:
                self._dns_host = host

        def connect(self) -> None:
            self._enter()  # a proxy's answer is read on the way
            super().connect()  # type: ignore[misc]

        def putrequest(self, *arguments: Any, **options: Any) -> Any:
            self._enter()
            self._held = b""
            return super().putrequest(*arguments, **options)  # type: ignore[misc]

        def send(self, data: Any) -> None:
            exchange = self._exchange
            if exchange is None or not isinstance(data, (bytes, bytearray)):
                super().send(data)  # type: ignore[misc]
                return
            if self._held == b"" and getattr(current, "has_body", False):
                self._held = bytes(data)  # the head goes with the body: one segment, and one less change of threads
                return
            data, self._held = (self._held or b"") + data, None
            exchange.used = self.sock is not None
            if self.sock is None:
                self.connect()
            sock = self.sock
            exchange.hold(sock)
            rest = memoryview(data)
            while rest:
                sock.settimeout(exchange.left())
                try:
                    rest = rest[sock.send(rest):]
                except socket.timeout:
                    continue

    class Plain(Watched, HTTPConnection):
        """A connection without TLS."""

    class Secure(Watched, HTTPSConnection):
        """A connection with TLS."""

    class PlainPool(HTTPConnectionPool):
        """Connections to one host."""

        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        """Connections to one host, with TLS."""

        ConnectionCls = Secure

    pools = {"http": PlainPool, "https": SecurePool}

    class Adapter(HTTPAdapter):
        """The standard adapter with our connections; it never repeats a request."""

        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            super().init_poolmanager(*arguments, **options)
            self.poolmanager.pool_classes_by_scheme = pools

        def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
            manager = super().proxy_manager_for(proxy, **options)
            if not proxy.lower().startswith("socks"):  # whose connections are their own
                manager.pool_classes_by_scheme = pools
            return manager

        def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
            current.has_body = bool(request.body)
            return super().send(request, *arguments, **options)

    return Adapter(pool_connections=4, pool_maxsize=_KEPT, max_retries=0), current

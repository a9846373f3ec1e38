"""Connections of ``requests`` whose every read and write asks first whether somebody still waits."""

import contextlib
import functools
import http.client
import io
import socket
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from .exchange import Exchange

__all__ = ["Direct", "make_adapter"]

#: How many connections rest between requests.
_KEPT = 100
#: Of all headers of a response.
_HEADER_BYTES = 65_536


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

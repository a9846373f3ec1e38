"""Connections of ``requests`` whose every read and write obeys the deadline of its exchange.

The adapter is asked for connections, and :class:`DirectSender` sends by them. ``requests`` and ``urllib3`` are imported at
the top, so this module is itself imported with the first client (``tests/test_imports.py``).
"""

import contextlib
import functools
import http.client
import io
import socket
import threading
from typing import Any, Dict, Mapping, Optional, Tuple

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout

from ..rpc.forks import on_fork, release_socket, renew
from .exchange import Exchange
from .settings import Guard

__all__ = ["Adapter", "DirectSender", "renew_connections"]

#: How many idle connections are kept for later requests.
_IDLE_CONNECTIONS = 100
#: Of all headers of a response.
_HEADER_BYTES = 65_536
#: Responses with a status of 1xx before the answer.
_INTERIM_RESPONSES = 20
#: URLs whose pools are remembered.
_MOST_URLS = 32


class ThreadState(threading.local):
    """What the connections of one adapter know of the request that the current thread sends."""

    #: None for a request that is not ours, such as a user's own adapter may send.
    exchange: Optional[Exchange] = None
    has_body = False


class _SocketReader(io.RawIOBase):
    """A socket's bytes; each read blocks no longer than the exchange allows."""

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._sock = sock
        self._exchange = exchange
        # Keeps the socket open, which http.client closes before the body was read.
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        sock, exchange = self._sock, self._exchange
        while True:
            sock.settimeout(exchange.next_timeout())
            try:
                return sock.recv_into(buffer)
            except socket.timeout:
                continue

    def close(self) -> None:
        self._file.close()
        super().close()


class _SocketFiles:
    """What http.client takes for a socket when it opens a response: it calls ``makefile`` and nothing else."""

    def __init__(self, sock: socket.socket, exchange: Exchange) -> None:
        self._sock, self._exchange = sock, exchange

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_SocketReader(self._sock, self._exchange), 65_536)


class _Response(http.client.HTTPResponse):
    """A response that is read within the deadline of its exchange."""

    def __init__(self, exchange: Exchange, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(_SocketFiles(sock, exchange), *arguments, **options)  # type: ignore[arg-type]

    def begin(self) -> None:
        # The standard library hands the headers to its parser for mail, which takes as long as everything else together.
        if self.headers is not None:
            return  # its stubs do not know that they are None at first
        version, status, reason = self._read_status()
        headers = self._read_headers()
        interim = 0
        while 100 <= status < 200 and status != http.client.SWITCHING_PROTOCOLS:
            # RFC 9110, section 15.2: any number of interim responses may come first; their headers are not the answer's.
            interim += 1
            if interim > _INTERIM_RESPONSES:
                raise http.client.HTTPException(f"more than {_INTERIM_RESPONSES} interim responses came before the answer")
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
                raise http.client.HTTPException(f"this line among the headers is not a header: {line[:60]!r}")
            message[name] = value.strip(" \t\r\n")


class _ExchangeConnection:
    """What our connections do in another way than urllib3's; combined with its two classes below."""

    #: Set by the pool that makes the connection.
    thread: ThreadState
    guard: Optional[Guard]
    sock: Any
    response_class: Any
    _dns_host: str
    port: int
    _exchange: Optional[Exchange] = None
    #: Whether closing passes the socket on.
    _passes_socket = False
    #: The head of a request with a body, until the body is sent as well; None outside of a request.
    _head: Optional[bytes] = None

    def _begin_exchange(self) -> None:
        exchange = self._exchange = self.thread.exchange
        if exchange is not None:
            self.response_class = functools.partial(_Response, exchange)

    def _new_conn(self) -> Any:
        host = self._dns_host
        # The address that was checked is the one that is connected to: the name may lead elsewhere the next time (AUTH-36).
        addresses = [host] if self.guard is None else self.guard(host, self.port)
        try:
            for self._dns_host in addresses[:-1]:
                with contextlib.suppress(HTTPError):
                    return super()._new_conn()  # type: ignore[misc]
                if self._exchange is not None:
                    self._exchange.next_timeout()
            self._dns_host = addresses[-1]
            return super()._new_conn()  # type: ignore[misc]
        finally:
            self._dns_host = host

    def connect(self) -> None:
        self._begin_exchange()  # a proxy's answer is read on the way
        super().connect()  # type: ignore[misc]
        # A forked process must not read the answers of this one.
        on_fork(self.sock, release_socket)
        on_fork(self, _release_connection)

    @property
    def is_connected(self) -> bool:
        """Whether an idle connection is still open; False if the system does not say, since urllib3 then closes it."""
        try:
            return bool(super().is_connected)  # type: ignore[misc]
        except OSError:
            return False

    def getresponse(self) -> Any:
        self._passes_socket = True  # to the response, if that ends with the connection
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            self._passes_socket = False

    def close(self) -> None:
        sock = self.sock
        if sock is not None and not self._passes_socket:
            with contextlib.suppress(OSError):  # the server has closed it
                # Past TLS; so that the server sees the end although a forked process may have a copy.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        super().close()  # type: ignore[misc]

    def putrequest(self, *arguments: Any, **options: Any) -> Any:
        self._begin_exchange()
        self._head = b""
        return super().putrequest(*arguments, **options)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        exchange = self._exchange
        if exchange is None or not isinstance(data, (bytes, bytearray)):
            super().send(data)  # type: ignore[misc]
            return
        if self._head == b"" and self.thread.has_body:
            self._head = bytes(data)  # sent with the body: one segment, and one less switch of threads
            return
        data, self._head = (self._head or b"") + data, None
        exchange.reused = self.sock is not None
        if self.sock is None:
            self.connect()
        sock = self.sock
        exchange.attach(sock)
        rest = memoryview(data)
        while rest:
            sock.settimeout(exchange.next_timeout())
            try:
                rest = rest[sock.send(rest):]
            except socket.timeout:
                continue


def _release_connection(connection: Any, owner: int) -> None:
    """Take its socket from a connection in a forked process. Closing it could wait for a thread that reads its response."""
    connection.sock = None


class _PlainConnection(_ExchangeConnection, HTTPConnection):
    """A connection without TLS."""


class _SecureConnection(_ExchangeConnection, HTTPSConnection):
    """A connection with TLS."""


class _ExchangePool:
    """What our pools do in another way than urllib3's; combined with its two classes below."""

    def __init__(self, thread: ThreadState, guard: Optional[Guard], *arguments: Any, **options: Any) -> None:
        self._thread, self._guard = thread, guard
        super().__init__(*arguments, **options)

    def _new_conn(self) -> Any:
        connection = super()._new_conn()  # type: ignore[misc]
        connection.thread, connection.guard = self._thread, self._guard
        return connection


class _PlainPool(_ExchangePool, HTTPConnectionPool):
    """Connections to one host."""

    ConnectionCls = _PlainConnection


class _SecurePool(_ExchangePool, HTTPSConnectionPool):
    """Connections to one host, with TLS."""

    ConnectionCls = _SecureConnection


class Adapter(HTTPAdapter):
    """The standard adapter of ``requests`` with our connections; it never repeats a request.

    :param guard: for connections that go through no proxy.
    """

    def __init__(self, guard: Optional[Guard] = None) -> None:
        #: Who sends sets ``thread.exchange`` first.
        self.thread = thread = ThreadState()
        self._pools: Dict[str, Any] = {"http": functools.partial(_PlainPool, thread, guard),
                                       "https": functools.partial(_SecurePool, thread, guard)}
        super().__init__(pool_connections=4, pool_maxsize=_IDLE_CONNECTIONS, max_retries=0)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):  # whose connections are of another class
            manager.pool_classes_by_scheme = self._pools
        return manager

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        self.thread.has_body = bool(request.body)
        return super().send(request, *arguments, **options)


def renew_connections(adapter: HTTPAdapter, owner: int) -> None:
    """Drop the idle connections of a user's adapter in a forked process, where its requests need connections of their own.

    :param adapter: of ``requests``; a subclass may make its pools in another way.
    """
    for manager in [adapter.poolmanager, *adapter.proxy_manager.values()]:
        for pool in list(manager.pools._container.values()):
            renew(pool.pool.mutex)  # closing the pool, when it is garbage, takes it
            for connection in pool.pool.queue:
                if connection is not None and connection.sock is not None:
                    release_socket(connection.sock)
    state: Any = adapter
    adapter.proxy_manager.clear()
    adapter.init_poolmanager(state._pool_connections, state._pool_maxsize, block=state._pool_block)


class DirectSender:
    """Sends by an adapter's connections, past what ``requests`` does for each request and the client has done once.

    :param merged: certificates and proxies, as ``requests`` has merged them with the environment.
    """

    #: What :meth:`send` raises, besides what a socket does.
    error = HTTPError

    def __init__(self, adapter: Adapter, merged: Mapping[str, Any]) -> None:
        self._adapter = adapter
        self._merged = merged
        #: By URL: the pool of connections, which is the same for all, and what the request line says; replaced as a whole.
        self._pools: Dict[str, Tuple[Any, str]] = {}

    def _pool(self, request: Any) -> Tuple[Any, str]:
        known = self._pools.get(request.url)
        if known is None:
            adapter: Any = self._adapter
            verify, proxies, cert = self._merged["verify"], self._merged["proxies"], self._merged["cert"]
            find = getattr(adapter, "get_connection_with_tls_context", None)  # since requests 2.32
            pool = (adapter.get_connection(request.url, proxies) if find is None
                    else find(request, verify, proxies=proxies, cert=cert))
            adapter.cert_verify(pool, request.url, verify, cert)
            known = pool, adapter.request_url(request, proxies)
            # A server may redirect each request to another URL.
            others = self._pools if len(self._pools) < _MOST_URLS else {}
            self._pools = {**others, request.url: known}
        return known

    def send(self, request: Any, headers: Dict[str, str], body: Optional[bytes], connect_seconds: Optional[float]) -> Any:
        """Send a request and return urllib3's response.

        :param request: prepared, for its method and URL.
        """
        pool, target = self._pool(request)
        self._adapter.thread.has_body = bool(body)
        return pool.urlopen(
            request.method, target, body=body, headers=headers, redirect=False, assert_same_host=False, retries=False,
            preload_content=False, decode_content=False, timeout=Timeout(connect=connect_seconds, read=None))

    def close(self) -> None:
        """Close the idle connections; urllib3 does so only when their pool is garbage."""
        for pool, _ in self._pools.values():
            pool.close()

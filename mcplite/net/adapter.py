"""Connections of ``requests`` whose every read and write obeys the deadline of its exchange.

A :class:`~.session_sender.SessionSender` sends by the adapter. ``requests`` and ``urllib3`` are imported at the top, so this
module is itself imported with the first sender (``tests/test_imports.py``).
"""

import contextlib
import functools
import http.client
import io
import socket
import threading
from typing import Any, Callable, Dict, List, Optional

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from ..rpc.forks import on_fork, release_socket, renew
from .exchange import Exchange
from .response import ResponseReader, receive, send_whole
from .settings import Guard

__all__ = ["Adapter", "renew_connections"]

#: How many idle connections are kept for later requests.
_IDLE_CONNECTIONS = 100


class ThreadState(threading.local):
    """What the connections of one adapter know of the request that the current thread sends."""

    #: None for a request that is not ours, such as a user's own adapter may send.
    exchange: Optional[Exchange] = None
    has_body = False


class _Received(io.RawIOBase):
    """Bytes as a file: each read returns what *read1* does."""

    def __init__(self, read1: Callable[[], bytes]) -> None:
        self._read1 = read1
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or self._read1()
        size = min(len(data), len(buffer))
        buffer[:size], self._rest = data[:size], data[size:]
        return size


class _SocketFiles:
    """What http.client takes for a socket when it opens a response: it calls ``makefile`` and nothing else."""

    def __init__(self, sock: Any, exchange: Exchange) -> None:
        self._sock, self._exchange = sock, exchange

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(lambda: receive(self._sock, self._exchange)), 65_536)


class _Response(http.client.HTTPResponse):
    """A response that our reader reads, within the deadline of its exchange.

    Only the answer of a proxy to CONNECT is read by the standard library itself, from ``fp``.
    """

    def __init__(self, exchange: Exchange, sock: Any, method: Optional[str] = None, **options: Any) -> None:
        super().__init__(_SocketFiles(sock, exchange), method=method, **options)  # type: ignore[arg-type]
        self.reader = ResponseReader(sock, exchange, method or "GET")
        # Keeps the socket open, which http.client closes before the body was read.
        self._file = sock.makefile("rb", buffering=0)

    def begin(self) -> None:
        if self.headers is not None:
            return  # its stubs do not know that they are None at first
        head = self.reader.begin()
        message = http.client.HTTPMessage()
        coded = "transfer-encoding" in head.headers
        for name, value in head.fields:
            # urllib3 gets the body without the coding.
            if not (coded and name.lower() in ("transfer-encoding", "content-length")):
                message[name] = value
        self.code = self.status = head.status
        self.reason, self.version = head.reason, 10 + head.version[1]
        self.headers = self.msg = message
        self.fp = io.BufferedReader(_Received(self.reader.read1), 65_536)
        self.chunked, self.chunk_left, self.length = False, None, head.length
        self.will_close = not head.keep_alive

    def _close_conn(self) -> None:
        self._file.close()
        super()._close_conn()  # type: ignore[misc]


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
    #: Of the last response.
    _reader: Optional[ResponseReader] = None
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
        """Whether an idle connection can be used again; False if the system does not say, since urllib3 then closes it."""
        if self._reader is not None and not self._reader.reusable:
            return False
        try:
            return bool(super().is_connected)  # type: ignore[misc]
        except OSError:
            return False

    def getresponse(self) -> Any:
        self._passes_socket = True  # to the response, if that ends with the connection
        try:
            response = super().getresponse()  # type: ignore[misc]
        finally:
            self._passes_socket = False
        self._reader = getattr(getattr(response, "_fp", response), "reader", None)
        return response

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
        send_whole(sock, exchange, data)


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

    #: What urllib3 raises, besides what a socket does.
    error = HTTPError

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

    def close(self) -> None:
        """Close the idle connections; urllib3 does so only when their pool is garbage."""
        for pool in _pools_of(self):
            pool.close()
        super().close()


def _pools_of(adapter: HTTPAdapter) -> List[Any]:
    managers: List[Any] = [adapter.poolmanager, *adapter.proxy_manager.values()]
    return [pool for manager in managers for pool in list(manager.pools._container.values())]


def renew_connections(adapter: HTTPAdapter, owner: int) -> None:
    """Drop the idle connections of a user's adapter in a forked process, where its requests need connections of their own.

    :param adapter: of ``requests``; a subclass may make its pools in another way.
    """
    for pool in _pools_of(adapter):
        renew(pool.pool.mutex)  # closing the pool, when it is garbage, takes it
        for connection in pool.pool.queue:
            if connection is not None and connection.sock is not None:
                release_socket(connection.sock)
    state: Any = adapter
    adapter.proxy_manager.clear()
    adapter.init_poolmanager(state._pool_connections, state._pool_maxsize, block=state._pool_block)

"""The body of a response that a session of ``requests`` returned, and the sockets of its connections.

:mod:`.session_sender` makes one for each response. The connections are the session's own, so that a read blocks for as long
as it takes: each runs on another thread, and its socket is shut down when the caller stops waiting.
"""

import contextlib
import http.client
import io
import socket
import sys
from typing import Any, List, Optional, Tuple

from urllib3.connectionpool import HTTPConnectionPool

from ..rpc.threads import Workers
from .exchange import Exchange
from .interruptible_call import ThreadedCall
from .response import Body

__all__ = ["SessionBody", "break_connection"]

_PIECE_BYTES = 65_536


def break_connection(thread: int) -> None:
    """End the connection over which a thread sends a request or waits for the head of its response, if there is one.

    :param thread: runs the request of a session. Its adapters tell no caller which connection they use, but its frames do.
    """
    connection, pool = _connection_of(thread)
    sock = getattr(connection, "sock", None)
    if sock is None:
        return
    # While its lock is held, the pool cannot give the connection to another thread.
    with contextlib.nullcontext() if pool is None else pool.mutex:
        if _connection_of(thread)[0] is connection:  # or else the response has come meanwhile
            _shut_down(sock)


def _connection_of(thread: int) -> Tuple[Optional[http.client.HTTPConnection], Any]:
    """Return the connection that a thread uses, and the queue of its pool; None for what is not found."""
    connection: Optional[http.client.HTTPConnection] = None
    frame = sys._current_frames().get(thread)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if connection is None and isinstance(owner, http.client.HTTPConnection):
            connection = owner
        elif connection is not None and isinstance(owner, HTTPConnectionPool):
            return connection, owner.pool
        frame = frame.f_back
    return connection, None


def _shut_down(sock: Any) -> None:
    with contextlib.suppress(OSError, TypeError):  # it is closed already, or is none of the system's
        # Past TLS, which would drop its state under the reading thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _socket_of(raw: Any) -> Any:
    """Return the socket that a response of urllib3 is read from; None if it is read from something else."""
    file = getattr(getattr(raw, "_fp", None), "fp", None)
    # The connection has left it to the response, if it ends with that.
    sock = getattr(getattr(file, "raw", None), "_sock", None) or getattr(getattr(raw, "_connection", None), "sock", None)
    return sock if isinstance(sock, socket.socket) else None


class SessionBody(Body):
    """The body of one response.

    :param response: of ``requests``.
    """

    __slots__ = ("_response", "_workers", "_exchange", "_file", "_ready", "_fault", "_left", "_sock", "decoded")

    def __init__(self, response: Any, workers: Workers, exchange: Exchange) -> None:
        self._response, self._workers, self._exchange = response, workers, exchange
        raw = response.raw
        content = getattr(response, "_content", False)
        #: Whether a hook has read it, by which it was decoded.
        self.decoded = content is not False
        if not self.decoded and raw is not None:
            # Past urllib3, whose reads block until they have all that was asked for.
            file = getattr(raw, "_fp", None)
            self._file: Any = file if hasattr(file, "read1") else raw
            #: None where the body comes from no socket, as in a test's.
            self._sock = _socket_of(raw)
        else:
            self._file, self._sock = io.BytesIO(content if isinstance(content, bytes) else b""), None
        #: What has been read ahead, and the error that ended that.
        self._ready: List[bytes] = []
        self._fault: Optional[Exception] = None
        #: Whether the caller has left a read, whose thread closes the response.
        self._left = False

    def read_ahead(self) -> None:
        """Read a short body whole, if its length is known: without this, each piece takes a change of threads."""
        length = self.missing
        if length is None or length > _PIECE_BYTES:
            return
        try:
            while self.missing:
                data = self._read()
                if not data:
                    return
                self._ready.append(data)
        except Exception as error:
            self._fault = error  # of the body, not of the request

    @property
    def missing(self) -> Optional[int]:
        length = getattr(self._file, "length", None)
        return length if type(length) is int else None

    def read1(self) -> bytes:
        if self._ready:
            return self._ready.pop(0)
        if self._fault is not None:
            raise self._fault
        if isinstance(self._file, io.BytesIO) or self.missing == 0:
            self._exchange.next_timeout()
            return self._read()
        response = self._response
        call = ThreadedCall(self._read, lambda thread: self.interrupt(), lambda late: response.close())
        try:
            data: bytes = call.run(self._workers, self._exchange)
        finally:
            self._left = call.given_up
        return data

    def _read(self) -> bytes:
        read = getattr(self._file, "read1", None) or self._file.read
        data: bytes = read(_PIECE_BYTES)
        return data

    def attach(self) -> None:
        """Tell the exchange the socket."""
        if self._sock is not None:
            self._exchange.attach(self._sock)

    def interrupt(self) -> None:
        """Make a read on another thread return."""
        if self._sock is not None:
            _shut_down(self._sock)

    def release(self) -> None:
        # http.client takes a response with a length for unread until it is closed.
        self._file.close()
        release = getattr(self._response.raw, "release_conn", None)
        if release is not None:
            release()
        self._let_go()

    def close(self) -> None:
        self.interrupt()  # the server sees the end although a forked process may have a copy
        if not self._left:
            self._response.close()
        self._let_go()

    def _let_go(self) -> None:
        """Keep nothing of the response: it has the pool, which is to close with the session."""
        self._response = self._file = self._sock = None

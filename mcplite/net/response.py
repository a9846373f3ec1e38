"""Reads one response from a socket, each read within the deadline of its exchange.

Our own connections and those of ``requests`` read by it, so that both answer alike.
"""

import socket
from typing import Any, Optional, Union

from ..protocol.http.http1 import BadRequest, ChunkedDecoder
from ..protocol.http.responses import BadResponse, ResponseHead, find_response_head, parse_response_head
from .exchange import Exchange

__all__ = ["ResponseReader", "receive", "send_whole"]

_PIECE_BYTES = 65_536
#: Of the fields behind a chunked body, which are dropped.
_TRAILER_BYTES = 65_536
#: Responses with a status of 1xx before the answer.
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
    """Send all of *data*, and a body behind it, which is not copied for it if it is large.

    :raises Stopped, OSError: as for :func:`receive`.
    """
    _send(sock, exchange, data + body[:_PIECE_BYTES])
    if len(body) > _PIECE_BYTES:
        _send(sock, exchange, memoryview(body)[_PIECE_BYTES:])


def _send(sock: Any, exchange: Exchange, data: "Union[bytes, memoryview]") -> None:
    sent = 0
    rest = memoryview(data)
    while True:
        seconds = exchange.next_timeout()
        if sock.gettimeout() != seconds:
            sock.settimeout(seconds)
        try:
            sent += sock.send(rest[sent:] if sent else data)
        except socket.timeout:
            continue
        if sent >= len(data):
            return


class ResponseReader:
    """The bytes of one response: :meth:`begin` reads the head, :meth:`read1` the body.

    :param sock: a socket, or TLS on one.
    :param method: of the request.
    """

    __slots__ = ("_sock", "_exchange", "_method", "_rest", "_decoder", "_keep_alive", "length", "over")

    def __init__(self, sock: Any, exchange: Exchange, method: str) -> None:
        self._sock = sock
        self._exchange = exchange
        self._method = method
        #: Bytes of the body that came with the head.
        self._rest = b""
        self._decoder: Optional[ChunkedDecoder] = None
        self._keep_alive = False
        #: Bytes of the body that have not come yet; None while only its end will tell.
        self.length: Optional[int] = None
        #: Whether the body has ended.
        self.over = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can serve another request: the body has ended, and nothing came behind it."""
        return self.over and self._keep_alive and not self._rest

    def begin(self) -> ResponseHead:
        """Read and return the head of the answer; interim responses before it are skipped.

        :raises BadResponse: it is malformed, or the connection ended before it was whole.
        :raises Stopped, OSError: as for :func:`receive`.
        """
        head = self._read_head()
        interim = 0
        while head.status < 200 and head.status != 101:
            # RFC 9110, section 15.2: any number of interim responses may come first; their headers are not the answer's.
            interim += 1
            if interim > _INTERIM_RESPONSES:
                raise BadResponse(f"more than {_INTERIM_RESPONSES} interim responses came before the answer")
            head = self._read_head()
        self._keep_alive = head.keep_alive
        if head.status == 101 and head.length is None and not head.chunked:
            self._keep_alive, self.length, self.over = False, 0, True  # what follows is of the other protocol
        elif head.chunked:
            self._decoder = ChunkedDecoder(None, _TRAILER_BYTES)
        else:
            self.length = head.length
            self.over = head.length == 0
        return head

    def _read_head(self) -> ResponseHead:
        data: Any = self._rest or receive(self._sock, self._exchange)
        end = find_response_head(data) if data else None
        while end is None:
            more = receive(self._sock, self._exchange) if data else b""
            if not more:
                raise BadResponse("it closed the connection in the middle of the headers" if data
                                  else "it closed the connection without a response")
            if type(data) is bytes:
                data = bytearray(data)
            data += more
            end = find_response_head(data)
        self._rest = bytes(data[end:])
        return parse_response_head(bytes(data[:end]), self._method)

    def read1(self) -> bytes:
        """Return what has come of the body, at least one byte; nothing at its end.

        When the connection ends before the body, :attr:`length` is what is missing.

        :raises BadResponse: it is malformed.
        :raises Stopped, OSError: as for :func:`receive`.
        """
        if self.over:
            return b""
        if self._decoder is not None:
            return self._read_chunks(self._decoder)
        data, self._rest = self._rest or receive(self._sock, self._exchange), b""
        if self.length is None:
            self.over = not data
            return data
        if len(data) >= self.length:
            data, self._rest = data[:self.length], data[self.length:]
            self.over = True
        self.length -= len(data)
        return data

    def _read_chunks(self, decoder: ChunkedDecoder) -> bytes:
        while True:
            data, self._rest = self._rest or receive(self._sock, self._exchange), b""
            if not data:
                raise BadResponse("it ended in the middle of a chunked body")
            try:
                decoded = decoder.feed(data)
            except BadRequest as error:
                raise BadResponse(str(error)) from None
            if decoder.done:
                self.over, self._rest = True, decoder.rest
                return decoded
            if decoded:
                return decoded

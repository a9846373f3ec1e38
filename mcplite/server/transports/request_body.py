"""Reads the body of one request from its socket, within limits of size and time.

:mod:`.connection` makes one for each request; the endpoint reads it only when the headers were accepted.
"""

import socket
import time
from typing import Optional

from ...protocol.http.http1 import BadRequest, ChunkedDecoder, RequestHead
from ..http.messages import UnreadableBody
from ..limits import Limits
from .client_socket import ClientSocket

__all__ = ["RequestBody"]

_PIECE = 65_536
#: Seconds after which the rate of a body is checked.
_RATE_AFTER_SECONDS = 5.0


class RequestBody:
    """The unread body of a request.

    :param plan: its length in bytes; None if it is chunked.
    """

    __slots__ = ("_client", "_head", "_plan", "_limits", "_started", "_bytes", "unread")

    def __init__(self, client: ClientSocket, head: RequestHead, plan: Optional[int], limits: Limits) -> None:
        self._client = client
        self._head = head
        self._plan = plan
        self._limits = limits
        self._started = 0.0
        self._bytes = 0
        #: Whether part of the body may still follow on the socket, so that it cannot be reused.
        self.unread = plan != 0

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises UnreadableBody: it has more than *limit* bytes, comes too slowly, or does not match the headers.
        """
        plan, client, head = self._plan, self._client, self._head
        if plan is not None and plan > limit:
            raise UnreadableBody(413, f"the body has {plan} bytes; the limit is {limit}")
        buffer = client.buffer
        if plan is not None and len(buffer) >= plan:
            body = bytes(buffer[:plan])
            del buffer[:plan]
            self.unread = False
            return body
        if head.version == (1, 1) and (head.headers.get("expect") or "").lower() == "100-continue" and not buffer:
            client.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._started = time.monotonic()
        client.busy = False
        body = self._read_chunks(limit) if plan is None else self._read_length(plan)
        client.busy = True
        self.unread = False
        return body

    def _read_length(self, plan: int) -> bytes:
        body, self._client.buffer = self._client.buffer, bytearray()
        while len(body) < plan:
            body += self._receive(min(plan - len(body), 1 << 20))
        return bytes(body)

    def _read_chunks(self, limit: int) -> bytes:
        decoder = ChunkedDecoder(limit)
        body = bytearray()
        data = bytes(self._client.buffer)
        try:
            while True:
                body += decoder.feed(data)
                if decoder.done:
                    break
                data = self._receive(_PIECE)
        except BadRequest as error:
            raise UnreadableBody(error.status, str(error)) from error
        self._client.buffer = bytearray(decoder.rest)
        return bytes(body)

    def _receive(self, size: int) -> bytes:
        try:
            data = self._client.recv(size, self._left())
        except socket.timeout:
            return b""  # the next call of _left() checks the time
        if not data:
            raise UnreadableBody(400, "the body ended early")
        self._bytes += len(data)
        return data

    def _left(self) -> float:
        """Return the seconds until the time and the rate must be checked again.

        :raises UnreadableBody: the body is too slow (SEC-08).
        """
        limits = self._limits
        passed = time.monotonic() - self._started
        if passed >= limits.body_seconds:
            raise UnreadableBody(408, f"the body did not arrive within {limits.body_seconds:g} s")
        if passed > _RATE_AFTER_SECONDS and self._bytes < limits.body_rate * passed:
            raise UnreadableBody(408, f"the body arrives at less than {limits.body_rate} bytes a second")
        return min(limits.body_seconds - passed, 1.0)

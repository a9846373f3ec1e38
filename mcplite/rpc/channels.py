"""Channels without a process or a network: over memory, and over streams that the caller has.

Tests and in-process connections use :class:`MemoryChannel`; a user who has two streams or a socket uses
:class:`StreamChannel`. A transport of one's own is a subclass of :class:`~.interfaces.Channel`.
"""

from collections import deque
from typing import Any, Deque, Optional, Tuple

from ..errors import ConnectionClosed, ProtocolError, RequestTimeout
from ..protocol.framing import LineBuffer
from .deadline import Deadline, wait_interruptibly
from .forks import new_condition, new_lock
from .interfaces import Channel

__all__ = ["MemoryChannel", "StreamChannel"]


class _Queue:
    """One direction of a memory channel: a bounded queue of messages."""

    def __init__(self, limit: int) -> None:
        #: Guards all fields below; readers wait on it for messages, writers for room, both for the end.
        self.changed = new_condition()
        self.messages: Deque[bytes] = deque()
        self.limit = limit
        self.closed = False
        self.woken = False

    def get(self, timeout: Optional[float]) -> Optional[bytes]:
        with self.changed:
            self.changed.wait_for(lambda: self.messages or self.closed or self.woken, timeout)
            if self.messages:
                message = self.messages.popleft()
                self.changed.notify_all()
                return message
            self.woken = False
            if self.closed:
                raise ConnectionClosed("the other side of the memory channel was closed")
            return None

    def put(self, data: bytes, timeout: Optional[float]) -> None:
        with self.changed:
            if len(self.messages) >= self.limit and not wait_interruptibly(self._wait_for_room, timeout):
                raise RequestTimeout(f"the peer did not read for {timeout:g} s")
            if self.closed:
                raise ConnectionClosed("the memory channel is closed")
            self.messages.append(data)
            self.changed.notify_all()

    def _wait_for_room(self, seconds: float) -> bool:
        return self.changed.wait_for(lambda: len(self.messages) < self.limit or self.closed, seconds)

    def wake(self) -> None:
        with self.changed:
            self.woken = True
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class MemoryChannel(Channel):
    """One end of a connection inside this process; make both with :meth:`pair`."""

    interruptible = True

    def __init__(self, inbound: _Queue, outbound: _Queue, name: str) -> None:
        self._inbound, self._outbound = inbound, outbound
        self.name = name

    @classmethod
    def pair(cls, names: Tuple[str, str] = ("the client", "the server"), limit: int = 1024
             ) -> "Tuple[MemoryChannel, MemoryChannel]":
        """Return two connected ends.

        :param names: how each end names the *other* side.
        :param limit: messages that may wait in one direction before ``write`` blocks.
        """
        left, right = _Queue(limit), _Queue(limit)
        return cls(left, right, names[1]), cls(right, left, names[0])

    @property
    def buffered(self) -> bool:
        return bool(self._inbound.messages)

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        return self._inbound.get(timeout)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._outbound.put(data, timeout)

    def wake(self) -> None:
        self._inbound.wake()

    def close(self) -> None:
        self._outbound.close()
        self._inbound.close()


class StreamChannel(Channel):
    """Newline framing over two binary streams that the caller already has (CUST-04).

    :param reader: has ``read1(n)``, ``recv(n)`` or ``read(n)``, which return bytes; the first of them is used.
    :param writer: has ``sendall``, or ``write`` and ``flush``.
    :param name: how errors name the peer.
    :param line_limit: bytes that one message may have; default 16 MiB.

    Closing closes both streams; a socket is shut down first, since that alone ends a blocked read.
    """

    def __init__(self, reader: Any, writer: Any, *, name: str = "the peer", line_limit: int = 16 << 20) -> None:
        self._reader, self._writer = reader, writer
        self._receive = getattr(reader, "read1", None) or getattr(reader, "recv", None) or reader.read
        self._lines = LineBuffer(line_limit)
        self.name = name
        self._closed = False
        #: Keeps one message whole on the stream; held while it is written.
        self._write_lock = new_lock()

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        while True:
            if self._lines.ready and not self._lines.oversize:
                return self._lines.next()
            if self._lines.take_oversize():
                raise ProtocolError(f"{self.name} sent a line of more than {self._lines.limit} bytes; it was dropped")
            try:
                chunk = self._receive(65536)
            except (OSError, ValueError) as error:
                raise ConnectionClosed(f"reading from {self.name} failed: {error}") from error
            if not chunk:
                raise ConnectionClosed(f"{self.name} closed the connection")
            self._lines.feed(chunk)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        deadline = Deadline(timeout)
        if not self._write_lock.acquire(timeout=-1 if timeout is None else timeout):
            raise RequestTimeout(f"{self.name} did not read for {timeout:g} s")
        try:
            if self._closed or deadline.expired:
                raise ConnectionClosed(f"the connection to {self.name} is closed")
            if hasattr(self._writer, "sendall"):
                self._writer.sendall(data + b"\n")
            else:
                self._writer.write(data + b"\n")
                self._writer.flush()
        except (OSError, ValueError) as error:
            raise ConnectionClosed(f"writing to {self.name} failed: {error}") from error
        finally:
            self._write_lock.release()

    def close(self) -> None:
        self._closed = True
        for stream in (self._writer, self._reader):
            sock = stream if hasattr(stream, "shutdown") else getattr(getattr(stream, "raw", None), "_sock", None)
            if sock is not None:
                try:
                    sock.shutdown(2)
                except OSError:
                    continue  # the peer closed first: no read is left to wake
        for stream in (self._writer, self._reader):
            try:
                stream.close()
            except (OSError, ValueError):
                continue  # a flush into a closed pipe: the stream is closed all the same

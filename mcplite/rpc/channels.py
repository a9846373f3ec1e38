"""Channels without a process or a network: over memory, and over streams that the caller has.

Tests and in-process connections use :class:`MemoryChannel`; a user who has two streams or a socket uses
:class:`StreamChannel`. A transport of one's own is a subclass of :class:`~.interfaces.Channel`.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections import deque
from typing import Any, Callable, Deque, Optional, Tuple

from ..errors import ConnectionClosed, RequestTimeout
from .deadline import Deadline, WakeSignal
from .interfaces import Channel, Reading
from .pending import Pending
from .stdio.descriptors import CHUNK_BYTES, Input, InputWait, has_reader
from .stdio.pipes import LineChannel
from .threads import Workers

__all__ = ["MemoryChannel", "StreamChannel"]


class _Queue:
    """One direction of a memory channel: a bounded queue of messages, which one thread reads.

    There is no lock: each change is one step in C, so that a signal handler may raise, or use the queue, at any moment.
    """

    def __init__(self, limit: int) -> None:
        self.messages: Deque[bytes] = deque()
        self.limit = limit
        self.closed = False
        self.woken = False
        #: Of messages, of the end and of :meth:`wake`, for the reader; of room and of the end, for one of the writers.
        self._news, self._room = WakeSignal(), WakeSignal()

    def first(self, timeout: Optional[float]) -> Optional[bytes]:
        """Return the oldest message and keep it."""
        deadline = Deadline(timeout)
        while True:
            closed, woken = self.closed, self.woken  # before the messages, which come before the end
            if self.messages:
                return self.messages[0]
            if closed:
                raise ConnectionClosed("the other side of the memory channel was closed")
            remaining = deadline.remaining()
            if woken or (remaining is not None and remaining <= 0):
                self.woken = False
                return None
            self._news.wait(remaining)

    def drop(self) -> None:
        """Remove the message that :meth:`first` returned."""
        if len(self.messages) >= self.limit:
            self.messages.popleft()
            self._room.set()
        else:
            self.messages.popleft()

    def put(self, data: bytes, timeout: Optional[float]) -> None:
        deadline, waited = Deadline(timeout), False
        while len(self.messages) >= self.limit and not self.closed:
            waited = True
            if not self._room.sleep(deadline.remaining()):
                raise RequestTimeout(f"the peer did not read for {timeout:g} s")
        if self.closed:
            raise ConnectionClosed("the memory channel is closed")
        self.messages.append(data)
        self._news.set()
        if waited and len(self.messages) < self.limit:
            self._room.set()  # for the next writer

    def wake(self) -> None:
        self.woken = True
        self._news.set()

    def close(self) -> None:
        self.closed = True
        self._news.set()
        self._room.set()


class MemoryChannel(Channel):
    """One end of a connection inside this process; make both with :meth:`pair`."""

    interruptible = True

    def __init__(self, inbound: _Queue, outbound: _Queue, name: str) -> None:
        self._inbound, self._outbound = inbound, outbound
        self.name = name
        #: Whether a message that was read is kept until :meth:`consume`.
        self._keeps = False

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

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> Optional[Reading]:
        self._keeps = True  # for a peer consumes each message
        return None

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        message = self._inbound.first(timeout)
        if message is not None and not self._keeps:
            self._inbound.drop()
        return message

    def consume(self) -> None:
        if self._keeps:
            self._inbound.drop()

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._outbound.put(data, timeout)

    def wake(self) -> None:
        self._inbound.wake()

    def close(self) -> None:
        self._outbound.close()
        self._inbound.close()


class StreamChannel(LineChannel):
    """Newline framing over two binary streams that the caller already has (CUST-04).

    Closing closes both streams. A thread that is inside one keeps it until its call returns, and closes it then:

    - A socket, or a file made of one, is shut down, which ends the call.
    - On POSIX a read ends at once, too, if the reader is what ``open``, ``os.fdopen`` or ``subprocess`` return for reading
      bytes: the channel waits for data before it reads.
    - In all other cases (a pipe on Windows, another class, a write into a full pipe) the call returns when the peer
      closes its end or goes on. ``close`` does not wait for that.

    :param reader: has ``read1(n)``, ``recv(n)`` or ``read(n)``, which return bytes; the first of them is used.
    :param writer: has ``sendall``, or ``write`` and ``flush``.
    :param name: how errors name the peer.
    :param line_limit: bytes that one message may have in either direction; default 16 MiB.
    :raises TransportError: the system has no descriptors for it.
    """

    _fault_of_reader = "did not read what was sent before"

    def __init__(self, reader: Any, writer: Any, *, name: str = "the peer", line_limit: int = 16 << 20) -> None:
        self._reader, self._writer = reader, writer
        fd = _descriptor(reader)
        source = Input(-1, ()) if fd is None else InputWait(fd, name)
        source.next_chunk = (_receive, (getattr(reader, "read1", None) or getattr(reader, "recv", None) or reader.read,))
        super().__init__(source, name=name, line_limit=line_limit)
        if fd is not None and type(reader) is io.BufferedReader:
            kept = _buffered(reader, fd)
            if kept:
                self.put_back(kept)

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        line = super().read()
        if line is not None:
            self._lines.drop()
        return line

    def still_read(self) -> bool:
        try:
            fd = self._writer.fileno()
        except (AttributeError, OSError, ValueError):
            return False
        return not self._closed and fd >= 0 and has_reader(fd)

    def _flush(self, end: Optional[float], call: Optional[Pending]) -> None:
        data, line_end, written = self._latest
        if self._closed:
            raise self._closed_here()
        try:
            if not written:
                written += map(_send, (self._writer,), (data + line_end,))
        except (OSError, ValueError) as error:
            raise ConnectionClosed(f"writing to {self.name} failed: {error}") from error

    def _end_reading(self) -> None:
        for stream in (self._writer, self._reader):
            sock = stream if hasattr(stream, "shutdown") else getattr(getattr(stream, "raw", None), "_sock", None)
            if sock is not None:
                try:
                    sock.shutdown(2)
                except OSError:
                    continue  # the peer closed first: no read is left to wake
        super()._end_reading()

    def _close_output(self) -> None:
        _close(self._writer)

    def _close_read_side(self) -> None:
        super()._close_read_side()
        if self._reader is not self._writer:
            _close(self._reader)


def _receive(receive: Callable[[int], Optional[bytes]]) -> bytes:
    """Return a chunk of a stream of the user."""
    try:
        chunk = receive(CHUNK_BYTES)
    except ValueError as error:  # it is closed
        raise OSError(str(error)) from error
    if chunk is None:
        raise BlockingIOError(errno.EAGAIN, "it does not block, and another process has read what was there")
    return chunk


def _send(writer: Any, data: bytes) -> int:
    """Write all of a message; return its bytes."""
    if hasattr(writer, "sendall"):
        writer.sendall(data)
    else:
        writer.write(data)
        writer.flush()
    return len(data)


def _close(stream: Any) -> None:
    try:
        stream.close()
    except (OSError, ValueError):
        return  # a flush into a closed pipe: the stream is closed all the same


def _descriptor(stream: Any) -> Optional[int]:
    """Return the descriptor of a stream that keeps no bytes of its own, but for those of a BufferedReader; None for others."""
    raw = stream.raw if type(stream) is io.BufferedReader else stream
    return raw.fileno() if type(raw) is io.FileIO and not raw.closed and hasattr(select, "poll") else None


def _buffered(reader: io.BufferedReader, fd: int) -> bytes:
    """Take the bytes that a reader has read from its file already: the system does not know of them."""
    if sys.platform == "win32":
        raise NotImplementedError("_descriptor() returns None there")
    blocking = os.get_blocking(fd)
    os.set_blocking(fd, False)  # peek() reads if there are none
    try:
        return reader.read1(len(reader.peek()))
    except OSError:
        return b""  # the first read says so
    finally:
        os.set_blocking(fd, blocking)

"""Channels without a process or a network: over memory, and over streams that the caller has.

Tests and in-process connections use :class:`MemoryChannel`; a user who has two streams or a socket uses
:class:`StreamChannel`. A transport of one's own is a subclass of :class:`~.interfaces.Channel`.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Tuple

from ..errors import ConnectionClosed, RequestTimeout, nested_call
from ..protocol.framing import LineBuffer
from .deadline import WAKE_SECONDS, Deadline, WakeSignal
from .forks import ownership
from .interfaces import Channel, Reading
from .stdio.descriptors import InputWait, has_reader
from .threads import Workers

__all__ = ["MemoryChannel", "StreamChannel"]

#: Seconds that closing waits for a write in progress.
_WRITER_SECONDS = 0.4


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
            remaining = deadline.remaining()
            if remaining is not None and remaining <= 0:
                raise RequestTimeout(f"the peer did not read for {timeout:g} s")
            waited = True
            self._room.wait(WAKE_SECONDS if remaining is None else min(remaining, WAKE_SECONDS))
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


class StreamChannel(Channel):
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

    def __init__(self, reader: Any, writer: Any, *, name: str = "the peer", line_limit: int = 16 << 20) -> None:
        self._reader, self._writer = reader, writer
        self._receive = getattr(reader, "read1", None) or getattr(reader, "recv", None) or reader.read
        self._lines = LineBuffer(line_limit)
        self.most_bytes = line_limit
        self.name = name
        #: Guards ``_closed`` and ``_reading``; held for assignments only.
        self._lock = threading.Lock()
        self._closed = self._reading = False
        #: Keeps one message whole on the stream; held while it is written.
        self._write_lock = threading.RLock()
        self._writes_here = ownership(self._write_lock)
        fd = _descriptor(reader)
        if fd is not None and type(reader) is io.BufferedReader:
            self._lines.feed(_buffered(reader, fd))
        self._wait = None if fd is None else InputWait(fd, name)

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        with self._lock:
            if not self._closed:
                self._reading = True
        try:
            while True:
                line = self._lines.first()
                if line is not None:
                    self._lines.drop()
                    return line
                if self._wait is not None and not self._closed:
                    self._wait.poll(None)  # close() ends it
                if self._closed:
                    raise self._closed_here()
                try:
                    chunk = self._receive(65536)
                except (OSError, ValueError) as error:
                    raise ConnectionClosed(f"reading from {self.name} failed: {error}") from error
                if not chunk:
                    if chunk is None and self._wait is not None:
                        continue  # it does not block, and another process has read what was there
                    raise ConnectionClosed(f"{self.name} closed the connection")
                self._lines.feed(chunk)
        finally:
            with self._lock:
                leaving, self._reading = self._reading, False
            if leaving and self._closed:
                self._close_reader()

    def still_read(self) -> bool:
        try:
            fd = self._writer.fileno()
        except (AttributeError, OSError, ValueError):
            return False
        return not self._closed and fd >= 0 and has_reader(fd)

    def _closed_here(self) -> ConnectionClosed:
        return ConnectionClosed(f"the connection to {self.name} is closed")

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        if self._writes_here():
            raise nested_call(self.name)
        deadline = Deadline(timeout)
        held: List[bool] = []
        try:
            held.extend(map(self._write_lock.acquire, (True,), (-1 if timeout is None else timeout,)))
            if True not in held:
                raise RequestTimeout(f"{self.name} did not read for {timeout:g} s")
            if self._closed or deadline.expired:
                raise self._closed_here()
            try:
                if hasattr(self._writer, "sendall"):
                    self._writer.sendall(data + b"\n")
                else:
                    self._writer.write(data + b"\n")
                    self._writer.flush()
            except (OSError, ValueError) as error:
                raise ConnectionClosed(f"writing to {self.name} failed: {error}") from error
        finally:
            if True in held:
                self._write_lock.release()
            if self._closed:
                self._close_writer(0)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            reading = self._reading
        for stream in (self._writer, self._reader):
            sock = stream if hasattr(stream, "shutdown") else getattr(getattr(stream, "raw", None), "_sock", None)
            if sock is not None:
                try:
                    sock.shutdown(2)
                except OSError:
                    continue  # the peer closed first: no read is left to wake
        if self._wait is not None:
            self._wait.end()
        # Before the reader, so that a peer behind pipes ends and closes its side.
        self._close_writer(_WRITER_SECONDS)
        if not reading:
            self._close_reader()

    def _close_writer(self, seconds: float) -> None:
        # A file closes only when no thread is inside it; the thread that is closes it when it leaves.
        held: List[bool] = []
        try:
            held.extend(map(self._write_lock.acquire, (True,), (seconds,)))
            if True in held:
                _close(self._writer)
        finally:
            if True in held:
                self._write_lock.release()

    def _close_reader(self) -> None:
        if self._wait is not None:
            self._wait.close()
        if self._reader is not self._writer:
            _close(self._reader)


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

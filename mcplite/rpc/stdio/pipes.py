"""A channel over two file descriptors with newline framing; the stdio transports of both sides are built on it.

A read waits in ``poll`` for data, for a wake-up or for the end of the other process, so that a
caller can read with a deadline, and another thread can interrupt it. Where pipes
cannot be polled (Windows) a thread reads, and the channel waits for what it has read.

The rule for descriptors, here and wherever two threads may touch one: the number of a closed descriptor belongs to the
next file that any thread opens, so a late read or write would take from that file, or damage it. Therefore

- each descriptor is written and closed under one lock, or is used by one thread, which closes it when it leaves;
- a thread that ends a connection notes the end, wakes that thread, and closes the descriptor itself only if that thread is
  not inside;
- the number is replaced when it is closed, so that a second close finds nothing.

A socket object keeps the rule by itself but for an instant inside its calls: its number is -1 once it is closed.
"""

from __future__ import annotations

import copy
import errno
import os
import queue
import select
import sys
import threading
import time
from typing import Any, List, Optional, Tuple

from ...errors import ConnectionClosed, RequestTimeout, TransportError, nested_call
from ...protocol.framing import LineBuffer
from ..deadline import undo
from ..forks import foreign_error, on_fork, ownership, release, renew
from ..interfaces import Channel, Network
from ..pending import Pending
from ..threads import Loop, start_thread
from ..tracing import get_logger
from .descriptors import cancel_read, has_reader, write_piece

__all__ = ["PipeChannel", "PipeReader"]

_log = get_logger(__name__)
#: Bytes to read at once: a pipe holds 64 KiB, and a larger buffer only costs more to allocate.
_CHUNK_BYTES = 65536
#: Bytes of a message that is written without being joined with its line end.
_LONG_BYTES = 65_536
#: Seconds after which a writer that waits for a full pipe checks whether the channel was closed, or its call given up.
_SLICE_SECONDS = 0.2
#: Faults of the system that pass, and how often in a row they are waited out.
_PASSING = frozenset({errno.EAGAIN, errno.EINTR, errno.ENOMEM, errno.ENOBUFS})
_MOST_PASSING = 20
_PASSING_SECONDS = 0.05
#: Attempts to wake a reader; a second one is only made after a fault of the system.
_WAKE_ATTEMPTS = 3
#: Chunks that the thread keeps before it waits for the channel to take them.
_MOST_CHUNKS = 16
#: What a channel has to write when it has written all.
_NOTHING: Tuple[bytes, bytes, List[int]] = (b"", b"", [])


class PipeChannel(Channel):
    """Carries messages as lines over a pair of descriptors, which the channel owns and closes.

    :param read_fd: where messages come from.
    :param write_fd: where messages go; set non-blocking before, writes can time out.
    :param name: how errors name the peer.
    :param line_limit: bytes that one message may have; of a longer line that comes, a :class:`~.framing.CutLine` is read.
    :param watch_fd: becomes readable when the other process ends (a pidfd); None for none.
    :param end_unread: whether the connection is over as soon as the other side reads nothing more; else when it sends nothing
        more.
    :raises TransportError: the system has no descriptors for it; those that were given stay open.
    """

    interruptible = True

    def __init__(self, read_fd: int, write_fd: int, *, name: str, line_limit: int,
                 watch_fd: Optional[int] = None, end_unread: bool = False) -> None:
        self.name = name
        self._read_fd, self._write_fd, self._watch_fd = read_fd, write_fd, watch_fd
        self._lines = LineBuffer(line_limit)
        self.most_bytes = line_limit
        self._closed = False
        self._end_unread = end_unread
        #: Set when it was found that the other side reads nothing more.
        self._unread_error: Optional[ConnectionClosed] = None
        #: Guards ``_closed``, ``_read_side`` and the wake-up pipe's write end; held for an assignment, for the one byte of a
        #: wake-up, and while that end is closed. A signal handler may wake in the middle of a wake-up, so it can be nested.
        self._close_lock = threading.RLock()
        #: Whether a thread is inside :meth:`read`; it closes what it reads if the channel is closed meanwhile.
        self._reading = False
        #: The thread that reads where there is no poll; it closes ``read_fd``.
        self._reader = None if hasattr(select, "poll") else PipeReader(read_fd, f"mcplite pipe of {name}")
        #: What the thread inside :meth:`read` uses; empty once it is closed.
        self._read_side = [fd for fd in (None if self._reader else read_fd, watch_fd) if fd is not None]
        #: Set when the write end is to be closed, by the thread that ends a write if one is in progress.
        self._input_over = False
        self._ended: Optional[ConnectionClosed] = None
        #: Keeps one message whole on the descriptor; held while it is written.
        self._write_lock = threading.RLock()
        self._writes_here = ownership(self._write_lock)
        #: The latest message, its line end if that is not joined to it, and how many bytes each write has written. If its
        #: writer was stopped in the middle, the rest goes out before the next message.
        self._latest = _NOTHING
        #: A ``select.poll``, and the pipe that wakes it; None and -1 where a thread reads.
        self._poll: Any = None
        #: What the poll returns if there is input, and nothing else.
        self._input_only: List[Tuple[int, int]] = []
        self._wake_read = self._wake_write = -1
        if self._reader is None:
            self._make_interruptible(read_fd, watch_fd)
        #: The error for every use in a forked process; None in the process that has the descriptors.
        self._foreign: Optional[ConnectionClosed] = None
        on_fork(self, lambda channel, owner: channel.let_go(owner))

    def _make_interruptible(self, read_fd: int, watch_fd: Optional[int]) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        try:
            self._wake_read, self._wake_write = ends = os.pipe()
        except OSError as error:
            raise TransportError(f"cannot make a pipe to wake the reader of {self.name}: {error.strerror}") from error
        try:
            with undo(lambda: list(map(os.close, ends))):
                os.set_blocking(self._wake_read, False)
                os.set_blocking(self._wake_write, False)
                poll = select.poll()
                for fd in (read_fd, self._wake_read, watch_fd):
                    if fd is not None:
                        poll.register(fd, select.POLLIN)
                if self._end_unread and self._write_fd != read_fd:
                    poll.register(self._write_fd, 0)  # which tells when it has no reader any more
        except OSError as error:
            raise TransportError(f"cannot wait for {self.name}: {error.strerror}") from error
        self._poll, self._input_only = poll, [(read_fd, select.POLLIN)]
        self._read_side.append(self._wake_read)

    @property
    def network(self) -> Network:
        return Network("pipe")

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def closed_error(self) -> ConnectionClosed:
        """Return the error for the end of the stream; a subclass may add details."""
        return ConnectionClosed(f"{self.name} closed the connection")

    def _closed_here(self) -> ConnectionClosed:
        """Return the error for the use of a channel that was closed on this side."""
        return copy.copy(self._foreign) or ConnectionClosed(f"the connection to {self.name} was closed on this side")

    def put_back(self, data: bytes) -> None:
        """Have :meth:`read` begin with *data*, which was read from the descriptor before; called before the first read."""
        self._lines.feed(data)

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        lines = self._lines
        end: Optional[float] = None
        faults = 0
        self._reading = True
        try:
            while True:
                line = lines.first()
                if line is not None:
                    return line
                if lines.ended and self._ended is None:
                    self._ended = self.closed_error()
                elif lines.endless and self._ended is None:
                    self._ended = ConnectionClosed(f"{self.name} sends a line without an end, and a message may have"
                                                   f" {lines.limit} bytes")
                if self._closed:
                    raise self._closed_here()
                if self._ended is not None:
                    raise self._ended
                if self._unread_error is not None:
                    raise self._unread_error
                try:
                    if self._poll is not None:
                        if timeout is not None:
                            # One end for all chunks: otherwise a peer that sends byte by byte could keep a caller
                            # without limit.
                            if end is None:
                                end = time.monotonic() + timeout
                            else:
                                timeout = max(0.0, end - time.monotonic())
                        ready = self._poll.poll(None if timeout is None else timeout * 1000)
                        if ready != self._input_only:
                            if not ready:
                                return None
                            fds = [fd for fd, _ in ready]
                            if self._wake_read in fds:
                                if self._closed:
                                    continue
                                self._drain_wake()
                                return None
                            if self._end_unread and self._write_fd in fds:
                                self._unread_error = ConnectionClosed(f"{self.name} reads nothing more")
                                continue
                            if self._read_fd not in fds:
                                # The process has ended and its pipe is empty, though a grandchild may hold it open (REL-03).
                                self._ended = self.closed_error()
                                continue
                    elif self._reader is not None:
                        if timeout is not None:
                            end = end or time.monotonic() + timeout
                            timeout = max(0.0, end - time.monotonic())
                        if self._reader.wait(timeout):
                            lines.arrived.extend(map(self._reader.chunks.pop, (0,) * bool(self._reader.chunks)))
                        elif not self._closed:
                            return None
                        continue
                    # One call into C: a signal handler that raises on this thread (Ctrl-C in a caller that
                    # reads its own response) runs before or after it, so no byte is taken and then lost.
                    lines.arrived.extend(map(os.read, (self._read_fd,), (_CHUNK_BYTES,)))
                except OSError as error:
                    faults += 1
                    if error.errno in _PASSING and faults < _MOST_PASSING:
                        time.sleep(_PASSING_SECONDS)
                        continue
                    self._ended = self._unreadable(error)
                    self._ended.__cause__ = error
        finally:
            self._reading = False
            if self._closed:
                self._close_read_side()

    def consume(self) -> None:
        self._lines.drop()

    def write(self, data: bytes, timeout: Optional[float] = None, call: Optional[Pending] = None) -> None:
        if self._latest is not _NOTHING and self._writes_here():
            raise nested_call(self.name)
        end = None if timeout is None else time.monotonic() + timeout
        # An exception of a signal handler comes between two calls, and what a call returns may be lost then. So the lock's
        # answer goes into the list inside one call, and nothing is called between the end of the block and the release.
        held: List[bool] = []
        try:
            held += map(self._write_lock.acquire, (False,))
            while True not in held:
                held.extend(map(self._write_lock.acquire, (True,), (self._pause(end, call),)))
            if self._latest[2] and self._unsent:  # else no byte was written, and the message is dropped as a whole
                self._flush(end, call)
            if len(data) < _LONG_BYTES or sys.platform == "win32":
                self._latest = data + b"\n", b"", []
            else:
                self._latest = data, b"\n", []  # a long message is not copied for its line end
            self._flush(end, call)
            self._latest = _NOTHING
        finally:
            if True in held:
                self._write_lock.release()
            if self._input_over:
                self.close_input(0)

    write_request = write

    @property
    def _unsent(self) -> int:
        """How many bytes of the latest message were not written."""
        data, behind, written = self._latest
        return len(data) + len(behind) - sum(written)

    def _flush(self, end: Optional[float], call: Optional[Pending]) -> None:
        # Called with the write lock held; to be done until the monotonic time *end*, or until the call is interrupted. The
        # number of bytes written is stored inside the same call into C, for the reason given in read().
        data, behind, written = self._latest
        total, sent = len(data) + len(behind), sum(written) if written else 0
        while sent < total:
            if self._closed:
                raise self._closed_here()
            try:
                rest = memoryview(data)[sent:] if sent else data
                if sys.platform == "win32":
                    written.extend(map(write_piece, (self._write_fd,), (rest,)))
                elif behind:
                    written.extend(map(os.writev, (self._write_fd,), ((rest, behind),)))
                else:
                    written.extend(map(os.write, (self._write_fd,), (rest,)))
                sent = sum(written)
            except BlockingIOError:
                self._wait_writable(self._pause(end, call))
            except OSError as error:
                broken = self._broken(error)
                if self._end_unread:
                    self._unread_error = broken
                    self.wake()
                raise broken from error

    def _unreadable(self, error: OSError) -> ConnectionClosed:
        """Return the error for a read that failed."""
        return ConnectionClosed(f"reading from {self.name} failed: {error.strerror}")

    def _broken(self, error: OSError) -> ConnectionClosed:
        """Return the error for a write that failed."""
        return ConnectionClosed(f"writing to {self.name} failed: {error.strerror}")

    def _pause(self, end: Optional[float], call: Optional[Pending]) -> float:
        """Return the seconds to wait for the other side to read, until this is asked again.

        :raises RequestTimeout: the time is over, or the call was interrupted.
        """
        remaining = _SLICE_SECONDS if end is None else end - time.monotonic()
        if remaining <= 0 or (call is not None and call.interrupted):
            raise RequestTimeout(f"{self.name} does not read its input, and its pipe is full")
        return min(remaining, _SLICE_SECONDS)

    def _wait_writable(self, pause: float) -> None:
        if sys.platform != "win32" and hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._write_fd, select.POLLOUT)
            poll.poll(pause * 1000)
        else:
            time.sleep(min(pause, 0.01))

    def still_read(self) -> bool:
        return not self._closed and self._unread_error is None and has_reader(self._write_fd)

    def wake(self) -> None:
        if self._reader is not None:
            self._reader.wake()
        else:
            with self._close_lock:
                for _ in range(_WAKE_ATTEMPTS):
                    if self._closed:
                        return
                    try:
                        os.write(self._wake_write, b"\0")
                        return
                    except BlockingIOError:
                        return  # the pipe is full: the reader has pending wake-ups already
                    except OSError as error:
                        _log.warning("the reader of %s could not be woken: %s", self.name, error)

    def _drain_wake(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return  # the previous reader has drained this wake-up as well

    def close_input(self, timeout: float) -> None:
        """Close the write end: the peer reads the end of its input.

        :param timeout: seconds to wait for a write in progress; one that takes longer closes the write end when it is over.
        """
        self._input_over = True
        held: List[bool] = []
        try:
            held.extend(map(self._write_lock.acquire, (True,), (timeout,)))
            if self._write_fd >= 0 and True in held:
                fd, self._write_fd = self._write_fd, -1
                os.close(fd)
        finally:
            if True in held:
                self._write_lock.release()

    def close(self) -> None:
        """Close every descriptor, those in use by another thread as soon as it has left."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            if self._reader is not None:
                self._reader.wake()
            else:
                os.close(self._wake_write)  # which wakes the thread that reads, and cannot be missed
        self.close_input(timeout=2 * _SLICE_SECONDS)
        if not self._reading:
            self._close_read_side()

    def _close_read_side(self) -> None:
        with self._close_lock:
            fds, self._read_side = self._read_side, []
        for fd in fds:
            os.close(fd)
        if self._reader is not None:
            self._reader.stop()

    def let_go(self, owner: int) -> None:
        """Let go of every descriptor in a forked process.

        :param owner: the id of the process that has the channel.
        """
        renew(self)
        if self._closed:
            return
        self._closed = True
        self._foreign = foreign_error(self.name, owner, "open one in this process")
        for fd in self._descriptors():
            release(fd)

    def _descriptors(self) -> List[int]:
        """Return all descriptors that are open, the write end first."""
        found = [self._write_fd, self._read_fd, self._watch_fd, self._wake_read, self._wake_write]
        return [fd for fd in found if fd is not None and fd >= 0]


class PipeReader:
    """A thread that reads a descriptor and closes it at the end; :meth:`wait` can be given a limit and be interrupted.

    :param fd: where to read; from now on it belongs to the thread.
    :param name: of the thread.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        #: What was read and not taken yet; an empty chunk is the end. Only the thread appends, only the channel removes.
        self.chunks: List[bytes] = []
        #: An item for each chunk, and one for each call of wake().
        self._news: "queue.SimpleQueue[bool]" = queue.SimpleQueue()
        self._room = threading.Event()
        self._stopped = self._discarding = False
        # Started here; ended by the end of the pipe or by stop(); blocks in os.read, or until the channel takes chunks.
        self._thread = start_thread(self._run, name)

    def wait(self, timeout: Optional[float]) -> bool:
        """Wait until there may be chunks; return False after *timeout* seconds, or when it was woken."""
        if self.chunks:
            return True
        self._room.set()
        try:
            return self._news.get(timeout=timeout)
        except queue.Empty:
            return False

    def wake(self) -> None:
        """Make :meth:`wait` return."""
        self._news.put(False)

    def discard(self) -> None:
        """Read on, and keep nothing from now on, so that a program that is ending is not kept by a full pipe."""
        self._discarding = True
        self._room.set()

    def stop(self) -> None:
        """End the thread if the system can cancel its read; else it ends with the pipe."""
        if not self._stopped:
            self._stopped = True
            self._room.set()
            cancel_read(self._thread)

    def _run(self) -> None:
        try:
            Loop(self._name, self._read).run()
        finally:
            os.close(self._fd)

    def _read(self) -> None:
        while not self._stopped:
            try:
                chunk = os.read(self._fd, _CHUNK_BYTES)
            except OSError:
                chunk = b""  # it was broken off by the other side, or cancelled here
            if self._discarding and chunk:
                continue
            self.chunks.append(chunk)
            self._news.put(True)
            if not chunk:
                break
            # The channel sets the event whenever it has taken all chunks, so none is missed by clearing it first.
            self._room.clear()
            while len(self.chunks) >= _MOST_CHUNKS and not (self._stopped or self._discarding):
                self._room.wait()
                self._room.clear()

"""Channels with newline framing: what all have in common, and the one over two descriptors, for stdio on both sides.

A read waits in ``poll`` for data, for a wake-up or for the end of the other process, so that a caller can read with a
deadline, and another thread can interrupt it::

    read() --> poll: input, nothing else --> a chunk --> lines
               poll: woken, or too late  --> None
               poll: the process ended   --> the error of every read from now on

Any thread may close a channel at any time::

    idle    --read()-->  reading  --a message, a wake-up, an error, or too late-->  idle
    idle    --close()--> closed
    reading --close()--> leaving  --the thread that reads frees its side-->  closed

The rule for descriptors, here and wherever two threads may touch one: the number of a closed descriptor belongs to the
next file that any thread opens, so a late read or write would take from that file, or damage it. Therefore

- each descriptor is written and closed under one lock, or is used by one thread, which closes it when it leaves;
- a thread that ends a connection notes the end, wakes that thread, and closes the descriptor itself only if that thread is
  not inside;
- the number is replaced when it is closed, so that a second close finds nothing.

A socket object keeps the rule by itself but for an instant inside its calls: its number is -1 once it is closed.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from typing import List, Optional, Tuple

from ...errors import ConnectionClosed, RequestTimeout, copied, nested_call
from ...protocol.framing import LineBuffer
from ..forks import foreign_error, ownership, release, renew
from ..interfaces import Channel, Network
from ..pending import Pending
from .descriptors import INPUT, PASSING, Input, has_reader, open_input, write_piece

__all__ = ["LineChannel", "PipeChannel"]

#: Seconds after which a writer that waits for a full pipe checks whether the channel was closed, or its call given up.
_SLICE_SECONDS = 0.2
#: How often in a row faults of a read that pass are waited out, and how long each time.
_MOST_PASSING = 20
_PASSING_SECONDS = 0.05
#: What a channel has to write when it has written all.
_NOTHING: Tuple[bytes, bytes, List[int]] = (b"", b"", [])
#: Bytes of a message that is not copied for its line end.
_LONG_BYTES = 65_536


class LineChannel(Channel):
    """Carries messages as lines: one thread reads an input, and one at a time writes.

    A subclass writes what :attr:`_latest` says in ``_flush``, and closes its output in ``_close_output``.

    :param source: where messages come from; the channel closes it.
    :param name: how errors name the peer.
    :param line_limit: bytes that one message may have; of a longer line that comes, a :class:`~.framing.CutLine` is read.
    :param end_unread: whether the connection is over as soon as the other side reads nothing more; else when it sends nothing
        more.
    """

    #: What the peer did, for the error of a write that took too long.
    _fault_of_reader = "does not read its input, and its pipe is full"
    #: The descriptor that is written; -1 when it is closed, or if there is none.
    _write_fd = -1

    def __init__(self, source: Input, *, name: str, line_limit: int, end_unread: bool = False) -> None:
        self.name = name
        self._lines = LineBuffer(line_limit)
        self.most_bytes = line_limit
        #: Guards ``_closed``; held for assignments only.
        self._close_lock = threading.RLock()
        self._closed = False
        #: What ended the connection; None while it lasts. The other side may still read then, unless ``_unread`` is set.
        self._error: Optional[ConnectionClosed] = None
        self._end_unread = end_unread
        self._unread = False
        #: Whether a thread is inside :meth:`read`; it frees what it reads if the channel is closed meanwhile.
        self._reading = False
        self._source = source
        self._poll, self._input_only, self._next_chunk = source.poll, source.input_only, source.next_chunk
        #: Set when the write end is to be closed, by the thread that ends a write if one is in progress.
        self._input_over = False
        #: Keeps one message whole on the output; held while it is written.
        self._write_lock = threading.RLock()
        self._writes_here = ownership(self._write_lock)
        #: The latest message, its line end if that is apart, and how many bytes each write has written. If its writer was
        #: stopped in the middle, the rest goes out before the next message.
        self._latest = _NOTHING
        #: The error for every use in a forked process; None in the process that has the descriptors.
        self._foreign: Optional[ConnectionClosed] = None

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def closed_error(self) -> ConnectionClosed:
        """Return the error for the end of the stream; a subclass may add details."""
        return ConnectionClosed(f"{self.name} closed the connection")

    def _closed_here(self) -> ConnectionClosed:
        """Return the error for the use of a channel that was closed on this side."""
        if self._foreign is not None:
            return copied(self._foreign)
        return ConnectionClosed(f"the connection to {self.name} was closed on this side")

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
                if self._closed or self._error is not None or lines.ended or lines.endless:
                    raise self._end()
                if timeout is not None:
                    # One end for all chunks: otherwise a peer that sends byte by byte could keep a caller without limit.
                    if end is None:
                        end = time.monotonic() + timeout
                    else:
                        timeout = max(0.0, end - time.monotonic())
                try:
                    ready = self._poll(None if timeout is None else timeout * 1000)
                    if ready != self._input_only:
                        fds = [fd for fd, _ in ready]
                        if not fds or self._source.woken_fd in fds:
                            if self._closed:
                                continue
                            self._source.drain()
                            return None
                        if self._end_unread and self._write_fd in fds:
                            self._unread, self._error = True, ConnectionClosed(f"{self.name} reads nothing more")
                            continue
                        if self._source.fd not in fds:
                            # The process has ended and its pipe is empty, though a grandchild may hold it open (REL-03).
                            self._error = self.closed_error()
                            continue
                    # One call into C: a signal handler that raises on this thread (Ctrl-C in a caller that
                    # reads its own response) runs before or after it, so no byte is taken and then lost.
                    lines.arrived.extend(map(*self._next_chunk))
                except OSError as error:
                    faults += 1
                    if error.errno in PASSING and faults < _MOST_PASSING:
                        time.sleep(_PASSING_SECONDS)
                        continue
                    self._error = self._unreadable(error)
                    self._error.__cause__ = error
        finally:
            self._reading = False
            if self._closed:
                self._close_read_side()

    def _end(self) -> ConnectionClosed:
        """Return the error for a read behind the last message."""
        if self._closed:
            return self._closed_here()
        if self._error is None:
            self._error = self.closed_error() if self._lines.ended else ConnectionClosed(
                f"{self.name} sends a line without an end, and a message may have {self._lines.limit} bytes")
        return self._error

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
                held += map(self._write_lock.acquire, (True,), (self._pause(end, call),))
            if self._latest[2]:  # else no byte was written, and the message is dropped as a whole
                self._flush(end, call)
            self._latest = (data, b"\n", []) if len(data) > _LONG_BYTES and hasattr(os, "writev") else (data + b"\n", b"", [])
            self._flush(end, call)
            self._latest = _NOTHING
        finally:
            if True in held:
                self._write_lock.release()
            if self._input_over:
                self.close_input(0)

    def _unreadable(self, error: OSError) -> ConnectionClosed:
        """Return the error for a read that failed."""
        return ConnectionClosed(f"reading from {self.name} failed: {error.strerror or error}")

    def _broken(self, error: OSError) -> ConnectionClosed:
        """Return the error for a write that failed."""
        return ConnectionClosed(f"writing to {self.name} failed: {error.strerror}")

    def _pause(self, end: Optional[float], call: Optional[Pending]) -> float:
        """Return the seconds to wait for the other side to read, until this is asked again.

        :raises RequestTimeout: the time is over, or the call was interrupted.
        """
        remaining = _SLICE_SECONDS if end is None else end - time.monotonic()
        if remaining <= 0 or (call is not None and call.interrupted):
            raise RequestTimeout(f"{self.name} {self._fault_of_reader}")
        return min(remaining, _SLICE_SECONDS)

    def _flush(self, end: Optional[float], call: Optional[Pending]) -> None:
        """Write the rest of the latest message, with the write lock held.

        :param end: the monotonic time until which that is to be done; None for no limit.
        :param call: ends it when it is interrupted.
        """
        raise NotImplementedError

    def _close_output(self) -> None:
        """Close what is written, with the write lock held; more than once."""
        raise NotImplementedError

    def close_input(self, timeout: float) -> None:
        """Close the write end: the peer reads the end of its input.

        :param timeout: seconds to wait for a write in progress; one that takes longer closes the write end when it is over.
        """
        self._input_over = True
        held: List[bool] = []
        try:
            held += map(self._write_lock.acquire, (True,), (timeout,))
            if True in held:
                self._close_output()
        finally:
            if True in held:
                self._write_lock.release()

    def close(self) -> None:
        """Close every descriptor, those in use by another thread as soon as it has left."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        self._end_reading()
        # Before what is read, so that a peer behind pipes ends and closes its side.
        self.close_input(timeout=2 * _SLICE_SECONDS)
        if not self._reading:
            self._close_read_side()

    def _end_reading(self) -> None:
        """Wake the thread that reads, which finds the channel closed."""
        self._source.end()

    def _close_read_side(self) -> None:
        """Free what is read, which no thread reads any more; by two threads at once."""
        self._source.close()

    def let_go(self, owner: int) -> None:
        """Let go of every descriptor in a forked process; the client or the server that has the channel calls this there.

        :param owner: the id of the process that has the channel.
        """
        renew(self, self._source)
        if self._closed:
            return
        self._closed = True
        self._foreign = foreign_error(self.name, owner, "open one in this process")
        for fd in self._descriptors():
            release(fd)

    def _descriptors(self) -> List[int]:
        """Return the descriptors that the channel closes, the write end first."""
        return [self._write_fd, *self._source.owned]


class PipeChannel(LineChannel):
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
    network = Network("pipe")

    def __init__(self, read_fd: int, write_fd: int, *, name: str, line_limit: int,
                 watch_fd: Optional[int] = None, end_unread: bool = False) -> None:
        source = open_input(read_fd, name)
        if watch_fd is not None:
            source.watch(watch_fd, INPUT)
            source.owned.append(watch_fd)
        if end_unread and write_fd != read_fd:
            source.watch(write_fd, 0)  # which tells when it has no reader any more
        super().__init__(source, name=name, line_limit=line_limit, end_unread=end_unread)
        self._write_fd = write_fd
        self.consume = self._lines.drop  # type: ignore[method-assign]

    write_request = LineChannel.write

    @property
    def _unsent(self) -> int:
        """How many bytes of the latest message were not written."""
        data, line_end, written = self._latest
        return len(data) + len(line_end) - sum(written)

    def _flush(self, end: Optional[float], call: Optional[Pending]) -> None:
        # The number of bytes written is stored inside the same call into C, for the reason given in read().
        data, line_end, written = self._latest
        total, sent = len(data), sum(written) if written else 0
        if line_end:
            total += 1
        while sent < total:
            if self._closed:
                raise self._closed_here()
            try:
                rest = memoryview(data)[sent:] if sent else data
                if sys.platform == "win32":
                    written += map(write_piece, (self._write_fd,), (rest,))
                elif line_end:
                    written += map(os.writev, (self._write_fd,), ((rest, line_end),))
                else:
                    written += map(os.write, (self._write_fd,), (rest,))
                sent = sum(written)
            except BlockingIOError:
                self._wait_writable(self._pause(end, call))
            except OSError as error:
                broken = self._broken(error)
                if self._end_unread:
                    self._unread, self._error = True, self._error or broken
                    self.wake()
                raise broken from error

    def _wait_writable(self, pause: float) -> None:
        if sys.platform != "win32" and hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._write_fd, select.POLLOUT)
            poll.poll(pause * 1000)
        else:
            time.sleep(min(pause, 0.01))

    def still_read(self) -> bool:
        return not self._closed and not self._unread and has_reader(self._write_fd)

    def wake(self) -> None:
        self._source.wake()

    def _close_output(self) -> None:
        fd, self._write_fd = self._write_fd, -1
        if fd >= 0:
            os.close(fd)

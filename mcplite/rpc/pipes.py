"""A channel over two file descriptors with newline framing; the stdio transports of both sides are built on it.

A read waits in ``poll`` for data, for a wake-up or for the end of the other process, so that a
caller can read with a deadline, and another thread can interrupt it. Where pipes
cannot be polled (Windows) the channel is not ``interruptible`` and reads block.

The rule for descriptors, here and wherever two threads may touch one: the number of a closed descriptor belongs to the
next file that any thread opens, so a late read or write would take from that file, or damage it. Therefore

- each descriptor is written and closed under one lock, or is used by one thread, which closes it when it leaves;
- a thread that ends a connection notes the end, wakes that thread, and closes the descriptor itself only if that thread is
  not inside;
- the number is replaced when it is closed, so that a second close finds nothing.

A socket object keeps the rule by itself but for an instant inside its calls: its number is -1 once it is closed.
"""

import copy
import errno
import logging
import os
import select
import time
from typing import List, Optional

from ..errors import ConnectionClosed, ProtocolError, RequestTimeout, TransportError
from ..protocol.framing import LineBuffer
from .deadline import Deadline
from .forks import foreign_error, new_lock, new_rlock, on_fork, release
from .interfaces import Channel

__all__ = ["PipeChannel"]

_log = logging.getLogger(__name__)
#: Bytes to read at once: a pipe holds 64 KiB, and a larger buffer only costs more to allocate.
_CHUNK_BYTES = 65536
#: Seconds after which a writer that waits for a full pipe checks whether the channel was closed.
_SLICE_SECONDS = 0.2
#: Faults of the system that pass, and how often in a row they are waited out.
_PASSING = frozenset({errno.EAGAIN, errno.EINTR, errno.ENOMEM, errno.ENOBUFS})
_MOST_PASSING = 20
_PASSING_SECONDS = 0.05
#: Attempts to wake a reader; a second one is only made after a fault of the system.
_WAKE_ATTEMPTS = 3


class PipeChannel(Channel):
    """Carries messages as lines over a pair of descriptors, which the channel owns and closes.

    :param read_fd: where messages come from.
    :param write_fd: where messages go; set non-blocking before, writes can time out.
    :param name: how errors name the peer.
    :param line_limit: bytes that one incoming message may have.
    :param watch_fd: becomes readable when the other process ends (a pidfd); None for none.
    :raises TransportError: the system has no descriptors for it; those that were given stay open.
    """

    def __init__(self, read_fd: int, write_fd: int, *, name: str, line_limit: int,
                 watch_fd: Optional[int] = None) -> None:
        self.name = name
        self._read_fd, self._write_fd, self._watch_fd = read_fd, write_fd, watch_fd
        self._lines = LineBuffer(line_limit)
        self._closed = False
        #: Guards ``_closed``, ``_read_side`` and the wake-up pipe's write end; held for an assignment, for the one byte of a
        #: wake-up, and while that end is closed. A signal handler may wake in the middle of a wake-up, so it can be nested.
        self._close_lock = new_rlock()
        #: Whether a thread is inside :meth:`read`; it closes what it reads if the channel is closed meanwhile.
        self._reading = False
        #: What that thread uses; empty once it is closed.
        self._read_side = [fd for fd in (read_fd, watch_fd) if fd is not None]
        #: Set when the write end is to be closed, by the thread that ends a write if one is in progress.
        self._input_over = False
        self._ended: Optional[ConnectionClosed] = None
        #: Keeps one message whole on the descriptor; held while it is written.
        self._write_lock = new_lock()
        #: The rest of a message whose write timed out; it goes out before the next message.
        self._unsent = b""
        self._poll: "Optional[select.poll]" = None
        if hasattr(select, "poll"):
            self._make_interruptible(read_fd, watch_fd)
        #: The error for every use in a forked process; None in the process that has the descriptors.
        self._foreign: Optional[ConnectionClosed] = None
        on_fork(self, lambda channel, owner: channel.let_go(owner))

    def _make_interruptible(self, read_fd: int, watch_fd: Optional[int]) -> None:
        try:
            self._wake_read, self._wake_write = ends = os.pipe()
        except OSError as error:
            raise TransportError(f"cannot make a pipe to wake the reader of {self.name}: {error.strerror}") from error
        try:
            os.set_blocking(self._wake_read, False)
            os.set_blocking(self._wake_write, False)
            poll = select.poll()
            for fd in (read_fd, self._wake_read, watch_fd):
                if fd is not None:
                    poll.register(fd, select.POLLIN)
        except BaseException as error:
            for fd in ends:
                os.close(fd)
            if isinstance(error, OSError):
                raise TransportError(f"cannot wait for {self.name}: {error.strerror}") from error
            raise
        self.interruptible = True
        self._poll = poll
        self._read_side.append(self._wake_read)

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def closed_error(self) -> ConnectionClosed:
        """Return the error for the end of the stream; a subclass may add details."""
        return ConnectionClosed(f"{self.name} closed the connection")

    def _closed_here(self) -> ConnectionClosed:
        """Return the error for the use of a channel that was closed on this side."""
        return copy.copy(self._foreign) or ConnectionClosed(f"the connection to {self.name} was closed on this side")

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        lines = self._lines
        deadline: Optional[Deadline] = None
        faults = 0
        self._reading = True
        try:
            while True:
                line = lines.first()
                if lines.oversize and lines.take_oversize():
                    raise ProtocolError(f"{self.name} sent a line of more than {lines.limit} bytes; it was dropped")
                if line is not None:
                    return line
                if lines.ended and self._ended is None:
                    self._ended = self.closed_error()
                if self._closed:
                    raise self._closed_here()
                if self._ended is not None:
                    raise self._ended
                try:
                    if self._poll is not None:
                        if timeout is not None:
                            # One deadline for all chunks: otherwise a peer that sends byte by byte could keep a caller
                            # without limit.
                            if deadline is None:
                                deadline = Deadline(timeout)
                            else:
                                timeout = deadline.remaining() or 0.0
                        ready = self._poll.poll(None if timeout is None else timeout * 1000)
                        if not ready:
                            return None
                        if len(ready) > 1 or ready[0][0] != self._read_fd:
                            fds = [fd for fd, _ in ready]
                            if self._wake_read in fds:
                                if self._closed:
                                    continue
                                self._drain_wake()
                                return None
                            if self._read_fd not in fds:
                                # The process has ended and its pipe is empty, though a grandchild may hold it open (REL-03).
                                self._ended = self.closed_error()
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

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        deadline = None if timeout is None else Deadline(timeout)
        if not self._write_lock.acquire(timeout=-1 if timeout is None else timeout):
            raise RequestTimeout(f"{self.name} has not read its input for {timeout:g} s")
        try:
            if self._unsent:
                self._flush(deadline)
            self._unsent = data + b"\n"
            self._flush(deadline)
        except RequestTimeout:
            if len(self._unsent) == len(data) + 1:
                self._unsent = b""  # no byte was written, so the message can be dropped as a whole
            raise
        finally:
            self._write_lock.release()
            if self._input_over:
                self.close_input(0)

    def _flush(self, deadline: Optional[Deadline]) -> None:
        # Called with the write lock held. The number of bytes written is stored inside the same call into C,
        # for the reason given in read().
        written: List[int] = []
        total = len(self._unsent)
        rest = memoryview(self._unsent)
        sent = 0
        try:
            while sent < total:
                if self._closed:
                    raise self._closed_here()
                try:
                    written.extend(map(os.write, (self._write_fd,), (rest[sent:] if sent else rest,)))
                    sent = sum(written)
                except BlockingIOError:
                    self._wait_writable(deadline)
                except OSError as error:
                    raise self._broken(error) from error
        finally:
            sent = sum(written)
            self._unsent = self._unsent[sent:] if sent < total else b""

    def _unreadable(self, error: OSError) -> ConnectionClosed:
        """Return the error for a read that failed."""
        return ConnectionClosed(f"reading from {self.name} failed: {error.strerror}")

    def _broken(self, error: OSError) -> ConnectionClosed:
        """Return the error for a write that failed."""
        return ConnectionClosed(f"writing to {self.name} failed: {error.strerror}")

    def _wait_writable(self, deadline: Optional[Deadline]) -> None:
        remaining = None if deadline is None else deadline.remaining()
        if remaining is not None and remaining <= 0:
            raise RequestTimeout(f"{self.name} does not read its input, and its pipe is full")
        pause = _SLICE_SECONDS if remaining is None else min(remaining, _SLICE_SECONDS)
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._write_fd, select.POLLOUT)
            poll.poll(pause * 1000)
        else:
            time.sleep(min(pause, 0.01))

    def wake(self) -> None:
        if self.interruptible:
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
        locked = self._write_lock.acquire(timeout=timeout)
        try:
            # Where reads cannot be interrupted (Windows), writes cannot either: closing is all that can end them.
            if self._write_fd >= 0 and (locked or not self.interruptible):
                fd, self._write_fd = self._write_fd, -1
                os.close(fd)
        finally:
            if locked:
                self._write_lock.release()

    def close(self) -> None:
        """Close every descriptor, those in use by another thread as soon as it has left."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            if self.interruptible:
                os.close(self._wake_write)  # which wakes the thread that reads, and cannot be missed
        self.close_input(timeout=2 * _SLICE_SECONDS)
        if not (self._reading and self.interruptible):
            self._close_read_side()

    def _close_read_side(self) -> None:
        with self._close_lock:
            fds, self._read_side = self._read_side, []
        for fd in fds:
            os.close(fd)

    def let_go(self, owner: int) -> None:
        """Let go of every descriptor in a forked process.

        :param owner: the id of the process that has the channel.
        """
        if self._closed:
            return
        self._closed = True
        self._foreign = foreign_error(self.name, owner, "open one in this process")
        for fd in self._descriptors():
            release(fd)

    def _descriptors(self) -> List[int]:
        """Return all descriptors that are open, the write end first."""
        found = [self._write_fd, self._read_fd, self._watch_fd]
        if self.interruptible:
            found += [self._wake_read, self._wake_write]
        return [fd for fd in found if fd is not None and fd >= 0]

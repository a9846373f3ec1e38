"""The descriptors of pipes: how they are made, written without blocking and waited for, and what Windows does otherwise.

:mod:`.pipes`, the streams of the user and the child processes of clients are built on them. A thread that reads waits in an
:class:`Input`. :func:`open_input` returns one that another thread can wake: an :class:`InputWait`, or, where pipes cannot be
polled, as on Windows, a :class:`PipeReader`. The command lines and the login of OAuth ask whether a stream is a terminal,
where a person may read and type.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
import threading
import time
from typing import Any, List, Optional, TextIO, Tuple

from ...errors import TransportError
from ..deadline import WakeSignal
from ..threads import Loop, start_thread

__all__ = [
    "CHUNK_BYTES", "INPUT", "Input", "InputWait", "PASSING", "PIPE_CLOSED", "PipeReader", "cancel_read", "has_reader",
    "is_terminal", "make_pipe", "open_input", "set_nonblocking", "write_piece",
]

#: A function that returns the next chunk, and an iterable for each of its arguments.
_NextChunk = Tuple[Any, ...]
#: Bytes to read at once: a pipe holds 64 KiB, and a larger buffer only costs more to allocate.
CHUNK_BYTES = 65536
#: select.POLLIN, which Windows does not have.
INPUT = 1
#: Chunks that a thread keeps before it waits for the channel to take them.
_MOST_CHUNKS = 16

#: Faults of a read that pass, as when another process has read what was there.
PASSING = frozenset({errno.EAGAIN, errno.EINTR, errno.ENOMEM, errno.ENOBUFS})
#: The number of the error of a write to a pipe or stream whose reader has closed it.
PIPE_CLOSED = errno.EINVAL if os.name == "nt" else errno.EPIPE
#: Bytes that a pipe holds: as many as one of Linux does. Windows has 4,096 otherwise.
_PIPE_BYTES = 65536
#: The fewest bytes that are worth a try of their own, when the pipe had no room for more.
_LEAST_BYTES = 256
#: Seconds in which a read is cancelled, and between two attempts: the first may come before the thread is inside it.
_CANCEL_SECONDS, _CANCEL_PAUSE_SECONDS = 1.0, 0.01


def cancel_read(thread: threading.Thread) -> bool:
    """Break off the read that a thread is blocked in, where the system can do that; return whether the thread has ended.

    :param thread: ends when its read fails.
    """
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenThread.restype = ctypes.c_void_p
        for function in (kernel.CancelSynchronousIo, kernel.CloseHandle):
            function.argtypes = [ctypes.c_void_p]
        handle = kernel.OpenThread(1, False, thread.native_id or 0)  # THREAD_TERMINATE
        if handle:
            end = time.monotonic() + _CANCEL_SECONDS
            while thread.is_alive() and time.monotonic() < end:
                kernel.CancelSynchronousIo(handle)
                thread.join(_CANCEL_PAUSE_SECONDS)
            kernel.CloseHandle(handle)
    return not thread.is_alive()


def has_reader(fd: int) -> bool:
    """Return whether what is written to a pipe or a socket may still be read; where only a write tells, that is assumed."""
    if sys.platform == "win32" or not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(fd, 0)
    return not poll.poll(0)


def make_pipe() -> Tuple[int, int]:
    """Return the descriptors of a new pipe, where it is read and where it is written; children do not inherit them.

    :raises OSError: there are no more descriptors.
    """
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        handles = _winapi.CreatePipe(None, _PIPE_BYTES)
        return msvcrt.open_osfhandle(handles[0], os.O_RDONLY), msvcrt.open_osfhandle(handles[1], os.O_WRONLY)
    return os.pipe()


def set_nonblocking(fd: int) -> None:
    """Make writes to a pipe return at once; on Windows they are made by :func:`write_piece`."""
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        _winapi.SetNamedPipeHandleState(msvcrt.get_osfhandle(fd), 1, None, None)  # PIPE_NOWAIT
    else:
        os.set_blocking(fd, False)


def write_piece(fd: int, data: "bytes | memoryview") -> int:
    """Write as ``os.write`` does, on Windows, where a pipe that does not block takes all of what is written, or nothing.

    :raises BlockingIOError: the pipe is full.
    :raises OSError: it is broken.
    """
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        handle, size = msvcrt.get_osfhandle(fd), min(len(data), _PIPE_BYTES)
        while True:
            written, _ = _winapi.WriteFile(handle, data[:size])
            if written:
                return written
            if size <= _LEAST_BYTES:
                raise BlockingIOError(errno.EAGAIN, "the pipe is full")
            size = max(size // 4, _LEAST_BYTES)
    raise NotImplementedError


class Input:
    """Where one thread reads chunks, and frees the descriptors when no thread reads any more.

    As it is, it waits inside the read, and nothing ends that wait: so are streams read that cannot be polled.

    :param fd: what :meth:`poll` reports when there is something to read.
    :param next_chunk: the function that reads a chunk, and an iterable for each of its arguments, for ``map``.
    """

    #: The descriptor that is reported besides when the wait was woken.
    woken_fd = -1

    def __init__(self, fd: int, next_chunk: _NextChunk) -> None:
        self.fd = fd
        #: What :meth:`poll` returns if there is input, and nothing more has happened.
        self.input_only = [(fd, INPUT)]
        self.next_chunk = next_chunk
        #: The descriptors that :meth:`close` closes; its user may add others.
        self.owned: List[int] = []
        #: Guards ``owned`` and what wakes the wait; held for one byte, or while one descriptor is closed. A signal handler may
        #: wake in the middle of a wake-up, so it can be nested.
        self._lock = threading.RLock()

    def watch(self, fd: int, events: int, /) -> None:
        """Report these events of another descriptor as well, where that is possible."""

    def poll(self, milliseconds: Optional[float] = None, /) -> List[Tuple[int, int]]:
        """Wait for so many milliseconds, or without a limit; return what is ready: descriptors with their events."""
        return self.input_only

    def wake(self) -> None:
        """End the present wait, or the next one."""

    def drain(self) -> None:
        """Take the wake-ups."""

    def discard(self) -> None:
        """Keep nothing of what comes from now on: the thread that waits for the other side to end reads it."""

    def end(self) -> None:
        """End the present wait, and each one from now on that finds nothing to read."""

    def close(self) -> None:
        """Free the descriptors; no thread waits any more."""
        self.end()
        with self._lock:
            fds, self.owned = self.owned, []
        for fd in fds:
            os.close(fd)


class InputWait(Input):
    """Waits until a descriptor can be read, or until another thread wakes it, where pipes can be polled.

    :param fd: of the caller, which closes it or adds it to ``owned``.
    :param name: of the peer, for errors.
    :raises TransportError: the system has no descriptors for it.
    """

    #: The descriptor that wakes the wait; -1 once it is closed.
    _wake_fd: int

    def __init__(self, fd: int, name: str) -> None:
        if sys.platform == "win32":
            raise NotImplementedError("a PipeReader reads there")
        super().__init__(fd, (os.read, (fd,), (CHUNK_BYTES,)))
        try:
            self.woken_fd, self._wake_fd = self.owned[:] = os.pipe()
        except OSError as error:
            raise TransportError(f"cannot make a pipe to wake the reader of {name}: {error.strerror}") from error
        for end in self.owned:
            os.set_blocking(end, False)
        poll = select.poll()
        self.watch, self.poll = poll.register, poll.poll  # type: ignore[method-assign, unused-ignore]  # on Windows
        for one in (fd, self.woken_fd):
            self.watch(one, INPUT)

    def wake(self) -> None:
        with self._lock:
            if self._wake_fd >= 0:
                with contextlib.suppress(BlockingIOError):  # the pipe is full of wake-ups that were not taken
                    os.write(self._wake_fd, b"\0")

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the thread that waited before has taken them
            os.read(self.woken_fd, 4096)

    def end(self) -> None:
        with self._lock:
            fd, self._wake_fd = self._wake_fd, -1
            if fd >= 0:
                self.owned.remove(fd)
                os.close(fd)


class PipeReader(Input):
    """A thread that reads a descriptor and closes it at the end: what :class:`InputWait` is where pipes cannot be polled.

    :param fd: where to read; from now on it belongs to the thread.
    :param name: of the thread.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._name = name
        #: What was read and not taken yet; an empty chunk is the end. Only the thread appends, only the channel removes.
        self.chunks: List[bytes] = []
        super().__init__(fd, (self.chunks.pop, (0,)))
        #: Set for each chunk, and by wake(). No SimpleQueue: up to Python 3.10 its get() may wait for ever if time is short.
        self._news, self._woken = WakeSignal(), False
        self._room = threading.Event()
        self._stopped = self._discarding = False
        # Started here; ended by the end of the pipe or by close(); blocks in os.read, or until the channel takes chunks.
        self._thread = start_thread(self._run, name)

    def poll(self, milliseconds: Optional[float] = None, /) -> List[Tuple[int, int]]:
        """Wait until there are chunks; return nothing after that time, or when it was woken, which takes the wake-up."""
        while not self.chunks:
            self._room.set()
            if self._woken or not self._news.wait(None if milliseconds is None else milliseconds / 1000):
                self._woken = False
                return []
        return self.input_only

    def wake(self) -> None:
        self._woken = True
        self._news.set()

    end = wake

    def discard(self) -> None:
        """Read on, and keep nothing from now on, so that a program that is ending is not kept by a full pipe."""
        self._discarding = True
        self._room.set()

    def close(self) -> None:
        """End the thread, if the system can cancel its read. Otherwise the thread ends with the pipe."""
        super().close()
        if not self._stopped:
            self._stopped = True
            self._room.set()
            cancel_read(self._thread)

    def _run(self) -> None:
        try:
            Loop(self._name, self._read).run()
        finally:
            os.close(self.fd)

    def _read(self) -> None:
        while not self._stopped:
            try:
                chunk = os.read(self.fd, CHUNK_BYTES)
            except OSError as error:
                if error.errno in PASSING:
                    raise
                chunk = b""  # it was broken off by the other side, or cancelled here
            if self._discarding and chunk:
                continue
            self.chunks.append(chunk)
            self._news.set()
            if not chunk:
                break
            # The channel sets the event whenever it has taken all chunks, so none is missed by clearing it first.
            self._room.clear()
            while len(self.chunks) >= _MOST_CHUNKS and not (self._stopped or self._discarding):
                self._room.wait()
                self._room.clear()


def open_input(fd: int, name: str) -> Input:
    """Return the input that reads a descriptor on this system, and closes it.

    :param name: of the peer, for errors and for the name of a thread.
    :raises TransportError: the system has no descriptors or no thread for it; *fd* stays open.
    """
    if not hasattr(select, "poll"):
        return PipeReader(fd, f"mcplite pipe of {name}")
    source = InputWait(fd, name)
    source.owned.append(fd)
    return source


def is_terminal(stream: Optional[TextIO]) -> bool:
    """Return whether a stream is a terminal. Windows calls its null device one as well, on which there is no user to ask.

    :param stream: None, as ``sys.stdin`` may be, is no terminal; neither is one that is closed.
    """
    try:
        return stream is not None and stream.isatty() and not _is_null_device(stream)
    except ValueError:  # it is closed
        return False


def _is_null_device(stream: TextIO) -> bool:
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        try:
            handle = msvcrt.get_osfhandle(stream.fileno())
        except (AttributeError, OSError, ValueError):
            return False  # an object of the program's own, which knows what it is
        return not ctypes.windll.kernel32.GetConsoleMode(ctypes.c_void_p(handle), ctypes.byref(ctypes.c_ulong()))
    return False

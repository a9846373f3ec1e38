"""The descriptors of pipes: how they are made, written without blocking and read, and what Windows does otherwise.

:mod:`.pipes` and the child processes of clients use them.

Tells whether a stream is a terminal, where a person may read and type.

The command lines of server and client and the login of OAuth ask it, so it is a module below all of them.
"""

import errno
import os
import select
import sys
import threading
import time
from typing import Optional, TextIO, Tuple

__all__ = [
    "PIPE_CLOSED", "cancel_read", "has_input", "has_reader", "is_terminal", "make_pipe", "set_nonblocking", "write_piece",
]

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


def has_input(fd: int) -> bool:
    """Return whether a read from a pipe, on Windows, would return at once with bytes."""
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        try:
            return _winapi.PeekNamedPipe(msvcrt.get_osfhandle(fd))[0] != 0
        except OSError:  # it was broken off by the other side, and nothing is left in it
            return False
    raise NotImplementedError


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

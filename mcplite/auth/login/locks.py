"""Locks between the processes of a user, and the threads of each: files in a folder.

The locks are the system's, by ``flock``, or by ``LockFileEx`` on Windows. They end with the process that holds them.
"""

import contextlib
import hashlib
import os
import sys
import time
from typing import Callable, Iterator, Optional

from ...errors import AuthError
from . import windows_files
from .private_files import make_folder, open_file, system_error
from .stores import ThreadLocks

__all__ = ["FileLocks", "digest", "give_up_after"]

#: Seconds between two attempts to lock a file: at first, and at most.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.1
#: What Windows returns while another program, such as a virus scanner, has a file open and shares it with none.
_SHARING_VIOLATION = 32


class FileLocks:
    """Locks by name, between the processes of a user and the threads of this one: files in a folder.

    The holder of a lock removes its file. So a thread that gets a lock checks that its file is still the one of that name: a
    lock on a removed file excludes no other. The system releases the locks of a process that dies; an empty file is left.

    :param folder: only its owner may write into it; made, for the owner alone, when it is missing.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        #: Between the threads of this process: its locks wake a waiting thread at once, and hold on network file systems
        #: as well, whose locks belong to the whole process.
        self._threads = ThreadLocks()

    def __repr__(self) -> str:
        return f"FileLocks({self._folder!r})"

    @contextlib.contextmanager
    def hold(self, name: str, wait: Callable[[], object]) -> Iterator[None]:
        """Wait for a lock and hold it for the block; see :meth:`Store.lock`.

        :param name: of the file; :func:`digest` makes one of any text.
        :raises RuntimeError: this thread holds it already.
        :raises AuthError: other users may write into the folder, or its file system has no locks.
        """
        path = os.path.join(self._folder, name)
        with self._threads.hold(name, wait):
            descriptor = self._acquire(path, wait)
            try:
                yield
            finally:
                _release(path, descriptor)

    def _acquire(self, path: str, wait: Callable[[], object]) -> int:
        """Wait for the lock; return the descriptor of its file."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            descriptor = self._open(path)
            if descriptor is not None:
                try:
                    if self._try_lock(path, descriptor):
                        return descriptor
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
            wait()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _open(self, path: str) -> Optional[int]:
        """Return a descriptor of the lock's file; None while another program has the file for itself, as on Windows."""
        try:
            make_folder(self._folder)
            return open_file(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if getattr(error, "winerror", None) == _SHARING_VIOLATION:
                return None
            raise system_error("make the lock", path, error) from error

    def _try_lock(self, path: str, descriptor: int) -> bool:
        try:
            return _lock(descriptor) and _is_same_file(path, descriptor)
        except OSError as error:
            raise system_error("lock", path, error) from error


def digest(text: str) -> str:
    """Return a name of 64 plain characters for any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def give_up_after(seconds: float, text: str) -> Callable[[], None]:
    """Return a function for ``wait=`` that raises an :class:`AuthError` of that text after some seconds."""
    end = time.monotonic() + seconds

    def wait() -> None:
        if time.monotonic() > end:
            raise AuthError(text)

    return wait


# --- locks of the system ------------------------------------------------------------------------------


def _lock(descriptor: int) -> bool:
    """Lock a file if that is possible without blocking; return whether it is locked now."""
    if sys.platform == "win32":
        return windows_files.lock_file(descriptor)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(path: str, descriptor: int) -> bool:
    """Return whether a path leads to the file that a descriptor is of."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(path: str, descriptor: int) -> None:
    if sys.platform == "win32":
        os.close(descriptor)  # which ends the lock: no other process has a copy
        with contextlib.suppress(OSError):  # another process has it open already, and then it is not removed
            os.unlink(path)
        return
    try:
        # This lets the next process in; closing would not, once a child was forked, which has the file open as well.
        with contextlib.suppress(OSError):  # an empty file that is left does no harm
            os.unlink(path)
    finally:
        os.close(descriptor)

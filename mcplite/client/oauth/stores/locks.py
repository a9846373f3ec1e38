"""Locks between the processes of a user, and the threads of each: files in a folder.

The locks themselves are the system's: of ``flock``, and of ``msvcrt`` on Windows. They end with the process.
"""

import contextlib
import errno
import hashlib
import os
import sys
import time
from typing import Callable, Iterator

from ....errors import AuthError
from .base import Turns
from .own_files import make_folder, open_file, refusal

__all__ = ["FileLocks", "digest", "until"]

#: Seconds between two attempts to lock a file: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1


class FileLocks:
    """Locks against the other processes of a user, and the other threads of this one: files in a folder.

    A file is removed by who holds it. So whoever gets a lock looks whether its file is still the one of that name:
    locks on a removed one exclude nobody. The system ends the locks of a process that dies; what is left is empty.

    :param folder: that its owner alone can change; made, for the owner alone, when it is missing.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        #: The threads of this process, where a lock wakes who waits. It also excludes them on network file systems,
        #: whose locks are those of a process.
        self._turns = Turns()

    def __repr__(self) -> str:
        return f"FileLocks({self._folder!r})"

    @contextlib.contextmanager
    def held(self, name: str, wait: Callable[[], object]) -> Iterator[None]:
        """Have the lock for the length of the block; see :meth:`Store.held`.

        :param name: of the file; :func:`digest` makes one of any text.
        :raises RuntimeError: this thread has it already.
        :raises AuthError: the folder is not for us alone to change, or cannot hold locks.
        """
        path = os.path.join(self._folder, name)
        with self._turns.held(name, wait):
            descriptor = self._taken(path, wait)
            try:
                yield
            finally:
                _release(path, descriptor)

    def _taken(self, path: str, wait: Callable[[], object]) -> int:
        """Return the descriptor of the file, locked."""
        pause = _FIRST_PAUSE
        while True:
            descriptor = self._open(path)
            try:
                if self._locks(path, descriptor) and _is_still(path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            wait()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _open(self, path: str) -> int:
        try:
            make_folder(self._folder)
            return open_file(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise refusal("make the lock", path, error) from error

    def _locks(self, path: str, descriptor: int) -> bool:
        try:
            return _lock(descriptor)
        except OSError as error:
            raise refusal("lock", path, error) from error


def digest(text: str) -> str:
    """Return a name of 64 plain characters for any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def until(seconds: float, text: str) -> Callable[[], None]:
    """Return a function for ``wait=`` that gives up after some seconds, with an :class:`AuthError` of that text."""
    end = time.monotonic() + seconds

    def wait() -> None:
        if time.monotonic() > end:
            raise AuthError(text)

    return wait


# --- locks of the system ------------------------------------------------------------------------------


def _lock(descriptor: int) -> bool:
    """Whether the lock was had; nothing is waited for."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: str, descriptor: int) -> bool:
    """Whether a name is that of an open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(path: str, descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        os.close(descriptor)
        with contextlib.suppress(OSError):  # somebody has it open already, and then it is not removed
            os.unlink(path)
        return
    try:
        # Who waits is let in by this; closing would not do it when a child was forked, which has it open as well.
        with contextlib.suppress(OSError):  # an empty file that stays does no harm
            os.unlink(path)
    finally:
        os.close(descriptor)

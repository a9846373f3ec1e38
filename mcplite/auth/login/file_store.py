"""The store in a file that only its owner can read, shared by all processes of a user; and the files and locks of stores.

Modes and owners keep other users away; both are checked before anything is read or written (AUTH-47). On Windows access
lists do that; :mod:`.windows_files` makes and reads them. Locks between the processes of a user are files too: the locks are
the system's, by ``flock``, or by ``LockFileEx`` on Windows, and end with the process that holds them.
"""

import contextlib
import hashlib
import os
import shlex
import stat
import sys
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Union

from ...errors import AuthError
from ...rpc.deadline import undo
from . import windows_files
from .stores import Store, ThreadLocks, dump_record, parse_record

__all__ = ["FileLocks", "FileStore", "data_folder", "digest", "give_up_after", "make_folder", "open_file"]

#: The environment variable with the path of the credentials file.
VARIABLE = "MCPLITE_CREDENTIALS"
#: Rights of group and others; a file with any of them is refused.
_FOREIGN_RIGHTS = 0o077
#: A folder with any of these is refused: other users could put a file or a link in the place of ours, and the sticky bit
#: does not prevent that while ours does not exist. Reading a folder shows names, and no contents.
_FOREIGN_WRITES = 0o022
#: Flags that some systems do not have. Opening does not block on a pipe, and does not follow a link.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
#: The mark of a junction, which is a link between folders on Windows, and a folder to ``stat``: IO_REPARSE_TAG_MOUNT_POINT.
_JUNCTION = 0xA0000003
#: The errors of Windows for a file that is replaced or moved while it is open: ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION.
_OPEN_ELSEWHERE = (5, 32)
#: Seconds to wait until such a file is closed, and between two attempts.
_OPEN_SECONDS, _PAUSE_SECONDS = 2.0, 0.005


def data_folder(platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of our folder, which is in the system's folder for the data of a user's programs.

    :raises AuthError: there is no home folder.
    """
    if platform == "win32":
        base = environ.get("APPDATA") or os.path.expanduser("~\\AppData\\Roaming")
    elif platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = environ.get("XDG_DATA_HOME", "")
        if not os.path.isabs(base):  # its specification says to ignore such a value
            base = os.path.expanduser("~/.local/share")
    if base.startswith("~"):
        raise AuthError(f"there is no home folder to keep credentials in: set HOME, or {VARIABLE} to the path of a file")
    return os.path.join(base, "mcplite")


def make_folder(folder: str) -> None:
    """Make a folder for its owner alone, and its missing parents, unless it exists.

    :raises AuthError: it exists, and other users may write into it.
    :raises OSError: it cannot be made.
    """
    try:
        check_private(folder, os.lstat(folder), folder=True)
        return
    except FileNotFoundError:
        parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        make_folder(parent)
    with contextlib.suppress(FileExistsError):  # another process was faster
        if sys.platform == "win32":
            windows_files.make_own_folder(folder)
        else:
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)  # a umask may have removed too many rights
        flush(parent)
    check_private(folder, os.lstat(folder), folder=True)


def check_private(path: str, found: os.stat_result, folder: bool = False) -> None:
    """Refuse a file that other users may read, and a folder that they may write into (AUTH-47).

    :param found: its status, not that of a link's target.
    :raises AuthError: it is refused; the text says what to do.
    """
    if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == _JUNCTION:
        raise AuthError(f"{path} is a symbolic link, and credentials are not written to where one leads; name its target")
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        raise AuthError(f"{path} is not a {'folder' if folder else 'file'}; name another one for the credentials")
    if sys.platform == "win32":
        _check_access_list(path, folder)
        return
    if found.st_uid != os.geteuid():
        raise AuthError(f"{path} belongs to the user with the id {found.st_uid}, and this process runs as {os.geteuid()};"
                        f" credentials are only kept in a folder of one's own")
    mode = stat.S_IMODE(found.st_mode)
    if folder and mode & _FOREIGN_WRITES:
        raise AuthError(f"other users than its owner can write into {path} (its mode is {mode:o}), and replace the files in"
                        f" it; keep the credentials in another folder, or run: chmod go-w {shlex.quote(path)}")
    if not folder and mode & _FOREIGN_RIGHTS:
        raise AuthError(f"other users than its owner can read or write {path} (its mode is {mode:o}), and there are credentials"
                        f" in it; run: chmod 600 {shlex.quote(path)}")


def _check_access_list(path: str, folder: bool) -> None:
    """Refuse by the access list of Windows what :func:`check_private` refuses by the mode elsewhere.

    :raises AuthError: it is refused; the text says what to do.
    """
    owner, others = windows_files.read_access_list(path, folder)
    if owner:
        raise AuthError(f"{path} belongs to another user, whose security identifier is {owner};"
                        f" credentials are only kept in a folder of one's own")
    if others:
        what = "write into it and replace the files in it; keep the credentials in another folder" if folder \
            else "read or write it, and there are credentials in it"
        raise AuthError(f"{path}: the users or groups {', '.join(others)} can {what}{', or' if folder else ';'} run:"
                        f" icacls \"{path}\" /inheritance:d /remove {' '.join('*' + user for user in others)}")


def open_file(path: str, flags: int) -> int:
    """Return the descriptor of a file; a new file is private from its first moment.

    :raises OSError: it cannot be opened, or it is a link.
    """
    if sys.platform == "win32":
        return windows_files.open_own_file(path, flags)
    descriptor = os.open(path, flags | _PLAIN, 0o600)
    with undo(lambda: os.close(descriptor)):
        if flags & os.O_CREAT:
            os.fchmod(descriptor, 0o600)  # a umask may have removed rights that our other processes need
    return descriptor


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Open a file for the length of the block; see :func:`open_file`.

    :raises AuthError: it is a link.
    """
    if os.path.islink(path):
        check_private(path, os.lstat(path))  # O_NOFOLLOW refuses it as well, but with an obscure text
    descriptor = open_file(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flush(folder: str) -> None:
    """Write a folder's entries to the disk; do nothing on Windows, which has no function for that.

    :raises OSError: it is not certain that they were written.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file, if it exists.

    :raises OSError: it cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def replace(source: str, target: str) -> None:
    """Move a file to the place of another, which may be missing: all or nothing.

    Windows refuses that while one of the files is open. Another thread that asks whether the file is there, or a virus scanner,
    has it open for a moment. So moving is tried again for two seconds.

    :raises OSError: it cannot be moved.
    """
    end = time.monotonic() + _OPEN_SECONDS
    while True:
        try:
            os.replace(source, target)
            return
        except OSError as error:
            if getattr(error, "winerror", None) not in _OPEN_ELSEWHERE or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_SECONDS)


def system_error(what: str, path: str, error: OSError) -> AuthError:
    """Return our error for one of the system.

    :param what: what failed: a verb whose object is the path.
    """
    return AuthError(f"cannot {what} {path}: {error.strerror or type(error).__name__}")


#: Seconds between two attempts to lock a file: at first, and at most.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.1
#: The error of Windows while another program, such as a virus scanner, has a file open and does not share it.
_SHARING_VIOLATION = 32


class FileLocks:
    """Locks by name, between the processes of a user and the threads of this one: files in a folder.

    The holder of a lock removes its file at the end. So a thread that gets a lock checks that the file still has that name: a
    lock on a removed file excludes no other process. The system releases the locks of a process that dies; an empty file is
    left.

    :param folder: only its owner may write into it; if it is missing, it is made for the owner alone.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        #: The locks between the threads of this process. They wake a waiting thread at once. On network file systems the locks
        #: of files belong to the whole process, and would not keep its threads apart.
        self._threads = ThreadLocks()

    def __repr__(self) -> str:
        return f"FileLocks({self._folder!r})"

    @contextlib.contextmanager
    def hold(self, name: str, check: Callable[[], object]) -> Iterator[None]:
        """Wait for a lock and hold it for the block; see :meth:`Store.lock`.

        :param name: of the file; :func:`digest` makes one of any text.
        :raises RuntimeError: this thread holds it already.
        :raises AuthError: other users may write into the folder, or its file system has no locks.
        """
        path = os.path.join(self._folder, name)
        with self._threads.hold(name, check):
            descriptor = self._acquire(path, check)
            try:
                yield
            finally:
                _release(path, descriptor)

    def _acquire(self, path: str, check: Callable[[], object]) -> int:
        """Wait for the lock; return the descriptor of its file."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            descriptor = self._try_lock(path)
            if descriptor is not None:
                return descriptor
            check()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _try_lock(self, path: str) -> Optional[int]:
        """Try once to get the lock, and return the descriptor of its file; None while another process has the lock.

        On Windows, also None while another program has the file open and does not share it.
        """
        what = "make the lock"
        try:
            make_folder(self._folder)
            descriptor, what = open_file(path, os.O_RDWR | os.O_CREAT), "lock"
            with undo(lambda: os.close(descriptor)):
                if _lock(descriptor) and _is_same_file(path, descriptor):
                    return descriptor
            os.close(descriptor)
        except OSError as error:
            if getattr(error, "winerror", None) != _SHARING_VIOLATION:
                raise system_error(what, path, error) from error
        return None


def digest(text: str) -> str:
    """Return a name of 64 plain characters for any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def give_up_after(seconds: float, text: str) -> Callable[[], None]:
    """Return a function for ``check=`` that raises an :class:`AuthError` of that text after some seconds."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise AuthError(text)

    return check


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
        os.close(descriptor)  # this ends the lock: no other process has a copy of the descriptor
        with contextlib.suppress(OSError):  # another process has it open already, and then it is not removed
            os.unlink(path)
        return
    try:
        # Removing the file lets the next process in, which makes a new one. Closing it would not, if a child was forked
        # meanwhile: the child has the old file open, and so keeps its lock.
        with contextlib.suppress(OSError):  # an empty file that is left does no harm
            os.unlink(path)
    finally:
        os.close(descriptor)


_NAME = "credentials.json"
_VERSION = 1
#: Seconds to wait for another process that writes the file, which takes some milliseconds.
_WRITE_SECONDS = 10.0


class FileStore(Store):
    """One JSON file with all records.

    Only its owner may read it, and only its owner may write into its folder; the ordinary folder of a project will do.
    Missing folders are made for the owner alone.

    :param path: of the file. By default the value of the variable ``MCPLITE_CREDENTIALS``; if that is not set,
        ``mcplite/credentials.json`` in the system's folder for the data of a user's programs.
    :raises AuthError: there is neither a path nor a home folder.
    """

    def __init__(self, path: "Union[str, os.PathLike[str], None]" = None) -> None:
        given = os.fspath(path) if path is not None else os.environ.get(VARIABLE) or os.path.join(data_folder(), _NAME)
        self._path = os.path.abspath(os.path.expanduser(given))
        self._folder, self._name = os.path.split(self._path)
        self._temporary = self._path + ".new"
        self._file_locks = FileLocks(self._folder)
        self._key_locks = FileLocks(self._path + ".locks")

    def __repr__(self) -> str:
        return f"FileStore({self._path!r})"

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        return self._records().get(key)

    def save(self, key: str, record: Dict[str, Any]) -> None:
        copy = parse_record(dump_record(record))
        with self._write_lock():
            self._write({**self._read(), key: copy})

    def delete(self, key: str) -> None:
        if key not in self._records():
            return  # the lock is not taken: that would make a folder for nothing
        with self._write_lock():
            records = self._read()
            if records.pop(key, None) is not None:
                self._write(records)

    def keys(self) -> List[str]:
        return list(self._records())

    def lock(self, key: str, check: Callable[[], object]) -> ContextManager[None]:
        return self._key_locks.hold(digest(key), check)

    def _write_lock(self) -> ContextManager[None]:
        """Return a block in which no other process writes the file; it is short, unlike the block of :meth:`lock`."""
        return self._file_locks.hold(self._name + ".lock", give_up_after(
            _WRITE_SECONDS,
            f"another process has been writing {self._path} for {_WRITE_SECONDS:g} s; look for one that is stopped"))

    # --- reading ------------------------------------------------------------------------------------

    def _records(self) -> Dict[str, Dict[str, Any]]:
        if sys.platform == "win32":
            if os.path.lexists(self._path):
                with self._write_lock():  # on Windows a file cannot be replaced while another process reads it
                    return self._read()
            # The missing file is not read: another process may make it at this moment, and replace it at the next.
            try:
                check_private(self._folder, os.lstat(self._folder), folder=True)
            except FileNotFoundError:
                return {}
            except OSError as error:
                raise system_error("read", self._path, error) from error
            return {}
        return self._read()

    def _read(self) -> Dict[str, Dict[str, Any]]:
        """Return all records; an empty dict when there is no file.

        :raises AuthError: the file or its folder is open to other users, cannot be read, or is damaged.
        """
        try:
            check_private(self._folder, os.lstat(self._folder), folder=True)
            with opened(self._path, os.O_RDONLY) as descriptor:
                check_private(self._path, os.fstat(descriptor))
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise system_error("read", self._path, error) from error
        return self._parsed(data)

    def _parsed(self, data: bytes) -> Dict[str, Dict[str, Any]]:
        try:
            document = parse_record(data)
        except ValueError as error:
            raise self._damaged("is not a JSON object") from error
        if document.get("version") != _VERSION:
            raise self._damaged(f"is not of version {_VERSION}, the only one that this program can read")
        records = document.get("records")
        if not isinstance(records, dict) or not all(isinstance(record, dict) for record in records.values()):
            raise self._damaged("has no object of records")
        return records

    def _damaged(self, how: str) -> AuthError:
        return AuthError(f"{self._path} {how}; it is left as it is: repair it, or move it away and authorize again")

    # --- writing ------------------------------------------------------------------------------------

    def _write(self, records: Dict[str, Dict[str, Any]]) -> None:
        """Replace the file, all or nothing; called with the write lock.

        :raises AuthError: the file is as it was, or the disk may not have the new one yet.
        """
        data = dump_record({"version": _VERSION, "records": records}).encode("ascii")
        try:
            remove(self._temporary)  # it is left by a process that was killed while it wrote
            with undo(lambda: remove(self._temporary)):
                self._write_temporary(data)
                replace(self._temporary, self._path)
            flush(self._folder)
        except OSError as error:
            raise system_error("write", self._path, error) from error

    def _write_temporary(self, data: bytes) -> None:
        with opened(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)

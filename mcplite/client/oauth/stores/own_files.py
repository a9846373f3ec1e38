"""Files and folders for one user alone: where they are, how they are made, and which are refused.

Other users are kept away by modes and owners, which are looked at before anything is read or written (AUTH-47). On
Windows there are none: a file has the access list of its folder, and that of ``%APPDATA%`` lets in its user alone.
"""

import contextlib
import os
import shlex
import stat
import sys
from typing import Iterator, Mapping

from ....errors import AuthError

__all__ = ["VARIABLE", "check", "data_folder", "flush", "make_folder", "open_file", "opened", "refusal", "remove"]

#: The environment variable with the path of the file for credentials.
VARIABLE = "MCPLITE_CREDENTIALS"
#: What group and others may do; with any of it a file is refused.
_LOOSE = 0o077
#: With any of this a folder is refused: who writes there can lay another file, or a link, in the place of one of ours;
#: the sticky bit keeps nobody from it where there is none yet. Looking into it shows names and no contents.
_WRITABLE = 0o022
#: Flags that some systems do not have. A pipe is not waited for, and a link is not followed.
_PLAIN = (getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
          | getattr(os, "O_NOINHERIT", 0))


def data_folder(platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> str:
    """Return our folder among those in which the system keeps the data of a user's programs.

    :raises AuthError: there is no home folder.
    """
    if platform == "win32":
        base = environ.get("APPDATA") or os.path.expanduser("~\\AppData\\Roaming")
    elif platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = environ.get("XDG_DATA_HOME", "")
        if not os.path.isabs(base):  # such a value is to be ignored, says its specification
            base = os.path.expanduser("~/.local/share")
    if base.startswith("~"):
        raise AuthError(f"there is no home folder to keep credentials in: set HOME, or {VARIABLE} to the path of a file")
    return os.path.join(base, "mcplite")


def make_folder(folder: str) -> None:
    """See to it that there is a folder that only we can change; each one that is made on the way to it is ours alone.

    :raises AuthError: there is one that is refused.
    :raises OSError: it cannot be made.
    """
    try:
        check(folder, os.lstat(folder), folder=True)
        return
    except FileNotFoundError:
        parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        make_folder(parent)
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(folder, 0o700)
        if sys.platform != "win32":
            os.chmod(folder, 0o700)  # a umask may have taken too much
        flush(parent)
    check(folder, os.lstat(folder), folder=True)


def check(path: str, found: os.stat_result, folder: bool = False) -> None:
    """Refuse a file that is not for us alone, and a folder that is not for us alone to change (AUTH-47).

    :param found: what the system says about it, not about the target of a link.
    :raises AuthError: the text says what to do about it.
    """
    if stat.S_ISLNK(found.st_mode):
        raise AuthError(f"{path} is a symbolic link, and credentials are not written to where one leads; name its target")
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        raise AuthError(f"{path} is no {'folder' if folder else 'file'}; name another one for the credentials")
    if sys.platform == "win32":
        return
    if found.st_uid != os.geteuid():
        raise AuthError(f"{path} belongs to the user with the id {found.st_uid}, and this process runs as {os.geteuid()};"
                        f" credentials are kept in one's own folder")
    mode = stat.S_IMODE(found.st_mode)
    if folder and mode & _WRITABLE:
        raise AuthError(f"{path} can be changed by others than its owner (its mode is {mode:o}), who could replace what is in"
                        f" it; keep the credentials in another folder, or run: chmod go-w {shlex.quote(path)}")
    if not folder and mode & _LOOSE:
        raise AuthError(f"{path} can be used by others than its owner (its mode is {mode:o}), and there are credentials in"
                        f" it; run: chmod 600 {shlex.quote(path)}")


def open_file(path: str, flags: int) -> int:
    """Return the descriptor of a file; one that is made is for us alone from its first moment.

    :raises OSError: it cannot be opened, or it is a link.
    """
    descriptor = os.open(path, flags | _PLAIN, 0o600)
    try:
        if sys.platform != "win32" and flags & os.O_CREAT:
            os.fchmod(descriptor, 0o600)  # a umask may have taken too much, and others of us are to open it as well
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Have a file open for the length of the block; see :func:`open_file`.

    :raises AuthError: it is a link.
    """
    if os.path.islink(path):
        check(path, os.lstat(path))  # O_NOFOLLOW refuses it as well, but in other words
    descriptor = open_file(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flush(folder: str) -> None:
    """Have a folder's entries on the disk, where a system has that.

    :raises OSError: it is not certain that they are.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file; that there is none is no error.

    :raises OSError: it cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def refusal(what: str, path: str, error: OSError) -> AuthError:
    """Return the error for what the system did not do.

    :param what: a verb, of which the path is the object.
    """
    return AuthError(f"cannot {what} {path}: {error.strerror or type(error).__name__}")

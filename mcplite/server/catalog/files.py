"""Reads a file or a listing below a directory, whatever happens to links and names meanwhile.

:class:`~.directory.Directory` uses it. A path that was checked may lead elsewhere a moment later, when another program has
replaced a name by a link, so what is checked here is the file that was opened.
"""

import errno
import os
import stat
import sys
from typing import List, Optional, Union

from ...protocol.paths import safe_join

__all__ = ["FileTooLarge", "NotBelow", "read_below"]

#: Names that change between the check and the opening are looked at again, so often.
_ATTEMPTS = 3
#: What the system says of a path that leads to no file of ours.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EINVAL,
                     errno.EISDIR, errno.ENXIO, errno.ENODEV})


class NotBelow(Exception):
    """There is no such file or directory below the directory, or none that may be read."""


class FileTooLarge(Exception):
    """The file has more bytes than are read.

    :param size: its size in bytes, as far as it is known.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes")
        self.size = size


def read_below(root: str, relative: str, limit: int, most: Optional[int] = None) -> Union[bytes, List[str]]:
    """Return a file's bytes, or the sorted names in a directory; those of directories end with a slash.

    Links that stay below *root* are followed.

    :param relative: with ``/`` between names.
    :param limit: bytes that the file, or the names in the directory together, may have.
    :param most: how many of the names are read, whatever bytes they have; None for all.
    :raises NotBelow: there is no such regular file or directory below *root*, or it may not be read.
    :raises FileTooLarge: it has more bytes.
    :raises OSError: the system fails: it has no descriptor left, or the disk cannot be read.
    """
    for _ in range(_ATTEMPTS):
        try:
            real_root = os.path.realpath(root)
            return _read(real_root, safe_join(real_root, relative), limit, most)
        except ValueError as error:
            raise NotBelow from error
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            # A name may have become a link since it was resolved, as an update by renaming does.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise NotBelow from error
    raise NotBelow


def _contents(fd: int, limit: int) -> bytes:
    """Return what an open file holds."""
    size = os.fstat(fd).st_size
    if size > limit:
        raise FileTooLarge(size)
    with open(fd, "rb", closefd=False) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileTooLarge(len(data))  # it has grown meanwhile, or is one whose size the system does not tell
    return data


def _names(place: Union[int, str], limit: int, most: Optional[int]) -> List[str]:
    found: List[str] = []
    size = 0
    with os.scandir(place) as entries:
        for entry in entries:
            if most is not None and len(found) >= most:
                break
            name = entry.name + ("/" if _is_directory(entry) else "")
            size += len(os.fsencode(name)) + 1
            if most is None and size > limit:
                raise FileTooLarge(size)
            found.append(name)
    return sorted(found)


def _read_step_by_step(real_root: str, target: str, limit: int, most: Optional[int], between: int, last: int
                       ) -> Union[bytes, List[str]]:
    """Open one name after another, each in the directory that was opened before, and none that is a link; read the last.

    :param between: flags of all directories but the last.
    :param last: flags of what is read.
    """
    names = os.path.relpath(target, real_root).split(os.sep)
    fd = os.open(real_root, between)
    try:
        for position, name in enumerate(names, 1):
            above, fd = fd, os.open(name, last if position == len(names) else between, dir_fd=fd)
            os.close(above)
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            return _names(fd, limit, most)
        if not stat.S_ISREG(mode):
            raise NotBelow
        return _contents(fd, limit)
    finally:
        os.close(fd)


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to nothing, or a name that is gone by now


if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _READ, _SHARE_READ_WRITE, _OPEN_EXISTING, _DIRECTORIES_TOO = 0x80000000, 0x3, 3, 0x02000000
    _NO_HANDLE = ctypes.c_void_p(-1).value
    _LONGEST_PATH = 32768

    def _read(real_root: str, target: str, limit: int, most: Optional[int]) -> Union[bytes, List[str]]:
        # Opened first, and compared afterwards. While it is open without FILE_SHARE_DELETE, neither it nor a directory above
        # it can be renamed.
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateFileW.restype = ctypes.c_void_p
        kernel.CreateFileW.argtypes = [wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, ctypes.c_void_p, wintypes.DWORD,
                                       wintypes.DWORD, ctypes.c_void_p]
        kernel.GetFinalPathNameByHandleW.argtypes = [ctypes.c_void_p, wintypes.LPWSTR, wintypes.DWORD, wintypes.DWORD]
        handle = kernel.CreateFileW(target, _READ, _SHARE_READ_WRITE, None, _OPEN_EXISTING, _DIRECTORIES_TOO, None)
        if handle == _NO_HANDLE:
            raise ctypes.WinError(ctypes.get_last_error())
        fd = -1
        try:
            buffer = ctypes.create_unicode_buffer(_LONGEST_PATH)
            if not kernel.GetFinalPathNameByHandleW(handle, buffer, _LONGEST_PATH, 0):
                raise ctypes.WinError(ctypes.get_last_error())
            if not is_below(buffer.value, real_root):
                raise NotBelow
            if os.path.isdir(target):
                return _names(target, limit, most)
            fd = msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NotBelow
            return _contents(fd, limit)
        finally:
            if fd >= 0:
                os.close(fd)
            else:
                kernel.CloseHandle(ctypes.c_void_p(handle))

else:
    # O_NONBLOCK, so that a named pipe does not wait for its other end. O_PATH needs no permission to list a directory.
    _LAST = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    _BETWEEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

    def _read(real_root: str, target: str, limit: int, most: Optional[int]) -> Union[bytes, List[str]]:
        return _read_step_by_step(real_root, target, limit, most, _BETWEEN, _LAST)


def is_below(final: str, real_root: str) -> bool:
    r"""Whether a path as Windows reports it for an open file, such as ``\\?\C:\maps\a.txt``, is *real_root* or below it.

    Only the text is compared: the names on the way may have changed since the file was opened.
    """
    found, root = _plain(final), _plain(real_root)
    return found == root or found.startswith(root if root.endswith("\\") else root + "\\")


def _plain(path: str) -> str:
    path = path.replace("/", "\\")
    if path.upper().startswith("\\\\?\\UNC\\"):
        path = "\\\\" + path[8:]
    elif path.startswith("\\\\?\\"):
        path = path[4:]
    return path.lower()

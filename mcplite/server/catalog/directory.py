"""Serves the files below a directory as resources; :meth:`Server.add_directory` loads it.

Another program may replace a name by a link after a path was checked, so the check is made on the file that was opened. The
media type of a file is Python's own for its extension, without the system's table, which differs from machine to machine.
With ``watch=`` a thread polls the files, which works on every file system, and tells clients of their changes.
"""

import base64
import errno
import mimetypes
import os
import stat
import sys
import threading
import urllib.parse
from typing import Callable, Iterator, List, NamedTuple, Optional, Set, Union

from ...errors import InvalidParams, RegistrationError, ResourceNotFound, TransportError
from ...protocol.uris import check_relative, normal_uri, safe_join, uri_problem
from ...rpc.threads import Loop
from ...rpc.tracing import get_logger
from ...types import BlobResourceContents, Resource, TextResourceContents
from .registry import Service

#: Attempts to open a file if a name on its path becomes a link between the check and the opening.
_ATTEMPTS = 3
#: The system's errors for a path that leads to no file, or to one that may not be read.
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
        # The file is opened first, and its path compared afterwards. While it is open without FILE_SHARE_DELETE, neither it nor
        # a directory above it can be renamed.
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
        # One name after another is opened, each in the directory that was opened before, and none that is a link.
        names = os.path.relpath(target, real_root).split(os.sep)
        fd = os.open(real_root, _BETWEEN)
        try:
            for position, name in enumerate(names, 1):
                above, fd = fd, os.open(name, _LAST if position == len(names) else _BETWEEN, dir_fd=fd)
                os.close(above)
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                return _names(fd, limit, most)
            if not stat.S_ISREG(mode):
                raise NotBelow
            return _contents(fd, limit)
        finally:
            os.close(fd)


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


#: Media types by extension that Python's table lacks, or has only in newer versions.
_MORE = {".md": "text/markdown", ".markdown": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml",
         ".toml": "application/toml", ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2", ".rst": "text/x-rst",
         ".js": "text/javascript", ".mjs": "text/javascript", ".ico": "image/x-icon", ".ipynb": "application/x-ipynb+json"}
_TABLE = mimetypes.MimeTypes()
#: Media types of compressed files, by the encoding that the last of their extensions means.
_COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz",
               "compress": "application/x-compress", "br": "application/x-brotli"}
_BINARY = frozenset({"application/pdf", "application/zip", "application/octet-stream"})


def media_type(name: str) -> Optional[str]:
    """Return the media type of a file by its name; None for an unknown extension."""
    dot = name.rfind(".")
    more = _MORE.get(name[dot:].lower()) if dot > 0 else None
    if more is not None:
        return more
    found, encoding = _TABLE.guess_type("file:///" + name.replace("/", "_"), strict=False)
    return found if encoding is None else _COMPRESSED.get(encoding, "application/octet-stream")


def is_textual(kind: Optional[str]) -> bool:
    """Whether contents of this media type are read as text if they are valid text; True for None, an unknown type."""
    if kind is None or kind.endswith(("+xml", "+json")):
        return True
    return not kind.startswith(("image/", "audio/", "video/", "font/")) and kind not in _BINARY


#: At most this many names are looked at to list files: the first number for each file that may be listed, plus the second.
_NAMES_PER_FILE, _LEAST_NAMES = 10, 1000
_FOLDER = "inode/directory"


class DirectoryFile(NamedTuple):
    """A file below a directory, as a look at the directory found it."""

    #: Relative to the directory, with ``/`` between names.
    path: str
    #: Its size in bytes, and when it has changed: in nanoseconds, by the system's clock.
    size: int
    changed: int


class Directory:
    """Reads and lists the files below one directory.

    :param uri: of the directory.
    :param path: of the directory on this machine.
    :param limit: bytes that a file may have to be read.
    :param most: files that are listed at most.
    :param seconds: between two looks for changes; None does not look. It is only checked here.
    :param hidden: whether files whose names, or those of a folder on the way, begin with a dot are served, too.
    :raises RegistrationError: there is no such directory, no request can name the URI, or a number is not valid.
    """

    def __init__(self, uri: str, path: str, limit: int, most: int = 1000, seconds: Optional[float] = None,
                 hidden: bool = False) -> None:
        numbers = [most] if seconds is None else [most, seconds]
        usable = isinstance(path, (str, os.PathLike)) and all(type(number) in (int, float) for number in numbers)
        if not usable:
            raise RegistrationError(f"add_directory({uri!r}): path= must be a path, and list_files= and watch= numbers, not"
                                    f" {path!r}, {most!r} and {seconds!r}")
        if most < 0 or (seconds is not None and (seconds <= 0 or not most)):
            raise RegistrationError(f"add_directory({uri!r}): list_files= is 0 or more, and watch= a positive number of seconds"
                                    " for the files that are listed")
        problem = uri_problem(uri) or ("it has a '?' or '#'; escape them, as %3F and %23" if {"?", "#"} & set(uri) else "")
        if problem:
            raise RegistrationError(f"add_directory({uri!r}): as the URI of a directory {problem}")
        self._limit = limit
        self._most = most
        self._hidden = hidden
        #: In the normal form, with a slash at its end.
        self.uri = normal_uri(uri if uri.endswith("/") else uri + "/")
        self._root = os.path.abspath(path)
        if not os.path.isdir(self._root):
            raise RegistrationError(f"add_directory({uri!r}): {self._root} is not a directory")
        self.name = os.path.basename(self._root) or "files"

    def read(self, path: str) -> List[Union[TextResourceContents, BlobResourceContents]]:
        """Return a file's contents, or a listing for a directory.

        :raises ResourceNotFound: there is no such file below the directory, or it may not be read.
        :raises InvalidParams: it is larger than the server reads.
        """
        asked, uri = self.uri + path, self.uri_of(path)
        try:
            if self._is_hidden(path):
                raise NotBelow
            found = read_below(self._root, path, self._limit)
        except NotBelow:
            raise ResourceNotFound(f"Resource not found: {self.uri}{path[:200]}", data={"uri": asked}) from None
        except FileTooLarge as error:
            facts = {"uri": asked, "size": error.size, "limit": self._limit}
            raise InvalidParams(f"{self.uri}{path[:200]} has {error.size} bytes; this server reads files of up to"
                                f" {self._limit} bytes", data=facts) from None
        if isinstance(found, list):
            folder = path if not path or path.endswith("/") else path + "/"
            # A name with a line break in it would be read as two.
            names = [name for name in found if self._is_served(folder, name) and len(name.splitlines()) == 1]
            return [TextResourceContents(uri=uri, mime_type=_FOLDER, text="\n".join(names))]
        kind = media_type(path)
        if is_textual(kind):
            try:
                return [TextResourceContents(uri=uri, mime_type=kind or "text/plain", text=found.decode("utf-8"))]
            except UnicodeDecodeError:
                pass  # in another encoding, which its reader has to find out
        return [BlobResourceContents(uri=uri, mime_type=kind or "application/octet-stream",
                                     blob=base64.b64encode(found).decode("ascii"))]

    def size(self, path: str) -> int:
        """Return the bytes of a file, or of a folder's own entries; 0 if it cannot be read."""
        try:
            return os.stat(safe_join(self._root, path)).st_size
        except (OSError, ValueError):
            return 0

    def read_root(self) -> List[Union[TextResourceContents, BlobResourceContents]]:
        """Return the listing of the directory itself."""
        return self.read("")

    def uri_of(self, path: str) -> str:
        """Return the URI of a file or a folder below the directory."""
        return normal_uri(self.uri + urllib.parse.quote(path))

    def resources(self) -> List[Resource]:
        """Return the files below the directory as they are listed, in the order of their names, folder by folder."""
        return [Resource(uri=self.uri_of(file.path), name=file.path, size=file.size, mime_type=media_type(file.path))
                for file in self.files()]

    def files(self) -> List[DirectoryFile]:
        """Look at the directory, and return its regular files, at most as many as are listed.

        A link to a file below the directory counts as a file. A link to a folder is not followed, so that the search ends.
        """
        found: List[DirectoryFile] = []
        for path in self._paths():
            if len(found) >= self._most:
                break
            try:
                status = os.stat(os.path.join(self._root, path))
            except OSError:
                continue  # it is gone, or a link to nothing
            if stat.S_ISREG(status.st_mode) and (self._is_plain(path) or self._is_inside(path)):
                found.append(DirectoryFile(path, status.st_size, status.st_mtime_ns))
        return found

    def _paths(self) -> Iterator[str]:
        """Yield the paths of names that are no folders, until the most names were looked at."""
        waiting, looked, most = [""], 0, _LEAST_NAMES + self._most * _NAMES_PER_FILE
        while waiting:
            folder = waiting.pop()
            try:
                names = read_below(self._root, folder, 0, most + 1)
            except (NotBelow, FileTooLarge, OSError):
                continue  # it is gone, or may not be read
            folders = []
            for name in names if isinstance(names, list) else []:
                looked += 1
                if looked > most:
                    return
                if not self._is_served(folder, name):
                    continue
                if not name.endswith("/"):
                    yield folder + name
                elif self._is_plain(folder + name[:-1]):
                    folders.append(folder + name)
            waiting.extend(reversed(folders))

    def _is_hidden(self, path: str) -> bool:
        if self._hidden:
            return False
        names = path.split("/")
        if os.sep == "\\":  # on Windows, where a file can have a second, short name, without the dot
            real = os.path.realpath(os.path.join(self._root, path))
            names += os.path.relpath(real, os.path.realpath(self._root)).split(os.sep)
        return any(name.startswith(".") and name != "." for name in names)

    def _is_served(self, folder: str, name: str) -> bool:
        """Whether a name in a folder is one that a request can name, and not hidden."""
        if not self._hidden and name.startswith("."):
            return False
        try:
            name.encode("utf-8")  # other names are bytes that are no text
            check_relative((folder + name).rstrip("/"))
        except ValueError:
            return False
        return True

    def _is_plain(self, path: str) -> bool:
        return not os.path.islink(os.path.join(self._root, path))

    def _is_inside(self, path: str) -> bool:
        return os.path.realpath(os.path.join(self._root, path)).startswith(os.path.realpath(self._root).rstrip(os.sep) + os.sep)


_log = get_logger(__name__)


class Watcher(Service):
    """Looks at a directory again and again while the server has clients.

    Its thread starts with the first client and ends with the last. It blocks on its own clock and on the file system.

    :param directory: that is watched.
    :param seconds: between two looks.
    :param on_file: called with the URI of a file that was changed, added or removed, and of the folders of such a file.
    :param on_list: called when a file was added or removed.
    """

    def __init__(self, directory: Directory, seconds: float, on_file: Callable[[str], object],
                 on_list: Callable[[], object]) -> None:
        self._directory = directory
        self._seconds = seconds
        self._on_file = on_file
        self._on_list = on_list
        #: The files that the latest look has found. The next look compares its files with them, also if all clients have left
        #: meanwhile. Only the thread sets it.
        self._known = directory.files()
        #: Ends the thread that is running; None if there is none. The thread is started with the lock of the runtime held.
        self._end: Optional[threading.Event] = None

    def let_go(self) -> None:
        self._end = None

    def start(self) -> None:
        """Start to watch, and return; it does nothing if it watches already."""
        if self._end is not None:
            return
        end = threading.Event()
        try:
            Loop(f"look at {self._directory.uri}", lambda: self._run(end), end.wait).start()
            self._end = end
        except TransportError as error:
            _log.warning("changes below %s are not told: %s", self._directory.uri, error)

    def stop(self) -> None:
        """Stop to watch; the thread ends soon."""
        end, self._end = self._end, None  # in one step: the directory may be removed while the last client leaves
        if end is not None:
            end.set()

    def _run(self, end: threading.Event) -> None:
        while not end.wait(self._seconds):
            self._look()

    def _look(self) -> None:
        files = self._directory.files()
        old, new = ({file.path: file for file in looked} for looked in (self._known, files))
        folders: Set[str] = set()
        for path in {**old, **new}:
            if old.get(path) != new.get(path):
                self._on_file(self._directory.uri_of(path))
                parts = path.split("/")[:-1]
                folders.update("/".join(parts[:depth]) + "/" if depth else "" for depth in range(len(parts) + 1))
        if old.keys() != new.keys():  # any are gone or new
            for folder in sorted(folders):
                self._on_file(self._directory.uri_of(folder))
            self._on_list()
        self._known = files  # last: if a notification fails, the next look finds the changes again

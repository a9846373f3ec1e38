"""Serves the files below a directory as resources.

:meth:`Server.add_directory` loads it.
"""

import base64
import os
import stat
import urllib.parse
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ...errors import InvalidParams, RegistrationError, ResourceNotFound
from ...protocol.paths import check_relative, safe_join
from ...protocol.uris import normal_uri, uri_problem
from ...types import BlobResourceContents, Resource, TextResourceContents
from .files import FileTooLarge, NotBelow, read_below
from .media_types import is_textual, media_type

__all__ = ["Directory", "DirectoryFile"]

#: Names that are looked at to find one file that is listed, and those that are looked at in any case.
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
    :param most: files that are listed.
    :param seconds: between two looks for changes; None for none. Only checked here.
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
        """Look at the directory, and return its files: as many as are listed at most, and that can be read.

        Files that links lead to are among them if they are below the directory; folders are not, so that there is an end.
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
        """Yield the paths of what is no folder, until enough names were looked at."""
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
        if os.sep == "\\":  # where a name has a second one, without the dot
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
        real_root = os.path.realpath(self._root)
        target = os.path.realpath(os.path.join(self._root, path))
        return target.startswith(real_root.rstrip(os.sep) + os.sep)


def differences(before: List[DirectoryFile], after: List[DirectoryFile]) -> Tuple[List[str], bool]:
    """Return the paths of files that have changed or are gone or new, and whether any are gone or new."""
    old: Dict[str, DirectoryFile] = {file.path: file for file in before}
    new: Dict[str, DirectoryFile] = {file.path: file for file in after}
    changed = [path for path in {**old, **new} if old.get(path) != new.get(path)]
    return changed, old.keys() != new.keys()

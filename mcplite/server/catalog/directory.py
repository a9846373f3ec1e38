"""Serves the files below a directory as resources.

:meth:`Server.add_directory` loads it.
"""

import os
from typing import Any

from ...errors import InvalidParams, RegistrationError, ResourceNotFound
from ...types import TextResourceContents
from .files import FileTooLarge, NotBelow, read_below

__all__ = ["Directory"]


class Directory:
    """Reads files below one directory.

    :param uri: of the directory.
    :param path: of the directory on this machine.
    :param limit: bytes that a file may have to be read.
    :raises RegistrationError: there is no such directory.
    """

    def __init__(self, uri: str, path: str, limit: int) -> None:
        self._limit = limit
        self._uri = uri.rstrip("/")
        self._root = os.path.abspath(path)
        if not os.path.isdir(self._root):
            raise RegistrationError(f"add_directory({uri!r}): {self._root} is not a directory")
        self.name = os.path.basename(self._root) or "files"

    def read(self, path: str) -> Any:
        """Return a file's contents, or a listing for a directory.

        :raises ResourceNotFound: there is no such file below the directory, or it may not be read.
        :raises InvalidParams: it is larger than the server reads.
        """
        uri = f"{self._uri}/{path}"
        try:
            found = read_below(self._root, path, self._limit)
        except NotBelow:
            raise ResourceNotFound(f"Resource not found: {self._uri}/{path[:200]}", data={"uri": uri}) from None
        except FileTooLarge as error:
            raise InvalidParams(f"{self._uri}/{path[:200]} has {error.size} bytes; this server reads files of up to"
                                f" {self._limit} bytes", data={"uri": uri, "size": error.size, "limit": self._limit}) from None
        if isinstance(found, list):
            # A file name that is not valid text would not be valid JSON for strict readers.
            text = "\n".join(found).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            return [TextResourceContents(uri=uri, mime_type="inode/directory", text=text)]
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            return found

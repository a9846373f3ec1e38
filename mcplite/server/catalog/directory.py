"""Serves the files below a directory as resources.

:meth:`Server.add_directory` loads it.
"""

import os
from typing import Any, List

from ...errors import RegistrationError, ResourceNotFound
from ...protocol.paths import safe_join
from ...types import TextResourceContents

__all__ = ["Directory"]


class Directory:
    """Reads files below one directory.

    :param uri: of the directory.
    :param path: of the directory on this machine.
    :raises RegistrationError: there is no such directory.
    """

    def __init__(self, uri: str, path: str) -> None:
        self._uri = uri.rstrip("/")
        self._root = os.path.abspath(path)
        if not os.path.isdir(self._root):
            raise RegistrationError(f"add_directory({uri!r}): {self._root} is not a directory")
        self.name = os.path.basename(self._root) or "files"

    def read(self, path: str) -> Any:
        """Return a file's contents, or a listing for a directory."""
        try:
            target = safe_join(self._root, path)
        except ValueError as error:
            raise ResourceNotFound(f"Resource not found: {self._uri}/{path[:200]}",
                                   data={"uri": f"{self._uri}/{path}"}) from error
        if os.path.isdir(target):
            names: List[str] = sorted(name + ("/" if os.path.isdir(os.path.join(target, name)) else "")
                                      for name in os.listdir(target))
            # A file name that is not valid text would not be valid JSON for strict readers.
            text = "\n".join(names).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            return [TextResourceContents(uri=f"{self._uri}/{path}", mime_type="inode/directory", text=text)]
        if not os.path.isfile(target):
            raise ResourceNotFound(f"Resource not found: {self._uri}/{path[:200]}",
                                   data={"uri": f"{self._uri}/{path}"})
        with open(target, "rb") as file:
            data = file.read()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data

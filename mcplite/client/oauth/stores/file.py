"""Credentials in a file that only its owner can read, shared by all processes of a user."""

import os
import sys
from typing import Any, Callable, ContextManager, Dict, List, Optional, Union

from ....errors import AuthError
from .base import Store, record_of, text_of
from .locks import FileLocks, digest, until
from .own_files import VARIABLE, check, data_folder, flush, opened, refusal, remove

__all__ = ["FileStore"]

_NAME = "credentials.json"
_VERSION = 1
#: Seconds for another process to write the file, which takes it some milliseconds.
_PATIENCE = 10.0


class FileStore(Store):
    """One JSON file with all records.

    It must be for its owner alone, and its folder for its owner alone to change, so that an ordinary folder of a project
    will do; what is missing is made for the owner alone.

    :param path: of the file; ``MCPLITE_CREDENTIALS`` when None, or else ``mcplite/credentials.json`` where the system
        keeps the data of a user's programs.
    :raises AuthError: there is no path and no home folder.
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
        copy = record_of(text_of(record))
        with self._alone():
            self._write({**self._read(), key: copy})

    def delete(self, key: str) -> None:
        if key not in self._records():
            return  # without a folder made for nothing
        with self._alone():
            records = self._read()
            if records.pop(key, None) is not None:
                self._write(records)

    def keys(self) -> List[str]:
        return list(self._records())

    def held(self, key: str, wait: Callable[[], object]) -> ContextManager[None]:
        return self._key_locks.held(digest(key), wait)

    def _alone(self) -> ContextManager[None]:
        """Keep other processes from writing; short, in contrast to :meth:`held`."""
        return self._file_locks.held(self._name + ".lock", until(
            _PATIENCE, f"another process has been writing {self._path} for {_PATIENCE:g} s; look for one that is stopped"))

    # --- reading ------------------------------------------------------------------------------------

    def _records(self) -> Dict[str, Dict[str, Any]]:
        if sys.platform == "win32":
            with self._alone():  # a file that somebody reads cannot be replaced there
                return self._read()
        return self._read()

    def _read(self) -> Dict[str, Dict[str, Any]]:
        """Return all records; none when there is no file.

        :raises AuthError: the file or its folder is open to others, cannot be read or is damaged.
        """
        try:
            check(self._folder, os.lstat(self._folder), folder=True)
            with opened(self._path, os.O_RDONLY) as descriptor:
                check(self._path, os.fstat(descriptor))
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise refusal("read", self._path, error) from error
        return self._parsed(data)

    def _parsed(self, data: bytes) -> Dict[str, Dict[str, Any]]:
        try:
            document = record_of(data)
        except ValueError as error:
            raise self._damaged("is no JSON object") from error
        if document.get("version") != _VERSION:
            raise self._damaged(f"does not say that it is of version {_VERSION}, the one that is understood here")
        records = document.get("records")
        if not isinstance(records, dict) or not all(isinstance(record, dict) for record in records.values()):
            raise self._damaged("has no object of records")
        return records

    def _damaged(self, how: str) -> AuthError:
        return AuthError(f"{self._path} {how}; it is left as it is: repair it, or move it away and authorize again")

    # --- writing ------------------------------------------------------------------------------------

    def _write(self, records: Dict[str, Dict[str, Any]]) -> None:
        """Replace the file, all or nothing; for whoever is alone.

        :raises AuthError: the file is as it was, or the disk may not have the new one yet.
        """
        data = text_of({"version": _VERSION, "records": records}).encode("ascii")
        try:
            remove(self._temporary)  # of a process that was killed at this very work
            try:
                self._write_temporary(data)
                os.replace(self._temporary, self._path)
            except BaseException:
                remove(self._temporary)
                raise
            flush(self._folder)
        except OSError as error:
            raise refusal("write", self._path, error) from error

    def _write_temporary(self, data: bytes) -> None:
        with opened(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)

"""The store in a file that only its owner can read, shared by all processes of a user."""

import os
import sys
from typing import Any, Callable, ContextManager, Dict, List, Optional, Union

from ...errors import AuthError
from ...rpc.deadline import undo
from .private_files import (
    VARIABLE,
    FileLocks,
    check_private,
    data_folder,
    digest,
    flush,
    give_up_after,
    opened,
    remove,
    replace,
    system_error,
)
from .stores import Store, dump_record, parse_record

__all__ = ["FileStore"]

_NAME = "credentials.json"
_VERSION = 1
#: Seconds to wait for another process that writes the file, which takes some milliseconds.
_WRITE_SECONDS = 10.0


class FileStore(Store):
    """One JSON file with all records.

    Only its owner may read it, and only its owner may write into its folder; the ordinary folder of a project will do.
    Missing folders are made for the owner alone.

    :param path: of the file. By default the value of the variable ``MCPLITE_CREDENTIALS``, or else
        ``mcplite/credentials.json`` in the folder that the system has for the data of a user's programs.
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
            return  # so that no folder is made in vain
        with self._write_lock():
            records = self._read()
            if records.pop(key, None) is not None:
                self._write(records)

    def keys(self) -> List[str]:
        return list(self._records())

    def lock(self, key: str, wait: Callable[[], object]) -> ContextManager[None]:
        return self._key_locks.hold(digest(key), wait)

    def _write_lock(self) -> ContextManager[None]:
        """Keep other processes from writing for a moment, in contrast to :meth:`lock`."""
        return self._file_locks.hold(self._name + ".lock", give_up_after(
            _WRITE_SECONDS,
            f"another process has been writing {self._path} for {_WRITE_SECONDS:g} s; look for one that is stopped"))

    # --- reading ------------------------------------------------------------------------------------

    def _records(self) -> Dict[str, Dict[str, Any]]:
        if sys.platform == "win32":
            if os.path.lexists(self._path):
                with self._write_lock():  # there a file cannot be replaced while another process reads it
                    return self._read()
            # Not read, since it may be made at this moment, and replaced at the next.
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
            remove(self._temporary)  # of a process that was killed at this point
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

"""The store in the keyring of the system, by the package ``keyring``.

A keyring has named entries, cannot list them, and may refuse long ones. So an index entry has the keys of all records, and
long records are split into parts. The first entry of a record has either the whole text, or the place and the number of the
parts and the digest of the whole text. New parts are written beside the old ones, and after them the first entry. So a process
that dies in between leaves the old record, and a reader in between notices by the digest.
"""

import os
import re
import shlex
from typing import Any, Callable, ContextManager, Dict, List, Optional, Union

from ...errors import AuthError
from .file_store import FileLocks, data_folder, digest, give_up_after
from .stores import Store, dump_record, parse_record

__all__ = ["KeyringStore"]

_INDEX = "index"
_WHOLE = "="
#: One of the two sets of parts, their number, and the digest of the whole.
_SPLIT = re.compile(r"\+([ab])([1-9][0-9]{0,5}):([0-9a-f]{64})")
#: How often reading a record is tried while other processes replace it.
_ATTEMPTS = 5
#: Seconds to wait for another process that writes; its user may have to unlock the keyring first.
_WRITE_SECONDS = 60.0
_ADVICE = "'python -m keyring --list-backends' shows which there are; a FileStore keeps credentials in a file instead"


class KeyringStore(Store):
    """Entries of one service in a keyring; needs ``pip install 'mcplite[keyring]'``.

    :param service: the name under which the keyring shows all entries; each service has its own records.
    :param backend: an object with ``get_password``, ``set_password`` and ``delete_password``; None for the one that
        ``keyring.get_keyring()`` returns at each call.
    :param folder: for the files that lock records between processes; only its owner may write into it. The default is
        ``mcplite/keyring.locks`` in the folder that the system has for the data of a user's programs.
    :param part: characters that an entry may have, at least 100; by default 1200, which fits on Windows (2,560 bytes of
        UTF-16).
    :raises ValueError: *part* is too small.
    :raises AuthError: there is no folder for the locks.
    """

    def __init__(self, service: str = "mcplite", *, backend: Any = None,
                 folder: "Union[str, os.PathLike[str], None]" = None, part: int = 1200) -> None:
        if part < 100:
            raise ValueError(f"part must be at least 100 characters, not {part}")
        self._service, self._backend, self._part = service, backend, part
        given = os.fspath(folder) if folder is not None else os.path.join(data_folder(), "keyring.locks")
        self._locks = FileLocks(os.path.abspath(os.path.expanduser(given)))

    def __repr__(self) -> str:
        return f"KeyringStore({self._service!r})"

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        return self._read(digest(key))

    def save(self, key: str, record: Dict[str, Any]) -> None:
        text = dump_record(record)
        with self._write_lock():
            keys = self._load_index()
            if key not in keys:
                # The index comes first: keys() leaves out a key without a record, but a record without a key in the index
                # could not be found again.
                self._write(_INDEX, dump_record({"keys": [*keys, key]}))
            self._write(digest(key), text)

    def delete(self, key: str) -> None:
        with self._write_lock():
            self._erase(digest(key))
            keys = self._load_index()
            if keys == [key]:
                self._erase(_INDEX)
            elif key in keys:
                self._write(_INDEX, dump_record({"keys": [other for other in keys if other != key]}))

    def keys(self) -> List[str]:
        return [key for key in self._load_index() if self._get(digest(key)) is not None]

    def lock(self, key: str, check: Callable[[], object]) -> ContextManager[None]:
        return self._locks.hold(digest(f"record\0{self._service}\0{key}"), check)

    def _write_lock(self) -> ContextManager[None]:
        """Return a block in which no other process writes to the keyring; it is short, unlike the block of :meth:`lock`."""
        return self._locks.hold(digest(f"service\0{self._service}"), give_up_after(
            _WRITE_SECONDS,
            f"another process has been writing to the keyring for {_WRITE_SECONDS:g} s; look for one that is stopped, or that"
            " waits for its user to unlock the keyring"))

    def _load_index(self) -> List[str]:
        found = self._read(_INDEX)
        keys = [] if found is None else found.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise self._damaged(_INDEX)
        return keys

    # --- records of any length ----------------------------------------------------------------------

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        for _ in range(_ATTEMPTS):
            first = self._get(name)
            if first is None:
                return None
            text: Optional[str] = first[len(_WHOLE):]
            if not first.startswith(_WHOLE):
                text = self._join_parts(name, first)
            if text is not None:
                try:
                    return parse_record(text)
                except ValueError as error:
                    raise self._damaged(name) from error
        raise self._damaged(name)

    def _join_parts(self, name: str, first: str) -> Optional[str]:
        """Return the text of all parts; None if another process has replaced some of the parts meanwhile."""
        found = _SPLIT.fullmatch(first)
        if found is None:
            raise self._damaged(name)
        side, count, expected = found.groups()
        text = "".join(self._get(_part(name, side, number)) or "" for number in range(int(count)))
        return text if digest(text) == expected else None

    def _write(self, name: str, text: str) -> None:
        """Replace a record; called with the write lock."""
        parts: List[str] = []
        side = "b" if (self._get(name) or "").startswith("+a") else "a"
        first = _WHOLE + text
        if len(first) > self._part:
            parts = [text[start:start + self._part] for start in range(0, len(text), self._part)]
            first = f"+{side}{len(parts)}:{digest(text)}"
        for number, part in enumerate(parts):
            self._set(_part(name, side, number), part)
        self._set(name, first)
        self._remove_parts(name, side, len(parts))
        self._remove_parts(name, "a" if side == "b" else "b", 0)

    def _erase(self, name: str) -> None:
        if self._get(name) is not None:
            self._remove(name)
        self._remove_parts(name, "a", 0)
        self._remove_parts(name, "b", 0)

    def _remove_parts(self, name: str, side: str, start: int) -> None:
        """Remove the parts from *start* on; the last one first, so that a process that dies leaves no gap."""
        end = start
        while self._get(_part(name, side, end)) is not None:
            end += 1
        for number in reversed(range(start, end)):
            self._remove(_part(name, side, number))

    def _damaged(self, name: str) -> AuthError:
        return AuthError(f"the entry {name!r} of {self._service!r} in the system keyring is damaged; to authorize again,"
                         f" remove it: python -m keyring del {shlex.quote(self._service)} {name}")

    # --- entries ------------------------------------------------------------------------------------

    def _get(self, name: str) -> Optional[str]:
        found = self._call_backend("read", "get_password", name)
        if found is not None and not isinstance(found, str):
            raise self._damaged(name)
        return found

    def _set(self, name: str, text: str) -> None:
        self._call_backend("write", "set_password", name, text)
        # Some backends store nothing (``keyring --disable``), some cut long entries, and neither reports it.
        if self._get(name) != text:
            raise AuthError(f"the system keyring did not keep an entry of {self._service!r} as it was written;"
                            f" {_ADVICE}")

    def _remove(self, name: str) -> None:
        self._call_backend("remove", "delete_password", name)

    def _call_backend(self, what: str, method: str, name: str, *secret: str) -> Any:
        """Call a method of the backend, whose errors may be of any type; return its result.

        :raises AuthError: there is no backend, or it failed.
        """
        try:
            return getattr(self._find_backend(), method)(self._service, name, *secret)
        except AuthError:
            raise
        except Exception as error:
            failed = error
        # Raised outside of the handler: an error in writing may quote the secret. So only its type is reported, and it is not
        # chained to our error.
        reason = type(failed).__name__ + ("" if secret else f": {failed}"[:300])
        raise AuthError(f"the system keyring cannot {what} an entry of {self._service!r}: {reason}; {_ADVICE}"
                        ) from (None if secret else failed)

    def _find_backend(self) -> Any:
        if self._backend is not None:
            return self._backend
        try:
            import keyring
        except ImportError as error:
            raise AuthError("a KeyringStore needs the package keyring: pip install 'mcplite[keyring]'") from error
        return keyring.get_keyring()


def _part(name: str, side: str, number: int) -> str:
    return f"{name}.{side}{number}"

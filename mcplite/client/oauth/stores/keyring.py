"""Credentials in the keyring of the system, by way of the package ``keyring``.

A keyring has named entries, cannot list them, and may refuse long ones: so there is an entry with the keys of all
records, and what is long is split. A record is read by its first entry, which is either all of it or says where its
parts are and what they are together. New parts are written beside the old ones, then the first entry: a process that
dies in between leaves the old record, and who reads in between sees it by the digest.
"""

import hashlib
import os
import re
import shlex
from typing import Any, Callable, ContextManager, Dict, List, Optional, Union

from ....errors import AuthError
from .base import Store, record_of, text_of
from .locks import FileLocks, digest, until
from .own_files import data_folder

__all__ = ["KeyringStore"]

_INDEX = "index"
_WHOLE = "="
#: Which of two sets of parts, how many there are, and the digest of the whole.
_SPLIT = re.compile(r"\+([ab])([1-9][0-9]{0,5}):([0-9a-f]{64})")
#: How often a record is read that others replace in the meantime.
_ATTEMPTS = 5
#: Seconds for another process to write; its user may have to unlock the keyring first.
_PATIENCE = 60.0
_ADVICE = "'python -m keyring --list-backends' shows which there are; a FileStore keeps credentials in a file instead"


class KeyringStore(Store):
    """Entries of one service in a keyring; needs ``pip install 'mcplite[keyring]'``.

    :param service: the name under which the keyring shows all entries; each has its own records.
    :param backend: an object with ``get_password``, ``set_password`` and ``delete_password``; None is what
        ``keyring.get_keyring()`` gives at each call.
    :param folder: for the files that lock records between processes, which its owner alone can change; the default is
        ``mcplite/keyring.locks`` where the system keeps the data of a user's programs.
    :param part: characters that an entry may have, at least 100; by default what fits on Windows, 2,560 bytes of
        UTF-16.
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
        text = text_of(record)
        with self._alone():
            keys = self._listed()
            if key not in keys:
                # First: a key without a record is left out of keys(), a record without a key would be there for ever.
                self._write(_INDEX, text_of({"keys": [*keys, key]}))
            self._write(digest(key), text)

    def delete(self, key: str) -> None:
        with self._alone():
            self._erase(digest(key))
            keys = self._listed()
            if keys == [key]:
                self._erase(_INDEX)
            elif key in keys:
                self._write(_INDEX, text_of({"keys": [other for other in keys if other != key]}))

    def keys(self) -> List[str]:
        return [key for key in self._listed() if self._get(digest(key)) is not None]

    def held(self, key: str, wait: Callable[[], object]) -> ContextManager[None]:
        return self._locks.held(digest(f"record\0{self._service}\0{key}"), wait)

    def _alone(self) -> ContextManager[None]:
        """Keep other processes from writing; short, in contrast to :meth:`held`."""
        return self._locks.held(digest(f"service\0{self._service}"), until(
            _PATIENCE, f"another process has been writing to the keyring for {_PATIENCE:g} s; look for one that is stopped,"
                       f" or that waits for somebody to unlock the keyring"))

    def _listed(self) -> List[str]:
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
                text = self._joined(name, first)
            if text is not None:
                try:
                    return record_of(text)
                except ValueError as error:
                    raise self._damaged(name) from error
        raise self._damaged(name)

    def _joined(self, name: str, first: str) -> Optional[str]:
        """Return the text of which there are parts; None when they do not belong together (any more)."""
        found = _SPLIT.fullmatch(first)
        if found is None:
            raise self._damaged(name)
        side, count, expected = found.groups()
        text = "".join(self._get(_part(name, side, number)) or "" for number in range(int(count)))
        return text if _sum(text) == expected else None

    def _write(self, name: str, text: str) -> None:
        """Replace a record, for whoever is alone."""
        parts: List[str] = []
        side = "b" if (self._get(name) or "").startswith("+a") else "a"
        first = _WHOLE + text
        if len(first) > self._part:
            parts = [text[start:start + self._part] for start in range(0, len(text), self._part)]
            first = f"+{side}{len(parts)}:{_sum(text)}"
        for number, part in enumerate(parts):
            self._set(_part(name, side, number), part)
        self._set(name, first)
        self._sweep(name, side, len(parts))
        self._sweep(name, "a" if side == "b" else "b", 0)

    def _erase(self, name: str) -> None:
        if self._get(name) is not None:
            self._remove(name)
        self._sweep(name, "a", 0)
        self._sweep(name, "b", 0)

    def _sweep(self, name: str, side: str, start: int) -> None:
        """Remove the parts from one on; the last first, so that none is behind a gap when this process dies."""
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
        found = self._asked("read", "get_password", name)
        if found is not None and not isinstance(found, str):
            raise self._damaged(name)
        return found

    def _set(self, name: str, text: str) -> None:
        self._asked("write", "set_password", name, text)
        # Some keep nothing (``keyring --disable``), some cut what is too long, and neither says so.
        if self._get(name) != text:
            raise AuthError(f"the system keyring did not keep an entry of {self._service!r} as it was written;"
                            f" {_ADVICE}")

    def _remove(self, name: str) -> None:
        self._asked("remove", "delete_password", name)

    def _asked(self, what: str, method: str, name: str, *secret: str) -> Any:
        """Return what the backend returns, whose errors may be of any type.

        :raises AuthError: there is no backend, or it failed.
        """
        try:
            return getattr(self._used(), method)(self._service, name, *secret)
        except AuthError:
            raise
        except Exception as error:
            failed = error
        # Outside of the handler: nobody knows whether an error in writing quotes what was to be written, so its type is
        # all that is told, and nothing is chained to ours.
        said = type(failed).__name__ + ("" if secret else f": {failed}"[:300])
        raise AuthError(f"the system keyring cannot {what} an entry of {self._service!r}: {said}; {_ADVICE}"
                        ) from (None if secret else failed)

    def _used(self) -> Any:
        if self._backend is not None:
            return self._backend
        try:
            import keyring
        except ImportError as error:
            raise AuthError("a KeyringStore needs the package keyring: pip install 'mcplite[keyring]'") from error
        return keyring.get_keyring()


def _part(name: str, side: str, number: int) -> str:
    return f"{name}.{side}{number}"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("ascii", "replace")).hexdigest()

"""Stores of OAuth credentials: the interface, and the store in memory."""

import contextlib
import json
import os
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Union
from weakref import WeakValueDictionary

__all__ = ["MemoryStore", "Store", "ThreadLocks", "dump_record", "parse_record"]

#: Seconds that a waiting thread blocks before it calls ``check``.
_SLICE_SECONDS = 0.1


class Store:
    """Where credentials are kept; subclass it for a place of your own.

    Keys are any text. Records are JSON objects, and secret: no method may put one into an error, a log or a repr.
    Errors of the place itself are raised as :class:`~mcplite.errors.AuthError`, never swallowed (AUTH-34).
    All methods may be called by several threads at once. ``file_store.FileLocks`` has locks for a store without
    locks of its own.
    """

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        """Return a copy of the record; None for an unknown key.

        :raises AuthError: the store cannot be read.
        """
        raise NotImplementedError

    def save(self, key: str, record: Dict[str, Any]) -> None:
        """Replace the record; the new one is durable when this returns.

        :raises AuthError: that is not certain; the store has the old record or the new one, never a mixture.
        :raises TypeError, ValueError: it is not a JSON object.
        """
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Delete the record, if there is one.

        :raises AuthError: the store cannot be changed.
        """
        raise NotImplementedError

    def keys(self) -> List[str]:
        """Return the keys of all records, in no particular order.

        :raises AuthError: the store cannot be read.
        """
        raise NotImplementedError

    def lock(self, key: str, check: Callable[[], object]) -> ContextManager[None]:
        """Return a block that holds the record's lock, for a refresh or a login: one thread of all processes at a time.

        Entering it blocks until the lock is free. The lock is advisory: records can be loaded, saved and deleted without
        it. It is released at the end of the block, and by the end of the process.

        :param check: called on this thread at least every 0.25 s while it waits; raises to give up.
        :raises RuntimeError: this thread holds the lock already.
        :raises AuthError: the store cannot be locked.
        """
        raise NotImplementedError


class MemoryStore(Store):
    """Credentials that end with the process."""

    def __init__(self) -> None:
        #: Guards the texts; held for one look or one assignment.
        self._lock = threading.Lock()
        #: The records as JSON, so that a change of a record by its caller does not change the store.
        self._texts: Dict[str, str] = {}
        self._locks = ThreadLocks()

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._texts)}>"

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        with self._lock:
            text = self._texts.get(key)
        return None if text is None else parse_record(text)

    def save(self, key: str, record: Dict[str, Any]) -> None:
        text = dump_record(record)
        with self._lock:
            self._texts[key] = text

    def delete(self, key: str) -> None:
        with self._lock:
            self._texts.pop(key, None)

    def keys(self) -> List[str]:
        with self._lock:
            return list(self._texts)

    def lock(self, key: str, check: Callable[[], object]) -> ContextManager[None]:
        return self._locks.hold(key, check)


class ThreadLocks:
    """Locks by name, between the threads of this process."""

    def __init__(self) -> None:
        #: Guards the named locks; held for dictionary work.
        self._lock = threading.Lock()
        #: An entry lasts as long as a thread holds the lock or waits for it, since there are many names over time (AUTH-45).
        self._named: "WeakValueDictionary[str, _NamedLock]" = WeakValueDictionary()
        self._process = os.getpid()

    @contextlib.contextmanager
    def hold(self, name: str, check: Callable[[], object]) -> Iterator[None]:
        """Wait for a lock and hold it for the block; see :meth:`Store.lock`.

        :raises RuntimeError: this thread holds it already.
        """
        me = threading.get_ident()
        if self._process != os.getpid():  # a forked process has none of the threads that hold the locks
            self._lock, self._named, self._process = threading.Lock(), WeakValueDictionary(), os.getpid()
        with self._lock:
            named = self._named.setdefault(name, _NamedLock())
        if named.holder == me:
            raise RuntimeError("this thread holds it already; waiting for itself would never end")
        acquired = named.lock.acquire(blocking=False)
        while not acquired:
            check()
            acquired = named.lock.acquire(timeout=_SLICE_SECONDS)
        named.holder = me
        try:
            yield
        finally:
            named.holder = None
            named.lock.release()


class _NamedLock:
    """One lock, and the thread that holds it."""

    def __init__(self) -> None:
        #: Held for the length of a refresh or a login, or of a change of a file.
        self.lock = threading.Lock()
        self.holder: Optional[int] = None


def dump_record(record: Dict[str, Any]) -> str:
    """Return a record as JSON in ASCII, which every file and every keyring can store.

    :raises TypeError, ValueError: it is not a JSON object.
    """
    if not isinstance(record, dict):
        raise TypeError(f"a record is a dict, not {type(record).__name__}")
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def parse_record(text: Union[str, bytes]) -> Dict[str, Any]:
    """Return the record that a text contains.

    :raises ValueError: it is not a JSON object; neither the error nor what it is chained to quotes the text.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    # Raised outside of the handler, so that the error of json is not chained: it has the whole text as an attribute.
    if not isinstance(record, dict):
        raise ValueError("this is not a JSON object")
    return record

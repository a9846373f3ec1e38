"""Where a client keeps its OAuth credentials: what every store can do, and the one in memory."""

import contextlib
import json
import os
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Union

__all__ = ["MemoryStore", "Store", "Turns", "record_of", "text_of"]

#: Seconds between two looks at what a waiting caller wants.
_SLICE = 0.1


class Store:
    """Where credentials are kept; subclass it for a place of your own.

    Keys are any text. Records are JSON objects, and secret: no method may put one into an error, a log or a repr.
    Errors of the place itself are raised as :class:`~mcplite.errors.AuthError`, never swallowed (AUTH-34).
    All methods may be called by several threads at once. ``filelocks.FileLocks`` holds keys for a store that has no
    locks of its own.
    """

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        """Return a copy of the record, or None when there is none.

        :raises AuthError: the store cannot be read.
        """
        raise NotImplementedError

    def save(self, key: str, record: Dict[str, Any]) -> None:
        """Replace the record; it is durable when this returns.

        :raises AuthError: it is not certain that it was; there is the old record or the new one, never a mixture.
        :raises TypeError, ValueError: it is no JSON object.
        """
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Forget the record; that there is none is no error.

        :raises AuthError: the store cannot be changed.
        """
        raise NotImplementedError

    def keys(self) -> List[str]:
        """Return the keys of all records, in no particular order.

        :raises AuthError: the store cannot be read.
        """
        raise NotImplementedError

    def held(self, key: str, wait: Callable[[], object]) -> ContextManager[None]:
        """Hold the record against every other thread and process, for the length of a refresh or a login.

        Blocks until it is had. Records can be loaded, saved and deleted by whoever holds nothing: this is between
        those who ask for it. It ends with the block, and with the process.

        :param wait: called on this thread at least every 0.25 s while it waits; raises to give up.
        :raises RuntimeError: this thread holds the record already.
        :raises AuthError: the store cannot be locked.
        """
        raise NotImplementedError


class MemoryStore(Store):
    """Credentials that end with the process."""

    def __init__(self) -> None:
        #: Guards the texts; held for one look or one assignment.
        self._lock = threading.Lock()
        #: As JSON, so that nobody has a part of a record in common with the store.
        self._texts: Dict[str, str] = {}
        self._turns = Turns()

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._texts)}>"

    def load(self, key: str) -> Optional[Dict[str, Any]]:
        with self._lock:
            text = self._texts.get(key)
        return None if text is None else record_of(text)

    def save(self, key: str, record: Dict[str, Any]) -> None:
        text = text_of(record)
        with self._lock:
            self._texts[key] = text

    def delete(self, key: str) -> None:
        with self._lock:
            self._texts.pop(key, None)

    def keys(self) -> List[str]:
        with self._lock:
            return list(self._texts)

    def held(self, key: str, wait: Callable[[], object]) -> ContextManager[None]:
        return self._turns.held(key, wait)


class Turns:
    """One thread of this process at a time, for each name."""

    def __init__(self) -> None:
        #: Guards the turns and how many threads are at each; held for one look or one assignment.
        self._lock = threading.Lock()
        self._turns: Dict[str, _Turn] = {}
        #: The process whose turns these are: a fork has none of the threads that would give them back.
        self._pid = os.getpid()

    @contextlib.contextmanager
    def held(self, name: str, wait: Callable[[], object]) -> Iterator[None]:
        """Wait for the turn and have it for the length of the block; see :meth:`Store.held`.

        :raises RuntimeError: this thread has it already.
        """
        me = threading.get_ident()
        if self._pid != os.getpid():
            self._pid, self._lock, self._turns = os.getpid(), threading.Lock(), {}
        with self._lock:
            turn = self._turns.setdefault(name, _Turn())
            turn.threads += 1
        try:
            if turn.holder == me:
                raise RuntimeError("this thread holds it already; waiting for itself would never end")
            taken = turn.lock.acquire(blocking=False)
            while not taken:
                wait()
                taken = turn.lock.acquire(timeout=_SLICE)
            turn.holder = me
            try:
                yield
            finally:
                turn.holder = None
                turn.lock.release()
        finally:
            with self._lock:
                turn.threads -= 1
                if not turn.threads and self._turns.get(name) is turn:
                    del self._turns[name]  # names are many over time (AUTH-45)


class _Turn:
    """What threads of this process wait for, and how many are at it."""

    __slots__ = ("holder", "lock", "threads")

    def __init__(self) -> None:
        #: Whose turn it is; held for the length of a refresh or a login, or of a change of a file.
        self.lock = threading.Lock()
        self.holder: Optional[int] = None
        self.threads = 0


def text_of(record: Dict[str, Any]) -> str:
    """Return a record as JSON in ASCII, which every file and every keyring can hold.

    :raises TypeError, ValueError: it is no JSON object.
    """
    if not isinstance(record, dict):
        raise TypeError(f"a record is a dict, not {type(record).__name__}")
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def record_of(text: Union[str, bytes]) -> Dict[str, Any]:
    """Return the record that a text holds.

    :raises ValueError: it holds none; neither the error nor what it is chained to has any of the text.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    # Outside of the handler: an error of json has all of the text as an attribute.
    if not isinstance(record, dict):
        raise ValueError("this is no JSON object")
    return record

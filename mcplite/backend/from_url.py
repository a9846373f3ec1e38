"""Opens a backend by its URL; the only module that knows which kinds there are.

Seals what a server writes into a backend that other programs can reach, and refuses what it did not write.
"""

from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ..errors import RegistrationError
from ..protocol.error_text import Option, OptionText
from ..protocol.opaque import open_bytes, seal_bytes
from ..rpc.tracing import get_logger
from .interface import Backend, Entry, without_password

__all__ = ["SealedBackend", "open_backend", "open_shared_backend"]

_KINDS = "memory:, sqlite:///relative.db, sqlite:////absolute.db, redis://host:6379/0 or postgresql://user@host/database"
_CLUSTERS = ("redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster")


def open_backend(backend: Union[str, Backend]) -> Backend:
    """Return the backend that a URL names; a backend itself is returned as it is.

    :param backend: ``memory:``; ``sqlite:///relative.db`` or ``sqlite:////absolute.db``; ``redis://``, ``rediss://``,
        ``valkey://`` or ``unix://``, or ``redis+cluster://`` of a cluster; ``postgresql://``.
    :raises RegistrationError: the URL is of no such kind, or its library is not installed.
    :raises BackendError: the store cannot be opened.
    """
    if isinstance(backend, Backend):
        return backend
    if not isinstance(backend, str):
        raise RegistrationError(f"a backend is a URL or a Backend, not {type(backend).__name__}: {_KINDS}")
    scheme, colon, rest = backend.partition(":")
    if scheme == "memory" and colon and not rest.strip("/"):
        from .memory import MemoryBackend

        return MemoryBackend()
    if scheme == "sqlite":
        path = rest[3:] if rest.startswith("///") else ""
        if not path:
            raise RegistrationError(f"{backend!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db")
        from .sqlite import SQLiteBackend

        return SQLiteBackend(path)
    if scheme in ("redis", "rediss", "valkey", "valkeys", "unix", *_CLUSTERS):
        from .redis import RedisBackend

        return RedisBackend(backend.replace("valkey", "redis", 1) if scheme.startswith("valkey") else backend)
    if scheme in ("postgresql", "postgres"):
        from .postgres import PostgresBackend

        return PostgresBackend(backend)
    raise RegistrationError(f"{without_password(backend)!r} is the URL of no backend: there are {_KINDS}")


def open_shared_backend(backend: Union[str, Backend], keys: Sequence[bytes]) -> Optional[Backend]:
    """Open a backend that several processes share, sealed with the keys; None for one in the memory of this process.

    :raises RegistrationError: there are no keys, or the URL is of no backend.
    :raises BackendError: the store cannot be opened.
    """
    opened = open_backend(backend)
    if not opened.shared:
        return None
    if not keys:
        opened.close()
        raise RegistrationError(OptionText(
            "a shared backend needs ", Option("state_keys", "state_keys=[...]", "FILE"), " or MCPLITE_STATE_KEYS: secrets that"
            " all processes share, with which they seal what they store; make one with python -c 'import secrets;"
            " print(secrets.token_hex(32))'"))
    return SealedBackend(opened, keys)


_log = get_logger(__name__)
#: For how many values it is remembered that their seal is valid, and the bytes that such a value has at most.
_MOST_REMEMBERED, _MOST_BYTES = 1024, 4096


class SealedBackend(Backend):
    """A backend whose values and entries carry a keyed signature (HMAC-SHA256), bound to their key or log.

    A value or an entry without a valid signature does not exist for the server, and a warning is logged. The contents are not
    encrypted. A program that can write to the store can still remove entries, and store an older value again.

    :param backend: keeps the sealed bytes.
    :param keys: secrets; the first signs, all of them verify, so that a key can be replaced without an interruption.
    """

    def __init__(self, backend: Backend, keys: Sequence[bytes]) -> None:
        self._backend = backend
        self._keys = list(keys)
        self.shared = backend.shared
        #: By key: a stored value whose seal was found valid, and its content. The record of a session is read with each of its
        #: requests, and seldom changes. No lock is needed, since threads only get, set and clear.
        self._verified: Dict[str, Tuple[bytes, bytes]] = {}

    def __repr__(self) -> str:
        return f"<SealedBackend {self._backend!r}>"

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._backend.put(key, self._seal("value", key, value), seconds)

    def get(self, key: str) -> Optional[bytes]:
        value = self._backend.get(key)
        verified = self._verified.get(key)
        if verified is not None and verified[0] == value:
            return verified[1]
        opened = self._open("value", key, value)
        if value is not None and opened is not None and len(value) <= _MOST_BYTES:
            if len(self._verified) >= _MOST_REMEMBERED:
                self._verified.clear()
            self._verified[key] = value, opened
        return opened

    def take(self, key: str) -> Optional[bytes]:
        return self._open("value", key, self._backend.take(key))

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        sealed = None if new is None else self._seal("value", key, new)
        if old is None:
            if self._backend.swap(key, None, sealed, seconds):
                return True
            # A value without a valid seal does not exist, such as one from before a replacement of all keys, and is replaced.
            found = self._backend.get(key)
            return (found is not None and self._open("value", key, found) is None
                    and self._backend.swap(key, found, sealed, seconds))
        # The old value may have been sealed with any of the keys.
        return any(self._backend.swap(key, seal_bytes(old, secret, f"value {key}"), sealed, seconds) for secret in self._keys)

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        return self._backend.append(log, self._seal("log entry", log, value), seconds, keep)

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        entries = self._backend.since(log, number)
        if entries is None:
            return None
        opened = [(at, self._open("log entry", log, value)) for at, value in entries]
        return [(at, value) for at, value in opened if value is not None]

    def last(self, log: str) -> int:
        return self._backend.last(log)

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        return self._backend.wait(logs, timeout)

    def close(self) -> None:
        self._backend.close()

    def _seal(self, kind: str, name: str, value: bytes) -> bytes:
        return seal_bytes(value, self._keys[0], f"{kind} {name}")

    def _open(self, kind: str, name: str, value: Optional[bytes]) -> Optional[bytes]:
        if value is None:
            return None
        opened = open_bytes(value, self._keys, f"{kind} {name}")
        if opened is None:
            _log.warning("%r holds a %s at %.100r that was not sealed with one of the"
                               " state_keys; it is ignored", self._backend, kind, name)
        return opened

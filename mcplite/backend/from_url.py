"""Opens a backend by its URL; the only module that knows which kinds there are."""

from typing import Union

from ..errors import RegistrationError
from .interface import Backend, without_password

__all__ = ["open_backend"]

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

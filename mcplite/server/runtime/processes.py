"""The processes of a server: the options of several, and what each of them can learn from and tell the others.

A message of a client may concern a call, a session or a stream of another process, and a change that one process makes concerns
the clients of all. :class:`Processes` is for a single process: there are no others, and the data is in its memory. The folder
``fleet/`` has the class for several, over a backend that they share. Modules of the core ask this object, and know no other
difference between one process and several.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from ...errors import SERVER_BUSY, BackendError, RegistrationError, RemoteError
from ..catalog.registry import Needed

if TYPE_CHECKING:
    from ...backend.interface import Backend
    from ...errors import BackendError

__all__ = ["Fleet", "NUMBERS", "Processes", "away_error", "create_fleet", "read_keys"]

#: Numbers of processes are below this: they have 20 bits, so that a number and a counter fit into one integer that JSON carries
#: exactly.
NUMBERS = 1 << 20
_MAKE_KEY = "make one with python -c 'import secrets; print(secrets.token_hex(32))'"


class Processes:
    """The processes of a server that runs in this one alone: there are no others."""

    #: Whether there may be other processes.
    shared = False
    _backend: "Optional[Backend]" = None

    @property
    def backend(self) -> Backend:
        """The backend that the processes share; in a single process a backend in its memory, made at the first use."""
        if self._backend is None:
            from ...backend.memory import MemoryBackend

            self.__dict__.setdefault("_backend", MemoryBackend())  # if two threads come at once, both get the first one
        assert self._backend is not None
        return self._backend

    @property
    def number(self) -> int:
        """The number of this process, by which the others know it.

        :raises BackendError: there is no number yet, and the store failed.
        """
        return 1

    def alive(self, number: int) -> bool:
        """Whether the process with a number runs.

        :raises BackendError: the store failed.
        """
        return number == 1

    def broadcast(self, kind: str, body: Any) -> None:
        """Send a message to all others.

        :raises BackendError: the store failed.
        """

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        """Call *receive* with the body of each message of a kind, on the reading thread."""

    def publish(self, method: str, uri: Optional[str] = None, needed: Needed = None) -> None:
        """Notify the other processes of a change, so that they notify their clients.

        :param needed: the callers that may be notified of the change of a list.
        """

    def failed(self, error: BackendError) -> None:
        """Note that the store has failed."""

    def check(self) -> None:
        """Return if requests may use the store.

        :raises RemoteError: the store has failed a moment ago; the error is that of :func:`away_error`.
        """

    @contextlib.contextmanager
    def refuse_while_away(self) -> Iterator[None]:
        """Return a block in which a failure of the store refuses the request.

        :raises RemoteError: as of :func:`away_error`.
        """
        try:
            yield
        except BackendError as error:
            self.failed(error)
            raise away_error() from error

    def start(self) -> None:
        """Begin to read the messages of other processes, since there is a client."""

    def stop(self) -> None:
        """Stop reading, since the last client has left: other processes then take this one for ended."""

    def let_go(self) -> None:
        """Become another process than the parent, in a forked process."""


def away_error() -> RemoteError:
    """Return the error for a request that needs the backend while that fails; over HTTP it is 503 with ``Retry-After``.

    It does not say which store that is and why it fails, which is for the log.
    """
    return RemoteError("Server busy: the store that its processes share cannot be used at present; try again later",
                       code=SERVER_BUSY)


class Fleet:
    """The settings of a server in several processes.

    :param keys: secrets; the first signs, all of them verify.
    :param backend: shared by the processes, sealed; None if they share only the keys, and clients carry the states of calls.
    """

    def __init__(self, keys: Sequence[bytes], backend: "Optional[Backend]" = None) -> None:
        self.keys = keys
        self.backend = backend
        #: Closes a backend that was opened for the server; it is called at the end of the process at the latest.
        self.close: Callable[[], object] = lambda: None


def _checked_key(key: Union[str, bytes]) -> bytes:
    """Return a secret as bytes.

    :raises RegistrationError: it can be guessed.
    """
    if not isinstance(key, (str, bytes)):
        raise RegistrationError(f"state_keys takes a list of secrets, texts or bytes, not {type(key).__name__}")
    secret = key.encode("utf-8") if isinstance(key, str) else key
    if len(secret) < 16:
        raise RegistrationError("a key in state_keys has fewer than 16 bytes, which can be guessed; use"
                                " secrets.token_hex(32)")
    return secret


def read_keys(keys: Sequence[Union[str, bytes]], environ: Mapping[str, str]) -> List[bytes]:
    """Return the state keys that were given; by default those of the variable MCPLITE_STATE_KEYS, with commas between them.

    :raises RegistrationError: a key can be guessed.
    """
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise RegistrationError("state_keys takes a list of secrets: write state_keys=[secret]")
    named = [part.strip() for part in environ.get("MCPLITE_STATE_KEYS", "").split(",") if part.strip()]
    return [_checked_key(key) for key in keys or named]


def create_fleet(fleet: bool, state_keys: Sequence[Union[str, bytes]], backend: "Union[None, str, Backend]",
                 environ: Optional[Mapping[str, str]] = None) -> Optional[Fleet]:
    """Return what a server shares with other processes, from its options; None for a server in one process.

    :param backend: by default the variable MCPLITE_BACKEND.
    :raises RegistrationError: an option is missing, or cannot be used.
    :raises BackendError: the backend cannot be opened.
    """
    environ = os.environ if environ is None else environ
    keys = read_keys(state_keys, environ)
    named = backend if backend is not None else environ.get("MCPLITE_BACKEND") or None
    shared = None
    if named is not None:
        from ...rooms import load

        shared = load("backend=")(named, keys)  # backend.from_url.open_shared_backend
    if shared is None:
        if fleet and not keys:
            raise RegistrationError(f"fleet=True needs state_keys=[...]: secrets that all processes share; {_MAKE_KEY}")
        return Fleet(keys) if fleet else None
    made = Fleet(keys, shared)
    if isinstance(named, str):
        made.close = weakref.finalize(made, shared.close)
    return made

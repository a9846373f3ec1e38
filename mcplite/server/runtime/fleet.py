"""What the processes of a fleet share: secret keys, and a backend if there is one."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Iterable, List, Mapping, Optional, Sequence, Union

from ...errors import RegistrationError
from ...protocol.error_text import Option, OptionText
from ...rooms import load
from ..catalog.options import checked_key

if TYPE_CHECKING:
    from ...backend.interface import Backend

__all__ = ["Fleet", "create_fleet", "open_shared_backend", "read_keys"]

_MAKE_KEY = "make one with python -c 'import secrets; print(secrets.token_hex(32))'"


class Fleet:
    """The settings of a server in several processes.

    :param keys: secrets; the first signs, all of them verify.
    :param backend: shared by the processes, sealed; None if they share only the keys, and the states of calls travel.
    """

    def __init__(self, keys: Sequence[bytes], backend: "Optional[Backend]" = None) -> None:
        self.keys = keys
        self.backend = backend


def read_keys(keys: Sequence[Union[str, bytes]], environ: Mapping[str, str]) -> List[bytes]:
    """Return the state keys that were given; by default those of the variable MCPLITE_STATE_KEYS, with commas between them.

    :raises RegistrationError: a key can be guessed.
    """
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise RegistrationError("state_keys takes a list of secrets: write state_keys=[secret]")
    named = [part.strip() for part in environ.get("MCPLITE_STATE_KEYS", "").split(",") if part.strip()]
    return [checked_key(key) for key in keys or named]


def open_shared_backend(backend: "Union[str, Backend]", keys: Sequence[bytes]) -> "Optional[Backend]":
    """Open a backend that several processes share, sealed with the keys; None for one in the memory of this process.

    :raises RegistrationError: there are no keys, or the URL is of no backend.
    :raises BackendError: the store cannot be opened.
    """
    opened: "Backend" = load("backend=")(backend)
    if not opened.shared:
        return None
    if not keys:
        opened.close()
        raise RegistrationError(OptionText(
            "a shared backend needs ", Option("state_keys", "state_keys=[...]", "FILE"), " or MCPLITE_STATE_KEYS: secrets that"
            f" all processes share, with which they seal what they store; {_MAKE_KEY}"))
    sealed: "Backend" = load("a shared backend")(opened, keys)
    return sealed


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
    shared = None if named is None else open_shared_backend(named, keys)
    if shared is None:
        if fleet and not keys:
            raise RegistrationError(f"fleet=True needs state_keys=[...]: secrets that all processes share; {_MAKE_KEY}")
        return Fleet(keys) if fleet else None
    made = Fleet(keys, shared)
    if isinstance(named, str):
        # It was opened here, so it is closed with the server, or at the end of the process.
        weakref.finalize(made, shared.close)
    return made

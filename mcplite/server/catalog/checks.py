"""Validates the options of a server and of its decorators.

A module of its own so that the server's facade shows what is registered, and not how it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ... import types
from ...errors import RegistrationError
from ...protocol import codec
from ...protocol.envelope import check_extension
from ...rpc.tracing import get_logger
from ..functions.function import Function
from .duplicates import POLICIES

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ..auth.bearer import BearerAuth, Verifier
    from .hints import CacheHint

__all__ = [
    "bearer_auth", "check_options", "checked_extensions", "checked_hints", "checked_key", "decoded_icons", "find_marks",
    "registered_scopes",
]

_log = get_logger(__name__)


def check_options(page_size: int, era: Optional[str], on_duplicate: str) -> None:
    """Return if these options of a server fit together.

    :raises RegistrationError: they do not.
    """
    if page_size < 1:
        raise RegistrationError(f"page_size must be at least 1, not {page_size!r}")
    if on_duplicate not in POLICIES:
        raise RegistrationError(f"on_duplicate is one of {', '.join(map(repr, POLICIES))}, not {on_duplicate!r}")
    if era not in (None, "legacy", "modern"):
        raise RegistrationError(f"era is 'legacy', 'modern' or None for both, not {era!r}")


def bearer_auth(given: "Union[None, BearerAuth, Verifier]") -> "Optional[BearerAuth]":
    """Return *given* as a BearerAuth; a verifier alone is wrapped.

    :raises RegistrationError: it is neither.
    """
    if given is None:
        return None
    from ..auth.bearer import BearerAuth  # for servers that have it

    if isinstance(given, BearerAuth):
        return given
    try:
        return BearerAuth(given)
    except ValueError as error:
        raise RegistrationError(f"auth=: {error}") from error


def find_marks(function: Function, what: str) -> "Sequence[Mark]":
    """Return the marked parameters of a tool (MHDR-11).

    :raises RegistrationError: a parameter cannot be marked.
    """
    if not function.mentions("x-mcp-header"):
        return ()
    from ...protocol.http.routing_headers import marks  # for servers that have marked parameters

    try:
        found = marks(function.input_schema)
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error
    for mark in found:
        if any(word in mark.path[-1].lower() for word in ("password", "secret", "token", "key", "credential")):
            _log.warning("%s: the parameter %r looks like a secret, which should not travel in a header",  # MHDR-30
                         what, mark.path[-1])
    return found


def checked_hints(given: "Mapping[str, CacheHint]") -> "Dict[str, CacheHint]":
    """Return the hints of ``cache_lists``.

    :raises RegistrationError: a value is not a hint, or there is no such list.
    """
    if not given:
        return {}
    from .hints import CacheHint  # for servers that have hints

    for kind, hint in given.items():
        if kind not in ("tools", "prompts", "resources", "templates", "discover"):
            raise RegistrationError(f"cache_lists[{kind!r}]: there are hints for 'tools', 'prompts', 'resources', 'templates'"
                                    " and 'discover'")
        if not isinstance(hint, CacheHint):
            raise RegistrationError(f"cache_lists[{kind!r}] must be a CacheHint, not {hint!r}")
    return dict(given)


def checked_extensions(extensions: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Return extensions that can be declared.

    :raises RegistrationError: a name or its settings are not valid.
    """
    for name, settings in (extensions or {}).items():
        try:
            check_extension(name, settings)
        except ValueError as error:
            raise RegistrationError(str(error)) from error
    return extensions


def checked_key(key: Union[str, bytes]) -> bytes:
    """Return a secret as bytes.

    :raises RegistrationError: it can be guessed.
    """
    secret = key.encode("utf-8") if isinstance(key, str) else key
    if len(secret) < 16:
        raise RegistrationError("a key in state_keys has fewer than 16 bytes, which can be guessed; use"
                                " secrets.token_hex(32)")
    return secret


def decoded_icons(icons: Optional[Sequence[Union[types.Icon, Dict[str, Any]]]]) -> Optional[List[types.Icon]]:
    """Return icons, given as objects or dicts, as objects."""
    if icons is None:
        return None
    return [codec.decode_own(types.Icon, icon) if isinstance(icon, dict) else icon for icon in icons]


def registered_scopes(scopes: Union[str, Iterable[str]], what: str) -> Tuple[str, ...]:
    """Return the scopes of an entry, each once.

    :raises RegistrationError: one is not a scope.
    """
    if not scopes:
        return ()
    from ..auth.principals import checked_scopes  # for entries that require scopes

    try:
        return checked_scopes(scopes, what)
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from error

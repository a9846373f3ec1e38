"""Validates the options of a server and of its decorators.

A module of its own so that the server's facade shows what is registered, and not how it is checked.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from ... import types
from ...errors import ProtocolError, RegistrationError
from ...protocol.error_text import quoted
from ...protocol.meta import check_meta
from ...rpc.tracing import get_logger
from ...types import codec
from ...types.lazy_dataclass import fields_of, wire_name
from ..functions.function import Function
from ..functions.signature import is_generator
from ..limits import Limits

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ...rpc.extension import Extension
    from .cache_hints import CacheHint

__all__ = [
    "check_hint", "check_lifespan", "check_not_of_extension", "checked_extensions", "checked_function",
    "checked_hints", "checked_icons", "checked_key", "checked_limits", "checked_list", "checked_meta", "checked_middleware",
    "checked_object", "checked_record", "checked_size", "checked_text", "checked_timeout", "checked_uri", "find_marks",
    "registered_scopes",
]

_log = get_logger(__name__)
M = TypeVar("M", bound=types.Model)


# --- the members of definitions -----------------------------------------------------------------------


def checked_text(value: Any, what: str, member: str) -> Any:
    """Return a text of a definition as a string, and None as it is.

    :param what: names the definition in errors, such as "tool 'add'".
    :param member: the keyword that has the value.
    :raises RegistrationError: it is no text, and does not stand for one.
    """
    if value is None or type(value) is str:
        return value
    from ..functions.jsonable import definition_text

    return definition_text(value, what, member)


def checked_object(value: Any, what: str, member: str) -> Optional[Dict[str, Any]]:
    """Return a copy of a JSON object of a definition, and None as it is.

    :raises RegistrationError: it is not an object, or a part of it is not JSON.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RegistrationError(f"{what}: {member}= must be a dict, not {quoted(value)}")
    from ..functions.jsonable import definition_json

    try:
        return definition_json(value, member)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {error}") from error


def checked_meta(meta: Any, what: str) -> Optional[Dict[str, Any]]:
    """Return a copy of the ``_meta`` of a definition if it may be sent.

    :raises RegistrationError: it is not JSON, or a key breaks the rules or is reserved (META-01 to META-03).
    """
    made = checked_object(meta, what, "meta")
    try:
        check_meta(made or {})
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error
    return made


def checked_record(cls: Type[M], value: Any, what: str, member: str) -> M:
    """Return a copy of a part of a definition that is given as an object or as a dict.

    The keys of a dict may be those of the protocol, or the names of the attributes.

    :raises RegistrationError: it is neither, or a member is missing or of a wrong type.
    """
    if not isinstance(value, (cls, Mapping)):
        raise RegistrationError(f"{what}: {member} must be {cls.__name__}(...) or a dict, not {quoted(value)}")
    from ..functions.jsonable import definition_json

    try:
        made = definition_json(value, member)
        if isinstance(value, Mapping):
            names = {field.name: wire_name(field) for field in fields_of(cls)}
            made = {names.get(key, key): item for key, item in made.items()}
        return codec.decode_own(cls, made)
    except (ProtocolError, TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {member}: {error}" if isinstance(error, ProtocolError) else f"{what}: {error}"
                                ) from error


def checked_list(value: Any, what: str, member: str, example: str) -> List[Any]:
    """Return what is given as a list, or another iterable that is no text and no mapping, as a list.

    :param example: how to write one, for the error.
    :raises RegistrationError: it is something else.
    """
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise RegistrationError(f"{what}: {member}= takes a list: write {member}={example}, not {quoted(value)}")
    return list(value)


def checked_icons(icons: Any, what: str) -> Optional[List[types.Icon]]:
    """Return copies of icons, given as objects or dicts.

    :raises RegistrationError: they are no list, or one is not an icon.
    """
    if icons is None:
        return None
    given = checked_list(icons, what, "icons", '[Icon("https://...")]')
    return [checked_record(types.Icon, icon, what, f"icons[{at}]") for at, icon in enumerate(given)]


def checked_size(size: Any, what: str) -> Optional[int]:
    """Return the size of a resource.

    :raises RegistrationError: it is no number of bytes.
    """
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise RegistrationError(f"{what}: size= must be a number of bytes, 0 or more, not {quoted(size)}")
    return size


def checked_timeout(timeout: Any, what: str) -> Optional[float]:
    """Return the time limit of a tool.

    :raises RegistrationError: it is no positive number.
    """
    if timeout is None or type(timeout) in (int, float) and 0 < timeout < math.inf:
        return timeout  # type: ignore[no-any-return]
    raise RegistrationError(f"{what}: timeout= must be a positive number of seconds, or None for no limit, not"
                            f" {quoted(timeout)}")


# --- the options of a server --------------------------------------------------------------------------


def checked_limits(limits: Any, what: str) -> Limits:
    """Return the limits of a server; the default ones for None.

    :raises RegistrationError: it is something else.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise RegistrationError(f"{what}: limits= must be Limits(...), not {quoted(limits)}")
    return limits or Limits()


def check_lifespan(lifespan: Any, what: str) -> None:
    """Return if this can be the lifespan of a server.

    :raises RegistrationError: it cannot.
    """
    if lifespan is None:
        return
    if not callable(lifespan) or isinstance(lifespan, contextlib.ContextDecorator):
        advice = "; give the function itself, without calling it" if hasattr(lifespan, "__enter__") else ""
        raise RegistrationError(f"{what}: lifespan= must be a function that takes the server and returns a context manager,"
                                f" not {quoted(lifespan)}{advice}")
    wrong = is_generator(lifespan)
    if wrong == "async":
        raise RegistrationError(f"{what}: lifespan= must be decorated with @contextlib.contextmanager, and a plain def: this"
                                " library has no event loop, so an async function or an @asynccontextmanager cannot be entered")
    if wrong:
        raise RegistrationError(f"{what}: decorate the function of lifespan= with @contextlib.contextmanager; it is a plain"
                                " generator, which cannot be entered")


def checked_middleware(middleware: Any, what: str) -> "List[Callable[..., Any]]":
    """Return middleware as a list.

    :raises RegistrationError: it is no list of functions.
    """
    given = checked_list(middleware, what, "middleware", "[function]")
    return [checked_function(one, f"{what}: middleware[{at}]") for at, one in enumerate(given)]


def checked_function(value: Any, what: str) -> Any:
    """Return what can be called.

    :raises RegistrationError: it cannot.
    """
    if not callable(value):
        raise RegistrationError(f"{what} must be a function, not {quoted(value)}")
    return value


def checked_uri(uri: Any, what: str) -> str:
    """Return the URI of a resource as a text.

    :raises RegistrationError: it is no text, and does not stand for one.
    """
    text = checked_text(uri, what, "uri")
    if text is None:
        raise RegistrationError(f"{what} needs a URI, such as 'config://settings', not {uri!r}")
    return text  # type: ignore[no-any-return]


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
    if not isinstance(given, Mapping):
        raise RegistrationError(f"cache_lists must be a dict of hints, such as {{'tools': CacheHint(60)}}, not {quoted(given)}")
    for kind, hint in given.items():
        if kind not in ("tools", "prompts", "resources", "templates", "discover"):
            raise RegistrationError(f"cache_lists[{kind!r}]: there are hints for 'tools', 'prompts', 'resources', 'templates'"
                                    " and 'discover'")
        check_hint(hint, f"cache_lists[{kind!r}]")
    return dict(given)


def check_hint(hint: Any, what: str) -> None:
    """Return if *hint* is a cache hint.

    :raises RegistrationError: it is something else.
    """
    from .cache_hints import CacheHint  # for servers that have hints

    if not isinstance(hint, CacheHint):
        raise RegistrationError(f"{what} must be a CacheHint, not {quoted(hint)}")


def checked_extensions(extensions: Any, what: str) -> "Tuple[Extension, ...]":
    """Return extensions as objects.

    :raises RegistrationError: they are no list of extensions and no dict of settings, or one is not valid.
    """
    from ...rpc.extension import extensions_of  # for servers that have one

    try:
        return extensions_of(checked_object(dict(extensions), what, "extensions") if isinstance(extensions, Mapping)
                             else extensions)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {error}") from error


def check_not_of_extension(method: str, handler: Any) -> None:
    """Return if the present handler of a method, or of a notification, is not an extension's.

    :raises RegistrationError: it is.
    """
    extension = getattr(handler, "extension", None)
    if extension is not None:
        raise RegistrationError(f"choose another name than {method!r} for Server.add_method() or add_notification(): the"
                                f" extension {extension.identifier!r} has it already")


def checked_key(key: Union[str, bytes]) -> bytes:
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


def registered_scopes(scopes: Union[str, Iterable[str]], what: str) -> Tuple[str, ...]:
    """Return the scopes of an entry, each once.

    :raises RegistrationError: one is not a scope.
    """
    if scopes == () or scopes is None or scopes == "":
        return ()
    if not isinstance(scopes, str):
        scopes = checked_list(scopes, what, "scopes", "['read']")
    from ..principals import checked_scopes  # for entries that require scopes

    try:
        return checked_scopes(scopes, what)
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from error

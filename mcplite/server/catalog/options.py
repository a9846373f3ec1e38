"""Validates the options of a server.

A module of its own so that the server's facade shows what is registered, and not how it is checked.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Tuple, Union

from ...errors import RegistrationError
from ...protocol.error_text import quoted
from ..functions.signature import is_generator
from ..limits import Limits
from .entries import check_hint, checked_list, checked_object

if TYPE_CHECKING:
    from ...rpc.extension import Extension
    from .cache_hints import CacheHint


def checked_limits(limits: Any, what: str) -> Limits:
    """Return the limits of a server; the default ones for None.

    :raises RegistrationError: they are not of the type ``Limits``.
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

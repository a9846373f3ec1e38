"""ServerOptions: what few programs set for a server; and the checks of all options of a server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

from ..errors import RegistrationError
from ..protocol.error_text import quoted
from ..types.lazy_dataclass import Record, record
from .catalog.entries import check_hint, checked_list, checked_object
from .functions.signature import is_generator
from .limits import Limits

if TYPE_CHECKING:
    from ..rpc.extension import Extension
    from .catalog.cache_hints import CacheHint
    from .sessions.legacy import LegacySession


class TaskRunner(Protocol):
    """Hands tasks to other processes, for ``ServerOptions(tasks=...)``.

    Any object with this method will do: its job calls ``server.run_task(payload)`` in a process that has the same server, with
    the same backend.
    """

    def submit(self, name: str, payload: str) -> object:
        """Have a task run elsewhere; the returned value is not used.

        :param name: of the tool.
        :param payload: for :meth:`Server.run_task`.
        """


@record(frozen=True)
class ServerOptions(Record):
    """The options of a server that few programs set, for ``Server(name, options=ServerOptions(...))``.

    :param page_size: entries on one page of a list; default 1000. Many clients never ask for the second page.
    :param declare: kinds ("tools", "resources", "prompts") that are declared to clients although nothing
        of the kind is registered yet.
    :param capabilities: flags of the declared capabilities, in the form of the protocol: ``{"tools": {"listChanged": False},
        "resources": {"subscribe": False}, "logging": False, "completions": {}}``. The server does nothing that it does
        not declare: clients are not notified of changes, the methods do not exist, log messages are not sent. A kind that is
        named is declared although nothing of it is registered.
    :param experimental: experimental capabilities, sent as they are.
    :param era: "legacy" serves only clients that begin with a handshake, "modern" only the others, None serves both.
    :param cache_lists: as ``Server(cache=...)``, for "tools", "prompts", "resources", "templates" or "discover" alone.
    :param trusted_patterns: matches the regular expressions of the server's schemas against long texts, even expressions that
        a text could keep busy for hours. By default such expressions are matched against twenty characters at most, with a
        warning.
    :param on_roots_changed: called with the session when a client announces that its roots have changed.
    :param on_subscribe: called with a URI and the number of subscriptions to it when that number has changed, in each
        revision: 1 after the first, when the server may begin to watch the resource, and 0 after the last. The calls come
        one after another on a thread of their own.
    :param hide_unauthorized: callers over HTTP do not see entries that their scopes do not allow: lists leave them out, and a
        call of such an entry is answered as if it did not exist, in place of 403 with the scopes that are needed. Lists and
        resources are private to their callers (``cacheScope``), and callers are not notified of changes of hidden entries. A
        caller that is not authenticated has no scopes. On stdio and in memory scopes are not checked, and nothing is hidden.
        If servers are mounted, the option of the server that clients connect to counts.
    :param tasks: a :class:`mcplite.tasks.Tasks`, the settings of the server's tasks; or only a runner, which runs them
        elsewhere.
    """

    page_size: int = 1000
    declare: Sequence[str] = ()
    capabilities: Optional[Mapping[str, Any]] = None
    experimental: Optional[Dict[str, Any]] = None
    era: Optional[str] = None
    cache_lists: Optional[Mapping[str, CacheHint]] = None
    trusted_patterns: bool = False
    on_roots_changed: Optional[Callable[[LegacySession], object]] = None
    on_subscribe: Optional[Callable[[str, int], object]] = None
    tasks: Any = None
    hide_unauthorized: bool = False


def checked_options(options: Any, what: str) -> ServerOptions:
    """Return the options of a server if each of them can be used; the default ones for None.

    :param what: the server, for errors.
    :raises RegistrationError: one cannot.
    """
    if options is None:
        return ServerOptions()
    if not isinstance(options, ServerOptions):
        raise RegistrationError(f"{what}: options= must be ServerOptions(...), not {quoted(options)}")
    size, tasks = options.page_size, options.tasks
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise RegistrationError(f"{what}: page_size must be at least 1, a whole number, not {size!r}")
    if options.era not in (None, "legacy", "modern"):
        raise RegistrationError(f"era is 'legacy', 'modern' or None for both, not {options.era!r}")
    runner = getattr(tasks, "runner", tasks)  # mcplite.tasks.Tasks has one
    if runner is not None and not callable(getattr(runner, "submit", None)):
        raise RegistrationError(f"{what}: tasks= must be mcplite.tasks.Tasks(...), or a runner with a method"
                                f" submit(name, payload), as CeleryTasks and RQTasks have, not {quoted(runner)}")
    for name in ("hide_unauthorized", "trusted_patterns"):
        if not isinstance(getattr(options, name), bool):
            raise RegistrationError(f"{what}: {name}= must be True or False, not {quoted(getattr(options, name))}")
    for name in ("on_roots_changed", "on_subscribe"):
        if getattr(options, name) is not None:
            checked_function(getattr(options, name), f"{what}: {name}=")
    return options


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
    """Return *value* if it can be called.

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
    from ..rpc.extension import extensions_of  # for servers that have one

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

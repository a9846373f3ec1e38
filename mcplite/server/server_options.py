"""ServerOptions: what few programs set for a server, and the check of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Protocol, Sequence

from ..errors import RegistrationError
from ..protocol.error_text import quoted
from ..types.lazy_dataclass import Record, record
from .catalog.options import checked_function

if TYPE_CHECKING:
    from .catalog.cache_hints import CacheHint
    from .sessions.legacy import LegacySession

__all__ = ["ServerOptions", "TaskRunner", "checked_options"]


class TaskRunner(Protocol):
    """Hands tasks to other processes, for ``ServerOptions(tasks=...)``.

    Any object with this method will do: its job calls ``server.run_task(payload)`` in a process that has the same server, with
    the same backend.
    """

    def submit(self, name: str, payload: str) -> object:
        """Have a task run elsewhere; what it returns is not used.

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
        "resources": {"subscribe": False}, "logging": False, "completions": {}}``. What is not declared is not done: changes
        are not told, the methods do not exist, log messages are not sent. A kind that is named is declared although nothing
        of it is registered.
    :param experimental: experimental capabilities, sent as they are.
    :param era: "legacy" serves only clients that begin with a handshake, "modern" only the others, None serves both.
    :param cache_lists: as ``Server(cache=...)``, for "tools", "prompts", "resources", "templates" or "discover" alone.
    :param trusted_patterns: matches the regular expressions of its schemas against long texts, even those that a short one
        could occupy for hours. By default these are matched against twenty characters at most, with a warning.
    :param on_roots_changed: called with the session when a client announces that its roots have changed.
    :param on_subscribe: called with a URI and the number of subscriptions to it when that number has changed, in each
        revision: 1 after the first, when the server may begin to watch the resource, and 0 after the last. The calls come
        one after another on a thread of their own.
    :param tasks: how the server has tasks: a :class:`mcplite.tasks.Tasks`, or only its runner, which has them run elsewhere.
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
    for name in ("on_roots_changed", "on_subscribe"):
        if getattr(options, name) is not None:
            checked_function(getattr(options, name), f"{what}: {name}=")
    return options

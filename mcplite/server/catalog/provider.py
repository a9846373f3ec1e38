"""The interface of what offers entries to a server besides its own functions: a mounted server, or a mounted client.

:mod:`mcplite.proxy` implements it. The registry keeps the entries of providers among its own, so that lists, pages,
capabilities and scopes need not know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

from ...revisions import Revision

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ...protocol.uritemplate import Template
    from ...types import Resource
    from .cache_hints import CacheHint

__all__ = ["Found", "MountableClient", "ProvidedEntry", "Provider", "Service"]


class Provider:
    """Gives tools, resources, templates and prompts to a registry, and runs the calls of them."""

    @property
    def name(self) -> str:
        """What it is, for errors, such as ``the server 'weather'``."""
        raise NotImplementedError

    def listed(self, entry: "ProvidedEntry", revision: Revision) -> Any:
        """Return the definition of an entry as it is listed: a Tool, Resource, ResourceTemplate or Prompt."""
        raise NotImplementedError

    def find(self, kind: str, name: str) -> "Optional[ProvidedEntry]":
        """Return an entry that is not in the registry, such as a resource that no list has; None if there is none.

        :param kind: "tools", "prompts" or "resources".
        :param name: as the clients of the server have it; the URI of a resource.
        """
        raise NotImplementedError

    def run(self, entry: "ProvidedEntry", context: Any) -> Any:
        """Run one request for an entry, and return its result, encoded for the client.

        :param context: the :class:`RequestContext`; its method is ``tools/call``, ``prompts/get``, ``resources/read`` or
            ``completion/complete``.
        :raises RemoteError: the error for the client.
        """
        raise NotImplementedError


class Service:
    """What runs while a server has clients: the watcher of a directory, or a mounted server."""

    def start(self) -> None:
        """Begin; called before the first client is served, with the lock of the runtime held."""
        raise NotImplementedError

    def stop(self) -> None:
        """End; called after the last client, with the lock of the runtime held."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Forget threads and connections in a forked process; they belong to the other one."""


class MountableClient(Protocol):
    """What a server can mount of the client's side: a :class:`mcplite.Client`."""

    def sibling(self, handlers: Any, cache: bool = True, client_info: Any = None) -> Any:
        """Return another client for the same server."""


class ProvidedEntry:
    """One tool, resource, template or prompt of a provider.

    :param own: what the provider needs to know of it.
    :param scopes: required of callers over HTTP.
    :param mime_type: the media type of a resource.
    :param pattern: of a template.
    :param cache: how long clients may keep a resource; None for the server's hint.
    :param unlisted: whether it is a resource that no list has.
    """

    may_run_inline = False
    #: It has none: the provider runs it.
    function: Any = None

    def __init__(self, provider: Provider, own: Any, *, scopes: Tuple[str, ...] = (), mime_type: Optional[str] = None,
                 pattern: "Optional[Template]" = None, cache: "Optional[CacheHint]" = None, unlisted: bool = False) -> None:
        self.provider = provider
        self.own = own
        self.scopes = scopes
        self.mime_type = mime_type
        self.pattern = pattern
        self.cache = cache
        self.unlisted = unlisted
        #: What clients call it; set with the entry's place in the registry.
        self.seen = ""
        #: The parameters of a tool that also travel in headers (MHDR-11).
        self.marks: Sequence[Mark] = ()
        #: Returns the resources that a template stands for, to be listed; None if they are not known.
        self.resources: Optional[Callable[[], List[Resource]]] = None
        #: Whether a tool may be called as a task: "forbidden", "optional" or "required".
        self.task_support = "forbidden"
        #: Whether such a task is begun again, or followed again, when the process that ran it has ended.
        self.restartable = False
        #: Whether the provider's server decides, call by call, which of the calls of modern clients become tasks.
        self.decides_tasks = False
        #: The target of its calls, which the catalog makes for the first of them.
        self.target: Any = None

    @property
    def name(self) -> str:
        """What clients call it."""
        return self.seen

    def listed(self, revision: Revision) -> Any:
        """Return its definition; see :meth:`Provider.listed`."""
        return self.provider.listed(self, revision)

    def handler(self, params: Dict[str, Any], context: Any) -> Any:
        """Run one request; see :meth:`Provider.run`."""
        return self.provider.run(self, context)


class Found:
    """The reader of a resource.

    :param handler: reads a resource of a provider, in place of the function.
    :param size: returns the bytes of the resource, with the arguments of the function; None if they are not known.
    """

    def __init__(self, function: Any, values: Mapping[str, Any], mime_type: Optional[str], cache: CacheHint,
                 scopes: Tuple[str, ...], handler: Optional[Callable[..., Any]] = None,
                 size: Optional[Callable[..., int]] = None) -> None:
        self.function = function
        self.values = values
        self.mime_type = mime_type
        self.cache = cache
        self.scopes = scopes
        self.handler = handler
        self.size = size

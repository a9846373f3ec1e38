"""The entries of a server, and the interface of what offers more than its own functions: a mounted server or client.

:mod:`mcplite.proxy` implements it. The registry keeps the entries of providers among its own, so that lists, pages,
capabilities and scopes need not know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

from ...revisions import Revision

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ...protocol.uritemplate import Template
    from ...types import Resource
    from ..functions.function import Function
    from .cache_hints import CacheHint


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


class CatalogEntry:
    """A tool, resource, template or prompt: how it is listed, and what answers the requests that name it.

    :param kind: "tools", "resources", "templates" or "prompts".
    :param name: what clients call it: of a resource its URI, of a template its text.
    :param definition: as it is listed.
    :param function: answers; None if the provider does.
    :param scopes: required of callers over HTTP.
    :param cache: how long clients may keep a resource; None for the server's hint.
    """

    #: Whose entry it is; None for the server's own.
    provider: Optional[Provider] = None
    #: Runs a request in place of the function; only the entries of providers have one.
    handler: Optional[Callable[..., Any]] = None
    #: Of a template.
    pattern: "Optional[Template]" = None
    #: Whether it is a resource that can be read and is not in the list.
    unlisted = False
    #: Returns the resources that a template stands for, to be listed; None if they are not known.
    resources: Optional[Callable[[], List[Resource]]] = None
    #: Returns the bytes of a resource, with the arguments of the function; None if they are not known.
    size: Optional[Callable[..., int]] = None
    #: The parameters of a tool that also travel in headers (MHDR-11).
    marks: Sequence[Mark] = ()
    #: Whether a tool may be called as a task: "forbidden", "optional" or "required".
    task_support = "forbidden"
    #: Whether such a task is begun again, or followed again, when the process that ran it has ended.
    restartable = False
    #: Whether the provider's server decides, call by call, which of the calls of modern clients become tasks.
    decides_tasks = False
    #: Whether it may run on the thread of an HTTP request: it can neither send nor ask anything before it returns.
    may_run_inline = False
    #: The target of the calls of a tool or a prompt, which the catalog makes for the first of them.
    target: Any = None

    def __init__(self, kind: str, name: str, definition: Any, function: "Optional[Function]", scopes: Tuple[str, ...] = (),
                 cache: "Optional[CacheHint]" = None) -> None:
        self.kind = kind
        self.name = name
        self.definition = definition
        self.function = function
        self.scopes = scopes
        self.cache = cache
        self.mime_type: Optional[str] = getattr(definition, "mime_type", None)
        if function is not None:
            self.may_run_inline = function.wants_context is None and not function.questions

    def listed(self, revision: Revision) -> Any:
        """Return the definition: a Tool, Resource, ResourceTemplate or Prompt."""
        return self.definition


class ProvidedEntry(CatalogEntry):
    """One tool, resource, template or prompt of a provider, which lists and runs it; its name is set with its place.

    :param own: what the provider needs to know of it.
    :param mime_type: the media type of a resource.
    :param pattern: of a template.
    :param unlisted: whether it is a resource that no list has.
    """

    provider: Provider
    function: Any

    def __init__(self, provider: Provider, own: Any, *, scopes: Tuple[str, ...] = (), mime_type: Optional[str] = None,
                 pattern: "Optional[Template]" = None, cache: "Optional[CacheHint]" = None, unlisted: bool = False) -> None:
        super().__init__("", "", None, None, scopes, cache)
        self.provider = provider
        self.own = own
        self.mime_type = mime_type
        self.pattern = pattern
        self.unlisted = unlisted

    def listed(self, revision: Revision) -> Any:
        return self.provider.listed(self, revision)

    def handler(self, params: Dict[str, Any], context: Any) -> Any:
        """Run one request; see :meth:`Provider.run`."""
        return self.provider.run(self, context)

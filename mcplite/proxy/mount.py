"""mount: offers another server as a server's own; ``Server.mount`` loads it.

A server of this process is a :class:`ServerMount`: its functions run as those of the server that mounts it, and nothing is
passed on. The function gets the context of the client's own request, so that questions, progress and cancellation need no
second connection. Its server's middleware, lifespan and limits of time hold as they do otherwise.
"""

import copy
from typing import Any, Callable, Dict, Optional, Set

from ..client.client import Client
from ..errors import RegistrationError
from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..revisions import Revision
from ..server.app import Server
from ..server.catalog.provider import ProvidedEntry, Service
from ..server.handling.context import RequestContext
from ..server.handling.dispatch import dispatch
from ..server.runtime.runtime import Runtime
from .base import KINDS, Mounted, Names, tasks_of
from .client_mount import ClientMount, check_client

__all__ = ["ServerMount", "mount"]

#: The kinds of entries whose change a notification tells.
_CHANGED = {"tools": ("tools",), "prompts": ("prompts",), "resources": ("resources", "templates")}


class ServerMount(Mounted, Service):
    """One server of this process, mounted.

    :param hub: the runtime of the server that mounts it.
    :param own: the runtime of the mounted server.
    :param names: of its entries.
    """

    def __init__(self, hub: Runtime, own: Runtime, names: Names) -> None:
        super().__init__(hub, names)
        self.mounted = own
        #: The resources that clients of the hub subscribe to; only the hook of subscriptions uses it, one call at a time.
        self._followed: Set[str] = set()

    @property
    def name(self) -> str:
        return f"the server {self.mounted.catalog.name!r}"

    # --- what it offers ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Put all entries into the registry of the hub, and follow their changes.

        :raises RegistrationError: the name of a tool or of a prompt is taken; nothing is mounted then.
        """
        registry = self.hub.catalog.registry
        for kind in ("tools", "prompts"):
            there = registry.all(kind)
            for seen, own in self.names.named(kind, self.mounted.catalog.registry.all(kind)).items():
                if seen in there:
                    raise RegistrationError(f"the {kind[:-1]} {own!r} of {self.name} would be {seen!r}, which is registered"
                                            f" already; mount it with another prefix={' or tool=' if kind == 'tools' else ''}")
        for kind in KINDS:
            self._fill(kind)
        for kind in ("tools", "prompts", "resources"):
            if self.mounted.catalog.registry.declared(kind):
                registry.declare(kind)
        self.mounted.listeners.append(self._on_change)
        self.hub.count_subscriptions(self._on_subscribe, awaited=True)
        self.hub.add_service(f"mount {id(self)}", self)

    def _fill(self, kind: str) -> None:
        registry = self.mounted.catalog.registry
        if registry.completes:
            self.hub.catalog.registry.completes = True
        if tasks_of(self.mounted) is not None:
            self.use_tasks()
        self.report(kind, self.put(kind, {own: self._entry(kind, own, entry) for own, entry in registry.all(kind).items()}))

    def _entry(self, kind: str, own: str, entry: Any) -> ProvidedEntry:
        made = ProvidedEntry(self, (kind, own, entry), scopes=entry.scopes)
        if kind == "tools":
            made.marks, made.task_support, made.restartable = entry.marks, entry.task_support, entry.restartable
            made.decides_tasks = entry.decides_tasks
        elif kind == "templates":
            made.pattern, made.resources = entry.pattern, entry.resources
            made.cache, made.mime_type = self.mounted.catalog.hint_for(entry.cache), entry.mime_type
        elif kind == "resources":
            made.cache, made.unlisted = self.mounted.catalog.hint_for(entry.cache), entry.unlisted
            made.mime_type = entry.mime_type
        return made

    def listed(self, entry: ProvidedEntry, revision: Revision) -> Any:
        kind, _, inner = entry.own
        definition = copy.copy(inner.listed(revision))
        if kind in ("tools", "prompts"):
            definition.name = entry.name
        elif kind == "resources":
            definition.uri = entry.name
        else:
            definition.uri_template = entry.name
        return definition

    def find(self, kind: str, name: str) -> Optional[ProvidedEntry]:
        own = self.names.own_uri(name) if kind == "resources" else None
        found = None if own is None else self.mounted.catalog.find_resource(own)
        if own is None or found is None:
            return None
        entry, _ = found
        return ProvidedEntry(self, ("resources", own, None), mime_type=entry.mime_type, scopes=entry.scopes,
                             cache=self.mounted.catalog.hint_for(entry.cache))

    # --- its calls --------------------------------------------------------------------------------------

    def run(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        kind, own, _ = entry.own
        if kind == "tools" and not (entry.decides_tasks and context.session.revision.modern):
            task = self.as_task(entry, context)
            if task is not None:
                return task
        params: Dict[str, Any] = dict(context.params)
        if context.method == "completion/complete":
            reference = params["ref"]
            params["ref"] = {**reference, **({"name": own} if kind == "prompts" else {"uri": own})}
        elif kind in ("tools", "prompts"):
            params["name"] = own
        else:
            uri = params.get("uri")
            params["uri"] = (self.names.own_uri(uri) or uri) if isinstance(uri, str) else uri
        with context.within(self.mounted, params, self.names.changes_uris):
            return self.seen_contents(dispatch(context, self.mounted.catalog.resolve(context.method, params)))

    # --- changes ----------------------------------------------------------------------------------------

    def _on_change(self, method: str, uri: Optional[str]) -> None:
        if method == RESOURCE_UPDATED and uri is not None:
            self.hub.resource_updated(self.names.seen_uri(uri))
            return
        area = LIST_CHANGES[method].capability
        if area == "resources":
            self.names.forget_uris()
        for kind in _CHANGED[area]:
            self._fill(kind)  # which notifies the clients

    def _on_subscribe(self, uri: str, subscriptions: int) -> None:
        counted = self.mounted.subscribers
        own = normal_uri(self.names.own_uri(uri) or uri)
        if bool(subscriptions) == (own in self._followed) or self.mounted.catalog.find_resource(own) is None:
            return
        if subscriptions:
            self._followed.add(own)
            counted.add([own])
        else:
            self._followed.discard(own)
            counted.remove([own])

    # --- its life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        self.mounted.enter()

    def stop(self) -> None:
        self.mounted.leave()


def mount(hub: Server, other: Any, prefix: str = "", tool: Optional[Callable[[str], Optional[str]]] = None,
          shared: bool = False) -> None:
    """Offer *other* as a part of *hub*; see :meth:`Server.mount`.

    :raises RegistrationError: it cannot be mounted.
    """
    if not isinstance(prefix, str) or tool is not None and not callable(tool):
        raise RegistrationError(f"mount takes prefix= as a text and tool= as a function, not {prefix!r} and {tool!r}")
    providers = hub.registry.providers
    if prefix and any(getattr(provider, "names").prefix == prefix for provider in providers):
        raise RegistrationError(f"another server is mounted with prefix={prefix!r} already; choose another one")
    names = Names(prefix, tool)
    if isinstance(other, Server):
        if other is hub or _mounts(other, hub):
            raise RegistrationError(f"{hub!r} would be mounted on itself")
        ServerMount(hub.runtime, other.runtime, names).open()
    elif isinstance(other, Client):
        check_client(other)
        ClientMount(hub.runtime, other, names, shared).open()
    else:
        raise RegistrationError(f"mount takes a Server, or a client as from mcplite.connect(), not {type(other).__name__}")


def _mounts(server: Server, hub: Server) -> bool:
    """Whether *hub* is mounted on *server*, or on a server that is mounted there."""
    waiting = [server.runtime]
    while waiting:
        runtime = waiting.pop()
        if runtime is hub.runtime:
            return True
        waiting.extend(provider.mounted for provider in runtime.catalog.registry.providers if isinstance(provider, ServerMount))
    return False

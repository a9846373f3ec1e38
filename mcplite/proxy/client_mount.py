"""ClientMount: a server of another process or host, whose calls are passed on over connections to it."""

import functools
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Optional, Set

from ..client.client import Client
from ..errors import (
    Cancelled,
    ConnectionClosed,
    InternalError,
    MCPError,
    MissingCapability,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    ResourceNotFound,
    TransportError,
)
from ..protocol.http.routing_headers import marks
from ..protocol.schema.rules import as_object, in_result
from ..protocol.uris import normal_uri
from ..protocol.uritemplate import Template
from ..revisions import Revision
from ..rpc.tracing import get_logger
from ..server.catalog.registry import ProvidedEntry, Service
from ..server.handling.context import RequestContext, visible_catalog
from ..server.runtime.runtime import OpenSession, Runtime
from ..types import Tool
from ..types.tasks import runs_tool_tasks
from .client_connections import UpstreamPool, pass_call
from .forwarded_calls import Upstream, adapted_result, error_for, unaskable
from .mount import AREAS, KINDS, Choice, Mounted, tasks_of
from .mount_names import Names
from .reconnecting import MainUpstream

if TYPE_CHECKING:
    from .mounted_tasks import PassedTasks

__all__ = ["ClientMount"]

_log = get_logger(__name__)


class ClientMount(Mounted, Service):
    """One client, mounted.

    :param parent: the runtime of the server that mounts it.
    :param client: not open.
    :param names: of its entries.
    :param shared: whether one connection serves all clients.
    :param pool: the connections; None for those of a mount with any number of clients.
    :param choice: as for :class:`Mounted`.
    """

    #: What it is, for errors and the log.
    _role = "the mounted server"

    def __init__(self, parent: Runtime, client: Client, names: Names, shared: bool,
                 pool: Optional[UpstreamPool] = None, choice: Optional[Choice] = None) -> None:
        super().__init__(parent, names, choice)
        self._label = f"{self._role} {names.prefix!r}" if names.prefix else self._role
        self._peer = ""
        self.pool = pool or UpstreamPool(client, self._label, shared)
        self._main = MainUpstream(self.pool, self._label, self._on_open, self._on_change, self._on_updated, self._on_lost)
        #: Why the connection was lost, or could not be opened, last; None before the first attempt, and while it is open.
        self.down: Optional[Exception] = None
        #: The entries that the server has offered so far, by kind and the names that clients see; for the errors of calls while
        #: it is down.
        self._known: Dict[str, Dict[str, ProvidedEntry]] = {kind: {} for kind in KINDS}
        #: The URIs that clients of the parent server subscribe to. It needs no lock: each change, and each copy, is one step in
        #: C.
        self._followed: Set[str] = set()
        self._reads = False
        #: None while the server has offered no tasks.
        self._tasks: "Optional[PassedTasks]" = None

    @property
    def name(self) -> str:
        return f"{self._label} ({self._peer})" if self._peer else self._label

    def open(self, reported: bool = False) -> None:
        """Begin to follow the clients of the parent server; the connection is opened with the first of them.

        :param reported: whether the caller reports that the server cannot be reached at first, in place of the log.
        """
        self._main.quiet_start = reported
        self.parent.followers.append(self._on_session)
        self.parent.count_subscriptions(self._on_subscribe, awaited=True)
        for area in AREAS:
            self.parent.catalog.registry.provide(self, area, {})
        self.parent.add_service(f"mount {id(self)}", self)

    def start(self) -> None:
        self._main.start()

    def stop(self) -> None:
        self._main.stop()

    def let_go(self) -> None:
        self._main.let_go()
        if self._tasks is not None:
            self._tasks.let_go()

    # --- the connection, on the thread of the main upstream ------------------------------------------------------

    def _on_open(self, upstream: Upstream) -> None:
        client = upstream.client
        self._peer = client.server_info.name or repr(client)
        capabilities, registry = client.server_capabilities, self.parent.catalog.registry
        self._reads = capabilities.resources is not None
        if _has_tasks(client):
            self._use_passed_tasks()
        if capabilities.completions is not None or not client.revision.completions_capability:
            registry.completes = True
        self.down = None
        for area in AREAS:
            if getattr(capabilities, area) is not None:
                registry.declare(area)
                self._on_change(area)
        for uri in sorted(self._followed):
            self._follow(upstream, uri)

    def _use_passed_tasks(self) -> None:
        if self._tasks is None:
            from .mounted_tasks import PassedTasks  # for servers that have tasks

            self._tasks = PassedTasks(self.pool, self._main.doubt)
            self.use_tasks()

    def _on_change(self, area: str) -> None:
        upstream = self.pool.main
        if upstream is None:
            return
        client = upstream.client
        if area == "tools":
            self._fill("tools", {tool.name: self._tool(tool) for tool in client.list_tools(fresh=True)})
        elif area == "prompts":
            self._fill("prompts", {prompt.name: ProvidedEntry(self, ("prompts", prompt.name, prompt))
                                   for prompt in client.list_prompts(fresh=True)})
        else:
            self.names.forget_uris()
            resources = {resource.uri: ProvidedEntry(self, ("resources", resource.uri, resource), mime_type=resource.mime_type)
                         for resource in client.list_resources(fresh=True)}
            try:
                templates = client.list_resource_templates(fresh=True)
            except RemoteError as error:
                _log.debug("%s has no templates: %s", self.name, error)
                templates = []
            # Clients get one notification for both, as from the server.
            self._fill("templates", {one.uri_template: entry for one in templates for entry in self._templates(one)}, False)
            self._fill("resources", resources)

    def _fill(self, kind: str, entries: Dict[str, ProvidedEntry], announced: bool = True) -> None:
        taken = self.put(kind, entries, announced)
        self.report(kind, taken)
        self._known[kind] = {entry.name: entry for entry in entries.values() if entry.name and entry.name not in taken}

    def _tool(self, tool: Tool) -> ProvidedEntry:
        entry = ProvidedEntry(self, ("tools", tool.name, tool))
        upstream = self.pool.main
        if upstream is not None and _has_tasks(upstream.client):
            # A modern server says with each call whether that becomes a task.
            entry.decides_tasks = upstream.client.era == "modern"
            entry.task_support = "optional" if entry.decides_tasks else tool.task_support
            entry.restartable = True
        try:
            entry.marks = marks(tool.input_schema)
        except ValueError as error:
            _log.warning("%s: parameters of the tool %.100r do not travel in headers: %s", self.name, tool.name, error)
        return entry

    def _templates(self, template: Any) -> List[ProvidedEntry]:
        try:
            pattern = Template(template.uri_template)
        except ValueError as error:
            _log.warning("%s: the template %.200r is left out: %s", self.name, template.uri_template, error)
            return []
        return [ProvidedEntry(self, ("templates", template.uri_template, template), mime_type=template.mime_type,
                              pattern=pattern)]

    def _on_lost(self, error: Exception) -> None:
        self.down = error
        if not self._peer:
            # Clients that connect before the server was reached once have its entries when it comes back, since a session
            # keeps the capabilities of its start.
            for area in AREAS:
                self.parent.catalog.registry.declare(area)
        for kind in KINDS:
            if any(entry.provider is self for entry in self.parent.catalog.registry.all(kind).values()):
                self.parent.catalog.registry.provide(self, kind, {})

    def _on_updated(self, uri: str) -> None:
        seen = normal_uri(self.names.seen_uri(uri))
        if seen not in self._followed:
            # A server may announce a resource below the one that was subscribed to (RSRC-14).
            seen = next((known for known in sorted(self._followed) if seen.startswith(known.rstrip("/") + "/")), seen)
        self.parent.resource_updated(seen)

    # --- what it offers ---------------------------------------------------------------------------------

    def listed(self, entry: ProvidedEntry, revision: Revision) -> Any:
        kind, definition = entry.own[0], self.renamed(entry.own[2], entry)
        definition.__dict__.pop("_extra", None)
        if kind == "tools":
            definition.execution = None if entry.task_support == "forbidden" else {"taskSupport": entry.task_support}
        schema = definition.output_schema if kind == "tools" else None
        if schema is not None and revision.object_output_only:
            definition.output_schema = as_object(schema) or in_result(schema)
        return definition

    def find(self, kind: str, name: str, granted: Optional[FrozenSet[str]] = None) -> Optional[ProvidedEntry]:
        if kind != "resources":
            if self.down is None:
                return None
            known = self._known[kind].get(name)
            if known is not None or self.choice is not None:  # a name never listed may be one that is not offered
                return known
            return ProvidedEntry(self, (kind, name, None)) if self.names.belongs(name) else None
        own = self.names.own_uri(name)
        if own is None and not self._reads or self.choice is not None and self.choice.tags and not self._tagged(own):
            return None
        return ProvidedEntry(self, ("resources", own or name, None), unlisted=own is None)

    def _tagged(self, uri: Optional[str]) -> bool:
        """Whether a URI of the mounted server is that of a resource that it offers, or one of an offered template's."""
        return uri is not None and (
            any(entry.own[1] == uri for entry in self._known["resources"].values())
            or any(entry.pattern.match(uri) is not None for entry in self._known["templates"].values() if entry.pattern))

    # --- its calls --------------------------------------------------------------------------------------

    def run(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        kind, own, definition = entry.own
        refused = None if entry.change is None else entry.change.refused(context, entry.name)
        if refused is not None:
            return refused
        try:
            params = self._params(entry, context)
            if entry.task_support == "forbidden" or self._tasks is None:
                tasks = tasks_of(context.session.runtime)
                if kind == "tools" and tasks is not None:
                    tasks.takes(context, entry)  # it refuses a call that asks for a task
                result, revision = pass_call(self.pool, context, params)
            else:
                result, there = self._tasks.call(entry, context, params, self.as_task)
                if there is None:
                    return result  # it is a task of the parent server now
                revision = there
            hint = self.parent.catalog.hint_for(None)
            return self.seen_contents(adapted_result(context, result, revision, hint, kind == "tools" and _wraps(definition)))
        except MissingCapability as error:
            return unaskable(context, error)
        except RemoteError as error:
            failure = error_for(context, error)
            if entry.unlisted and isinstance(failure, ResourceNotFound):
                others = self.parent.catalog.registry.providers
                for other in others[others.index(self) + 1:]:
                    found = other.find("resources", own, visible_catalog(context).registry.granted)
                    if found is not None:
                        return found.handler(context.params, context)
            raise failure from error
        except Cancelled as error:
            if context.cancelled:
                raise
            raise InternalError(f"{self.name} was not answered: {error}") from error
        except TransportError as error:
            self._main.doubt()
            if isinstance(error, ConnectionClosed) and not error.unsent:
                raise InternalError(f"{self.name} did not answer this call: {error}") from error
            raise InternalError(f"{self.name} cannot be reached: {self.down or error}") from error
        except (RequestTimeout, ProtocolError) as error:
            raise InternalError(f"{self.name}: {error}") from error

    def _params(self, entry: ProvidedEntry, context: RequestContext) -> Dict[str, Any]:
        given = {name: value for name, value in self.own_params(entry, context.method, context.params).items()
                 if name not in ("_meta", "inputResponses", "requestState", "task")}
        if context.method == "completion/complete":
            main = self.pool.main
            if main is not None and not main.client.revision.completion_context:
                given.pop("context", None)
        elif entry.own[0] == "resources":
            given["uri"] = entry.own[1]
        return given

    # --- subscriptions and sessions, on threads of the parent server ------------------------------------------------

    def _on_subscribe(self, uri: str, subscriptions: int) -> None:
        before = uri in self._followed
        (self._followed.add if subscriptions else self._followed.discard)(uri)
        upstream = self.pool.main
        if upstream is None or before == bool(subscriptions) or not self._owns(uri):
            return
        if subscriptions:
            self._follow(upstream, uri)
            return
        try:
            upstream.client.unsubscribe_resource(self._own(uri))
        except MCPError as error:
            _log.debug("%s keeps announcing %.200r: %s", self.name, uri, error)

    def _owns(self, uri: str) -> bool:
        found = self.parent.catalog.find_resource(uri)
        return found is not None and found[0].provider is self

    def _follow(self, upstream: Upstream, uri: str) -> None:
        if not self._owns(uri):
            return
        try:
            upstream.client.subscribe_resource(self._own(uri))
        except MCPError as error:
            _log.warning("%s does not announce changes of %.200r: %s", self.name, uri, error)

    def _own(self, uri: str) -> str:
        """Return a URI, in its normal form, as the mounted server lists it."""
        entry = self._known["resources"].get(uri)
        return (self.names.own_uri(uri) or uri) if entry is None else str(entry.own[1])

    def _on_session(self, session: OpenSession, roots: bool) -> None:
        if not roots:
            if self.pool.of(session) is not None:
                # Closing waits for a process to end, and the thread that noticed the end of the session serves other sessions.
                self.parent.workers.spawn(functools.partial(self.pool.forget, session))
            return
        upstream = self.pool.of(session)
        if upstream is not None and upstream.usable:
            upstream.client.notify("notifications/roots/list_changed")


def _has_tasks(client: Client) -> bool:
    return runs_tool_tasks(client.server_capabilities, client.revision)


def _wraps(tool: Optional[Tool]) -> bool:
    """Whether the structured result of a tool is not declared as an object."""
    return tool is not None and tool.output_schema is not None and as_object(tool.output_schema) is None

"""Mounts: offer another server as a server's own; ``Server.mount`` loads it.

A :class:`Mounted` puts the entries of the other server into the registry of the parent server, the one that mounts it. Its
:class:`~.mount_names.Names` are what the clients of the parent server see of the other server's names and URIs.

A server of this process is a :class:`ServerMount`: its functions run as those of the parent server, and nothing is passed on.
The function gets the context of the client's own request, so that questions, progress and cancellation need no second
connection. Its server's middleware, lifespan and limits of time hold as they do otherwise.
"""

import copy
import functools
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Set, Tuple

from ..errors import InvalidParams, RegistrationError
from ..protocol.http.routing_headers import marks
from ..protocol.jsonrpc import object_of
from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..protocol.uritemplate import normal_template
from ..revisions import NEWEST, TASKS_EXTENSION, Revision
from ..rooms import load
from ..rpc.tracing import get_logger
from ..server.catalog.entries import with_tags
from ..server.catalog.registry import Needed, ProvidedEntry, Provider, Service
from ..server.handling.context import NeedsWorker, RequestContext, visible_catalog
from ..server.handling.dispatch import dispatch
from ..server.runtime.runtime import Runtime
from ..types.codec import TAGS, tags_of
from .mount_names import Names

__all__ = ["Choice", "Mounted", "ServerMount", "tasks_of"]

_log = get_logger(__name__)
#: By kind of entries: the member of a definition that has its name.
_NAMED_BY = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
KINDS = tuple(_NAMED_BY)
#: By capability: the kinds of entries whose change its notification tells.
AREAS: Mapping[str, Tuple[str, ...]] = {"tools": ("tools",), "prompts": ("prompts",), "resources": ("resources", "templates")}


class Choice:
    """What a mount offers of a server.

    :param tags: of entries, one of which an entry must have; none for all entries.
    :param change: changes of tools, see :class:`~.tool_changes.ToolChanges`; None for none.
    :param search: whether tools are found by a search, and not listed.
    :raises RegistrationError: the tags are no list of texts, or the changes cannot be used.
    """

    def __init__(self, tags: Any, change: Any, search: bool = False) -> None:
        self.search = search
        meta = with_tags(None, tags, "mount")
        self.tags: FrozenSet[str] = frozenset(() if meta is None else meta[TAGS])
        self.changes: Any = None
        if change is not None:
            from .tool_changes import ToolChanges  # for mounts that change tools

            self.changes = ToolChanges(change)

    def take(self, kind: str, entry: ProvidedEntry, definition: Any) -> bool:
        """Return whether an entry is offered, and note with it what changes it.

        :raises RegistrationError: it cannot be changed so.
        """
        if self.tags and not self.tags & tags_of(definition):
            return False
        entry.unlisted = entry.unlisted or self.search and kind == "tools"
        if self.changes is not None and kind == "tools":
            entry.change = self.changes.of(definition)
            if entry.change is not None:
                entry.marks = marks(entry.change.schema)
        return True


class Mounted(Provider):
    """One mounted server.

    :param parent: the runtime of the server that mounts it.
    :param names: of its entries.
    :param choice: which entries are offered, and what is changed of its tools; None for all as they are.
    """

    def __init__(self, parent: Runtime, names: Names, choice: "Optional[Choice]" = None) -> None:
        self.parent = parent
        self.names = names
        self.choice = choice

    def check(self) -> None:
        """Return if :meth:`open` can do what it is asked to; nothing is changed.

        :raises RegistrationError: the name of a tool or of a prompt is taken, or a tool cannot be changed as is asked.
        """

    def open(self) -> None:
        """Offer the entries, and follow their changes."""
        raise NotImplementedError

    def put(self, kind: str, entries: Mapping[str, ProvidedEntry], announced: bool = True) -> Dict[str, str]:
        """Put the present entries of a kind into the registry; return the names that others have, with their own names.

        :param entries: by the mounted server's own names, or URIs.
        :param announced: whether clients are notified.
        """
        if self.choice is not None:
            entries = {own: entry for own, entry in entries.items() if self._chosen(kind, own, entry)}
        if kind in ("tools", "prompts"):
            names = self.names.named(kind, entries)
        else:
            names = {normal_template(own) if kind == "templates" else normal_uri(own): own for own in entries}
        taken = self._provide(kind, names, entries, announced)
        if taken and kind in ("resources", "templates") and self.names.prefix:
            # Another has the same URI; this one is resolved with the prefix before it.
            names = {(self.names.other_uri(seen) or seen) if seen in taken else seen: own for seen, own in names.items()}
            taken = self._provide(kind, names, entries, announced)
        return {seen: names[seen] for seen in taken}

    def _chosen(self, kind: str, own: str, entry: ProvidedEntry, strict: bool = False) -> bool:
        """Whether an entry is offered; what changes it is noted with it.

        :param strict: raises the error of a change that cannot be made, in place of the log.
        """
        assert self.choice is not None
        entry.change = None
        try:
            # As the mounted server has it: its own name is that of the change.
            definition = copy.copy(self.listed(entry, NEWEST))
            setattr(definition, _NAMED_BY[kind], own)
            return self.choice.take(kind, entry, definition)
        except Exception as error:  # of the user's function, or of a provider
            if strict and isinstance(error, RegistrationError):
                raise
            _log.error("the %s %.200r of %s is left out: %s", kind[:-1], own, self.name, error,
                       exc_info=not isinstance(error, RegistrationError))
            return False

    def _provide(self, kind: str, names: Mapping[str, str], entries: Mapping[str, ProvidedEntry], announced: bool
                 ) -> List[str]:
        for seen, own in names.items():
            entries[own].name = seen
        return self.parent.catalog.registry.provide(self, kind, {seen: entries[own] for seen, own in names.items()},
                                                 announced)

    def report(self, kind: str, taken: Mapping[str, str]) -> None:
        """Log the names that others have, of entries that came while clients are served."""
        for seen, own in taken.items():
            _log.warning("the %s %.200r of %s is left out, since another has the name %.200r; mount it with another prefix=%s",
                         kind[:-1], own, self.name, seen, " or tool=" if kind == "tools" else "")

    def renamed(self, definition: Any, entry: ProvidedEntry) -> Any:
        """Return a copy of a definition, with the name or the URI that clients see."""
        definition = copy.copy(definition)
        setattr(definition, _NAMED_BY[entry.own[0]], entry.name)
        if entry.change is not None:
            entry.change.apply(definition)
        return definition

    def own_params(self, entry: ProvidedEntry, method: str, given: Dict[str, Any]) -> Dict[str, Any]:
        """Return the params of a request with the mounted server's own names."""
        (kind, own, _), params = entry.own, dict(given)
        if method == "completion/complete":
            params["ref"] = {**(params.get("ref") or {}), "name" if kind == "prompts" else "uri": own}
        elif kind in ("tools", "prompts"):
            params["name"] = own
            if entry.change is not None:
                params["arguments"] = entry.change.own_arguments(object_of(params.get("arguments")))
        elif isinstance(params.get("uri"), str):
            params["uri"] = self.names.own_uri(params["uri"]) or params["uri"]
        return params

    def use_tasks(self) -> None:
        """Have tasks on the parent server, as the mounted server has."""
        load("task='optional'")(self.parent)  # tasks.server_tasks.enable_tasks

    def as_task(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        """Make a call a task of the parent server that runs it, and return the result that says so; None if it becomes none.

        :raises RemoteError: it must, and the client cannot have tasks; or it cannot, and the client asks for one.
        """
        tasks, arguments = tasks_of(context.session.runtime), object_of(context.params.get("arguments"))
        if tasks is None or not tasks.takes(context, entry):
            return None
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams("params.arguments must be an object")
        return tasks.create(context, entry, arguments or {})

    def seen_contents(self, result: Any) -> Any:
        """Change the URIs in an encoded result to those that clients see; return it.

        :param result: of a tool, a prompt or a resource, as JSON data.
        """
        if self.names.changes_uris and isinstance(result, dict):
            for block in result.get("content") or ():
                self._change(block)
            for contents in result.get("contents") or ():
                self._change(contents)
            for message in result.get("messages") or ():
                self._change(message.get("content"))
        return result

    def _change(self, block: Any) -> None:
        if isinstance(block, dict):
            if isinstance(block.get("uri"), str):
                block["uri"] = self.names.seen_uri(block["uri"])
            self._change(block.get("resource"))


def tasks_of(runtime: Runtime) -> Any:
    """Return the tasks of a server, which answer requests about those of mounted servers; None without any."""
    return runtime.extension(TASKS_EXTENSION)


class ServerMount(Mounted, Service):
    """One server of this process, mounted.

    :param parent: the runtime of the server that mounts it.
    :param own: the runtime of the mounted server.
    :param names: of its entries.
    :param choice: as for :class:`Mounted`.
    """

    def __init__(self, parent: Runtime, own: Runtime, names: Names, choice: Optional[Choice] = None) -> None:
        super().__init__(parent, names, choice)
        self.mounted = own
        #: The resources that clients of the parent server subscribe to; used by the hook of subscriptions, one call at a time.
        self._followed: Set[str] = set()

    @property
    def name(self) -> str:
        return f"the server {self.mounted.catalog.name!r}"

    # --- what it offers ---------------------------------------------------------------------------------

    def check(self) -> None:
        registry = self.parent.catalog.registry
        for kind in ("tools", "prompts"):
            there, entries = {*registry.all(kind)}, self.mounted.catalog.registry.all(kind)
            if self.choice is not None:
                if self.choice.search and kind == "tools":
                    from .mounted_search import NAMES  # for mounts whose tools are found

                    there.update(NAMES)
                entries = {own: entry for own, entry in entries.items()
                           if self._chosen(kind, own, self._entry(kind, own, entry), strict=True)}
            for seen, own in self.names.named(kind, entries).items():
                if seen in there:
                    raise RegistrationError(f"the {kind[:-1]} {own!r} of {self.name} would be {seen!r}, which is registered"
                                            f" already; mount it with another prefix={' or tool=' if kind == 'tools' else ''}")

    def open(self) -> None:
        registry = self.parent.catalog.registry
        for kind in KINDS:
            self._fill(kind)
        for kind in ("tools", "prompts", "resources"):
            if self.mounted.catalog.registry.declared(kind):
                registry.declare(kind)
        self.mounted.listeners.append(self._on_change)
        self.parent.count_subscriptions(self._on_subscribe, awaited=True)
        self.parent.add_service(f"mount {id(self)}", self)

    def _fill(self, kind: str, announced: bool = True) -> None:
        registry = self.mounted.catalog.registry
        if registry.completes:
            self.parent.catalog.registry.completes = True
        if tasks_of(self.mounted) is not None:
            self.use_tasks()
        self.report(kind, self.put(kind, {own: self._entry(kind, own, entry) for own, entry in registry.all(kind).items()},
                                   announced))

    def _entry(self, kind: str, own: str, entry: Any) -> ProvidedEntry:
        made = ProvidedEntry(self, (kind, own, entry), scopes=entry.scopes, unlisted=entry.unlisted)
        if kind == "tools":
            made.marks, made.task_support, made.restartable = entry.marks, entry.task_support, entry.restartable
            made.decides_tasks = entry.decides_tasks
            if entry.call_scopes is not None:
                made.call_scopes = lambda params: entry.call_scopes(self.own_params(made, "tools/call", dict(params)))
        if kind in ("tools", "prompts"):
            made.may_run_inline = entry.may_run_inline
        elif kind == "templates":
            made.pattern, made.resources = entry.pattern, entry.resources
            made.cache, made.mime_type = self.mounted.catalog.hint_for(entry.cache), entry.mime_type
        elif kind == "resources":
            made.cache, made.mime_type = self.mounted.catalog.hint_for(entry.cache), entry.mime_type
        return made

    def listed(self, entry: ProvidedEntry, revision: Revision) -> Any:
        return self.renamed(entry.own[2].listed(revision), entry)

    def find(self, kind: str, name: str, granted: Optional[FrozenSet[str]] = None) -> Optional[ProvidedEntry]:
        own = self.names.own_uri(name) if kind == "resources" else None
        catalog = self.mounted.catalog if granted is None else self.mounted.catalog.visible(granted)
        found = None if own is None else catalog.find_resource(own)
        if own is None or found is None:
            return None
        entry, _ = found
        if self.choice is not None and not self._chosen(entry.kind, entry.name, self._entry(entry.kind, entry.name, entry)):
            return None
        return ProvidedEntry(self, ("resources", own, None), mime_type=entry.mime_type, scopes=entry.scopes,
                             cache=self.mounted.catalog.hint_for(entry.cache))

    # --- its calls --------------------------------------------------------------------------------------

    def run(self, entry: ProvidedEntry, context: RequestContext) -> Any:
        catalog = self.mounted.catalog
        if (catalog.middleware or catalog.forwards_logs) and context.http is not None and context.http.inline:
            raise NeedsWorker  # what is around the handler may ask and send
        if entry.change is not None:
            refused = entry.change.refused(context, entry.name)
            if refused is not None:
                return refused
        if entry.own[0] == "tools" and not (entry.decides_tasks and context.session.revision.modern):
            task = self.as_task(entry, context)
            if task is not None:
                return task
        rename = functools.partial(self.own_params, entry, context.method)
        with context.within(self.mounted, rename, self.names.changes_uris):
            return self.seen_contents(dispatch(context, visible_catalog(context).resolve(context.method, context.params)))

    # --- changes ----------------------------------------------------------------------------------------

    def _on_change(self, method: str, uri: Optional[str], needed: Needed) -> None:
        if method == RESOURCE_UPDATED and uri is not None:
            self.parent.resource_updated(self.names.seen_uri(uri))
            return
        area = LIST_CHANGES[method].capability
        if area == "resources":
            self.names.forget_uris()
        for kind in AREAS[area]:
            self._fill(kind, announced=False)
        self.parent.list_changed(area, needed, always=False)

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

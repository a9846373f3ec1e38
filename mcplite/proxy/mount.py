"""Mounts: offer another server as a server's own; ``Server.mount`` loads it.

A :class:`Mounted` puts the entries of the other server into the registry of the parent server, the one that mounts it. Its
:class:`Names` are what the clients of the parent server see of the other server's names and URIs.

A server of this process is a :class:`ServerMount`: its functions run as those of the parent server, and nothing is passed on.
The function gets the context of the client's own request, so that questions, progress and cancellation need no second
connection. Its server's middleware, lifespan and limits of time hold as they do otherwise.
"""

import copy
import hashlib
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..errors import InvalidParams, RegistrationError
from ..protocol.jsonrpc import object_of
from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..protocol.uritemplate import normal_template
from ..revisions import TASKS_EXTENSION, Revision
from ..rooms import load
from ..rpc.tracing import get_logger
from ..server.catalog.registry import ProvidedEntry, Provider, Service
from ..server.handling.context import RequestContext
from ..server.handling.dispatch import dispatch
from ..server.runtime.runtime import Runtime

__all__ = ["Mounted", "Names", "ServerMount", "model_name", "tasks_of"]

_log = get_logger(__name__)
#: Characters of the name of a tool that the APIs of models take, and how long it may be.
_OTHER = r"[^A-Za-z0-9_-]"
_MOST = 64


def model_name(name: str) -> str:
    """Return *name* in the form that the APIs of models take: 1 to 64 characters from A-Z a-z 0-9 _ and -.

    Other characters become underscores. A name that is too long ends with eight digits of its hash.
    """
    plain = re.sub(_OTHER, "_", name)
    return plain if len(plain) <= _MOST else with_digits(name, plain)


def with_digits(name: str, plain: str) -> str:
    """Return *plain*, cut, with digits of the hash of *name*, so that two names which become equal stay apart."""
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[:_MOST - 9]}_{digits}"


class Names:
    """The names of one mount.

    :param prefix: before the names of tools and prompts, with an underscore between; empty for none, which leaves all names
        as they are.
    :param tool: returns the new name of a tool, or None to hide it; in place of the prefix.
    """

    def __init__(self, prefix: str, tool: Optional[Callable[[str], Optional[str]]] = None) -> None:
        self.prefix = prefix
        self._tool = tool
        #: What stands before a URI that another has as well; a URI stays valid with it (RFC 3986, section 3.1).
        self._scheme = re.sub(r"[^a-z0-9.-]", "-", prefix.lower()) + "+" if prefix else ""
        #: By the normal form of the mounted server's own URI: the URI that clients see, where the two differ.
        self._seen: Dict[str, str] = {}

    def named(self, kind: str, names: Iterable[str]) -> Dict[str, str]:
        """Return the mounted server's own names by the names that clients see; without those that are hidden.

        :param kind: "tools" or "prompts".
        """
        found: Dict[str, str] = {}
        for own in names:
            seen: Optional[str] = own
            if kind == "tools" and self._tool is not None:
                seen = self._tool(own)
            elif self.prefix:
                seen = model_name(f"{self.prefix}_{own}")
                if seen in found:
                    seen = with_digits(own, seen)
            if seen:
                found[seen] = own
        return found

    def belongs(self, name: str) -> bool:
        """Whether a name can be one of this mount, by its prefix."""
        return bool(self.prefix) and name.startswith(model_name(self.prefix + "_"))

    def other_uri(self, uri: str) -> Optional[str]:
        """Return what clients see in place of a URI, in its normal form, that another has; None without a prefix."""
        if not self._scheme:
            return None
        self._seen[uri] = seen = self._scheme + uri
        return seen

    def forget_uris(self) -> None:
        """Forget the URIs that others have as well, before they are found out again."""
        self._seen = {}

    @property
    def changes_uris(self) -> bool:
        """Whether any URI differs."""
        return bool(self._seen)

    def seen_uri(self, own: str) -> str:
        """Return a URI of the mounted server as clients see it."""
        return self._seen.get(normal_uri(own), own) if self._seen else own

    def own_uri(self, seen: str) -> Optional[str]:
        """Return the mounted server's own form of a URI with the prefix of this mount; None for any other URI."""
        size = len(self._scheme)
        return seen[size:] if size and seen[:size].lower() == self._scheme else None


#: By kind of entries: the member of a definition that has its name.
_NAMED_BY = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
KINDS = tuple(_NAMED_BY)
#: By capability: the kinds of entries whose change its notification tells.
AREAS: Mapping[str, Tuple[str, ...]] = {"tools": ("tools",), "prompts": ("prompts",), "resources": ("resources", "templates")}


class Mounted(Provider):
    """One mounted server.

    :param parent: the runtime of the server that mounts it.
    :param names: of its entries.
    """

    def __init__(self, parent: Runtime, names: Names) -> None:
        self.parent = parent
        self.names = names

    def put(self, kind: str, entries: Mapping[str, ProvidedEntry], announced: bool = True) -> Dict[str, str]:
        """Put the present entries of a kind into the registry; return the names that others have, with their own names.

        :param entries: by the mounted server's own names, or URIs.
        :param announced: whether clients are notified.
        """
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
        return definition

    def own_params(self, entry: ProvidedEntry, context: RequestContext) -> Dict[str, Any]:
        """Return the params of a request with the mounted server's own names."""
        (kind, own, _), params = entry.own, dict(context.params)
        if context.method == "completion/complete":
            params["ref"] = {**(params.get("ref") or {}), "name" if kind == "prompts" else "uri": own}
        elif kind in ("tools", "prompts"):
            params["name"] = own
        elif isinstance(params.get("uri"), str):
            params["uri"] = self.names.own_uri(params["uri"]) or params["uri"]
        return params

    def use_tasks(self) -> None:
        """Have tasks on the parent server, as the mounted server has."""
        load("task='optional'")(self.parent)

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
    """

    def __init__(self, parent: Runtime, own: Runtime, names: Names) -> None:
        super().__init__(parent, names)
        self.mounted = own
        #: The resources that clients of the parent server subscribe to; used by the hook of subscriptions, one call at a time.
        self._followed: Set[str] = set()

    @property
    def name(self) -> str:
        return f"the server {self.mounted.catalog.name!r}"

    # --- what it offers ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Put all entries into the registry of the parent server, and follow their changes.

        :raises RegistrationError: the name of a tool or of a prompt is taken; nothing is mounted then.
        """
        registry = self.parent.catalog.registry
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
        self.parent.count_subscriptions(self._on_subscribe, awaited=True)
        self.parent.add_service(f"mount {id(self)}", self)

    def _fill(self, kind: str) -> None:
        registry = self.mounted.catalog.registry
        if registry.completes:
            self.parent.catalog.registry.completes = True
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
        return self.renamed(entry.own[2].listed(revision), entry)

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
        if entry.own[0] == "tools" and not (entry.decides_tasks and context.session.revision.modern):
            task = self.as_task(entry, context)
            if task is not None:
                return task
        params = self.own_params(entry, context)
        with context.within(self.mounted, params, self.names.changes_uris):
            return self.seen_contents(dispatch(context, self.mounted.catalog.resolve(context.method, params)))

    # --- changes ----------------------------------------------------------------------------------------

    def _on_change(self, method: str, uri: Optional[str]) -> None:
        if method == RESOURCE_UPDATED and uri is not None:
            self.parent.resource_updated(self.names.seen_uri(uri))
            return
        area = LIST_CHANGES[method].capability
        if area == "resources":
            self.names.forget_uris()
        for kind in AREAS[area]:
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

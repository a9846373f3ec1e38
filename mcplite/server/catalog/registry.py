"""The registry of a server: tools, resources, templates, prompts, completions, and custom methods.

Registering and removing work from any thread at any time: writers replace what readers use.
If a name is registered already, that is an error, or the new entry takes the place of the old one, as in a notebook whose cell
is run again.

A :class:`Provider`, such as a mounted server or client of :mod:`mcplite.proxy`, offers more than the server's own functions.
The registry keeps the entries of providers among its own, so that lists, pages, capabilities and scopes need not know them.
"""

from __future__ import annotations

import sys
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
)

from ...errors import RegistrationError
from ...revisions import Revision
from ...rpc.tracing import get_logger
from ...types.lazy_dataclass import changed

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ...protocol.uritemplate import Template
    from ...revisions import Revision
    from ...types import Resource, Tool
    from ..functions.function import Function
    from ..principals import Principal
    from .cache_hints import CacheHint

    #: Templates, found in four steps: by the length of the text before the first variable (the longest first), by that text, by
    #: the length of the text behind the last variable, and by that text. With each template is its place in the order in which
    #: templates are tried.
    _TemplateIndex = List[Tuple[int, Dict[str, Dict[int, Dict[str, List[Tuple[int, Any]]]]]]]


#: The callers that may be notified of a change: those with all scopes of any one of these groups; None for every caller.
Needed = Optional[Sequence[Sequence[str]]]


def granted_scopes(principal: "Optional[Principal]") -> FrozenSet[str]:
    """Return the scopes of a caller; none for one that is not authenticated."""
    return frozenset() if principal is None else principal.scopes


def may_be_told(granted: Optional[FrozenSet[str]], needed: Needed) -> bool:
    """Whether a caller may be notified of a change.

    :param granted: the scopes of the caller; None for one from whom nothing is hidden.
    """
    return granted is None or needed is None or any(map(granted.issuperset, needed))


class Provider:
    """Gives tools, resources, templates and prompts to a registry, and runs the calls of them."""

    @property
    def name(self) -> str:
        """What it is, for errors, such as ``the server 'weather'``."""
        raise NotImplementedError

    def entries(self) -> "Mapping[str, Mapping[str, ProvidedEntry]]":
        """Return all entries by kind, and by name, URI or text of a template; for providers whose entries do not change."""
        raise NotImplementedError

    def listed(self, entry: "ProvidedEntry", revision: Revision) -> Any:
        """Return the definition of an entry as it is listed: a Tool, Resource, ResourceTemplate or Prompt."""
        raise NotImplementedError

    def find(self, kind: str, name: str, granted: Optional[FrozenSet[str]] = None) -> "Optional[ProvidedEntry]":
        """Return an entry that is not in the registry, such as a resource that no list has; None if there is none.

        :param kind: "tools", "prompts" or "resources".
        :param name: as the clients of the server have it; the URI of a resource.
        :param granted: the scopes of the caller, which the entry must not exceed; None for any entry.
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
    """A part of a server that runs while the server has clients: the watcher of a directory, or a mounted server."""

    def start(self) -> None:
        """Begin; called before the first client is served, with the lock of the runtime held."""
        raise NotImplementedError

    def stop(self) -> None:
        """End; called after the last client, with the lock of the runtime held."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Forget threads and connections in a forked process; they belong to the parent process."""


class MountableClient(Protocol):
    """What a server can mount of the client's side: a :class:`mcplite.Client`."""

    def sibling(self, handlers: Any, cache: bool = True, client_info: Any = None) -> Any:
        """Return another client for the same server."""


class MountableGroup(Protocol):
    """Several clients by name that a server can mount: a :class:`mcplite.client.Group`."""

    @property
    def errors(self) -> Dict[str, Exception]:
        """Why some of them cannot be used, by name."""

    def __getitem__(self, name: str) -> MountableClient: ...

    def __iter__(self) -> Iterator[str]: ...


class CatalogEntry:
    """A tool, resource, template or prompt: how it is listed, and what answers the requests that name it.

    :param kind: "tools", "resources", "templates" or "prompts".
    :param name: what clients call it: of a resource its URI, of a template its text.
    :param definition: as it is listed.
    :param function: answers; None if the provider does.
    :param scopes: required of callers over HTTP.
    :param cache: how long clients may keep a resource; None for the server's hint.
    """

    #: The provider of the entry; None for an entry of the server's own.
    provider: Optional[Provider] = None
    #: Runs a request in place of the function; only the entries of providers have one.
    handler: Optional[Callable[..., Any]] = None
    #: The parsed text of a template; None for other kinds.
    pattern: "Optional[Template]" = None
    #: Whether the function of a template gets values that are paths out of a folder, too.
    any_path = False
    #: Whether lists leave it out, although it can be called or read.
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
    #: Whether a tool passes its calls on to other tools of the same server. Middleware then sees only the calls of those.
    passes_on = False
    #: Of a tool that passes calls on: returns the scopes that one call needs, by its params. None if ``scopes`` hold for all
    #: calls.
    call_scopes: Optional[Callable[[Mapping[str, Any]], Tuple[str, ...]]] = None
    #: The target of the calls of a tool or a prompt; the catalog makes it for the first call.
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
    #: What a mount changes of a tool, a ``ChangedTool``; None for nothing.
    change: Any = None

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


_log = get_logger(__name__)
#: The values of ``Server(on_duplicate=)``.
_POLICIES = ("error", "replace", "warn")
#: The kind of the reference that completers are registered under, by the kind of the entry.
_COMPLETED = {"prompts": "prompt", "templates": "resource"}
#: The kinds whose names are URIs.
_BY_URI = ("resources", "templates")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class ToolEntry(CatalogEntry):
    """A tool: how it is listed and how it is called.

    :param timeout: seconds that one call may run; None for no limit.
    :param marks: the parameters that also travel in headers (MHDR-11).
    :param task_support: whether it may be called as a task: "forbidden", "optional" or "required".
    :param restartable: whether a task is begun again when the process that ran it has ended.
    """

    definition: Tool
    function: Function

    def __init__(self, tool: Tool, function: Function, timeout: Optional[float] = None, marks: "Sequence[Mark]" = (),
                 scopes: Tuple[str, ...] = (), task_support: str = "forbidden", restartable: bool = False) -> None:
        super().__init__("tools", tool.name, tool, function, scopes)
        self.timeout = timeout
        self.marks = marks
        self.task_support = task_support
        self.restartable = restartable
        self.may_run_inline = self.may_run_inline and timeout is None and task_support == "forbidden"

    def listed(self, revision: Revision) -> Tool:
        """Return the definition with its description and schemas, which are created on first use."""
        tool, function, output = self.definition, self.function, self.function.output
        if not tool.input_schema:
            tool.description, tool.output_schema = function.description, output.schema
            tool.input_schema = function.input_schema  # last: a thread that sees it finds the others
        return tool if output.bare is None else changed(tool, output_schema=output.schema_for(revision))


class _Kind:
    """All entries of one kind by name, with a version."""

    def __init__(self) -> None:
        #: A dictionary that is never changed, but replaced with each change, so that readers need no lock.
        self.entries: Mapping[str, Any] = {}
        self.version = 0
        #: Stays true after the first entry: a declared capability is not withdrawn.
        self.declared = False

    def change(self, entries: Mapping[str, Any]) -> None:
        """Take *entries* as the present ones; with the lock of the registry held."""
        self.entries = entries  # first: a reader that sees the new version gets the new entries
        self.version += 1


class Registry:
    """The entries of one server.

    :param changed: called after each change with "tools", "resources" or "prompts", and with the callers that may be notified,
        on the thread that made the change, with no lock held.
    :param on_duplicate: "error", "replace" or "warn", for an entry whose name is taken; see :func:`check_duplicate`.
    """

    KINDS = ("tools", "resources", "templates", "prompts")

    def __init__(self, changed: Callable[[str, Needed], None], on_duplicate: str = "error") -> None:
        if on_duplicate not in _POLICIES:
            raise RegistrationError(f"on_duplicate is one of {', '.join(map(repr, _POLICIES))}, not {on_duplicate!r}")
        self._on_duplicate = on_duplicate
        #: Guards the changes of entries and completers; readers need no lock.
        self._lock = threading.Lock()
        #: What is registered of each kind.
        self.kinds: Dict[str, _Kind] = {kind: _Kind() for kind in self.KINDS}
        self._completions: Dict[Tuple[str, str, str], Function] = {}
        #: Whether completion is declared: there are or were completers, or arguments with choices, or a provider completes.
        self.completes = False
        #: The handlers of custom methods and notifications, by name; the one that was registered last counts.
        self.methods: Dict[str, Callable[..., Any]] = {}
        self.notifications: Dict[str, Callable[..., Any]] = {}
        self._changed = changed
        #: The templates of the latest look-up, and the index that was made of them; other templates need another index. There
        #: is no lock for it: if two threads make it at once, they make equal ones.
        self._index: "Optional[Tuple[Mapping[str, Any], _TemplateIndex]]" = None
        #: The providers, such as mounted servers, in order.
        self.providers: Tuple[Provider, ...] = ()
        #: The kinds of which clients were told that the server has none; they do not ask for what is registered later.
        self.told_absent: Set[str] = set()
        #: Whether any entry has ever required scopes.
        self.scoped = False
        #: Whether a template has, or had, resources to be listed beside the registered ones.
        self.has_special_resources = False
        #: If :meth:`visible` has made this registry: the scopes of the caller, which suffice for each entry. Otherwise None.
        self.granted: Optional[FrozenSet[str]] = None

    def visible(self, granted: FrozenSet[str]) -> "Registry":
        """Return a registry of the entries that a caller with these scopes sees at present; later changes are not in it."""
        part = Registry(self._changed, self._on_duplicate)
        for kind, state in self.kinds.items():
            seen = part.kinds[kind]
            # The version is copied first: if the entries change before they are copied, it is the older version.
            seen.version, seen.declared = state.version, state.declared
            seen.entries = {name: entry for name, entry in state.entries.items() if granted.issuperset(entry.scopes)}
        part._completions, part.completes, part.granted = self._completions, self.completes, granted
        part.methods, part.notifications, part.providers = self.methods, self.notifications, self.providers
        part.scoped, part.has_special_resources = self.scoped, self.has_special_resources
        return part

    def add(self, entry: CatalogEntry) -> None:
        """Register *entry*; if it replaces another entry, it keeps the place of that in the order, and its completers.

        :raises RegistrationError: the name is taken, and entries are not replaced (TOOL-14).
        """
        kind, name = entry.kind, entry.name
        with self._lock:
            state = self.kinds[kind]
            present = state.entries.get(name)
            if present is not None:
                self._check_free(f"{kind[:-1]} {name!r}", present, entry)
            self._note(entry)
            state.change({**state.entries, name: entry})
            state.declared = True
        self._tell(kind, [one for one in (present, entry) if one is not None])

    def _tell(self, kind: str, changed: Sequence[CatalogEntry]) -> None:
        area = "resources" if kind == "templates" else kind
        if area in self.told_absent:
            self.told_absent.discard(area)
            _log.warning("the first of the %s was registered when clients had connected: these were told that the server has"
                         " none, and see them only in a new connection; ServerOptions(declare=[%r]) declares them from the"
                         " beginning", area, area)
        self._changed(area, tuple({entry.scopes for entry in changed}))

    def _check_free(self, what: str, present: CatalogEntry, entry: CatalogEntry) -> None:
        """Return if *entry* may take the place of another one.

        :raises RegistrationError: it may not.
        """
        if present.provider is not None:
            raise RegistrationError(f"{what} is one of {present.provider.name}, which is mounted; choose another name, or mount"
                                    " it with another prefix=")
        assert present.function is not None and entry.function is not None
        check_duplicate(self._on_duplicate, what, present.function.function, entry.function.function)

    def _note(self, entry: CatalogEntry) -> None:
        """Note, before the entry can be found, the features that few entries have; with the lock held."""
        if entry.scopes:
            self.scoped = True
        if entry.resources is not None:
            self.has_special_resources = True
        if entry.kind in _COMPLETED and entry.function is not None and entry.function.has_choices:
            self.completes = True

    def provide(self, provider: Provider, kind: str, entries: Mapping[str, ProvidedEntry], announced: bool = True
                ) -> List[str]:
        """Put *entries* in the place of those that *provider* had of a kind.

        In lists the server's own entries come first, then those of each provider, in the order in which the providers first
        called this method.

        :param announced: whether clients are notified; not if another call will do so.
        :returns: the names that are left out, since others have them.
        """
        with self._lock:
            if provider not in self.providers:
                self.providers = (*self.providers, provider)
            state = self.kinds[kind]
            others = {name: entry for name, entry in state.entries.items() if entry.provider is not provider}
            before = [entry for entry in state.entries.values() if entry.provider is provider]
            taken = [name for name in entries if name in others]
            ours = {name: entry for name, entry in entries.items() if name not in others}
            for entry in ours.values():
                self._note(entry)
            place: Dict[Optional[Provider], int] = {one: number for number, one in enumerate((None, *self.providers))}
            state.change(dict(sorted({**others, **ours}.items(), key=lambda item: place[item[1].provider])))
            state.declared = state.declared or bool(ours)
        if announced:
            self._tell(kind, [*before, *ours.values()])
        return taken

    def find_provided(self, kind: str, name: Any) -> Optional[ProvidedEntry]:
        """Return the entry that a provider has under *name* although it is not in the registry; None if there is none."""
        found = (provider.find(kind, name, self.granted) for provider in self.providers) if isinstance(name, str) else ()
        return next((entry for entry in found if entry is not None), None)

    def remove(self, kind: str, name: str) -> None:
        """Remove an entry, and the completers of its arguments.

        :raises KeyError: there is no entry of this name.
        """
        name = _form(kind, name)
        with self._lock:
            state = self.kinds[kind]
            if name not in state.entries:
                raise KeyError(f"no {kind[:-1]} {name!r} is registered; there are: {', '.join(state.entries) or 'none'}")
            removed = state.entries[name]
            state.change({key: value for key, value in state.entries.items() if key != name})
            owner = (_COMPLETED.get(kind), name)
            self._completions = {key: function for key, function in self._completions.items() if key[:2] != owner}
        self._tell(kind, [removed])

    def remove_directory(self, uri: str) -> str:
        """Remove the template of a directory's files, and its listings; return its URI in the normal form.

        :param uri: of the directory, with a slash at its end.
        :raises KeyError: there is no such directory.
        """
        uri = _form("resources", uri)
        self.remove("templates", uri + "{+path}")
        for listing in (uri, uri[:-1]):
            if self.get("resources", listing) is not None:
                self.remove("resources", listing)
        return uri

    def declare(self, kind: str) -> None:
        """Declare *kind* to clients although it is empty.

        :raises RegistrationError: there is no such kind.
        """
        if kind not in ("tools", "resources", "prompts"):
            raise RegistrationError(f"declare={kind!r}: only 'tools', 'resources' and 'prompts' can be declared")
        self.kinds[kind].declared = True

    def declared(self, kind: str) -> bool:
        """Whether *kind* is declared to clients: it has, or had, an entry, or :meth:`declare` has declared it."""
        return self.kinds[kind].declared

    def version(self, kind: str) -> int:
        """How often the entries of this kind have changed."""
        return self.kinds[kind].version

    def scopes(self) -> List[str]:
        """Return the scopes that the present entries require, each once."""
        return list(dict.fromkeys(scope for kind in self.KINDS for entry in self.all(kind).values() for scope in entry.scopes))

    def all(self, kind: str) -> Mapping[str, Any]:
        """Return the present entries, in a dictionary that is never changed, in the order of registration (TOOL-06)."""
        return self.kinds[kind].entries

    def listed_resources(self) -> Dict[str, Any]:
        """Return what is in the list of resources, by URI: the registered ones, and those that templates stand for."""
        entries: Dict[str, Any] = {uri: entry for uri, entry in self.all("resources").items() if not entry.unlisted}
        for template in self.all("templates").values():
            for resource in template.resources() if template.resources is not None else ():
                entries.setdefault(resource.uri, CatalogEntry("resources", resource.uri, resource, template.function))
        return entries

    def get(self, kind: str, name: str) -> Optional[Any]:
        """Return one entry, or None.

        :param name: of a resource or a template its URI, in any form.
        """
        entries = self.kinds[kind].entries
        found = entries.get(name)
        if found is None and kind in _BY_URI:
            found = entries.get(_form(kind, name))
        return found

    def match(self, forms: Sequence[str]) -> Optional[Tuple[CatalogEntry, Dict[str, Any]]]:
        """Return the template that matches a URI, in any of its *forms*, with the variables' values.

        If several match, it is the one with the most text before its first variable. Of those with equal texts there, one whose
        values have no slashes comes first, then the one with more text in all, then the one that was registered first.
        """
        templates = self.kinds["templates"].entries
        if not templates:
            return None
        known = self._index
        if known is None or known[0] is not templates:
            known = self._index = templates, _indexed(templates)
        for length, by_prefix in known[1]:
            for form in forms:
                ends = by_prefix.get(form[:length], {}).items()
                for _, entry in sorted(found for size, by_suffix in ends
                                       for found in by_suffix.get(form[max(0, len(form) - size):], ())):
                    values = entry.pattern.match_exactly(form)
                    if values is not None:
                        return entry, values
        return None

    def add_completion(self, kind: str, name: str, argument: str, function: Function) -> None:
        """Register the completer of one argument of a prompt ("prompt") or template ("resource")."""
        key = (kind, _form("templates", name) if kind == "resource" else name, argument)
        with self._lock:
            if key in self._completions:
                check_duplicate(self._on_duplicate, f"the completion of {argument!r} of {kind} {name!r}",
                                self._completions[key].function, function.function)
            self._completions = {**self._completions, key: function}
            self.completes = True
            self.kinds["templates" if kind == "resource" else "prompts"].version += 1  # for the parts that callers see

    def choices(self, kind: str, name: str, argument: str) -> List[str]:
        """Return the texts that one argument of a prompt ("prompt") or template ("resource") takes; none if it takes others."""
        entry = self.get("prompts" if kind == "prompt" else "templates", name)
        return [] if entry is None or entry.function is None else entry.function.choices(argument)

    def completion(self, kind: str, name: str, argument: str) -> Optional[Function]:
        """Return a completer, or None."""
        return self._completions.get((kind, _form("templates", name) if kind == "resource" else name, argument))


def _form(kind: str, name: str) -> str:
    """Return a name in the form that is the key of its entry: a URI or a template in its normal form."""
    if kind == "resources" or kind == "templates" and "{" not in name:
        from ...protocol.uris import normal_uri  # for servers that have resources

        return normal_uri(name)
    if kind == "templates":
        from ...protocol.uritemplate import normal_template  # for servers that have templates

        return normal_template(name)
    return name


def _indexed(templates: Mapping[str, Any]) -> "_TemplateIndex":
    """Return the index of the templates."""
    found: Dict[int, Any] = {}
    for place, entry in enumerate(sorted(templates.values(), key=lambda entry: entry.pattern.breadth)):
        prefix, suffix = entry.pattern.prefix, entry.pattern.suffix
        ends = found.setdefault(len(prefix), {}).setdefault(prefix, {})
        ends.setdefault(len(suffix), {}).setdefault(suffix, []).append((place, entry))
    return sorted(found.items(), reverse=True)


def check_name(kind: str, name: Any) -> str:
    """Return *name* if it can name an entry; log a warning if it names a tool and other implementations may reject it.

    Names of resources, prompts and servers are for people, and may be any text.

    :raises RegistrationError: it is not a text, or empty.
    """
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"a {kind} needs a name; give name='...' (got {name!r})")
    if kind == "tool" and (len(name) > 128 or not _NAME_CHARACTERS.issuperset(name)):  # TOOL-11, TOOL-12
        _log.warning("the tool name %.200r should have 1 to 128 characters from A-Z a-z 0-9 _ - .", name)
    return name


def check_duplicate(policy: str, what: str, old: Any, new: Any) -> None:
    """Return if *new* takes the place of *old*, with a warning if the policy says so.

    In an interactive session, such as a notebook, a function of the session takes the place of an earlier definition of
    itself (one of the same qualified name) whatever the policy, so that a cell can be run again.

    :param what: the entry, for messages, such as ``tool 'add'``.
    :param old: the function that is registered.
    :param new: the function that shall be registered.
    :raises RegistrationError: the policy is "error".
    """
    if policy == "replace" or _defined_again(old, new):
        return
    if policy == "warn":
        _log.warning("%s is registered again; the new one takes the place of the old one", what)
        return
    raise RegistrationError(f"{what} is registered already; remove it first, choose another name, or make the server with"
                            " on_duplicate='replace'")


def _defined_again(old: Any, new: Any) -> bool:
    if not hasattr(sys, "ps1"):  # the prompt, which the interpreter and IPython set in interactive sessions only
        return False
    homes = [(getattr(function, "__module__", None), getattr(function, "__qualname__", None)) for function in (old, new)]
    return homes[0] == homes[1] and homes[0][0] == "__main__" and homes[0][1] is not None

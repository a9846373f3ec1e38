"""Computes from the registry what clients see: capabilities, pages of lists, cache hints, the target of a request.

Sessions, the HTTP endpoint and the dispatcher use it; :class:`mcplite.Server` fills the registry.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from ...errors import RegistrationError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import encode_json
from ...protocol.meta import RESOURCE_SUBSCRIPTIONS, SERVER_INFO
from ...revisions import REVISIONS, Revision
from ...rpc.tracing import get_logger
from ...types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities, codec
from ...types.lazy_dataclass import Record, changed, record
from .registry import CatalogEntry, Needed, Registry

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from ...rpc.extension import Extension
    from .cache_hints import CacheHint
    from .server_extensions import ServerExtensions

_LISTS = ("tools", "resources", "prompts")
_FLAGS: Dict[str, Tuple[str, ...]] = {
    "tools": ("listChanged",), "resources": ("listChanged", "subscribe"), "prompts": ("listChanged",), "logging": (),
    "completions": (),
}


@record(frozen=True)
class CapabilityFlags(Record):
    """The flags; the defaults are those of a server that does not set them."""

    #: The lists whose changes are told.
    list_changed: FrozenSet[str] = frozenset(_LISTS)
    #: Whether clients may subscribe to resources.
    subscribe: bool = True
    #: Whether log messages are sent.
    logging: bool = True
    #: Whether the author has declared log messages, so that some may belong to no request.
    asked_logging: bool = False
    #: Whether completion is declared; None if there are completers.
    completions: Optional[bool] = None


def read_capabilities(given: Optional[Mapping[str, Any]]) -> Tuple[CapabilityFlags, List[str]]:
    """Return the flags, and the kinds of lists that are declared even when they are empty.

    :param given: in the form of the protocol: ``{"resources": {"subscribe": False}, "logging": False}``.
    :raises RegistrationError: a capability or a flag is unknown, or has another type.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise RegistrationError(f"capabilities must be a dict of dicts, such as {{'tools': {{'listChanged': False}}}}, not"
                                f" {given!r}")
    for name, value in given.items():
        _check(name, value)
    objects: Dict[str, Dict[str, bool]] = {name: value for name, value in given.items() if isinstance(value, dict)}
    told = frozenset(kind for kind in _LISTS if objects.get(kind, {}).get("listChanged", True))
    flags = CapabilityFlags(told, objects.get("resources", {}).get("subscribe", True), given.get("logging") is not False,
                            "logging" in given and given["logging"] is not False,
                            None if "completions" not in given else given["completions"] is not False)
    return flags, [name for name in given if name in _LISTS]


def _check(name: str, value: Any) -> None:
    known = _FLAGS.get(name)
    if known is None:
        raise RegistrationError(f"capabilities[{name!r}]: those that can be set are {', '.join(map(repr, _FLAGS))}; for others"
                                " there are extensions= and experimental=")
    if value is False and name not in _LISTS:
        return
    if not isinstance(value, dict):
        also = "; they are not declared if none is registered" if name in _LISTS else ", or False"
        raise RegistrationError(f"capabilities[{name!r}] must be a dict of flags, not {value!r}{also}")
    for flag, on in value.items():
        if flag not in known or not isinstance(on, bool):
            allowed = " or ".join(f"{one!r}: True or False" for one in known) or "it has none"
            raise RegistrationError(f"capabilities[{name!r}]: {flag!r}: {on!r} is not a flag; {allowed}")


_log = get_logger(__name__)
#: How many encoded pages of lists are cached.
_MOST_PAGES = 256
#: Sets of scopes whose parts of the catalog are kept.
_MOST_PARTS = 32
#: Entries that cannot be listed and are logged; their names come from providers, too.
_MOST_LEFT_OUT = 1000
#: URIs that one ``subscriptions/listen`` may name, whatever ``Limits.subscriptions`` says.
MOST_URIS = 10_000
#: The kinds of entries that requests name.
_KINDS = {"tools/call": "tools", "prompts/get": "prompts"}


@record(frozen=True)
class Description(Record):
    """The description of a server for its clients."""

    info: Implementation
    instructions: Optional[str] = None
    #: Experimental capabilities, sent as they are.
    experimental: Optional[Dict[str, Any]] = None
    #: What is declared of the capabilities.
    flags: CapabilityFlags = CapabilityFlags()


class Target:
    """What one request is about, looked up as soon as its message is parsed.

    The HTTP decision, authorization, the endpoint, both sessions and the dispatcher read it.

    :param custom_handler: in place of the built-in one, for which it is None: of ``Server.add_method``, of an extension's
        ``methods()``, such as ``ServerTasks._answer``, or of an entry's provider, such as a mount.
    :param entry: the tool, prompt, resource or template; None if there is none.
    :param scopes: required of callers over HTTP.
    :param marks: the parameters of a tool that also travel in headers (MHDR-11).
    :param may_run_inline: whether the handler may run on the thread of an HTTP request: it can neither send nor ask
        anything before it returns.
    :param named: the member of the params that ``Mcp-Name`` repeats, of a method that an extension adds.
    :param values: of a template's variables.
    """

    __slots__ = ("custom_handler", "entry", "scopes", "marks", "may_run_inline", "slow", "named", "values")

    def __init__(self, custom_handler: Optional[Callable[..., Any]], entry: Any, scopes: Tuple[str, ...],
                 marks: "Sequence[Mark]", may_run_inline: bool, named: Optional[str] = None,
                 values: Optional[Mapping[str, Any]] = None) -> None:
        self.custom_handler = custom_handler
        self.entry = entry
        self.scopes = scopes
        self.marks = marks
        self.may_run_inline = may_run_inline
        #: Whether the latest call under a WSGI host took long, so that a worker runs the next one.
        self.slow = False
        self.named = named
        self.values = values


class Catalog:
    """Everything that one server offers.

    :param registry: of tools, resources, prompts, completions and custom methods.
    :param description: of the server.
    :param revisions: the supported revisions, oldest first.
    :param page_size: entries on one page of a list.
    :param longest_uri: characters of a URI; a longer one is not looked up.
    :param middleware: callables ``(context, proceed)`` around every request, first one outermost.
    :param cache: how long clients may keep lists and resources.
    :param cache_lists: the same for one kind of list alone.
    :param hides: whether callers over HTTP do not see what their scopes do not allow.
    """

    def __init__(self, registry: Registry, description: Description, revisions: Sequence[Revision], page_size: int = 1000,
                 longest_uri: int = 65_536, middleware: Sequence[Callable[..., Dict[str, Any]]] = (),
                 cache: "Optional[CacheHint]" = None, cache_lists: "Optional[Mapping[str, CacheHint]]" = None,
                 hides: bool = False) -> None:
        self.registry = registry
        self.hides = hides
        self.description = description
        #: The extensions of the protocol; None without any, as for most servers, which do not load what they need.
        self.extensions: "Optional[ServerExtensions]" = None
        self.revisions: Tuple[Revision, ...] = tuple(revisions)
        self.speaks_legacy, self.speaks_modern = not self.revisions[0].modern, self.revisions[-1].modern
        #: Methods that only clients without a handshake use.
        self.modern_methods = frozenset(REVISIONS[-1].client_requests).difference(
            *(revision.client_requests for revision in REVISIONS if not revision.modern))
        self.middleware = tuple(middleware)
        #: Whether Python's log records are forwarded to clients.
        self.forwards_logs = False
        self.page_size = page_size
        self._longest_uri = longest_uri
        self._cache = cache
        #: Guards changes of ``_cache_lists``, ``_page_sizes`` and ``_pages``, and each use of ``_parts``. The first three are
        #: read without it.
        self._lock = threading.Lock()
        #: What callers see, by their scopes, with the versions of the registry; the latest used ones last.
        self._parts: "OrderedDict[FrozenSet[str], Tuple[Tuple[int, ...], Catalog]]" = OrderedDict()
        self._cache_lists: Dict[str, CacheHint] = dict(cache_lists or {})
        #: The scopes of all entries, with the versions of the registry; two threads that miss them find the same.
        self._scopes: Tuple[Tuple[int, ...], FrozenSet[str]] = (), frozenset()
        #: By kind of list, where it is not ``page_size``.
        self._page_sizes: Dict[str, int] = {}
        self._pages: Dict[Tuple[Any, ...], Any] = {}
        #: Entries that cannot be listed, of which the log has a line.
        self._left_out: Set[Tuple[str, str]] = set()
        #: By revision; both threads that miss one make the same.
        self._identities: Dict[str, Dict[str, Any]] = {}
        self._result_ends: Dict[Revision, str] = {}

    @property
    def name(self) -> str:
        """The server's name."""
        return self.description.info.name

    # --- capabilities ---------------------------------------------------------------------------------

    def offers(self, area: str) -> bool:
        """Whether "tools", "resources" or "prompts" are declared to new clients."""
        return self.registry.declared(area) or (area == "resources" and self.registry.declared("templates"))

    @property
    def completes(self) -> bool:
        """Whether completion is declared to new clients."""
        declared = self.description.flags.completions
        return self.registry.completes if declared is None else declared

    def serves(self, method: str) -> bool:
        """Whether a method of a modern revision exists here; it does not if its capability is not declared."""
        area = method.partition("/")[0]
        if area == "completion":
            return self.completes
        return area in ("server", "subscriptions") or self.offers(area)

    def describe(self, revision: Revision, persistent: bool = True, identified: bool = False) -> Dict[str, Any]:
        """Return the encoded result of ``initialize``.

        :param persistent: whether the session outlives one message; otherwise there are no notifications and no log level.
        :param identified: whether the client is authenticated.
        """
        result = InitializeResult(protocol_version=revision.name, capabilities=self._capabilities(revision, persistent),
                                  server_info=self.description.info, instructions=self.description.instructions)
        return self._with_more(codec.encode(result, revision), revision, identified)

    def _with_more(self, result: Dict[str, Any], revision: Revision, identified: bool) -> Dict[str, Any]:
        """Change an encoded description in place: add the capabilities of extensions; return it."""
        if self.extensions is not None:
            result["capabilities"].update(self.extensions.capabilities(revision, identified))
        return result

    def discover(self, revision: Revision, identified: bool = False) -> Dict[str, Any]:
        """Return the encoded result of ``server/discover`` (DISC-03).

        :param identified: whether the client is authenticated.
        """
        result = DiscoverResult(supported_versions=[known.name for known in reversed(self.revisions)],
                                capabilities=self._capabilities(revision, True), instructions=self.description.instructions)
        encoded = self._with_more(codec.encode(result, revision), revision, identified)
        return self.stamp({**encoded, **self._hint("discover")}, revision)

    def _capabilities(self, revision: Revision, persistent: bool) -> ServerCapabilities:
        flags = self.description.flags

        def listed(kind: str) -> Optional[Dict[str, Any]]:
            if not self.offers(kind):
                self.registry.told_absent.add(kind)
                return None
            changes: Dict[str, Any] = {"listChanged": True} if persistent and kind in flags.list_changed else {}
            return {"subscribe": True, **changes} if kind == "resources" and persistent and flags.subscribe else changes

        return ServerCapabilities(
            experimental=self.description.experimental, logging={} if persistent and flags.logging else None,
            completions={} if self.completes else None, tools=listed("tools"), prompts=listed("prompts"),
            resources=listed("resources"), extensions=None if self.extensions is None else self.extensions.declared(revision))

    def add_extension(self, extension: "Extension") -> None:
        """Add an extension to those of the server; see :meth:`ServerExtensions.add`."""
        from .server_extensions import ServerExtensions  # for servers that have one

        extensions = self.extensions or ServerExtensions(self.registry)
        extensions.add(extension)
        self.extensions = extensions

    def change_description(self, **changes: Any) -> None:
        """Replace some fields of the server's description."""
        self.description = changed(self.description, **changes)
        self._identities, self._result_ends = {}, {}

    def stamp(self, result: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
        """Change a result in place: add the members of every modern result; return it (STAT-06, STAT-10)."""
        identity = self._identities.get(revision.name)
        if identity is None:
            identity = self._identities[revision.name] = codec.encode(self.description.info, revision)
        result.setdefault("resultType", "complete")
        result["_meta"] = {**(result.get("_meta") or {}), SERVER_INFO: identity}
        return result

    def result_end(self, revision: Revision) -> str:
        """Return the members that :meth:`stamp` adds to a result without them, as JSON that ends an object of others."""
        end = self._result_ends.get(revision)
        if end is None:
            end = self._result_ends[revision] = "," + encode_json(self.stamp({}, revision))[1:]
        return end

    # --- lists and hints --------------------------------------------------------------------------------

    def _hint(self, kind: str) -> Dict[str, Any]:
        return self.hint_for(self._cache_lists.get(kind)).members()

    def hint_for(self, own: "Optional[CacheHint]") -> "CacheHint":
        """Return a list's or a resource's own hint, or the server's."""
        hint = own or self._cache
        if hint is None:
            from .cache_hints import CacheHint  # the clients of older revisions know no hints

            hint = self._cache = CacheHint()
        return hint

    def set_listing(self, kind: str, page_size: Optional[int], hint: "Optional[CacheHint]") -> None:
        """Give a list the pages and the hint that it has at the server behind a bridge.

        :param kind: "tools", "prompts", "resources", "templates" or "discover".
        :param page_size: None for the page size of all lists.
        :param hint: None for the hint of all lists.
        """
        with self._lock:
            self._page_sizes = {**self._page_sizes, kind: page_size or self.page_size}
            others = {name: known for name, known in self._cache_lists.items() if name != kind}
            self._cache_lists = others if hint is None else {**others, kind: hint}
            self._pages = {at: kept for at, kept in self._pages.items() if at[0] != kind}

    def listing(self, kind: str, key: str, cursor: Optional[str], revision: Revision,
                extensions: Tuple[bool, ...] = ()) -> Any:
        """Return one page of a list; encoded pages are cached until the registry changes.

        :param extensions: for each extension that changes lists: whether the client declares it.
        :raises InvalidParams: the cursor is not one of this list's (PAGE-09, PAGE-10).
        """
        if kind == "resources" and self.registry.has_special_resources:
            # Files come and go without the registry.
            listed = self._page(self.registry.listed_resources(), kind, key, cursor, revision, extensions)
            return listed.value if self.middleware else listed
        cache_key = (kind, cursor, revision.name, self.registry.version(kind), extensions)
        page = self._pages.get(cache_key)
        if page is None:
            page = self._page(self.registry.all(kind), kind, key, cursor, revision, extensions)
            with self._lock:
                # Pages of an old version are never requested again.
                self._pages = {at: kept for at, kept in self._pages.items() if at[0] != kind or at[3] == cache_key[3]}
                if len(self._pages) < _MOST_PAGES:
                    self._pages[cache_key] = page
        # Middleware reads and changes results, so it gets a copy that is not encoded.
        if not self.middleware:
            return page
        import copy  # for servers that have some

        return copy.deepcopy(page.value)

    def _page(self, entries: Mapping[str, Any], kind: str, key: str, cursor: Optional[str], revision: Revision,
              extensions: Tuple[bool, ...]) -> jsonrpc.Encoded:
        added: Dict[str, Dict[str, Any]] = {}
        if extensions and self.extensions is not None:
            entries, added = self.extensions.seen(kind, entries, revision, extensions)
        chosen, after = [item for item in entries.items() if not item[1].unlisted], None
        size = self._page_sizes.get(kind, self.page_size)
        if cursor is not None or len(chosen) > size:
            from ...protocol.opaque import page as page_of  # for lists of several pages

            chosen, after = page_of(chosen, cursor, size, kind, key=lambda item: str(item[0]))
        listed: Dict[str, Any] = {}
        for name, entry in chosen:
            try:
                listed[name] = codec.encode(entry.listed(revision), revision)
                if name in added:
                    listed[name].update(added[name])
            except Exception as error:  # a provider, or an object that its author has changed, can raise anything
                self._leave_out(kind, name, error)
        page = jsonrpc.Encoded(self._finished_page({key: list(listed.values())}, after, kind, revision))
        try:
            page.text  # noqa: B018 - written now, so that one entry that is not JSON does not take the page with it
        except (TypeError, ValueError):
            for name, definition in list(listed.items()):
                try:
                    encode_json(definition)
                except (TypeError, ValueError) as error:
                    self._leave_out(kind, name, error)
                    del listed[name]
            page = jsonrpc.Encoded(self._finished_page({key: list(listed.values())}, after, kind, revision))
        return page

    def _finished_page(self, result: Dict[str, Any], after: Optional[str], kind: str, revision: Revision) -> Dict[str, Any]:
        if after is not None:
            result["nextCursor"] = after
        return self.stamp({**result, **self._hint(kind)}, revision) if revision.modern else result

    def _leave_out(self, kind: str, name: str, error: Exception) -> None:
        """Log that an entry is not listed, once for each."""
        if (kind, name) not in self._left_out and len(self._left_out) < _MOST_LEFT_OUT:
            self._left_out.add((kind, name))
            _log.error("the %s %.200r is left out of the list, since its definition cannot be sent: %s: %s", kind[:-1], name,
                       type(error).__name__, error)

    # --- what a caller sees -------------------------------------------------------------------------------

    def visible(self, granted: FrozenSet[str]) -> "Catalog":
        """Return the part of the catalog that a caller with these scopes sees, at present.

        Whatever a request asks of it is answered as by a server without the other entries: lists and their pages, names and
        URIs, the template that matches best, completions, and the names that errors suggest.
        """
        registry = self.registry
        if not registry.scoped:
            return self
        versions = tuple(map(registry.version, Registry.KINDS))
        known_scopes = self._scopes
        if known_scopes[0] != versions:
            known_scopes = self._scopes = versions, frozenset(registry.scopes())
        granted = granted & known_scopes[1]
        with self._lock:
            known = self._parts.get(granted)
            if known is not None and known[0] == versions:
                self._parts.move_to_end(granted)
                return known[1]
        part = _VisibleCatalog(self, granted)
        with self._lock:
            self._parts[granted] = versions, part
            self._parts.move_to_end(granted)
            if len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
        return part

    def hidden(self, target: "Target", granted: FrozenSet[str]) -> bool:
        """Whether what a request is about is hidden from a caller with these scopes."""
        return self.hides and not granted.issuperset(target.scopes)

    def resolve_for(self, method: str, params: Optional[Mapping[str, Any]], granted: FrozenSet[str]) -> "Target":
        """Return what a request is about, as a caller with these scopes sees it; see :meth:`resolve`."""
        target = self.resolve(method, params)
        return self.visible(granted).resolve(method, params) if self.hidden(target, granted) else target

    def needed(self, uri: str) -> Needed:
        """Return who may be told that the resource at a URI has changed."""
        found = self.find_resource(uri) if self.hides and self.registry.scoped else None
        return None if found is None else (found[0].scopes,)

    # --- targets ------------------------------------------------------------------------------------------

    def resolve(self, method: str, params: Optional[Mapping[str, Any]]) -> Target:
        """Look up what a request is about; its params are not validated yet."""
        registry, params = self.registry, params or {}
        handler = registry.methods.get(method)
        may_run_inline = handler is None and not self.middleware and not self.forwards_logs
        entry: Any = None
        kind = _KINDS.get(method)
        if kind is not None:
            name = params.get("name")
            entry = registry.kinds[kind].entries.get(name) if type(name) is str else None
            if entry is None and registry.providers:
                entry = registry.find_provided(kind, name)
            if entry is not None:
                target: Target = entry.target or _target_of(entry, params)
                if may_run_inline:
                    return target
                return Target(handler or target.custom_handler, entry, target.scopes, target.marks, False)
        scopes: Tuple[str, ...] = ()
        values: Optional[Mapping[str, Any]] = None
        if method == "resources/read" or method == "resources/subscribe":
            entry, values = self._find(params.get("uri")) or (None, None)
            scopes = () if entry is None else entry.scopes
            may_run_inline = may_run_inline and method == "resources/subscribe"
            if entry is not None and method == "resources/read":
                handler = handler or entry.handler
        elif method == "completion/complete" and (registry.scoped or registry.providers):
            completed = self._completed(params)
            scopes = tuple(scope for one in completed for scope in one.scopes)
            if completed and handler is None and completed[0].handler is not None:
                entry, handler = completed[0], completed[0].handler
        elif registry.scoped and method == "subscriptions/listen":
            scopes = self._listen_scopes(params)
        named = None if handler is None or self.extensions is None else self.extensions.names.get(method)
        return Target(handler, entry, scopes, (), may_run_inline, named, values)

    def _completed(self, params: Mapping[str, Any]) -> List[CatalogEntry]:
        """Return what has the argument that is completed: a prompt, or the template and the resource of one text."""
        reference = params.get("ref")
        if not isinstance(reference, dict):
            return []
        of_prompt = reference.get("type") == "ref/prompt"
        kinds, name = (("prompts",), reference.get("name")) if of_prompt else (("templates", "resources"), reference.get("uri"))
        if not isinstance(name, str):
            return []
        found = [entry for entry in (self.registry.get(kind, name) for kind in kinds) if entry is not None]
        provided = None if found else self.registry.find_provided(kinds[-1], name)
        return found if provided is None else [provided]

    def _listen_scopes(self, params: Mapping[str, Any]) -> Tuple[str, ...]:
        """Return the scopes of all resources that a ``subscriptions/listen`` names."""
        wanted = params.get("notifications")
        uris = wanted.get(RESOURCE_SUBSCRIPTIONS) if isinstance(wanted, dict) else None
        if not isinstance(uris, list) or len(uris) > MOST_URIS:
            return ()  # a longer list is refused
        found = map(self._find, dict.fromkeys(uri for uri in uris if isinstance(uri, str)))
        return tuple(dict.fromkeys(scope for one in found if one is not None for scope in one[0].scopes))

    def has_method(self, method: str, revision: Revision, identified: bool) -> bool:
        """Whether a method with a handler of its own exists for a client: one of an extension may depend on the client."""
        handler = None if self.extensions is None else self.registry.methods.get(method)
        exists = getattr(handler, "exists", None)
        return exists is None or bool(exists(revision, identified))

    def scopes(self, message: jsonrpc.Message) -> Tuple[str, ...]:
        """Return all scopes that a message needs, each once; a batch needs what all of its requests need (AUTH-12)."""
        items = message.items if type(message) is jsonrpc.Batch else [message]
        needed = (self.resolve(item.method, item.params).scopes for item in items if type(item) is jsonrpc.Request)
        return tuple(dict.fromkeys(scope for scopes in needed for scope in scopes))

    def _find(self, uri: Any) -> Optional[Tuple[CatalogEntry, Mapping[str, Any]]]:
        # A longer URI is refused later, and must not be matched against templates.
        return self.find_resource(uri) if isinstance(uri, str) and len(uri) <= self._longest_uri else None

    def find_resource(self, uri: str) -> Optional[Tuple[CatalogEntry, Mapping[str, Any]]]:
        """Return what reads *uri*, in any of its forms, with the values of a template's variables; None if there is nothing."""
        resources = self.registry.all("resources")
        entry, forms = resources.get(uri), [uri]
        if entry is None:
            from ...protocol.uris import candidates  # for URIs that are not as they are listed

            forms = candidates(uri)
            entry = resources.get(forms[0])
        if entry is not None:
            return entry, {}
        provided = self.registry.match(forms) or self.registry.find_provided("resources", uri)
        return (provided, {}) if isinstance(provided, CatalogEntry) else provided


def _target_of(entry: Any, params: Mapping[str, Any]) -> Target:
    """Return what requests for an entry are about; the entry keeps it, unless it depends on the params of this one."""
    scopes = entry.scopes if entry.call_scopes is None else entry.call_scopes(params)
    target = Target(entry.handler, entry, scopes, entry.marks, entry.may_run_inline)
    if entry.call_scopes is None:
        entry.target = target
    return target


class _VisibleCatalog(Catalog):
    """The part of a catalog that a caller sees; all but the entries, and the pages of them, is the whole catalog's.

    Lists are for this caller only, so that no cache may give them to another one (CACHE-05).
    """

    def __init__(self, whole: Catalog, granted: FrozenSet[str]) -> None:
        self._whole = whole
        self._pages = {}
        self.registry = whole.registry.visible(granted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def _hint(self, kind: str) -> Dict[str, Any]:
        return {**self._whole._hint(kind), "cacheScope": "private"}

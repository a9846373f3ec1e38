"""Server: the registry and its decorators; it owns no connection."""

import copy
import logging
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from ..errors import RegistrationError
from ..protocol import codec, jsonrpc, paging
from ..protocol.envelope import SERVER_INFO
from ..revisions import REVISIONS, Revision
from ..types import (
    Annotations,
    DiscoverResult,
    Icon,
    Implementation,
    InitializeResult,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
    ToolAnnotations,
)
from ..version import __version__
from .catalog.checks import bearer_auth, checked_extensions, checked_hints, checked_key, decoded_icons, find_marks
from .catalog.hints import CacheHint
from .catalog.registry import Found, PromptEntry, Registry, ResourceEntry, TemplateEntry, ToolEntry, check_name, checked_meta
from .functions.function import compile_function
from .handling.context import Context
from .limits import Limits
from .runtime.runtime import Serving
from .scopes import registered_scopes
from .sessions.legacy import LegacySession

if TYPE_CHECKING:
    from ..protocol.http.routing_headers import Mark
    from .auth.bearer import BearerAuth, Verifier
    from .runtime.states import States, StoredState
    from .transports.wsgi import WSGIApp

__all__ = ["Server"]

F = TypeVar("F", bound=Callable[..., Any])
Scopes = Union[str, Iterable[str]]
Middleware = Callable[[Context, Callable[[], Dict[str, Any]]], Dict[str, Any]]


class Server(Serving):
    """A collection of tools, resources and prompts that any number of clients can use.

    The decorators give the function back unchanged. Registering and removing is possible at any time
    from any thread; connected clients are told.

    :param name: how the server calls itself.
    :param version: of the server; by default that of this package.
    :param title: its name for people (from June 2025 on).
    :param description: what it is (from November 2025 on).
    :param instructions: how a model should use it.
    :param website_url: where to read about it (from November 2025 on).
    :param icons: as :class:`Icon` objects or dicts (from November 2025 on).
    :param lifespan: a callable that takes the server and returns a context manager; it is entered before
        the first client is served and left after the last, and its value is ``ctx.lifespan``.
    :param page_size: entries on one page of a list; default 1000.
    :param declare: kinds ("tools", "resources", "prompts") that are declared to clients although nothing
        of the kind is registered yet.
    :param experimental: experimental capabilities, passed on untouched.
    :param middleware: callables ``(ctx, proceed)`` around every request, first one outermost: the place
        for access control, rate limits and filters on results (TOOL-34 to TOOL-36). Raise to refuse.
    :param mask_errors: keeps the text of a tool's exceptions from the client; they are logged only.
    :param limits: every bound, see :class:`Limits`.
    :param on_roots_changed: called with the session when a client says that its roots have changed.
    :param fleet: several processes serve this name together over HTTP, and a client's requests reach any of them; what is
        known of a client travels with it, signed. Handlers that ask start anew with each answer (see
        :meth:`Context.once`), and cannot ask clients of the handshake era.
    :param state_keys: secrets of at least 16 bytes that all of them share; the first signs, all verify, so that a
        key can be replaced without a break.
    :param state_store: keeps what handlers of a fleet have noted, in place of letting it travel; see :class:`StoredState`.
    :param era: "legacy" serves only clients that begin with a handshake, "modern" only those that do not; None, the
        default, serves both.
    :param cache: how long clients may keep lists and resources; by default not at all.
    :param cache_lists: the same for "tools", "prompts", "resources", "templates" or "discover" alone.
    :param extensions: the extensions of the protocol that the server supports, with their settings, by identifiers such as
        ``com.example/charts``; what they add is registered with :meth:`add_method`.
    :param auth: who may call over HTTP: a :class:`BearerAuth`, or just what verifies a token, such as
        :class:`StaticTokens`. By default everybody who can reach the server.
    :param debug: logs every message, as in :func:`mcplite.connect`.
    :raises RegistrationError: the name is empty, or an option cannot be used.
    """

    def __init__(self, name: str, *, version: Optional[str] = None, title: Optional[str] = None,
                 description: Optional[str] = None, instructions: Optional[str] = None,
                 website_url: Optional[str] = None, icons: Optional[Sequence[Union[Icon, Dict[str, Any]]]] = None,
                 lifespan: "Optional[Callable[[Server], ContextManager[Any]]]" = None, page_size: int = 1000,
                 declare: Sequence[str] = (), experimental: Optional[Dict[str, Any]] = None,
                 middleware: Sequence[Middleware] = (), mask_errors: bool = False, limits: Optional[Limits] = None,
                 on_roots_changed: Optional[Callable[[LegacySession], object]] = None,
                 fleet: bool = False, state_keys: Sequence[Union[str, bytes]] = (),
                 state_store: "Optional[StoredState]" = None, era: Optional[str] = None, cache: Optional[CacheHint] = None,
                 cache_lists: Optional[Mapping[str, CacheHint]] = None, extensions: Optional[Dict[str, Any]] = None,
                 auth: "Union[None, BearerAuth, Verifier]" = None, debug: Union[None, bool, str] = None) -> None:
        check_name("server", name)
        super().__init__(limits or Limits(), lifespan, debug)
        if page_size < 1:
            raise RegistrationError(f"page_size must be at least 1, not {page_size!r}")
        self.info = Implementation(name=name, version=version or __version__, title=title, description=description,
                                   website_url=website_url, icons=decoded_icons(icons))
        self.instructions = instructions
        #: Read when an endpoint is made.
        self.auth = bearer_auth(auth)
        if fleet and not state_keys:
            raise RegistrationError("fleet=True needs state_keys=[...]: secrets that all processes share; make one with"
                                    " python -c 'import secrets; print(secrets.token_hex(32))'")
        self.fleet = fleet
        self.state_keys = [checked_key(key) for key in state_keys]
        if state_store is not None and not fleet:
            raise RegistrationError("state_store= is for a fleet=True; one process keeps what its handlers wait for itself")
        self._state_store = state_store
        self._states: "Optional[States]" = None
        if era not in (None, "legacy", "modern"):
            raise RegistrationError(f"era is 'legacy', 'modern' or None for both, not {era!r}")
        #: What is spoken, oldest first.
        self.revisions: Tuple[Revision, ...] = tuple(
            revision for revision in REVISIONS if era is None or revision.modern == (era == "modern"))
        self.speaks_legacy, self.speaks_modern = era != "modern", era != "legacy"
        #: What only clients without a handshake ask.
        self.modern_methods = frozenset(REVISIONS[-1].client_requests).difference(
            *(revision.client_requests for revision in REVISIONS if not revision.modern))
        self._forwards_logs = False
        self._cache = cache or CacheHint()
        self._cache_lists = checked_hints(cache_lists or {})
        self._extensions = checked_extensions(extensions)
        self.middleware: Tuple[Middleware, ...] = tuple(middleware)
        self.mask_errors = mask_errors
        self.registry = Registry(self._changed)
        for kind in declare:
            if kind not in ("tools", "resources", "prompts"):
                raise RegistrationError(f"declare={kind!r}: only 'tools', 'resources' and 'prompts' can be declared")
            self.registry.declare(kind)
        self._page_size = page_size
        self._experimental = experimental
        self._on_roots_changed = on_roots_changed
        #: Guarded by the lock of the serving half, as is the next one.
        self._pages: Dict[Tuple[str, Optional[str], str, int], Any] = {}
        self._identities: Dict[str, Dict[str, Any]] = {}

    @property
    def name(self) -> str:
        """How the server calls itself."""
        return self.info.name

    def __repr__(self) -> str:
        return f"<Server {self.name!r}>"

    # --- tools ------------------------------------------------------------------------------------

    def tool(self, name: Optional[str] = None, **options: Any) -> Callable[[F], F]:
        """Register the decorated function as a tool; takes the keywords of :meth:`add_tool`."""
        return self._decorator("tool", self.add_tool, name, options)

    def add_tool(self, function: Callable[..., Any], *, name: Optional[str] = None, title: Optional[str] = None,
                 description: Optional[str] = None, input_schema: Optional[Dict[str, Any]] = None,
                 output_schema: Optional[Dict[str, Any]] = None, structured_output: Optional[bool] = None,
                 annotations: Union[None, ToolAnnotations, Dict[str, Any]] = None,
                 icons: Optional[Sequence[Union[Icon, Dict[str, Any]]]] = None,
                 meta: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None, scopes: Scopes = ()) -> None:
        """Register *function* as a tool.

        :param name: by default the function's.
        :param title: a name for people.
        :param description: for the model; by default the docstring's text.
        :param input_schema: a JSON Schema of the arguments, in place of the annotations.
        :param output_schema: a JSON Schema of the structured result, in place of the return annotation.
        :param structured_output: False sends text only; True insists on structured content; None decides
            by the return annotation.
        :param annotations: hints such as ``{"readOnlyHint": True}``.
        :param meta: the definition's ``_meta``.
        :param timeout: seconds that one call may run; it stands still while the tool waits for an answer.
        :param scopes: what a caller over HTTP must have, besides what every request needs; on a pipe there are none.
        :raises RegistrationError: the function cannot be served, or the name is taken.
        """
        compiled = compile_function(function, name=name, description=description, input_schema=input_schema,
                                    output_schema=output_schema, structured_output=structured_output, kind="tool")
        label = check_name("tool", compiled.name)
        if timeout is not None and timeout <= 0:
            raise RegistrationError(f"tool {label!r}: timeout must be positive, not {timeout!r}")
        if isinstance(annotations, dict):
            annotations = codec.decode(ToolAnnotations, annotations)
        tool = Tool(name=label, input_schema={}, title=title, description=description,
                    annotations=annotations, icons=decoded_icons(icons), meta=checked_meta(meta, f"tool {label!r}"))
        self.registry.add("tools", label, ToolEntry(tool, compiled, timeout, find_marks(compiled, f"tool {label!r}"),
                                                    registered_scopes(scopes, f"tool {label!r}")))

    def remove_tool(self, name: str) -> None:
        """Take a tool out; clients are told.

        :raises KeyError: there is none of this name.
        """
        self.registry.remove("tools", name)

    # --- resources --------------------------------------------------------------------------------

    def resource(self, uri: str, **options: Any) -> Callable[[F], F]:
        """Register the decorated function as the reader of *uri*; takes the keywords of :meth:`add_resource`."""

        def register(function: F) -> F:
            self.add_resource(uri, function, **options)
            return function

        if not isinstance(uri, str):
            raise RegistrationError("@resource needs a URI: write @mcp.resource('config://settings')")
        return register

    def add_resource(self, uri: str, function: Callable[..., Any], *, name: Optional[str] = None,
                     title: Optional[str] = None, description: Optional[str] = None, mime_type: Optional[str] = None,
                     size: Optional[int] = None, annotations: Union[None, Annotations, Dict[str, Any]] = None,
                     icons: Optional[Sequence[Union[Icon, Dict[str, Any]]]] = None,
                     meta: Optional[Dict[str, Any]] = None, cache: Optional[CacheHint] = None,
                     scopes: Scopes = ()) -> None:
        """Register *function* as the reader of a URI, or of every URI that a template matches.

        A URI with ``{variables}`` (RFC 6570) is a template, and the function gets their values.

        :param uri: such as ``config://settings`` or ``weather://{city}/history{?year}``.
        :param mime_type: of the contents; by default text/plain for text, application/json for data.
        :param size: bytes of the content, when known.
        :param cache: how long clients may keep it; by default as the server says.
        :param scopes: what a caller over HTTP must have to read it, or to be told of its changes.
        :raises RegistrationError: the URI is none, its variables are not the function's parameters, or it is taken.
        """
        compiled = compile_function(function, name=name, description=description, kind="resource")
        label = check_name("resource", name or compiled.name)
        what = f"resource {uri!r}"
        scheme, colon, _ = uri.partition(":")
        if not colon or not scheme[:1].isalpha():
            raise RegistrationError(f"{what}: a resource URI needs a scheme, as in 'config://settings' (RSRC-26)")
        if isinstance(annotations, dict):
            annotations = codec.decode(Annotations, annotations)
        common: Dict[str, Any] = dict(
            name=label, title=title, description=compiled.description, mime_type=mime_type,
            annotations=annotations, icons=decoded_icons(icons), meta=checked_meta(meta, what))
        parameters = [parameter for parameter, _, _ in compiled.parameters]
        needed = registered_scopes(scopes, what)
        if "{" not in uri:
            if any(required for _, required, _ in compiled.parameters):
                raise RegistrationError(f"{what}: its reader takes {parameters}, which the URI does not have;"
                                        f" write them into it, as in '{uri}/{{{parameters[0]}}}'")
            self.registry.add("resources", uri, ResourceEntry(Resource(uri=uri, size=size, **common), compiled, cache, needed))
            return
        from ..protocol.uritemplate import Template  # for servers that have templates

        try:
            pattern = Template(uri)
        except ValueError as error:
            raise RegistrationError(f"{what}: {error}") from error
        missing = [parameter for parameter, required, _ in compiled.parameters
                   if required and parameter not in pattern.names]
        unknown = [variable for variable in pattern.names if variable not in parameters] if parameters or pattern.names else []
        if missing or unknown:
            raise RegistrationError(f"{what}: its variables are {list(pattern.names)}, its reader's parameters"
                                    f" {parameters}; they must be the same")
        template = ResourceTemplate(uri_template=uri, **common)
        self.registry.add("templates", uri, TemplateEntry(template, pattern, compiled, cache, needed))

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template out; clients are told.

        :raises KeyError: there is none at this URI.
        """
        self.registry.remove("templates" if "{" in uri else "resources", uri)

    def add_directory(self, uri: str, path: str, *, name: Optional[str] = None, title: Optional[str] = None,
                      description: Optional[str] = None, scopes: Scopes = ()) -> None:
        """Serve the files below a directory; nothing outside of it can be reached (RSRC-23).

        :param uri: what the directory is called, such as ``file:///srv/maps``.
        :param path: where it is.
        :param scopes: what a caller over HTTP must have to read one.
        :raises RegistrationError: it is no directory, or the URI is taken.
        """
        from .catalog.directory import Directory

        directory = Directory(uri, path)
        template = uri.rstrip("/") + "/{+path}"
        self.add_resource(template, directory.read, name=name or directory.name, title=title,
                          description=description or f"Files below {uri}", scopes=scopes)

    def resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to *uri*, or listens to it, that it has changed; callable from any thread."""
        for session in self.sessions:
            session.publish("notifications/resources/updated", {"uri": uri}, "resources")
        self.listeners.publish("notifications/resources/updated", uri)

    # --- prompts and completion -------------------------------------------------------------------

    def prompt(self, name: Optional[str] = None, **options: Any) -> Callable[[F], F]:
        """Register the decorated function as a prompt; takes the keywords of :meth:`add_prompt`."""
        return self._decorator("prompt", self.add_prompt, name, options)

    def add_prompt(self, function: Callable[..., Any], *, name: Optional[str] = None, title: Optional[str] = None,
                   description: Optional[str] = None, icons: Optional[Sequence[Union[Icon, Dict[str, Any]]]] = None,
                   meta: Optional[Dict[str, Any]] = None, scopes: Scopes = ()) -> None:
        """Register *function* as a prompt; it returns a text, messages, or a ``GetPromptResult``.

        :param scopes: what a caller over HTTP must have to get it.
        :raises RegistrationError: the function cannot be served, or the name is taken.
        """
        compiled = compile_function(function, name=name, description=description, kind="prompt")
        label = check_name("prompt", compiled.name)
        arguments = [PromptArgument(name=parameter, required=required, description=text)
                     for parameter, required, text in compiled.parameters]
        prompt = Prompt(name=label, title=title, description=compiled.description, arguments=arguments or None,
                        icons=decoded_icons(icons), meta=checked_meta(meta, f"prompt {label!r}"))
        self.registry.add("prompts", label, PromptEntry(prompt, compiled, registered_scopes(scopes, f"prompt {label!r}")))

    def remove_prompt(self, name: str) -> None:
        """Take a prompt out; clients are told.

        :raises KeyError: there is none of this name.
        """
        self.registry.remove("prompts", name)

    def completion(self, *, argument: str, prompt: Optional[str] = None,
                   resource: Optional[str] = None) -> Callable[[F], F]:
        """Register the decorated function as what completes one argument.

        It takes the value so far and, if it has a second parameter, the arguments that are filled in
        already; it returns the values, best first, of which a client gets at most a hundred.

        :param argument: of the prompt, or variable of the template.
        :param prompt: the prompt's name; or
        :param resource: the template.
        :raises RegistrationError: not exactly one of *prompt* and *resource*, or there is one already.
        """
        if (prompt is None) == (resource is None):
            raise RegistrationError("completion needs prompt='name' or resource='template', not both")

        def register(function: F) -> F:
            compiled = compile_function(function, kind="completion")
            if len(compiled.parameters) > 2:
                raise RegistrationError(f"the completion {compiled.name!r} takes {len(compiled.parameters)} parameters;"
                                        f" it gets the value and, as the second, the other arguments")
            kind, name = ("prompt", prompt) if prompt is not None else ("resource", resource)
            self.registry.add_completion(kind, str(name), argument, compiled)
            return function

        return register

    # --- methods of one's own -----------------------------------------------------------------------

    def method(self, method: str) -> Callable[[F], F]:
        """Register the decorated function as the handler of *method*; see :meth:`add_method`."""

        def register(function: F) -> F:
            self.add_method(method, function)
            return function

        return register

    def add_method(self, method: str, handler: Callable[[Dict[str, Any], Context], Any]) -> None:
        """Answer *method* with ``handler(params, ctx)``, which returns an object; it may take the place of ours.

        :raises RegistrationError: *method* is no text, or part of the handshake.
        """
        if not isinstance(method, str) or not method or method in ("initialize", "ping"):
            raise RegistrationError(f"{method!r} cannot be handled: 'initialize' and 'ping' are the library's")
        self.registry.add_method(method, handler)

    def add_notification(self, method: str, handler: Callable[[Dict[str, Any], Optional[LegacySession]], object]) -> None:
        """Call ``handler(params, session)`` on a worker thread for each notification *method*.

        The session is None for a notification that belongs to none.
        """
        self.registry.add_notification(method, handler)

    def logging_handler(self, level: int = logging.NOTSET) -> logging.Handler:
        """Return a ``logging.Handler`` that forwards Python log records to the client.

        A record made while a handler serves a request goes to that request's client; any other to all whom no principal
        is known of, since it may be about the request of another one.
        """
        from .handling.logs import ClientLogHandler
        self._forwards_logs = True
        return ClientLogHandler(self, level)

    # --- serving ----------------------------------------------------------------------------------------

    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client leaves (stdio) or the process is told to stop.

        :param transport: "stdio" or "streamable-http".
        :param options: for HTTP those of :class:`HTTPServer`, among them ``host``, ``port`` and ``path``.
        :raises ValueError: the transport is unknown, or an option is not written right.
        :raises RuntimeError: stdin and stdout are taken by another server in this process.
        :raises OSError: the port is taken.
        """
        if transport == "stdio":
            from .transports.stdio import serve

            serve(self, **options)
        elif transport == "streamable-http":
            from .transports.httpd import serve_http

            serve_http(self, **options)
        else:
            raise ValueError(f"unknown transport {transport!r}; use 'stdio' or 'streamable-http'")

    def wsgi(self, path: str = "", **options: Any) -> "WSGIApp":
        """Return a WSGI callable that serves this server.

        :param path: of the endpoint below where the application is mounted.
        :param options: those of :class:`Exchange`.
        """
        from .transports.wsgi import WSGIApp

        return WSGIApp(self, path=path, **options)

    # --- what sessions and dispatch ask ---------------------------------------------------------------

    def offers(self, area: str) -> bool:
        """Whether "tools", "resources" or "prompts" are declared to a client that comes now."""
        return self.registry.declared(area) or (area == "resources" and self.registry.declared("templates"))

    def describe(self, revision: Revision, lasting: bool = True) -> Dict[str, Any]:
        """Return the encoded result of ``initialize``.

        :param lasting: whether there is a session: without one there is no news, and no log level is remembered.
        """
        result = InitializeResult(protocol_version=revision.name, capabilities=self._capabilities(lasting),
                                  server_info=self.info, instructions=self.instructions)
        return codec.encode(result, revision)  # type: ignore[no-any-return]

    def discover(self, revision: Revision) -> Dict[str, Any]:
        """Return the encoded result of ``server/discover`` (DISC-03)."""
        result = DiscoverResult(supported_versions=[known.name for known in reversed(self.revisions)],
                                capabilities=self._capabilities(True), instructions=self.instructions)
        return self.stamped({**codec.encode(result, revision), **self._hint("discover")}, revision)

    def _capabilities(self, lasting: bool) -> ServerCapabilities:
        news = {"listChanged": True} if lasting else {}
        return ServerCapabilities(
            experimental=self._experimental, logging={} if lasting else None,
            completions={} if self.registry.has_completions else None,
            tools=news if self.offers("tools") else None,
            prompts=news if self.offers("prompts") else None,
            resources=({"subscribe": True, **news} if lasting else {}) if self.offers("resources") else None,
            extensions=self._extensions)

    def serves(self, method: str) -> bool:
        """Whether a method of a modern revision exists here; one behind a capability that is not declared does not."""
        area = method.partition("/")[0]
        if area == "completion":
            return self.registry.has_completions
        return area in ("server", "subscriptions") or self.offers(area)

    def stamped(self, result: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
        """Return the result of a modern request with what each of them carries (STAT-06, STAT-10); changes it."""
        identity = self._identities.get(revision.name)
        if identity is None:
            identity = codec.encode(self.info, revision)
            with self._lock:
                self._identities = {**self._identities, revision.name: identity}
        result.setdefault("resultType", "complete")
        result["_meta"] = {**(result.get("_meta") or {}), SERVER_INFO: identity}
        return result

    def _hint(self, kind: str) -> Dict[str, Any]:
        return self._cache_lists.get(kind, self._cache).members()

    def hint_for(self, own: Optional[CacheHint]) -> CacheHint:
        """Return the hint for a resource that may have one of its own."""
        return own or self._cache

    @property
    def states(self) -> "States":
        """What makes and reads the states of handlers that ask, in a fleet."""
        if self._states is None:
            from .runtime.states import States

            self._states = States(self.state_keys, self.name, self.limits.waiting_seconds, self._state_store)
        return self._states

    def listing(self, kind: str, key: str, cursor: Optional[str], revision: Revision) -> Any:
        """Return one page of a list; pages are kept, encoded, until the registry changes.

        :raises InvalidParams: the cursor is not one of this list's (PAGE-09, PAGE-10).
        """
        place = (kind, cursor, revision.name, self.registry.version(kind))
        page = self._pages.get(place)
        if page is None:
            entries = list(self.registry.all(kind).items())
            chosen, after = paging.page(entries, cursor, self._page_size, kind, key=lambda item: str(item[0]))
            result: Dict[str, Any] = {key: [codec.encode(entry.listed(revision), revision) for _, entry in chosen]}
            if after is not None:
                result["nextCursor"] = after
            if revision.modern:
                result = self.stamped({**result, **self._hint(kind)}, revision)
            page = jsonrpc.Encoded(result)
            with self._lock:
                # An old version's pages are never asked for again; a handful of cursors is worth keeping.
                self._pages = {at: kept for at, kept in self._pages.items() if at[0] != kind or at[3] == place[3]}
                if len(self._pages) < 256:
                    self._pages[place] = page
        # Middleware reads and changes results, and must neither meet text nor what is kept.
        return copy.deepcopy(page.value) if self.middleware else page

    def find_resource(self, uri: str) -> Optional[Found]:
        """Return what reads *uri*; None when there is nothing."""
        entry = self.registry.get("resources", uri)
        if entry is not None:
            return Found(entry.function, {}, entry.resource.mime_type, self.hint_for(entry.cache), entry.scopes)
        match = self.registry.match(uri)
        if match is None:
            return None
        template, values = match
        return Found(template.function, values, template.template.mime_type, self.hint_for(template.cache), template.scopes)

    def marks(self, name: Any) -> "Sequence[Mark]":
        """Return the marked parameters of a tool; none for a name that is no tool's."""
        entry = self.registry.get("tools", name) if isinstance(name, str) else None
        return () if entry is None else entry.marks

    def runs_inline(self, method: str, params: Optional[Dict[str, Any]]) -> bool:
        """Whether a handler may run on the thread of an HTTP request: it can neither say nor ask anything meanwhile."""
        if self.middleware or self._forwards_logs or self.registry.method(method) is not None:
            return False
        name = (params or {}).get("name")
        found: Any = None
        if method == "resources/read":
            return False
        if method == "tools/call" and isinstance(name, str):
            entry = self.registry.get("tools", name)
            if entry is not None and entry.timeout is not None:
                return False
            found = None if entry is None else entry.function
        elif method == "prompts/get" and isinstance(name, str):
            entry = self.registry.get("prompts", name)
            found = None if entry is None else entry.function
        return found is None or (found.wants_context is None and not found.questions)

    def roots_changed(self, session: LegacySession) -> None:
        """Pass a client's roots change on to the user's callback, on a worker."""
        callback = self._on_roots_changed
        if callback is not None:
            self.workers.submit(lambda: callback(session))

    def _changed(self, kind: str) -> None:
        for session in self.sessions:
            session.publish(f"notifications/{kind}/list_changed", None, kind)
        self.listeners.publish(f"notifications/{kind}/list_changed")

    def _decorator(self, kind: str, add: Callable[..., None], name: Optional[str], options: Dict[str, Any]
                   ) -> Callable[[F], F]:
        if callable(name):
            raise RegistrationError(f"write @mcp.{kind}() with parentheses")

        def register(function: F) -> F:
            add(function, name=name, **options)
            return function

        return register

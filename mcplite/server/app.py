"""Server: register, configure, serve. A facade over the catalog and the runtime; nothing below imports it.

``Server.run`` loads only the transport that it is given, and blocks; ``serve`` serves over HTTP on background threads, for
programs and tests that do something else meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

from .. import types
from ..errors import RegistrationError
from ..revisions import REVISIONS, Revision
from ..rpc.interfaces import Channel
from ..rpc.peer import Peer
from ..types.wrong_keywords import explains_keywords
from ..version import __version__
from .catalog.catalog import Catalog, Description, read_capabilities
from .catalog.entries import (
    check_hint,
    checked_icons,
    checked_list,
    checked_object,
    checked_uri,
    completer,
    directory_entries,
    prompt_arguments,
    prompt_entry,
    resource_entry,
    tool_entry,
    with_tags,
)
from .catalog.registry import MountableClient, MountableGroup, Provider, Registry, check_name
from .functions.function import compile_function
from .functions.signature import StructuredOutput, checked_text, decorated, name_of
from .handling.context import Context
from .limits import Limits
from .runtime.processes import create_fleet
from .runtime.runtime import OpenSession, Runtime
from .server_options import (
    ServerOptions,
    check_lifespan,
    check_not_of_extension,
    checked_extensions,
    checked_function,
    checked_hints,
    checked_limits,
    checked_middleware,
    checked_options,
)
from .sessions.legacy import serve_channel

if TYPE_CHECKING:
    import logging
    import os

    from ..backend.interface import Backend
    from ..rpc.extension import Extension
    from .catalog.cache_hints import CacheHint
    from .http.access import Authorizer
    from .http.endpoint import Route
    from .principals import Principal, Verifier
    from .runtime.observer import ServerObserver
    from .sessions.legacy import LegacySession
    from .transports.connection import Connection
    from .transports.httpd import HTTPServer
    from .transports.tls import KeyPassword
    from .transports.wsgi import WSGIApp

    Tags = Iterable[str]
    ToolChange = Mapping[str, Any]
    Scopes = Union[str, Iterable[str]]
    Icons = Optional[Sequence[Union[types.Icon, Dict[str, Any]]]]
    Meta = Optional[Dict[str, Any]]
    PromptArguments = Optional[Sequence[Union[types.PromptArgument, Dict[str, Any]]]]
    Extensions = Union[None, Mapping[str, Dict[str, Any]], Sequence[Extension]]
    Middleware = Callable[[Context, Callable[[], Dict[str, Any]]], Dict[str, Any]]

__all__ = ["Server", "serve", "run_transport"]

F = TypeVar("F", bound=Callable[..., Any])


def _authorizer(given: "Union[None, Authorizer, Verifier]") -> "Optional[Authorizer]":
    """Return the authorizer for ``auth=``: itself, or one that is made around a verifier; None for None.

    :raises RegistrationError: it is neither an authorizer nor a verifier.
    """
    if given is None:
        return None
    from .http.access import Authorizer

    if isinstance(given, Authorizer):
        return given
    from ..rooms import load

    try:
        return load("auth=")(given)  # type: ignore[no-any-return]  # auth.verify.bearer_auth.BearerAuth
    except ValueError as error:
        raise RegistrationError(f"auth=: {error}") from error



class Server:
    """A collection of tools, resources and prompts that any number of clients can use.

    The decorators return the function unchanged. Registering and removing is possible at any time
    from any thread; connected clients are notified.

    :param name: of the server, for clients.
    :param version: of the server; by default that of this package.
    :param title: its name for people (from June 2025 on).
    :param description: what it is (from November 2025 on).
    :param instructions: how a model should use it.
    :param website_url: where to read about it (from November 2025 on).
    :param icons: as :class:`Icon` objects or dicts (from November 2025 on).
    :param lifespan: a callable that takes the server and returns a context manager; it is entered before
        the first client is served and left after the last, and its value is ``ctx.lifespan``.
    :param middleware: callables ``(ctx, proceed)`` around every request, the first one outermost: the place
        for access control, rate limits and filters on results (TOOL-34 to TOOL-36). Raise to refuse.
    :param limits: all limits, see :class:`Limits`.
    :param auth: authentication over HTTP: a :class:`BearerAuth`, or a token verifier such as :class:`StaticTokens`.
    :param backend: what several processes share, as a URL (see :func:`open_backend`) or a backend; by default the
        variable MCPLITE_BACKEND. It implies a fleet, keeps sessions and states of calls, and notifies the processes of changes.
    :param fleet: several processes serve this name together over HTTP, and a client's requests reach any of them. The
        state of a client travels with it, signed. A handler that asks is called again with each answer (see
        :meth:`Context.once`), and without a backend it cannot ask clients that begin with a handshake.
    :param state_keys: secrets of at least 16 bytes that all processes share; the first signs, all verify, so that a
        key can be replaced without an interruption. By default those of MCPLITE_STATE_KEYS, with commas between them.
    :param extensions: the extensions of the protocol that the server supports: a list of objects, see
        :class:`mcplite.extend.Extension`; or their settings, by identifiers such as ``com.example/charts``, if what they add
        is registered with :meth:`add_method`.
    :param cache: how long clients may keep lists and resources; by default not at all.
    :param on_duplicate: what happens if a name is registered again: "error" refuses the new entry, "replace" puts it in the
        place of the old one, and "warn" does so with a warning in the log. In an interactive session, a function that is
        defined again replaces itself in any case.
    :param mask_errors: hides the text of a tool's exceptions from the client; they are only logged.
    :param debug: logs every message, as in :func:`mcplite.connect`.
    :param options: a :class:`ServerOptions`, with the options that few programs set, such as ``page_size``, ``capabilities`` or
        ``on_subscribe``.
    :raises RegistrationError: the name is empty, or an option cannot be used.
    """

    @explains_keywords("Server", options=ServerOptions, limits=Limits)
    def __init__(self, name: str, *, version: Optional[str] = None, title: Optional[str] = None,
                 description: Optional[str] = None, instructions: Optional[str] = None, website_url: Optional[str] = None,
                 icons: Icons = None, lifespan: "Optional[Callable[[Server], ContextManager[Any]]]" = None,
                 middleware: Sequence[Middleware] = (), limits: Optional[Limits] = None,
                 auth: "Union[None, Authorizer, Verifier]" = None, backend: "Union[None, str, Backend]" = None,
                 fleet: bool = False, state_keys: Sequence[Union[str, bytes]] = (),
                 extensions: Extensions = None, cache: "Optional[CacheHint]" = None,
                 on_duplicate: str = "error", mask_errors: bool = False, debug: Union[None, bool, str] = None,
                 options: Optional[ServerOptions] = None) -> None:
        name = check_name("server", checked_text(name, "the server", "name"))
        what = f"server {name!r}"
        options = checked_options(options, what)
        limits = checked_limits(limits, what)
        if cache is not None:
            check_hint(cache, f"{what}: cache=")
        check_lifespan(lifespan, what)
        #: The registered tools, resources, prompts, completions and methods.
        self.registry = Registry(lambda kind, needed: self.runtime.list_changed(kind, needed, always=False),
                                 on_duplicate)
        flags, named = read_capabilities(options.capabilities)
        described = Description(
            types.Implementation(
                name=name, version=checked_text(version, what, "version") or __version__,
                title=checked_text(title, what, "title"), description=checked_text(description, what, "description"),
                website_url=checked_text(website_url, what, "website_url"), icons=checked_icons(icons, what)),
            checked_text(instructions, what, "instructions"), checked_object(options.experimental, what, "experimental"),
            flags)
        spoken = [revision for revision in REVISIONS if options.era is None or revision.modern == (options.era == "modern")]
        catalog = Catalog(self.registry, described, spoken, options.page_size, limits.uri,
                          checked_middleware(middleware, what), cache, checked_hints(options.cache_lists or {}),
                          options.hide_unauthorized)
        #: What sessions, endpoints and transports share.
        self.runtime = Runtime(
            catalog, limits, None if lifespan is None else functools.partial(lifespan, self),
            options.on_roots_changed, mask_errors, _authorizer(auth),
            create_fleet(fleet, state_keys, backend), debug)
        self._trusted_patterns, self.runtime.tasks = options.trusted_patterns, options.tasks
        if extensions:
            for extension in checked_extensions(extensions, what):
                self.runtime.add_extension(extension)
        if options.on_subscribe is not None:
            self.runtime.count_subscriptions(options.on_subscribe)
        for kind in (*checked_list(options.declare, what, "declare", "['tools']"), *named):
            self.registry.declare(kind)

    @property
    def name(self) -> str:
        """The server's name, for clients."""
        return self.info.name

    @property
    def info(self) -> types.Implementation:
        """The server's name, version, title and so on, for clients."""
        return self.runtime.catalog.description.info

    @property
    def instructions(self) -> Optional[str]:
        """How a model should use the server."""
        return self.runtime.catalog.description.instructions

    @instructions.setter
    def instructions(self, text: Optional[str]) -> None:
        self.runtime.catalog.change_description(instructions=checked_text(text, f"server {self.name!r}", "instructions"))

    @property
    def limits(self) -> Limits:
        """The limits."""
        return self.runtime.limits

    @property
    def revisions(self) -> Tuple[Revision, ...]:
        """The supported revisions, oldest first."""
        return self.runtime.catalog.revisions

    @property
    def fleet(self) -> bool:
        """Whether several processes serve this name together."""
        return self.runtime.fleet is not None

    @property
    def auth(self) -> "Optional[Authorizer]":
        """Authentication over HTTP; read when an endpoint is created."""
        return self.runtime.auth  # type: ignore[no-any-return]

    @auth.setter
    def auth(self, auth: "Union[None, Authorizer, Verifier]") -> None:
        self.runtime.auth = _authorizer(auth)

    @property
    def debug(self) -> Union[None, bool, str]:
        """Whether every message is logged."""
        return self.runtime.debug

    @debug.setter
    def debug(self, debug: Union[None, bool, str]) -> None:
        self.runtime.debug = debug

    def __repr__(self) -> str:
        return f"<Server {self.name!r}>"

    # --- tools ------------------------------------------------------------------------------------

    @overload
    def tool(self, name: F) -> F: ...

    @overload
    def tool(self, name: Optional[str] = None, *, title: Optional[str] = None, description: Optional[str] = None,
             input_schema: Optional[Dict[str, Any]] = None, output_schema: Optional[Dict[str, Any]] = None,
             structured_output: StructuredOutput = None, annotations: Union[None, types.ToolAnnotations, Dict[str, Any]] = None,
             icons: Icons = None, meta: Meta = None, timeout: Optional[float] = None, restartable: bool = False,
             trusted_patterns: Optional[bool] = None, task: str = "forbidden", scopes: Scopes = (),
             tags: Tags = ()) -> Callable[[F], F]: ...

    def tool(self, name: Union[None, str, Callable[..., Any]] = None, *, title: Optional[str] = None,
             description: Optional[str] = None, input_schema: Optional[Dict[str, Any]] = None,
             output_schema: Optional[Dict[str, Any]] = None, structured_output: StructuredOutput = None, icons: Icons = None,
             annotations: Union[None, types.ToolAnnotations, Dict[str, Any]] = None, meta: Meta = None, scopes: Scopes = (),
             timeout: Optional[float] = None, trusted_patterns: Optional[bool] = None, task: str = "forbidden",
             restartable: bool = False, tags: Tags = ()) -> Any:
        """Register the decorated function as a tool; parentheses are optional. Takes the keywords of :meth:`add_tool`."""
        return decorated(name, lambda function, name: self.add_tool(
            function, name=name, title=title, description=description, input_schema=input_schema,
            output_schema=output_schema, structured_output=structured_output, annotations=annotations, icons=icons,
            meta=meta, timeout=timeout, scopes=scopes, trusted_patterns=trusted_patterns, task=task, restartable=restartable,
            tags=tags))

    def add_tool(self, function: Callable[..., Any], *, name: Optional[str] = None, title: Optional[str] = None,
                 description: Optional[str] = None, input_schema: Optional[Dict[str, Any]] = None,
                 output_schema: Optional[Dict[str, Any]] = None, structured_output: StructuredOutput = None,
                 annotations: Union[None, types.ToolAnnotations, Dict[str, Any]] = None, icons: Icons = None, meta: Meta = None,
                 timeout: Optional[float] = None, scopes: Scopes = (), trusted_patterns: Optional[bool] = None,
                 task: str = "forbidden", restartable: bool = False, tags: Tags = ()) -> None:
        """Register *function* as a tool.

        :param name: by default the function's.
        :param title: a name for people.
        :param description: for the model; by default the docstring's text.
        :param input_schema: a JSON Schema of the arguments, in place of the annotations.
        :param output_schema: a JSON Schema of the structured result, in place of the return annotation.
        :param structured_output: None decides by the return annotation, False sends text only, True insists on
            structured content. A value that is not an object, such as a number or a list, is structured as
            ``{"result": value}``; "bare" insists, too, and sends the value itself to clients of a revision that allows
            that, from July 2026 on, of whom some refuse it.
        :param annotations: hints such as ``{"readOnlyHint": True}``.
        :param icons: as :class:`Icon` objects or dicts.
        :param meta: the definition's ``_meta``.
        :param timeout: seconds that one call may run; paused while the tool waits for an answer.
        :param scopes: required of callers over HTTP, in addition to those of every request; not checked on stdio.
        :param trusted_patterns: as in :class:`ServerOptions`; by default the option of the server.
        :param task: "optional" or "required": it may or must be called as a task by clients that can (from November 2025 on).
        :param restartable: a task is begun again when the process that ran it has ended; see :meth:`Context.once`.
        :param tags: words of yours, by which mounts, middleware and clients choose; clients see them in ``_meta``.
        :raises RegistrationError: the function cannot be served, or the name is taken.
        """
        compiled = compile_function(function, name=name, description=description, input_schema=input_schema,
                                    output_schema=output_schema, structured_output=structured_output, kind="tool",
                                    trusted_patterns=self._trusted_patterns if trusted_patterns is None else trusted_patterns)
        tool = types.Tool(name=compiled.name, input_schema={}, title=title, description=description,
                    annotations=annotations, icons=icons,  # type: ignore[arg-type]
                    meta=with_tags(meta, tags, f"tool {compiled.name!r}"))
        entry = tool_entry(compiled, tool, timeout, scopes, task, restartable)
        if entry.task_support != "forbidden":
            from ..rooms import load

            load("task='optional'")(self.runtime)  # tasks.server_tasks.enable_tasks
        self.registry.add(entry)

    def run_task(self, payload: str) -> None:
        """Run a task that ``ServerOptions(tasks=)`` has handed over, in the process of the job; return when it is finished."""
        from ..rooms import load

        load("Server.run_task()")(self.runtime, payload)  # tasks.server_tasks.run_task

    def remove_tool(self, name: str) -> None:
        """Remove a tool; clients are notified.

        :raises KeyError: there is no entry of this name.
        """
        self.registry.remove("tools", name)

    # --- resources --------------------------------------------------------------------------------

    def resource(self, uri: str, *, name: Optional[str] = None, title: Optional[str] = None, description: Optional[str] = None,
                 mime_type: Optional[str] = None, size: Optional[int] = None,
                 annotations: Union[None, types.Annotations, Dict[str, Any]] = None, icons: Icons = None, meta: Meta = None,
                 cache: "Optional[CacheHint]" = None, scopes: Scopes = (), tags: Tags = (), any_path: bool = False
                 ) -> Callable[[F], F]:
        """Register the decorated function as the reader of *uri*; takes the keywords of :meth:`add_resource`."""
        if not isinstance(uri, str):
            raise RegistrationError("@resource needs a URI: write @mcp.resource('config://settings')")

        def register(function: F) -> F:
            self.add_resource(uri, function, name=name, title=title, description=description, mime_type=mime_type, size=size,
                              annotations=annotations, icons=icons, meta=meta, cache=cache, scopes=scopes, tags=tags,
                              any_path=any_path)
            return function

        return register

    def add_resource(self, uri: str, function: Callable[..., Any], *, name: Optional[str] = None, title: Optional[str] = None,
                     description: Optional[str] = None, mime_type: Optional[str] = None, size: Optional[int] = None,
                     annotations: Union[None, types.Annotations, Dict[str, Any]] = None, icons: Icons = None, meta: Meta = None,
                     cache: "Optional[CacheHint]" = None, scopes: Scopes = (), tags: Tags = (), any_path: bool = False
                     ) -> None:
        """Register *function* as the reader of a URI, or of every URI that a template matches.

        A URI with ``{variables}`` (RFC 6570) is a template, and the function gets their values. A URI whose values lead out of
        a folder is a resource that does not exist: a value that is an absolute path, begins with a drive such as ``C:``, or
        has a segment ``.`` or ``..`` or a NUL.

        :param uri: such as ``config://settings`` or ``weather://{city}/history{?year}``.
        :param name: of the resource, for programs; by default the function's.
        :param title: a name for people.
        :param description: for the model; by default the docstring's text.
        :param mime_type: of the contents; by default text/plain for text, application/json for data.
        :param size: bytes of the content, if known; not sent for a template.
        :param annotations: the audience, the priority and the time of the last change.
        :param icons: as :class:`Icon` objects or dicts.
        :param meta: the definition's ``_meta``.
        :param cache: how long clients may keep it; by default the server's hint.
        :param scopes: required of callers over HTTP to read it, or to be notified of its changes.
        :param tags: words of yours, by which mounts, middleware and clients choose; clients see them in ``_meta``.
        :param any_path: whether the function gets values that lead out of a folder, too.
        :raises RegistrationError: the URI is not valid or taken, or its variables are not the function's parameters.
        """
        uri = checked_uri(uri, "add_resource")
        compiled = compile_function(function, name=name, description=description, kind="resource",
                                    trusted_patterns=self._trusted_patterns)
        resource = types.Resource(uri=uri, name=compiled.name, title=title, description=compiled.description, size=size,
                            mime_type=mime_type, annotations=annotations, icons=icons,  # type: ignore[arg-type]
                            meta=with_tags(meta, tags, f"resource {uri!r}"))
        entry = resource_entry(compiled, resource, cache, scopes)
        entry.any_path = any_path
        self.registry.add(entry)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, or a template and its completers; clients are notified.

        :raises KeyError: there is nothing at this URI.
        """
        self.registry.remove("templates" if "{" in uri else "resources", uri)

    def add_directory(self, uri: str, path: str, *, name: Optional[str] = None, title: Optional[str] = None,
                      description: Optional[str] = None, scopes: Scopes = (), list_files: int = 1000,
                      watch: Optional[float] = None, hidden: bool = False) -> None:
        """Serve the files below a directory, up to ``Limits.file_bytes`` each; nothing outside of it can be read (RSRC-23).

        The URI of the directory, and that of each folder, is read as a list of names, of up to ``Limits.file_bytes``, too. A
        file's media type follows from its extension. Names that no URI can have are left out: those that are not UTF-8, and
        those that some systems read as another name.

        :param uri: of the directory, such as ``file:///srv/maps``.
        :param path: of the directory on this machine.
        :param name: of the template, for programs; by default that of the directory.
        :param title: a name for people.
        :param description: for the model; by default a sentence with the URI.
        :param scopes: required of callers over HTTP to read a file.
        :param list_files: files that are in the list of resources at most; 0 for none.
        :param watch: seconds between two looks for changes of the listed files; None does not look. The thread that looks runs
            while there are clients, and notifies them of changes.
        :param hidden: whether hidden files are served, too: those whose names begin with a dot, and all in folders with such a
            name, such as ``.env`` and ``.git``.
        :raises RegistrationError: the path is not a directory, the URI is taken, no request can name the URI, or a number is
            not valid.
        """
        from .catalog.directory import Directory

        uri = checked_uri(uri, "add_directory")
        directory = Directory(uri, path, self.limits.file_bytes, list_files, watch, hidden)
        template = types.ResourceTemplate(uri_template="", name=directory.name if name is None else name, title=title,
                                    description=f"Files below {uri}" if description is None else description)
        entries = directory_entries(directory, template, list_files > 0, scopes)
        with contextlib.ExitStack() as added:
            for entry in entries:
                self.registry.add(entry)
                added.callback(self.registry.remove, entry.kind, entry.name)
            added.pop_all()
        if watch:
            from .catalog.directory import Watcher

            self.runtime.add_service(directory.uri, Watcher(
                directory, watch, self.resource_updated,
                functools.partial(self.runtime.list_changed, "resources", [entries[0].scopes])))

    def add_skills(self, folder: str, *, prefix: str = "") -> None:
        """Serve the skills in a folder: each folder in it that has a SKILL.md, with all of its files (SEP-2640).

        A skill is a text for a model, with the files that it refers to. Its files are resources below ``skill://``, and the
        methods ``skills/list``, ``skills/get`` and ``resources/directory/read`` describe them. Changes of files show at once;
        a new folder is found at the next start. Hidden files are not served.

        :param folder: with skills in it, at any depth, or of one skill.
        :param prefix: comes before the paths of the skills, as in ``skill://PREFIX/NAME/SKILL.md``.
        :raises RegistrationError: there is no skill, one is not valid, or its URI is taken. A skill has a name, which is that
            of its folder, a description, and at most 512 files, of 16 MiB together.
        """
        from ..rooms import load

        load("Server.add_skills()")(self, folder, prefix)  # skills.server_skills.add_skills

    def remove_directory(self, uri: str) -> None:
        """Remove what :meth:`add_directory` has added; clients are notified.

        :raises KeyError: there is no directory at this URI.
        """
        self.runtime.remove_service(self.registry.remove_directory(uri if uri.endswith("/") else uri + "/"))

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to *uri*, or listens to it, of a change; callable from any thread."""
        self.runtime.resource_updated(uri)

    # --- prompts and completion -------------------------------------------------------------------

    @overload
    def prompt(self, name: F) -> F: ...

    @overload
    def prompt(self, name: Optional[str] = None, *, title: Optional[str] = None,
               description: Optional[str] = None, arguments: PromptArguments = None, icons: Icons = None, meta: Meta = None,
               scopes: Scopes = (), tags: Tags = ()) -> Callable[[F], F]: ...

    def prompt(self, name: Union[None, str, Callable[..., Any]] = None, *, title: Optional[str] = None,
               description: Optional[str] = None, arguments: PromptArguments = None, icons: Icons = None, meta: Meta = None,
               scopes: Scopes = (), tags: Tags = ()) -> Any:
        """Register the decorated function as a prompt; parentheses are optional. Takes the keywords of :meth:`add_prompt`."""
        return decorated(name, lambda function, name: self.add_prompt(
            function, name=name, title=title, description=description, arguments=arguments, icons=icons, meta=meta,
            scopes=scopes, tags=tags))

    def add_prompt(self, function: Callable[..., Any], *, name: Optional[str] = None, title: Optional[str] = None,
                   description: Optional[str] = None, arguments: PromptArguments = None, icons: Icons = None,
                   meta: Meta = None, scopes: Scopes = (), tags: Tags = ()) -> None:
        """Register *function* as a prompt; it returns a text, messages, or a ``GetPromptResult``.

        :param name: by default the function's.
        :param title: a name for people.
        :param description: by default the docstring's text.
        :param arguments: as :class:`PromptArgument` objects or dicts, for names that are no Python identifiers; by default
            the function's parameters. The function gets them as texts: by name, or all of them as its only parameter, a dict.
        :param icons: as :class:`Icon` objects or dicts.
        :param meta: the definition's ``_meta``.
        :param scopes: required of callers over HTTP to get it.
        :param tags: words of yours, by which mounts, middleware and clients choose; clients see them in ``_meta``.
        :raises RegistrationError: the function cannot be served, or the name is taken.
        """
        name = checked_text(name, "a prompt", "name")
        declared, schema = prompt_arguments(arguments, name or name_of(function))
        compiled = compile_function(function, name=name, description=description, input_schema=schema, kind="prompt",
                                    trusted_patterns=self._trusted_patterns)
        prompt = types.Prompt(name=compiled.name, title=title, arguments=declared, icons=icons,  # type: ignore[arg-type]
                              meta=with_tags(meta, tags, f"prompt {compiled.name!r}"))
        self.registry.add(prompt_entry(compiled, prompt, scopes))

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and the completers of its arguments; clients are notified.

        :raises KeyError: there is no entry of this name.
        """
        self.registry.remove("prompts", name)

    def completion(self, *, argument: str, prompt: Optional[str] = None,
                   resource: Optional[str] = None) -> Callable[[F], F]:
        """Register the decorated function as the completer of one argument.

        It takes the value so far and, if it has a second parameter, the arguments that are filled in
        already; it returns the values, best first, of which a client gets at most a hundred.

        :param argument: of the prompt, or variable of the template.
        :param prompt: the prompt's name; None for a template.
        :param resource: the template, as it was registered; None for a prompt.
        :raises RegistrationError: not exactly one of *prompt* and *resource*, or there is a completer already.
        """
        for member, value in (("argument", argument), ("prompt", prompt), ("resource", resource)):
            if value is not None and not isinstance(value, str) or value is argument and not value:
                raise RegistrationError(f"completion: {member}= must be a text, not {value!r}")
        if (prompt is None) == (resource is None):
            raise RegistrationError("completion needs prompt='name' or resource='template', not both")

        def register(function: F) -> F:
            compiled = compile_function(function, kind="completion", trusted_patterns=self._trusted_patterns)
            kind, name = completer(compiled, prompt, resource)
            self.registry.add_completion(kind, name, argument, compiled)
            return function

        return register

    # --- changes --------------------------------------------------------------------------------------

    def tools_changed(self) -> None:
        """Notify every client that the list of tools has changed; callable from any thread.

        Registering and removing notify by themselves. Call this if a handler of :meth:`method` answers the list.
        """
        self.runtime.list_changed("tools")

    def resources_changed(self) -> None:
        """Notify every client that the list of resources or templates has changed; see :meth:`tools_changed`."""
        self.runtime.list_changed("resources")

    def prompts_changed(self) -> None:
        """Notify every client that the list of prompts has changed; see :meth:`tools_changed`."""
        self.runtime.list_changed("prompts")

    # --- other servers ------------------------------------------------------------------------------

    def mount(self, other: "Union[Server, MountableClient, MountableGroup, Provider]", prefix: str = "", *,
              tool: Optional[Callable[[str], Optional[str]]] = None, tags: Tags = (),
              change: "Union[None, Mapping[str, ToolChange], Callable[[types.Tool], Optional[ToolChange]]]" = None,
              search: bool = False, shared: bool = False) -> None:
        """Offer the tools, resources and prompts of another server as this server's own, in every revision.

        :param other: a :class:`Server` of this process, or a client of another one, as from :func:`mcplite.connect`, that is
            not open: the connections to it are opened for the clients of this server, and closed after the last. Or a group of
            such clients, as from :func:`mcplite.connect_all`, each of which gets its name in the group as the prefix, after
            *prefix*. Or a provider whose entries do not change, such as :class:`mcplite.openapi.OpenAPIProvider`.
        :param prefix: comes before the names of its tools and prompts, with an underscore between, so that ``forecast`` is
            ``weather_forecast``. Resources keep their URIs; if another resource has the URI, it is at
            ``PREFIX+URI``.
        :param tool: called with the name of each tool, returns the whole new name, or None to hide the tool.
        :param tags: offers only the tools, resources and prompts that have one of these tags; by default all.
        :param change: changes of tools, by their own names: a dict with ``title`` and ``description``, ``rename`` (new names of
            arguments by their own), ``preset`` (values of arguments that clients do not see) and ``hide`` (optional arguments
            that they do not see). Or a function that is called with each :class:`~mcplite.types.Tool`, and returns such a dict
            or None. If a tool of a server cannot be changed so, mounting the server is an error. A tool that is registered
            later, or comes from a client, is then left out, with a line in the log.
        :param search: lists three tools in place of its tools: ``search_tools`` finds some by words, ``describe_tool`` shows
            one with its parameters, and ``call_tool`` calls one. They are for all mounts with ``search=True``. A client
            that knows the name of a tool can also call it directly.
        :param shared: of a client: one connection serves all clients, in place of one for each client that began with a
            handshake. A question on a shared connection is answered if it is certain whose call it belongs to.
        :raises RegistrationError: it is none of these, the client is open, the server would mount itself, or a prefix or the
            name of a tool or prompt is taken. Nothing is mounted then.
        """
        from ..rooms import load

        load("Server.mount()")(self, other, prefix, tool, shared, tags, change, search)  # proxy.hub.mount

    # --- custom methods -----------------------------------------------------------------------------
    def method(self, method: str) -> Callable[[F], F]:
        """Register the decorated function as the handler of *method*; see :meth:`add_method`."""

        def register(function: F) -> F:
            self.add_method(method, function)
            return function

        return register

    def add_method(self, method: str, handler: Callable[[Dict[str, Any], Context], Any]) -> None:
        """Answer *method* with ``handler(params, ctx)``, which returns an object; it may replace a built-in method.

        :param method: of the protocol, or an extension's.
        :param handler: gets the params as JSON and the context; None as its result is sent as an empty object.
        :raises RegistrationError: *method* is not a text, part of the handshake, or one of an extension's, or the handler
            cannot be called.
        """
        if not isinstance(method, str) or not method or method in ("initialize", "ping"):
            raise RegistrationError(f"{method!r} cannot be handled: 'initialize' and 'ping' belong to the library")
        handler = checked_function(handler, f"the method {method!r}")
        check_not_of_extension(method, self.registry.methods.get(method))
        self.registry.methods[method] = handler

    def add_notification(self, method: str, handler: Callable[[Dict[str, Any], Optional[LegacySession]], object]) -> None:
        """Call ``handler(params, session)`` on a worker thread for each notification *method*.

        :param method: of the notification.
        :param handler: gets the params as JSON, and the session; None for a notification outside of a session.
        :raises RegistrationError: *method* is not a text, or one of an extension's, or the handler cannot be called.
        """
        if not isinstance(method, str) or not method:
            raise RegistrationError(f"add_notification needs the name of a notification, a text, not {method!r}")
        handler = checked_function(handler, f"the notification {method!r}")
        check_not_of_extension(method, self.registry.notifications.get(method))
        self.registry.notifications[method] = handler

    def logging_handler(self, level: int = 0) -> "logging.Handler":
        """Return a ``logging.Handler`` that forwards Python log records to the client.

        A record made while a handler serves a request goes to that request's client. Any other record goes to all clients
        without a principal, since it may be about another client's request.

        :param level: records below it are not forwarded; by default all are, as far as the loggers let them pass.
        """
        from .handling.client_log_handler import ClientLogHandler

        self.runtime.catalog.forwards_logs = True
        return ClientLogHandler(self.runtime, level)

    def observe(self, observer: ServerObserver) -> None:
        """Call *observer* for each request, before any middleware, each question and each session; telemetry uses it."""
        catalog = self.runtime.catalog
        catalog.middleware = (observer.request, *catalog.middleware)
        self.runtime.observers.append(observer)

    # --- serving ----------------------------------------------------------------------------------------

    def run(self, transport: str = "stdio", *, host: Optional[str] = None, port: Optional[int] = None,
            path: Optional[str] = None, allowed_hosts: Optional[Sequence[str]] = None,
            allowed_origins: Optional[Sequence[str]] = None, trusted_proxies: Optional[Sequence[str]] = None,
            stateless: Optional[bool] = None,
            routes: "Optional[Mapping[str, Route]]" = None, legacy_sse: Optional[bool] = None,
            certfile: "Optional[str | os.PathLike[str]]" = None, keyfile: "Optional[str | os.PathLike[str]]" = None,
            client_ca: "Optional[str | os.PathLike[str]]" = None, key_password: "Optional[KeyPassword]" = None) -> None:
        """Serve until the client disconnects (stdio) or the process is told to stop.

        :param transport: "stdio", "streamable-http", also called "http", or "sse", which is "http" with ``legacy_sse=True``.
        :param host: the address to listen at; default 127.0.0.1. This option and those below are only for HTTP, and are
            explained at :class:`HTTPServer`.
        :param port: default 8000.
        :param path: of the endpoint; default ``/mcp``.
        :param allowed_hosts: the accepted host names; needed for other than loopback addresses.
        :param allowed_origins: the origins whose web pages may use the endpoint.
        :param trusted_proxies: the reverse proxies that tell the client's address.
        :param stateless: serves every message on its own, without session ids.
        :param routes: handlers of other paths.
        :param legacy_sse: also serves the oldest revision's HTTP+SSE, at ``/sse`` and ``/messages``.
        :param certfile: serves HTTPS with the certificate of this PEM file.
        :param keyfile: the PEM file of its key, if *certfile* does not have it.
        :param client_ca: the authorities whose clients may connect (mutual TLS).
        :param key_password: of the key, or a function that returns it.
        :raises ValueError: the transport is unknown, or an option is not valid or not for stdio.
        :raises RuntimeError: stdin and stdout are taken by another server in this process.
        :raises OSError: the port is taken.
        """
        options: Dict[str, Any] = dict(host=host, port=port, path=path, allowed_hosts=allowed_hosts, stateless=stateless,
                                       allowed_origins=allowed_origins, trusted_proxies=trusted_proxies, routes=routes,
                                       legacy_sse=legacy_sse or transport == "sse" or None, certfile=certfile,
                                       keyfile=keyfile, client_ca=client_ca, key_password=key_password)
        run_transport(self.runtime, transport, {name: value for name, value in options.items() if value is not None})

    def wsgi(self, path: str = "", *, principal: "Optional[Callable[[Dict[str, Any]], Union[None, str, Principal]]]" = None,
             allowed_hosts: Optional[Sequence[str]] = None, allowed_origins: Sequence[str] = (),
             trusted_proxies: Sequence[str] = (), stateless: bool = False,
             routes: "Optional[Mapping[str, Route]]" = None, legacy_sse: bool = False) -> "WSGIApp":
        """Return a WSGI callable that serves this server; the parameters are explained at :class:`WSGIApp`.

        :raises ValueError: an option is not valid.
        """
        from .transports.wsgi import WSGIApp

        return WSGIApp(self.runtime, path=path, principal=principal, allowed_hosts=allowed_hosts,
                       allowed_origins=allowed_origins, trusted_proxies=trusted_proxies, stateless=stateless,
                       routes=routes, legacy_sse=legacy_sse)

    def serve_channel(self, channel: Channel, on_close: Optional[Callable[[], object]] = None) -> Peer:
        """Start to serve one client on a channel, and return.

        :param on_close: called when the connection has ended.
        :returns: the connection; ``wait_closed()`` blocks until it has ended, ``close()`` ends it.
        """
        return serve_channel(self.runtime, channel, on_close)

    @property
    def sessions(self) -> List[OpenSession]:
        """The sessions that are open now."""
        return self.runtime.sessions

    def close(self) -> None:
        """End every connection, leave the lifespan, stop the worker threads, and close a backend that was given as a URL.

        It is idempotent. Without such a backend the server can be used again.
        """
        self.runtime.end()


def run_transport(runtime: Runtime, transport: str, given: Mapping[str, Any]) -> None:
    """Serve until the client disconnects (stdio) or the process is told to stop.

    :param transport: "stdio", "streamable-http", "http" or "sse".
    :param given: the options of :class:`HTTPServer` that were given.
    :raises ValueError: the transport is unknown, or an option is not valid or not for stdio.
    :raises RuntimeError: stdin and stdout are taken by another server in this process.
    :raises OSError: the port is taken.
    """
    if transport == "stdio":
        if given:
            raise ValueError(f"{', '.join(f'{name}=' for name in given)} needs HTTP: run('streamable-http', ...)")
        from .transports.stdio import serve_stdio

        serve_stdio(runtime)
    elif transport in ("streamable-http", "http", "sse"):
        from ..rpc.stdio.descriptors import is_terminal
        from .transports.httpd import HTTPServer

        httpd = HTTPServer(runtime, **given)
        if is_terminal(sys.stderr):
            print(f"{runtime.catalog.name} is served at {httpd.url} (Ctrl-C stops it)", file=sys.stderr, flush=True)
        httpd.serve_forever()
    else:
        raise ValueError(f"unknown transport {transport!r}; use 'stdio' or 'streamable-http'")


def serve(server: Server, *, host: str = "127.0.0.1", port: int = 0, path: str = "/mcp",
          allowed_hosts: Optional[Sequence[str]] = None, allowed_origins: Sequence[str] = (),
          trusted_proxies: Sequence[str] = (), stateless: bool = False,
          routes: "Optional[Mapping[str, Route]]" = None, legacy_sse: bool = False,
          handler: "Optional[Type[Connection]]" = None, certfile: "Optional[str | os.PathLike[str]]" = None,
          keyfile: "Optional[str | os.PathLike[str]]" = None, client_ca: "Optional[str | os.PathLike[str]]" = None,
          key_password: "Optional[KeyPassword]" = None) -> "HTTPServer":
    """Serve over HTTP on background threads, from now on, and return the HTTP server.

    The end of a ``with`` block, or ``close()``, ends the server. ``serve_forever()`` blocks until Ctrl-C, and ``url`` has the
    port.
    The parameters are explained at :class:`HTTPServer`.

    :param server: whose tools, resources and prompts are served.
    :param host: the address to listen at.
    :param port: 0 picks a free port.
    :param path: of the endpoint.
    :param allowed_hosts: the accepted host names; needed for other than loopback addresses.
    :param allowed_origins: the origins whose web pages may use the endpoint.
    :param trusted_proxies: the reverse proxies that tell the client's address.
    :param stateless: serves every message on its own, without session ids.
    :param routes: handlers of other paths.
    :param legacy_sse: also serves the oldest revision's HTTP+SSE, at ``/sse`` and ``/messages``.
    :param handler: the class of the connections, for a ``log_message`` or a ``do_GET`` of your own.
    :param certfile: serves HTTPS with the certificate of this PEM file.
    :param keyfile: the PEM file of its key, if *certfile* does not have it.
    :param client_ca: the authorities whose clients may connect (mutual TLS).
    :param key_password: of the key, or a function that returns it.
    :raises OSError, TransportError: the server cannot listen at the address, or the system has no thread for it.
    :raises ValueError: an option is not valid.
    """
    from .transports.httpd import HTTPServer

    served = HTTPServer(server.runtime, host=host, port=port, path=path, allowed_hosts=allowed_hosts,
                        allowed_origins=allowed_origins, trusted_proxies=trusted_proxies, stateless=stateless,
                        routes=routes, legacy_sse=legacy_sse, handler=handler, certfile=certfile, keyfile=keyfile,
                        client_ca=client_ca, key_password=key_password)
    return served.start()

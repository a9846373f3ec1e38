"""Client: the methods that a user calls.

May import: client.handlers, client.keepalive, client.listing, client.outputs, client.sessions, errors, protocol.codec, revisions, rpc.cancel, rpc.channel, rpc.peer, rpc.tracing, types, version
"""

import copy
import json
import logging
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

from ..errors import ConnectionClosed, InvalidParams, NotSupported, ResourceNotFound
from ..protocol import codec
from ..revisions import NEWEST_LEGACY, Revision, find
from ..rpc.cancel import CancelToken
from ..rpc.channel import Channel
from ..rpc.peer import Counters
from ..rpc.tracing import trace_for
from ..types import (
    CallToolResult, CompleteResult, GetPromptResult, Implementation, InitializeResult, ListPromptsResult,
    ListResourcesResult, ListResourceTemplatesResult, ListToolsResult, Progress, Prompt, ReadResourceResult,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
)
from ..version import __version__
from .handlers import Handlers, Roots
from .keepalive import KeepAlive
from .listing import walk
from .outputs import Outputs
from .sessions import LegacySession

__all__ = ["Client"]

_log = logging.getLogger(__name__)
_DEFAULT: Any = object()
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]
OnProgress = Callable[[Progress], object]
_RESOURCE_MISSING = (-32002, -32602)


class Client:
    """One server, to be used from any number of threads at once.

    It is made by :func:`connect`, opened by ``with`` or :meth:`open`, and closed by leaving the block or by
    :meth:`close`, from any thread. Every call raises, besides what it says itself: ``RemoteError`` when
    the server answers with an error, ``RequestTimeout``, ``Cancelled``, ``ConnectionClosed`` when the
    connection is over or ends meanwhile, ``ProtocolError`` when an answer breaks the rules, and
    ``NotSupported`` (nothing was sent) when the server did not declare the feature.

    :param transport: makes the channel; called once, by :meth:`open`.
    :param revision: the only protocol revision to accept, as a name or a ``Revision``; None offers the
        newest and takes whichever the server answers with.
    :param timeout: seconds for each call, unless it says otherwise; progress starts them anew. Default 60.
    :param max_timeout: seconds for each call in all, whatever its progress. Default 300.
    :param open_timeout: seconds for the server's first answer; a package runner may download first. Default 60.
    :param client_info: who this client is; by default this package.
    :param validate: whether structured results are checked against the declared schema. Default True.
    :param middleware: callables ``(method, params, proceed)`` around every request, the first one
        outermost: the place for approval, audit and rate limits (LIFE-29). Raise to stop a request.
    :param max_handlers: how many of the handlers may run at once; default 16.
    :param ping_interval: seconds without traffic after which the server is pinged; a ping that is not
        answered closes the connection. None, the default, never pings.
    :param debug: True logs every message to the logger ``<package>.wire``, a string is a file to append to; None asks
        the environment variable MCPLITE_DEBUG.
    :param handlers: keywords of :class:`Handlers`: ``elicitation_handler``, ``url_elicitation_handler``,
        ``sampling_handler``, ``sampling_tools``, ``roots``, ``log_handler``, ``on_tools_changed``,
        ``on_resources_changed``, ``on_prompts_changed``, ``on_resource_updated``, ``on_elicitation_complete``.
    :raises ValueError: the revision is unknown, or a number is not positive.
    :raises TypeError: a handler cannot be called.
    """

    def __init__(self, transport: Callable[[], Channel], *, revision: Union[None, str, Revision] = None,
                 timeout: Optional[float] = 60.0, max_timeout: Optional[float] = 300.0, open_timeout: float = 60.0,
                 client_info: Optional[Implementation] = None, validate: bool = True,
                 middleware: Sequence[Middleware] = (), max_handlers: int = 16,
                 ping_interval: Optional[float] = None, debug: Union[None, bool, str] = None,
                 **handlers: Any) -> None:
        self._transport = transport
        self._pinned = _revision(revision)
        for name, seconds in (("timeout", timeout), ("max_timeout", max_timeout), ("open_timeout", open_timeout),
                              ("ping_interval", ping_interval)):
            if seconds is not None and seconds <= 0:
                raise ValueError(f"{name} must be positive, not {seconds!r}")
        self._timeout, self._max_timeout, self._open_timeout = timeout, max_timeout, open_timeout
        self._info = client_info or Implementation(name=__name__.partition(".")[0], version=__version__)
        self._outputs = Outputs(validate)
        self._middleware = tuple(middleware)
        self._max_handlers = max_handlers
        self._ping_interval = ping_interval
        self._debug = debug
        self._handlers = Handlers(**handlers)
        self._custom: Dict[str, Callable[[Dict[str, Any]], Any]] = {}
        #: Guards ``_state`` and what comes with it; held for assignments only.
        self._lock = threading.Lock()
        self._state = "new"
        self._opener: Optional[int] = None
        self._settled = threading.Event()
        self._session: Optional[LegacySession] = None
        self._result: Optional[InitializeResult] = None
        self._last_error: Optional[Exception] = None
        self._channel: Optional[Channel] = None
        self._keepalive: Optional[KeepAlive] = None

    # --- life ---------------------------------------------------------------------------------------

    def open(self) -> "Client":
        """Start the transport and do the handshake; return the client itself.

        Whatever fails, nothing is left behind: the child has ended, the threads are gone.

        :raises TransportError: the server cannot be started or reached.
        :raises ConnectionClosed: it ended before it answered; with its last words.
        :raises RequestTimeout: no answer within ``open_timeout``.
        :raises UnsupportedVersion: there is no common revision.
        :raises RuntimeError: the client was opened before.
        """
        with self._lock:
            if self._state != "new":
                raise RuntimeError(f"this client is {self._state}; a client is opened once, so make a new one")
            self._state, self._opener = "connecting", threading.get_ident()
        session = None
        try:
            channel = self._channel = self._transport()
            session = LegacySession(
                channel, self._handlers, self._info, places=self._max_handlers, on_notification=self._told,
                custom=self._custom, trace=trace_for(self._debug, channel.name))
            self._session = session
            self._result = session.open(self._pinned or NEWEST_LEGACY, self._pinned is not None, self._open_timeout)
        except BaseException as error:
            if session is not None:
                session.close()
            self._end("closed", error if isinstance(error, Exception) else None)
            raise
        if not self._end("open", None):
            session.close()
            raise self._closed_error()
        if self._ping_interval is not None:
            self._keepalive = KeepAlive(self, self._ping_interval)
            self._keepalive.start()
        _log.info("connected to %s, %s", channel.name, self.protocol_version)
        return self

    def _end(self, state: str, error: Optional[Exception]) -> bool:
        with self._lock:
            self._opener = None
            alive = self._state != "closed"
            if alive or state == "closed":
                self._state = state
            if error is not None:
                self._last_error = error
        self._settled.set()
        return alive

    def close(self) -> None:
        """End the conversation and the server's process; idempotent, from any thread and any callback.

        Calls that wait fail at once with ``ConnectionClosed``.
        """
        with self._lock:
            self._state = "closed"
            session = self._session
        self._settled.set()
        if self._keepalive is not None:
            self._keepalive.stop()
        if session is not None:
            session.close()

    def fail(self, error: Exception) -> None:
        """Close because of *error*, which is what calls that wait will raise."""
        with self._lock:
            self._last_error = error
            session = self._session
            self._state = "closed"
        if session is not None:
            session.close(error)

    def __enter__(self) -> "Client":
        return self.open() if self._state == "new" else self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        name = self._channel.name if self._channel is not None else "not connected"
        return f"<Client {name} ({self.state})>"

    # --- what is known --------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "new", "connecting", "open" or "closed"."""
        session = self._session
        if self._state == "open" and session is not None and session.peer.closed:
            return "closed"
        return self._state

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the connection, or kept it from being made; None while all is well."""
        return self._last_error or (self._session.peer.last_error if self._session is not None else None)

    @property
    def counters(self) -> Counters:
        """Messages and bytes both ways."""
        return copy.copy(self._session.peer.counters) if self._session is not None else Counters()

    @property
    def stderr_tail(self) -> str:
        """The last that the server's process wrote to stderr; empty when it is no process."""
        return str(getattr(self._channel, "stderr_tail", ""))

    @property
    def revision(self) -> Revision:
        """The revision agreed on.

        :raises ConnectionClosed: the client is not open.
        """
        return self._open_session().revision

    @property
    def protocol_version(self) -> str:
        """The name of the revision agreed on."""
        return self.revision.name

    @property
    def server_info(self) -> Implementation:
        """The server's name and version."""
        return self._handshake().server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server declared."""
        return self._handshake().capabilities

    @property
    def instructions(self) -> Optional[str]:
        """How the server wants to be used, for a model to read."""
        return self._handshake().instructions

    def _handshake(self) -> InitializeResult:
        if self._result is None:
            raise self._closed_error()
        return self._result

    def _closed_error(self) -> Exception:
        if self._state == "new":
            return ConnectionClosed("this client is not open yet: use it in a with block, or call open()")
        if isinstance(self._last_error, ConnectionClosed):
            return copy.copy(self._last_error)
        return ConnectionClosed("this client is closed")

    def _open_session(self) -> LegacySession:
        if self._state == "connecting" and self._opener != threading.get_ident():
            self._settled.wait()  # LIFE-05: calls of other threads wait for the handshake
        session = self._session
        if session is None or self._state != "open":
            raise self._closed_error()
        return session

    # --- the generic layer ------------------------------------------------------------------------------

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = _DEFAULT,
                max_timeout: Optional[float] = _DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Send any request and return its result as it came.

        :param timeout: seconds; by default the client's. None waits for ever.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token; cancelling it raises ``Cancelled`` here and tells the server.
        :param on_progress: called with each :class:`Progress` on this thread; all of them before this
            method returns. Giving it is what asks the server for progress.
        :param meta: goes into ``params._meta``.
        """
        session = self._open_session()
        if meta:
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        seconds = self._timeout if timeout is _DEFAULT else timeout
        most = self._max_timeout if max_timeout is _DEFAULT else max_timeout
        if most is not None and seconds is not None and most < seconds:
            most = seconds
        progress = None
        if on_progress is not None:
            report = on_progress

            def progress(given: Dict[str, Any]) -> None:
                report(codec.decode(Progress, {key: value for key, value in given.items() if key != "progressToken"}))

        if not self._middleware:
            return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel, on_progress=progress)

        def proceed(index: int) -> Dict[str, Any]:
            if index == len(self._middleware):
                return session.request(method, params, timeout=seconds, max_timeout=most, cancel=cancel,
                                       on_progress=progress)
            return self._middleware[index](method, params, lambda: proceed(index + 1))

        return proceed(0)

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification."""
        self._open_session().notify(method, params, self._timeout)

    def on(self, method: str, handler: Callable[[Dict[str, Any]], Any]) -> None:
        """Have ``handler(params)`` answer a request, or take a notification, of the server's own making."""
        self._custom[method] = handler

    def ping(self, *, timeout: Optional[float] = _DEFAULT) -> None:
        """Return when the server has answered a ping."""
        self.request("ping", timeout=timeout)

    def _require(self, capability: str, method: str, flag: Optional[str] = None) -> None:
        declared = getattr(self._open_handshake().capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            raise NotSupported(f"{self._name} did not declare the capability {name!r}, so {method!r} was not sent")

    def _open_handshake(self) -> InitializeResult:
        self._open_session()
        return self._handshake()

    @property
    def _name(self) -> str:
        return self._channel.name if self._channel is not None else "the server"

    def _told(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._outputs.forget()

    # --- tools ------------------------------------------------------------------------------------------

    def list_tools(self, **options: Any) -> List[Tool]:
        """Return all tools, from all pages; takes the keywords of :meth:`request`."""
        tools: List[Tool] = walk(lambda cursor: self.list_tools_page(cursor, **options), "tools", self._name)
        return tools

    def list_tools_page(self, cursor: Optional[str] = None, **options: Any) -> ListToolsResult:
        """Return one page of tools; ``next_cursor`` is None on the last."""
        page = self._page("tools", "tools/list", ListToolsResult, cursor, options)
        self._outputs.learn(page.tools)
        return page  # type: ignore[no-any-return]

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                  timeout: Optional[float] = _DEFAULT, max_timeout: Optional[float] = _DEFAULT,
                  cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                  meta: Optional[Dict[str, Any]] = None) -> CallToolResult:
        """Call a tool.

        A tool that fails gives a result with ``is_error``; ``result.raise_for_error()`` makes that an
        exception. Structured content is checked against the tool's declared schema when its
        definition has been listed (TOOL-38).

        :param arguments: JSON values by name.
        :param timeout, max_timeout, cancel, on_progress, meta: as for :meth:`request`.
        :raises InvalidParams: there is no such tool, or, before November 2025, the arguments do not fit.
        :raises ProtocolError: the result does not keep what the tool's schema promises.
        :raises TypeError, ValueError: the arguments are no JSON; nothing was sent.
        """
        if self._result is None or self._result.capabilities.tools is None:
            self._require("tools", "tools/call")
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s: calling the tool %.200r", self._name, name)  # TOOL-50
        answer = self.request("tools/call", {"name": name, "arguments": {} if arguments is None else dict(arguments)},
                              timeout=timeout, max_timeout=max_timeout, cancel=cancel, on_progress=on_progress, meta=meta)
        result = codec.decode(CallToolResult, answer)
        self._outputs.check(name, result, self._name)
        return result

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, **options: Any) -> List[Resource]:
        """Return all resources, from all pages; takes the keywords of :meth:`request`."""
        resources: List[Resource] = walk(lambda cursor: self.list_resources_page(cursor, **options), "resources", self._name)
        return resources

    def list_resources_page(self, cursor: Optional[str] = None, **options: Any) -> ListResourcesResult:
        """Return one page of resources."""
        return self._page("resources", "resources/list", ListResourcesResult, cursor, options)  # type: ignore[no-any-return]

    def list_resource_templates(self, **options: Any) -> List[ResourceTemplate]:
        """Return all resource templates, from all pages."""
        templates: List[ResourceTemplate] = walk(lambda cursor: self.list_resource_templates_page(cursor, **options),
                                                 "resource_templates", self._name)
        return templates

    def list_resource_templates_page(self, cursor: Optional[str] = None, **options: Any) -> ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return self._page("resources", "resources/templates/list", ListResourceTemplatesResult,  # type: ignore[no-any-return]
                          cursor, options)

    def read_resource(self, uri: str, **options: Any) -> ReadResourceResult:
        """Read a resource; takes the keywords of :meth:`request`.

        :raises ResourceNotFound: there is none at this URI.
        """
        self._require("resources", "resources/read")
        try:
            return codec.decode(ReadResourceResult, self.request("resources/read", {"uri": uri}, **options))
        except InvalidParams as error:
            # RSRC-18: revisions differ in the code, and servers do not always keep to theirs.
            if isinstance(error, ResourceNotFound) or error.code not in _RESOURCE_MISSING:
                raise
            raise ResourceNotFound(error.message, code=error.code, data=error.data or {"uri": uri}) from error

    def subscribe_resource(self, uri: str, **options: Any) -> None:
        """Have ``on_resource_updated`` called when the resource changes."""
        self._require("resources", "resources/subscribe", "subscribe")
        self.request("resources/subscribe", {"uri": uri}, **options)

    def unsubscribe_resource(self, uri: str, **options: Any) -> None:
        """End a subscription."""
        self._require("resources", "resources/unsubscribe", "subscribe")
        self.request("resources/unsubscribe", {"uri": uri}, **options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, **options: Any) -> List[Prompt]:
        """Return all prompts, from all pages; takes the keywords of :meth:`request`."""
        prompts: List[Prompt] = walk(lambda cursor: self.list_prompts_page(cursor, **options), "prompts", self._name)
        return prompts

    def list_prompts_page(self, cursor: Optional[str] = None, **options: Any) -> ListPromptsResult:
        """Return one page of prompts."""
        return self._page("prompts", "prompts/list", ListPromptsResult, cursor, options)  # type: ignore[no-any-return]

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, **options: Any) -> GetPromptResult:
        """Return a prompt's messages with its arguments filled in; takes the keywords of :meth:`request`.

        :param arguments: by name. The protocol knows only strings; any other JSON value is sent as its
            JSON text, so that ``3`` becomes ``"3"`` and ``True`` becomes ``"true"``.
        :raises InvalidParams: there is no such prompt, or an argument is missing.
        """
        self._require("prompts", "prompts/get")
        params: Dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                                   for key, value in arguments.items()}
        return codec.decode(GetPromptResult, self.request("prompts/get", params, **options))

    def complete(self, *, argument: str, value: str, prompt: Optional[str] = None, resource: Optional[str] = None,
                 context: Optional[Mapping[str, str]] = None, **options: Any) -> CompleteResult:
        """Return values that complete an argument of a prompt or of a resource template.

        :param argument: its name, and
        :param value: what it has so far.
        :param prompt: the prompt's name; or
        :param resource: the template or URI.
        :param context: the arguments that are filled in already; sent from June 2025 on.
        :raises ValueError: not exactly one of *prompt* and *resource*.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("complete() needs prompt= or resource=, and not both")
        if self.revision.completions_capability:
            self._require("completions", "completion/complete")
        params: Dict[str, Any] = {
            "ref": {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": resource},
            "argument": {"name": argument, "value": value}}
        if context and self.revision.completion_context:
            params["context"] = {"arguments": dict(context)}
        return codec.decode(CompleteResult, self.request("completion/complete", params, **options))

    # --- logging and roots ----------------------------------------------------------------------------------

    def set_log_level(self, level: str, **options: Any) -> None:
        """Set the least urgent level of log messages that the server sends.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        self._require("logging", "logging/setLevel")
        self.request("logging/setLevel", {"level": level}, **options)

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and tell the server (ROOT-03).

        :raises ValueError: the client was made without roots, or one is no file.
        """
        self._handlers.set_roots(roots)
        if self.state == "open":
            self.notify("notifications/roots/list_changed")

    def _page(self, capability: str, method: str, cls: Any, cursor: Optional[str], options: Dict[str, Any]) -> Any:
        self._require(capability, method)
        params = None if cursor is None else {"cursor": cursor}
        return codec.decode(cls, self.request(method, params, **options))


def _revision(wanted: Union[None, str, Revision]) -> Optional[Revision]:
    if wanted is None or isinstance(wanted, Revision):
        revision = wanted
    else:
        revision = find(wanted)
        if revision is None:
            raise ValueError(f"{wanted!r} is no protocol revision that this package speaks")
    if revision is not None and revision.modern:
        raise ValueError(f"this version of the package does not speak {revision} yet")
    return revision

"""Features: the calls that a user makes on an open client, by the protocol's names.

:class:`~mcplite.client.client.Client` inherits them. The sessions of both eras carry them out.
"""

import json
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, TypeVar

from ...errors import InvalidParams, MethodNotFound, NotSupported, ProtocolError, RequestTimeout, ResourceNotFound
from ...protocol import codec
from ...protocol.envelope import check_meta
from ...protocol.uritemplate import Template
from ...revisions import Revision
from ...rpc.cancel import CancelToken
from ...rpc.deadline import Deadline
from ...types import (
    CallToolResult,
    CompleteResult,
    Completion,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Model,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)
from .call import DEFAULT, Call, OnProgress, RequestOptions, progress_reader, time_limits
from .output_schemas import OutputSchemas
from .paging import read_page, walk
from .session import FeatureSession

if TYPE_CHECKING:
    from .tools import Tools

__all__ = ["Features", "Middleware"]

_log = logging.getLogger(__name__)
_RESOURCE_MISSING = (-32002, -32602)
M = TypeVar("M", bound=Model)
Middleware = Callable[[str, Optional[Dict[str, Any]], Callable[[], Dict[str, Any]]], Dict[str, Any]]


class Features(ABC):
    """The calls of a client, by the protocol's names.

    A class of its own, so that :class:`Client` is about the connection alone. The subclass provides the session, with
    :meth:`_open_session`.

    :param timeout: seconds for each call, unless the call says otherwise.
    :param max_timeout: seconds for each call in all.
    :param middleware: called around every request, the first one outermost.
    :param validate: whether structured results are checked against the declared schema.
    :param raise_for_error: whether ``call_tool`` raises when a tool fails.
    """

    def __init__(self, timeout: Optional[float], max_timeout: Optional[float], middleware: Sequence[Middleware],
                 validate: bool, raise_for_error: bool) -> None:
        self._timeout, self._max_timeout = timeout, max_timeout
        #: The two times of a call without times of its own.
        self._default_limits = time_limits(DEFAULT, DEFAULT, (timeout, max_timeout))
        self._middleware = tuple(middleware)
        self._output_schemas = OutputSchemas(validate)
        self._raise_for_error, self._texts_are_json = raise_for_error, False
        #: Whether results of tools take one more step, :meth:`_finish`.
        self._finishes = raise_for_error
        self._tools: "Optional[Tools]" = None

    @abstractmethod
    def _open_session(self) -> FeatureSession:
        """Return the open session.

        :raises ConnectionClosed: the connection is not open.
        """

    # --- the generic layer ------------------------------------------------------------------------------

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = DEFAULT,
                max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None, rounds: bool = True,
                fresh: bool = False, input_responses: Optional[Mapping[str, Any]] = None,
                request_state: Optional[str] = None) -> Dict[str, Any]:
        """Send any request and return its result as it came.

        :param method: the protocol's method.
        :param params: JSON; None for none.
        :param timeout: seconds; by default the client's. None waits without a limit.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token; cancelling it raises ``Cancelled`` here and notifies the server.
        :param on_progress: called with each :class:`Progress` on this thread, and with all of them before this
            method returns. Without it the server is not asked for progress.
        :param meta: added to ``params._meta``.
        :param rounds: True: the client's handlers answer the server's questions (from July 2026 on). False: raises
            :class:`InputNeeded`; the caller repeats the call later, in this process or another.
        :param fresh: True ignores the cache.
        :param input_responses: the answers by key, as on the wire, when a call is repeated after ``InputNeeded``.
        :param request_state: ``InputNeeded.state``, when a call is repeated.
        :returns: the result, decoded from JSON.
        :raises InputNeeded: with ``rounds=False``, the server asks questions.
        :raises RemoteError: the server answered with an error.
        :raises TypeError, ValueError: the params are not JSON, a time is not positive, or *meta* has an invalid key
            (META-01); nothing was sent.
        """
        return self._request(self._open_session(), method, params, RequestOptions(
            timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state))

    def _request(self, session: FeatureSession, method: str, params: Optional[Dict[str, Any]],
                 options: RequestOptions) -> Dict[str, Any]:
        timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state = options
        if meta:
            check_meta(meta, session.revision, reserved=True)
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        if input_responses is not None:
            params = {**(params or {}), "inputResponses": dict(input_responses)}
        if request_state is not None:
            params = {**(params or {}), "requestState": request_state}
        seconds, most = self._default_limits
        if timeout is not DEFAULT or max_timeout is not DEFAULT:
            seconds, most = time_limits(timeout, max_timeout, (self._timeout, self._max_timeout))
        progress = None if on_progress is None else progress_reader(on_progress)
        call = Call(method, params, seconds, most, cancel, progress, rounds, fresh)
        return session.request(call) if not self._middleware else self._proceed(session, call, 0)

    def _proceed(self, session: FeatureSession, call: Call, index: int) -> Dict[str, Any]:
        """Run the middleware from one position on, and send the request after the last."""
        if index == len(self._middleware):
            return session.request(call)
        return self._middleware[index](call.method, call.params, lambda: self._proceed(session, call, index + 1))

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification."""
        self._open_session().notify(method, params, self._timeout)

    def ping(self, *, timeout: Optional[float] = DEFAULT) -> None:
        """Send a ping, or ``server/discover`` in revisions without one, and return when the server has answered."""
        known = self._open_session().revision.client_requests
        self.request("ping" if "ping" in known else "server/discover", timeout=timeout)

    def _require(self, capability: str, method: str, flag: Optional[str] = None) -> FeatureSession:
        """Return the open session if the server declared a capability.

        :raises NotSupported: it did not; nothing was sent.
        """
        session = self._open_session()
        declared = getattr(session.capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent")
        return session

    def _read(self, cls: Type[M], answer: Dict[str, Any], session: FeatureSession, method: str) -> M:
        try:
            return codec.decode(cls, answer)
        except ProtocolError as error:
            raise _unreadable(error, session, method) from error

    # --- tools ------------------------------------------------------------------------------------------

    def list_tools(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[Tool]:
        """Return all tools, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._tools_page, "tools", options)

    def list_tools_page(self, cursor: Optional[str] = None, *,
                        timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                        cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                        meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListToolsResult:
        """Return one page of tools; ``next_cursor`` is None on the last."""
        return self._tools_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _tools_page(self, cursor: Optional[str], options: RequestOptions) -> ListToolsResult:
        epoch = self._output_schemas.epoch
        session = self._require("tools", "tools/list")
        page = self._page(session, "tools/list", ListToolsResult, cursor, options)
        page.tools = session.usable_tools(page.tools)
        if session.revision.structured_output:
            self._output_schemas.learn(page.tools, epoch)
        return page

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                  timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                  cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                  meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                  input_responses: Optional[Mapping[str, Any]] = None,
                  request_state: Optional[str] = None) -> CallToolResult:
        """Call a tool.

        The result of a tool that fails has ``is_error``; ``result.raise_for_error()`` turns it into an exception, and so
        does ``connect(raise_for_error=True)`` for all calls.
        Structured content is checked against the tool's declared schema if its definition has been listed (TOOL-38).

        :param name: the tool's name.
        :param arguments: JSON values by name.
        :param timeout, max_timeout, cancel, on_progress, meta, fresh: as for :meth:`request`.
        :param rounds, input_responses, request_state: as for :meth:`request`.
        :raises InvalidParams: there is no such tool, or, before November 2025, the arguments do not fit.
        :raises ProtocolError: the structured content does not fit the tool's schema.
        :raises ToolError: the tool failed, and the client was made with ``raise_for_error=True``.
        :raises TypeError, ValueError: the arguments are not JSON; nothing was sent.
        """
        session = self._open_session()
        if session.capabilities.tools is None:
            self._require("tools", "tools/call")
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s: calling the tool %.200r", session.name, name)  # TOOL-50
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            if not isinstance(arguments, Mapping):
                raise TypeError(f"the arguments of the tool {name!r} must be a dict, not {type(arguments).__name__}")
            arguments = dict(arguments)
        params = {"name": name, "arguments": arguments}
        if (timeout is DEFAULT and max_timeout is DEFAULT and on_progress is None and meta is None and rounds and not fresh
                and input_responses is None and request_state is None and not self._middleware):
            # As _request() has it without options.
            answer = session.request(Call("tools/call", params, *self._default_limits, cancel))
        else:
            answer = self._request(session, "tools/call", params, RequestOptions(
                timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state))
        try:
            result = codec.decode(CallToolResult, answer)
        except ProtocolError as error:
            raise _unreadable(error, session, "tools/call") from error
        schema = self._output_schemas.listed.found.get(name)
        if schema is not None:
            schema.check(result, session.name, "structuredContent" in answer)
        if self._finishes:
            self._finish(result)
        return result

    def _set_revision(self, revision: Revision) -> None:
        """Note the revision that was agreed on, before the first call."""
        self._texts_are_json = not revision.structured_output
        self._finishes = self._raise_for_error or self._texts_are_json

    def _finish(self, result: CallToolResult) -> None:
        if self._texts_are_json:
            result.take_texts_as_json()
        if self._raise_for_error:
            result.raise_for_error()

    @property
    def tools(self) -> "Tools":
        """The tools as functions: ``client.tools.add(a=1, b=2).data``; completed in notebooks.

        A tool whose name is no identifier is ``client.tools["weather.forecast"]``. The call takes the tool's arguments as
        keywords and returns its result; it raises :class:`ToolError` when the tool fails.
        """
        if self._tools is None:
            from .tools import Tools  # for programs that use it

            self._tools = Tools(self.list_tools, self.call_tool, lambda: self._output_schemas.epoch)
        return self._tools

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                       cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                       meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[Resource]:
        """Return all resources, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resources_page, "resources", options)

    def list_resources_page(self, cursor: Optional[str] = None, *,
                            timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                            cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                            meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListResourcesResult:
        """Return one page of resources."""
        return self._resources_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resources_page(self, cursor: Optional[str], options: RequestOptions) -> ListResourcesResult:
        session = self._require("resources", "resources/list")
        return self._page(session, "resources/list", ListResourcesResult, cursor, options)

    def list_resource_templates(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[ResourceTemplate]:
        """Return all resource templates, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resource_templates_page, "resource_templates", options)

    def list_resource_templates_page(self, cursor: Optional[str] = None, *,
                                     timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return self._resource_templates_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resource_templates_page(self, cursor: Optional[str], options: RequestOptions) -> ListResourceTemplatesResult:
        session = self._require("resources", "resources/templates/list")
        return self._page(session, "resources/templates/list", ListResourceTemplatesResult, cursor, options)

    def read_resource(self, uri: str, arguments: Optional[Mapping[str, Any]] = None, *,
                      timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                      input_responses: Optional[Mapping[str, Any]] = None,
                      request_state: Optional[str] = None) -> ReadResourceResult:
        """Read a resource; the keywords are those of :meth:`request`.

        :param uri: the resource's URI, or a template if there are *arguments*.
        :param arguments: values by the names of the template's variables: ``{"city": "Rome"}`` for ``weather://{city}``.
        :raises ValueError: the template is not one, has no such variable, or needs another one; nothing was sent.
        :raises ResourceNotFound: the server has no resource with this URI.
        """
        if arguments is not None:
            uri = Template(uri).fill(arguments)
        session = self._require("resources", "resources/read")
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                 input_responses, request_state)
        try:
            answer = self._request(session, "resources/read", {"uri": uri}, options)
        except InvalidParams as error:
            # RSRC-18: revisions differ in the code, and servers do not always keep to theirs.
            if isinstance(error, ResourceNotFound) or error.code not in _RESOURCE_MISSING:
                raise
            missing = ResourceNotFound(error.message, code=error.code, data=error.data or {"uri": uri})
            missing.received = True
            raise missing from error
        return self._read(ReadResourceResult, answer, session, "resources/read")

    def subscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                           cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                           meta: Optional[Dict[str, Any]] = None) -> None:
        """Call ``on_resource_updated`` when the resource changes."""
        session = self._require("resources", "resources/subscribe", "subscribe")
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta)
        self._request(session, "resources/subscribe", {"uri": uri}, options)

    def unsubscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                             meta: Optional[Dict[str, Any]] = None) -> None:
        """End a subscription."""
        session = self._require("resources", "resources/unsubscribe", "subscribe")
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta)
        self._request(session, "resources/unsubscribe", {"uri": uri}, options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[Prompt]:
        """Return all prompts, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._prompts_page, "prompts", options)

    def list_prompts_page(self, cursor: Optional[str] = None, *,
                          timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                          cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                          meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListPromptsResult:
        """Return one page of prompts."""
        return self._prompts_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _prompts_page(self, cursor: Optional[str], options: RequestOptions) -> ListPromptsResult:
        session = self._require("prompts", "prompts/list")
        return self._page(session, "prompts/list", ListPromptsResult, cursor, options)

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                   timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                   input_responses: Optional[Mapping[str, Any]] = None,
                   request_state: Optional[str] = None) -> GetPromptResult:
        """Return a prompt's messages with its arguments filled in; the keywords are those of :meth:`request`.

        :param arguments: by name. The protocol knows only strings; any other JSON value is sent as its
            JSON text, so that ``3`` becomes ``"3"`` and ``True`` becomes ``"true"``.
        :raises InvalidParams: there is no such prompt, or an argument is missing.
        """
        session = self._require("prompts", "prompts/get")
        # Always there, as for tools: many servers check it against a schema that requires an object.
        params: Dict[str, Any] = {"name": name, "arguments": {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in (arguments or {}).items()}}
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                 input_responses, request_state)
        return self._read(GetPromptResult, self._request(session, "prompts/get", params, options), session, "prompts/get")

    def complete(self, *, argument: str, value: str, prompt: Optional[str] = None, resource: Optional[str] = None,
                 context: Optional[Mapping[str, str]] = None,
                 timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                 cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                 meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> CompleteResult:
        """Return values that complete an argument of a prompt or of a resource template.

        :param argument: the argument's name.
        :param value: the text so far.
        :param prompt: the prompt's name, if the argument is one of a prompt.
        :param resource: the template or URI, if the argument is one of a resource template.
        :param context: the arguments that are filled in already; sent from June 2025 on.
        :param timeout, max_timeout, cancel, on_progress, meta, fresh: as for :meth:`request`.
        :raises ValueError: not exactly one of *prompt* and *resource*.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("complete() needs prompt= or resource=, and not both")
        session = self._open_session()
        declared = session.revision.completions_capability
        if declared:
            self._require("completions", "completion/complete")
        params: Dict[str, Any] = {
            "ref": {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": resource},
            "argument": {"name": argument, "value": value}}
        if context and session.revision.completion_context:
            params["context"] = {"arguments": dict(context)}
        try:
            answer = self._request(session, "completion/complete", params,
                                   RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))
        except MethodNotFound:
            if declared:
                raise
            # COMP-02: before the capability existed, only trying showed whether a server completes.
            return CompleteResult(Completion([]))
        return self._read(CompleteResult, answer, session, "completion/complete")

    # --- logging ----------------------------------------------------------------------------------

    def set_log_level(self, level: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None) -> None:
        """Set the least urgent level of log messages that the server sends.

        From July 2026 on this sends nothing: each later request has the level. A client with a log handler asks for
        "info" from the start, one without for no messages.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        if not self._open_session().set_level(level):
            session = self._require("logging", "logging/setLevel")
            options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta)
            self._request(session, "logging/setLevel", {"level": level}, options)

    # --- pages --------------------------------------------------------------------------------------------

    def _page(self, session: FeatureSession, method: str, cls: Type[M], cursor: Optional[str], options: RequestOptions) -> M:
        params = None if cursor is None else {"cursor": cursor}
        return read_page(cls, self._request(session, method, params, options), session.name)

    def _walk(self, page: Callable[[Optional[str], RequestOptions], Any], member: str, options: RequestOptions) -> List[Any]:
        # One deadline for all pages (TIME-01), since the server decides on their number.
        session = self._open_session()
        _, most = time_limits(options.timeout, options.max_timeout, (self._timeout, self._max_timeout))
        deadline = Deadline(most)

        def next_page(cursor: Optional[str]) -> Any:
            left = deadline.remaining()
            if left is None:
                return page(cursor, options)
            try:
                if left > 0:
                    return page(cursor, options._replace(max_timeout=left))
            except RequestTimeout:
                if not deadline.expired:
                    raise
            raise RequestTimeout(f"{session.name}: not all pages of its {member} came within {most:g} s (max_timeout)")

        try:
            return walk(next_page, member, session.name)
        except InvalidParams:
            # CACHE-16: cached pages may have cursors that are no longer valid.
            if options.fresh or not session.revision.modern:
                raise
        options = options._replace(fresh=True)
        return walk(next_page, member, session.name)


def _unreadable(error: ProtocolError, session: FeatureSession, method: str) -> ProtocolError:
    return ProtocolError(f"{session.name} answered {method!r} with an invalid result: {error}", error.raw)

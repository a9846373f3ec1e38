"""Features: the calls that a user makes on an open client, by the protocol's names.

:class:`~mcplite.client.client.Client` inherits them. The sessions of both eras carry the calls out.

Completer: completion for an input field; debounces, drops outdated requests and caches the answers.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import types
from ..errors import Cancelled, InvalidParams, MethodNotFound, ProtocolError, RemoteError, RequestTimeout, ResourceNotFound
from ..rooms import has, load
from ..rpc.cancel import CancelToken
from ..rpc.tracing import INFO, get_logger
from ..types import CallToolResult, ListToolsResult, Tool, codec
from .call import DEFAULT, Call, FeatureSession, OnProgress, RequestOptions
from .output_schemas import OutputSchemas
from .request_base import Middleware, Requests, unreadable

if TYPE_CHECKING:
    from ..rooms import Task
    from .tool_list import Tools

__all__ = ["Completer", "Features"]

_log = get_logger(__name__)
_RESOURCE_MISSING = (-32002, -32602)
#: The keywords of a call that was given none, in the order in which :meth:`Features.call_tool` compares them.
_NO_OPTIONS = (DEFAULT, DEFAULT, None, None, True, False, None, None)


class Features(Requests):
    """The calls of a client, by the protocol's names.

    A class of its own, so that :class:`Client` is about the connection alone. The subclass provides the session, and
    subscriptions that have a stream.

    :param timeout, max_timeout, middleware: as for :class:`~.request_base.Requests`.
    :param validate: whether structured results are checked against the declared schema.
    :param raise_for_error: whether ``call_tool`` raises when a tool fails.
    """

    def __init__(self, timeout: Optional[float], max_timeout: Optional[float], middleware: Sequence[Middleware],
                 validate: bool, raise_for_error: bool) -> None:
        super().__init__(timeout, max_timeout, middleware)
        self._output_schemas = OutputSchemas(validate)
        self._raise_for_error, self._texts_are_json = raise_for_error, False
        #: Whether results of tools take one more step, :meth:`_finish`.
        self._finishes = raise_for_error
        self._tools: "Optional[Tools]" = None

    @abstractmethod
    def _watch(self, uri: str, timeout: Optional[float]) -> None:
        """Call the handler of updates when a resource changes, by a stream of changes that is open in *timeout* seconds."""

    @abstractmethod
    def _unwatch(self, uri: str) -> None:
        """Undo :meth:`_watch`."""

    # --- tools ------------------------------------------------------------------------------------------

    def list_tools(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[Tool]:
        """Return all tools, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        epoch = self._output_schemas.epoch
        tools: List[Tool] = self._walk(self._tools_page, "tools", options)
        if self._extensions is not None:
            self._extensions.tools_listed(epoch)
        return tools

    def list_tools_page(self, cursor: Optional[str] = None, *,
                        timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                        cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                        meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListToolsResult:
        """Return one page of tools; ``next_cursor`` is None on the last."""
        return self._tools_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _tools_page(self, cursor: Optional[str], options: RequestOptions) -> ListToolsResult:
        epoch = self._output_schemas.epoch
        session, options = self._require(options, "tools", "tools/list")
        page = self._page(session, "tools/list", ListToolsResult, cursor, options)
        page.tools = session.usable_tools(page.tools)
        if session.revision.structured_output:
            self._output_schemas.learn(page.tools, epoch)
        if self._extensions is not None:
            self._extensions.learn_tools(page.tools)
        return page

    @property
    def tool_changes(self) -> int:
        """How often the server's list of tools has changed."""
        return self._output_schemas.epoch

    def _forget_tools(self) -> None:
        """Forget what is known of the listed tools: the server's list has changed."""
        self._output_schemas.forget()
        if self._extensions is not None:
            self._extensions.forget_tools()

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                  timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                  cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                  meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                  input_responses: Optional[Mapping[str, Any]] = None,
                  request_state: Optional[str] = None) -> CallToolResult:
        """Call a tool.

        The result of a tool that fails has ``is_error``; ``result.raise_for_error()`` turns it into an exception, and so
        does ``ClientOptions(raise_for_error=True)`` for all calls.
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
        session, spent = self._available_session(), 0.0
        if session is None:
            session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel))
            spent = options.spent
        if session.capabilities.tools is None:
            self._require(RequestOptions(timeout, max_timeout, cancel, spent=spent), "tools", "tools/call")
        if _log.isEnabledFor(INFO):
            _log.info("%s: calling the tool %.200r", session.name, name)  # TOOL-50
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            if not isinstance(arguments, Mapping):
                raise TypeError(f"the arguments of the tool {name!r} must be a dict, not {type(arguments).__name__}")
            arguments = dict(arguments)
        params = {"name": name, "arguments": arguments}
        if self._extensions is not None and self._extensions.hooks_tools:
            return self._call_hooked(session, params, RequestOptions(
                timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state, spent))
        if not (spent or self._middleware or self._adds_params) and _NO_OPTIONS == (
                timeout, max_timeout, on_progress, meta, rounds, fresh, input_responses, request_state):
            # As _request() has it without options.
            answer = session.request(Call("tools/call", params, *self._default_limits, cancel))
        else:
            answer = self._request(session, "tools/call", params, RequestOptions(
                timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state, spent))
        if type(answer) is dict and (answer.get("resultType") == "task" or "task" in answer) and has("tasks"):
            # The server has not declared that it does so.
            answer = load("start_tool()")(self).result_of(answer, session, RequestOptions(
                timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, spent=spent))
        return self._tool_result(answer, session, name)

    def _call_hooked(self, session: FeatureSession, params: Dict[str, Any], options: RequestOptions) -> CallToolResult:
        """Call a tool within the hooks of extensions."""
        from .client_extensions import ToolCall  # for clients that have one

        assert self._extensions is not None, "it has the hooks"
        call = ToolCall(self, session, params, options)
        answer = self._extensions.call_tool(call, lambda: self._request(session, "tools/call", call.params, call.options))
        return self._tool_result(answer, session, str(params.get("name")))

    def start_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *, ttl: Optional[float] = None,
                   timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                   on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None) -> "Task":
        """Start a tool as a task, and return its handle at once; the work goes on at the server, also without this client.

        From July 2026 on the server decides whether a call becomes a task. If it answers the call itself, this method
        returns when it has, and the handle is that of a task that has ended.

        :param name: the tool's name.
        :param arguments: JSON values by name.
        :param ttl: for how many seconds the server should keep the task; None leaves that to it, as does every server from
            July 2026 on.
        :param timeout: seconds until the task is created; by default the client's.
        :param cancel: ends the wait for that.
        :param on_progress: called with each status message and progress report, on the thread that waits for the task.
        :param meta: added to ``params._meta``.
        :raises NotSupported: the server did not declare tasks, or the tool does not run as one; nothing was sent.
        :raises InvalidParams: there is no such tool, or the arguments do not fit.
        """
        options = RequestOptions(timeout, cancel=cancel, on_progress=on_progress, meta=meta)
        task: "Task" = load("start_tool()")(self).start_tool(name, dict(arguments or {}), ttl, options)
        return task

    def task(self, id: str, *, timeout: Optional[float] = DEFAULT, on_progress: Optional[OnProgress] = None) -> "Task":
        """Return the handle of a task by its id; this process, or another one, may have started it.

        :param id: from :attr:`Task.id`, or from the ``task_id`` of an error.
        :param timeout: seconds for the request for its status; by default the client's.
        :param on_progress: called with each status message and progress report, on the thread that waits for the task.
        :raises InvalidParams: the server does not know the task: it is not one of this user, or was not kept so long.
        :raises NotSupported: the server did not declare tasks; nothing was sent.
        """
        task: "Task" = load("start_tool()")(self).find(id, timeout, on_progress)
        return task

    def list_tasks(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None) -> List["Task"]:
        """Return the handles of all tasks that this user has at the server, from all pages.

        Only the revision of November 2025 has such a list, and a server need not offer it: keep the ids of tasks.

        :param timeout, max_timeout, cancel: as for :meth:`request`.
        :raises NotSupported: the revision has no list of tasks, or the server did not declare one; nothing was sent.
        """
        tasks: "List[Task]" = load("start_tool()")(self).all(RequestOptions(timeout, max_timeout, cancel))
        return tasks

    def _tool_result(self, answer: Dict[str, Any], session: FeatureSession, name: Optional[str]) -> CallToolResult:
        try:
            result: CallToolResult = codec.decoder(CallToolResult)(answer)
        except ProtocolError as error:
            raise unreadable(error, session, "tools/call") from error
        schema = None if name is None else self._output_schemas.listed.found.get(name)
        structured = result.structured_content
        if not structured and structured == [] and (
                session.revision.object_output_only or schema is not None and schema.of_object):
            result.structured_content = {}  # PHP writes an empty object as an empty array
        if schema is not None:
            schema.check(result, session.name, "structuredContent" in answer)
        if self._finishes:
            self._finish(result)
        return result

    def _set_revision(self, session: Any) -> None:
        """Note what was agreed on with the server, before the first call."""
        self._texts_are_json = not session.revision.structured_output
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
            from .tool_list import Tools  # for programs that use it

            self._tools = Tools(self.list_tools, self.call_tool, lambda: self._output_schemas.epoch)
        return self._tools

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                       cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                       meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Resource]:
        """Return all resources, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resources_page, "resources", options)

    def list_resources_page(self, cursor: Optional[str] = None, *,
                            timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                            cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                            meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListResourcesResult:
        """Return one page of resources."""
        return self._resources_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resources_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListResourcesResult:
        session, options = self._require(options, "resources", "resources/list")
        return self._page(session, "resources/list", types.ListResourcesResult, cursor, options)

    def list_resource_templates(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.ResourceTemplate]:
        """Return all resource templates, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._resource_templates_page, "resource_templates", options)

    def list_resource_templates_page(self, cursor: Optional[str] = None, *,
                                     timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False
                                     ) -> types.ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return self._resource_templates_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _resource_templates_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListResourceTemplatesResult:
        session, options = self._require(options, "resources", "resources/templates/list")
        return self._page(session, "resources/templates/list", types.ListResourceTemplatesResult, cursor, options)

    def read_resource(self, uri: str, arguments: Optional[Mapping[str, Any]] = None, *,
                      timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                      input_responses: Optional[Mapping[str, Any]] = None,
                      request_state: Optional[str] = None) -> types.ReadResourceResult:
        """Read a resource; the keywords are those of :meth:`request`.

        :param uri: the resource's URI, or a template if there are *arguments*.
        :param arguments: values by the names of the template's variables: ``{"city": "Rome"}`` for ``weather://{city}``.
        :raises ValueError: the template is not one, has no such variable, or needs another one; nothing was sent.
        :raises ResourceNotFound: the server has no resource with this URI.
        """
        if arguments is not None:
            from ..protocol.uritemplate import Template

            uri = Template(uri).fill(arguments)
        session, options = self._require(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                                        input_responses, request_state), "resources", "resources/read")
        try:
            answer = self._request(session, "resources/read", {"uri": uri}, options)
        except InvalidParams as error:
            # RSRC-18: revisions differ in the code, and servers do not always keep to theirs.
            if isinstance(error, ResourceNotFound) or error.code not in _RESOURCE_MISSING:
                raise
            missing = ResourceNotFound(error.message, code=error.code, data=error.data or {"uri": uri})
            missing.received = True
            raise missing from error
        return self._read(types.ReadResourceResult, answer, session, "resources/read")

    def subscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                           cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                           meta: Optional[Dict[str, Any]] = None) -> None:
        """Call ``on_resource_updated`` when the resource changes; the keywords are those of :meth:`request`.

        From July 2026 on each such subscription is a stream of its own: for many URIs use :meth:`subscribe`.

        :param uri: the resource's URI.
        :param timeout, max_timeout, cancel, on_progress, meta: as for :meth:`request`; from July 2026 on only *timeout*
            counts.
        :raises NotSupported: the server did not declare such subscriptions; nothing was sent.
        :raises ConnectionClosed: the connection is not open.
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        method = "subscriptions/listen" if session.change_streams else "resources/subscribe"
        session, options = self._require(options, "resources", method, "subscribe")
        if session.change_streams:
            self._watch(uri, self._left_of(options))
            return
        self._request(session, "resources/subscribe", {"uri": uri}, options)

    def unsubscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                             meta: Optional[Dict[str, Any]] = None) -> None:
        """End a subscription; the keywords are those of :meth:`request`, for revisions that send a request."""
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        if session.change_streams:
            self._unwatch(uri)
            return
        session, options = self._require(options, "resources", "resources/unsubscribe", "subscribe")
        self._request(session, "resources/unsubscribe", {"uri": uri}, options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Prompt]:
        """Return all prompts, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._walk(self._prompts_page, "prompts", options)

    def list_prompts_page(self, cursor: Optional[str] = None, *,
                          timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                          cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                          meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListPromptsResult:
        """Return one page of prompts."""
        return self._prompts_page(cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def _prompts_page(self, cursor: Optional[str], options: RequestOptions) -> types.ListPromptsResult:
        session, options = self._require(options, "prompts", "prompts/list")
        return self._page(session, "prompts/list", types.ListPromptsResult, cursor, options)

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                   timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                   input_responses: Optional[Mapping[str, Any]] = None,
                   request_state: Optional[str] = None) -> types.GetPromptResult:
        """Return a prompt's messages with its arguments filled in; the keywords are those of :meth:`request`.

        :param arguments: by name. The protocol knows only strings; any other JSON value is sent as its
            JSON text, so that ``3`` becomes ``"3"`` and ``True`` becomes ``"true"``.
        :raises InvalidParams: there is no such prompt, or an argument is missing.
        """
        session, options = self._require(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh, rounds,
                                                        input_responses, request_state), "prompts", "prompts/get")
        # Always there, as for tools: many servers check it against a schema that requires an object.
        params: Dict[str, Any] = {"name": name, "arguments": {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in (arguments or {}).items()}}
        return self._read(types.GetPromptResult, self._request(session, "prompts/get", params, options), session, "prompts/get")

    def complete(self, *, argument: str, value: str, prompt: Optional[str] = None, resource: Optional[str] = None,
                 context: Optional[Mapping[str, str]] = None,
                 timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                 cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                 meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.CompleteResult:
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
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))
        declared = session.revision.completions_capability
        if declared:
            session, options = self._require(options, "completions", "completion/complete")
        params: Dict[str, Any] = {
            "ref": {"type": "ref/prompt", "name": prompt} if prompt is not None else {"type": "ref/resource", "uri": resource},
            "argument": {"name": argument, "value": value}}
        if context and session.revision.completion_context:
            params["context"] = {"arguments": dict(context)}
        try:
            answer = self._request(session, "completion/complete", params, options)
        except MethodNotFound:
            if declared:
                raise
            # COMP-02: before the capability existed, only trying showed whether a server completes.
            return types.CompleteResult(types.Completion([]))
        return self._read(types.CompleteResult, answer, session, "completion/complete")

    # --- logging ----------------------------------------------------------------------------------

    def set_log_level(self, level: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None) -> None:
        """Set the least urgent level of log messages that the server sends.

        From July 2026 on this sends nothing: each later request has the level. A client with a log handler asks for
        "info" from the start, one without for no messages.

        :param level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        if not session.set_level(level):
            session, options = self._require(options, "logging", "logging/setLevel")
            self._request(session, "logging/setLevel", {"level": level}, options)


#: Characters of the values of one answer; an answer with more is not cached.
_MOST_CHARACTERS = 65_536


class Completer:
    """Requests completions while a user types, at most once for each pause and each text (COMP-13, COMP-14).

    :param client: sends the requests.
    :param prompt: the prompt whose arguments are completed; or
    :param resource: the resource template.
    :param pause: seconds without a further call before the server is asked; default 0.15.
    :param remembered: how many answers are cached; default 100.
    :raises ValueError: not exactly one of *prompt* and *resource*.
    """

    def __init__(self, client: Features, *, prompt: Optional[str] = None, resource: Optional[str] = None,
                 pause: float = 0.15, remembered: int = 100) -> None:
        if (prompt is None) == (resource is None):
            raise ValueError("a Completer needs prompt= or resource=, and not both")
        self._client = client
        self._prompt, self._resource = prompt, resource
        self._pause = pause
        self._remembered = remembered
        #: Guards the two fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._answers: Dict[Tuple[object, ...], List[str]] = {}
        self._latest = CancelToken()

    def values(self, argument: str, value: str, context: Optional[Mapping[str, str]] = None) -> Optional[List[str]]:
        """Return completions of the text so far; None if a later call on another thread has replaced this one.

        The list is empty if the server has no completions, fails, or does not answer in time (COMP-15).

        :param argument: its name.
        :param value: the text so far.
        :param context: the arguments that are filled in already.
        :raises NotSupported: the server does not support completion.
        :raises ConnectionClosed: the connection is over.
        :raises ProtocolError: the answer breaks the rules.
        """
        key = (argument, value, *sorted((context or {}).items()))
        token = CancelToken()
        with self._lock:
            outdated, self._latest = self._latest, token
            known = self._answers.get(key)
        outdated.cancel("the user has typed on")
        if known is not None:
            return list(known)
        if token.wait(self._pause):
            return None
        try:
            answer = self._client.complete(prompt=self._prompt, resource=self._resource, argument=argument,
                                           value=value, context=context, cancel=token)
        except Cancelled:
            return None
        except (RemoteError, RequestTimeout) as error:
            _log.debug("no completion for %.100r: %s", argument, error)
            return []
        if sum(map(len, answer.values)) <= _MOST_CHARACTERS:
            with self._lock:
                self._answers[key] = answer.values
                if len(self._answers) > self._remembered:
                    del self._answers[next(iter(self._answers))]
        return None if token.cancelled else list(answer.values)

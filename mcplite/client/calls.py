"""Features: the calls that a user makes on an open client, by the protocol's names.

:class:`~mcplite.client.client.Client` inherits them. Every call applies its options, checks the capabilities of the server, and
passes the middleware; the session of either era then sends it. Lists are walked page by page within bounds, and malformed items
are skipped.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar

from .. import types
from ..errors import InvalidParams, MethodNotFound, NotSupported, ProtocolError, RequestTimeout, ResourceNotFound
from ..protocol.jsonrpc import memory_size
from ..protocol.meta import check_meta
from ..revisions import TASKS_EXTENSION
from ..rooms import has, load
from ..rpc.cancel import CancelToken
from ..rpc.deadline import undo
from ..rpc.tracing import INFO, get_logger
from ..types import CallToolResult, ListToolsResult, Model, Tool, codec
from ..types.content import read_tool_result
from .call import DEFAULT, Call, OnProgress, RequestOptions, Waiting, progress_reader, time_limits
from .output_schemas import Listed, OutputSchema

if TYPE_CHECKING:
    from ..revisions import Revision
    from ..rooms import ClientTasks, Task
    from ..rpc.extension import Extension
    from .client_extensions import ClientExtensions
    from .client_options import ClientSettings
    from .retries import SafeRetries
    from .sessions.base import ClientSession
    from .sessions.connecting import SessionOpener
    from .tool_list import Tools

__all__ = ["Features", "ToolCall", "read_page", "unreadable", "walk"]

_log = get_logger(__name__)
M = TypeVar("M", bound=Model)
_MAX_PAGES = 1000
_MAX_ITEMS = 10_000
#: Bytes that all pages of one list may take in memory; a list of one page is bounded by the limits on one message.
_MAX_BYTES = 40 << 20
#: Characters of a cursor, which goes back to the server.
_MAX_CURSOR = 1 << 20
#: By the name of a page's class: the method, the capability, the member on the wire, the attribute, the class of an item.
_LISTS: Dict[str, Tuple[str, str, str, str, str]] = {
    "ListToolsResult": ("tools/list", "tools", "tools", "tools", "Tool"),
    "ListResourcesResult": ("resources/list", "resources", "resources", "resources", "Resource"),
    "ListResourceTemplatesResult": ("resources/templates/list", "resources", "resourceTemplates", "resource_templates",
                                    "ResourceTemplate"),
    "ListPromptsResult": ("prompts/list", "prompts", "prompts", "prompts", "Prompt"),
}
_RESOURCE_MISSING = (-32002, -32602)
#: The keywords of a call that was given none, in the order in which :meth:`Features.call_tool` compares them.
_NO_OPTIONS = (DEFAULT, DEFAULT, None, None, True, False, None, None)


def read_page(cls: Type[M], wire: Dict[str, Any], name: str) -> M:
    """Return one page; items that break the rules are left out, with a warning (SEC-67).

    :param cls: the class of the page.
    :param wire: the server's answer.
    :param name: the server's name, for the warning.
    :raises ProtocolError: the page itself breaks the rules.
    """
    try:
        return codec.decode(cls, wire)
    except ProtocolError as first:
        if cls.__name__ not in _LISTS:
            raise
        _, _, member, attribute, kind = _LISTS[cls.__name__]
        items = wire.get(member)
        if not isinstance(items, list):
            raise
        page = codec.decode(cls, {**wire, member: []})
        good = getattr(page, attribute)
        for item in items:
            try:
                good.append(codec.decode(getattr(types, kind), item))
            except ProtocolError:
                continue
        _log.warning("%s: %d of the %s it lists are invalid and left out: %.200s",
                     name, len(items) - len(good), attribute.replace("_", " "), first)
        return page


def walk(page: Callable[[Optional[str]], Any], member: str, name: str) -> List[Any]:
    """Return the items of all pages.

    Only an absent cursor ends the list; an empty one is a cursor (PAGE-05, PAGE-06). Some servers mean the end of the list by
    an empty cursor. If they are asked for more, they send the last items again, or none, and an empty cursor: that page is left
    out.

    :param page: returns the page for a cursor.
    :param member: the attribute of a page that has the items.
    :param name: the server's name, for errors.
    :raises ProtocolError: a cursor came twice, or the list exceeds 1,000 pages, 10,000 items or 40 MiB (PAGE-12), or a cursor
        has more than 1,048,576 characters.
    """
    items: List[Any] = []
    seen: Set[str] = set()
    cursor: Optional[str] = None
    size = 0
    for _ in range(_MAX_PAGES):
        result = page(cursor)
        found = getattr(result, member)
        if cursor == result.next_cursor == "" and (not found or found == items[-len(found):]):
            return items
        items.extend(found)
        cursor = result.next_cursor
        if cursor is None:
            return items
        if len(items) > _MAX_ITEMS:
            break
        if len(cursor) > _MAX_CURSOR:
            raise ProtocolError(f"{name} gave a cursor of more than {_MAX_CURSOR} characters in its list of {member}")
        if cursor in seen:
            raise ProtocolError(f"{name} gave the cursor {cursor[:100]!r} twice: its list of {member} has no end")
        seen.add(cursor)
        size += memory_size(result, _MAX_BYTES)
        if size > _MAX_BYTES:
            raise ProtocolError(f"{name} lists {member} of more than {_MAX_BYTES} bytes; take single pages with"
                                f" list_{member}_page()")
    raise ProtocolError(f"{name} lists more than {_MAX_PAGES} pages or {_MAX_ITEMS} {member}; take single pages"
                        f" with list_{member}_page()")


def _object_params(method: Any, params: Any) -> Optional[Dict[str, Any]]:
    """Return the params of a message as a dict; None for none.

    :raises TypeError: they are something else, or the method is no text.
    """
    if not isinstance(method, str) or not method:
        raise TypeError(f"the method is a text such as 'tools/list', not {method!r}")
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise TypeError(f"the params of {method!r} must be a dict, not {type(params).__name__}")
    if not isinstance(params.get("_meta", {}), dict):
        raise TypeError(f"_meta in the params of {method!r} must be a dict, not {type(params['_meta']).__name__}")
    return dict(params)


class ToolCall:
    """One call of a tool, for :meth:`Extension.send_tool`.

    :param client: the client that makes the call.
    :param session: the session of that client.
    :param params: of the request, with ``name`` and ``arguments``; a hook may change them.
    :param options: the keywords of the call.
    """

    def __init__(self, client: Features, session: ClientSession, params: Dict[str, Any], options: RequestOptions) -> None:
        self.client = client
        self.session = session
        self.params = params
        self.options = options

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        return self.session.revision


class Features(ABC):
    """The calls of a client. The subclass provides what opens the session, and subscriptions that have a stream.

    :param settings: how the client works.
    """

    #: Opens and keeps the session; set by the subclass.
    _opener: SessionOpener

    def __init_subclass__(cls) -> None:
        # Python's errors for wrong arguments then name Client.call_tool(), which the caller knows, and not this class.
        for name, method in vars(Features).items():
            if not name.startswith("_") and callable(method):
                method.__qualname__ = f"{cls.__name__}.{name}"

    def __init__(self, settings: ClientSettings) -> None:
        self._timeout, self._max_timeout = settings.timeout, settings.max_timeout
        #: ``timeout`` and ``max_timeout`` of a call that is given neither.
        self._default_limits = time_limits(DEFAULT, DEFAULT, self.time_limits)
        self._middleware = tuple(settings.middleware)
        #: Repeats calls; None for a client without ``retry=``.
        self._retries: "Optional[SafeRetries]" = None
        if settings.retry is not None:
            from .retries import SafeRetries  # for clients that repeat calls

            self._retries = SafeRetries(settings.retry, lambda waiting: self._opener.wait(waiting), self.list_tools)
        #: Whether a call goes straight to the session: there is no middleware, and calls are not repeated.
        self._direct = not self._middleware and self._retries is None
        #: The extensions of the protocol; None without any.
        self._extensions: "Optional[ClientExtensions]" = None
        #: Whether the extensions add to the params of requests.
        self._adds_params = False
        self._validates = settings.validate
        #: The output schemas of the tools that were listed, by the names of the tools.
        self._schemas: Listed[OutputSchema] = Listed()
        self._raise_for_error, self._texts_are_json = settings.raise_for_error, False
        #: Whether results of tools take one more step, :meth:`_adjust_result`.
        self._adjusts_results = settings.raise_for_error
        self._tools: "Optional[Tools]" = None

    @property
    def time_limits(self) -> Tuple[Optional[float], Optional[float]]:
        """The default limits of a call in seconds: ``timeout``, which progress restarts, and ``max_timeout``, in all."""
        return self._timeout, self._max_timeout

    @abstractmethod
    def use_extension(self, identifier: str, make: Callable[[], Extension]) -> Extension:
        """Return the extension of this identifier; if there is none, or one with settings alone, make and add one."""

    @abstractmethod
    def _all_subscriptions(self) -> Any:
        """Return the :class:`~.subscription.Subscriptions` of the client."""

    def _session_for(self, options: RequestOptions) -> Tuple[ClientSession, RequestOptions]:
        """Return the open session, and the keywords of the call with the time that opening it took.

        :raises ConnectionClosed: the connection is not open.
        :raises Cancelled, RequestTimeout: the call waits no longer.
        """
        session = self._opener.ready
        if session is None or session.restartable and session.peer.closed:
            seconds, most = time_limits(options.timeout, options.max_timeout, self.time_limits)
            waiting = Waiting(seconds, most, options.cancel, spent=options.spent, now=self._opener.clock.now)
            session = self._opener.wait(waiting)
            options = options._replace(spent=waiting.spent)
        return session, options

    def _left_of(self, options: RequestOptions) -> Optional[float]:
        """Return what opening the session has left of a timeout; None without a limit."""
        seconds = self._timeout if options.timeout is DEFAULT else options.timeout
        return None if seconds is None else max(0.001, seconds - options.spent)

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
        :raises TypeError, ValueError: the params are no JSON object, a time is not positive, or *meta* has an invalid key
            (META-01); nothing was sent.
        """
        params = _object_params(method, params)
        session, options = self._session_for(RequestOptions(
            timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state))
        return self._request(session, method, params, options)

    def _request(self, session: ClientSession, method: str, params: Optional[Dict[str, Any]],
                 options: RequestOptions) -> Dict[str, Any]:
        timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state, spent = options
        if self._adds_params and self._extensions is not None:
            params = self._extensions.params(method, params, session.revision)
        if meta:
            check_meta(meta, session.revision, reserved=True)
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **meta}}
        if input_responses is not None:
            params = {**(params or {}), "inputResponses": dict(input_responses)}
        if request_state is not None:
            params = {**(params or {}), "requestState": request_state}
        seconds, most = self._default_limits
        if timeout is not DEFAULT or max_timeout is not DEFAULT:
            seconds, most = time_limits(timeout, max_timeout, self.time_limits)
        progress = None if on_progress is None else progress_reader(on_progress)
        call = Call(method, params, seconds, most, cancel, progress, rounds, fresh)
        if spent:
            call = call._replace(spent=spent)
        return session.request(call) if self._direct else self._proceed(session, call, 0)

    def send(self, call: Call) -> Dict[str, Any]:
        """Send a request that was made elsewhere, such as one that a server passes on; see :meth:`request`."""
        session = self._opener.ready
        if session is None or session.restartable and session.peer.closed:
            session, options = self._session_for(RequestOptions(call.timeout, call.max_timeout, call.cancel, spent=call.spent))
            call = call._replace(spent=options.spent)
        return session.request(call) if self._direct else self._proceed(session, call, 0)

    def _proceed(self, session: ClientSession, call: Call, index: int) -> Dict[str, Any]:
        """Run the middleware from one position on, and send the request after the last."""
        if index == len(self._middleware):
            return session.request(call) if self._retries is None else self._retries.send(session, call)
        return self._middleware[index](call.method, call.params, lambda: self._proceed(session, call, index + 1))

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send any notification.

        :param params: JSON; None for none.
        :raises TypeError, ValueError: the params are no JSON object; nothing was sent.
        """
        params = _object_params(method, params)
        session, options = self._session_for(RequestOptions())
        session.notify(method, params, self._left_of(options))

    def ping(self, *, timeout: Optional[float] = DEFAULT) -> None:
        """Send a ping, or ``server/discover`` in revisions without one, and return when the server has answered."""
        session, options = self._session_for(RequestOptions(timeout))
        self._request(session, "ping" if "ping" in session.revision.client_requests else "server/discover", None, options)

    def _require(self, options: RequestOptions, capability: str, method: str, flag: Optional[str] = None
                 ) -> Tuple[ClientSession, RequestOptions]:
        """Return the open session, and the keywords of the call, if the server declared a capability.

        :raises NotSupported: the server did not declare the capability; nothing was sent.
        """
        session, options = self._session_for(options)
        declared = getattr(session.capabilities, capability)
        if declared is None or (flag is not None and not declared.get(flag)):
            name = capability if flag is None else f"{capability}.{flag}"
            again = "" if name not in ("tools", "resources", "prompts") else (
                f"; if it has {name} now, connect again, or let it declare them from the beginning (for a server of mcplite:"
                f" ServerOptions(declare=[{name!r}]))")
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent{again}")
        return session, options

    def _read(self, cls: Type[M], answer: Dict[str, Any], session: ClientSession, method: str) -> M:
        try:
            return codec.decode(cls, answer)
        except ProtocolError as error:
            raise unreadable(error, session, method) from error

    # --- pages --------------------------------------------------------------------------------------------

    def _page(self, session: ClientSession, method: str, cls: Type[M], cursor: Optional[str], options: RequestOptions) -> M:
        params = None if cursor is None else {"cursor": cursor}
        return read_page(cls, self._request(session, method, params, options), session.name)

    def _list_page(self, cls: Type[M], cursor: Optional[str], options: RequestOptions) -> M:
        method, capability = _LISTS[cls.__name__][:2]
        epoch = self._schemas.epoch
        session, options = self._require(options, capability, method)
        page = self._page(session, method, cls, cursor, options)
        if isinstance(page, ListToolsResult):
            page.tools = session.usable_tools(page.tools)
            if self._validates and session.revision.structured_output:
                self._schemas.learn([tool.name for tool in page.tools],
                                    {tool.name: OutputSchema(tool.name, tool.output_schema) for tool in page.tools
                                     if tool.output_schema is not None}, epoch)
            if self._retries is not None:
                self._retries.learn(page.tools)
            for extension in self._learning_extensions():
                extension.learn_tools(page.tools)
        return page

    def _list(self, cls: Type[M], options: RequestOptions) -> List[Any]:
        return self._walk(functools.partial(self._list_page, cls), _LISTS[cls.__name__][3], options)

    def _walk(self, page: Callable[[Optional[str], RequestOptions], Any], member: str, options: RequestOptions) -> List[Any]:
        # One deadline for all pages (TIME-01), since the server decides on their number.
        session, options = self._session_for(options)
        _, most = time_limits(options.timeout, options.max_timeout, self.time_limits)
        begun = session.now() - options.spent

        def next_page(cursor: Optional[str]) -> Any:
            given = options if cursor is None else options._replace(spent=0.0)
            if most is None:
                return page(cursor, given)
            left = begun + most - session.now()
            try:
                if left > 0:
                    return page(cursor, given if cursor is None else given._replace(max_timeout=left))
            except RequestTimeout:
                if session.now() < begun + most:
                    raise
            raise RequestTimeout(f"{session.name}: not all pages of its {member} came within {most:g} s (max_timeout)")

        try:
            return walk(next_page, member, session.name)
        except InvalidParams:
            # CACHE-16: cached pages may have cursors that are no longer valid.
            if options.fresh or not session.revision.modern:
                raise
        options = options._replace(fresh=True, spent=session.now() - begun)
        return walk(next_page, member, session.name)

    # --- tools ------------------------------------------------------------------------------------------

    def list_tools(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[Tool]:
        """Return all tools, from all pages; the keywords are those of :meth:`request`."""
        epoch = self._schemas.epoch
        tools: List[Tool] = self._list(ListToolsResult, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))
        for extension in self._learning_extensions():
            extension.tools_listed(epoch)
        return tools

    def list_tools_page(self, cursor: Optional[str] = None, *,
                        timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                        cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                        meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> ListToolsResult:
        """Return one page of tools; ``next_cursor`` is None on the last."""
        return self._list_page(ListToolsResult, cursor, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    @property
    def tool_changes(self) -> int:
        """How often the server's list of tools has changed."""
        return self._schemas.epoch

    def _forget_tools(self) -> None:
        """Forget what is known of the listed tools: the server's list has changed."""
        self._schemas.forget()
        if self._retries is not None:
            self._retries.forget()
        for extension in self._learning_extensions():
            extension.forget_tools()

    def _learning_extensions(self) -> Sequence[Extension]:
        return () if self._extensions is None else self._extensions.learning

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
        :param arguments: JSON values by name; dates, dataclasses and others are converted as in the results of tools.
        :param timeout, max_timeout, cancel, on_progress, meta, fresh: as for :meth:`request`.
        :param rounds, input_responses, request_state: as for :meth:`request`.
        :raises InvalidParams: there is no such tool, or, before November 2025, the arguments do not fit.
        :raises ProtocolError: the structured content does not fit the tool's schema.
        :raises ToolError: the tool failed, and the client was made with ``raise_for_error=True``.
        :raises TypeError, ValueError: the arguments are not JSON; nothing was sent.
        """
        session, spent = self._opener.ready, 0.0
        if session is None or session.restartable and session.peer.closed:
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
        if not self._direct or self._extensions is not None or spent or _NO_OPTIONS != (
                timeout, max_timeout, on_progress, meta, rounds, fresh, input_responses, request_state):
            return self._call_tool(session, params, RequestOptions(
                timeout, max_timeout, cancel, on_progress, meta, fresh, rounds, input_responses, request_state, spent))
        # What _request() does for a call without options.
        answer = session.request(Call("tools/call", params, *self._default_limits, cancel))
        if type(answer) is dict and (answer.get("resultType") == "task" or "task" in answer) and has("tasks"):
            answer = self._result_of_task(answer, session, RequestOptions(cancel=cancel))
        return self._tool_result(answer, session, name)

    def _call_tool(self, session: ClientSession, params: Dict[str, Any], options: RequestOptions) -> CallToolResult:
        """Call a tool with options, within the hooks of extensions."""
        call = ToolCall(self, session, params, options)

        def send() -> Dict[str, Any]:
            return self._request(session, "tools/call", call.params, call.options)

        hooks = () if self._extensions is None else self._extensions.hooks
        for hook in reversed(hooks):
            send = functools.partial(hook.send_tool, call, send)
        answer = send()
        if hooks and not isinstance(answer, dict):
            raise TypeError(f"return an object or proceed() from send_tool() of an extension, not {type(answer).__name__}")
        if type(answer) is dict and (answer.get("resultType") == "task" or "task" in answer) and has("tasks"):
            answer = self._result_of_task(answer, session, call.options)
        return self._tool_result(answer, session, str(params.get("name")))

    def _result_of_task(self, answer: Dict[str, Any], session: ClientSession, options: RequestOptions) -> Dict[str, Any]:
        """Return the result of a task that a server has started without having declared that it does so."""
        return self._tasks().result_of(answer, session, options)

    def _tasks(self) -> "ClientTasks":
        """Return the tasks of this client; the first call loads the folder ``tasks``."""
        return load("start_tool()")(self)  # type: ignore[no-any-return]  # tasks.client_tasks.tasks_of_client

    def start_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *, ttl: Optional[float] = None,
                   timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                   on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None) -> "Task":
        """Start a tool as a task, and return its handle at once; the work goes on at the server, also without this client.

        From July 2026 on the server decides whether a call becomes a task. If it answers the call itself, this method
        returns when it has, and the handle is that of a task that has ended.

        :param name: the tool's name.
        :param arguments: JSON values by name.
        :param ttl: for how many seconds the server should keep the task; None leaves that to the server. From July 2026 on the
            server always decides.
        :param timeout: seconds until the task is created; by default the client's.
        :param cancel: a token; cancelling it ends the wait for the creation of the task.
        :param on_progress: called with each status message and progress report, on the thread that waits for the task.
        :param meta: added to ``params._meta``.
        :raises NotSupported: the server did not declare tasks, or the tool does not run as one; nothing was sent.
        :raises InvalidParams: there is no such tool, or the arguments do not fit.
        """
        options = RequestOptions(timeout, cancel=cancel, on_progress=on_progress, meta=meta)
        return self._tasks().start_tool(name, dict(arguments or {}), ttl, options)

    def task(self, id: str, *, timeout: Optional[float] = DEFAULT, on_progress: Optional[OnProgress] = None) -> "Task":
        """Return the handle of a task by its id; this process, or another one, may have started it.

        :param id: from :attr:`Task.id`, or from the ``task_id`` of an error.
        :param timeout: seconds for the request for its status; by default the client's.
        :param on_progress: called with each status message and progress report, on the thread that waits for the task.
        :raises InvalidParams: the server does not know the task: it is not one of this user, or was not kept so long.
        :raises NotSupported: the server did not declare tasks; nothing was sent.
        """
        return self._tasks().find(id, timeout, on_progress)

    def list_tasks(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None) -> List["Task"]:
        """Return the handles of all tasks that this user has at the server, from all pages.

        Only the revision of November 2025 has such a list, and a server need not offer it: keep the ids of tasks.

        :param timeout, max_timeout, cancel: as for :meth:`request`.
        :raises NotSupported: the revision has no list of tasks, or the server did not declare one; nothing was sent.
        """
        return self._tasks().all(RequestOptions(timeout, max_timeout, cancel))

    def _tool_result(self, answer: Dict[str, Any], session: ClientSession, name: Optional[str]) -> CallToolResult:
        try:
            result = read_tool_result(answer)
        except ProtocolError as error:
            raise unreadable(error, session, "tools/call") from error
        schema = None if name is None else self._schemas.found.get(name)
        structured = result.structured_content
        if not structured and structured == [] and (
                session.revision.object_output_only or schema is not None and schema.of_object):
            result.structured_content = {}  # PHP writes an empty object as an empty array
        if schema is not None:
            schema.check(result, session.name, "structuredContent" in answer)
        if self._adjusts_results:
            self._adjust_result(result)
        return result

    def _set_revision(self, session: ClientSession) -> None:
        """Note what was agreed on with the server, before the first call."""
        capabilities = session.capabilities
        if (capabilities.tasks is not None or TASKS_EXTENSION in (capabilities.extensions or {})) and has("tasks"):
            self._tasks()  # calls of tools may become tasks
        self._texts_are_json = not session.revision.structured_output
        self._adjusts_results = self._raise_for_error or self._texts_are_json

    def _adjust_result(self, result: CallToolResult) -> None:
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

            self._tools = Tools(self.list_tools, self.call_tool, lambda: self._schemas.epoch)
        return self._tools

    # --- resources --------------------------------------------------------------------------------------

    def list_resources(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                       cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                       meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Resource]:
        """Return all resources, from all pages; the keywords are those of :meth:`request`."""
        return self._list(types.ListResourcesResult, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def list_resources_page(self, cursor: Optional[str] = None, *,
                            timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                            cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                            meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListResourcesResult:
        """Return one page of resources."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._list_page(types.ListResourcesResult, cursor, options)

    def list_resource_templates(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.ResourceTemplate]:
        """Return all resource templates, from all pages; the keywords are those of :meth:`request`."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._list(types.ListResourceTemplatesResult, options)

    def list_resource_templates_page(self, cursor: Optional[str] = None, *,
                                     timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False
                                     ) -> types.ListResourceTemplatesResult:
        """Return one page of resource templates."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._list_page(types.ListResourceTemplatesResult, cursor, options)

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
        :raises ResourceNotFound: before July 2026, there is no such resource. From then on one may be registered later.
        :raises ConnectionClosed: the connection is not open.
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        method = "subscriptions/listen" if session.change_streams else "resources/subscribe"
        session, options = self._require(options, "resources", method, "subscribe")
        if session.change_streams:
            self._all_subscriptions().watch(session, uri, self._left_of(options))
            return
        with undo(lambda: self._all_subscriptions().release(uri)):
            self._all_subscriptions().keep(uri)
            self._request(session, "resources/subscribe", {"uri": uri}, options)

    def unsubscribe_resource(self, uri: str, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                             meta: Optional[Dict[str, Any]] = None) -> None:
        """End a subscription; the keywords are those of :meth:`request`, for revisions that send a request.

        In revisions with a handshake, nothing is sent while :meth:`listen` or :meth:`subscribe` needs the resource.
        """
        session, options = self._session_for(RequestOptions(timeout, max_timeout, cancel, on_progress, meta))
        if session.change_streams:
            self._all_subscriptions().unwatch(uri)
            return
        session, options = self._require(options, "resources", "resources/unsubscribe", "subscribe")
        if not self._all_subscriptions().release(uri):
            self._request(session, "resources/unsubscribe", {"uri": uri}, options)

    # --- prompts and completion ---------------------------------------------------------------------------

    def list_prompts(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                     cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                     meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> List[types.Prompt]:
        """Return all prompts, from all pages; the keywords are those of :meth:`request`."""
        return self._list(types.ListPromptsResult, RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh))

    def list_prompts_page(self, cursor: Optional[str] = None, *,
                          timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                          cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                          meta: Optional[Dict[str, Any]] = None, fresh: bool = False) -> types.ListPromptsResult:
        """Return one page of prompts."""
        options = RequestOptions(timeout, max_timeout, cancel, on_progress, meta, fresh)
        return self._list_page(types.ListPromptsResult, cursor, options)

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
        # ``arguments`` is always sent, as for tools: many servers check it against a schema that requires an object.
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


def unreadable(error: ProtocolError, session: ClientSession, method: str) -> ProtocolError:
    """Return the error for an answer that is not a valid result of its method."""
    return ProtocolError(f"{session.name} answered {method!r} with an invalid result: {error}", error.raw)

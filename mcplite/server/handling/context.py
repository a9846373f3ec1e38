"""The context of a request, for its handler: progress, logs, cancellation, questions to the client, the caller.

Every call through the context is a cancellation point: once the request is cancelled it raises ``Cancelled``, which ends a
loop that reports progress.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import operator
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Union

from ...errors import SERVER_BUSY, RemoteError
from ...protocol.error_text import quoted
from ...rpc.fair_queue import COSTLY, Turn
from ...rpc.request import Incoming, MessageFacts
from ..catalog.registry import granted_scopes
from .session import Session, Throttle, check_own_notification

# Modules that neither the start of a server nor a list needs are imported by the functions that use them.
if TYPE_CHECKING:
    from ...protocol.opaque import ReplayLog
    from ...rpc.cancel import CancelToken
    from ...types import (
        ClientCapabilities,
        CreateMessageResult,
        Implementation,
        ModelPreferences,
        Progress,
        Root,
        Tool,
        ToolChoice,
    )
    from ..catalog.catalog import Catalog, Target
    from ..functions.function import Function
    from ..principals import Principal
    from ..runtime.runtime import Runtime
    from .client_questions import Asker  # it loads forms and sampling, which only handlers that ask need
    from .http_request import HTTPRequest
    from .questions import Elicited, Messages, Question
    from .stored_values import ContextStore

__all__ = ["CURRENT", "Context", "LEVELS", "NeedsWorker", "RequestContext", "RequestFacts", "Timeout", "log_params",
           "progress_number", "rank"]

#: The syslog levels, least urgent first (LOG-02).
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RANK = {level: rank for rank, level in enumerate(LEVELS)}

#: The context of the handler that runs on this thread; read by the logging handler.
CURRENT: "contextvars.ContextVar[Optional[Context]]" = contextvars.ContextVar("mcplite_context", default=None)


class Context:
    """One request, as its handler sees it.

    A handler gets one by annotating a parameter: ``def tool(x: int, ctx: mcplite.Context)``.
    """

    __mcplite_context__ = True

    #: The client's session; for a client without a handshake it lasts for this request alone.
    session: Session
    incoming: Incoming
    params: Dict[str, Any]
    #: The runtime of the server whose handler runs: the session's, or that of a mounted server.
    runtime: Runtime
    #: Guards the throttles, the last progress value and the progress held back, the number of questions and the making of the
    #: asker; held for a moment.
    _lock: threading.Lock
    #: Progress that was held back, to be sent before the result.
    held_progress: Optional[Dict[str, Any]]
    #: Whether the handler has asked the client something, and waited for the answer.
    has_asked: bool

    # Defaults on the class: a context is created for every request, and most handlers never use these.
    _progress: Optional[Throttle] = None
    _logs: Optional[Throttle] = None
    _last: Optional[float] = None
    _dropped = 0
    _asker: "Optional[Asker]" = None
    _questions = 0
    #: The time limit of the call, which is paused while the handler waits for an answer; None for no limit.
    _timeout: Optional[Timeout] = None
    #: How often the handler was called before, for this request.
    round = 0
    #: The answers to an ``InputRequired`` that this handler returned, by key.
    input_responses: Mapping[str, Any] = MappingProxyType({})
    #: The ``state`` of that ``InputRequired``.
    state: Any = None

    # --- the request and its client ---------------------------------------------------------------

    @property
    def request_id(self) -> Union[int, str]:
        """The JSON-RPC id of this request."""
        return self.incoming.id

    @property
    def method(self) -> str:
        """The protocol's method, such as ``tools/call``."""
        return self.incoming.method

    @property
    def meta(self) -> Dict[str, Any]:
        """The request's ``_meta``; empty when there is none."""
        meta = self.incoming.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def client_info(self) -> Optional[Implementation]:
        """The client's name and version, as the client gives them; not verified."""
        return self.session.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared."""
        return self.session.client_capabilities

    @property
    def protocol_version(self) -> str:
        """The revision that this request is served under."""
        return self.session.revision.name

    @property
    def principal(self) -> "Optional[Principal]":
        """The authenticated sender of this request, by its token or the host; None without authentication, as on stdio."""
        return self.session.principal_of(self.incoming)

    @property
    def http(self) -> "Optional[HTTPRequest]":
        """The HTTP request that brought this one; None on stdio and in memory.

        ``method``, ``path``, ``query``, ``headers`` (by name without regard to case), ``remote`` (the peer's address) and,
        under WSGI, ``environ``. From July 2026 on, after a question, it is the request that brought the answer.
        """
        facts: Optional[RequestFacts] = self.incoming.facts
        return None if facts is None else facts.http

    @property
    def trace_context(self) -> Dict[str, str]:
        """The W3C trace context that came with the request: ``traceparent``, ``tracestate``, ``baggage`` (META-08)."""
        meta = self.meta
        return {key: meta[key] for key in ("traceparent", "tracestate", "baggage") if isinstance(meta.get(key), str)}

    @property
    def extensions(self) -> Dict[str, Any]:
        """The extensions that the client declares, with their settings."""
        declared = self.session.client_capabilities.extensions
        return dict(declared) if declared else {}

    @property
    def lifespan(self) -> Any:
        """The value of the server's ``lifespan`` context manager; None when it has none."""
        return self.runtime.lifespan_value

    @property
    def tool(self) -> "Optional[Tool]":
        """The tool that this request calls, as it is listed; None for another request, and for a name that no tool has.

        Middleware reads its ``annotations`` and ``tags``.
        """
        entry = visible_catalog(self).resolve("tools/call", self.params).entry if self.method == "tools/call" else None
        return None if entry is None else entry.listed(self.session.revision)

    @property
    def store(self) -> "ContextStore":
        """Values that outlast the request: ``ctx.store.session``, ``ctx.store.principal`` and ``ctx.store.server``.

        Each is a :class:`~mcplite.server.handling.stored_values.StoredValues`, in the backend: the values of a server with
        ``backend=`` are there for all of its processes, and after a restart.
        """
        from .stored_values import ContextStore  # for handlers that store something

        return ContextStore(self)

    @property
    def task_id(self) -> Optional[str]:
        """The id of the task that this call has become; None for an ordinary call."""
        return None

    def task_status(self, message: str) -> None:
        """Set the text about the present status of the task, for people and models; for an ordinary call it does nothing.

        Of several texts within a fifth of a second the last one counts. :meth:`report_progress` sets it too.

        :raises Cancelled: the task was cancelled.
        """
        self.check_cancelled()

    # --- cancellation -----------------------------------------------------------------------------

    @property
    def token(self) -> CancelToken:
        """The cancel token of this request."""
        return self.incoming.token

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled or disconnected, or the tool's ``timeout`` has passed."""
        return self.incoming.token.cancelled

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run *callback* when the request is cancelled, for instance to close a socket or to kill a child.

        It runs on the thread that cancels; immediately if the request is cancelled already.

        :returns: a function that removes the callback.
        """
        return self.incoming.token.add_callback(callback)

    def check_cancelled(self) -> None:
        """Raise if the request is cancelled.

        :raises Cancelled: with the client's reason, if it gave one.
        """
        self.incoming.token.check()

    def close_stream(self, retry: Optional[float] = None) -> bool:
        """Close the connection that carries this request's event stream; the client reconnects for the response.

        Use it before long work, so that no connection stays open meanwhile. Messages from now on are kept, within the
        limits, until the client reconnects. It works from November 2025 on, over HTTP with sessions; anywhere else it
        does nothing.

        :param retry: seconds after which the client should reconnect; by default ``Limits.retry_seconds``.
        :returns: whether the connection is closed.
        """
        outlet = self.incoming.outlet
        return outlet is not None and outlet.close_connection(retry)

    def sleep(self, seconds: float) -> None:
        """Sleep; cancellation of the request ends it early.

        :raises Cancelled: the request was cancelled.
        """
        if self.incoming.token.wait(seconds):
            self.check_cancelled()

    # --- progress and logs ------------------------------------------------------------------------

    def report_progress(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """Send the progress of this request to the client.

        Nothing is sent if the client did not ask for progress (PROG-15) or the value has not risen
        (PROG-05). Beyond ``Limits.messages_per_second`` only the latest value is kept; it is sent
        before the result at the latest.

        :param progress: a number that rises; any unit. Decimals, fractions and numbers of numpy are numbers, too; NaN and
            infinities are not sent.
        :param total: the final value, if it is known.
        :param message: a text for the user.
        :raises TypeError: *progress* or *total* is no number.
        :raises Cancelled: the request was cancelled.
        """
        self.check_cancelled()
        if type(progress) is not int:
            progress = progress_number(progress, "progress")
        if total is not None and type(total) is not int:
            total = progress_number(total, "total")
        token = self.meta.get("progressToken")
        if type(token) is not int and type(token) is not str or progress is None:
            return
        params: Dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.session.revision.progress_message:
            params["message"] = message if type(message) is str else str(message)
        with self._lock:
            if self._last is not None and progress <= self._last:
                return
            self._last = progress
            if self._progress is None:
                self._progress = self.session.throttle()
            allowed = self._progress.allow()
            self.held_progress = None if allowed else params
        if not allowed:
            return
        self.incoming.emit("notifications/progress", params)

    def log(self, level: str, data: Any, logger: Optional[str] = None) -> None:
        """Send a log message to the client, if the client wants messages of this level.

        :param level: one of the eight syslog levels, "debug" to "emergency".
        :param data: any JSON value; anything else is sent as its ``str``.
        :param logger: a name for the source of the message.
        :raises ValueError: the level is not one of the eight.
        :raises Cancelled: the request was cancelled.
        """
        if level not in _RANK:
            raise ValueError(f"{level!r} is not a log level; use one of {', '.join(LEVELS)}")
        self.check_cancelled()
        if not self.session.wants_log(level):
            return
        with self._lock:
            if self._logs is None:
                self._logs = self.session.throttle()
            if not self._logs.allow():
                self._dropped += 1
                return
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._emit_log("warning", f"{dropped} log messages were dropped: too many at once", logger)
        self._emit_log(level, data, logger)

    def _emit_log(self, level: str, data: Any, logger: Optional[str]) -> None:
        params = log_params(level, data, logger)
        try:
            self.incoming.emit("notifications/message", params)
        except (TypeError, ValueError):
            params["data"] = str(data)
            self.incoming.emit("notifications/message", params)

    def debug(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "debug"; see :meth:`log`."""
        self.log("debug", data, logger)

    def info(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "info"; see :meth:`log`."""
        self.log("info", data, logger)

    def notice(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "notice"; see :meth:`log`."""
        self.log("notice", data, logger)

    def warning(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "warning"; see :meth:`log`."""
        self.log("warning", data, logger)

    def error(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "error"; see :meth:`log`."""
        self.log("error", data, logger)

    def critical(self, data: Any, logger: Optional[str] = None) -> None:
        """Log at level "critical"; see :meth:`log`."""
        self.log("critical", data, logger)

    # --- messages of the server's own --------------------------------------------------------------

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Send a notification of your own to the client, on the way that the answer of this request takes.

        It reaches clients of each revision. ``client.on(method, ...)`` takes it at mcplite's client; a client that does not
        know the name drops it.

        :param method: a name that the protocol does not have, such as ``"notifications/acme/moved"``.
        :param params: any JSON object; None for none.
        :raises ValueError: the protocol has this name, or the params are not JSON.
        :raises TypeError: the params are no dict, or hold what is not JSON.
        :raises Cancelled: the request was cancelled.
        """
        check_own_notification(method, params)
        self.check_cancelled()
        self.incoming.emit(method, {} if params is None else params)

    # --- questions --------------------------------------------------------------------------------

    @property
    def can_elicit(self) -> bool:
        """Whether the user can be asked by form."""
        return self._get_asker().can("elicitation/create", "form")

    @property
    def can_elicit_url(self) -> bool:
        """Whether the user can be asked to visit a URL."""
        return self._get_asker().can("elicitation/create", "url")

    @property
    def can_sample(self) -> bool:
        """Whether the client's language model can be asked."""
        return self._get_asker().can("sampling/createMessage")

    @property
    def can_list_roots(self) -> bool:
        """Whether the client can be asked for its roots."""
        return self._get_asker().can("roots/list")

    def elicit(self, message: str, schema: Any = None, *, task: bool = False,
               on_progress: "Optional[Callable[[Progress], object]]" = None) -> Elicited[Any]:
        """Ask the user with a form, and wait for the answer: accepted, declined or cancelled.

        :param message: the text for the user.
        :param schema: the form: a dataclass, TypedDict, plain type, or the JSON Schema of a flat object. None asks only
            for yes or no.
        :param task: asks as a task if the client declares that, which it can in November 2025 alone; see :class:`Elicit`.
        :param on_progress: called with each :class:`~mcplite.types.Progress` that the client reports before its answer; see
            :class:`Elicit`.
        :returns: the answer, which is true exactly when the user accepted.
        :raises MissingCapability: the client cannot ask its user; nothing was sent.
        :raises ValueError: the schema is not a flat form (ELIC-06).
        :raises ProtocolError: before July 2026, the answer does not fit the form; from then on such a question is asked again.
        :raises RemoteError: before July 2026, the client answered with an error; from then on, too many questions wait.
        :raises RequestTimeout: before July 2026, no answer within ``Limits.ask_seconds``.
        :raises Cancelled: the request was cancelled meanwhile; from July 2026 on also, the client did not come back with the
            answer within ``Limits.waiting_seconds``.
        """
        from .questions import Elicit

        return self._ask(Elicit(message, schema, task=task, on_progress=on_progress))  # type: ignore[no-any-return]

    def elicit_url(self, message: str, url: str, elicitation_id: Optional[str] = None, *, task: bool = False) -> Elicited[Any]:
        """Ask the user to visit a page; "accept" means that they agreed, not that they have finished (URLE-04).

        :param message: the reason, for the user.
        :param url: absolute, https outside development; no secrets in it.
        :param elicitation_id: for :meth:`elicitation_complete`; generated by default for clients of a revision with ids.
            The answer has it as ``elicitation_id``.
        :param task: as for :meth:`elicit`.
        :raises MissingCapability: the client cannot open pages.
        :raises ValueError: the URL is not valid.
        :raises RemoteError, RequestTimeout, Cancelled: as for :meth:`elicit`.
        """
        from .questions import Elicit

        return self._ask(Elicit(message, url=url, elicitation_id=elicitation_id, task=task))  # type: ignore[no-any-return]

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that the user has finished with the page of a URL question (URLE-05).

        It does nothing for clients of revisions without ids.

        :param elicitation_id: of the question, such as ``elicit_url(...).elicitation_id``.
        """
        self.session.elicitation_complete(elicitation_id)

    def sample(self, messages: "Messages", *,
               max_tokens: int = 1000, system_prompt: Optional[str] = None, temperature: Optional[float] = None,
               stop_sequences: Optional[List[str]] = None, include_context: Optional[str] = None,
               model_preferences: "Optional[ModelPreferences]" = None, metadata: Optional[Dict[str, Any]] = None,
               tools: Optional[List[Tool]] = None, tool_choice: "Optional[ToolChoice]" = None,
               task: bool = False, on_progress: "Optional[Callable[[Progress], object]]" = None) -> "CreateMessageResult":
        """Ask the client's language model, and wait for its answer.

        :param messages: texts, messages or content, such as an ``mcplite.Image``; or a single one of them.
        :param max_tokens: the most tokens that the model may write; default 1000.
        :param tools: the tools that the model may use; run them, and ask again with their results.
        :param tool_choice: whether the model may, must or must not use tools.
        :param system_prompt, temperature, stop_sequences, include_context: as for :class:`Sample`.
        :param model_preferences, metadata: as for :class:`Sample`.
        :param task, on_progress: as for :meth:`elicit`.
        :raises MissingCapability: the client has no sampling, or none with tools when *tools* are given.
        :raises ValueError: tool uses and tool results do not match (SAMP-11, SAMP-12).
        :raises RemoteError: the client answered with an error; code -1 means that its user refused.
        :raises RequestTimeout, Cancelled: as for :meth:`elicit`.
        """
        from .questions import Sample

        question = Sample(messages, max_tokens=max_tokens, system_prompt=system_prompt, temperature=temperature,
                          stop_sequences=stop_sequences, include_context=include_context,
                          model_preferences=model_preferences, metadata=metadata, tools=tools,
                          tool_choice=tool_choice, task=task, on_progress=on_progress)
        return self._ask(question)  # type: ignore[no-any-return]

    def list_roots(self) -> "List[Root]":
        """Return the client's roots. They are kept until the client announces a change.

        :raises MissingCapability: the client declared none.
        :raises RemoteError, RequestTimeout, Cancelled: as for :meth:`elicit`.
        """
        from .questions import ListRoots

        return self._ask(ListRoots())  # type: ignore[no-any-return]

    def ask(self, questions: Mapping[str, Question]) -> Dict[str, Any]:
        """Ask several questions: all at once from July 2026 on, one after another with older clients.

        :param questions: by keys of your choice, which clients see from July 2026 on.
        :returns: the answers by key.
        :raises: what the methods for single questions raise.
        """
        return self._ask_all(questions, True)

    def once(self, key: str, action: Callable[[], Any]) -> Any:
        """Return the result of *action*, which runs only the first time that the handler is called for a request.

        In a fleet (``Server(fleet=True)``) a handler that asks is called again with each answer, in any of the
        processes. It repeats everything before the question, except what is wrapped in ``once``. The result travels
        through the client, signed but readable, so in a fleet it must be JSON.

        With a shared backend (``Server(backend=)``) the handler waits, and is called again only if its process ends before
        the answer comes. The result is stored with the next question. After an answer the backend has a note before the
        action and one after it: if the process ends between them, the client is told that the action was begun, and no
        process repeats it.

        :param key: names the action within this handler.
        :raises TypeError: in a fleet, the result is not JSON.
        :raises RemoteError: the backend is away, so the action was not begun.
        """
        return self._get_asker().once(key, action)

    def _get_asker(self) -> "Asker":
        if self._asker is None:
            with self._lock:  # threads of the handler share one
                self._asker = self._asker or self.session.create_asker(self)
        return self._asker

    def _ask(self, question: Question) -> Any:
        with self._lock:
            self._questions += 1
            key = f"question-{self._questions}"
        return self._ask_all({key: question}, False)[key]

    def _ask_all(self, questions: Mapping[str, Question], named: bool) -> Dict[str, Any]:
        self.check_cancelled()
        self.has_asked = True
        if self._timeout is None:
            return self._get_asker().ask(questions, named)
        with self._timeout.paused():
            return self._get_asker().ask(questions, named)


class RequestFacts(MessageFacts):
    """The facts of one HTTP request that its handler needs: the request itself, principal, target and sender.

    :param http: the request, authenticated.
    :param target: what the message is about; None if that was not looked up.
    :param sender: the key under which limits count the request; by default the principal's key, or without a principal the
        client's address.
    """

    __slots__ = ("http", "principal", "target", "sender")

    def __init__(self, http: HTTPRequest, target: Optional[Target], sender: str = "") -> None:
        self.http: Optional[HTTPRequest] = http
        principal = self.principal = http.principal
        self.target = target
        self.sender = sender or (http.network if principal is None else principal.key)

    def forget_request(self) -> None:
        """Forget the HTTP request; called when the request stays in progress for long."""
        self.http = None


class RequestContext(Context):
    """One request, as the code around its handler sees it: sessions, methods, askers and optional parts of the package.

    :param session: of the client.
    :param incoming: the request.
    :param target: what the request is about; None for a task, whose handler is found already.
    """

    #: The answers that the request has brought, by key; each of them is used once.
    given: Dict[str, Any] = {}
    #: The record of the answers so far, if the handler is called again with them.
    replay_log: "Optional[ReplayLog]" = None

    has_asked = False
    #: Whether the present questions are those of a returned ``InputRequired``. Then the handler is called again
    #: with the answers.
    asked_by_return = False

    #: Gives params the names of the mounted server whose handler runs; None while no mounted server is called.
    rename: Optional[Callable[[Dict[str, Any]], Dict[str, Any]]] = None

    def __init__(self, session: Session, incoming: Incoming, target: Optional[Target] = None) -> None:
        self.session = session
        self.runtime = session.runtime
        self.incoming = incoming
        self.params = incoming.params
        self.target = target
        # Each answer reads these fields, so they are set on the object. The class has the defaults of fields that most requests
        # never set.
        self.held_progress = None
        #: The result that asks the client, if the handler was ended to ask (in a fleet).
        self.question_result: Optional[Dict[str, Any]] = None
        #: Whether the result must be an object, since a hook of an extension reads it, a server that mounts another one, or
        #: middleware of a mounted server.
        self.result_is_read = False
        #: The turn of :class:`~mcplite.rpc.fair_queue.Turns` in which a large answer is made, until it is sent.
        self.turn: Optional[Turn] = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def within(self, runtime: Runtime, rename: Callable[[Dict[str, Any]], Dict[str, Any]], reads: bool) -> Iterator[None]:
        """Run the block as a request to a mounted server.

        :param runtime: of that server.
        :param rename: returns params as its own clients would send them.
        :param reads: whether the caller reads the result, as middleware does.
        """
        before = self.runtime, self.result_is_read, self.params, self.rename
        outer = self.rename
        self.rename = rename if outer is None else lambda params: rename(outer(params))
        self.result_is_read = self.result_is_read or reads or bool(runtime.catalog.middleware)
        self.runtime, self.params = runtime, rename(self.params)
        try:
            yield
        finally:
            self.runtime, self.result_is_read, self.params, self.rename = before

    def take_params(self, params: Dict[str, Any]) -> None:
        """Set the params; if the handler of a mounted server runs, give them the names of that server."""
        self.params = params if self.rename is None else self.rename(params)

    def bind(self, function: Function, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the keyword arguments for a call, as :meth:`Function.bind` does; large ones are checked in a turn.

        :raises BadArguments: they do not fit.
        :raises RemoteError: the request was cancelled, or the turn has not come in time.
        """
        incoming = self.incoming
        if incoming.size < COSTLY:
            return function.bind(arguments)
        with self.session.runtime.turns.begin(incoming.sender, lambda: self.cancelled):
            return function.bind(arguments)

    def begin_turn(self, size: int, done: bool = True) -> None:
        """Wait for a turn in which a large answer is made, if the request has none yet; it lasts until the answer is sent.

        :param size: the bytes of the answer, roughly.
        :param done: whether the handler has returned. Then no error is raised, and the request is answered without a turn if
            none comes.
        :raises RemoteError: *done* is False, and the request was cancelled, the turn has not come in time, or too much is
            unread.
        """
        if self.turn is not None:
            return
        incoming = self.incoming
        facts: Optional[RequestFacts] = incoming.facts
        try:
            self.turn = self.session.runtime.turns.begin(incoming.sender, lambda: self.cancelled)
            if facts is not None and facts.http is not None and not facts.http.reserve(size):
                raise RemoteError("Server busy: too many large answers are unread; try again later", code=SERVER_BUSY)
        except RemoteError:
            if not done:
                raise

    @property
    def waits(self) -> bool:
        """Whether a question is answered while the handler waits; in a fleet the handler is called again with the answer."""
        return self._get_asker().waits

    def limit_time(self, timeout: Optional[Timeout]) -> None:
        """Have *timeout* paused while the handler waits for an answer; None for no limit."""
        self._timeout = timeout

    def respond(self, result: Any) -> None:
        """Send the response before the handler has returned.

        :param result: as encoded JSON; members that every result of the era has are added.
        """
        self.incoming.respond(self.session.complete_result(result))

    def send_held_progress(self) -> None:
        """Send the progress that was held back; called before the result is sent."""
        with self._lock:
            held, self.held_progress = self.held_progress, None
        if held is not None:
            self.incoming.emit("notifications/progress", held)


class NeedsWorker(BaseException):
    """Ends a run of a handler on the thread of an HTTP request, since it asks its client, or may ask; a worker runs it again.

    The thread of the request sends the questions only when it has returned, so that it cannot wait for the answers. A handler
    that asks by returning or by raising is called again with the answers in any case.
    """


class Timeout:
    """Ends one call of a tool that declared a ``timeout``; it is paused while the tool waits for an answer.

    The client is answered at once; the handler, which cannot be stopped from outside, finds its
    token cancelled, and its result is dropped.

    :param seconds: how long the call may run.
    :param end: called when the time is over.
    """

    def __init__(self, seconds: float, end: Callable[[], object]) -> None:
        self._left = seconds
        self._end = end
        self._started = 0.0
        #: Guards the fields around it: several threads of a handler may ask at once.
        self._lock = threading.Lock()
        #: How often it was stopped and not started since; it runs at 0.
        self._stops = 1
        self._timer: Optional[threading.Timer] = None

    def start(self) -> None:
        """Start, or continue after as many calls of this as of :meth:`stop`.

        The timer's thread waits for :meth:`stop` or for the end of the time, and for nothing else.
        """
        with self._lock:
            self._stops -= 1
            if not self._stops:
                self._started = time.monotonic()
                self._timer = threading.Timer(self._left, self._end)
                self._timer.daemon = True
                self._timer.start()

    def stop(self) -> None:
        """Stop; :meth:`start` continues with what is left."""
        with self._lock:
            self._stops += 1
            if self._timer is not None:
                self._timer.cancel()
                self._left = max(0.0, self._left - (time.monotonic() - self._started))
                self._timer = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass within the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()


def progress_number(value: Any, what: str) -> Any:
    """Return a number in a form that JSON has; None for a number that JSON does not have, such as NaN.

    :raises TypeError: it is no number.
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    kind = type(value)
    if isinstance(value, (str, bytes, bytearray, bool)) or kind.__name__ in ("bool_", "bool") or not hasattr(kind, "__float__"):
        raise TypeError(f"{what} must be a number, not {quoted(value)}")
    try:
        return operator.index(value)
    except TypeError:
        pass  # not a whole number, or no number
    try:
        made = float(value)
    except (ValueError, ArithmeticError):
        return None  # a signalling NaN, or a number that is too large
    except TypeError as error:
        raise TypeError(f"{what} must be a number, not {quoted(value)}") from error
    return made if math.isfinite(made) else None


def visible_catalog(context: Context) -> "Catalog":
    """Return the catalog of the server whose handler runs, as far as the sender of the request sees it.

    The server that the client is connected to says whether anything is hidden, also of the servers that are mounted there.
    """
    catalog, session, facts = context.runtime.catalog, context.session, context.incoming.facts
    if facts is None or not session.runtime.catalog.hides:
        return catalog
    session.note_scopes(context.principal)
    return catalog.visible(granted_scopes(context.principal))


def log_params(level: str, data: Any, logger: Optional[str]) -> Dict[str, Any]:
    """Return the params of a log notification."""
    params: Dict[str, Any] = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = logger
    return params


def rank(level: str) -> int:
    """Return the position of a level among the eight.

    :raises KeyError: it is not one of them.
    """
    return _RANK[level]

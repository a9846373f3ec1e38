"""Passes one request on to a mounted server over a connection, and its result back, in the revisions of both sides.

The questions and messages of the mounted server come to the :class:`RelayHandlers` of the connection. A question reaches the
client whose call it belongs to. If it is not certain which client that is, the question fails.
"""

import functools
import threading
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..client.call import Call
from ..client.client import Client
from ..client.client_options import ClientSettings
from ..client.handlers import Handlers
from ..errors import (
    INVALID_PARAMS,
    InputNeeded,
    InternalError,
    MCPError,
    MissingCapability,
    RemoteError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from ..protocol.meta import CAPABILITIES, CLIENT_INFO, LIST_CHANGES, LOG_LEVEL, RESOURCE_UPDATED, SERVER_INFO
from ..revisions import TASKS_EXTENSION, Revision
from ..rpc.cancel import CancelToken
from ..rpc.tracing import get_logger
from ..server.catalog.cache_hints import CacheHint
from ..server.handling.context import LEVELS, RequestContext
from ..server.handling.questions import Elicit, Relayed
from ..server.handling.session import is_of_protocol
from ..server.sessions.legacy import LegacySession
from ..types import (
    NULL,
    CallToolResult,
    ClientCapabilities,
    CompleteResult,
    CreateMessageResult,
    ElicitResult,
    GetPromptResult,
    ListRootsResult,
    Progress,
    ReadResourceResult,
    TextContent,
    codec,
)
from ..types.content import downgrade
from ..types.tasks import RELATED_TASK

__all__ = [
    "EVERYTHING", "OWN", "RelayHandlers", "RelayedCall", "Upstream", "adapted_answer", "adapted_result", "answers_to",
    "declared_by", "declared_to_server", "error_for", "pass_over", "unaskable",
]

_log = get_logger(__name__)
#: The prefix of the protocol's own extensions, and of the members of ``_meta`` that belong to one connection.
OWN = "io.modelcontextprotocol/"
#: The capabilities that a connection for many clients declares: only a question shows whether its client can be asked.
EVERYTHING = ClientCapabilities(roots={"listChanged": True}, sampling={"tools": {}, "context": {}},
                                elicitation={"form": {}, "url": {}})
#: Seconds that a question waits until the only client of a bridge has completed its handshake.
_HANDSHAKE_SECONDS = 30.0
_ANSWERS = {"elicitation/create": ElicitResult, "sampling/createMessage": CreateMessageResult, "roots/list": ListRootsResult}


def adapted_answer(method: str, answer: Dict[str, Any], revision: Revision) -> Dict[str, Any]:
    """Return a client's answer in the form of the revision that the asking server speaks.

    :raises ProtocolError: it is not an answer to this question.
    """
    return codec.encode(codec.decode(_ANSWERS[method], answer), revision)  # type: ignore[no-any-return]


class RelayedCall:
    """One call that is in progress at a mounted server.

    :param context: of the request that it serves.
    """

    #: The id of the mounted server's task that the call has become; None for an ordinary call.
    task: Optional[str] = None

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        #: Held while the client is asked. The handler takes it before it answers: a client without a session sends its answer
        #: in another request, and the handler has to wait for that request.
        self.asking = threading.Lock()
        self._questions = 0

    def ask(self, question: Relayed) -> Dict[str, Any]:
        """Ask the client of this call, and return its answer.

        :raises InternalError: the answer may come to another process than the one that waits for it.
        """
        if not self.context.waits:
            raise InternalError("this server runs in several processes, and the client's answer may come to another one than"
                                " that which has called the mounted server, which keeps a session; serve it from one process")
        with self.asking:
            self._questions += 1
            key = f"question-{self._questions}"
            answer: Dict[str, Any] = self.context.ask({key: question})[key]
            return answer


class RelayHandlers(Handlers):
    """Takes the questions and notifications of one connection to a mounted server.

    :param name: of the mounted server, for errors.
    :param declared: the capabilities that are declared to it.
    :param session: the session whose connection it is; None for a connection that is shared, or of clients without sessions.
    :param on_change: called with the notification of a change, and with the URI of a changed resource; None ignores changes.
    :param on_lost: called with the error when the connection has ended by itself.
    """

    def __init__(self, name: str, declared: ClientCapabilities, session: Optional[LegacySession],
                 on_change: Optional[Callable[[str, Optional[str]], object]], on_lost: Callable[[Exception], object]) -> None:
        super().__init__(ClientSettings())
        self._name = name
        self._declared = declared
        self._session = session
        #: Set when the only client of a bridge has begun its session; None where there are more clients.
        self._begun: Optional[threading.Event] = None
        self._on_change = on_change
        self._on_lost = on_lost
        #: Guards the two fields below; held for list and dictionary work.
        self._lock = threading.Lock()
        self._calls: List[RelayedCall] = []
        #: By the ids of URL questions: the sessions that were asked.
        self._visits: Dict[str, Any] = {}

    def add(self, call: RelayedCall) -> None:
        """Note a call that begins."""
        with self._lock:
            self._calls.append(call)

    def remove(self, call: RelayedCall) -> None:
        """Note a call that has ended."""
        with self._lock:
            self._calls.remove(call)

    def expect_session(self, session: Optional[LegacySession]) -> None:
        """Make the session of the only client of a bridge the session of this connection.

        :param session: None while the client has not begun it; questions outside of calls then wait for it.
        """
        self._session = session
        if self._begun is None:
            self._begun = threading.Event()
        if session is not None:
            self._begun.set()

    def capabilities(self) -> ClientCapabilities:
        return replace(self._declared)

    # --- questions --------------------------------------------------------------------------------------

    def answer(self, method: str, params: Dict[str, Any], revision: Revision, token: CancelToken,
               notify_progress: Optional[Callable[[Dict[str, Any]], object]] = None) -> Dict[str, Any]:
        question = Relayed(method, params, token)
        if notify_progress is not None:
            question.on_progress = functools.partial(_report, notify_progress)
        try:
            call = self._call(params)
            if call is not None:
                self._note_visit(params, call.context.session)
                uncancel = call.context.token.add_callback(lambda: token.cancel("the call was cancelled"))
                try:
                    return adapted_answer(method, call.ask(question), revision)
                finally:
                    uncancel()
            if self._begun is not None:
                self._begun.wait(_HANDSHAKE_SECONDS)
            if self._session is None:
                raise InternalError(f"{self._name} asked {method!r}, and no call to it is in progress, so that no client can be"
                                    " asked")
            self._note_visit(params, self._session)
            return adapted_answer(method, self._session.ask(question), revision)
        except RemoteError as error:
            raise error_as_own(error) from error
        except (MCPError, ValueError) as error:
            raise InternalError(f"the question {method!r} was not answered: {error}") from error

    def _note_visit(self, params: Mapping[str, Any], session: Any) -> None:
        identity = params.get("elicitationId")
        if isinstance(identity, str):
            with self._lock:
                self._visits[identity] = session
                while len(self._visits) > 1000:
                    del self._visits[next(iter(self._visits))]

    def _call(self, params: Mapping[str, Any]) -> Optional[RelayedCall]:
        """Return the call that a question or a log message belongs to; None if there is none.

        :raises InternalError: it may belong to calls of different clients.
        """
        task = _task_of(params)
        with self._lock:
            calls = list(self._calls)
        if task is not None:
            of_task = [call for call in calls if call.task == task]
            if of_task:
                return of_task[-1]
        calls = [call for call in calls if call.task is None]
        peers = {id(call.context.session.peer) for call in calls}
        # Over HTTP all clients without a session are behind one peer; on a pipe there is one client.
        if len(calls) > 1 and self._session is None and (len(peers) > 1 or calls[0].context.session.peer.shared):
            raise InternalError(f"{len(calls)} calls of different clients are in progress on the connection to {self._name},"
                                " and nothing says which of them the question belongs to; mount it without shared=True")
        return calls[-1] if calls else None

    # --- notifications, on the reader's thread ----------------------------------------------------------

    def callback_for(self, method: str, params: Dict[str, Any]) -> Optional[Callable[[], object]]:
        changed = self._on_change
        if method in LIST_CHANGES or method == RESOURCE_UPDATED:
            uri = params.get("uri")
            return None if changed is None else lambda: changed(method, uri if isinstance(uri, str) else None)
        if method == "notifications/message":
            # The message is passed on here and not on the thread of notifications, so that it comes before the result of its
            # call.
            self._pass_log(params)
        elif method == "notifications/elicitation/complete":
            identity = params.get("elicitationId")
            with self._lock:
                session = self._visits.pop(identity, None) if isinstance(identity, str) else None
            if session is not None:
                return lambda: session.elicitation_complete(identity)
        elif not is_of_protocol(method):
            self._pass(method, params, lambda receiver: receiver.notify(method, params))
        return None

    def _pass_log(self, params: Dict[str, Any]) -> None:
        level, logger = params.get("level"), params.get("logger")
        if level in LEVELS:
            self._pass("a log message", params, lambda receiver: receiver.log(
                level, params.get("data"), logger if isinstance(logger, str) else None))

    def _pass(self, what: str, params: Dict[str, Any], send: Callable[[Any], object]) -> None:
        """Send a message to the client whose call it belongs to, or whose connection this is; other clients do not get it.

        :param send: is called with the context of the call, or with the session.
        """
        try:
            call = self._call(params)
            receiver = self._session if call is None else call.context
            if receiver is not None:
                send(receiver)
        except MCPError as error:
            _log.debug("%s of %s was not passed on: %s", what, self._name, error)

    @property
    def wants_logs(self) -> bool:
        return True

    def interests(self) -> Dict[str, Any]:
        return dict.fromkeys(("tools", "prompts", "resource_list"), self._on_change is not None)

    def disconnected(self, error: Exception) -> None:
        self._on_lost(error)


def _task_of(params: Mapping[str, Any]) -> Any:
    """Return the id of the task that a message of the server says it belongs to; None if it says none."""
    meta = params.get("_meta")
    related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None


def error_as_own(error: RemoteError) -> RemoteError:
    """Return an error that came from one side as a handler raises it for the other side."""
    return type(error)(error.message, code=error.code, data=error.data)


def _report(notify_progress: Callable[[Dict[str, Any]], object], progress: Progress) -> None:
    notify_progress({name: value for name, value in vars(progress).items() if value is not None})


def declared_by(context: RequestContext) -> ClientCapabilities:
    """Return the capabilities that tell what the client of a request can be asked."""
    session = context.session
    return declared_to_server(session.client_capabilities) if session.askable else ClientCapabilities()


def declared_to_server(declared: ClientCapabilities) -> ClientCapabilities:
    """Return the capabilities of a client that are declared to a mounted server.

    Tasks are not among them, since questions are passed on as ordinary questions.
    """
    # The protocol's own extensions are not declared: they change how results come, and this module would have to know them.
    extensions = {name: settings for name, settings in (declared.extensions or {}).items() if not name.startswith(OWN)}
    return ClientCapabilities(roots=declared.roots, sampling=declared.sampling, elicitation=declared.elicitation,
                              extensions=extensions or None)


class Upstream:
    """One connection to a mounted server.

    :param client: not open yet.
    :param handlers: of that client.
    """

    def __init__(self, client: Client, handlers: RelayHandlers) -> None:
        self.client = client
        self.handlers = handlers
        #: The facts about the sender of the last request, and the members of ``_meta`` that were made of them: most requests
        #: follow a request of the same client. The pair is replaced as a whole, so that it needs no lock.
        self._sender: Tuple[Any, Dict[str, Any]] = None, {}
        #: Guards the fields below; held for arithmetic only.
        self._lock = threading.Lock()
        #: How many calls and tasks keep the connection open.
        self._held = 0
        self._over = False

    def hold(self) -> None:
        """Keep the connection open for a call or a task, until :meth:`release`."""
        with self._lock:
            self._held += 1

    def release(self) -> None:
        """Close the connection after the last call and task, if :meth:`close` was called meanwhile."""
        with self._lock:
            self._held -= 1
            ended = self._over and not self._held
        if ended:
            self.client.close()

    def close(self) -> None:
        """Close the connection, now or after the last call and task for which it is held."""
        with self._lock:
            self._over = True
            if self._held:
                return
        self.client.close()

    def open(self) -> None:
        """Open the connection.

        :raises MCPError: the server cannot be reached.
        """
        self.client.open()
        capabilities = self.client.server_capabilities
        if self.client.era == "legacy" and capabilities.logging is not None:
            # Messages of all levels: which levels a client wants is decided for each client.
            try:
                self.client.set_log_level("debug")
            except MCPError:
                if self.client.state != "open":
                    raise

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.client.state == "open"

    def sender(self, context: RequestContext, tasks: bool) -> Mapping[str, Any]:
        """Return the members of ``_meta`` by which a request names its sender, on a connection without a handshake.

        :param tasks: whether the result may say that the call has become a task.
        """
        session, revision = context.session, self.client.revision
        made_of = session.client_facts, session.askable, session.log_level, revision, tasks
        known, members = self._sender
        if known != made_of:
            declared, info = declared_by(context), context.client_info
            if tasks:
                declared.extensions = {TASKS_EXTENSION: {}, **(declared.extensions or {})}
            members = {CAPABILITIES: codec.encode(declared, revision), LOG_LEVEL: session.log_level,
                       CLIENT_INFO: None if info is None else codec.encode(info, revision)}
            self._sender = made_of, members
        return members


#: Rounds of questions of one call (MRTR-29).
_ROUNDS = 10
_RESULTS: Dict[str, Any] = {"tools/call": CallToolResult, "prompts/get": GetPromptResult, "resources/read": ReadResourceResult,
            "completion/complete": CompleteResult}


class _Complete(Exception):
    """Carries the result of a call out of ``ctx.once``, which keeps only questions."""

    def __init__(self, result: Dict[str, Any]) -> None:
        super().__init__()
        self.result = result


def pass_over(upstream: Upstream, call: RelayedCall, params: Dict[str, Any], task_token: Optional[CancelToken] = None
              ) -> Dict[str, Any]:
    """Return the result of a request as the mounted server gives it over one connection.

    :param task_token: cancels the call if the mounted server decides whether it becomes a task; None for other calls, which the
        context's token cancels.
    """
    context, tasks = call.context, task_token is not None
    given = context.meta
    meta = {key: value for key, value in given.items() if key != "progressToken" and not key.startswith(OWN)}
    if meta:
        params["_meta"] = meta
    report = functools.partial(report_progress, context) if "progressToken" in given else None
    request = Call(context.method, params, cancel=task_token or context.token, on_progress=report, rounds=False, fresh=True)
    try:
        return _exchange(upstream, context, request, tasks)
    except UrlElicitationRequired as error:
        if not _visited(context, error):
            raise
        return _exchange(upstream, context, request, tasks)
    finally:
        if context.session.revision.modern:
            # A question that is still open ends the client's present request, and the client sends its answer in another
            # request: wait for that request.
            with call.asking:
                pass


def _visited(context: RequestContext, error: UrlElicitationRequired) -> bool:
    """Ask a client whose revision lacks the error that asks for visits of pages (URLE-15); return whether it visits all."""
    if context.session.revision.elicitation_ids or not context.can_elicit_url or not error.urls:
        return False
    pages = {f"page-{number}": Elicit(str(page.get("message") or error.message), url=str(page.get("url")))
             for number, page in enumerate(error.urls, 1)}
    return all(answer.accepted for answer in context.ask(pages).values())


def _exchange(upstream: Upstream, context: RequestContext, request: Call, tasks: bool) -> Dict[str, Any]:
    revision = upstream.client.revision
    if not revision.modern:
        return upstream.client.send(request)  # its questions come to the handlers of the connection
    for number in range(_ROUNDS + 1):
        # Each round declares what the client's present request declares.
        needed = _round(upstream, context, request._replace(sender=upstream.sender(context, tasks)), number)
        if not isinstance(needed, InputNeeded):
            return needed  # type: ignore[no-any-return]
        if number == _ROUNDS:
            break
        params = {key: value for key, value in (request.params or {}).items()
                  if key not in ("inputResponses", "requestState")}
        if needed.requests:
            params["inputResponses"] = answers_to(context, needed.requests, revision)
        else:
            context.sleep(min(0.05 * 2.0 ** number, 5.0))
        if needed.state is not None:
            params["requestState"] = needed.state
        request = request._replace(params=params)
    raise InternalError(f"the mounted server still asked for input after {_ROUNDS} rounds; let it ask several questions in one"
                        " round, as with ctx.ask({...})")


def _round(upstream: Upstream, context: RequestContext, request: Call, number: int) -> Any:
    """Return the result of one request, or the questions that it needs answers to."""
    if context.session.runtime.fleet is None or not context.session.revision.modern or context.task_id is not None:
        try:
            return upstream.client.send(request)
        except InputNeeded as needed:
            return needed

    # In a fleet this function runs again with each answer. Then the earlier questions of the server are known, and it is not
    # called for them again.
    def send() -> Dict[str, Any]:
        try:
            raise _Complete(upstream.client.send(request))
        except InputNeeded as needed:
            return {"requests": needed.requests, "state": needed.state}

    try:
        asked = context.once(f"mcplite round {number}", send)
    except _Complete as complete:
        return complete.result
    return InputNeeded(requests=asked["requests"], state=asked["state"])


def answers_to(context: RequestContext, requests: Mapping[str, Dict[str, Any]], revision: Revision) -> Dict[str, Any]:
    """Return the answers of a client to questions of a mounted server, in the form of that server's revision."""
    questions = {key: Relayed(request["method"], request.get("params") or {}) for key, request in requests.items()}
    answers = context.ask(questions)
    return {key: adapted_answer(requests[key]["method"], answers[key], revision) for key in requests}


def report_progress(context: RequestContext, given: Dict[str, Any]) -> None:
    """Tell the client of a call of progress, given as on the wire."""
    if not context.cancelled:
        context.report_progress(given["progress"], given.get("total"), given.get("message"))


# --- results ------------------------------------------------------------------------------------------


def adapted_result(context: RequestContext, given: Dict[str, Any], revision: Revision, hint: CacheHint, wraps: bool
                   ) -> Dict[str, Any]:
    """Return the result of a mounted server in the form of the client's revision.

    :param given: the result as it came.
    :param revision: the revision that it came in.
    :param hint: how long a resource may be kept, if the server does not say.
    :param wraps: whether the tool's structured content is declared to older clients as ``{"result": value}``.
    """
    result, own = dict(given), context.session.revision
    meta = result.pop("_meta", None)
    if isinstance(meta, dict):
        meta = {key: value for key, value in meta.items() if key not in (SERVER_INFO, RELATED_TASK)}
        if meta:
            result["_meta"] = meta
    result.pop("resultType", None)
    if own is not revision and not _means_the_same(result, own, wraps):
        result = _translated(context, result, own, wraps)
    if own.modern and context.method == "resources/read":
        result = {**hint.members(), **result}
    return result


#: Members that have one form in all revisions with them: those of a tool's result, and those of a text.
_PLAIN_RESULT, _PLAIN_TEXT = frozenset(("content", "structuredContent", "isError")), {"type", "text"}


def _means_the_same(result: Dict[str, Any], own: Revision, wraps: bool) -> bool:
    """Whether a result needs no translation, as most results of tools: it has texts, and perhaps an object beside them."""
    content = result.get("content")
    return (type(content) is list and result.keys() <= _PLAIN_RESULT and type(result.get("isError", False)) is bool
            and ("structuredContent" not in result or own.structured_output and not wraps
                 and type(result["structuredContent"]) is dict)
            and all(type(item) is dict and item.keys() == _PLAIN_TEXT and item["type"] == "text" and type(item["text"]) is str
                    for item in content))


def _translated(context: RequestContext, result: Dict[str, Any], own: Revision, wraps: bool) -> Dict[str, Any]:
    decoded: Any = codec.decode(_RESULTS[context.method], result)
    if isinstance(decoded, CallToolResult):
        decoded.content = downgrade(decoded.content, own)
        if "structuredContent" in result and result["structuredContent"] is None:
            decoded.structured_content = NULL
        if own.object_output_only and decoded.structured_content is not None and (
                wraps or not isinstance(decoded.structured_content, dict)):
            value = decoded.structured_content
            decoded.structured_content = {"result": None if value is NULL else value}
    elif isinstance(decoded, GetPromptResult):
        for message in decoded.messages:
            message.content = downgrade([message.content], own)[0]
    return codec.encode(decoded, own)  # type: ignore[no-any-return]


def unaskable(context: RequestContext, error: MissingCapability) -> Dict[str, Any]:
    """Return the result of a tool whose server asked a client that cannot be asked.

    :raises MissingCapability: the request is no call of a tool, or this is an error of the protocol in the client's revision.
    """
    if context.method != "tools/call" or context.session.revision.capability_errors:
        raise error_as_own(error) from error
    result = CallToolResult(content=[TextContent(text=error.message)], is_error=True)
    return codec.encode(result, context.session.revision)  # type: ignore[no-any-return]


def error_for(context: RequestContext, error: RemoteError) -> RemoteError:
    """Return an error of a mounted server for the client."""
    missing = context.method == "resources/read" and (isinstance(error, ResourceNotFound) or error.code == INVALID_PARAMS)
    if missing:
        return ResourceNotFound(error.message, code=context.session.revision.not_found,
                                data=error.data or {"uri": context.params.get("uri")})
    return error_as_own(error)

"""RelayHandlers: the handlers of a connection to a mounted server, which pass its questions and messages on.

A question reaches the client whose call it belongs to. Where that is not certain, the question fails.
"""

import functools
import threading
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..client.client_options import ClientSettings
from ..client.handlers import Handlers
from ..errors import InternalError, MCPError, RemoteError
from ..protocol.meta import LIST_CHANGES, RESOURCE_UPDATED
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..rpc.tracing import get_logger
from ..server.handling.context import LEVELS, RequestContext
from ..server.handling.questions import Relayed
from ..server.sessions.legacy import LegacySession
from ..types import ClientCapabilities, CreateMessageResult, ElicitResult, ListRootsResult, Progress, codec
from ..types.tasks import RELATED_TASK

__all__ = ["EVERYTHING", "RelayHandlers", "RelayedCall", "adapted_answer", "passed_on"]

_log = get_logger(__name__)
#: What a connection that many clients share declares: each question shows whether its client can be asked.
EVERYTHING = ClientCapabilities(roots={"listChanged": True}, sampling={"tools": {}, "context": {}},
                                elicitation={"form": {}, "url": {}})
#: How long a question waits for the only client of a bridge to complete its handshake.
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

    #: The id of the mounted server's task that the call is; None for an ordinary call.
    task: Optional[str] = None

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        #: Held while the client is asked, and taken by the handler before it answers: a client without a session returns
        #: with its answer in another request, which the handler has to wait for.
        self.asking = threading.Lock()
        self._questions = 0

    def ask(self, question: Relayed) -> Dict[str, Any]:
        """Ask the client of this call, and return its answer.

        :raises InternalError: the answer would come to another process than the one that waits for it.
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
        """Take the session of the only client of a bridge as the one whose connection this is.

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
            raise passed_on(error) from error
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
            # Here and not on the thread of notifications, so that a message comes before the result of its call.
            self._pass_log(params)
        elif method == "notifications/elicitation/complete":
            identity = params.get("elicitationId")
            with self._lock:
                session = self._visits.pop(identity, None) if isinstance(identity, str) else None
            if session is not None:
                return lambda: session.elicitation_complete(identity)
        return None

    def _pass_log(self, params: Dict[str, Any]) -> None:
        level, logger = params.get("level"), params.get("logger")
        if level not in LEVELS:
            return
        try:
            call = self._call(params)
            if call is not None:
                call.context.log(level, params.get("data"), logger if isinstance(logger, str) else None)
            elif self._session is not None:
                self._session.log(level, params.get("data"), logger if isinstance(logger, str) else None)
        except MCPError as error:
            _log.debug("a log message of %s was not passed on: %s", self._name, error)

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


def passed_on(error: RemoteError) -> RemoteError:
    """Return an error of one side for the other side: as one that a handler raises."""
    return type(error)(error.message, code=error.code, data=error.data)


def _report(notify_progress: Callable[[Dict[str, Any]], object], progress: Progress) -> None:
    notify_progress({name: value for name, value in vars(progress).items() if value is not None})

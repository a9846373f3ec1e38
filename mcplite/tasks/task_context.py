"""The context of a handler that runs as a task: the client may be gone, so that what concerns it goes into the record.

So do the questions to the client: they lie in the record until a request of the client has brought the answers.
"""

import contextlib
import json
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Set

from ..errors import MCPError, MissingCapability, ProtocolError, RemoteError, remote_error
from ..protocol import jsonrpc
from ..protocol.opaque import digest
from ..revisions import Revision
from ..rpc.interfaces import MessageSink
from ..rpc.request import Incoming
from ..rpc.tracing import get_logger
from ..server.handling.client_questions import Asker, EncodedQuestion
from ..server.handling.context import RequestContext, progress_number
from ..server.handling.questions import Question
from ..server.handling.session import Session
from ..server.principals import principal_from
from ..server.runtime.runtime import Runtime
from ..types import ClientCapabilities, Implementation, codec
from ..types.tasks import related_task
from .task_record import TaskCall, TaskRecord

__all__ = ["QuestionBoard", "RunControl", "RunningRequest", "TaskAsker", "TaskContext", "TaskSession"]


class RunControl:
    """What a context needs of the run of its task."""

    #: The id of the task.
    task_id: str
    #: Whether another run may follow this one, so that the results of ``ctx.once`` are stored.
    restartable: bool

    def say(self, message: str) -> None:
        """Store the text about the present status, soon."""
        raise NotImplementedError

    def remember(self, key: str, value: Any) -> None:
        """Store a result of ``ctx.once``."""
        raise NotImplementedError

    def complete(self, result: Any) -> None:
        """End the task with a result, before the handler has returned."""
        raise NotImplementedError

    @property
    def over(self) -> bool:
        """Whether the task was cancelled, has ended or its time is over, so that no run continues it."""
        raise NotImplementedError

    def suspended(self) -> ContextManager[None]:
        """Return a block in which the thread waits, and gives its place to another run."""
        raise NotImplementedError

    def end_cancelled(self, message: Optional[str]) -> None:
        """End the task as cancelled by the server that it was passed on to."""
        raise NotImplementedError


class _NoPeer(MessageSink):
    """In the place of the client's connection, which a task does not depend on."""

    last_error = None
    closed = False


class RunningRequest(Incoming):
    """The request that became a task: answered already, and in progress until the task is finished.

    :param origin: the session of the client, while it is in this process; notifications go there.
    """

    def __init__(self, control: RunControl, params: Dict[str, Any], origin: Optional[Session]) -> None:
        super().__init__(_NoPeer(), jsonrpc.Request(control.task_id, "tools/call", params))
        self._control = control
        self._origin = origin

    def emit(self, method: str, params: Dict[str, Any]) -> bool:
        origin = self._origin
        if origin is None or not origin.persistent or self.over:
            return False
        meta = {**params.get("_meta", {}), **related_task(self._control.task_id)}
        try:
            origin.peer.notify(method, {**params, "_meta": meta})
        except MCPError:
            return False  # the client has left, and the task goes on
        return True

    def tell_status(self, record: TaskRecord) -> None:
        """Tell the client of a new status, if its session is here and it can be told so (TSK-32)."""
        origin = self._origin
        if origin is None or not origin.persistent or not origin.revision.task_notification:
            return
        with contextlib.suppress(MCPError):  # the client has left
            origin.peer.notify(origin.revision.task_notification, codec.encode(record.view(origin.revision), origin.revision))

    def respond(self, result: Any) -> None:
        self._control.complete(result)


class TaskSession(Session):
    """The client of a task, as the request described it.

    :param origin: its session, while it is in this process; None in another one.
    """

    def __init__(self, runtime: Runtime, revision: Revision, call: TaskCall, record: TaskRecord,
                 origin: Optional[Session]) -> None:
        self.runtime = runtime
        self.revision = revision
        self.peer = _NoPeer()  # type: ignore[assignment]
        self.client_capabilities = codec.decode(ClientCapabilities, call.capabilities)
        self.client_info = None if call.info is None else codec.decode(Implementation, call.info)
        self.principal = principal_from(call.principal)
        self.sender = record.sender
        self._askable = record.askable
        self._origin = origin

    @property
    def askable(self) -> bool:
        return self._askable

    @property
    def log_level(self) -> Optional[str]:
        return None if self._origin is None or not self._origin.persistent else self._origin.log_level

    def wants_log(self, level: str) -> bool:
        return self._origin is not None and self._origin.persistent and self._origin.wants_log(level)


class TaskContext(RequestContext):
    """The context of a handler that runs as a task."""

    def __init__(self, session: "TaskSession", incoming: RunningRequest, control: RunControl, board: "QuestionBoard",
                 once_results: Dict[str, Any]) -> None:
        super().__init__(session, incoming)
        self._control = control
        self._asker = TaskAsker(session, board)
        #: The results of :meth:`once`, by key.
        self.once_results = once_results

    @property
    def control(self) -> RunControl:
        """The run of the task, for code that passes the task on."""
        return self._control

    @property
    def task_id(self) -> Optional[str]:
        return self._control.task_id

    def task_status(self, message: str) -> None:
        self.check_cancelled()
        self._control.say(message)

    def report_progress(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        super().report_progress(progress, total, message)
        done, whole = progress_number(progress, "progress"), None if total is None else progress_number(total, "total")
        if message or done is not None:
            self._control.say(str(message) if message else f"{done:g}" if whole is None else f"{done:g} of {whole:g}")

    def once(self, key: str, action: Callable[[], Any]) -> Any:
        if key in self.once_results:
            return self.once_results[key]
        value = action()
        if self._control.restartable:
            try:
                # Through JSON, as another run gets it, so that the handler gets the same value each time.
                value = json.loads(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise TypeError(f"the result of ctx.once(), {type(value).__name__}, cannot be stored as JSON ({error}); return"
                                " plain data from the action") from error
            self._control.remember(key, value)
        self.once_results[key] = value
        return value


_log = get_logger(__name__)
#: How often a question is asked whose answers do not fit.
_ROUNDS = 10


class QuestionBoard:
    """What an asker needs of the run of its task."""

    def record(self) -> TaskRecord:
        """Return the record as it is now.

        :raises Cancelled: the task was cancelled, or its time is over.
        """
        raise NotImplementedError

    def ask(self, questions: Mapping[str, Dict[str, Any]], digests: Mapping[str, str]) -> Dict[str, Any]:
        """Put questions into the record, wait, and return what came for each: ``{"result": ...}`` or ``{"error": ...}``.

        :raises Cancelled: the task was cancelled meanwhile.
        """
        raise NotImplementedError


class TaskAsker(Asker):
    """Asks the client of a task.

    :param session: of the client, as the task has it.
    :param board: takes the questions.
    """

    def __init__(self, session: TaskSession, board: QuestionBoard) -> None:
        super().__init__(session)
        self._board = board
        self._askable = session.askable
        #: The keys of this run; each stands for one question in the life of a task.
        self._used: Set[str] = set()

    @property
    def reachable(self) -> bool:
        return self._askable

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if not self.reachable:
            raise MissingCapability(
                f"a task can ask a client of revision {self._revision} only in a session, and this server keeps none, as it is"
                " stateless or a fleet; serve it from one process for that", data={"requiredCapabilities": capability})
        super()._require(method, capability, mode)

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        missing = {key: self.prepare(question) for key, question in questions.items()}
        answers: Dict[str, Any] = {}
        problem: Exception = ProtocolError("there was no answer")
        for _ in range(_ROUNDS):
            if not missing:
                return {key: answers[key] for key in questions}
            known = self._board.record().asked
            keys = {key: self._unique(key, question, known) for key, question in missing.items()}
            given = self._board.ask({keys[key]: _members(question) for key, question in missing.items()},
                                    {keys[key]: _digest(question) for key, question in missing.items()})
            failed: List[RemoteError] = []
            for key in list(missing):
                answer = given[keys[key]]
                if "error" in answer:
                    error = answer["error"]
                    failed.append(remote_error(error.get("code"), error.get("message"), error.get("data")))
                    continue
                try:
                    answers[key] = missing[key].read(answer["result"])
                    del missing[key]
                except ProtocolError as error:
                    # It is asked again, under another key: clients that answer each key once would not answer this one.
                    problem = error
                    _log.warning("the client's answer to %.100r is asked for again: %s", key, error)
            if failed:
                raise failed[0]
        raise problem

    def _unique(self, key: str, question: EncodedQuestion, known: Mapping[str, str]) -> str:
        """Return a key that stands for this question alone, also in an earlier run of the task."""
        asked, number, chosen = _digest(question), 1, key
        while chosen in self._used or known.get(chosen, asked) != asked:
            number += 1
            chosen = f"{key}-{number}"
        self._used.add(chosen)
        return chosen


def _members(question: EncodedQuestion) -> Dict[str, Any]:
    members: Dict[str, Any] = {"method": question.method}
    if question.params is not None:
        members["params"] = question.params
    if question.as_task:
        members["task"] = True  # for this server alone: clients that see these members have no such tasks
    return members


def _digest(question: EncodedQuestion) -> str:
    return digest([question.method, question.params])

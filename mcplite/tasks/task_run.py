"""One run of a task in this process: its handler on a thread, with a context of its own, its status, and its end.

    client             the record in the backend                        TaskRun, on a thread of the pool
    tools/call  ---->  working                        ---------------->  the handler runs with a TaskContext
    tasks/get   <----  working: its status message    <----------------  ctx.task_status(), ctx.report_progress()
    tasks/get   <----  input_required: the questions  <----------------  ctx.elicit(): a TaskAsker puts them there, and waits
    the answers ---->  working: the answers           ---------------->  the handler goes on
    tasks/get   <----  completed, failed, cancelled   <----------------  its result, its error, or an answer to a cancellation

The client may have left, so the status and the result are stored in the record. The questions to the client are stored there,
too, until a request of the client has brought the answers.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import threading
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Set

from ..errors import (
    INTERNAL_ERROR,
    SERVER_BUSY,
    BackendError,
    Cancelled,
    MCPError,
    MissingCapability,
    ProtocolError,
    RemoteError,
    remote_error,
    text_of,
)
from ..protocol import jsonrpc
from ..protocol.jsonrpc import memory_size
from ..protocol.opaque import digest
from ..revisions import Revision, find_revision
from ..rpc.fair_queue import QueuedJob
from ..rpc.forks import end_process
from ..rpc.interfaces import MessageSink
from ..rpc.request import Incoming
from ..rpc.tracing import get_logger
from ..server.catalog.registry import ProvidedEntry
from ..server.functions.forms import form_type
from ..server.functions.function import BadArguments
from ..server.handling.client_questions import Asker, EncodedQuestion, through_json
from ..server.handling.context import CURRENT, RequestContext, progress_number
from ..server.handling.handler_calls import call_bound, tool_error
from ..server.handling.questions import Question
from ..server.handling.session import Session
from ..server.handling.suspended_calls import CountedCall, suspended_calls_of
from ..server.principals import principal_from
from ..server.runtime.runtime import Runtime
from ..types import ClientCapabilities, Implementation, codec
from ..types.tasks import CANCELLED, COMPLETED, INPUT_REQUIRED, WORKING, related_task
from .task_processes import TaskChanges
from .task_record import Entry, TaskCall, TaskRecord
from .task_store import TaskStore

__all__ = ["TaskContext", "TaskRun", "held_bytes"]

_log = get_logger(__name__)
#: How often questions are asked at most, if their answers are not valid.
_ROUNDS = 10
#: A text about the status is stored at once if the text before it was stored at least this many seconds ago. Of the texts that
#: come sooner, the last one is stored within about a second (:meth:`ServerTasks._look`).
_STATUS_SECONDS = 0.2
#: Seconds after which a run that waits for answers reads the record again if no change was announced.
_LOOK_SECONDS = 2.0
#: Attempts to use the store while it is away, and the seconds between them.
_ATTEMPTS, _ATTEMPT_SECONDS = 60, 1.0
#: Bytes of the objects of a run, besides what its call has brought.
_RUN_BYTES = 6144


def held_bytes(call: TaskCall, most: int) -> int:
    """Return the bytes of memory that the run of a call holds, or any number above *most* if it holds more."""
    return _RUN_BYTES + memory_size(call, most)


class TaskRun(QueuedJob):
    """One run of a task.

    :param entry: of the tool.
    :param origin: the session of the client, if the call came to this process; None for a stored task.
    :param on_end: called when the run is over: ``ServerTasks._run_ended``.
    """

    def __init__(self, runtime: Runtime, store: TaskStore, changes: TaskChanges, entry: Entry, record: TaskRecord,
                 call: TaskCall, origin: Optional[Session], on_end: Callable[[TaskRun], object]) -> None:
        self.task_id = record.id
        #: Whether another run may follow this one, so that the results of ``ctx.once`` are stored.
        self.restartable = record.restartable
        #: Which of the runs of its task it is.
        self.number = record.run
        #: The arguments of the function; None if they are to be read from the call.
        self.kwargs: Optional[Dict[str, Any]] = None
        #: Returns a block in which the thread leaves its slot to another run; outside of the pool it does nothing.
        self.release_slot: Callable[[], ContextManager[None]] = contextlib.nullcontext
        self._on_end = on_end
        self.size = 0
        self.expires = record.expires
        #: Whether the task is left to other processes, because this process is being stopped.
        self.left = False
        self._runtime = runtime
        self._store = store
        self._changes = changes
        self._entry = entry
        self.call = call
        self._sender = record.sender or record.owner or ""
        #: Guards the text about the status that is not stored yet; held for assignments only.
        self._lock = threading.Lock()
        self._held_text: Optional[str] = None
        #: The questions that threads of the handler wait for, by key.
        self._open: Dict[str, Dict[str, Any]] = {}
        #: When the next text may be stored at once.
        self._next_text = 0.0
        revision = find_revision(call.revision)
        assert revision is not None, "the record is of a revision that this server has served"
        session = TaskSession(runtime, revision, call, record, origin)
        self._params = {"name": call.tool, "arguments": call.arguments, "_meta": call.meta}
        self._request = RunningRequest(self, self._params, origin)
        self.context = TaskContext(session, self._request, self, dict(record.once))

    # --- a task of the pool -----------------------------------------------------------------------------

    @property
    def sender(self) -> str:
        return self._sender

    def refuse(self) -> None:
        self._finish(lambda record: record.fail(SERVER_BUSY, "Server busy: too many tasks are waiting; try again later"))
        self._on_end(self)

    def execute(self) -> None:
        # The handler gets context variables of its own: the thread runs other tasks after this one.
        contextvars.Context().run(self._execute)

    def _execute(self) -> None:
        context = self.context
        CURRENT.set(context)
        try:
            result = self._result()
            if self._request.peer.foreign:
                end_process(f"the task {self.task_id}", None)
            self.complete(result)
        except RemoteError as error:
            self._fail(error.code, error.message, error.data)
        except Cancelled as error:
            reason = context.token.reason if context.cancelled else str(error)
            self._fail(INTERNAL_ERROR, f"the task was ended: {reason or 'no reason is known'}")
        except BaseException as error:
            # SystemExit and KeyboardInterrupt too: a handler must not end the thread or the server.
            if self._request.peer.foreign:
                end_process(f"the task {self.task_id}", error)  # the handler has forked: the task is the other process's
            _log.exception("the task of tool %r failed", self.call.tool)
            self._fail(INTERNAL_ERROR, "Internal error")
        finally:
            if context.turn is not None:
                context.turn.end()
            self._on_end(self)

    def _result(self) -> Any:
        if isinstance(self._entry, ProvidedEntry):
            # The mounted server may run the task already: it is told there if the task was cancelled before this turn.
            return self._entry.handler(self.context.params, self.context)
        self.context.check_cancelled()  # before its turn
        kwargs, self.kwargs = self.kwargs, None
        if kwargs is None:
            try:
                kwargs = self._read_arguments()
            except BadArguments as error:
                return tool_error(self.context, f"Invalid arguments for tool {self.call.tool}: {'; '.join(error.problems)}")
        return call_bound(self.context, self._entry, kwargs)

    def _read_arguments(self) -> Dict[str, Any]:
        function = self._entry.function
        kwargs = function.bind(self.call.arguments)
        for name, content in self.call.declared.items():
            answer_type, question = function.questions[name]
            kwargs[name] = form_type(answer_type if question.schema is None else question.schema).convert(content)
        return kwargs

    def cancel(self, reason: str) -> None:
        """Ask the handler to stop; the caller sets the status of the task."""
        self._request.cancel(reason)

    def forget(self) -> None:
        """Drop the arguments, the answers and the metadata of the call when the run is over.

        The run and its context refer to each other, so the garbage collector frees them late.
        """
        self.kwargs = None
        self.call.arguments, self.call.declared, self.call.meta = {}, {}, {}
        self._params.clear()

    def leave(self, reason: str) -> None:
        """Ask the handler to stop, and leave the record unchanged, so that another process begins the task again."""
        self.left = True
        self.cancel(reason)

    # --- what the context stores ------------------------------------------------------------------------------

    def _change(self, change: Callable[[TaskRecord], bool]) -> Optional[TaskRecord]:
        """Change the record and announce the change; None if nothing was changed, for example if another run has the task."""
        before = ""

        def change_mine(record: TaskRecord) -> bool:
            nonlocal before
            before = record.status
            return self._is_mine(record) and change(record)

        changed = self._store.change(self.task_id, change_mine)
        if changed is not None:
            self._changes.tell(self.task_id)
            if changed.status != before:
                self._request.tell_status(changed)
        return changed

    def _is_mine(self, record: Optional[TaskRecord]) -> bool:
        return record is not None and not record.finished and record.run == self.number

    def say(self, message: str) -> None:
        """Store a text about the present status, at once or, if the text before it is very new, within about a second.

        Of several texts that come in quick succession, only the last one is stored.
        """
        with self._lock:
            self._held_text = message
        if time.monotonic() >= self._next_text:
            self.store_text()

    def store_text(self) -> None:
        """Store the text about the status that is not stored yet, if there is one."""
        with self._lock:
            held, self._held_text = self._held_text, None
        if held is None:
            return
        self._next_text = time.monotonic() + _STATUS_SECONDS

        def change(record: TaskRecord) -> bool:
            before = record.message
            record.say(held)
            return record.message != before

        try:
            self._change(change)
        except (BackendError, RemoteError) as error:
            _log.info("the status of a task was not stored, and is tried again: %s", error)
            with self._lock:
                self._held_text = held if self._held_text is None else self._held_text

    def remember(self, key: str, value: Any) -> None:
        """Store a result of ``ctx.once``."""
        def change(record: TaskRecord) -> bool:
            record.once[key] = value
            return True

        if self._patiently(lambda: self._change(change)) is None:
            self._lost()

    def _lost(self) -> None:
        self.cancel("the task was cancelled, its time is over, or another process runs it")
        self.context.check_cancelled()

    # --- questions --------------------------------------------------------------------------------------------

    def record(self) -> TaskRecord:
        """Return the record as it is now.

        :raises Cancelled: the task was cancelled, or its time is over.
        """
        return self._patiently(self._current)  # type: ignore[no-any-return]

    def _current(self) -> TaskRecord:
        record = self._store.get(self.task_id)
        if not self._is_mine(record):
            self._lost()
        assert record is not None
        return record

    def ask(self, questions: Mapping[str, Dict[str, Any]], digests: Mapping[str, str]) -> Dict[str, Any]:
        """Put questions into the record, wait, and return the answer to each: ``{"result": ...}`` or ``{"error": ...}``.

        :raises Cancelled: the task was cancelled meanwhile.
        """
        def put(record: TaskRecord) -> bool:
            record.asked.update(digests)
            record.inputs = {key: question for key, question in dict(self._open).items() if key not in record.answers}
            record.status = INPUT_REQUIRED if record.inputs else WORKING
            return True

        self.store_text()
        with self._changes.watch(self.task_id) as changed, self._counted():
            uncancel = self.context.token.add_callback(changed.set)
            try:
                self._open.update(questions)
                if self._patiently(lambda: self._change(put)) is None:
                    self._lost()
                while True:
                    changed.clear()
                    with contextlib.suppress(BackendError):  # a store that is away brings the answers when it is back
                        answers = self._current().answers
                        if all(key in answers for key in questions):
                            return {key: answers[key] for key in questions}
                    self.context.check_cancelled()
                    with self.release_slot():
                        changed.wait(_LOOK_SECONDS)
                    self.context.check_cancelled()
            finally:
                uncancel()
                for key in questions:
                    self._open.pop(key, None)

    def _counted(self) -> ContextManager[object]:
        """Return a block that counts as a waiting call: its thread waits for the client, or for another server."""
        # It counts with 0 bytes, because the arguments count to the bytes of the tasks already.
        return suspended_calls_of(self._runtime).counted(CountedCall(self._sender, 0, self, self.cancel))

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Return a block in which the thread waits, and leaves its slot to another run."""
        with self._counted(), self.release_slot():
            yield

    # --- the end ------------------------------------------------------------------------------------------------

    def complete(self, result: Any) -> None:
        """End the task with a result; it fails if the result takes too many bytes. The handler may still run."""
        if type(result) is jsonrpc.Encoded:
            result = json.loads(result.text)
        is_error = bool(result.get("isError"))
        message = _first_text(result) if is_error else None
        record = self._persist(lambda: self._store.get(self.task_id))
        if record is None or not self._is_mine(record):
            return
        if self._persist(lambda: self._store.put_result(record, result)) is False:
            self._fail(INTERNAL_ERROR, "the task was ended: its result takes more bytes than the server keeps for tasks"
                                       " (Tasks.bytes)")
            return

        def end(found: TaskRecord) -> None:
            found.is_error, found.result_bytes, found.listed = is_error, record.result_bytes, record.listed
            found.end(COMPLETED, message)

        self._finish(end)

    def end_early(self, reason: str) -> None:
        """Mark the task as failed while its handler runs; the run does it later if the store is away."""
        self._finish(lambda record: record.fail(INTERNAL_ERROR, f"the task was ended: {reason}"), attempts=1)

    @property
    def over(self) -> bool:
        """Whether the task was cancelled, has ended or its time is over, so that no run continues it."""
        try:
            record = self._store.get(self.task_id)
        except BackendError:
            return False
        return record is None or record.finished

    def end_cancelled(self, message: Optional[str]) -> None:
        """End the task as cancelled by the server that it was passed on to."""
        self._finish(lambda record: record.end(CANCELLED, message))

    def _fail(self, code: int, message: str, data: Any = None) -> None:
        if not self.left:
            self._finish(lambda record: record.fail(code, text_of(message), data))

    def _finish(self, end: Callable[[TaskRecord], object], attempts: int = _ATTEMPTS) -> None:
        def change(record: TaskRecord) -> bool:
            end(record)
            return True

        changed = self._persist(lambda: self._change(change), attempts)
        if changed is None:
            self._changes.tell(self.task_id)  # it may have been changed by an operation whose answer was lost
        else:
            _log.info("task %s of tool %r is %s", self.task_id, self.call.tool, changed.status)

    def _persist(self, operation: Callable[[], Any], attempts: int = _ATTEMPTS) -> Any:
        """Run an operation that belongs to the end of the task; None if the store stays away."""
        try:
            return self._patiently(operation, attempts)
        except BackendError as error:
            _log.error("the end of task %s was not stored: %s", self.task_id, error)
            return None

    def _patiently(self, operation: Callable[[], Any], attempts: int = _ATTEMPTS) -> Any:
        """Run an operation of the store, again while the store is away: what a task has done must not be lost for that.

        :raises BackendError: the store has been away for all attempts.
        """
        for _ in range(attempts - 1):
            with contextlib.suppress(BackendError):
                return operation()
            time.sleep(_ATTEMPT_SECONDS)
        return operation()


class _NoPeer(MessageSink):
    """Stands in for the client's connection: a task does not depend on that."""

    last_error = None
    closed = False

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def foreign(self) -> bool:  # type: ignore[override]
        return os.getpid() != self._process


class RunningRequest(Incoming):
    """The request that became a task: it is answered already, and counts as in progress until the task is finished.

    :param origin: the session of the client, if the call came to this process; notifications go there.
    """

    def __init__(self, run: TaskRun, params: Dict[str, Any], origin: Optional[Session]) -> None:
        super().__init__(_NoPeer(), jsonrpc.Request(run.task_id, "tools/call", params))
        self._run = run
        self._origin = origin

    def emit(self, method: str, params: Dict[str, Any]) -> bool:
        origin = self._origin
        if origin is None or not origin.persistent or self.over:
            return False
        meta = {**params.get("_meta", {}), **related_task(self._run.task_id)}
        try:
            origin.peer.notify(method, {**params, "_meta": meta})
        except MCPError:
            return False  # the client has left, and the task goes on
        return True

    def tell_status(self, record: TaskRecord) -> None:
        """Notify the client of a new status, if its session is in this process and its revision can notify it (TSK-32)."""
        origin = self._origin
        if origin is None or not origin.persistent or not origin.revision.task_notification:
            return
        with contextlib.suppress(MCPError):  # the client has left
            origin.peer.notify(origin.revision.task_notification, codec.encode(record.view(origin.revision), origin.revision))

    def respond(self, result: Any) -> None:
        self._run.complete(result)


class TaskSession(Session):
    """The client of a task, as the request described it.

    :param origin: the session of the client, if the call came to this process; None for a stored task.
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

    def __init__(self, session: TaskSession, incoming: RunningRequest, run: TaskRun, once_results: Dict[str, Any]) -> None:
        super().__init__(session, incoming)
        #: The run of the task, for code that passes the call on to another server.
        self.run = run
        self._asker = TaskAsker(session, run)
        #: The results of :meth:`once`, by key.
        self.once_results = once_results

    @property
    def task_id(self) -> Optional[str]:
        return self.run.task_id

    def task_status(self, message: str) -> None:
        self.check_cancelled()
        self.run.say(message)

    def report_progress(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        super().report_progress(progress, total, message)
        done, whole = progress_number(progress, "progress"), None if total is None else progress_number(total, "total")
        if message or done is not None:
            self.run.say(str(message) if message else f"{done:g}" if whole is None else f"{done:g} of {whole:g}")

    def once(self, key: str, action: Callable[[], Any]) -> Any:
        if key in self.once_results:
            return self.once_results[key]
        value = action()
        if self.run.restartable:
            value = through_json(value)
            self.run.remember(key, value)
        self.once_results[key] = value
        return value


class TaskAsker(Asker):
    """Asks the client of a task.

    :param session: of the client, as the task has it.
    :param run: puts the questions into the record, and waits for the answers.
    """

    def __init__(self, session: TaskSession, run: TaskRun) -> None:
        super().__init__(session)
        self._run = run
        self._askable = session.askable
        #: The keys that this run has used. In the life of a task a key stands for one question only.
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
            known = self._run.record().asked
            keys = {key: self._unique(key, question, known) for key, question in missing.items()}
            given = self._run.ask({keys[key]: _members(question) for key, question in missing.items()},
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
                    # The question is asked again under another key: a client may answer each key only once.
                    problem = error
                    _log.warning("the client's answer to %.100r is asked for again: %s", key, error)
            if failed:
                raise failed[0]
        raise problem

    def _unique(self, key: str, question: EncodedQuestion, known: Mapping[str, str]) -> str:
        """Return a key that stands for this question alone: no other question of any run of the task has used it."""
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
        members["task"] = True  # this server reads it; no client that is sent these members can run a question as a task
    return members


def _digest(question: EncodedQuestion) -> str:
    return digest([question.method, question.params])


def _first_text(result: Mapping[str, Any]) -> Optional[str]:
    for block in result.get("content") or ():
        if isinstance(block, dict) and block.get("type") == "text":
            return str(block["text"])
    return None

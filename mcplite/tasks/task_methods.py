"""Answers the requests about tasks: ``tasks/get``, ``tasks/update``, ``tasks/cancel``, ``tasks/list`` and ``tasks/result``."""

import functools
from typing import Any, Callable, Dict, Optional

from ..errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    BackendError,
    Cancelled,
    InvalidParams,
    ProtocolError,
    RemoteError,
    remote_error,
)
from ..protocol import opaque
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..rpc.deadline import undo
from ..rpc.interfaces import Delivery
from ..rpc.tracing import get_logger
from ..server.handling.back_channel import send_question
from ..server.handling.client_questions import EncodedQuestion
from ..server.handling.context import RequestContext
from ..server.runtime.runtime import Runtime
from ..types import CallToolResult, codec
from ..types.tasks import CANCELLED, COMPLETED, FAILED, WORKING, ListTasksResult, related_task
from .task_processes import TaskChanges
from .task_record import TaskRecord, error_members
from .task_store import TaskStore

__all__ = ["TaskMethods"]

_log = get_logger(__name__)
#: Tasks on one page of a list at most: each is read by itself.
_PAGE = 100
#: Seconds after which ``tasks/result`` looks at the record without being told.
_LOOK_SECONDS = 1.0
Result = Dict[str, Any]


class TaskMethods:
    """The requests about tasks.

    :param cancel_run: asks the handler of a task to stop, if it runs in this process; takes the id and a reason. It is
        ``ServerTasks.cancel_run``.
    :param look_after: returns a record, changed if the process that ran the task has ended; ``ServerTasks.look_after``.
    """

    def __init__(self, runtime: Runtime, store: TaskStore, changes: TaskChanges, cancel_run: Callable[[str, str], object],
                 look_after: Callable[[TaskRecord], TaskRecord]) -> None:
        self._runtime = runtime
        self._store = store
        self._changes = changes
        self._cancel_run = cancel_run
        self._look_after = look_after

    def answer(self, context: RequestContext) -> Any:
        """Return the result of a request about tasks.

        :raises InvalidParams: there is no such task, or it is another principal's (TSK-37).
        """
        return _TASK_METHODS[context.method](self, context)

    def _find(self, context: RequestContext) -> TaskRecord:
        task_id, principal = context.params.get("taskId"), context.principal
        if not isinstance(task_id, str):
            raise InvalidParams("params.taskId must be a string")
        record = self._store.get(task_id)
        if record is None or record.owner != (None if principal is None else principal.key):
            _log.info("%s: there is no task %.64r for this client", context.method, task_id)
            raise InvalidParams("Failed to retrieve task: there is none with this id, or its time is over")
        return self._look_after(record)

    # --- one task -------------------------------------------------------------------------------------------

    def describe(self, record: TaskRecord, revision: Revision) -> Result:
        """Return a task as a client of *revision* sees it, encoded, from July 2026 on with its result or error."""
        task = record.view(revision, self._store.now())
        if revision.modern and record.status == COMPLETED:
            task.result = self._result_in(record, revision)
        elif revision.modern and record.status == FAILED:
            task.error = record.error
        return codec.encode(task, revision)  # type: ignore[no-any-return]

    def _result_in(self, record: TaskRecord, revision: Revision) -> Result:
        """Return the result as the request would have returned it."""
        result = self._store.result(record) or {"content": []}
        if record.revision != revision.name:
            result = codec.encode(codec.decode(CallToolResult, result), revision)
        return self._runtime.catalog.stamp(result, revision) if revision.modern else result

    def _get(self, context: RequestContext) -> Result:
        return self.describe(self._find(context), context.session.revision)

    def _cancel(self, context: RequestContext) -> Result:
        record, revision = self._find(context), context.session.revision
        changed = self.cancel(record.id, "The task was cancelled by request")
        if changed is None and not revision.modern:
            found = self._store.get(record.id) or record
            raise InvalidParams(f"Cannot cancel task: already in terminal status {found.view(revision).status!r}")  # TSK-35
        return {} if changed is None or revision.modern else self.describe(changed, revision)

    def cancel(self, task_id: str, reason: str) -> Optional[TaskRecord]:
        """Cancel a task, and return its record; None if it has ended."""
        def cancel(found: TaskRecord) -> bool:
            if found.finished:
                return False
            found.end(CANCELLED, reason)
            return True

        changed = self._store.change(task_id, cancel)
        if changed is not None:
            self._changes.tell(task_id)
            self._cancel_run(task_id, reason)
            _log.info("task %s of tool %r was cancelled", task_id, changed.tool)
        return changed

    def _update(self, context: RequestContext) -> Result:
        record, responses = self._find(context), context.params.get("inputResponses")
        if not isinstance(responses, dict) or not all(isinstance(answer, dict) for answer in responses.values()):
            raise InvalidParams("params.inputResponses must be an object of objects")
        self.take_answers(record.id, {key: {"result": answer} for key, answer in responses.items()})
        return {}

    def take_answers(self, task_id: str, answers: Dict[str, Any]) -> None:
        """Give answers to a task; those to questions that it does not ask now are ignored."""
        def change(record: TaskRecord) -> bool:
            fitting = {key: answer for key, answer in answers.items() if key in record.inputs}
            record.answers.update(fitting)
            record.inputs = {key: question for key, question in record.inputs.items() if key not in fitting}
            if fitting and not record.inputs:
                record.status = WORKING
            return bool(fitting)

        if self._store.change(task_id, change) is not None:
            self._changes.tell(task_id)

    # --- November 2025 ----------------------------------------------------------------------------------------

    def _list(self, context: RequestContext) -> Result:
        principal, cursor, revision = context.principal, context.params.get("cursor"), context.session.revision
        if principal is None:
            raise RemoteError("Method not found: tasks/list", code=METHOD_NOT_FOUND)
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidParams("params.cursor must be a string")
        listed, size = self._store.list(principal.key), min(_PAGE, self._runtime.catalog.page_size)
        chosen, after = opaque.page(listed, cursor, size, "tasks", key=str)
        records = [self._store.get(task_id) for task_id in chosen]
        tasks = [self._look_after(record).view(revision, self._store.now()) for record in records if record is not None]
        return codec.encode(ListTasksResult(tasks, after), revision)  # type: ignore[no-any-return]

    def _result(self, context: RequestContext) -> Result:
        record = self._find(context)
        with self._changes.watch(record.id) as changed:
            uncancel = context.token.add_callback(changed.set)
            try:
                while True:
                    changed.clear()
                    record = self._find(context)
                    if record.finished:
                        return self._outcome(record, context.session.revision)
                    context.check_cancelled()
                    if record.inputs and context.session.persistent and self._ask(context, record):
                        continue
                    with context.session.peer.without_slot():
                        changed.wait(_LOOK_SECONDS)
                    context.check_cancelled()
            finally:
                uncancel()

    def _outcome(self, record: TaskRecord, revision: Revision) -> Result:
        """Return what the request would have returned (TSK-21).

        :raises RemoteError: its error.
        """
        if record.status == CANCELLED:
            raise RemoteError(record.message or "The task was cancelled", code=INVALID_REQUEST)
        if record.status == FAILED:
            error = record.error or {}
            failure = remote_error(error.get("code"), error.get("message"), error.get("data"))
            failure.received = False  # it is the answer, and no failure of the handler
            raise failure
        result = self._result_in(record, revision)
        result["_meta"] = {**(result.get("_meta") or {}), **related_task(record.id)}
        return result

    def _ask(self, context: RequestContext, record: TaskRecord) -> bool:
        """Send the questions of a task to the client that waits for its result; False if others have sent them all."""
        sent = False
        for key, question in record.inputs.items():
            if not self._store.claim(record, key):
                continue
            sent = True
            with undo(functools.partial(self._store.release, record, key)):
                answer = self._send(context, record, key, question)
            if answer is not None:
                self.take_answers(record.id, {key: answer})
        return sent

    def _send(self, context: RequestContext, record: TaskRecord, key: str, question: Dict[str, Any]) -> Optional[Result]:
        """Send a question, and return its answer or error; None if the task did not wait for it to the end."""
        params = question.get("params") or {}
        params = {**params, "_meta": {**params.get("_meta", {}), **related_task(record.id)}}
        asked = EncodedQuestion(question["method"], params, dict, as_task=bool(question.get("task")))
        token = CancelToken()
        uncancel = context.token.add_callback(lambda: token.cancel(context.token.reason))
        try:
            with self._changes.calling(record.id, lambda: self._look_soon(record.id, key, token)):
                return {"result": send_question(context.session, asked, token, Delivery(context.incoming.outlet))}
        except Cancelled:
            context.check_cancelled()
            return None
        except RemoteError as error:
            return {"error": error_members(error.code, error.message, error.data)}
        except ProtocolError as error:
            return {"error": error_members(INTERNAL_ERROR, str(error), None)}
        finally:
            uncancel()

    def _look_soon(self, task_id: str, key: str, token: CancelToken) -> None:
        """Withdraw a question if its task does not ask it any more, as a cancelled one; on another thread."""
        def look() -> None:
            try:
                record = self._store.get(task_id)
            except BackendError as error:
                _log.debug("the change of a task was not read: %s", error)
                return
            if record is None or key not in record.inputs:
                token.cancel("the task does not ask this any more")

        self._runtime.workers.spawn(look)


_TASK_METHODS: Dict[str, Callable[[TaskMethods, RequestContext], Optional[Result]]] = {
    "tasks/get": TaskMethods._get, "tasks/update": TaskMethods._update, "tasks/cancel": TaskMethods._cancel,
    "tasks/list": TaskMethods._list, "tasks/result": TaskMethods._result,
}

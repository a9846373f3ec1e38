"""ReceivedTasks: questions that a server asks as tasks, which it then polls; a part of November 2025 alone.

A legacy session has a ``ReceivedTasks`` from the first such question, or the first request about a task, on. The client's
ordinary handlers answer the questions.
"""

import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from ..client.sessions.base import SessionPart
from ..client.sessions.legacy import LegacyClientSession
from ..errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_BUSY, Cancelled, RemoteError
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..rpc.request import Incoming
from ..rpc.threads import Workers
from ..rpc.tracing import get_logger
from ..types import codec
from ..types.tasks import CANCELLED, COMPLETED, FAILED, WORKING, CreateTaskResult, DetailedTask, ListTasksResult, related_task

__all__ = ["ReceivedTasks", "take_question"]

_log = get_logger(__name__)
#: The most tasks that are kept, those that have ended included. Then the seconds for which a task is kept: if the server does
#: not say how long, and at most.
_MOST_TASKS = 100
_KEPT_SECONDS = 600.0
_LONGEST_SECONDS = 3600.0
_POLL_INTERVAL_MS = 500
#: Tasks on one page of the list.
_PAGE = 50

#: Answers a question with the client's handler: its method, params and cancel token.
Answer = Callable[[Incoming, CancelToken], Optional[Dict[str, Any]]]


def take_question(session: LegacyClientSession, incoming: Incoming) -> bool:
    """Answer a request about tasks, or a question that asks for a task; False if the request is neither.

    :param incoming: a request of the server, on the thread that reads.
    """
    declared = session.connection.handlers.capabilities().tasks
    if declared is None or not session.revision.task_requests:
        return False
    about = incoming.method in session.revision.task_requests
    kind, _, call = incoming.method.partition("/")
    if not about and not (call in declared["requests"].get(kind, {}) and isinstance(incoming.params.get("task"), dict)):
        return False  # TSK-13
    tasks = session.parts.get("received tasks")
    if tasks is None:
        tasks = session.parts["received tasks"] = ReceivedTasks(session.revision, session.connection.workers,
                                                                session.answer_question)
    assert isinstance(tasks, ReceivedTasks), "the name is of this module"
    if about:
        tasks.on_request(incoming)
    else:
        tasks.accept(incoming)
    return True


class _ReceivedTask:
    """One question that is answered as a task."""

    def __init__(self, state: DetailedTask, until: float) -> None:
        self.state = state
        self.until = until
        self.token = CancelToken()
        self.result: Optional[Dict[str, Any]] = None
        self.error: Optional[RemoteError] = None
        #: The requests for the result of the task, which are answered when the task ends (TSK-22).
        self.waiting: List[Incoming] = []


class ReceivedTasks(SessionPart):
    """The tasks of one session that the server has given to this client.

    :param revision: the one agreed on.
    :param workers: run the handlers.
    :param answer: answers a question with the client's handler.
    """

    def __init__(self, revision: Revision, workers: Workers, answer: Answer) -> None:
        self._revision = revision
        self._workers = workers
        self._answer = answer
        #: Guards the tasks, by id, oldest first; held for work in memory only.
        self._lock = threading.Lock()
        self._tasks: Dict[str, _ReceivedTask] = {}

    def accept(self, incoming: Incoming) -> None:
        """Answer a question with a task, and run its handler on a worker thread; called on the reader's thread."""
        given = incoming.params["task"].get("ttl")
        seconds = min(given, 1000 * _LONGEST_SECONDS) / 1000 if type(given) in (int, float) and given > 0 else _KEPT_SECONDS
        at = _now()
        state = DetailedTask(os.urandom(16).hex(), WORKING, at, at, ttl_ms=round(seconds * 1000),
                             poll_interval_ms=_POLL_INTERVAL_MS)
        task = _ReceivedTask(state, time.monotonic() + seconds)
        with self._lock:
            kept = self._make_room()
            if kept:
                self._tasks[state.task_id] = task
        if not kept:
            incoming.fail(SERVER_BUSY, f"the client keeps {_MOST_TASKS} tasks, and accepts no more for now")
            return
        incoming.respond(codec.encode(CreateTaskResult(state), self._revision))
        if not self._workers.submit(lambda: self._run(task, incoming)):
            self._end(task, FAILED, error=RemoteError("the client is busy", code=SERVER_BUSY))

    def _make_room(self) -> bool:
        # With the lock held. Remove the expired tasks (TSK-46), and if that is not enough, the oldest that has ended; return
        # False if none has ended.
        now = time.monotonic()
        for id in [id for id, task in self._tasks.items() if task.until <= now]:
            self._tasks.pop(id).token.cancel("the task has expired")
        if len(self._tasks) >= _MOST_TASKS:
            oldest = next((id for id, task in self._tasks.items() if task.state.finished), None)
            if oldest is None:
                return False
            del self._tasks[oldest]
        return True

    def _run(self, task: _ReceivedTask, incoming: Incoming) -> None:
        # On a worker thread.
        try:
            task.token.check()
            result = self._answer(incoming, task.token)
        except Cancelled as error:
            self._end(task, CANCELLED, error=RemoteError(str(error)))
        except RemoteError as error:
            self._end(task, FAILED, error=error)
        except BaseException:
            # SystemExit and KeyboardInterrupt too: the server waits for an outcome.
            _log.exception("the handler of %.100r failed", incoming.method)
            self._end(task, FAILED, error=RemoteError("Internal error", code=INTERNAL_ERROR))
        else:
            self._end(task, COMPLETED, result=result or {})

    def _end(self, task: _ReceivedTask, status: str, result: Optional[Dict[str, Any]] = None,
             error: Optional[RemoteError] = None) -> None:
        """Note how a task has ended, and answer the requests that wait for it; do nothing if it had ended before (TSK-17)."""
        with self._lock:
            if task.state.finished:
                return
            task.state.status, task.state.last_updated_at = status, _now()
            task.state.status_message = None if error is None else error.message
            task.result, task.error = result, error
            waiting, task.waiting = task.waiting, []
        for incoming in waiting:
            _respond(incoming, task)

    def close(self) -> None:
        """Cancel the handlers that run: the connection is over."""
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.token.cancel("the connection is over")

    # --- requests about them, on the reader's thread ------------------------------------------------------------

    def on_request(self, incoming: Incoming) -> None:
        """Answer a request about tasks."""
        if incoming.method == "tasks/list":
            self._list(incoming)
            return
        id = incoming.params.get("taskId")
        with self._lock:
            self._make_room()
            task = self._tasks.get(id) if isinstance(id, str) else None
            result = None if task is None else codec.encode(task.state, self._revision)
            if task is not None and incoming.method == "tasks/result" and not task.state.finished:
                task.waiting.append(incoming)
                return
        if task is None:
            incoming.fail(INVALID_PARAMS, f"there is no task {id!r:.100}, or it has expired")  # TSK-37
        elif incoming.method == "tasks/get":
            incoming.respond(result)
        elif incoming.method == "tasks/result":
            _respond(incoming, task)
        elif incoming.method == "tasks/cancel":
            self._cancel(incoming, task)
        else:
            incoming.fail(METHOD_NOT_FOUND, f"Method not found: {incoming.method[:200]}")

    def _list(self, incoming: Incoming) -> None:
        cursor = incoming.params.get("cursor")
        with self._lock:
            self._make_room()
            ids = list(self._tasks)
            begin = 0 if cursor is None else ids.index(cursor) + 1 if cursor in ids else -1
            page = ids[begin:begin + _PAGE]
            more = begin + _PAGE < len(ids)
            found = ListTasksResult([self._tasks[id].state for id in page], page[-1] if more else None)
            result = None if begin < 0 else codec.encode(found, self._revision)
        if result is None:
            incoming.fail(INVALID_PARAMS, f"the cursor {cursor!r:.100} is not one of this list")
        else:
            incoming.respond(result)

    def _cancel(self, incoming: Incoming, task: _ReceivedTask) -> None:
        if task.state.finished:
            incoming.fail(INVALID_PARAMS, f"the task {task.state.task_id!r} has ended: {task.state.status}")  # TSK-35
            return
        self._end(task, CANCELLED, error=RemoteError("the task was cancelled"))  # TSK-36: before the response
        task.token.cancel("the server has cancelled the task")
        incoming.respond(codec.encode(task.state, self._revision))


def _respond(incoming: Incoming, task: _ReceivedTask) -> None:
    """Answer with the result or the error that the question would have got without a task (TSK-21)."""
    if task.error is not None:
        incoming.fail(task.error.code, task.error.message, task.error.data)
        return
    result = task.result or {}
    incoming.respond({**result, "_meta": {**(result.get("_meta") or {}), **related_task(task.state.task_id)}})  # TSK-23


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

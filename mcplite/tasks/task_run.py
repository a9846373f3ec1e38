"""One run of a task in this process: its handler on a thread, its status, and its end.

What runs the tasks of a server: a pool of threads in this process, or a queue of jobs that the user has already.
"""

import contextlib
import contextvars
import json
import os
import threading
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, Mapping, Optional, Union

from ..errors import INTERNAL_ERROR, SERVER_BUSY, BackendError, Cancelled, RemoteError, text_of
from ..protocol import jsonrpc
from ..protocol.jsonrpc import memory_size
from ..revisions import find_revision
from ..rpc.fair_queue import QueuedJob
from ..rpc.forks import end_process, renew
from ..rpc.threads import Workers
from ..rpc.tracing import get_logger
from ..server.catalog.provider import ProvidedEntry
from ..server.catalog.registry import ToolEntry
from ..server.functions.forms import form_type
from ..server.functions.function import BadArguments
from ..server.handling.context import CURRENT
from ..server.handling.handler_calls import call_bound, tool_error
from ..server.handling.session import Session
from ..server.handling.suspended_calls import CountedCall, suspended_calls_of
from ..server.runtime.runtime import Runtime
from ..server.server_options import TaskRunner
from ..types.tasks import CANCELLED, COMPLETED, INPUT_REQUIRED, WORKING
from . import Tasks
from .task_context import QuestionBoard, RunControl, RunningRequest, TaskContext, TaskSession
from .task_processes import TaskChanges
from .task_record import TaskCall, TaskRecord
from .task_store import TaskStore

__all__ = ["QueueRunner", "TaskPool", "TaskRun", "held_bytes"]

_log = get_logger(__name__)
#: Seconds between two texts about the status that are stored; of those in between the last one counts.
_STATUS_SECONDS = 0.2
#: Seconds after which a run that waits for answers looks at the record without being told.
_LOOK_SECONDS = 2.0
#: Attempts to store the end of a task while the store is away, and the seconds between them.
_ATTEMPTS, _ATTEMPT_SECONDS = 60, 1.0
#: Bytes of the objects of a run, besides what its call has brought.
_RUN_BYTES = 6144


def held_bytes(call: TaskCall, most: int) -> int:
    """Return the bytes of memory that the run of a call holds, or any number above *most* if it holds more."""
    return _RUN_BYTES + memory_size(call, most)


class TaskRun(QueuedJob, RunControl, QuestionBoard):
    """One run of a task.

    :param entry: of the tool.
    :param origin: the session of the client, while it is in this process.
    """

    def __init__(self, runtime: Runtime, store: TaskStore, changes: TaskChanges,
                 entry: Union[ToolEntry, ProvidedEntry], record: TaskRecord, call: TaskCall, origin: Optional[Session]) -> None:
        self.task_id = record.id
        self.restartable = record.restartable
        self.run = record.run
        #: The arguments of the function; None if they are to be read from the call.
        self.kwargs: Optional[Dict[str, Any]] = None
        #: Returns a block in which the thread gives its place to another run; outside of the pool it does nothing.
        self.release_place: Callable[[], ContextManager[None]] = contextlib.nullcontext
        #: Called when the run is over.
        self.ended: Callable[[TaskRun], object] = _nothing
        self.size = 0
        self.expires = record.expires
        #: Whether the task is left to other processes, as this one is stopped.
        self.left = False
        self._runtime = runtime
        self._store = store
        self._changes = changes
        self._entry = entry
        self._call = call
        self._sender = record.sender or record.owner or ""
        self._messages = _StatusWriter(self._store_message)
        revision = find_revision(call.revision)
        assert revision is not None, "the record is of a revision that this server has served"
        session = TaskSession(runtime, revision, call, record, origin)
        self._params = {"name": call.tool, "arguments": call.arguments, "_meta": call.meta}
        self._request = RunningRequest(self, self._params, origin)
        self.context = TaskContext(session, self._request, self, self, dict(record.once))

    # --- a task of the pool -----------------------------------------------------------------------------

    @property
    def sender(self) -> str:
        return self._sender

    def refuse(self) -> None:
        self._finish(lambda record: record.fail(SERVER_BUSY, "Server busy: too many tasks are waiting; try again later"))
        self.ended(self)

    def execute(self) -> None:
        # In context variables of its own: the thread runs other tasks after this one.
        contextvars.Context().run(self._execute)

    def _execute(self) -> None:
        context, process = self.context, os.getpid()
        CURRENT.set(context)
        try:
            result = self._result()
            if os.getpid() != process:
                end_process(f"the task {self.task_id}", None)
            self.complete(result)
        except RemoteError as error:
            self._fail(error.code, error.message, error.data)
        except Cancelled as error:
            reason = context.token.reason if context.cancelled else str(error)
            self._fail(INTERNAL_ERROR, f"the task was ended: {reason or 'no reason is known'}")
        except BaseException as error:
            # SystemExit and KeyboardInterrupt too: a handler must not end the thread or the server.
            if os.getpid() != process:
                end_process(f"the task {self.task_id}", error)  # the handler has forked: the task is the other process's
            _log.exception("the task of tool %r failed", self._call.tool)
            self._fail(INTERNAL_ERROR, "Internal error")
        finally:
            if context.turn is not None:
                context.turn.end()
            self._messages.close()
            self.ended(self)

    def _result(self) -> Any:
        if isinstance(self._entry, ProvidedEntry):
            return self._entry.handler(self.context.params, self.context)
        kwargs, self.kwargs = self.kwargs, None
        if kwargs is None:
            try:
                kwargs = self._read_arguments()
            except BadArguments as error:
                return tool_error(self.context, f"Invalid arguments for tool {self._call.tool}: {'; '.join(error.problems)}")
        return call_bound(self.context, self._entry, kwargs)

    def _read_arguments(self) -> Dict[str, Any]:
        function = self._entry.function
        kwargs = function.bind(self._call.arguments)
        for name, content in self._call.declared.items():
            answer_type, question = function.questions[name]
            kwargs[name] = form_type(answer_type if question.schema is None else question.schema).convert(content)
        return kwargs

    def cancel(self, reason: str) -> None:
        """Ask the handler to stop; the status is the caller's to set."""
        self._request.cancel(reason)

    def forget(self) -> None:
        """Let go of what the call has brought, once the run is over: it and its context hold each other."""
        self.kwargs = None
        self._call.arguments, self._call.declared, self._call.meta = {}, {}, {}
        self._params.clear()

    def leave(self, reason: str) -> None:
        """Ask the handler to stop, and leave the task as it is to other processes."""
        self.left = True
        self.cancel(reason)

    # --- what the context stores ------------------------------------------------------------------------------

    def _change(self, change: Callable[[TaskRecord], bool]) -> Optional[TaskRecord]:
        """Change the record, as long as this run has the task; tell of it."""
        before = ""

        def change_mine(record: TaskRecord) -> bool:
            nonlocal before
            before = record.status
            return not record.finished and record.run == self.run and change(record)

        changed = self._store.change(self.task_id, change_mine)
        if changed is not None:
            self._changes.tell(self.task_id)
            if changed.status != before:
                self._request.tell_status(changed)
        return changed

    def say(self, message: str) -> None:
        self._messages.write(message)

    def _store_message(self, message: str) -> None:
        def change(record: TaskRecord) -> bool:
            before = record.message
            record.say(message)
            return record.message != before

        try:
            self._change(change)
        except (BackendError, RemoteError) as error:
            _log.warning("the status of a task was not stored: %s", error)

    def remember(self, key: str, value: Any) -> None:
        def change(record: TaskRecord) -> bool:
            record.once[key] = value
            return True

        if self._change(change) is None:
            self._lost()

    def _lost(self) -> None:
        self.cancel("the task was cancelled, its time is over, or another process runs it")
        self.context.check_cancelled()

    # --- questions --------------------------------------------------------------------------------------------

    def record(self) -> TaskRecord:
        record = self._store.get(self.task_id)
        if record is None or record.finished or record.run != self.run:
            self._lost()
        assert record is not None
        return record

    def ask(self, questions: Mapping[str, Dict[str, Any]], digests: Mapping[str, str]) -> Dict[str, Any]:
        def put(record: TaskRecord) -> bool:
            record.asked.update(digests)
            record.inputs = {key: question for key, question in questions.items() if key not in record.answers}
            record.status = INPUT_REQUIRED if record.inputs else WORKING
            return True

        self._messages.flush()
        with self._changes.watch(self.task_id) as changed, self._waiting():
            uncancel = self.context.token.add_callback(changed.set)
            try:
                record = self._change(put)
                if record is None:
                    self._lost()
                while True:
                    changed.clear()
                    record = self.record()
                    if all(key in record.answers for key in questions):
                        return {key: record.answers[key] for key in questions}
                    self.context.check_cancelled()
                    self._wait(changed)
                    self.context.check_cancelled()
            finally:
                uncancel()

    def _wait(self, changed: threading.Event) -> None:
        with self.release_place():
            changed.wait(_LOOK_SECONDS)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Return a block that counts as a waiting call: its thread waits for the client, or for another server."""
        # Its arguments count to the bytes of the tasks.
        with suspended_calls_of(self._runtime).counted(CountedCall(self._sender, 0, self, self.cancel)):
            yield

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        with self._waiting(), self.release_place():
            yield

    # --- the end ------------------------------------------------------------------------------------------------

    def complete(self, result: Any) -> None:
        if type(result) is jsonrpc.Encoded:
            result = json.loads(result.text)
        is_error = bool(result.get("isError"))
        message = _first_text(result) if is_error else None
        self._messages.close()
        record = self._store.get(self.task_id)
        if record is None or record.finished or record.run != self.run:
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
        """Mark the task as failed while its handler runs."""
        self._fail(INTERNAL_ERROR, f"the task was ended: {reason}")

    @property
    def over(self) -> bool:
        try:
            record = self._store.get(self.task_id)
        except BackendError:
            return False
        return record is None or record.finished

    def end_cancelled(self, message: Optional[str]) -> None:
        self._finish(lambda record: record.end(CANCELLED, message))

    def _fail(self, code: int, message: str, data: Any = None) -> None:
        if not self.left:
            self._finish(lambda record: record.fail(code, text_of(message), data))

    def _finish(self, end: Callable[[TaskRecord], object]) -> None:
        self._messages.close()

        def change(record: TaskRecord) -> bool:
            end(record)
            return True

        changed = self._persist(lambda: self._change(change))
        if changed is not None:
            _log.info("task %s of tool %r is %s", self.task_id, self._call.tool, changed.status)

    def _persist(self, operation: Callable[[], Any]) -> Any:
        """Run an operation of the store, again while the store is away: what a task has done must not be lost for that."""
        for attempt in range(_ATTEMPTS):
            try:
                return operation()
            except BackendError as error:
                if attempt + 1 == _ATTEMPTS:
                    _log.error("the end of task %s was not stored: %s", self.task_id, error)
                    return None
                time.sleep(_ATTEMPT_SECONDS)
        return None


class _StatusWriter:
    """Stores texts about the status at a bounded rate: the first at once, of the others the last after a pause.

    :param store: stores one.
    """

    def __init__(self, store: Callable[[str], None]) -> None:
        self._store = store
        #: Guards the fields below; held for assignments only.
        self._lock = threading.Lock()
        self._next = 0.0
        self._held: Optional[str] = None
        self._closed = False
        #: Its thread ends when it has stored the held text, and blocks on the store alone.
        self._timer: Optional[threading.Timer] = None

    def write(self, message: str) -> None:
        """Store a text, now or soon."""
        with self._lock:
            now = time.monotonic()
            if self._closed:
                return
            if now < self._next:
                self._held = message
                if self._timer is None:
                    timer = threading.Timer(self._next - now, self.flush)
                    timer.daemon = True
                    timer.start()
                    self._timer = timer  # if the system has no thread for it, the next text tries again
                return
            self._next = now + _STATUS_SECONDS
        self._store(message)

    def flush(self) -> None:
        """Store the text that is held back."""
        with self._lock:
            held, self._held, self._timer = self._held, None, None
            self._next = time.monotonic() + _STATUS_SECONDS
        if held is not None:
            self._store(held)

    def close(self) -> None:
        """Forget what is held back: the task has ended, or is about to."""
        with self._lock:
            self._closed, self._held = True, None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _first_text(result: Mapping[str, Any]) -> Optional[str]:
    for block in result.get("content") or ():
        if isinstance(block, dict) and block.get("type") == "text":
            return str(block["text"])
    return None


def _nothing(run: TaskRun) -> None:
    """What is called at the end of a run that nothing follows."""


class QueueRunner(TaskRunner):
    """The base of the runners that are shipped: the server tells them what to run."""

    def submit(self, name: str, payload: str) -> object:
        raise NotImplementedError

    def attach(self, run: Callable[[str], None], shared: bool) -> None:
        """Called once by the server.

        :param run: runs the task of a payload; it is :meth:`Server.run_task`.
        :param shared: whether other processes can reach the server's backend.
        """


class TaskPool:
    """The threads that run tasks in this process; apart from those of the requests, which stay short.

    :param settings: how many tasks run and are queued at once.
    """

    def __init__(self, settings: Tasks) -> None:
        self._settings = settings
        #: Guards the field below; held while a task is queued.
        self._lock = threading.Lock()
        #: Created with the first task, and again after :meth:`stop` and in a forked process.
        self._workers: Optional[Workers] = None

    def let_go(self) -> None:
        """Forget the threads in a forked process; they belong to the other one."""
        renew(self)
        self._workers = None

    def submit(self, run: TaskRun) -> bool:
        """Run a task as soon as there is a place; False if too many wait for one."""
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self._settings.running, self._settings.queued, "mcplite task")
            run.release_place = self._workers.suspended
            return self._workers.enqueue(run)

    def discard(self, run: TaskRun) -> bool:
        """Remove a run that waits for a place; False if it does not."""
        with self._lock:
            return self._workers is not None and self._workers.discard(run)

    def stop(self) -> None:
        """End the threads that are idle, and the others after their tasks."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.stop()

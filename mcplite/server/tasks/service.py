"""The tasks of one server: creates them, runs them, and finds those whose process has ended.

Loaded with the first tool that may be called as a task.
"""

import threading
from typing import Any, Dict, List, Optional

from ...backend.memory import MemoryBackend
from ...errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SERVER_BUSY,
    BackendError,
    InvalidParams,
    MissingCapability,
    RegistrationError,
    RemoteError,
    TransportError,
)
from ...revisions import NEWEST, Revision
from ...rpc.forks import new_lock, on_fork
from ...rpc.threads import start_thread
from ...rpc.tracing import INFO, WARNING, FaultLog, get_logger
from ...types import codec
from ...types.tasks import TASK_IDS, TASKS_EXTENSION, WORKING, CreateTaskResult
from ..handling.request_context import RequestContext
from ..handling.session import Session
from ..handling.tools import Declined, ask_declared, tool_error
from ..runtime.runtime import Runtime
from ..runtime.tasks import TaskService
from .methods import TaskMethods
from .record import Entry, TaskCall, TaskRecord, call_of, lifetime
from .run import TaskRun, held_bytes
from .runner import QueueRunner, TaskPool, TaskRunner
from .running_tasks import TaskRoster
from .store import TaskStore
from .wakeups import TaskChanges

__all__ = ["Tasks", "requires_extension", "start_tasks"]

_log = get_logger(__name__)
#: Seconds between two looks at the clock and at the other processes.
_LOOK_SECONDS = 1.0
#: How often a task is begun whose processes end: one that ends them itself must not end them all.
_MOST_RUNS = 3
_ENDED = "the process that ran the task has ended"


def requires_extension(what: str) -> MissingCapability:
    """Return the error for a client that did not declare the extension."""
    return MissingCapability(f"{what} needs a client with the extension {TASKS_EXTENSION}, which yours did not declare",
                             data={"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})


def start_tasks(runtime: Runtime) -> None:
    """Have tasks on a server, which gets a tool that may be called as one; it does nothing if there are tasks already.

    :raises RegistrationError: the runner of the server cannot be used.
    """
    runner = runtime.task_runner
    if runtime.tasks is not None:
        return
    if runner is not None and not callable(getattr(runner, "submit", None)):
        raise RegistrationError(f"tasks= needs an object with submit(name, payload), not {type(runner).__name__}")

    def create() -> Tasks:
        tasks = Tasks(runtime, runner)
        if isinstance(runner, QueueRunner):
            runner.attach(tasks.run_task, tasks.shared)
        return tasks

    runtime.use_tasks(create)


class Tasks(TaskService):
    """The tasks of one server, as one of its processes sees them.

    :param runner: an object with ``submit(name, payload)`` that has tasks run elsewhere; None for threads of this process.
    """

    def __init__(self, runtime: Runtime, runner: Optional[TaskRunner] = None) -> None:
        self._runtime = runtime
        self._runner = runner
        shared = None if runtime.fleet is None else runtime.fleet.backend
        limits, name = runtime.limits, runtime.catalog.name
        backend = shared or MemoryBackend()
        self.store = TaskStore(backend, name, limits, self._make_way)
        self.changes = TaskChanges(runtime.letters, self._changed_here, self._changed_elsewhere, runtime.log)
        self._pool = TaskPool(limits)
        self._roster: Optional[TaskRoster] = None
        if shared is not None:
            assert runtime.leases is not None
            self._roster = TaskRoster(shared, runtime.leases, name, self._recover)
        self._methods = TaskMethods(runtime, self.store, self.changes, self.cancel_run, self.look_after)
        #: Guards the fields below; held for dictionary operations only.
        self._lock = new_lock()
        self._begin()
        on_fork(self, Tasks._begin)

    def _begin(self, owner: int = 0) -> None:
        self._runs: Dict[str, TaskRun] = {}
        #: Set when the present keeping thread shall end; None without a thread.
        self._ended: Optional[threading.Event] = None

    @property
    def shared(self) -> bool:
        """Whether other processes can reach the tasks."""
        return self._roster is not None

    # --- creation ---------------------------------------------------------------------------------------

    def allows(self, context: RequestContext) -> bool:
        session = context.session
        return session.can_have_tasks and (session.revision.modern or context.params.get("task") is not None)

    def takes(self, context: RequestContext, entry: Entry) -> bool:
        support, revision = entry.task_support, context.session.revision
        if context.runtime is not self._runtime or context.task_id is not None:
            return False  # a tool of a mounted server, or one that runs as a task already
        allowed = self.allows(context)
        if support == "forbidden":
            if allowed and not revision.modern:
                raise RemoteError(f"Tool {entry.name} cannot be called as a task", code=METHOD_NOT_FOUND)
            return False
        if not allowed and support == "required":
            if revision.modern:
                raise requires_extension(f"tool {entry.name}")
            if entry.function is not None or revision.task_requests:
                raise RemoteError(f"Tool {entry.name} can be called as a task only: add 'task' to the params",
                                  code=METHOD_NOT_FOUND)
        return allowed

    def create(self, context: RequestContext, entry: Entry, arguments: Dict[str, Any],
               kwargs: Optional[Dict[str, Any]] = None) -> Any:
        declared: Dict[str, Any] = {}
        if kwargs is not None and entry.function.questions and context.session.revision.modern:
            try:
                declared = ask_declared(context, entry.function, kwargs)
            except Declined as error:
                return tool_error(context, str(error))
        record, call = self._new_record(context, entry), call_of(context, entry, arguments, declared)
        if self._runner is None:
            return self._begin_here(context, entry, record, call, kwargs)
        self.store.create(record, call)
        self._hand_over(record)
        return self._created(context, record)

    def adopt(self, context: RequestContext, once: Dict[str, Any], meta: Optional[Dict[str, Any]] = None) -> Any:
        params = context.incoming.params
        entry = self._entry(params.get("name"))
        assert entry is not None, "its call is in progress"
        record = self._new_record(context, entry)
        record.once = once
        arguments = params.get("arguments")
        call = call_of(context, entry, arguments if isinstance(arguments, dict) else {}, {})
        return self._begin_here(context, entry, record, call, None, meta)

    def _begin_here(self, context: RequestContext, entry: Entry, record: TaskRecord, call: TaskCall,
                    kwargs: Optional[Dict[str, Any]], meta: Optional[Dict[str, Any]] = None) -> Any:
        record.run, record.process = 1, self._note(record.id)
        # Another process needs the call only to begin the task again.
        kept = call if self.shared and record.restartable else None
        try:
            self.store.create(record, kept, held_bytes(call, self._runtime.limits.task_bytes))
        except RemoteError:
            self._unnote(record.id)
            raise
        run = self._run_of(entry, record, call, context.session)
        run.kwargs = kwargs
        self._submit(run, record)
        return self._created(context, record, meta)

    def _created(self, context: RequestContext, record: TaskRecord, meta: Optional[Dict[str, Any]] = None) -> Any:
        self._runtime.log.log(_log, INFO, "task %s of tool %r was created", record.id, record.tool)
        revision = context.session.revision
        return codec.encode(CreateTaskResult(record.view(revision), meta), revision)

    def _entry(self, name: Any) -> Optional[Entry]:
        """Return a tool; also one of a mounted server that is down."""
        registry = self._runtime.catalog.registry
        found: Optional[Entry] = registry.get("tools", name)
        return found or registry.find_provided("tools", name)

    def _new_record(self, context: RequestContext, entry: Entry) -> TaskRecord:
        session, limits, now = context.session, self._runtime.limits, self.store.now()
        principal = context.principal
        return TaskRecord(
            id=self.store.new_id(), server=self._runtime.catalog.name, tool=entry.name,
            owner=None if principal is None else principal.key, sender=session.sender_of(context.incoming),
            revision=session.revision.name, created=now, updated=now, ttl=lifetime(context, limits.task_seconds),
            poll=limits.task_poll_seconds, restartable=entry.restartable,
            askable=session.askable)

    def _note(self, task_id: str) -> int:
        return 0 if self._roster is None else self._roster.add(task_id)

    def _unnote(self, task_id: str) -> None:
        if self._roster is not None:
            self._roster.remove(task_id)

    def _run_of(self, entry: Entry, record: TaskRecord, call: TaskCall, origin: Optional[Session]) -> TaskRun:
        run = TaskRun(self._runtime, self.store, self.changes, entry, record, call, origin)
        run.ended = self._run_ended
        return run

    def _hold(self, run: TaskRun) -> None:
        """Count a run: the lifespan stays entered, and cancellations reach it."""
        self._runtime.enter()
        with self._lock:
            self._runs[run.task_id] = run
        self._keep()

    def _run_ended(self, run: TaskRun) -> None:
        with self._lock:
            held = self._runs.pop(run.task_id, None)
        run.forget()
        self.store.budget.release(run.task_id)
        if held is None:
            return
        try:
            if self._roster is not None and not run.left:
                self._roster.remove(run.task_id)
        except BackendError as error:
            self._runtime.log.log(_log, WARNING, "the end of a task was not noted: %s", error)
        finally:
            self._runtime.leave()

    def _submit(self, run: TaskRun, record: TaskRecord) -> None:
        try:
            self._hold(run)
            placed = self._pool.submit(run)
        except BaseException:
            self._give_up(run, record)
            raise
        if not placed:
            self._give_up(run, record)
            raise RemoteError("Server busy: too many tasks are waiting; try again later", code=SERVER_BUSY)

    def _give_up(self, run: TaskRun, record: TaskRecord) -> None:
        """Forget a run that does not begin, and its task."""
        try:
            self._run_ended(run)
        finally:
            self.store.drop(record)

    def _hand_over(self, record: TaskRecord) -> None:
        assert self._runner is not None, "only tasks of a runner are handed over"
        try:
            self._runner.submit(record.tool, record.id)
        except Exception as error:
            self.store.drop(record)
            self._runtime.log.failure(_log, "the runner of tasks failed")
            raise RemoteError("Server busy: the task cannot be started; try again later", code=SERVER_BUSY) from error

    # --- running --------------------------------------------------------------------------------------------

    def run_task(self, payload: str) -> None:
        """Run a task that was handed over, on this thread."""
        self._runtime.enter()
        try:
            self._run_here(payload)
        finally:
            self._runtime.leave()

    def _run_here(self, payload: str) -> None:
        number = self._note(payload)
        record = self.store.change(payload, lambda record: self._take(record, number))
        call = None if record is None else self.store.call(payload, last=not record.restartable)
        if record is None or call is None:
            self._unnote(payload)
            _log.info("task %s is finished, cancelled, over or run elsewhere", payload)
            return
        self.changes.tell(payload)
        entry = self._entry(call.tool)
        if record.finished or entry is None:
            self._unnote(payload)
            if entry is None:
                self._end(record, f"this process has no tool {call.tool!r}")
            return
        run = self._run_of(entry, record, call, None)
        try:
            self._hold(run)
        except BaseException:
            self._run_ended(run)
            raise
        run.execute()

    def _take(self, record: TaskRecord, number: int) -> bool:
        """Have a process begin to run a task; False if it must not."""
        if record.finished or (record.process and record.process != number and self._is_alive(record.process)):
            return False
        if record.run and (not record.restartable or record.run >= _MOST_RUNS):
            record.fail(INTERNAL_ERROR, _ENDED)
            return True
        record.run, record.process, record.status, record.inputs = record.run + 1, number, WORKING, {}
        if not record.restartable:
            record.call_bytes = 0  # it is read now, and not kept
        return True

    def _is_alive(self, number: int) -> bool:
        return self._runtime.leases is None or self._runtime.leases.alive(number)

    def look_after(self, record: TaskRecord) -> TaskRecord:
        """Return the record of a task, changed if the process that ran it has ended."""
        if record.finished or not record.process or self._is_alive(record.process):
            return record
        self._recover(record.id, record.process)
        return self.store.get(record.id) or record

    def _recover(self, task_id: str, number: int) -> None:
        """Begin a task again whose process has ended, or mark it as failed."""
        again = self._runner is None
        entry: Optional[Entry] = None

        def change(record: TaskRecord) -> bool:
            nonlocal entry
            if record.finished or record.process != number:
                return False
            entry = self._entry(record.tool)
            if not record.restartable or record.run >= _MOST_RUNS or entry is None:
                record.fail(INTERNAL_ERROR, _ENDED)
                return True
            record.process = 0
            if again:
                return self._take(record, mine)
            record.status, record.inputs = WORKING, {}
            return True

        mine = self._note(task_id) if again else 0
        record = self.store.change(task_id, change)
        call = None if record is None or record.finished else self.store.call(task_id)
        if record is not None:
            self.changes.tell(task_id)
            self._runtime.log.log(_log, WARNING, "%s: task %s of tool %r is %s", _ENDED, task_id, record.tool,
                                  "begun again" if call is not None else record.status)
        if call is None or record is None:
            if again and task_id not in self._runs:
                self._unnote(task_id)
        elif not again:
            self._hand_over(record)
        elif entry is not None:
            self.store.budget.add(record, held_bytes(call, self._runtime.limits.task_bytes), 0)  # whether or not there is room
            self._submit(self._run_of(entry, record, call, None), record)

    def _end(self, record: TaskRecord, why: str) -> None:
        def fail(found: TaskRecord) -> bool:
            if found.finished or found.run != record.run:
                return False
            found.fail(INTERNAL_ERROR, why)
            return True

        if self.store.change(record.id, fail) is not None:
            self.changes.tell(record.id)

    def cancel_run(self, task_id: str, reason: str) -> None:
        """Ask the handler of a task to stop, if it runs here."""
        run = self._runs.get(task_id)
        if run is not None:
            run.cancel(reason)

    def _make_way(self, task_id: str) -> None:
        """End a task that has to go for another one."""
        run, record = self._runs.get(task_id), self.store.get(task_id)
        if record is not None and (run is None or record.finished):
            self.store.drop(record)
        elif run is not None:
            reason = "the server needed the room for another client's tasks"
            run.end_early(reason)
            run.cancel(reason)
            if self._pool.discard(run):
                self._run_ended(run)

    def _changed_here(self, task_id: str) -> None:
        self._runtime.subscriptions.publish(NEWEST.task_notification, task_id)

    def _changed_elsewhere(self, task_id: str) -> None:
        if task_id in self._runs or len(self._runtime.subscriptions):
            self._runtime.workers.spawn(lambda: self._take_note(task_id))

    def _take_note(self, task_id: str) -> None:
        """Read a task that was changed elsewhere: its run ends if it was cancelled, and listeners are told."""
        self._changed_here(task_id)
        run = self._runs.get(task_id)
        if run is None:
            return
        try:
            record = self.store.get(task_id)
        except BackendError as error:
            # The run finds it with its next change.
            self._runtime.log.log(_log, WARNING, "the change of a task was not read: %s", error)
            return
        if record is None or record.finished or record.run != run.run:
            run.cancel("the task was cancelled, or another process runs it")

    # --- the clock, and the other processes ---------------------------------------------------------------------

    def start(self) -> None:
        if self.shared:
            self._keep()

    def _keep(self) -> None:
        with self._lock:
            if self._ended is not None:
                return
            ended = self._ended = threading.Event()
        try:
            faults = FaultLog(_log, ended.wait)
            # It ends with stop(), or when there is nothing to look after; it blocks on operations of the backend.
            start_thread(lambda: faults.keep_running(lambda: self._look(ended), "tasks could not be looked after"),
                         "mcplite tasks")
        except BaseException as error:
            with self._lock:
                self._ended = None  # the next task tries again
            if not isinstance(error, TransportError):
                raise
            _log.warning("tasks are not looked after: %s", error)

    def _look(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            now = self.store.now()
            for run in list(self._runs.values()):
                if now >= run.expires:
                    run.cancel("its time is over")
            if self._roster is None:
                with self._lock:
                    if not self._runs and self._ended is ended:
                        self._ended = None
                        return
                continue
            try:
                self._roster.look()
            except (BackendError, RemoteError) as error:
                self._runtime.log.log(_log, WARNING, "the tasks of other processes are not looked after: %s", error)

    def stop(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()
        self._pool.stop()

    def close(self) -> None:
        for run in list(self._runs.values()):
            if self.shared and run.restartable:
                run.leave("the server was stopped")
            else:
                run.end_early("the server was stopped")
                run.cancel("the server was stopped")
        self.stop()

    # --- what clients see -----------------------------------------------------------------------------------------

    def answer(self, context: RequestContext) -> Any:
        if context.session.revision.modern and not context.session.can_have_tasks:
            raise requires_extension(context.method)
        return self._methods.answer(context)

    def listenable(self, wanted: Dict[str, Any], extensions: Dict[str, Any], owner: Optional[str]) -> Dict[str, List[str]]:
        named, most = wanted.get(TASK_IDS), self._runtime.limits.subscriptions
        if named is None:
            return {}
        if TASKS_EXTENSION not in extensions:
            raise requires_extension(f"params.notifications.{TASK_IDS}")
        if not isinstance(named, list) or not all(isinstance(item, str) for item in named) or len(named) > most:
            raise InvalidParams(f"params.notifications.{TASK_IDS} must be a list of at most {most} ids of tasks")
        found = ((task_id, self.store.get(task_id)) for task_id in dict.fromkeys(named))
        return {TASK_IDS: [task_id for task_id, record in found if record is not None and record.owner == owner]}

    def describe(self, task_id: str, revision: Revision) -> Optional[Dict[str, Any]]:
        try:
            record = self.store.get(task_id)
        except BackendError as error:
            _log.debug("the change of a task was not sent: %s", error)
            return None
        return None if record is None else self._methods.describe(record, revision)

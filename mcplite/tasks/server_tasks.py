"""The tasks of one server: creates them, runs them, and finds those whose process has ended.

:class:`ServerTasks` is an extension of that server, registered with the first tool that may be called as a task.
"""

import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SERVER_BUSY,
    BackendError,
    InvalidParams,
    MissingCapability,
    RemoteError,
    TransportError,
)
from ..protocol.jsonrpc import object_of
from ..revisions import NEWEST, REVISIONS, Revision
from ..rpc.deadline import undo
from ..rpc.extension import Extension, ListenKind
from ..rpc.forks import renew
from ..rpc.threads import Loop, Workers
from ..rpc.tracing import get_logger
from ..server.catalog.registry import ProvidedEntry
from ..server.functions.function import BadArguments
from ..server.handling.context import RequestContext
from ..server.handling.handler_calls import Declined, ask_declared, tool_error
from ..server.handling.session import Session
from ..server.runtime.extension_host import ServerHost
from ..server.runtime.runtime import Runtime
from ..server.server_options import TaskRunner
from ..types import codec
from ..types.lazy_dataclass import changed
from ..types.tasks import TASK_IDS, TASKS_EXTENSION, WORKING, CreateTaskResult
from . import Tasks
from .task_methods import TaskMethods
from .task_processes import TaskChanges, TaskRoster
from .task_record import Entry, TaskCall, TaskRecord, call_of, lifetime
from .task_run import TaskRun, held_bytes
from .task_store import TaskStore

__all__ = ["QueueRunner", "ServerTasks", "can_have_tasks", "requires_extension", "run_task", "enable_tasks", "tasks_of"]

_log = get_logger(__name__)
#: Seconds between two looks at the clock and at the other processes.
_LOOK_SECONDS = 1.0
#: How often a task is begun at most, if each process that runs it ends: a task that ends its own process must not end all
#: processes of the server.
_MOST_RUNS = 3
_ENDED = "the process that ran the task has ended"


def requires_extension(what: str) -> MissingCapability:
    """Return the error for a client that did not declare the extension."""
    return MissingCapability(f"{what} needs a client with the extension {TASKS_EXTENSION}, which yours did not declare",
                             data={"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})


def enable_tasks(runtime: Runtime) -> None:
    """Add tasks to a server because it gets a tool that may be called as one; do nothing if the server has tasks already.

    :raises RegistrationError: the runner of the server cannot be used, or another extension has what tasks need.
    """
    if tasks_of(runtime) is None:
        runtime.add_extension(ServerTasks(), known=True)


def tasks_of(runtime: Runtime) -> "Optional[ServerTasks]":
    """Return the tasks of a server; None without a tool that may be called as one."""
    found = runtime.extension(TASKS_EXTENSION)
    assert found is None or isinstance(found, ServerTasks), "no other extension can have the identifier"
    return found


def run_task(runtime: Runtime, payload: str) -> None:
    """Run in this process a task that the runner of a server has handed over, and return when the run is over.

    :raises LookupError: there is no tool that may be called as a task.
    """
    tasks = tasks_of(runtime)
    if tasks is None:
        raise LookupError(f"the server {runtime.catalog.name!r} has no tool with task= in this process: import the module that"
                          " registers it")
    tasks.run_task(payload)


def can_have_tasks(session: Session) -> bool:
    """Whether a client can be answered with a task: it declared the extension, or its revision has tasks of its own."""
    if session.revision.modern:
        return TASKS_EXTENSION in (session.client_capabilities.extensions or {})
    return bool(session.revision.task_requests)


class ServerTasks(Extension):
    """The tasks of one server, as one of its processes sees them: the extension of July 2026, and the capability before."""

    identifier = TASKS_EXTENSION
    reads_results = False

    def attach(self, side: ServerHost) -> None:
        runtime: Runtime = side.runtime
        given = runtime.tasks
        limits = given if isinstance(given, Tasks) else Tasks(runner=given)
        #: The limits of the tasks of this server.
        self.limits = limits = changed(limits, bytes=limits.bytes or runtime.limits.memory_bytes >> 4)
        runner: Optional[TaskRunner] = limits.runner
        self._side = side
        self._runtime = runtime
        #: Makes tasks run elsewhere; None if they run on threads of this process.
        self._runner = runner
        self.store = TaskStore(side.backend, side.name, limits, self._make_way)
        self.changes = TaskChanges(runtime.processes, self._changed_here, self._changed_elsewhere)
        self._roster: Optional[TaskRoster] = None
        if side.shared:
            self._roster = TaskRoster(runtime.processes, side.name, self._recover)
        self._methods = TaskMethods(runtime, self.store, self.changes, self.cancel_run, self.look_after)
        #: Guards the fields below; held for dictionary operations only.
        self._lock = threading.Lock()
        self._begin()
        if isinstance(runner, QueueRunner):
            runner.attach(self.run_task, self.shared)

    def let_go(self, side: Any) -> None:
        renew(self)
        self.store.budget.begin()
        self.changes.let_go()
        if self._roster is not None:
            self._roster.let_go()
        self._begin()

    def _begin(self) -> None:
        self._runs: Dict[str, TaskRun] = {}
        #: Set when the thread of :meth:`_keep` shall end; None without such a thread.
        self._ended: Optional[threading.Event] = None
        #: The threads that run tasks in this process. Requests have other threads, so that long tasks do not hold them up.
        #: Created with the first task, and again after :meth:`stop` and in a forked process.
        self._workers: Optional[Workers] = None

    # --- what is declared, listed and listened to -----------------------------------------------------------

    def declares(self, revision: Revision) -> Optional[Mapping[str, Any]]:
        return {} if revision.modern else None

    def capabilities(self, revision: Revision, identified: bool) -> Mapping[str, Any]:
        if revision.modern or not revision.task_requests:
            return {}
        return {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}, **({"list": {}} if identified else {})}}

    def methods(self) -> Mapping[str, Callable[[Dict[str, Any], Any], Any]]:
        return {method: self._answer for revision in REVISIONS for method in revision.task_requests}

    def has_method(self, method: str, revision: Revision, identified: bool) -> bool:
        # Without authentication a list would show each client the tasks of all.
        return method in revision.task_requests and (method != "tasks/list" or identified)

    def lists(self, kind: str, entry: Any, revision: Revision, declared: bool) -> Optional[Mapping[str, Any]]:
        """Leave out the tools that a client without tasks cannot call.

        A tool of a mount stays in the list of a client without tasks of an older revision: the mount starts the task, waits for
        it and returns its result.
        """
        can = declared if revision.modern else bool(revision.task_requests)
        if kind != "tools" or can or entry.task_support != "required":
            return {}
        return None if revision.modern or type(entry) is not ProvidedEntry else {}

    def listens(self) -> Sequence[ListenKind]:
        return [ListenKind(TASK_IDS, NEWEST.task_notification, self._honour, self.describe)]

    @property
    def shared(self) -> bool:
        """Whether other processes can reach the tasks."""
        return self._roster is not None

    # --- creation ---------------------------------------------------------------------------------------

    def handle_tool(self, context: RequestContext, entry: Any, proceed: Callable[[], Any]) -> Any:
        # A mount decides which of its calls become tasks. If this server is mounted in another server of this process, the
        # parent server decides about the calls that it passes on.
        if type(entry) is ProvidedEntry or context.session.runtime is not self._runtime or not self.takes(context, entry):
            return proceed()
        arguments = object_of(context.params.get("arguments"))
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams("params.arguments must be an object")
        try:
            kwargs = context.bind(entry.function, arguments or {})
        except BadArguments as error:
            text = f"Invalid arguments for tool {entry.name}: {'; '.join(error.problems)}"
            if not context.session.revision.modern:
                raise InvalidParams(text) from error
            return tool_error(context, text)
        return self.create(context, entry, arguments or {}, kwargs)

    def allows(self, context: RequestContext) -> bool:
        """Whether the client of a call asks for a task, or, from July 2026 on, can have one."""
        session = context.session
        return can_have_tasks(session) and (session.revision.modern or context.params.get("task") is not None)

    def takes(self, context: RequestContext, entry: Entry) -> bool:
        """Whether a call of a tool becomes a task.

        :raises RemoteError: the tool runs as a task only, and the client cannot have tasks or has not asked for one; or the
            tool does not run as a task, and the client asks for one.
        """
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
        """Make a call a task, and return the encoded result that says so.

        :param arguments: as the client gave them.
        :param kwargs: the arguments of the function; None for a tool of a provider.
        """
        declared: Dict[str, Any] = {}
        if kwargs is not None and entry.function.questions and context.session.revision.modern:
            try:
                declared = ask_declared(context, entry.function, kwargs)
            except Declined as error:
                return tool_error(context, str(error))
        record, call = self._new_record(context, entry), call_of(context, entry, arguments, declared)
        if self._runner is None:
            return self._begin_here(context, entry, record, call, kwargs)
        self._runtime.processes.check()
        with self._runtime.processes.refuse_while_away():
            self.store.create(record, call)
        self._hand_over(record)
        return self._created(context, record)

    def adopt(self, context: RequestContext, once: Dict[str, Any], meta: Optional[Dict[str, Any]] = None) -> Any:
        """Make a call of a provider's tool a task after it has begun, and return the encoded result that says so.

        The provider runs the call again in this process, as the task.

        :param once: the results of ``ctx.once`` that the run of the task finds.
        :param meta: the ``_meta`` of the result.
        """
        # If a tool of this server has passed the call on to another tool of this server, the params of the context name the
        # tool that runs. In a mounted server they have the names of that server; then the request has the name of this one.
        params = context.params if context.runtime is self._runtime else context.incoming.params
        entry = self._entry(params.get("name"))
        assert entry is not None, "its call is in progress"
        record = self._new_record(context, entry)
        record.once = once
        arguments = params.get("arguments")
        call = call_of(context, entry, arguments if isinstance(arguments, dict) else {}, {})
        return self._begin_here(context, entry, record, call, None, meta)

    def _begin_here(self, context: RequestContext, entry: Entry, record: TaskRecord, call: TaskCall,
                    kwargs: Optional[Dict[str, Any]], meta: Optional[Dict[str, Any]] = None) -> Any:
        # Another process needs the call only to begin the task again.
        kept = call if self.shared and record.restartable else None
        self._runtime.processes.check()
        with self._runtime.processes.refuse_while_away():
            record.run, record.process = 1, self._note(record.id)
            with undo(lambda: self._unnote(record.id)):
                self.store.create(record, kept, held_bytes(call, self.store.most_bytes))
        run = self._run_of(entry, record, call, context.session)
        run.kwargs = kwargs
        self._submit(run, lambda: self._give_up(run, record))
        return self._created(context, record, meta)

    def _created(self, context: RequestContext, record: TaskRecord, meta: Optional[Dict[str, Any]] = None) -> Any:
        _log.info("task %s of tool %r was created", record.id, record.tool)
        # A call that is cancelled before its answer gets no answer, so that the client does not learn the id of the task and
        # cannot cancel it. A worker ends the task: the store may block, and this may be the thread that reads messages.
        context.token.add_callback(lambda: self._runtime.workers.spawn(
            lambda: self._methods.cancel(record.id, "The call was cancelled before it was answered")))
        revision = context.session.revision
        return codec.encode(CreateTaskResult(record.view(revision), meta), revision)

    def _entry(self, name: Any) -> Optional[Entry]:
        """Return a tool by its name, also a tool of a mounted server that is down; None if there is none."""
        registry = self._runtime.catalog.registry
        found: Optional[Entry] = registry.get("tools", name)
        return found or registry.find_provided("tools", name)

    def _new_record(self, context: RequestContext, entry: Entry) -> TaskRecord:
        session, now = context.session, self.store.now()
        principal = context.principal
        return TaskRecord(
            id=self.store.new_id(), server=self._runtime.catalog.name, tool=entry.name,
            owner=None if principal is None else principal.key, sender=session.sender_of(context.incoming),
            revision=session.revision.name, created=now, updated=now, ttl=lifetime(context, self.limits.keep),
            poll=self.limits.poll, restartable=entry.restartable,
            askable=session.askable)

    def _note(self, task_id: str) -> int:
        return 0 if self._roster is None else self._roster.add(task_id)

    def _unnote(self, task_id: str) -> None:
        if self._roster is not None:
            self._roster.remove(task_id)

    def _run_of(self, entry: Entry, record: TaskRecord, call: TaskCall, origin: Optional[Session]) -> TaskRun:
        return TaskRun(self._runtime, self.store, self.changes, entry, record, call, origin, self._run_ended)

    def _hold(self, run: TaskRun) -> None:
        """Register a run: until the run is over, the lifespan stays entered, and cancellations reach the run."""
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
            _log.warning("the end of a task was not noted: %s", error)
        finally:
            self._runtime.leave()

    def _submit(self, run: TaskRun, give_up: Callable[[], object]) -> None:
        with undo(give_up):
            self._hold(run)
            with self._lock:
                if self._workers is None:
                    self._workers = Workers(self.limits.running, self.limits.queued, "mcplite task")
                workers = self._workers
            run.release_slot = workers.suspended
            accepted = workers.enqueue(run)
        if not accepted:
            give_up()
            raise RemoteError("Server busy: too many tasks are waiting; try again later", code=SERVER_BUSY)

    def _give_up(self, run: TaskRun, record: TaskRecord) -> None:
        """Forget a run that does not begin, and remove its task from the store."""
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
            _log.exception("the runner of tasks failed")
            raise RemoteError("Server busy: the task cannot be started; try again later", code=SERVER_BUSY) from error

    # --- running --------------------------------------------------------------------------------------------

    def run_task(self, payload: str) -> None:
        """Run a task that the runner has handed over, on the thread of the caller."""
        self._runtime.enter()
        try:
            self._run_here(payload)
        finally:
            self._runtime.leave()

    def _run_here(self, payload: str) -> None:
        run, _ = self._take_up(payload, self._take)
        if run is None:
            _log.info("task %s is finished, cancelled, over or run elsewhere", payload)
            return
        with undo(lambda: self._run_ended(run)):
            self._hold(run)
        run.execute()

    def _take_up(self, task_id: str, take: Callable[[TaskRecord, int], bool]
                 ) -> Tuple[Optional[TaskRun], Optional[TaskRecord]]:
        """Have this process run a stored task.

        :param take: notes in the record that the process of a number runs the task, or that the task has failed; returns False
            if it has changed nothing.
        :returns: the run, or None if this process must not run the task; and the record, or None if it was not changed.
        """
        number = self._note(task_id)
        record = self.store.change(task_id, lambda record: take(record, number))
        call = None if record is None or record.finished else self.store.call(task_id, last=not record.restartable)
        entry = None if call is None else self._entry(call.tool)
        if record is not None:
            self.changes.tell(task_id)
        if record is not None and call is not None and entry is not None:
            return self._run_of(entry, record, call, None), record
        if task_id not in self._runs:
            self._unnote(task_id)
        if record is not None and call is not None:
            self._end(record, f"this process has no tool {call.tool!r}")
        return None, record

    def _take(self, record: TaskRecord, number: int) -> bool:
        """Note in a record that a process begins to run the task, or that the task has failed.

        The task fails if the process that ran it has ended and it must not be begun again. Return False, and change nothing, if
        the task is finished, or another process that is alive runs it.
        """
        if record.finished or (record.process and record.process != number and self._runtime.processes.alive(record.process)):
            return False
        if record.run:
            self._release(record)
            if record.finished:
                return True
        record.run, record.process, record.status, record.inputs = record.run + 1, number, WORKING, {}
        if not record.restartable:
            record.call_bytes = 0  # _take_up() reads the stored call and removes it
        return True

    def look_after(self, record: TaskRecord) -> TaskRecord:
        """Return the record of a task, changed if the process that ran it has ended."""
        if record.finished or not record.process or self._runtime.processes.alive(record.process):
            return record
        self._recover(record.id, record.process)
        return self.store.get(record.id) or record

    def _recover(self, task_id: str, number: int) -> None:
        """Begin a task again whose process has ended, or mark it as failed; with a runner, hand it over again.

        :param number: of the process that has ended.
        """
        run: Optional[TaskRun] = None
        if self._runner is None:
            run, record = self._take_up(task_id, lambda record, mine: record.process == number and self._take(record, mine))
        else:
            record = self.store.change(task_id, lambda record: record.process == number and self._release(record))
        if record is None:
            return
        _log.warning("%s: task %s of tool %r is %s", _ENDED, task_id, record.tool, "begun again" if run else record.status)
        if run is not None:
            # The run begins even if the budget refuses to count it: the task was accepted before.
            self.store.budget.add(record, held_bytes(run.call, self.store.most_bytes), 0)
            self._submit(run, run.refuse)  # its client knows it, so that it must not disappear
        elif self._runner is not None:
            self.changes.tell(task_id)
            if not record.finished:
                self._hand_over(record)

    def _release(self, record: TaskRecord) -> bool:
        """Note in a record that no process runs the task, since its process has ended.

        If the task must not be begun again, it fails. Return False, and change nothing, if the task is finished.
        """
        if record.finished:
            return False
        record.process = 0
        if record.restartable and record.run < _MOST_RUNS:
            record.status, record.inputs = WORKING, {}
        else:
            record.fail(INTERNAL_ERROR, _ENDED)
        return True

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
        """End a task that is evicted to make space for another one."""
        run, record = self._runs.get(task_id), self.store.get(task_id)
        if record is not None and (run is None or record.finished):
            self.store.drop(record)
        elif run is not None:
            reason = "the server needed the room for another client's tasks"
            run.end_early(reason)
            run.cancel(reason)
            workers = self._workers
            if workers is not None and workers.discard(run):
                self._run_ended(run)

    def _changed_here(self, task_id: str) -> None:
        self._runtime.subscriptions.publish(NEWEST.task_notification, task_id)

    def _changed_elsewhere(self, task_id: str) -> None:
        if task_id in self._runs or len(self._runtime.subscriptions):
            self._runtime.workers.spawn(lambda: self._take_note(task_id))

    def _take_note(self, task_id: str) -> None:
        """Handle the change of a task that another process has made.

        Clients that listen are sent the change. If the task was cancelled, has ended or was begun again, its run here is
        cancelled.
        """
        self._changed_here(task_id)
        run = self._runs.get(task_id)
        if run is None:
            return
        try:
            record = self.store.get(task_id)
        except BackendError as error:
            # The run notices the change when it next changes the record.
            _log.warning("the change of a task was not read: %s", error)
            return
        if record is None or record.finished or record.run != run.number:
            run.cancel("the task was cancelled, or another process runs it")

    # --- the clock, and the other processes ---------------------------------------------------------------------

    def start(self, side: Any) -> None:
        if self.shared:
            self._keep()

    def _keep(self) -> None:
        with self._lock:
            if self._ended is not None:
                return
            ended = self._ended = threading.Event()
        try:
            with undo(self._not_kept):
                # The thread ends with stop(). If the backend is not shared, it also ends when no task runs here. It blocks on
                # operations of the backend.
                Loop("watch over tasks", lambda: self._look(ended), ended.wait).start()
        except TransportError as error:
            _log.warning("tasks are not looked after: %s", error)

    def _not_kept(self) -> None:
        with self._lock:
            self._ended = None  # the next task tries again

    def _look(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            now = self.store.now()
            for run in list(self._runs.values()):
                if now >= run.expires:
                    run.cancel("its time is over")
                else:
                    run.store_text()
            if self._roster is None:
                with self._lock:
                    if not self._runs and self._ended is ended:
                        self._ended = None
                        return
                continue
            try:
                self._roster.look()
            except (BackendError, RemoteError) as error:
                _log.warning("the tasks of other processes are not looked after: %s", error)

    def stop(self, side: Any) -> None:
        with self._lock:
            ended, self._ended = self._ended, None
            workers, self._workers = self._workers, None
        if ended is not None:
            ended.set()
        if workers is not None:
            workers.stop()  # the threads that are idle end, and the others after their tasks

    def close(self, side: Any) -> None:
        for run in list(self._runs.values()):
            if self.shared and run.restartable:
                run.leave("the server was stopped")
            else:
                run.end_early("the server was stopped")
                run.cancel("the server was stopped")
        self.stop(side)

    # --- what clients see -----------------------------------------------------------------------------------------

    def _answer(self, params: Dict[str, Any], context: RequestContext) -> Any:
        if context.session.revision.modern and not can_have_tasks(context.session):
            raise requires_extension(context.method)
        self._runtime.processes.check()
        with self._runtime.processes.refuse_while_away():
            return self._methods.answer(context)

    def _honour(self, named: Any, extensions: Mapping[str, Any], owner: Optional[str]) -> List[str]:
        most = self._runtime.limits.subscriptions
        if TASKS_EXTENSION not in extensions:
            raise requires_extension(f"params.notifications.{TASK_IDS}")
        if not isinstance(named, list) or not all(isinstance(item, str) for item in named) or len(named) > most:
            raise InvalidParams(f"params.notifications.{TASK_IDS} must be a list of at most {most} ids of tasks")
        found = ((task_id, self.store.get(task_id)) for task_id in dict.fromkeys(named))
        return [task_id for task_id, record in found if record is not None and record.owner == owner]

    def describe(self, task_id: Optional[str], revision: Revision) -> Optional[Dict[str, Any]]:
        """Return a task, encoded, as it is now; None if it is gone, or cannot be read."""
        try:
            record = self.store.get(task_id)
        except BackendError as error:
            _log.debug("the change of a task was not sent: %s", error)
            return None
        return None if record is None else self._methods.describe(record, revision)


class QueueRunner(TaskRunner):
    """The base of the runners of this package: the server gives them the function that runs a task."""

    def submit(self, name: str, payload: str) -> object:
        raise NotImplementedError

    def attach(self, run: Callable[[str], None], shared: bool) -> None:
        """Called once by the server.

        :param run: runs the task of a payload; it is :meth:`Server.run_task`.
        :param shared: whether other processes can reach the server's backend.
        """

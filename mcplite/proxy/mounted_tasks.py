"""PassedTasks: calls of a mounted client's tools that become tasks there, which are tasks of the parent server for its clients.

A task of the parent server follows the task of the mounted server on a thread, and keeps the id of that task in its own record.
Status, questions, result and cancellation pass in any pair of revisions. The lifetime and the principal are those of the parent
server, and if its process ends, another process of it follows the task.
"""

import contextlib
import threading
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from ..client.call import Call
from ..errors import Cancelled, InputNeeded, InternalError, MCPError, MissingCapability, RequestTimeout, TransportError
from ..revisions import TASKS_EXTENSION, Revision
from ..rpc.cancel import CancelToken
from ..rpc.deadline import undo
from ..rpc.tracing import INFO, get_logger
from ..server.catalog.registry import ProvidedEntry
from ..server.handling.context import Context, RequestContext
from ..tasks.client_tasks import tasks_of_client
from ..tasks.task_follower import TaskFollower
from ..tasks.task_run import TaskContext, TaskRun
from ..types import Progress
from ..types.tasks import IMMEDIATE_RESPONSE
from .client_connections import UpstreamPool, pass_call
from .forwarded_calls import OWN, RelayedCall, Upstream, answers_to, pass_over
from .mount import tasks_of

__all__ = ["PassedTasks"]

_log = get_logger(__name__)
#: The keys of ``ctx.once`` in the record of a task of the parent server: whether its call was sent, and which task it became.
_SENT, _THERE = "mcplite call sent", "mcplite task there"
#: Seconds between the attempts to reach a server whose task is followed.
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: Seconds for the answer of a server to a call that asks for a task, once the call is cancelled.
_ANSWER_SECONDS = 5.0
#: If the server decides whether a call becomes a task: seconds from the start of the call in which that answer may arrive.
_DECISION_SECONDS = 1.0
Passed = Tuple[Any, Optional[Revision]]


@contextlib.contextmanager
def _later(token: CancelToken, decides: bool) -> Iterator[CancelToken]:
    """Return a token that is cancelled with *token*, but only when the answer of a server that makes a task had time to come.

    Such a server answers at once, and only the answer has the id by which the task can be cancelled.

    :param decides: whether the server decides if the call becomes a task; a call that does not become one may run for long.
    """
    later, begun = CancelToken(), time.monotonic()

    def cancel() -> None:
        timer.interval = max(0.0, begun + _DECISION_SECONDS - time.monotonic()) if decides else _ANSWER_SECONDS
        timer.start()

    # Its thread is begun by the one that cancels, ends with the block, and blocks on nothing.
    timer = threading.Timer(0.0, lambda: later.cancel(token.reason))
    timer.daemon = True
    remove = token.add_callback(cancel)
    try:
        yield later
    finally:
        remove()
        timer.cancel()


class PassedTasks:
    """The tasks at one mounted server.

    :param pool: the connections to it.
    :param doubt: called when a connection failed.
    """

    def __init__(self, pool: UpstreamPool, doubt: Callable[[], object]) -> None:
        self._pool = pool
        self._doubt = doubt
        #: By the ids that the mounted server gave: the tasks that a request has started, until their runs follow them. Without
        #: a lock: each change is one step in C.
        self._started: Dict[str, Tuple[Upstream, TaskFollower]] = {}

    def let_go(self) -> None:
        """Forget, in a forked process, the tasks that the first process follows."""
        self._started = {}

    def call(self, entry: ProvidedEntry, context: RequestContext, params: Dict[str, Any],
             create: Callable[[ProvidedEntry, RequestContext], Any]) -> Passed:
        """Call a tool that may run as a task there; return the result and its revision, None for a task of the parent server.

        :param params: with the mounted server's own names.
        :param create: makes the call a task of the parent server before it is sent; returns None if the client asks for none.
        """
        tasks = tasks_of(context.session.runtime)
        if isinstance(context, TaskContext):
            return self._run(entry, context, context.run, params)
        if tasks is None:
            return pass_call(self._pool, context, params)
        if entry.decides_tasks and not context.session.revision.modern:
            # The mounted server says late whether the call becomes a task, and the client wants one at once.
            created = create(entry, context)
            return (created, None) if created is not None else self._wait_if_needed(entry, context, params)
        if tasks.allows(context) if entry.decides_tasks else tasks.takes(context, entry):
            return self._start_for(tasks, entry, context, params)
        if entry.decides_tasks or entry.task_support != "required":
            return pass_call(self._pool, context, params)
        return self._wait(entry, context, params)

    # --- a request of a client ----------------------------------------------------------------------------

    def _wait_if_needed(self, entry: ProvidedEntry, context: RequestContext, params: Dict[str, Any]) -> Passed:
        try:
            return pass_call(self._pool, context, dict(params))
        except MissingCapability as error:
            needed = (error.data or {}).get("requiredCapabilities") or {}
            if TASKS_EXTENSION not in (needed.get("extensions") or {}):
                raise
        return self._wait(entry, context, params)

    def _wait(self, entry: ProvidedEntry, context: RequestContext, params: Dict[str, Any]) -> Passed:
        """Call a tool that its server runs as a task only, and wait: the client can have none."""
        call = RelayedCall(context)
        with self._pool.lease(call) as upstream:
            return self._follow(upstream, call, self._start(upstream, call, params, entry), None), upstream.client.revision

    def _start_for(self, tasks: Any, entry: ProvidedEntry, context: RequestContext, params: Dict[str, Any]) -> Passed:
        call = RelayedCall(context)
        with self._pool.lease(call) as upstream:
            follower = self._start(upstream, call, params, entry)
            if not follower.id:
                return follower.fetch(), upstream.client.revision
            if context.cancelled:
                follower.abandon()
                context.check_cancelled()
            upstream.hold()
            self._started[follower.id] = upstream, follower
            said = follower.immediate_response
            with undo(lambda: self._abandon(follower, upstream)):
                return tasks.adopt(context, {_THERE: follower.id}, None if said is None else {IMMEDIATE_RESPONSE: said}), None

    def _abandon(self, follower: TaskFollower, upstream: Upstream) -> None:
        if self._started.pop(follower.id, None) is not None:
            follower.abandon()
            upstream.release()

    def _start(self, upstream: Upstream, call: RelayedCall, params: Dict[str, Any], entry: ProvidedEntry) -> TaskFollower:
        """Call a tool so that it becomes a task there; the follower has no id if it did not."""
        context, client = call.context, upstream.client
        if entry.decides_tasks:
            with _later(context.token, True) as token:
                answer = pass_over(upstream, call, params, token)
            return tasks_of_client(client).follow_task(answer)
        meta = {key: value for key, value in context.meta.items() if not key.startswith(OWN)}
        wanted = context.incoming.params.get("task")
        params = {**params, "task": wanted if isinstance(wanted, dict) else {}, **({"_meta": meta} if meta else {})}
        with _later(context.token, False) as token:
            return tasks_of_client(client).send_as_task(Call("tools/call", params, cancel=token, rounds=False, fresh=True))

    # --- a task of the parent server --------------------------------------------------------------------------------

    def _run(self, entry: ProvidedEntry, context: TaskContext, run: TaskRun, params: Dict[str, Any]) -> Passed:
        known, call = context.once_results, RelayedCall(context)
        task_id: Optional[str] = known.get(_THERE)
        if task_id is None:
            if _SENT in known:
                raise InternalError("the process that ran the task has ended while the mounted server was called")
            context.once(_SENT, lambda: True)
            with self._pool.lease(call) as upstream:
                follower = self._start(upstream, call, params, entry)
                if not follower.id:
                    return follower.fetch(), upstream.client.revision
                task_id = follower.id
                try:
                    context.once(_THERE, lambda: follower.id)
                except Cancelled:
                    if run.over:  # cancelled while the mounted server started its task
                        follower.abandon()
                    raise
                try:
                    return self._follow(upstream, call, follower, run), upstream.client.revision
                except (TransportError, RequestTimeout) as error:
                    self._note_failure(task_id, error)
            return self._resume(task_id, call, run)
        started = self._started.pop(task_id, None)
        if started is not None:
            upstream, follower = started
            upstream.handlers.add(call)
            try:
                return self._follow(upstream, call, follower, run), upstream.client.revision
            except (TransportError, RequestTimeout) as error:
                self._note_failure(task_id, error)
            finally:
                upstream.handlers.remove(call)
                upstream.release()
        return self._resume(task_id, call, run)

    def _resume(self, task_id: str, call: RelayedCall, run: TaskRun) -> Passed:
        """Follow a task that another process, or a connection that was lost, has started."""
        for pause in (*_PAUSES, None):
            try:
                with self._pool.lease(call) as upstream:
                    follower = tasks_of_client(upstream.client).follow_task(task_id)
                    return self._follow(upstream, call, follower, run), upstream.client.revision
            except (TransportError, RequestTimeout) as error:
                if pause is None:
                    raise
                self._note_failure(task_id, error)
            with run.suspended():
                call.context.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _note_failure(self, task_id: str, error: MCPError) -> None:
        self._doubt()
        _log.log(INFO, "the task %.100r of a mounted server is followed again: %s", task_id, error)

    def _follow(self, upstream: Upstream, call: RelayedCall, follower: TaskFollower, run: Optional[TaskRun]
                ) -> Dict[str, Any]:
        """Wait for a task there, and return its result; its questions go to the client.

        :param run: of the task of the parent server; None for an ordinary call, which waits.
        """
        context = call.context
        call.task = follower.id

        def report(progress: Progress) -> None:
            if not context.cancelled:
                # The method of TaskContext would set the status message, and the mounted server sets its own: so call that of
                # Context.
                Context.report_progress(context, progress.progress, progress.total, progress.message)

        follower.report_to(report, context.task_status)
        try:
            while True:
                try:
                    self._wait_for(follower, context, run)
                    return follower.fetch(context.token)
                except InputNeeded as needed:
                    follower.update(answers_to(context, needed.requests, upstream.client.revision))
        except Cancelled:
            if context.cancelled:
                # A task that another process continues is left alone.
                if run is None or run.over:
                    follower.abandon()
            elif run is not None:
                run.end_cancelled(follower.view.state.status_message)
            raise

    @staticmethod
    def _wait_for(follower: TaskFollower, context: RequestContext, run: Optional[TaskRun]) -> None:
        if run is None:
            follower.follow(lambda state: state.finished, cancel=context.token)
            return
        with run.suspended():
            follower.follow(lambda state: state.finished, cancel=context.token)

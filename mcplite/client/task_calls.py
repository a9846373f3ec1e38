"""TaskCalls: the calls of a client about tasks: calls of tools that became one, the handles of tasks, their list.

:class:`~.calls.Features` inherits it. What follows a task is loaded with the first one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from ..errors import InputNeeded, NotSupported, ProtocolError, RemoteError, RequestTimeout, TransportError
from ..rpc.cancel import CancelToken
from ..types import CallToolResult
from .call import DEFAULT, Call, FeatureSession, OnProgress, RequestOptions, time_limits
from .request_base import Requests

if TYPE_CHECKING:
    from ..types.tasks import CreateTaskResult
    from .tasks.task import Task
    from .tasks.task_poller import TaskFollower
    from .tasks.task_state import TaskView

__all__ = ["TaskCalls"]


class TaskCalls(Requests):
    """The calls of a client about tasks."""

    @abstractmethod
    def _tool_result(self, answer: Dict[str, Any], session: FeatureSession, name: Optional[str]) -> CallToolResult:
        """Return the result of a tool, decoded and checked.

        :param name: of the tool; None if it is not known.
        """

    def task(self, id: str, *, timeout: Optional[float] = DEFAULT, on_progress: Optional[OnProgress] = None) -> "Task":
        """Return the handle of a task by its id; this process, or another one, may have started it.

        :param id: from :attr:`Task.id`, or from the ``task_id`` of an error.
        :param timeout: seconds for the request for its status; by default the client's.
        :param on_progress: called with each status message and progress report, on the thread that waits for the task.
        :raises InvalidParams: the server does not know the task: it is not one of this user, or was not kept so long.
        :raises NotSupported: the server did not declare tasks; nothing was sent.
        """
        from ..types.tasks import DetailedTask
        from .tasks.task_poller import read_state
        from .tasks.task_state import TaskView

        session, options = self._require_tasks(RequestOptions(timeout), "tasks/get")
        answer = self._request(session, "tasks/get", {"taskId": id}, options)
        state: DetailedTask = read_state(answer, session)
        return self._task_handle(self._follower(TaskView(state), on_progress, True))

    def list_tasks(self, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None) -> List["Task"]:
        """Return the handles of all tasks that this user has at the server, from all pages.

        Only the revision of November 2025 has such a list, and a server need not offer it: keep the ids of tasks.

        :param timeout, max_timeout, cancel: as for :meth:`request`.
        :raises NotSupported: the revision has no list of tasks, or the server did not declare one; nothing was sent.
        """
        from .tasks.task_state import TaskView

        _, options = self._require_tasks(RequestOptions(timeout, max_timeout, cancel), "tasks/list", "list")
        states = self._walk(self._tasks_page, "tasks", options)
        return [self._task_handle(self._follower(TaskView(state), None, True)) for state in states]

    def _tasks_page(self, cursor: Optional[str], options: RequestOptions) -> Any:
        from ..types.tasks import ListTasksResult

        session, options = self._session_for(options)
        return self._page(session, "tasks/list", ListTasksResult, cursor, options)

    def _require_tasks(self, options: RequestOptions, method: str, flag: Optional[str] = None
                       ) -> Tuple[FeatureSession, RequestOptions]:
        session, options = self._session_for(options)
        if method not in session.revision.task_requests:
            others = ("; keep the ids of your tasks, and take each up with client.task(id)" if session.revision.task_requests
                      else "")
            raise NotSupported(f"{method!r} is not part of {session.revision}, which was agreed on with {session.name}{others}")
        if not session.has_tasks or flag is not None and (session.capabilities.tasks or {}).get(flag) is None:
            name = "tasks" if flag is None else f"tasks.{flag}"
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent")
        return session, options

    # --- calls that are tasks -----------------------------------------------------------------------------

    def follow_task(self, known: "Union[str, Dict[str, Any]]") -> "TaskFollower":
        """Return the follower of a task that is passed on: its questions are left to the caller, as ``InputNeeded``.

        :param known: its id, or the result of a call that says that the call became a task.
        :raises MCPError: the server cannot be asked for it, or does not know it.
        """
        from .tasks.task_poller import read_state
        from .tasks.task_state import TaskView

        if not isinstance(known, str):
            session, options = self._session_for(RequestOptions(rounds=False))
            return self._follow_answer(known, session, TaskView(), options)
        session, options = self._require_tasks(RequestOptions(), "tasks/get")
        answer = self._request(session, "tasks/get", {"taskId": known}, options)
        return self._follower(TaskView(read_state(answer, session)), None, False)

    def send_as_task(self, call: Call) -> "TaskFollower":
        """Send a call of a tool that was made elsewhere and asks for a task, and return the follower of that task.

        Its reports of progress go to the follower, if it has a progress token.
        """
        from .tasks.task_state import TaskView

        limits = RequestOptions(call.timeout, call.max_timeout, call.cancel, spent=call.spent)
        session, limits = self._session_for(limits)
        call, view, params = call._replace(spent=limits.spent), TaskView(), dict(call.params or {})
        meta = params.get("_meta") or {}
        if "progressToken" in meta:
            params["_meta"] = {**meta, "progressToken": session.expect_progress(view)}
        return self._follow_answer(self.send(call._replace(params=params)), session, view, RequestOptions(rounds=False))

    def _start_task(self, session: FeatureSession, params: Dict[str, Any], options: RequestOptions,
                    ttl: Optional[float] = None) -> "TaskFollower":
        """Call a tool as a task, where the call says so, and return the follower of that task.

        :param ttl: for how many seconds to keep it; None leaves that to the server.
        """
        from .tasks.task_state import TaskView

        view = TaskView()
        params = {**params, "task": {} if ttl is None else {"ttl": round(ttl * 1000)}}
        if options.on_progress is not None:
            params["_meta"] = {"progressToken": session.expect_progress(view)}
        answer = self._request(session, "tools/call", params, options._replace(on_progress=None))
        return self._follow_answer(answer, session, view, options)

    def _follow_answer(self, answer: Dict[str, Any], session: FeatureSession, view: "TaskView", options: RequestOptions
                       ) -> "TaskFollower":
        """Return the follower of the task that a call became, or of one that is done if it did not become a task."""
        from ..types.tasks import COMPLETED, IMMEDIATE_RESPONSE, CreateTaskResult, DetailedTask

        created: "Optional[CreateTaskResult]" = None
        if CreateTaskResult.describes(answer):
            created = self._read(CreateTaskResult, answer, session, "tools/call")
        view.put(DetailedTask("", COMPLETED, "", "", result=answer) if created is None else created.task)
        follower = self._follower(view, options.on_progress, options.rounds)
        immediate = None if created is None else (created.meta or {}).get(IMMEDIATE_RESPONSE)
        follower.immediate_response = immediate if isinstance(immediate, str) else None
        return follower

    def _follower(self, view: "TaskView", on_progress: Optional[OnProgress], rounds: bool) -> "TaskFollower":
        from .tasks.task_poller import TaskFollower

        def send(session: FeatureSession, method: str, params: Dict[str, Any], *, timeout: Optional[float] = DEFAULT,
                 max_timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None) -> Dict[str, Any]:
            return self._request(session, method, params, RequestOptions(timeout, max_timeout, cancel))

        def current(within: Optional[float] = None, cancel: Optional[CancelToken] = None) -> FeatureSession:
            limits = RequestOptions(max_timeout=DEFAULT if within is None else max(within, 0.001), cancel=cancel)
            return self._session_for(limits)[0]

        return TaskFollower(view, send, current, on_progress, rounds)

    def _task_handle(self, follower: "TaskFollower", name: Optional[str] = None) -> "Task":
        from .tasks.task import Task

        return Task(follower, follower.current, lambda answer, session: self._tool_result(answer, session, name))

    def _result_of_task(self, answer: Dict[str, Any], session: FeatureSession, options: RequestOptions) -> Dict[str, Any]:
        """Return the result of a call that the server may have answered with a task, which is then waited for."""
        from ..types.tasks import CreateTaskResult
        from .tasks.task_state import TaskView

        if not session.revision.task_requests or not CreateTaskResult.describes(answer):
            return answer
        return self._finish_task(self._follow_answer(answer, session, TaskView(), options), session, options)

    def _finish_task(self, follower: "TaskFollower", session: FeatureSession, options: RequestOptions) -> Dict[str, Any]:
        """Wait for a task as ``call_tool`` does, and return its result; the task is cancelled if the caller leaves before.

        A timeout that the caller gave is about the task; that of the client is about each request for its status.
        """
        seconds, most = time_limits(options.timeout, options.max_timeout, (self._timeout, self._max_timeout))
        silence = None if options.timeout is DEFAULT else seconds
        left = None if most is None else most - options.spent
        try:
            if not follower.follow(lambda state: state.finished, silence=silence, within=left, cancel=options.cancel):
                limits = [f"{limit:g} s {what}" for limit, what in ((silence, "without progress (timeout)"),
                                                                    (most, "in all (max_timeout)")) if limit is not None]
                raise RequestTimeout(f"{session.name} did not finish the task {follower.id!r} within {' or '.join(limits)};"
                                     " it was cancelled")
        except (InputNeeded, TransportError):
            raise  # the task goes on, and the error has its id
        except BaseException as error:
            if not (isinstance(error, RemoteError) and error.received):
                follower.abandon()
            if isinstance(error, (RequestTimeout, ProtocolError)):
                error.task_id = follower.id
            raise
        return follower.fetch(options.cancel)

"""The tasks that one client has started at its server: calls that became one, the handles of tasks, their list.

A client loads it when its server declares tasks, or with the first call about one. It is an extension of that client, which
keeps of the listed tools which of them run as tasks.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ..client.call import DEFAULT, Call, OnProgress, RequestOptions, time_limits
from ..client.calls import Features, ToolCall
from ..client.output_schemas import Listed
from ..client.sessions.base import ClientSession
from ..errors import InputNeeded, NotSupported, ProtocolError, RemoteError, RequestTimeout, TransportError
from ..revisions import TASKS_EXTENSION, Revision
from ..rpc.extension import Extension
from ..types import Tool
from ..types.tasks import COMPLETED, IMMEDIATE_RESPONSE, CreateTaskResult, DetailedTask, ListTasksResult, runs_tool_tasks
from .task_follower import Task, TaskFollower, read_state
from .task_view import TaskView, tasks_of_session

__all__ = ["ClientTasks", "has_tasks", "tasks_of_client"]


def tasks_of_client(client: Features) -> "ClientTasks":
    """Return the tasks of a client, which has them from now on."""
    found = client.use_extension(TASKS_EXTENSION, lambda: ClientTasks(client))
    assert isinstance(found, ClientTasks), "no other extension can have the identifier"
    return found


def has_tasks(session: ClientSession) -> bool:
    """Whether the server runs tools as tasks."""
    return runs_tool_tasks(session.capabilities, session.revision)


def asks_for_tasks(session: ClientSession) -> bool:
    """Whether the server runs a tool as a task when the call asks for it. In modern revisions the server decides (TSK-05)."""
    return not session.revision.modern and has_tasks(session)


class ClientTasks(Extension):
    """The tasks of one client.

    :param client: sends the requests about them.
    """

    identifier = TASKS_EXTENSION

    def __init__(self, client: Features) -> None:
        self._client = client
        #: Which of the listed tools say "required" or "optional", in November 2025, where the client decides on it.
        self._support: Listed[str] = Listed()
        #: How often the list had changed when the whole of it was read.
        self._read_at = -1

    def declares(self, revision: Revision) -> Optional[Dict[str, Any]]:
        return None  # the client declares them, whether they are loaded or not

    # --- which tools run as tasks ---------------------------------------------------------------------------

    def learn_tools(self, tools: Sequence[Tool]) -> None:
        found = {tool.name: tool.task_support for tool in tools if tool.task_support != "forbidden"}
        self._support.learn([tool.name for tool in tools], found)

    def tools_listed(self, changes: int) -> None:
        self._read_at = changes  # all other tools do not run as tasks

    def forget_tools(self) -> None:
        self._support.forget()
        self._read_at = -1

    def support_of(self, name: str, options: RequestOptions) -> str:
        """Return whether a tool runs as a task, "required", "optional" or "forbidden", for which the tools are listed once."""
        if name not in self._support.found and self._read_at != self._client.tool_changes:
            self._client.list_tools(timeout=options.timeout, max_timeout=options.max_timeout, cancel=options.cancel)
        return self._support.found.get(name, "forbidden")

    # --- the calls of the client ----------------------------------------------------------------------------

    def send_tool(self, call: ToolCall, proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        session, params, options = call.session, call.params, call.options
        begun = session.now() - options.spent
        if asks_for_tasks(session) and self.support_of(str(params["name"]), options) == "required":  # TSK-08
            task = self.begin(session, params, options)
            return self.finish(task, session, options._replace(spent=session.now() - begun))
        answer = proceed()
        if type(answer) is not dict or answer.get("resultType") != "task" and "task" not in answer:
            return answer
        return self.result_of(answer, session, options._replace(spent=session.now() - begun))

    def start_tool(self, name: str, arguments: Dict[str, Any], ttl: Optional[float], options: RequestOptions) -> Task:
        """Start a tool as a task; see :meth:`Client.start_tool`."""
        session, options = self._client._require(options, "tools", "tools/call")
        params = {"name": name, "arguments": arguments}
        instead = "call_tool() runs it and waits for the result"
        if not has_tasks(session):
            raise NotSupported(f"{session.name} did not declare tasks, so the tool {name!r} was not started; {instead}")
        if asks_for_tasks(session):
            if self.support_of(name, options) == "forbidden":
                raise NotSupported(f"{session.name}: the tool {name!r} does not run as a task; {instead}")
            return Task(self.begin(session, params, options, ttl), name)
        answer = self._client._request(session, "tools/call", params, options)
        return Task(self.follow_answer(answer, session, TaskView(), options), name)

    def find(self, id: str, timeout: Optional[float], on_progress: Optional[OnProgress]) -> Task:
        """Return the handle of a task by its id; see :meth:`Client.task`."""
        session, options = self.require(RequestOptions(timeout), "tasks/get")
        answer = self._client._request(session, "tasks/get", {"taskId": id}, options)
        return Task(TaskFollower(TaskView(read_state(answer, session)), self._client, on_progress))

    def all(self, options: RequestOptions) -> List[Task]:
        """Return the handles of all tasks; see :meth:`Client.list_tasks`."""
        _, options = self.require(options, "tasks/list", "list")
        states = self._client._walk(self._one_page, "tasks", options)
        return [Task(TaskFollower(TaskView(state), self._client)) for state in states]

    def _one_page(self, cursor: Optional[str], options: RequestOptions) -> Any:
        session, options = self._client._session_for(options)
        return self._client._page(session, "tasks/list", ListTasksResult, cursor, options)

    def require(self, options: RequestOptions, method: str, flag: Optional[str] = None
                       ) -> Tuple[ClientSession, RequestOptions]:
        session, options = self._client._session_for(options)
        if method not in session.revision.task_requests:
            others = ("; keep the ids of your tasks, and take each up with client.task(id)" if session.revision.task_requests
                      else "")
            raise NotSupported(f"{method!r} is not part of {session.revision}, which was agreed on with {session.name}{others}")
        if not has_tasks(session) or flag is not None and (session.capabilities.tasks or {}).get(flag) is None:
            name = "tasks" if flag is None else f"tasks.{flag}"
            raise NotSupported(f"{session.name} did not declare the capability {name!r}, so {method!r} was not sent")
        return session, options

    # --- calls that are tasks -----------------------------------------------------------------------------

    def follow_task(self, known: Union[str, Dict[str, Any]]) -> TaskFollower:
        """Return the follower of a task that is passed on: its questions are left to the caller, as ``InputNeeded``.

        :param known: its id, or the result of a call that says that the call became a task.
        :raises MCPError: the server cannot be asked for it, or does not know it.
        """
        if not isinstance(known, str):
            session, options = self._client._session_for(RequestOptions(rounds=False))
            return self.follow_answer(known, session, TaskView(), options)
        session, options = self.require(RequestOptions(), "tasks/get")
        answer = self._client._request(session, "tasks/get", {"taskId": known}, options)
        return TaskFollower(TaskView(read_state(answer, session)), self._client, None, False)

    def send_as_task(self, call: Call) -> TaskFollower:
        """Send a call of a tool that was made elsewhere and asks for a task, and return the follower of that task.

        Its reports of progress go to the follower, if it has a progress token.
        """
        limits = RequestOptions(call.timeout, call.max_timeout, call.cancel, spent=call.spent)
        session, limits = self._client._session_for(limits)
        call, view, params = call._replace(spent=limits.spent), TaskView(), dict(call.params or {})
        meta = params.get("_meta") or {}
        if "progressToken" in meta:
            params["_meta"] = {**meta, "progressToken": tasks_of_session(session).expect_progress(view)}
        return self.follow_answer(self._client.send(call._replace(params=params)), session, view, RequestOptions(rounds=False))

    def begin(self, session: ClientSession, params: Dict[str, Any], options: RequestOptions,
                    ttl: Optional[float] = None) -> TaskFollower:
        """Call a tool as a task, where the call says so, and return the follower of that task.

        :param ttl: for how many seconds to keep it; None leaves that to the server.
        """
        view = TaskView()
        params = {**params, "task": {} if ttl is None else {"ttl": round(ttl * 1000)}}
        if options.on_progress is not None:
            params["_meta"] = {"progressToken": tasks_of_session(session).expect_progress(view)}
        answer = self._client._request(session, "tools/call", params, options._replace(on_progress=None))
        return self.follow_answer(answer, session, view, options)

    def follow_answer(self, answer: Dict[str, Any], session: ClientSession, view: TaskView, options: RequestOptions
                       ) -> TaskFollower:
        """Return the follower of the task that a call became, or of one that is done if it did not become a task."""
        created: Optional[CreateTaskResult] = None
        if CreateTaskResult.describes(answer):
            created = self._client._read(CreateTaskResult, answer, session, "tools/call")
        view.put(DetailedTask("", COMPLETED, "", "", result=answer) if created is None else created.task)
        follower = TaskFollower(view, self._client, options.on_progress, options.rounds)
        immediate = None if created is None else (created.meta or {}).get(IMMEDIATE_RESPONSE)
        follower.immediate_response = immediate if isinstance(immediate, str) else None
        return follower

    def result_of(self, answer: Dict[str, Any], session: ClientSession, options: RequestOptions) -> Dict[str, Any]:
        """Return the result of a call that the server may have answered with a task, which is then waited for."""
        if not session.revision.task_requests or not CreateTaskResult.describes(answer):
            return answer
        return self.finish(self.follow_answer(answer, session, TaskView(), options), session, options)

    def finish(self, follower: TaskFollower, session: ClientSession, options: RequestOptions) -> Dict[str, Any]:
        """Wait for a task as ``call_tool`` does, and return its result; the task is cancelled if the caller leaves before.

        A timeout that the caller gave is about the task; that of the client is about each request for its status.
        """
        seconds, most = time_limits(options.timeout, options.max_timeout, self._client.time_limits)
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

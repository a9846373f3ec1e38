"""A task that this client has started: the follower that waits for it, and the handle that a program gets.

A :class:`TaskFollower` polls the task or is sent its changes, reports its progress, answers its questions and fetches its
result. ``call_tool`` uses a follower for each call that became a task. Each :class:`Task` has a follower, too:
``client.start_tool`` and ``client.task`` return tasks, in any process with a client of that server.
"""

import contextlib
import threading
import time
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set

from ..client.call import DEFAULT, OnProgress, RequestOptions
from ..client.calls import Features
from ..client.sessions.base import ClientSession
from ..errors import (
    SERVER_BUSY,
    AuthError,
    Cancelled,
    ConnectionClosed,
    InputNeeded,
    InvalidParams,
    MCPError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    TransportError,
    remote_error,
)
from ..rpc.cancel import CancelToken
from ..rpc.deadline import undo
from ..rpc.threads import start_thread
from ..rpc.tracing import get_logger
from ..types import CallToolResult, Progress, codec
from ..types.tasks import CANCELLED, FAILED, INPUT_REQUIRED, DetailedTask
from .task_view import TaskStream, TaskView, tasks_of_session

__all__ = ["Task", "TaskFollower", "read_state"]

_log = get_logger(__name__)
#: Seconds between two requests for the status of a task whose server does not say how often it may be asked: the first
#: pause, which grows, and the longest.
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_GROWTH = 1.5
#: The least pause, whatever the server says.
_LEAST_SECONDS = 0.01
#: The longest pause that a server can ask for, in milliseconds: a day.
_MOST_INTERVAL_MS = 86_400_000
#: After this many seconds of a wait the server is asked to send each change, if it can. For a short task that is not worth a
#: stream.
_LASTING_SECONDS = 0.25
#: Seconds between two requests for the status while the server sends each change: a change that was lost is noticed then.
_PUSHED_SECONDS = 30.0
#: Seconds after an answer to a question until the status is asked for, unless the server's interval is shorter.
_ANSWERED_SECONDS = 0.5
#: How often in a row a request for the status may fail before the wait fails: the task goes on at the server meanwhile.
_MOST_FAILURES = 4
#: Seconds for the request that cancels a task whose caller has given up.
_CANCEL_SECONDS = 5.0


class TaskFollower:
    """Waits for one task, on any number of threads.

    :param view: of the task.
    :param client: sends the requests about it.
    :param on_progress: called on the waiting thread with each progress report and each new status message.
    :param rounds: whether the client's handlers answer the questions of the task; if not, ``InputNeeded`` is raised.
    """

    def __init__(self, view: TaskView, client: Features, on_progress: Optional[OnProgress] = None, rounds: bool = True) -> None:
        self.view = view
        self.client = client
        self._on_progress = on_progress
        self._on_status: Optional[Callable[[str], object]] = None
        #: Whether the changes of the task are passed on to another client, so that the server is asked at once to send them.
        self.passed_on = False
        #: The server's text for a model that does not wait for the task.
        self.immediate_response: Optional[str] = None
        self._rounds = rounds
        #: Guards the fields below; held for work in memory only.
        self._lock = threading.Lock()
        #: The keys of the questions that are answered, or being answered.
        self._answered: Set[str] = set()
        #: Whether a thread waits for the response to ``tasks/result``; in November 2025 the server asks questions meanwhile.
        self._fetching = False
        self._fetched: Optional[Dict[str, Any]] = None
        self._reports = 0
        self._latest = Progress(0)
        self._message: Optional[str] = None

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.view.state.task_id

    def current(self, within: Optional[float] = None, cancel: Optional[CancelToken] = None) -> ClientSession:
        """Return the open session of the client, and wait for it if it is not open yet.

        :param within: seconds for the wait; by default the limits of the client.
        :param cancel: ends the wait.
        :raises RequestTimeout, Cancelled, ConnectionClosed: there was no open session until then.
        """
        limits = RequestOptions(max_timeout=DEFAULT if within is None else max(within, 0.001), cancel=cancel)
        return self.client._session_for(limits)[0]

    def _send(self, session: ClientSession, method: str, params: Mapping[str, Any] = MappingProxyType({}), **limits: Any
              ) -> Dict[str, Any]:
        """Send a request about the task, with the client's middleware; by default with the time limits of the client."""
        return self.client._request(session, method, {"taskId": self.id, **params}, RequestOptions(**limits))

    def report_to(self, on_progress: Optional[OnProgress], on_status: Optional[Callable[[str], object]]) -> None:
        """Give progress reports to one function and status messages to another, from now on.

        :param on_status: called with each new status message; if it is None, status messages are progress reports.
        """
        self._on_progress, self._on_status = on_progress, on_status
        self.passed_on = True

    # --- waiting --------------------------------------------------------------------------------------------

    def follow(self, until: Callable[[DetailedTask], bool], *, silence: Optional[float] = None,
               within: Optional[float] = None, cancel: Optional[CancelToken] = None) -> bool:
        """Wait until the state of the task passes a test, or is final; return False if the time runs out before.

        The time that the client's handlers take for its questions does not count.

        :param silence: seconds without a new status, status message or progress.
        :param within: seconds in all.
        :param cancel: ends the wait, not the task.
        :raises Cancelled: the token was cancelled.
        :raises InputNeeded: the task asks questions, and they are left to the caller.
        :raises MCPError: the server cannot be asked about the task; ``task_id`` has its id.
        """
        begun, view = time.monotonic(), self.view
        try:
            session = self.current(within, cancel)
        except RequestTimeout:
            if within is None or time.monotonic() - begun < within:
                raise
            return False
        if within is not None:
            within -= time.monotonic() - begun
        with contextlib.ExitStack() as stack:
            if cancel is not None:
                stack.callback(cancel.add_callback(view.wake))
            return _Wait(self, session, silence, within, cancel).run(until, stack)

    def poll(self, session: ClientSession, max_timeout: Optional[float] = DEFAULT,
             cancel: Optional[CancelToken] = None) -> None:
        """Ask the server for the state of the task."""
        try:
            answer = self._send(session, "tasks/get", max_timeout=max_timeout, cancel=cancel)
            self.view.put(read_state(answer, session))
        except MCPError as error:
            raise about_task(error, self.id) from error

    def report(self) -> bool:
        """Report the progress and the status message that are new; return whether there are any."""
        told = self.view.take_progress()
        for params in told:
            try:
                progress = codec.decode(Progress, {key: value for key, value in params.items() if key != "progressToken"})
            except ProtocolError as error:
                _log.debug("progress of the task %.100r is not valid: %s", self.id, error)
                continue
            self._latest = progress
            self._call(progress)
        state = self.view.state
        message = state.status_message
        if message is None or message == self._message or state.finished:
            return bool(told)
        self._message = message
        if self._on_status is not None:
            self._on_status(message)
            return True
        self._reports += 1
        # Without numbers of the server, each message is one step of an unknown number of steps.
        number = self._latest.progress or self._reports
        self._call(Progress(number, self._latest.total, message))
        return True

    def _call(self, progress: Progress) -> None:
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:
            _log.exception("the progress callback of the task %.100r failed", self.id)

    # --- questions --------------------------------------------------------------------------------------------

    def answer(self, session: ClientSession, cancel: Optional[CancelToken]) -> bool:
        """Answer the questions of the task that are new, with the client's handlers; return whether there were any."""
        if "tasks/update" not in session.revision.task_requests:
            self._fetch_early(session)
            return False
        questions = self._claim(self.view.state.input_requests or {})
        if not questions:
            return False
        answered = False
        try:
            if not self._rounds:
                raise InputNeeded(f"the task {self.id!r} of {session.name} needs answers before it continues; give them to"
                                  f" client.task({self.id!r}).answer({{...}})", requests=questions)
            answers = session.answer_inputs(questions, cancel)
            self.update(answers)
            answered = True
        except MCPError as error:
            raise about_task(error, self.id, "") from error
        finally:
            if not answered:
                with self._lock:
                    self._answered.difference_update(questions)
        return True

    def update(self, answers: Dict[str, Any]) -> None:
        """Send the answers to questions of the task, by their keys."""
        self._send(self.current(), "tasks/update", {"inputResponses": answers})
        with self._lock:
            self._answered.update(answers)

    def _claim(self, requests: Dict[str, Any]) -> Dict[str, Any]:
        with self._lock:
            questions = {key: request for key, request in requests.items() if key not in self._answered}
            self._answered.update(questions)
        return questions

    def _fetch_early(self, session: ClientSession) -> None:
        """Send ``tasks/result`` on a thread of its own: the server asks the task's questions before it responds (TSK-28)."""
        with self._lock:
            if self._fetching:
                return
            self._fetching = True
        # The thread ends with the response, which comes when the task has ended, or with the connection.
        with undo(self._not_fetching):
            start_thread(lambda: self._fetch_on_thread(session), "mcplite task result")

    def _not_fetching(self) -> None:
        with self._lock:
            self._fetching = False

    def _fetch_on_thread(self, session: ClientSession) -> None:
        try:
            self._fetched = self._send(session, "tasks/result", timeout=None)
        except Exception as error:
            # A failed task is noticed by its status, and a lost connection by the requests for the status.
            _log.debug("tasks/result of the task %.100r failed: %s", self.id, error)
        finally:
            self._not_fetching()
            self.view.wake()

    # --- the end ----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the task has ended, as far as this client knows."""
        return self._fetched is not None or self.view.state.finished

    def fetch(self, cancel: Optional[CancelToken] = None) -> Dict[str, Any]:
        """Return the result of a task that has ended, as on the wire.

        :raises Cancelled: the task was cancelled.
        :raises RemoteError: the task failed; the error that its request would have got.
        """
        state, session = self.view.state, self.current(None, cancel)
        if state.status == CANCELLED:
            because = f": {state.status_message}" if state.status_message else ""
            raise about_task(Cancelled(f"the task {self.id!r} was cancelled{because}"), self.id, "")
        if state.result is not None:
            return state.result
        if self._fetched is not None:
            return self._fetched
        if "tasks/result" in session.revision.task_requests:
            try:
                self._fetched = self._send(session, "tasks/result", cancel=cancel)
                return self._fetched
            except RemoteError as error:
                error.task_id = self.id  # most often the error with which the task has failed
                raise
            except MCPError as error:
                raise about_task(error, self.id) from error
        if state.status == FAILED:
            given = state.error or {}
            raise about_task(remote_error(given.get("code"), given.get("message", state.status_message or "the task failed"),
                                          given.get("data")), self.id, "")
        raise about_task(ProtocolError(f"{session.name} says that the task {self.id!r} is completed, but not with which"
                                       " result"), self.id, "")

    def cancel(self, max_timeout: Optional[float] = DEFAULT) -> None:
        """Ask the server to cancel the task."""
        session = self.current()
        answer = self._send(session, "tasks/cancel", max_timeout=max_timeout)
        if "taskId" in answer:
            self.view.put(read_state(answer, session))

    def abandon(self) -> None:
        """Cancel the task because its caller has given up; a failure of that is logged."""
        try:
            self.cancel(_CANCEL_SECONDS)
        except Exception as error:
            _log.info("the task %.100r was not cancelled: %s", self.id, error)


class _Wait:
    """One wait of one thread for a task."""

    def __init__(self, task: TaskFollower, session: ClientSession, silence: Optional[float], within: Optional[float],
                 cancel: Optional[CancelToken]) -> None:
        self._task = task
        self._session = session
        self._silence, self._within = silence, within
        self._cancel = cancel
        #: When the wait began, and when the latest news of the task came, by the clock of the session. That clock does not
        #: advance while the client's handlers answer questions of the connection.
        self._begun = self._heard = session.now()
        #: The seconds by that clock that answering questions of the task took.
        self._asked = 0.0
        self._pause = _FIRST_PAUSE_SECONDS
        self._failures = 0

    def run(self, until: Callable[[DetailedTask], bool], stack: contextlib.ExitStack) -> bool:
        """Wait until the state passes a test, or is final; return False if the time runs out before.

        :param stack: gets the functions that end the subscription and the stream of this wait.
        """
        task, view = self._task, self._task.view
        begun = time.monotonic()
        #: Whether the view gets the changes that the server sends. Over a connection of the handshake era they come without a
        #: request. Otherwise a stream is opened below, when the task has lasted for a while.
        subscribed = not self._session.change_streams
        if subscribed:
            stack.callback(tasks_of_session(self._session).watch(task.id, view))
        pushed = False
        due = begun + self._interval()
        last = view.state
        while True:
            if not subscribed and not view.state.finished and (task.passed_on or time.monotonic() - begun >= _LASTING_SECONDS):
                subscribed = True
                stream = TaskStream(self._session, task.id, view)
                stack.callback(stream.close)
                stream.open()
            version = view.version
            if self._cancel is not None:
                self._cancel.check()
            state = view.state
            if task.report() or (state.status, state.last_updated_at) != (last.status, last.last_updated_at):
                self._heard, last = self._session.now() - self._asked, state
            if until(state) or task.ended:
                return True
            if state.status == INPUT_REQUIRED and self._answers():
                due = min(due, time.monotonic() + min(self._interval(), _ANSWERED_SECONDS))
            left = self._left()
            if left is not None and left <= 0:
                return False
            now = time.monotonic()
            if view.pushed != pushed:
                # The stream has begun, or has ended. The server may not have sent a change since its last answer, so ask now.
                pushed, due = not pushed, now
            if now >= due:
                if view.version != version:
                    continue  # look at the news that has come meanwhile first: it may end the wait
                self._poll(left)
                due = time.monotonic() + self._interval()
                continue
            if pushed:
                due = max(due, now + _PUSHED_SECONDS)
            view.wait(version, max(_LEAST_SECONDS, due - now if left is None else min(due - now, left)))

    def _answers(self) -> bool:
        begun = self._session.now()
        try:
            return self._task.answer(self._session, self._cancel)
        finally:
            self._asked += self._session.now() - begun

    def _left(self) -> Optional[float]:
        """Return the seconds until the time of the wait is over; None if it never is."""
        now = self._session.now() - self._asked
        ends: List[float] = []
        if self._silence is not None:
            ends.append(self._heard + self._silence)
        if self._within is not None:
            ends.append(self._begun + self._within)
        return min(ends) - now if ends else None

    def _interval(self) -> float:
        """Return the seconds until the next request for the status."""
        given = self._task.view.state.poll_interval_ms
        if given is not None:
            seconds = max(min(given, _MOST_INTERVAL_MS) / 1000, _LEAST_SECONDS)
        else:
            seconds, self._pause = self._pause, min(self._pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
        return float(seconds * 2 ** self._failures)

    def _poll(self, left: Optional[float]) -> None:
        try:
            self._task.poll(self._session, DEFAULT if left is None else left, self._cancel)
            self._failures = 0
        except RequestTimeout:
            left = self._left()
            if left is None or left > 0:
                raise  # only this request took too long. Otherwise the wait is over, and run() returns False
        except (TransportError, RemoteError) as error:
            lasting = isinstance(error, (ConnectionClosed, AuthError)) or (
                isinstance(error, RemoteError) and error.code != SERVER_BUSY)
            if lasting or self._failures >= _MOST_FAILURES:
                raise
            self._failures += 1
            _log.info("the status of the task %.100r could not be read, and is asked for again: %s", self._task.id, error)


def read_state(answer: Any, session: ClientSession) -> DetailedTask:
    """Return the state of a task, as a server described it.

    :raises ProtocolError: the answer does not describe a task.
    """
    try:
        return codec.decode(DetailedTask, answer)
    except ProtocolError as error:
        raise ProtocolError(f"{session.name} described a task in an invalid way: {error}", error.raw) from error


def about_task(error: MCPError, id: str, hint: Optional[str] = None) -> MCPError:
    """Set the ``task_id`` of an error, unless it has one, and add a hint to its text; return the error.

    :param hint: added to the text; by default it says, with the id, how to continue with the task.
    """
    if error.task_id is not None:
        return error
    error.task_id = id
    if hint is None:
        hint = f"; continue with the task by client.task({id!r})"
    if hint and error.args and isinstance(error.args[0], str):
        error.args = (error.args[0] + hint, *error.args[1:])
        if isinstance(error, RemoteError):
            error.message += hint
    return error


class Task:
    """A tool call that goes on at the server, also when this client has left.

    The attributes say what the server has sent last: :meth:`refresh`, :meth:`wait`, :meth:`result` and the iteration ask again.
    While one of them waits, the client's handlers answer the questions of the task. All methods can be called from any number
    of threads.

    :param follower: of the task.
    :param tool: the name of the tool; None for a task that was found by its id.
    """

    def __init__(self, follower: TaskFollower, tool: Optional[str] = None) -> None:
        self._follower = follower
        self._tool = tool

    def __repr__(self) -> str:
        message = f": {self.status_message}" if self.status_message else ""
        return f"<Task {self.id!r} ({self.status}{message})>"

    # --- what is known -----------------------------------------------------------------------------------

    @property
    def state(self) -> DetailedTask:
        """The latest state of the task that the server has sent, with its timestamps."""
        return self._follower.view.state

    @property
    def id(self) -> str:
        """The id, for ``client.task(id)``; empty if the server answered the call at once, and made no task."""
        return self.state.task_id

    @property
    def status(self) -> str:
        """ "working", "input_required", "completed", "failed" or "cancelled"."""
        return self.state.status

    @property
    def status_message(self) -> Optional[str]:
        """The server's text about the status; None if it gave none."""
        return self.state.status_message

    @property
    def finished(self) -> bool:
        """Whether the status is final: "completed", "failed" or "cancelled"."""
        return self.state.finished

    @property
    def immediate_response(self) -> Optional[str]:
        """The server's text for a model that does not wait for the task (TSK-47); None if it gave none."""
        return self._follower.immediate_response

    # --- what asks the server -----------------------------------------------------------------------------

    def refresh(self) -> "Task":
        """Ask the server for the status, and return the task itself.

        :raises InvalidParams: the server does not know the task any more: tasks are kept for a limited time.
        """
        if not self.finished:
            self._follower.poll(self._follower.current())
        return self

    def wait(self, timeout: Optional[float] = None, *, cancel: Optional[CancelToken] = None) -> bool:
        """Wait until the task has ended; return whether it has.

        :param timeout: seconds; None waits without a limit. The time of the client's handlers does not count.
        :param cancel: ends the wait, and not the task.
        :raises Cancelled: *cancel* was cancelled.
        :raises InvalidParams: the server does not know the task any more.
        """
        return self._follower.follow(lambda state: state.finished, within=timeout, cancel=cancel)

    def result(self, timeout: Optional[float] = None, *, cancel: Optional[CancelToken] = None) -> CallToolResult:
        """Wait until the task has ended, and return the result of the tool, as ``call_tool`` would have.

        :param timeout: seconds; None waits without a limit. The task goes on when they have passed.
        :param cancel: ends the wait, and not the task.
        :raises RequestTimeout: the task has not ended in time.
        :raises Cancelled: the task was cancelled, or *cancel* was.
        :raises RemoteError: the task failed; the error that the call would have got.
        """
        if not self.wait(timeout, cancel=cancel):
            error = RequestTimeout(f"{self._follower.current().name}: the task {self.id!r} did not end within {timeout:g} s; it"
                                   f" goes on, and client.task({self.id!r}) continues with it")
            error.task_id = self.id
            raise error
        return self._follower.client._tool_result(self._follower.fetch(cancel), self._follower.current(), self._tool)

    def cancel(self) -> None:
        """Ask the server to cancel the task; the server decides whether and when the work stops.

        A task that has ended stays as it is.

        :raises InvalidParams: the server does not know the task any more.
        """
        if self.finished:
            return
        try:
            self._follower.cancel()
        except InvalidParams:
            # TSK-35: a task that has ended cannot be cancelled.
            if not self.refresh().finished:
                raise

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Answer questions of the task in place of the client's handlers, from July 2026 on.

        :param responses: the answers as on the wire, by the keys of ``task.state.input_requests``.
        """
        self._follower.update(dict(responses))

    def __iter__(self) -> Iterator[DetailedTask]:
        """Yield the state now, and each later one that differs in status or message, up to the final one."""
        shown = self.state
        yield shown
        while not shown.finished:
            seen = shown.status, shown.status_message
            self._follower.follow(lambda state: (state.status, state.status_message) != seen)
            if (self.status, self.status_message) == seen:
                self.refresh()  # the result came before the final status
            shown = self.state
            if (shown.status, shown.status_message) != seen:
                yield shown

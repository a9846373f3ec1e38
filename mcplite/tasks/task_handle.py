"""Task: the handle of a tool call that goes on at the server; any process with a client of that server can take it up.

``client.start_tool`` and ``client.task`` return it.
"""

from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from ..client.call import FeatureSession
from ..errors import InvalidParams, RequestTimeout
from ..rpc.cancel import CancelToken
from ..types import CallToolResult
from ..types.tasks import DetailedTask
from .task_follower import TaskFollower

__all__ = ["Task"]


class Task:
    """A tool call that goes on at the server, also when this client has left.

    Its status is what the server has said last: :meth:`refresh`, :meth:`wait`, :meth:`result` and the iteration ask again.
    While one of them waits, the client's handlers answer the questions of the task. From any number of threads.

    :param follower: of the task.
    :param current: returns the open session.
    :param read: decodes the result of the tool.
    """

    def __init__(self, follower: TaskFollower, current: Callable[[], FeatureSession],
                 read: Callable[[Dict[str, Any], FeatureSession], CallToolResult]) -> None:
        self._follower = follower
        self._current = current
        self._read = read

    def __repr__(self) -> str:
        message = f": {self.status_message}" if self.status_message else ""
        return f"<Task {self.id!r} ({self.status}{message})>"

    # --- what is known -----------------------------------------------------------------------------------

    @property
    def state(self) -> DetailedTask:
        """What the server has said last of the task, with its timestamps."""
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
            self._follower.poll(self._current())
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
            error = RequestTimeout(f"{self._current().name}: the task {self.id!r} did not end within {timeout:g} s; it goes on,"
                                   f" and client.task({self.id!r}) continues with it")
            error.task_id = self.id
            raise error
        return self._read(self._follower.fetch(cancel), self._current())

    def cancel(self) -> None:
        """Ask the server to cancel the task; it decides whether and when the work stops.

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
                self.refresh()  # its result came first
            shown = self.state
            if (shown.status, shown.status_message) != seen:
                yield shown

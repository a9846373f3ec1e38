"""What a server sends about the tasks that this client has started, besides its responses.

A server with a session sends it there: :class:`StartedTasks` is a part of that session. One without a session sends each change
of a task on a subscription to it, a :class:`TaskStream`, which is opened once the task has lasted for a while.
"""

import itertools
import weakref
from typing import Any, Callable, Dict, List

from ..client.sessions.base import ClientSession, SessionPart, Subscriber
from ..errors import Cancelled, MCPError, ProtocolError, TransportError
from ..revisions import LEGACY
from ..rpc.cancel import CancelToken
from ..rpc.forks import new_lock
from ..rpc.threads import start_thread
from ..rpc.tracing import get_logger
from ..types import codec
from ..types.tasks import TASK_IDS, DetailedTask
from .task_view import TaskView

__all__ = ["StartedTasks", "TaskStream", "started_tasks", "watch_task"]

_log = get_logger(__name__)
#: The notifications of the status of a task, in the revisions with a handshake.
_STATUS = {revision.task_notification for revision in LEGACY if revision.task_notification}


class StartedTasks(SessionPart):
    """Gives notifications about tasks to their views."""

    def __init__(self) -> None:
        #: Guards the fields below; held for dictionary work only.
        self._lock = new_lock()
        #: A token is valid until its task has ended (TSK-40), or until the client has dropped the task.
        self._by_token: "weakref.WeakValueDictionary[str, TaskView]" = weakref.WeakValueDictionary()
        self._by_id: Dict[str, List[TaskView]] = {}
        self._tokens = itertools.count(1)

    def expect_progress(self, view: TaskView) -> str:
        """Return a progress token whose notifications go to *view*, as long as there is one."""
        token = f"task-{next(self._tokens)}"  # a string: the other tokens of a connection are the ids of its requests
        with self._lock:
            self._by_token[token] = view
        return token

    def take_progress(self, token: Any, params: Dict[str, Any], size: int) -> bool:
        """Take a progress notification; False if it is for no task.

        :param token: as the server sent it, of any type.
        :param size: of the message, in bytes.
        """
        if not isinstance(token, str):
            return False
        with self._lock:
            view = self._by_token.get(token)
        if view is None:
            return False
        view.put_progress(params, size)
        return True

    def watch(self, id: str, view: TaskView) -> Callable[[], None]:
        """Give *view* the status notifications of a task; return a function that ends this."""
        with self._lock:
            self._by_id.setdefault(id, []).append(view)

        def unwatch() -> None:
            with self._lock:
                views = self._by_id.get(id, [])
                views.remove(view)
                if not views:
                    del self._by_id[id]

        return unwatch

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        if method in _STATUS:
            self.take_status(params)

    def take_status(self, params: Dict[str, Any]) -> None:
        """Take a notification of the status of a task; clients work without them as well (TSK-32)."""
        id = params.get("taskId")
        with self._lock:
            views = list(self._by_id.get(id, ())) if isinstance(id, str) else []
        if not views:
            return
        try:
            state = codec.decode(DetailedTask, params)
        except ProtocolError as error:
            _log.debug("the status of the task %.100r is not valid: %s", id, error)
            return
        for view in views:
            view.put(state)


class TaskStream(Subscriber):
    """Gives the changes of one task to its view; if the stream cannot be had, the task is polled as before.

    :param session: with the server.
    :param id: of the task.
    :param view: takes its states.
    """

    def __init__(self, session: ClientSession, id: str, view: TaskView) -> None:
        self._session = session
        self._id = id
        self._view = view
        self._token = CancelToken()

    def open(self) -> None:
        """Open the stream on a thread of its own, which ends with :meth:`close` or with the stream."""
        try:
            start_thread(self._run, "mcplite task stream")
        except TransportError as error:
            _log.info("the task %.100r is polled: %s", self._id, error)

    def _run(self) -> None:
        # Blocks on the stream.
        try:
            self._session.listen(self, {TASK_IDS: [self._id]}, self._token)
        except Cancelled:
            _log.debug("the stream of the task %.100r was closed", self._id)
        except MCPError as error:
            _log.info("%s does not send the changes of the task %.100r, which is polled: %s", self._session.name, self._id,
                      error)
        except BaseException:
            self._session.peer.log.failure(_log, "the changes of the task %.100r could not be read, and it is polled",
                                           self._id)
        finally:
            self._view.set_pushed(self, False)

    def close(self) -> None:
        """End the stream; idempotent, from any thread."""
        self._token.cancel("the wait for the task is over")

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        if method == "notifications/subscriptions/acknowledged":
            given = params.get("notifications")
            ids = given.get(TASK_IDS) if isinstance(given, dict) else None
            if isinstance(ids, list) and self._id in ids:
                self._view.set_pushed(self, True)
            else:
                self._token.cancel("the server does not send the changes of this task")
        elif method == self._session.revision.task_notification and params.get("taskId") == self._id:
            try:
                self._view.put(codec.decode(DetailedTask, params))
            except ProtocolError as error:
                _log.debug("%s sent an invalid state of the task %.100r: %s", self._session.name, self._id, error)

    def on_ended(self) -> None:
        self._token.cancel("the server has ended the subscription")


def started_tasks(session: Any) -> StartedTasks:
    """Return what a session keeps of the tasks that its client has started."""
    part = session.parts.setdefault("started tasks", StartedTasks())
    assert isinstance(part, StartedTasks), "the name is of this module"
    return part


def watch_task(session: Any, id: str, view: TaskView, lasting: bool) -> Callable[[], None]:
    """Give *view* what the server says of a task besides its responses; return a function that ends this.

    :param lasting: whether the task has lasted for a while, so that a stream of its own is worth its price.
    """
    if not session.change_streams:
        return _nothing if lasting else started_tasks(session).watch(id, view)
    if not lasting:
        return _nothing
    stream = TaskStream(session, id, view)
    stream.open()
    return stream.close


def _nothing() -> None:
    """End nothing."""

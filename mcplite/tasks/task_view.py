"""What this client knows of one task, and how it hears of changes.

A :class:`TaskView` has the latest state, and progress that was not reported yet. The thread that reads the connection adds to
it, and the threads that wait for the task sleep on it. A server with a session sends changes there (:class:`StartedTasks`).
From one without a session they come on a subscription (:class:`TaskStream`), which is opened once the task has lasted for a
while.
"""

import itertools
import threading
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from ..client.sessions.base import ClientSession, SessionPart, Subscriber
from ..errors import Cancelled, MCPError, ProtocolError, TransportError
from ..revisions import LEGACY
from ..rpc.cancel import CancelToken
from ..rpc.deadline import Sleepers
from ..rpc.threads import start_thread
from ..rpc.tracing import get_logger
from ..types import codec
from ..types.tasks import TASK_IDS, DetailedTask

__all__ = ["StartedTasks", "TaskStream", "TaskView", "tasks_of_session"]

#: Progress notifications, and their bytes, that are kept until a thread waits for the task; beyond it the newest takes the
#: place of the one before it.
_MOST_PROGRESS = 1000
_MOST_PROGRESS_BYTES = 1 << 20


class TaskView:
    """The latest that is known of one task.

    :param state: the task as the server described it; None while its call is not answered.
    """

    def __init__(self, state: Optional[DetailedTask] = None) -> None:
        #: Guards the fields below; held for work in memory only.
        self._lock = threading.RLock()
        self._changed = Sleepers()
        self._state = state
        self._progress: Deque[Tuple[Dict[str, Any], int]] = deque()
        self._progress_bytes = 0
        #: How often the view has changed; to be read before the state, and given to :meth:`wait`.
        self.version = 0
        #: The streams over which the server sends each change: one may end after the next, of another connection, has begun.
        self._streams: Set[object] = set()

    @property
    def state(self) -> DetailedTask:
        """The latest description of the task."""
        assert self._state is not None, "the server has not created the task"
        return self._state

    @property
    def pushed(self) -> bool:
        """Whether the server sends each change of the task, so that it need not be asked often."""
        return bool(self._streams)

    def put(self, state: DetailedTask) -> None:
        """Take a description of the task, unless it is older than the one that is known, or that one is final (TSK-17)."""
        with self._lock:
            known = self._state
            if known is not None and (known.finished or _is_older(state, known)):
                return
            self._state = state
            self._touch()

    def put_progress(self, params: Dict[str, Any], size: int) -> None:
        """Keep a progress notification of the task.

        :param size: of the message, in bytes.
        """
        with self._lock:
            if len(self._progress) >= _MOST_PROGRESS or self._progress_bytes + size > _MOST_PROGRESS_BYTES:
                if self._progress:
                    self._progress_bytes -= self._progress.pop()[1]
            self._progress.append((params, size))
            self._progress_bytes += size
            self._touch()

    def take_progress(self) -> List[Dict[str, Any]]:
        """Return the progress notifications that were not taken yet, oldest first."""
        with self._lock:
            taken = [params for params, _ in self._progress]
            self._progress.clear()
            self._progress_bytes = 0
            return taken

    def set_pushed(self, stream: object, pushed: bool) -> None:
        """Note whether the server sends each change over a stream from now on."""
        with self._lock:
            if pushed:
                self._streams.add(stream)
            else:
                self._streams.discard(stream)
            self._touch()

    def wake(self) -> None:
        """Wake the waiting threads, so that they look at what has happened besides."""
        with self._lock:
            self._touch()

    def _touch(self) -> None:
        self.version += 1
        self._changed.notify()

    def wait(self, version: int, seconds: float) -> None:
        """Sleep until the view is newer than *version*, for so many seconds at most."""
        self._changed.wait_for(lambda: self.version != version, seconds)


def _is_older(state: DetailedTask, known: DetailedTask) -> bool:
    # Timestamps of one server have one form, so that their order is that of the text. Final states are always taken.
    return (not state.finished and len(state.last_updated_at) == len(known.last_updated_at)
            and state.last_updated_at < known.last_updated_at)


_log = get_logger(__name__)
#: The notifications of the status of a task, in the revisions with a handshake.
_STATUS = {revision.task_notification for revision in LEGACY if revision.task_notification}


class StartedTasks(SessionPart):
    """Gives notifications about tasks to their views."""

    def __init__(self) -> None:
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
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
        except Exception:
            _log.exception("the changes of the task %.100r could not be read, and it is polled", self._id)
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


def tasks_of_session(session: Any) -> StartedTasks:
    """Return what a session keeps of the tasks that its client has started."""
    part = session.parts.setdefault("started tasks", StartedTasks())
    assert isinstance(part, StartedTasks), "the name is of this module"
    return part

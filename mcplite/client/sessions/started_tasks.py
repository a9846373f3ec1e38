"""StartedTasks: what a server with a session sends about the tasks that this client has started, besides its responses.

Each legacy session has one; servers without a session send it on a stream, see ``task_stream``.
"""

import itertools
import weakref
from typing import Any, Callable, Dict, List

from ...errors import ProtocolError
from ...rpc.forks import new_lock
from ...rpc.tracing import get_logger
from ...types import codec
from ...types.tasks import DetailedTask
from ..tasks.task_state import TaskView

__all__ = ["StartedTasks"]

_log = get_logger(__name__)


class StartedTasks:
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

"""TaskStream: the subscription to one task, over which a server without sessions sends each of its changes.

A modern session opens one for a task that a thread waits for, once the task has lasted for a while.
"""

from typing import Any, Dict

from ...errors import Cancelled, MCPError, ProtocolError, TransportError
from ...rpc.cancel import CancelToken
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from ...types import codec
from ...types.tasks import TASK_IDS, DetailedTask
from ..tasks.task_state import TaskView
from .base import ClientSession, Subscriber

__all__ = ["TaskStream"]

_log = get_logger(__name__)


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
            _log.exception("the changes of the task %.100r could not be read, and it is polled",
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

"""Asks a question as a task of the client, which is then polled for the answer: a part of November 2025 alone.

The back channel and the tasks of the server load it with the first such question.
"""

import time
from typing import Any, Dict, Optional

from ..errors import INVALID_REQUEST, Cancelled, MCPError, ProtocolError, RemoteError, RequestTimeout
from ..rpc.cancel import CancelToken
from ..rpc.interfaces import Delivery
from ..rpc.tracing import get_logger
from ..server.handling.client_questions import EncodedQuestion
from ..server.handling.session import Session
from ..types import codec
from ..types.tasks import CANCELLED, WORKING, CreateTaskResult, DetailedTask

__all__ = ["ask_as_task"]

_log = get_logger(__name__)
#: Seconds between two requests for the status, if the client does not say how often it may be asked: the first pause, which
#: grows, and the longest.
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_GROWTH = 1.5
#: The least pause, whatever the client says.
_LEAST_SECONDS = 0.02
#: Seconds for the request that cancels a task.
_CANCEL_SECONDS = 5.0


def ask_as_task(session: Session, asked: EncodedQuestion, token: Optional[CancelToken], delivery: Delivery,
                id: Optional[int] = None) -> Any:
    """Ask a client as a task, wait for the end of that task, and return the answer; within ``Limits.ask_seconds`` in all.

    If the client answers without a task, in spite of what it has declared, that answer is returned.

    :param token: cancelled when the question is withdrawn; the client's task is cancelled then.
    :param id: of the request that asks; by default a new one.
    :raises RemoteError: the client answered with an error, or has cancelled the task.
    :raises ProtocolError: the client's description of the task is not valid.
    :raises RequestTimeout, Cancelled, ConnectionClosed: there is no answer.
    """
    return _QuestionTask(session, asked.method, token, delivery).ask(asked.params or {}, id)


class _QuestionTask:
    """One question that a client answers as a task."""

    def __init__(self, session: Session, method: str, token: Optional[CancelToken], delivery: Delivery) -> None:
        self._session = session
        self._method = method
        self._token = token
        self._delivery = delivery
        self._deadline = time.monotonic() + session.limits.ask_seconds

    def ask(self, params: Dict[str, Any], id: Optional[int]) -> Any:
        # The client need not keep the task for longer than the server waits for the answer.
        task = {"ttl": max(1, round(self._session.limits.ask_seconds * 1000))}
        answer = self._call(self._method, {**params, "task": task}, id)
        if not CreateTaskResult.describes(answer):
            return answer
        state = self._read(CreateTaskResult, answer).task
        try:
            return self._follow(state)
        except (Cancelled, RequestTimeout):
            self._cancel(state.task_id)
            raise

    def _follow(self, state: DetailedTask) -> Any:
        """Poll until the task has ended or needs input, and then ask for its result (TSK-20, TSK-28).

        The client answers that request when the task has ended.
        """
        of, pause = {"taskId": state.task_id}, _FIRST_PAUSE_SECONDS
        while state.status == WORKING:
            given = state.poll_interval_ms
            # TSK-19, within the time of the question.
            self._sleep(pause if given is None else max(min(given, 1000 * self._left()) / 1000, _LEAST_SECONDS))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
            state = self._read(DetailedTask, self._call("tasks/get", of))
        if state.status == CANCELLED:
            raise RemoteError(state.status_message or f"the client has cancelled the task of {self._method!r}",
                              code=INVALID_REQUEST)
        return self._call("tasks/result", of)

    def _sleep(self, seconds: float) -> None:
        seconds = min(seconds, self._left())
        with self._session.peer.without_slot():
            if self._token is None:
                time.sleep(seconds)
            elif self._token.wait(seconds):
                self._token.check()

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise RequestTimeout(f"the client did not answer {self._method!r}, which it runs as a task, within"
                                 f" {self._session.limits.ask_seconds:g} s (Limits.ask_seconds)")
        return left

    def _call(self, method: str, params: Dict[str, Any], id: Optional[int] = None) -> Any:
        return self._session.peer.call(method, params, id=id, timeout=self._left(), cancel=self._token,
                                       delivery=self._delivery)

    def _read(self, model: Any, answer: Any) -> Any:
        try:
            return codec.decode(model, answer)
        except ProtocolError as error:
            raise ProtocolError(f"the client described its task of {self._method!r} in an invalid way: {error}",
                                error.raw) from error

    def _cancel(self, task_id: str) -> None:
        """Cancel the task, if the client has declared that this can be done."""
        if (self._session.client_capabilities.tasks or {}).get("cancel") is None:
            return
        try:
            # Without the token: it may be cancelled already.
            self._session.peer.call("tasks/cancel", {"taskId": task_id}, timeout=_CANCEL_SECONDS, delivery=self._delivery)
        except MCPError as error:
            _log.debug("the client's task %.100r was not cancelled: %s", task_id, error)

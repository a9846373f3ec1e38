"""Asking a modern client in one process: the handler waits where it is, until the client comes back with answers.

The client's request is answered with the questions and a handle; its next request brings the handle and the
answers, and is what the handler answers from then on. That it comes back is not assumed: what waits is bounded
in number and in time (MRTR-09).
"""

import logging
import time
from typing import TYPE_CHECKING, Any, Dict, Mapping

from ...errors import Cancelled, InvalidParams, ProtocolError
from ...protocol.state import bound_to
from ..runtime.waiting import WaitingCall
from .asker import Asked, Asker, Misfit
from .questions import Question

if TYPE_CHECKING:
    from .context import Context
    from .session import Session

__all__ = ["Wait", "input_required", "read_answers"]

_log = logging.getLogger(__name__)


def input_required(asked: Mapping[str, Asked], state: str) -> Dict[str, Any]:
    """Return the result that asks the client (MRTR-04 to MRTR-07)."""
    requests: Dict[str, Dict[str, Any]] = {}
    for key, question in asked.items():
        requests[key] = {"method": question.method}
        if question.params is not None:
            requests[key]["params"] = question.params
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def read_answers(asked: Mapping[str, Asked], responses: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the answers that fit their questions; the others have to be asked for again (MRTR-20, MRTR-21).

    :raises InvalidParams: one is no answer at all to such a question (MRTR-19).
    """
    answers = {}
    for key, question in asked.items():
        if key in responses:
            try:
                answers[key] = question.read(responses[key])
            except Misfit as error:
                _log.warning("the client's answer to %.100r is asked for again: %s", key, error)
            except ProtocolError as error:
                raise InvalidParams(f"params.inputResponses[{key[:100]!r}]: {error}") from error
    return answers


class Wait(Asker):
    """Asks by answering the present request, and waits for the next one.

    :param context: of the handler that asks.
    :param given: the answers that came with its first request.
    """

    def __init__(self, context: "Context", given: Mapping[str, Any]) -> None:
        super().__init__(context.session)
        self._context = context
        self._given = given

    @property
    def session(self) -> "Session":
        return self._context.session

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        asked = {key: self.prepare(question) for key, question in questions.items()}
        # A client may answer by name what it knows will be asked.
        answers = read_answers(asked, self._given) if named and self._given else {}
        deadline = time.monotonic() + self.session.limits.waiting_seconds
        while len(answers) < len(asked):
            # The request may be another one by now, of a client that can be asked less (STAT-13).
            missing = {key: self.prepare(questions[key]) for key in asked if key not in answers}
            answers.update(read_answers(missing, self._come_back(missing, deadline)))
        return {key: answers[key] for key in asked}

    def _come_back(self, asked: Mapping[str, Asked], deadline: float) -> Dict[str, Any]:
        """Answer the present request with questions, and return what the client comes back with."""
        context = self._context
        incoming, token = context.incoming, context.token
        waiting = context.session.app.waiting
        call = WaitingCall(context, bound_to(context.session.app.name, context.session.owner, incoming.method,
                                             incoming.params), asked)
        handle = waiting.file(call)
        uncancel = token.add_callback(call.woken.set)
        try:
            if context.session.peer.closed:
                token.cancel("the server is stopping")
            context.flush()
            context.respond(input_required(asked, handle))
            with context.session.peer.suspended():
                call.woken.wait(max(0.0, deadline - time.monotonic()))
        finally:
            uncancel()
            left = waiting.withdraw(handle)
        if not left:
            call.woken.wait()  # it was claimed this very moment
        elif not token.cancelled:
            token.cancel("the client did not come back with the answers to its questions")
        if token.cancelled or call.responses is None:
            raise Cancelled(token.reason)
        return call.responses

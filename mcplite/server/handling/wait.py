"""Asks a modern client in one process: the handler's thread waits until the client returns with answers.

The client's request is answered with the questions and a state; the client's next request brings the state and the
answers, and the handler answers that request instead. Here the state is a random handle. The client may never return,
so waiting handlers are bounded in number and in time (MRTR-09).
"""

import contextlib
import threading
import time
from typing import Any, Dict, Mapping, Optional

from ...errors import Cancelled
from ...protocol.jsonio import memory_size
from ...protocol.opaque import bound_to, request_params
from ...rpc.incoming import Incoming
from ..runtime.observer import observed_question
from ..runtime.waiting import WaitingCall
from .client_questions import Asker, EncodedQuestion, input_required, read_answers
from .questions import Question
from .request_context import RequestContext
from .session import Session

__all__ = ["Suspension", "WaitingAsker", "continue_call", "request_digest"]


class WaitingAsker(Asker):
    """Asks by answering the present request with questions, and waits for the client's next request.

    :param context: of the handler that asks.
    :param given: the answers in the first request.
    """

    def __init__(self, context: RequestContext, given: Mapping[str, Any]) -> None:
        super().__init__(context.session)
        self._context = context
        self._given = given

    @property
    def session(self) -> Session:
        return self._context.session

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        missing = {key: self.prepare(question) for key, question in questions.items()}
        # A client may send answers by name in its first request, to questions that it expects.
        answers = read_answers(missing, self._given, self.session.runtime.log) if named and self._given else {}
        deadline = time.monotonic() + self.session.limits.waiting_seconds
        missing = {key: asked for key, asked in missing.items() if key not in answers}
        while missing:
            answers.update(self._wait(missing, deadline))
            # This is another request now, which may declare other capabilities (STAT-13).
            missing = {key: self.prepare(questions[key]) for key in missing if key not in answers}
        return {key: answers[key] for key in questions}

    def _wait(self, asked: Mapping[str, EncodedQuestion], deadline: float) -> Dict[str, Any]:
        return Suspension(self._context, asked).observed(deadline)


class Suspension:
    """The time of one handler between its questions and their answers.

    :param context: of the handler.
    :param asked: the questions.
    """

    #: The number of this process, if the state names it; see :class:`WaitingCall`.
    number = 0
    #: The handle of the waiting call, and the state that travels; by default a new handle, and the same.
    handle = state = ""
    #: What the handler keeps for the time after the answers, besides its request.
    kept: Any = None

    def __init__(self, context: RequestContext, asked: Mapping[str, EncodedQuestion]) -> None:
        self._context = context
        self._asked = asked
        #: Set when the answers are there, and when the handler is cancelled.
        self._woken = threading.Event()
        self._answers: Optional[Dict[str, Any]] = None

    def observed(self, deadline: float) -> Dict[str, Any]:
        """Do as :meth:`wait`, within the blocks of the observers."""
        session = self._context.session
        observers = session.runtime.observers
        if not observers:
            return self.wait(deadline)
        with contextlib.ExitStack() as stack:
            for question in self._asked.values():
                stack.enter_context(observed_question(observers, session, question.method, question.params, None))
            return self.wait(deadline)

    def wait(self, deadline: float) -> Dict[str, Any]:
        """Answer the present request with questions, and return the client's answers.

        :raises Cancelled: the client did not return in time, or has disconnected.
        """
        context = self._context
        incoming, session, token = context.incoming, context.session, context.token
        waiting, most = session.runtime.waiting, session.limits.waiting_bytes
        size = memory_size([request_params(incoming.params), self.kept], most)
        handle = waiting.add(WaitingCall(
            session.sender_of(incoming), size, incoming.peer, self._cancel, session.owner,
            request_digest(session, incoming), self.read, self._continue_handler, self.number), self.handle)
        context.forget_request()
        uncancel = token.add_callback(self._woken.set)
        try:
            if session.peer.closed:
                token.cancel("the server is stopping")
            context.send_held_progress()
            context.respond(input_required(self._asked, self.state or handle))
            with session.peer.suspended():
                self._woken.wait(max(0.0, deadline - time.monotonic()))
        finally:
            uncancel()
            left = waiting.remove(handle)
        if not left:
            self._woken.wait()  # by the thread of a client that has returned at this moment, or needs the room
        elif not token.cancelled:
            token.cancel("the client did not come back with the answers to its questions")
        if token.cancelled or self._answers is None:
            raise Cancelled(token.reason)
        return self._answers

    def _cancel(self, reason: str) -> None:
        self._context.token.cancel(reason)
        self._woken.set()

    def read(self, responses: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the answers in the client's next request, as :meth:`wait` returns them."""
        return read_answers(self._asked, responses, self._context.session.runtime.log)

    def _continue_handler(self, session: Session, incoming: Incoming, answers: Dict[str, Any]) -> None:
        self._context.continue_with(session, incoming)
        self._answers = answers
        self._woken.set()


def continue_call(session: Session, incoming: Incoming, handle: str, responses: Dict[str, Any]) -> bool:
    """Continue the handler that waits under a handle; False if this request may not continue one.

    :param session: of the client's new request.
    :param incoming: that request, which the handler answers from now on.
    :raises InvalidParams: an answer is not valid; the handle can be used again.
    """
    waiting = session.runtime.waiting
    call = waiting.find(handle, request_digest(session, incoming))
    if call is None:
        return False
    answers = call.read(responses)
    if not waiting.remove(handle):
        return False
    call.continue_call(session, incoming, answers)
    return True


def request_digest(session: Session, incoming: Incoming) -> str:
    """Return the digest of a request and its client, to which a handle is bound."""
    return bound_to(session.runtime.catalog.name, session.owner, incoming.method, incoming.params)

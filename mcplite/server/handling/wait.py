"""Asking a modern client in one process: the handler waits where it is, until the client comes back with answers.
The client's request is answered with the questions and a handle; its next request brings the handle and the
answers, and is what the handler answers from then on. That it comes back is not assumed: what waits is bounded
in number and in time (MRTR-09).
"""

import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from ...errors import SERVER_BUSY, Cancelled, InvalidParams, ProtocolError, RemoteError
from ...protocol.state import bound_to
from .asker import Asked, Asker, Misfit
from .questions import Question

if TYPE_CHECKING:
    from ...rpc.incoming import Incoming
    from ..limits import Limits
    from ..sessions.legacy import Session
    from .context import Context

__all__ = ["Wait", "WaitingCalls", "input_required", "read_answers", "refused_state"]

_log = logging.getLogger(__name__)


def refused_state() -> InvalidParams:
    """Return the error for every state that cannot be gone on with; nobody learns why (MRTR-13)."""
    return InvalidParams("Invalid or expired requestState: send the request again without it")


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


class WaitingCall:
    """One handler that waits for its client.

    :param bound: what the handle is good for.
    :param asked: what it waits for.
    """

    def __init__(self, context: "Context", bound: str, asked: Mapping[str, Asked]) -> None:
        self.context = context
        self.bound = bound
        self.asked = asked
        self.peer = context.incoming.peer
        self.owner = context.session.owner
        #: Set when the client is back, and when the handler has to go on without it.
        self.woken = threading.Event()
        self.responses: Optional[Dict[str, Any]] = None


class WaitingCalls:
    """The handlers of one server that wait for their clients, by handle.

    A handle is good for one return (MRTR-17).
    """

    def __init__(self, limits: "Limits") -> None:
        self._limits = limits
        #: Guards ``_calls``; held for dictionary work only.
        self._lock = threading.Lock()
        self._calls: Dict[str, WaitingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def file(self, call: WaitingCall) -> str:
        """Note a call and return its handle.

        :raises RemoteError: too many wait already.
        """
        handle = secrets.token_urlsafe(24)
        with self._lock:
            full = len(self._calls) >= self._limits.waiting_calls or (
                call.owner is not None and sum(other.owner == call.owner for other in self._calls.values())
                >= self._limits.waiting_per_principal)
            if not full:
                self._calls[handle] = call
        if full:
            raise RemoteError("Server busy: too many calls wait for answers of their clients; try again later",
                              code=SERVER_BUSY)
        return handle

    def withdraw(self, handle: str) -> bool:
        """Forget a handle; False when the client has come back with it."""
        with self._lock:
            return self._calls.pop(handle, None) is not None

    def claim(self, handle: str, session: "Session", incoming: "Incoming", responses: Dict[str, Any]) -> bool:
        """Let a call go on that waits under this handle; False when there is none that this request may go on with.

        :param session: the client, as it presents itself now.
        :param incoming: its request, which the call answers from now on.
        :raises InvalidParams: what it brings is no answer; the handle stays good.
        """
        bound = bound_to(session.app.name, session.owner, incoming.method, incoming.params)
        call = self._calls.get(handle)
        if call is None or call.bound != bound:
            return False
        read_answers(call.asked, responses)
        with self._lock:
            if self._calls.pop(handle, None) is not call:
                return False
        call.context.go_on(session, incoming)
        call.responses = responses
        call.woken.set()
        return True

    def drop(self, peer: Any, reason: str) -> None:
        """Wake the calls of a conversation that is over; they end as cancelled."""
        with self._lock:
            gone: List[WaitingCall] = [call for call in self._calls.values() if call.peer is peer]
        for call in gone:
            call.context.token.cancel(reason)


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
            if incoming.peer.closed:
                token.cancel("the server is stopping")
            context.flush()
            context.respond(input_required(asked, handle))
            with incoming.peer.aside():
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

"""Asks a modern client in one process: the handler's thread waits until the client returns with answers.

The client's request is answered with the questions and a state; the client's next request brings the state and the
answers, and the handler answers that request instead. Here the state is a random handle. The client may never return,
so waiting handlers are bounded in number and in time (MRTR-09).

Asks a modern client in a fleet: no thread waits; the handler is called again with the answers so far, in any process.

The client's request is answered with the questions and a state: the journal of the answers so far, signed. A module of
its own because only the servers of a fleet load it.

Asks a modern client in a fleet with a shared backend: the handler waits in its process, and can be replayed in another one.

The state that travels names the process and a journal in the backend. The process that gets the client's next request
passes it on to the one where the handler waits (sessions/handover.py); once that one has ended, it replays the journal.
Who continues takes the journal first, so of several processes one does.
"""

import contextlib
import json
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...errors import BackendError, Cancelled, RemoteError
from ...protocol.jsonrpc import memory_size
from ...protocol.opaque import Journal, bound_to, digest, request_params
from ...rpc.request import Incoming
from ..runtime.observer import observed_question
from ..runtime.processes import away_error
from ..runtime.runtime import Runtime
from ..runtime.suspended_calls import WaitingCall
from .client_questions import Asker, EncodedQuestion, input_required, read_answers
from .questions import Question
from .request_context import RequestContext
from .session import Session

__all__ = [
    "FleetAsker", "HandlerEnded", "ReplayAsker", "Suspension", "WaitingAsker", "continue_call", "noted_steps",
    "request_digest",
]


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
        answers = read_answers(missing, self._given) if named and self._given else {}
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
        return read_answers(self._asked, responses)

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


class HandlerEnded(BaseException):
    """Ends a handler that has asked a question; ``except Exception`` in the handler does not catch it."""


class ReplayAsker(Asker):
    """Asks by answering the request and ending the handler; when the handler is called again, the answers are there.

    :param context: of the handler that asks.
    :param journal: from the request's state; None for a first request.
    :param given: the answers in the request.
    """

    waits = False

    def __init__(self, context: RequestContext, journal: Optional[Journal], given: Mapping[str, Any]) -> None:
        super().__init__(context.session)
        self._context = context
        self._journal = journal or Journal()
        self._position = 0
        #: The answers in this request, for the first questions that have none yet.
        self._given = given

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        asked = {key: self.prepare(question) for key, question in questions.items()}
        rounds = self._journal.rounds
        digest_of_questions = digest([[key, question.method, question.params] for key, question in asked.items()])
        if self._position < len(rounds) and rounds[self._position][0] != digest_of_questions:
            # The handler asks other questions than last time, so the recorded answers do not belong to them.
            self._warn("%r asks other questions than in its previous call: the earlier answers are dropped",
                       self._context.method)
            del rounds[self._position:]
            self._given = {}
        known: Dict[str, Any] = {}
        if self._position < len(rounds):
            known = rounds[self._position][1]
        elif not named and not rounds:
            self._given = {}  # a first request cannot know the generated keys
        new = self._new(asked, known)
        while True:
            responses = {**known, **new}
            answers = read_answers(asked, responses)
            known = {key: responses[key] for key in answers}
            rounds[self._position:] = [(digest_of_questions, known), *rounds[self._position + 1:]]
            if len(answers) == len(asked):
                break
            new = self._suspend({key: question for key, question in asked.items() if key not in answers})
            # This is another request now, which may declare other capabilities (STAT-13).
            asked = {key: self.prepare(question) for key, question in questions.items()}
        self._position += 1
        return {key: answers[key] for key in asked}

    def _new(self, asked: Mapping[str, EncodedQuestion], known: Mapping[str, Any]) -> Dict[str, Any]:
        """Return this request's answers to these questions, once."""
        if len(known) == len(asked):
            return {}
        given, self._given = self._given, {}
        return {key: answer for key, answer in given.items() if key in asked and key not in known}

    def _suspend(self, missing: Mapping[str, EncodedQuestion]) -> Dict[str, Any]:
        """Ask the client; return its answers as they came, if the handler goes on here with its next request."""
        context, session = self._context, self._context.session
        if not context.asked_by_return:
            self._journal.entered += 1
        self._journal.once_results = context.once_results or {}
        state = session.runtime.states.write(self._journal, session.owner, context.method, context.incoming.params,
                                             session.sender_of(context.incoming))
        context.question_result = input_required(missing, state)
        raise HandlerEnded

    def run_once(self, key: str, action: Callable[[], Any]) -> Any:
        value = action()
        try:
            # Through JSON, as it will be in the next call, so that the handler gets the same value each time.
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(f"the result of ctx.once(), {type(value).__name__}, cannot travel as JSON ({error}); return"
                            " plain data from the action") from error


class FleetAsker(ReplayAsker):
    """Asks by answering the present request with questions, and waits for the client's next request in this process."""

    #: Whether this entry into the handler is counted in the journal.
    _counted = False
    #: The handle of the journal that was taken last, and the steps since then: "begun", "done" or "failed" by key.
    _steps: Optional[Tuple[str, Dict[str, str]]] = None

    def _suspend(self, missing: Mapping[str, EncodedQuestion]) -> Dict[str, Any]:
        context, journal = self._context, self._journal
        if not context.asked_by_return and not self._counted:
            journal.entered += 1
            self._counted = True
        journal.once_results = context.once_results or {}
        session, params = context.session, context.incoming.params
        states, processes = session.runtime.states, session.runtime.processes
        processes.check()
        suspension = _FleetSuspension(context, missing)
        try:
            suspension.number = processes.number
            sender = session.sender_of(context.incoming)
            suspension.handle = states.write(journal, session.owner, context.method, params, sender)
            suspension.kept = [journal.once_results, list(journal.rounds)]
        except BackendError as error:
            processes.failed(error)
            raise away_error() from error
        suspension.state = states.name_process(suspension.handle, suspension.number, session.owner, context.method, params)
        try:
            answers = suspension.observed(time.monotonic() + session.limits.waiting_seconds)
        except RemoteError:
            # There is no room for the arguments of one more waiting handler: it ends, and is replayed from the journal.
            context.question_result = input_required(missing, suspension.handle)
            raise HandlerEnded from None
        journal.answered = suspension.handle
        return answers

    def run_once(self, key: str, action: Callable[[], Any]) -> Any:
        """Run an action, with a note before and after it if the call goes on after an answer.

        Its journal was taken then, so that no process repeats the action. The notes tell what has taken place, should this
        process end: see :func:`noted_steps`.

        :raises RemoteError: the note before it cannot be stored.
        """
        handle = self._journal.answered
        if not handle:
            return super().run_once(key, action)
        runtime = self.session.runtime
        try:
            self._note(runtime, handle, key, "begun")
        except BackendError as error:
            runtime.processes.failed(error)
            raise away_error() from error
        done = "failed"
        try:
            value = super().run_once(key, action)
            done = "done"
            return value
        finally:
            try:
                self._note(runtime, handle, key, done)
            except BackendError as error:
                self._warn("ctx.once(%r) has run, which could not be noted: %s", key, error)


    def _note(self, runtime: Runtime, handle: str, key: str, state: str) -> None:
        if self._steps is None or self._steps[0] != handle:
            self._steps = handle, {}
        self._steps[1][key] = state
        steps = json.dumps(self._steps[1]).encode("ascii")
        runtime.processes.backend.put(_key_of(handle), steps, runtime.limits.waiting_seconds)


class _FleetSuspension(Suspension):
    def read(self, responses: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the answers as they came, for the journal."""
        return {key: responses[key] for key in read_answers(self._asked, responses)}


def noted_steps(runtime: Runtime, handle: str) -> str:
    """Return what is noted of the steps that followed an answer, as a sentence; empty if nothing is.

    :param handle: of the journal that was taken with the answer.
    :raises BackendError: the store failed.
    """
    stored = runtime.processes.backend.get(_key_of(handle))
    steps: Dict[str, str] = {} if stored is None else json.loads(stored)
    kinds: List[Tuple[str, str]] = [("done", "done"), ("begun", "begun, and whether it took place is not known"),
                                    ("failed", "failed")]
    said = [f"{', '.join(repr(key[:100]) for key in steps if steps[key] == what)} {text}" for what, text in kinds
            if what in steps.values()]
    return "; ".join(said)


def _key_of(handle: str) -> str:
    return f"once-{digest(handle)}/steps"

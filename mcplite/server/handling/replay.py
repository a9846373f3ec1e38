"""Asks a modern client in a fleet: no thread waits; the handler is called again with the answers so far, in any process.

The client's request is answered with the questions and a state: the journal of the answers so far, signed. A module of
its own because only the servers of a fleet load it.
"""

import json
from typing import Any, Callable, Dict, Mapping, Optional

from ...protocol.opaque import Journal, digest
from .client_questions import Asker, EncodedQuestion, input_required, read_answers
from .questions import Question
from .request_context import RequestContext

__all__ = ["HandlerEnded", "ReplayAsker"]


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
            answers = read_answers(asked, responses, self.session.runtime.log)
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

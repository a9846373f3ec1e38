"""Asking a modern client in a fleet: nothing waits; the handler starts anew with the answers so far, in any process."""

import json
import logging
from typing import Any, Dict, Mapping, Optional

from ...protocol.state import Journal, digest
from .asker import Asker, EncodedQuestion
from .context import Context
from .questions import Question
from .wait import input_required, read_answers

__all__ = ["Replay", "Unanswered"]

_log = logging.getLogger(__name__)


class Unanswered(BaseException):
    """Ends a handler that has asked something; no ``except Exception`` of its own keeps it."""


class Replay(Asker):
    """Asks by answering the request and ending the handler; entered again, it gives the answers that have come.

    :param context: of the handler that asks.
    :param journal: what the request's state says; None for a first request.
    :param given: the answers that came with the request.
    """

    def __init__(self, context: Context, journal: Optional[Journal], given: Mapping[str, Any]) -> None:
        super().__init__(context.session)
        self._context = context
        self._journal = journal or Journal()
        self._place = 0
        #: Answers that came with this request, for the first question that has none yet.
        self._given = given

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        asked = {key: self.prepare(question) for key, question in questions.items()}
        rounds = self._journal.rounds
        mark = digest([[key, question.method, question.params] for key, question in asked.items()])
        if self._place < len(rounds) and rounds[self._place][0] != mark:
            # The handler has asked something else than last time; what was answered since is about other questions.
            _log.warning("%r asks something else than before it was entered again: its earlier answers are dropped",
                         self._context.method)
            del rounds[self._place:]
            self._given = {}
        known: Dict[str, Any] = {}
        if self._place < len(rounds):
            known = rounds[self._place][1]
        elif not named and not rounds:
            self._given = {}  # a first request cannot answer what it does not know by name
        responses = {**known, **self._new(asked, known)}
        answers = read_answers(asked, responses)
        kept = {key: responses[key] for key in answers}
        rounds[self._place:] = [(mark, kept), *rounds[self._place + 1:]]
        if len(answers) < len(asked):
            self._suspend({key: question for key, question in asked.items() if key not in answers})
        self._place += 1
        return {key: answers[key] for key in asked}

    def _new(self, asked: Mapping[str, EncodedQuestion], known: Mapping[str, Any]) -> Dict[str, Any]:
        """Take what this request brings for these questions."""
        if len(known) == len(asked):
            return {}
        given, self._given = self._given, {}
        return {key: answer for key, answer in given.items() if key in asked and key not in known}

    def _suspend(self, missing: Mapping[str, EncodedQuestion]) -> None:
        context, session = self._context, self._context.session
        if not context.explicit:
            self._journal.entered += 1
        self._journal.notes = context.notes or {}
        state = session.runtime.states.write(self._journal, session.owner, context.method, context.incoming.params)
        context.unanswered = input_required(missing, state)
        raise Unanswered

    def note(self, value: Any) -> Any:
        try:
            # As it will be when it comes back, so that the handler sees the same each time.
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(f"ctx.once() was to note {type(value).__name__}, which cannot travel as JSON ({error}); return"
                            " plain data from the action") from error

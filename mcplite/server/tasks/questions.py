"""Asks the client of a task: the questions lie in its record until a request of the client has brought the answers."""

from typing import Any, Dict, List, Mapping, Set

from ...errors import MissingCapability, ProtocolError, RemoteError, remote_error
from ...protocol.opaque import digest
from ...rpc.tracing import get_logger
from ..handling.client_questions import Asker, EncodedQuestion
from ..handling.questions import Question
from .context import TaskSession
from .record import TaskRecord

__all__ = ["QuestionBoard", "TaskAsker"]

_log = get_logger(__name__)
#: How often a question is asked whose answers do not fit.
_ROUNDS = 10


class QuestionBoard:
    """What an asker needs of the run of its task."""

    def record(self) -> TaskRecord:
        """Return the record as it is now.

        :raises Cancelled: the task was cancelled, or its time is over.
        """
        raise NotImplementedError

    def ask(self, questions: Mapping[str, Dict[str, Any]], digests: Mapping[str, str]) -> Dict[str, Any]:
        """Put questions into the record, wait, and return what came for each: ``{"result": ...}`` or ``{"error": ...}``.

        :raises Cancelled: the task was cancelled meanwhile.
        """
        raise NotImplementedError


class TaskAsker(Asker):
    """Asks the client of a task.

    :param session: of the client, as the task has it.
    :param board: takes the questions.
    """

    def __init__(self, session: TaskSession, board: QuestionBoard) -> None:
        super().__init__(session)
        self._board = board
        self._askable = session.askable
        #: The keys of this run; each stands for one question in the life of a task.
        self._used: Set[str] = set()

    @property
    def reachable(self) -> bool:
        return self._askable

    def _require(self, method: str, capability: Dict[str, Any], mode: str = "") -> None:
        if not self.reachable:
            raise MissingCapability(
                f"a task can ask a client of revision {self._revision} only in a session, and this server keeps none, as it is"
                " stateless or a fleet; serve it from one process for that", data={"requiredCapabilities": capability})
        super()._require(method, capability, mode)

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        missing = {key: self.prepare(question) for key, question in questions.items()}
        answers: Dict[str, Any] = {}
        problem: Exception = ProtocolError("there was no answer")
        for _ in range(_ROUNDS):
            if not missing:
                return {key: answers[key] for key in questions}
            known = self._board.record().asked
            keys = {key: self._unique(key, question, known) for key, question in missing.items()}
            given = self._board.ask({keys[key]: _members(question) for key, question in missing.items()},
                                    {keys[key]: _digest(question) for key, question in missing.items()})
            failed: List[RemoteError] = []
            for key in list(missing):
                answer = given[keys[key]]
                if "error" in answer:
                    error = answer["error"]
                    failed.append(remote_error(error.get("code"), error.get("message"), error.get("data")))
                    continue
                try:
                    answers[key] = missing[key].read(answer["result"])
                    del missing[key]
                except ProtocolError as error:
                    # It is asked again, under another key: clients that answer each key once would not answer this one.
                    problem = error
                    self._warn("the client's answer to %.100r is asked for again: %s", key, error)
            if failed:
                raise failed[0]
        raise problem

    def _unique(self, key: str, question: EncodedQuestion, known: Mapping[str, str]) -> str:
        """Return a key that stands for this question alone, also in an earlier run of the task."""
        asked, number, chosen = _digest(question), 1, key
        while chosen in self._used or known.get(chosen, asked) != asked:
            number += 1
            chosen = f"{key}-{number}"
        self._used.add(chosen)
        return chosen


def _members(question: EncodedQuestion) -> Dict[str, Any]:
    members: Dict[str, Any] = {"method": question.method}
    if question.params is not None:
        members["params"] = question.params
    if question.as_task:
        members["task"] = True  # for this server alone: clients that see these members have no such tasks
    return members


def _digest(question: EncodedQuestion) -> str:
    return digest([question.method, question.params])

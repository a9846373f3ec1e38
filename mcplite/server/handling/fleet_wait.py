"""Asks a modern client in a fleet with a shared backend: the handler waits in its process, and can be replayed in another one.

The state that travels names the process and a journal in the backend. The process that gets the client's next request
passes it on to the one where the handler waits (sessions/handover.py); once that one has ended, it replays the journal.
Who continues takes the journal first, so of several processes one does.
"""

import json
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...errors import BackendError, RemoteError
from ...protocol.opaque import digest
from ..runtime.outage import away_error
from ..runtime.runtime import Runtime
from .client_questions import EncodedQuestion, input_required, read_answers
from .replay import HandlerEnded, ReplayAsker
from .wait import Suspension

__all__ = ["FleetAsker", "noted_steps"]


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
        states, leases, outage = session.runtime.states, session.runtime.leases, session.runtime.outage
        assert leases is not None and outage is not None, "a handler waits like this only with a shared backend"
        outage.check()
        suspension = _FleetSuspension(context, missing)
        try:
            suspension.number = leases.number
            sender = session.sender_of(context.incoming)
            suspension.handle = states.write(journal, session.owner, context.method, params, sender)
            suspension.kept = [journal.once_results, list(journal.rounds)]
        except BackendError as error:
            outage.found(error)
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
            if runtime.outage is not None:
                runtime.outage.found(error)
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
        assert runtime.fleet is not None and runtime.fleet.backend is not None
        steps = json.dumps(self._steps[1]).encode("ascii")
        runtime.fleet.backend.put(_key_of(handle), steps, runtime.limits.waiting_seconds)


class _FleetSuspension(Suspension):
    def read(self, responses: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the answers as they came, for the journal."""
        return {key: responses[key] for key in read_answers(self._asked, responses, self._context.session.runtime.log)}


def noted_steps(runtime: Runtime, handle: str) -> str:
    """Return what is noted of the steps that followed an answer, as a sentence; empty if nothing is.

    :param handle: of the journal that was taken with the answer.
    :raises BackendError: the store failed.
    """
    assert runtime.fleet is not None and runtime.fleet.backend is not None
    stored = runtime.fleet.backend.get(_key_of(handle))
    steps: Dict[str, str] = {} if stored is None else json.loads(stored)
    kinds: List[Tuple[str, str]] = [("done", "done"), ("begun", "begun, and whether it took place is not known"),
                                    ("failed", "failed")]
    said = [f"{', '.join(repr(key[:100]) for key in steps if steps[key] == what)} {text}" for what, text in kinds
            if what in steps.values()]
    return "; ".join(said)


def _key_of(handle: str) -> str:
    return f"once-{digest(handle)}/steps"

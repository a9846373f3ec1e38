"""InputRounds: answers a result that requires input with the user's handlers, and sends the request again.

Modern sessions use it for a server that asks. Legacy servers send questions as requests, which
:class:`~.legacy.LegacyClientSession` answers.
"""

from __future__ import annotations

import contextvars
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...errors import (
    Cancelled,
    ConnectionClosed,
    InputNeeded,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    RemoteError,
    RequestTimeout,
)
from ...rpc.cancel import CancelToken
from ...rpc.deadline import WakeSignal, undo, wait_interruptibly
from ...rpc.tracing import get_logger
from ..call import Call, sleep
from .base import ClientSession

__all__ = ["InputRounds"]

_log = get_logger(__name__)
#: The most rounds of one request (MRTR-29).
_MOST_ROUNDS = 10
#: Seconds before a request is sent again after a round without questions; doubled each time (MRTR-23).
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0


class InputRounds:
    """The rounds of input of one request.

    :param session: with the server; the handlers of its client answer, on the worker threads of its connection.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._name = session.name

    def run(self, call: Call, result: Dict[str, Any], spent: float, send: Callable[[Call], Dict[str, Any]]) -> Dict[str, Any]:
        """Send a request again with answers until the result is complete; return that.

        :param result: of the first request.
        :param spent: seconds that the first request took of ``max_timeout``; the time of the handlers does not count.
        :param send: sends the request of one round and returns its result.
        :raises InputNeeded: the call leaves the answers to its caller.
        :raises ProtocolError: the server asks a forbidden question, or too many.
        :raises Cancelled: the caller has cancelled the call, or the user has refused an answer.
        :raises InternalError: a handler of this program has failed.
        :raises RequestTimeout: the server did not answer a request in time.
        :raises ConnectionClosed: the client was closed meanwhile.
        """
        method, pause, most, now = call.method, _FIRST_PAUSE_SECONDS, call.max_timeout, self._session.now
        for _ in range(_MOST_ROUNDS):
            requests, state = self._read(result, method)
            if not call.rounds:
                raise InputNeeded(f"{self._name} needs answers before it continues with {method!r}",
                                  requests=requests, state=state)
            params: Dict[str, Any] = dict(call.params or {})
            params.pop("inputResponses", None)
            params.pop("requestState", None)
            if requests:
                params["inputResponses"] = self.answers(requests, call.cancel)
            else:
                if most is not None and spent + pause >= most:
                    raise self._too_late(method, most)
                sleep(pause, call.cancel)
                spent += pause
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            if state is not None:
                params["requestState"] = state  # MRTR-24 to MRTR-26
            begun = now() - spent
            try:
                result = send(call._replace(params=params, max_timeout=None if most is None else max(most - spent, 0.001)))
            except RequestTimeout as error:
                if most is None or now() - begun < most:
                    raise
                raise self._too_late(method, most) from error
            if result.get("resultType") != "input_required":
                return result
            spent = now() - begun
        raise ProtocolError(f"{self._name} still asked for input after {_MOST_ROUNDS} rounds of {method!r}, and a"
                            " client takes no more: the server has to ask several questions in one round, as with"
                            " ctx.ask({...})", result)

    def _too_late(self, method: str, most: float) -> RequestTimeout:
        return RequestTimeout(f"{self._name} did not answer {method!r} within {most:g} s in all, without the time of its"
                              " questions (max_timeout)")

    def _read(self, result: Dict[str, Any], method: str) -> Tuple[Dict[str, Any], Optional[str]]:
        """Return the questions of a result, and its state."""
        requests, state, asking = result.get("inputRequests"), result.get("requestState"), self._session.revision.asking_methods
        if requests == []:
            requests = None  # as PHP writes an empty object
        if method not in asking:
            raise ProtocolError(f"{self._name} answered {method!r} with questions, which are allowed only"
                                f" for {', '.join(sorted(asking))}", result)
        if requests is None and state is None:
            raise ProtocolError(f"{self._name} needs input for {method!r}, but does not say which", result)
        if state is not None and not isinstance(state, str):
            raise ProtocolError(f"{self._name} gave a requestState for {method!r} that is not a string", result)
        requests = {} if requests is None else requests
        if not isinstance(requests, dict):
            raise ProtocolError(f"{self._name} answered {method!r} with inputRequests that are not an object", result)
        self.check(requests, result)
        return requests, state

    def check(self, requests: Mapping[str, Any], raw: Any) -> None:
        """Check that questions are requests.

        :param raw: the message that has them, for the error.
        :raises ProtocolError: one is not.
        """
        for key, request in requests.items():
            if not isinstance(request, dict) or not isinstance(request.get("method"), str) or type(
                    request.get("params", {})) is not dict and request["params"] != []:  # as PHP writes an empty object
                raise ProtocolError(f"{self._name} gave an input request {key[:100]!r} that is not a request", raw)

    def answers(self, requests: Mapping[str, Any], cancel: Optional[CancelToken]) -> Dict[str, Any]:
        """Return the answers to all questions; their handlers run in parallel (MRTR-22).

        :param requests: the questions by key, which are checked.
        :raises ProtocolError: one is not allowed, or there are too many.
        :raises Cancelled, InternalError, ConnectionClosed: as for :meth:`run`.
        """
        session = self._session
        if not all([session.question_rate.admit() for _ in requests]):
            raise ProtocolError(f"{self._name} asks more questions than this client takes in a minute"
                                " (questions_per_minute=)")
        token, done, context = CancelToken(), WakeSignal(), contextvars.copy_context()
        outcomes: Dict[str, Any] = {}
        keys = iter(list(requests))  # each thread takes the next key; a step is one call into C, so no lock is needed

        def work() -> None:
            # On a worker thread, which may block in a handler; the calling thread does not, so that it can be cancelled.
            for key in keys:
                method, params = requests[key]["method"], requests[key].get("params") or {}
                try:
                    token.check()  # no further handler runs after a failure or a cancellation
                    # Each handler has the context variables of the thread that called answers(). Handlers run at the same
                    # time, so each gets a copy of its own.
                    outcomes[key] = context.copy().run(self._answer, method, params, token)
                except (Exception, SystemExit, KeyboardInterrupt) as error:
                    if not isinstance(error, Exception):
                        _log.exception("the handler of %.100r failed", method)
                        error = InternalError(f"the handler of {method[:100]!r} failed")
                    outcomes[key] = error
                    token.cancel("another answer is missing")
                if len(outcomes) == len(requests):
                    done.set()

        uncancels = [one.add_callback(lambda one=one: token.cancel(one.reason))  # type: ignore[misc]
                     for one in (session.ended, cancel) if one is not None]
        uncancels.append(token.add_callback(done.set))
        try:
            with undo(lambda: token.cancel("the caller has left")):
                for _ in range(min(len(requests), session.connection.max_handlers)):
                    session.connection.workers.spawn(work)
                wait_interruptibly(done.wait, None)
        finally:
            for uncancel in uncancels:
                uncancel()
        if cancel is not None:
            cancel.check()
        if session.ended.cancelled:
            raise ConnectionClosed(f"the connection to {self._name} was closed while its questions were answered")
        failures: List[Exception] = [outcome for outcome in dict(outcomes).values() if isinstance(outcome, Exception)]
        if failures:
            # The first failure is the reason; it has cancelled the other handlers.
            raise next((error for error in failures if not isinstance(error, Cancelled)), failures[0])
        return {key: outcomes[key] for key in requests}

    def _answer(self, method: str, params: Dict[str, Any], token: CancelToken) -> Dict[str, Any]:
        session = self._session
        handlers, revision = session.connection.handlers, session.revision
        try:
            return session.observed_question(  # type: ignore[no-any-return]
                method, params, None, lambda: handlers.answer(method, params, revision, token))
        except (MethodNotFound, InvalidParams) as error:
            # A question cannot be answered with an error, and the server knows the client's capabilities (MRTR-08).
            raise ProtocolError(f"{self._name} asked for {method[:100]!r} in a way that this client did not declare:"
                                f" {error.message}", params) from error
        except InternalError:
            raise  # a handler of this program has failed, which is logged already
        except RemoteError as error:
            # MRTR-30: a refusal has no form on the wire; the request is not sent again.
            raise Cancelled(f"{method!r} was not answered: {error.message}") from error

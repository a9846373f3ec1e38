"""InputRounds: answers a result that requires input with the user's handlers, and sends the request again.

Each modern session has one. Legacy servers send questions as requests, which :class:`~.connection.ServerConnection`
answers.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections import deque
from typing import Any, Callable, Dict, List, Mapping, Optional

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
from ...revisions import Revision
from ...rpc.cancel import CancelToken
from ...rpc.deadline import wait_interruptibly
from ...rpc.tracing import get_logger
from ..call import Call
from .pacing import RateLimit
from .server_connection import ServerConnection

__all__ = ["InputRounds"]

_log = get_logger(__name__)
#: The most rounds of one request (MRTR-29).
_MOST_ROUNDS = 10
#: Seconds before a request is sent again after a round without questions; doubled each time (MRTR-23).
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0
#: Seconds after which a caller that waits for answers checks for signals.
_SIGNAL_CHECK_SECONDS = 0.5


class InputRounds:
    """The rounds of input of all requests of one session.

    :param connection: to the server; its handlers answer the questions, on its worker threads.
    :param rate: limits the number of questions (ELIC-22, SAMP-21).
    :param observe: returns the answer to a question, ``observe(method, params, answer)``, and tells the client's observers.
    """

    def __init__(self, connection: ServerConnection, rate: RateLimit,
                 observe: Callable[[str, Dict[str, Any], Callable[[], Any]], Any]) -> None:
        self._observe = observe
        self._name = connection.name
        self._now = connection.peer.now
        self._handlers = connection.handlers
        self._workers = connection.workers
        self._max_handlers = connection.max_handlers
        self._rate = rate
        #: Cancelled when the connection ends.
        self._end = CancelToken()

    def close(self) -> None:
        """Cancel all handlers that are answering: the connection is over."""
        self._end.cancel("the connection is over")

    def run(self, call: Call, result: Dict[str, Any], spent: float, send: Callable[[Call], Dict[str, Any]],
            revision: Revision) -> Dict[str, Any]:
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
        method, pause = call.method, _FIRST_PAUSE_SECONDS
        for _ in range(_MOST_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            requests, state = self._read(result, method, revision)
            if not call.rounds:
                raise InputNeeded(f"{self._name} needs answers before it continues with {method!r}",
                                  requests=requests, state=state)
            params: Dict[str, Any] = dict(call.params or {})
            params.pop("inputResponses", None)
            params.pop("requestState", None)
            if requests:
                params["inputResponses"] = self.answers(requests, revision, call.cancel)
            else:
                _pause(pause, call.cancel)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            if state is not None:
                params["requestState"] = state  # MRTR-24 to MRTR-26
            left = None if call.max_timeout is None else max(call.max_timeout - spent, 0.001)
            begun = self._now()
            try:
                result = send(call._replace(params=params, max_timeout=left))
            except RequestTimeout as error:
                if call.max_timeout is None or spent + self._now() - begun < call.max_timeout:
                    raise
                raise RequestTimeout(f"{self._name} did not answer {method!r} within {call.max_timeout:g} s in all, without"
                                     " the time of its questions (max_timeout)") from error
            spent += self._now() - begun
        if result.get("resultType") != "input_required":
            return result
        raise ProtocolError(f"{self._name} still asked for input after {_MOST_ROUNDS} rounds of {method!r}", result)

    def _read(self, result: Dict[str, Any], method: str, revision: Revision) -> Any:
        requests, state = result.get("inputRequests"), result.get("requestState")
        if requests == []:
            requests = None  # as PHP writes an empty object
        if method not in revision.asking_methods:
            raise ProtocolError(f"{self._name} answered {method!r} with questions, which are allowed only"
                                f" for {', '.join(sorted(revision.asking_methods))}", result)
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

    def answers(self, requests: Mapping[str, Any], revision: Revision, cancel: Optional[CancelToken]) -> Dict[str, Any]:
        """Return the answers to all questions; their handlers run in parallel (MRTR-22).

        :param requests: the questions by key, which are checked.
        :raises ProtocolError: one is not allowed, or there are too many.
        :raises Cancelled, InternalError, ConnectionClosed: as for :meth:`run`.
        """
        if not all([self._rate.admit() for _ in requests]):
            raise ProtocolError(f"{self._name} asks more questions than this client takes in a minute"
                                " (questions_per_minute=)")
        token = CancelToken()
        uncancels = [one.add_callback(lambda one=one: token.cancel(one.reason))  # type: ignore[misc]
                     for one in (self._end, cancel) if one is not None]
        outcomes: Dict[str, Any] = {}
        context = contextvars.copy_context()
        waiting = deque(requests)
        # Not an Event: an interrupt that hits the main thread on its way into wait() could leave the event's lock held, and
        # a thread that cancels would wait for it without end. A SimpleQueue has no lock in Python code.
        done: "queue.SimpleQueue[None]" = queue.SimpleQueue()

        def answer(key: str) -> None:
            request = requests[key]
            try:
                token.check()  # no further handler runs after a failure or a cancellation
                # With the caller's context variables, as if the caller answered. Handlers that run at the same time need
                # a copy each.
                params = request.get("params") or {}
                outcomes[key] = context.copy().run(self._answer, request["method"], params, revision, token)
            except Exception as error:
                outcomes[key] = error
                token.cancel("another answer is missing")
            except (SystemExit, KeyboardInterrupt):
                _log.exception("the handler of %.100r failed", request["method"])
                outcomes[key] = InternalError(f"the handler of {request['method'][:100]!r} failed")
                token.cancel("another answer is missing")
            if len(outcomes) == len(requests):
                done.put(None)

        def work() -> None:
            # On a worker thread, which may block in a handler; the calling thread does not, so that it can be cancelled.
            while waiting:
                try:
                    key = waiting.popleft()
                except IndexError:
                    return
                answer(key)

        uncancels.append(token.add_callback(lambda: done.put(None)))
        left = True
        try:
            for _ in range(min(len(requests), self._max_handlers)):
                self._workers.spawn(work)
            # Waits in short steps: Python handles a signal that arrives while this thread is entering a wait only after
            # the wait, and Ctrl-C must not have to wait for the user's answer.
            while True:
                try:
                    done.get(timeout=_SIGNAL_CHECK_SECONDS)
                    left = False
                    break
                except queue.Empty:
                    continue
        finally:
            if left:
                token.cancel("the caller has left")
            for uncancel in uncancels:
                uncancel()
        if cancel is not None:
            cancel.check()
        if self._end.cancelled:
            raise ConnectionClosed(f"the connection to {self._name} was closed while its questions were answered")
        failures: List[Exception] = [outcome for outcome in dict(outcomes).values() if isinstance(outcome, Exception)]
        if failures:
            # The first failure is the reason; it has cancelled the other handlers.
            raise next((error for error in failures if not isinstance(error, Cancelled)), failures[0])
        return {key: outcomes[key] for key in requests}

    def _answer(self, method: str, params: Dict[str, Any], revision: Revision, token: CancelToken) -> Dict[str, Any]:
        try:
            return self._observe(  # type: ignore[no-any-return]
                method, params, lambda: self._handlers.answer(method, params, revision, token))
        except (MethodNotFound, InvalidParams) as error:
            # A question cannot be answered with an error, and the server knows the client's capabilities (MRTR-08).
            raise ProtocolError(f"{self._name} asked for {method[:100]!r} in a way that this client did not declare:"
                                f" {error.message}", params) from error
        except InternalError:
            raise  # a handler of this program has failed, which is logged already
        except RemoteError as error:
            # MRTR-30: a refusal has no form on the wire; the request is not sent again.
            raise Cancelled(f"{method!r} was not answered: {error.message}") from error


def _pause(seconds: float, cancel: Optional[CancelToken]) -> None:
    if cancel is None:
        wait_interruptibly(threading.Event().wait, seconds)
    elif cancel.wait(seconds):
        cancel.check()

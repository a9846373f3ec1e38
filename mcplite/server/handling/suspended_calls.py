"""Suspended calls: a client without a handshake gets questions as the result of its request, and answers by another request.

::

    tools/call ------> handler ---- ctx.elicit() ---> suspended: the request is answered with the questions and a state
                          ^                               |
                          |   the answers                 |   tools/call once more, with the answers and the state
                          +-------------------------------+-- take(): which handler is that?

In one process, and on a pipe, the handler's thread waits, and the state is a random handle of it. The client may never
return, so handlers that wait are bounded in number, in bytes and in time (MRTR-09).

The processes of a fleet that share only keys cannot wait: the handler ends, and any process calls it again. Its replay log,
the record of the answers so far, is the state, sealed. With a shared backend the handler waits, and its log is stored as
well: :mod:`mcplite.fleet.remote_answers` finds the handler in the process where it waits. If that process has ended, it replays
the log.
"""

import contextlib
import functools
import secrets
import threading
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Tuple

from ...errors import SERVER_BUSY, Cancelled, InvalidParams, RemoteError
from ...protocol.jsonrpc import first_members, memory_size
from ...protocol.opaque import ReplayLog, bound_to, digest, open_sealed, request_params, seal
from ...rooms import load
from ...rpc.tracing import get_logger
from ..catalog.registry import granted_scopes
from ..eviction import Shares
from ..runtime.observer import observed_question
from ..runtime.runtime import Runtime
from .client_questions import Asker, EncodedQuestion, input_required, read_answers, through_json
from .context import RequestContext
from .dispatch import answer_request
from .questions import Question
from .session import Session

__all__ = ["CountedCall", "ResultAsker", "SealedCalls", "SuspendedCall", "SuspendedCalls", "Work", "refused_state",
           "request_digest", "resume", "suspended_calls_of"]

_log = get_logger(__name__)
#: The function that a worker runs for a request; None if a waiting handler continues and answers the request itself.
Work = Optional[Callable[[], object]]
#: Bytes that the thread of a waiting handler takes.
_THREAD_BYTES = 32_768
#: Bytes of memory of the params that a context keeps while its handler waits.
_SHORT_PARAMS = 4096
#: Characters of a state that travels whole, in the body of a request.
_MAX_STATE = 65_536


def refused_state() -> InvalidParams:
    """Return the error for a requestState that cannot be used.

    One text for every cause, so that it leaks nothing (MRTR-13).
    """
    return InvalidParams("Invalid or expired requestState: send the request again without it")


def request_digest(context: RequestContext) -> str:
    """Return the digest of a request and its client, to which handles and sealed logs are bound (MRTR-14, MRTR-16)."""
    session, incoming = context.session, context.incoming
    return bound_to(session.runtime.catalog.name, session.owner, incoming.method, incoming.params)


class CountedCall:
    """One handler that waits for its client, as the limits see it.

    :param sender: whose share it counts to.
    :param size: the bytes of memory of what its request has brought.
    :param peer: the connection of the request.
    :param cancel: called with a reason if the client cannot return, or if another call needs the room.
    :param owner: the key of the principal, for its limit; None without authentication.
    """

    #: If the state names this process, its id: other processes then pass on to it what the client sends. Otherwise 0.
    process = 0

    def __init__(self, sender: str, size: int, peer: object, cancel: Callable[[str], object],
                 owner: Optional[str] = None) -> None:
        self.sender = sender
        self.size = size
        self.peer = peer
        self.cancel = cancel
        self.owner = owner


class SuspendedCall(CountedCall):
    """One handler between its questions and their answers.

    :param context: of the handler.
    :param asked: the questions.
    :param bound: the digest of the request.
    :param kept: what the handler keeps for the time after the answers, besides its request.
    """

    #: Whether this process has tried to take the log from the store, and the operation failed: the store may have removed the
    #: log, although its answer did not arrive.
    in_doubt = False

    def __init__(self, context: RequestContext, asked: Mapping[str, EncodedQuestion], bound: str, kept: Any,
                 process: int) -> None:
        session, incoming = context.session, context.incoming
        size = memory_size([request_params(incoming.params), kept], session.limits.waiting_bytes)
        super().__init__(session.sender_of(incoming), size, incoming.peer, self._cancel, session.owner)
        self.bound = bound
        self.process = process
        self._context = context
        self._asked = asked
        #: Set when the answers are there, and when the handler is cancelled.
        self._woken = threading.Event()
        self._answers: Optional[Tuple[Mapping[str, Any], Dict[str, Any]]] = None

    def wait(self, handle: str, state: str, deadline: float) -> Tuple[Mapping[str, Any], Dict[str, Any]]:
        """Answer the present request with the questions; return the client's answers as they came, and as they were read.

        :param handle: by which the answers find this call.
        :raises RemoteError: there is no room for its arguments; nothing was sent.
        :raises Cancelled: the client did not return in time, or has disconnected.
        """
        context, session = self._context, self._context.session
        runtime, token = session.runtime, context.token
        with contextlib.ExitStack() as stack:
            for asked in self._asked.values():
                stack.enter_context(observed_question(runtime.observers, session, asked.method, asked.params, None))
            calls = suspended_calls_of(runtime)
            calls.add(handle, self)
            self._forget_request()
            uncancel = token.add_callback(self._woken.set)
            try:
                if session.peer.closed:
                    token.cancel("the server is stopping")
                context.send_held_progress()
                context.respond(input_required(self._asked, state))
                with session.peer.without_slot():
                    self._woken.wait(max(0.0, deadline - time.monotonic()))
            finally:
                uncancel()
                left = calls.remove(handle)
            if not left:
                # Another thread has removed the call, and sets the event soon: it brings the answers, or needs the room.
                self._woken.wait()
            elif not token.cancelled:
                token.cancel("the client did not come back with the answers to its questions")
            if token.cancelled or self._answers is None:
                raise Cancelled(token.reason)
            return self._answers

    def _forget_request(self) -> None:
        """Keep of the request no more than its short params: the client's next request brings all of them again."""
        context = self._context
        params = first_members(request_params(context.incoming.params), _SHORT_PARAMS)
        context.incoming.params = params
        context.take_params(params)
        context.session.forget_request()

    def _cancel(self, reason: str) -> None:
        self._context.token.cancel(reason)
        self._woken.set()

    def read(self, given: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the answers that fit, converted for the handler.

        :raises InvalidParams: an answer is not valid.
        """
        return read_answers(self._asked, given)

    def go_on(self, new: RequestContext, answers: Dict[str, Any]) -> None:
        """Continue the handler, which answers the client's new request."""
        context, incoming = self._context, new.incoming
        incoming.take_over(context.incoming)
        context.session, context.incoming = new.session, incoming
        context.take_params({name: value for name, value in incoming.params.items()
                             if name not in ("inputResponses", "requestState")})
        self._answers = new.given, answers
        self._woken.set()


class SuspendedCalls:
    """The handlers of one server that wait for their clients, by handle.

    A handle can be used once (MRTR-17). At a limit the oldest waiting handler of the sender with the most is cancelled.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._limits = limits = runtime.limits
        self._shares: "Shares[str]" = Shares(limits.waiting_calls, limits.waiting_bytes)
        #: Guards ``_calls``; held for dictionary operations only.
        self._lock = threading.Lock()
        self._calls: Dict[str, CountedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, handle: str, call: CountedCall) -> None:
        """Add a call.

        :raises RemoteError: what it keeps is larger than all waiting calls together may be.
        """
        with self._lock:
            # The call is in the table before its share is counted: as soon as it is counted, another thread may evict it, and
            # must find it here.
            self._calls[handle] = call
            owned = [] if call.owner is None else [old for old, one in self._calls.items() if one.owner == call.owner]
        evicted = self._shares.add(handle, call.sender, call.size + _THREAD_BYTES)
        if evicted is None:
            self.remove(handle)
            raise RemoteError("Server busy: the arguments of this call are too large to be kept until its questions are"
                              " answered", code=SERVER_BUSY)
        for old in owned[:max(0, len(owned) - self._limits.waiting_per_principal)] + evicted:
            self.evict(old)

    @contextlib.contextmanager
    def counted(self, call: CountedCall) -> Iterator[None]:
        """Return a block in which a call counts to the limits.

        No other request continues this call, so no client gets its handle.
        """
        handle = secrets.token_urlsafe(24)
        self.add(handle, call)
        try:
            yield
        finally:
            self.remove(handle)

    def evict(self, handle: str, reason: str = "the server needed the room for the questions of other calls") -> None:
        """Cancel a call, if it is there."""
        call = self._calls.get(handle)
        if call is not None and self.remove(handle):
            call.cancel(reason)

    def find(self, handle: str, bound: str) -> Optional[SuspendedCall]:
        """Return the call of a handle, if the request with this digest may continue it; it stays in the table."""
        call = self._calls.get(handle)
        return call if isinstance(call, SuspendedCall) and call.bound == bound else None

    def remove(self, handle: str) -> bool:
        """Remove a handle; False if it was removed before."""
        with self._lock:
            removed = self._calls.pop(handle, None) is not None
        self._shares.remove(handle)
        return removed

    def cancel(self, which: Callable[[CountedCall], bool], reason: str) -> None:
        """Cancel the calls for which *which* returns True.

        They are those of a connection that has ended, or those whose states name an id that this process has lost.
        """
        with self._lock:
            gone = list(filter(which, self._calls.values()))
        for call in gone:
            call.cancel(reason)

    def take(self, context: RequestContext, state: str) -> Work:
        """Go on with the call of a state; each state can be used once.

        If its handler waits in this process, wake it and return None. If the handler of a fleet does not wait, return the
        function that calls it again.

        :param context: of the client's new request.
        :raises InvalidParams: the state cannot be used; or an answer is not valid, and then the state can be used again.
        """
        call = self.find(state, request_digest(context))
        answers = None if call is None else call.read(context.given)
        if call is None or answers is None or not self.remove(state):
            raise refused_state()
        call.go_on(context, answers)
        return None


class SealedCalls(SuspendedCalls):
    """The calls of a fleet that shares only keys: none waits, and their logs travel, sealed.

    :param clock: returns seconds since 1970, since other processes read the state.
    """

    #: Whether a handler waits in its question, and goes on after it. If not, it is called again from its beginning.
    waits = False
    #: Characters of a sealed log.
    longest: float = _MAX_STATE

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.time) -> None:
        super().__init__(runtime)
        assert runtime.fleet is not None, "only the handlers of a fleet are called again"
        self._keys = runtime.fleet.keys
        self._clock = clock

    def seal(self, log: ReplayLog, bound: str) -> str:
        """Return the sealed log of a request.

        :param bound: the digest of the request.
        :raises ValueError: it is too long to travel.
        """
        text = seal(log.dump(self._clock() + self._limits.waiting_seconds), self._keys[0], bound)
        if len(text) > self.longest:
            raise ValueError(f"the answers and the results of ctx.once in this call take {len(text)} bytes, and {_MAX_STATE}"
                             " can travel; return less from ctx.once, or keep them in a backend:"
                             " Server(backend=...)")
        return text

    def open(self, text: str, bound: str) -> Optional[ReplayLog]:
        """Return a sealed log; None if it is forged, too long or expired, or for another request or owner."""
        content = open_sealed(text, self._keys, bound) if len(text) <= self.longest else None
        return None if content is None else ReplayLog.load(content, self._clock())

    def save(self, context: RequestContext, log: ReplayLog, bound: str) -> Tuple[str, str, int]:
        """Return the handle under which the handler waits, the state that travels, and the id of the process that it names.

        A handle that is empty and an id of 0 are for a handler that does not wait.

        :raises ValueError: the log is too long.
        """
        return "", self.seal(log, bound), 0

    def take(self, context: RequestContext, state: str) -> Work:
        # A handler that asks on a pipe waits, as in one process.
        return (super().take if context.incoming.facts is None else self.find_stored)(context, state)

    def find_stored(self, context: RequestContext, state: str) -> Work:
        """Go on with a call as :meth:`take` does; the state contains the log of the call, or names it."""
        log = self.open(state, request_digest(context))
        if log is None:
            raise refused_state()
        return replay(context, log)

    def step(self, log: ReplayLog, key: str) -> ContextManager[object]:
        """Return a block for the action of :meth:`Context.once`."""
        return contextlib.nullcontext()


def suspended_calls_of(runtime: Runtime) -> SuspendedCalls:
    """Return the suspended calls of a server; they are made when they are first needed."""
    calls: Optional[SuspendedCalls] = runtime.suspended_calls
    if calls is None:
        kind: Any = SuspendedCalls if runtime.fleet is None else SealedCalls
        if runtime.fleet is not None and runtime.fleet.backend is not None:
            kind = load("a question with a shared backend")  # fleet.remote_answers.SharedCalls
        calls = runtime.keep_suspended_calls(kind)
    return calls


def resume(context: RequestContext) -> Work:
    """Go on with a call, with a request that brings answers, a state, or both.

    If a handler of this process waits for the answers, its thread is woken. Otherwise the returned function runs the handler.

    :raises InvalidParams: the answers or the state are not valid.
    """
    params, session = context.incoming.params, context.session
    given, state = params.get("inputResponses", {}), params.get("requestState")
    if not isinstance(given, dict):
        raise InvalidParams("params.inputResponses must be an object")
    for key, answer in given.items():
        if not isinstance(answer, dict):
            raise InvalidParams(f"params.inputResponses[{key[:100]!r}] must be an object")  # MRTR-19
    context.given = dict(given)
    target = context.target
    gone = target is not None and (
        # What the request names does not exist, or this caller may not use it any more.
        target.entry is None and target.custom_handler is None
        or target.scopes and context.http is not None and not granted_scopes(context.principal).issuperset(target.scopes))
    if state is None or gone:
        return functools.partial(answer_request, context)
    if not isinstance(state, str):
        raise InvalidParams("params.requestState must be a string")
    return suspended_calls_of(session.runtime).take(context, state)


def replay(context: RequestContext, log: ReplayLog) -> Work:
    """Return what calls a handler again, with the answers so far."""
    context.replay_log, context.round = log, log.entered
    return functools.partial(answer_request, context)


class HandlerEnded(BaseException):
    """Ends a handler that has asked a question; ``except Exception`` in the handler does not catch it."""


class _OpenQuestions:
    """The questions of one thread of a handler that have no answer yet.

    The deadline is set when they are sent for the first time. ``found`` is what the client has answered to them.
    """

    missing: Mapping[str, EncodedQuestion] = {}
    deadline = 0.0
    found: Optional[Tuple[Mapping[str, Any], Dict[str, Any]]] = None


class ResultAsker(Asker):
    """Asks by the result of the present request; the client's next request brings the answers.

    :param context: of the handler that asks.
    """

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context.session)
        self._context = context
        #: The record of the answers so far, and what keeps it; None where a handler is never called again.
        self._log: Optional[ReplayLog] = None
        self._keeper: Optional[SealedCalls] = None
        calls = suspended_calls_of(context.session.runtime)
        if isinstance(calls, SealedCalls) and context.incoming.facts is not None:
            self._log, self._keeper = context.replay_log or ReplayLog(), calls
            self._results = self._log.once_results
            self._entered = self._log.entered
        self._rounds = 0
        #: Held by the thread that waits for the client. The client's request takes one result, so the questions of the other
        #: threads of a handler wait, and then go into the next result together. With a log each waits for its own result.
        self._asking = threading.RLock()
        self._open: List[_OpenQuestions] = []

    @property
    def session(self) -> Session:
        return self._context.session

    @property
    def waits(self) -> bool:
        return self._keeper is None or self._keeper.waits

    def ask(self, questions: Mapping[str, Question], named: bool = True) -> Dict[str, Any]:
        asked = {key: self.prepare(question) for key, question in questions.items()}
        if self._log is None:
            return self._ask(questions, named, asked)
        with self._asking:
            if self._context.question_result is not None:
                raise HandlerEnded  # another thread has ended the handler with its question
            return self._ask(questions, named, asked)

    def _ask(self, questions: Mapping[str, Question], named: bool, asked: Dict[str, EncodedQuestion]) -> Dict[str, Any]:
        mine = _OpenQuestions()
        # A client may send answers by name in its first request, to questions that it expects. It cannot know generated keys.
        early = self._context.given if named or self._context.replay_log is not None else {}
        recorded = {} if self._log is None else self._recorded(self._log, asked)
        given: Mapping[str, Any] = {**{key: early.pop(key) for key in asked if key in early}, **recorded}
        read = read_answers(asked, given)
        answers: Dict[str, Any] = {}
        while True:
            answers.update(read)
            recorded.update((key, given[key]) for key in read)
            missing = {key: question for key, question in asked.items() if key not in answers}
            if not missing:
                return {key: answers[key] for key in questions}
            mine.missing = missing
            given, read = self._suspend_together(mine)
            # This is another request now, which may declare other capabilities (STAT-13).
            asked = {key: self.prepare(questions[key]) for key in missing if key not in read}

    def _recorded(self, log: ReplayLog, asked: Mapping[str, EncodedQuestion]) -> Dict[str, Any]:
        """Return the entry of the log for these questions: the answers so far, as they came."""
        wanted, at = digest([[key, question.method, question.params] for key, question in asked.items()]), self._rounds
        self._rounds += 1
        if at < len(log.rounds) and log.rounds[at][0] != wanted:
            # The handler asks other questions than last time, so the recorded answers do not belong to them.
            _log.warning("%r asks other questions than in its previous call: the earlier answers are dropped",
                         self._context.method)
            del log.rounds[at:]
            self._context.given.clear()
        if at == len(log.rounds):
            log.rounds.append((wanted, {}))
        return log.rounds[at][1]

    def _suspend_together(self, mine: _OpenQuestions) -> Tuple[Mapping[str, Any], Dict[str, Any]]:
        """Ask the client what is open here and in other threads that wait; return what :meth:`_suspend` does, of *mine* only.

        :raises Cancelled: the request was cancelled, or its handler has returned.
        """
        mine.found = None
        self._open.append(mine)
        try:
            with self._asking:
                if mine.found is None:
                    self._context.check_cancelled()
                    if self._context.incoming.over:
                        raise Cancelled("the handler has returned, so that its client cannot be asked any more")
                    self._ask_for_all(mine)
        finally:
            self._open.remove(mine)
        assert mine.found is not None
        given, read = mine.found
        return given, {key: read[key] for key in mine.missing if key in read}

    def _ask_for_all(self, mine: _OpenQuestions) -> None:
        together: Dict[str, EncodedQuestion] = {}
        sharing: List[_OpenQuestions] = []
        for one in (mine, *self._open):  # threads may have chosen equal keys; then the questions of one of them wait
            if one.found is None and not together.keys() & one.missing.keys():
                together.update(one.missing)
                sharing.append(one)
                one.deadline = one.deadline or time.monotonic() + self.session.limits.waiting_seconds
        found = self._suspend(together, min(one.deadline for one in sharing))
        for one in sharing:
            one.found = found

    def _suspend(self, missing: Mapping[str, EncodedQuestion], deadline: float) -> Tuple[Mapping[str, Any], Dict[str, Any]]:
        """Ask the client; return its answers as they came and as they were read, if the handler goes on with them."""
        context, log, keeper = self._context, self._log, self._keeper
        handle = state = secrets.token_urlsafe(24)
        bound, process = request_digest(context), 0
        kept: List[Any] = [context.given]
        if log is not None and keeper is not None:
            if not context.asked_by_return:
                log.entered = self._entered + 1
            handle, state, process = keeper.save(context, log, bound)
            kept += [log.once_results, log.rounds]
        if handle:
            try:
                found = SuspendedCall(context, missing, bound, kept, process).wait(handle, state, deadline)
            except RemoteError:
                if log is None:
                    raise
                state = handle  # there is no room for its arguments: the handler ends, and is called again with the log
            else:
                if log is not None:
                    log.answered = handle
                return found
        context.question_result = input_required(missing, state)
        raise HandlerEnded

    def once(self, key: str, action: Callable[[], Any]) -> Any:
        if self._log is None or self._keeper is None:
            return super().once(key, action)
        return super().once(key, functools.partial(self._run_step, self._keeper.step(self._log, key), action))

    def _run_step(self, step: ContextManager[object], action: Callable[[], Any]) -> Any:
        with step:
            return through_json(action())

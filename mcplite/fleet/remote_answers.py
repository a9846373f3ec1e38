"""Suspended calls of a server with a shared backend: the handler waits in one process, and its answers may come to any other.

::

    client --- tools/call ------------> process A: the handler asks; its replay log goes into the store, and it waits
    client <-- questions, a state ----- process A: the state names A and the log, sealed
    client --- the answers, the state -> process B: does A run?
                  yes: the message "continue call" to A, whose handler goes on; B passes on its "reply" messages (Relay)
                  no:  B takes the log from the store, and calls the handler again

Before a process continues a call, it takes the log from the store. Only one process gets the log, so only one continues the
call. If a request came in at another process, the process where the handler waits treats it like its own requests, except for
its outlet: that sends the answer in messages to the other process.
"""

import contextlib
import functools
import json
import secrets
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple, TypeVar

from ..errors import INTERNAL_ERROR, BackendError, Cancelled, RemoteError, TransportError
from ..protocol import jsonrpc
from ..protocol.http.headers import Headers
from ..protocol.opaque import ReplayLog, digest, open_sealed, seal
from ..rpc.deadline import undo
from ..rpc.interfaces import Outlet
from ..rpc.threads import Loop
from ..rpc.tracing import get_logger
from ..server.catalog.registry import granted_scopes
from ..server.eviction import Shares
from ..server.handling.context import RequestContext
from ..server.handling.http_request import HTTPRequest
from ..server.handling.suspended_calls import SealedCalls, Work, refused_state, replay, request_digest
from ..server.principals import principal_from, principal_members
from ..server.runtime.runtime import Runtime
from ..server.sessions.modern import SessionlessClient, read_envelope, revision_of
from .fleet_processes import FleetProcesses

__all__ = ["SharedCalls"]

T = TypeVar("T")
_log = get_logger(__name__)

#: The kinds of replies. The process where the handler waits sends messages, and then one response or the note that there is
#: none; or it answers that the handler does not wait there any more. This process itself adds the last two kinds: replies were
#: lost, or the client has left.
MESSAGE, RESPONSE, NO_RESPONSE, GONE, LOST, CANCELLED = "message", "response", "no response", "gone", "lost", "cancelled"
#: The most bytes of JSON in a message between processes. Longer JSON is stored beside the message, for ``_STORED_SECONDS``.
_IN_MESSAGE = 16_384
_STORED_SECONDS = 60.0
#: The most replies that wait to be passed on. Further messages are dropped, since the client does not read; a response is not.
_MOST_REPLIES = 10_000
#: If no reply has come for this many seconds, this process looks whether the other process still runs.
_WAIT_SECONDS = 1.0
#: If the other process has sent no reply for this many seconds, this process tries to take the log and to continue the call.
_ACCEPT_SECONDS = 3.0
#: Seconds between two attempts while the store is away, and seconds after which a response that cannot be stored is given up.
_AWAY_SECONDS = 0.5
_ANSWER_SECONDS = 60.0
#: Seconds between two looks whether processes have ended whose requests run here, and between two searches for expired logs.
_LOOK_SECONDS = 1.0
#: Headers with secrets, which are not written into the store.
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
#: The words for steps of a call in errors, by the state that is noted of a step.
_STEPS = {"done": "done", "begun": "begun, and whether it took place is not known", "failed": "failed"}


def _used_state() -> RemoteError:
    """Return the error for a requestState that this server has issued, if its log is gone before the state has expired."""
    return RemoteError("this requestState was used before, or the store has lost it; its call is not repeated, and what it has"
                       " done is not known", code=INTERNAL_ERROR)


def _key(handle: str, part: str) -> str:
    """Return the key of a note about a log.

    :param part: ``taken`` for the note that another process takes the log, ``once`` for the steps since the log was taken.
    """
    return f"{part}-{digest(handle)}/log"


class _Accepted(NamedTuple):
    """A request of another process that runs here."""

    process: int
    peer: Any
    id: Any
    client: SessionlessClient


class SharedCalls(SealedCalls):
    """The suspended calls of one process, and its part in the suspended calls of other processes."""

    waits = True
    longest = float("inf")

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.time) -> None:
        super().__init__(runtime, clock)
        assert isinstance(runtime.processes, FleetProcesses), "these processes share a backend"
        self.runtime = runtime
        self.processes = runtime.processes
        self.backend = self.processes.backend
        #: The replay logs that this process has stored in the backend, by handle. If another process takes a log, the log
        #: still counts here until it expires. It is older than the logs of calls that wait, so it is dropped before them.
        self._logs: "Shares[str]" = Shares(self._limits.fleet_states, self._limits.fleet_state_bytes, clock=clock)
        self._swept = clock()
        #: By their names: the requests of other processes whose handlers run here, and the requests of this process whose
        #: handlers run in others.
        self._accepted: Dict[str, _Accepted] = {}
        self.relays: Dict[str, Relay] = {}
        #: Whether a thread looks for the end of the processes whose requests run here; the lock guards this flag.
        self._watching = False
        self.processes.on("continue call", lambda body: runtime.workers.spawn(lambda: self._accept(body)))
        self.processes.on("cancel call", self._cancel_accepted)
        self.processes.on("reply", self._receive)
        self.processes.messages.on_missed(self._lose_replies)
        self.processes.leases.on_lost(self._lose_process_id)

    def _lose_process_id(self, process: int) -> None:
        """Give up the calls that other processes know by an id that this process has lost.

        The requests that this process relays fail, and the handlers that wait here are cancelled.
        """
        if self.runtime.suspended_calls is not self:
            return  # in a forked process another object has taken its place
        self._lose_replies()
        self.runtime.workers.spawn(lambda: self.cancel(lambda call: call.process == process,
                                                       "this process was paused for too long"))

    def _lose_replies(self) -> None:
        for relay in list(self.relays.values()):
            relay.put(LOST)

    # --- logs and states ----------------------------------------------------------------------------------

    def save(self, context: RequestContext, log: ReplayLog, bound: str) -> Tuple[str, str, int]:
        self.processes.check()
        with self.processes.refuse_while_away():
            process = self.processes.number
            handle = self.store(self.seal(log, bound), context.session.sender_of(context.incoming))
        return handle, self.name_process(handle, process, bound), process

    def store(self, text: str, sender: str) -> str:
        """Store a sealed log, and return its handle.

        If there are too many logs or bytes, the oldest log of the sender with the most is removed from the store.

        :raises ValueError: it is larger than all logs together may be.
        """
        most = self._limits.fleet_state_bytes
        if len(text) > most:
            raise ValueError(f"the answers and the results of ctx.once in this call take {len(text)} bytes, and"
                             f" {most} can be stored (an eighth of Limits.memory_bytes); return"
                             " less from ctx.once")
        seconds, now = self._limits.waiting_seconds, self._clock()
        if now - self._swept >= _LOOK_SECONDS:
            self._swept = now
            for handle in self._logs.idle(seconds, seconds):
                self._logs.remove(handle)
        handle = secrets.token_urlsafe(24)
        self.backend.put(handle, text.encode("ascii"), seconds)
        for old in self._logs.add(handle, sender, len(text)) or ():
            with contextlib.suppress(BackendError):  # then the log stays until it expires
                self.backend.take(old)
            self.evict(old)
        return handle

    def take_stored(self, handle: str, bound: str) -> Optional[ReplayLog]:
        """Remove a log from the store and return it; None if there is none, or it is not for this request and owner.

        :raises BackendError: the store failed.
        """
        self._logs.remove(handle)
        data = self.backend.take(handle) if len(handle) <= 64 and handle.isascii() else None
        return None if data is None else self.open(data.decode("ascii"), bound)

    def name_process(self, handle: str, process: int, bound: str) -> str:
        """Return a state that names a stored log and the process in which its handler waits; it is signed, not stored."""
        content = f"{process} {handle} {int(self._clock() + self._limits.waiting_seconds)}"
        return seal(content.encode("ascii"), self._keys[0], f"waits {bound}")

    def named_process(self, state: str, bound: str) -> Tuple[int, str, bool]:
        """Return the id of the process that a state names, the handle of the log, and whether the state has expired.

        A process that had no space for a waiting handler gives out the handle itself as the state; then the id is 0.
        """
        content = open_sealed(state, self._keys, f"waits {bound}") if len(state) > 64 else None
        if content is None:
            return 0, state, False
        process, handle, expires = content.decode("ascii").split(" ")
        return int(process), handle, int(expires) < self._clock()

    def find_stored(self, context: RequestContext, state: str) -> Work:
        self.processes.check()
        with self.processes.refuse_while_away():
            process, handle, over = self.named_process(state, request_digest(context))
            # If the state is from this server, its client gets a more precise error.
            refusal = refused_state() if not process or over else _used_state()
            if process and process == self.processes.candidate:
                return self._continue_here(context, handle, refusal)
            if process and self.processes.alive(process):
                return Relay(self, context, process, handle, refusal).run
            return replay(context, self.take_log(context, handle, refusal, elsewhere=process > 0))

    def take_log(self, context: RequestContext, handle: str, refusal: RemoteError, elsewhere: bool) -> ReplayLog:
        """Take the log of a call, so that this process continues the call, and no other process does.

        :param refusal: raised if the log was taken before, or has expired.
        :param elsewhere: whether the handler waits in another process, if it still waits. Then this process first stores a note
            for that process. If that process finds its log gone, but no note, it knows that it has taken the log itself, by an
            operation whose answer was lost.
        :raises BackendError: the store failed.
        """
        if elsewhere:
            self.backend.put(_key(handle, "taken"), b"taken", self._limits.waiting_seconds)
        log = self.take_stored(handle, request_digest(context))
        if log is None:
            steps = self.noted_steps(handle)
            if steps:
                raise RemoteError(f"this requestState was used before, and its call is not repeated. Of its steps: {steps}",
                                  code=INTERNAL_ERROR)
            raise refusal
        log.answered = handle
        return log

    def _continue_here(self, context: RequestContext, handle: str, refusal: RemoteError) -> Work:
        call = self.find(handle, request_digest(context))
        answers = None if call is None else call.read(context.given)
        log = None
        try:
            log = self.take_log(context, handle, refusal, elsewhere=False)
        except BackendError:
            if call is not None:
                call.in_doubt = True
            raise
        except RemoteError:
            if call is None or not call.in_doubt or self.backend.get(_key(handle, "taken")) is not None:
                self.evict(handle, "another process has taken this call over")
                raise
        if call is not None and answers is not None and self.remove(handle):
            call.go_on(context, answers)
            return None
        if log is None:
            raise refusal
        return replay(context, log)  # the handler was cancelled before, to make space for others, or at this moment

    # --- steps ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def step(self, log: ReplayLog, key: str) -> Iterator[None]:
        """Return a block for the action of :meth:`Context.once`, with a note before and after it if it follows an answer.

        The log was taken with the answer, so that no process repeats the action. If this process ends, the notes tell which
        actions have taken place.

        :raises RemoteError: the note before the action cannot be stored.
        """
        if not log.answered:
            yield
            return
        with self.processes.refuse_while_away():
            self._note(log, key, "begun")
        done = "failed"
        try:
            yield
            done = "done"
        finally:
            try:
                self._note(log, key, done)
            except BackendError as error:
                _log.warning("ctx.once(%r) has run, which could not be noted: %s", key, error)

    def _note(self, log: ReplayLog, key: str, state: str) -> None:
        if log.noted[0] != log.answered:
            log.noted = log.answered, {}
        log.noted[1][key] = state
        self.backend.put(_key(log.answered, "once"), json.dumps(log.noted[1]).encode("ascii"), self._limits.waiting_seconds)

    def noted_steps(self, handle: str) -> str:
        """Return what is noted of the steps that followed an answer, as a sentence; empty if nothing is noted.

        :param handle: of the log that was taken with the answer.
        :raises BackendError: the store failed.
        """
        stored = self.backend.get(_key(handle, "once"))
        steps: Dict[str, str] = {} if stored is None else json.loads(stored)
        return "; ".join(f"{', '.join(repr(key[:100]) for key in steps if steps[key] == what)} {text}"
                         for what, text in _STEPS.items() if what in steps.values())

    # --- messages between processes ----------------------------------------------------------------------------

    def send(self, process: int, kind: str, body: Dict[str, Any], data: Optional[bytes] = None) -> None:
        """Send a message to another process, with the bytes of a message of the protocol.

        :raises BackendError: the store failed.
        """
        if data is not None and len(data) > _IN_MESSAGE:
            key = f"long-{secrets.token_hex(12)}/message"
            self.backend.put(key, data, _STORED_SECONDS)
            body = {**body, "stored": key}
        elif data is not None:
            body = {**body, "data": data.decode("utf-8")}
        self.processes.messages.send(process, kind, body)

    def unpack(self, body: Dict[str, Any]) -> Optional[bytes]:
        """Return the bytes that came with a message; None if they were stored beside the message, and are gone.

        :raises BackendError: the store failed.
        """
        text = body.get("data")
        return str(text).encode("utf-8") if text is not None else self.backend.take(str(body["stored"]))

    def _receive(self, body: Dict[str, Any]) -> None:
        relay = self.relays.get(str(body["name"]))
        if relay is not None:
            relay.put(str(body["kind"]), body)

    # --- requests of other processes -----------------------------------------------------------------------------

    def _accept(self, body: Dict[str, Any]) -> None:
        """Continue a handler that waits in this process, with a request that came in at another process."""
        name, process = str(body["name"]), int(body["from"])
        try:
            data = self.unpack(body)
        except BackendError as error:
            self.processes.failed(error)
            return  # the other process gets no reply, and then tries to continue the call itself
        call = self.find(str(body["handle"]), str(body["digest"]))
        message = None if data is None else jsonrpc.parse(data, self.runtime.json_limits)
        outlet = _ReplyOutlet(self, name, process)
        if call is None or data is None or type(message) is not jsonrpc.Request:
            outlet.reply({"kind": GONE})
            return
        peer: Any = call.peer
        client = self._client(message, body)
        with self._lock:
            self._accepted[name] = _Accepted(process, peer, message.id, client)
            begins, self._watching = not self._watching, True
        if begins:
            # If the system has no thread for it, the next request tries again.
            with contextlib.suppress(TransportError), undo(functools.partial(setattr, self, "_watching", False)):
                # The thread ends when no request of another process runs here any more. It blocks on the backend for one
                # operation.
                Loop("watch over the processes of clients", self._cancel_abandoned).start()
        peer.receive(data, message, outlet, False, facts=client)

    def _client(self, message: jsonrpc.Request, body: Dict[str, Any]) -> SessionlessClient:
        params, catalog = message.params or {}, self.runtime.catalog
        envelope = read_envelope(params)
        headers = Headers([(name, value) for name, value in body["headers"]])
        http = HTTPRequest(headers=headers, principal=principal_from(body["principal"]), single_process=False, **body["http"])
        return SessionlessClient(envelope, revision_of(envelope, catalog.revisions),
                                 catalog.resolve_for(message.method, params, granted_scopes(http.principal)), http,
                                 body["sender"])

    def _cancel_accepted(self, body: Dict[str, Any]) -> None:
        accepted = self._accepted.get(str(body["name"]))
        if accepted is not None:
            # Callbacks of the user run on the thread that cancels.
            self.runtime.workers.spawn(lambda: accepted.peer.drop_incoming(accepted.id, accepted.client, body["reason"]))

    def finish(self, name: str) -> None:
        """Forget a request of another process, because it is answered."""
        with self._lock:
            self._accepted.pop(name, None)

    def _cancel_abandoned(self) -> None:
        """Cancel the handlers of clients whose process has ended: their connections ended with that process."""
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                processes = {name: accepted.process for name, accepted in self._accepted.items()}
                self._watching = bool(processes)
            if not processes:
                return
            try:
                ended = {process for process in set(processes.values()) if not self.processes.alive(process)}
            except BackendError as error:
                self.processes.failed(error)
                continue
            for name, process in processes.items():
                if process in ended:
                    self._cancel_accepted({"name": name, "reason": "the process that served the client has ended"})
                    self.finish(name)


class Relay:
    """One request whose handler waits in another process.

    :param process: the id of that process.
    :param handle: of the log, and of the handler there.
    :param refusal: the error if neither the log nor the handler is there any more.
    """

    def __init__(self, calls: SharedCalls, context: RequestContext, process: int, handle: str,
                 refusal: RemoteError) -> None:
        self._calls = calls
        self._context = context
        self._process = process
        self._handle = handle
        self._refusal = refusal
        #: Names this request between the two processes.
        self.name = secrets.token_hex(12)
        #: The kind of each reply, and the message that has its data.
        self._replies: "SimpleQueue[Tuple[str, Dict[str, Any]]]" = SimpleQueue()

    def put(self, kind: str, body: Optional[Dict[str, Any]] = None) -> None:
        """Take one reply; called on the thread that reads the messages of other processes."""
        if kind != MESSAGE or self._replies.qsize() < _MOST_REPLIES:
            self._replies.put((kind, body or {}))

    def run(self) -> None:
        """Answer the request with the replies of the other process, or by a replay here if that process does not continue."""
        context = self._context
        with contextlib.ExitStack() as block:
            self._calls.relays[self.name] = self
            block.callback(self._calls.relays.pop, self.name, None)
            with self._calls.processes.refuse_while_away():
                self._send_request()
            block.callback(context.token.add_callback(self._cancel))
            with context.session.peer.without_slot():
                log = self._pass_on()
        task = None if log is None else replay(context, log)
        if task is not None:
            task()

    def _send_request(self) -> None:
        context, incoming, facts = self._context, self._context.incoming, self._context.incoming.facts
        assert facts is not None and facts.http is not None
        http: HTTPRequest = facts.http
        self._calls.send(self._process, "continue call", {
            "handle": self._handle, "digest": request_digest(context), "name": self.name,
            "sender": facts.sender, "from": self._calls.processes.number,
            "principal": principal_members(context.session.principal),
            "headers": [[name, value] for name in http.headers if name not in _SECRET for value in http.headers.all(name)],
            "http": {"method": http.method, "path": http.path, "query": http.query, "mount": http.mount, "port": http.port,
                     "remote": http.remote, "network": http.network},
        }, jsonrpc.dump(jsonrpc.Request(incoming.id, incoming.method, incoming.params)))

    def _cancel(self) -> None:
        self.put(CANCELLED)
        reason = self._context.token.reason or "the client has closed the connection"
        self._calls.runtime.workers.spawn(lambda: self._send_cancel(reason))

    def _send_cancel(self, reason: str) -> None:
        try:
            self._calls.send(self._process, "cancel call", {"name": self.name, "reason": reason})
        except BackendError as error:
            self._calls.processes.failed(error)

    def _pass_on(self) -> Optional[ReplayLog]:
        """Pass on the messages of the other process, and return None after its response; or the log, which is to be replayed.

        :raises Cancelled: the client has left.
        :raises RemoteError: the other process has ended, or its answer is lost.
        """
        incoming, processes = self._context.incoming, self._calls.processes
        began, tried, ended, heard = time.monotonic(), False, False, False
        while True:
            try:
                kind, body = self._replies.get(timeout=_WAIT_SECONDS)
            except Empty:
                if ended:
                    return self._take_over()
                try:
                    # After the end of the process, wait once more: replies that it sent before its end may still arrive.
                    ended = not processes.alive(self._process)
                    if not (ended or tried or heard) and time.monotonic() - began > _ACCEPT_SECONDS:
                        log = self._try_take()
                        if log is not None:
                            return log
                        tried = True
                except BackendError as error:
                    processes.failed(error)
                continue
            heard = True
            if kind == CANCELLED:
                raise Cancelled(incoming.token.reason)
            if kind == GONE:
                return self._patiently(self._take)
            if kind == NO_RESPONSE:
                incoming.answer(None, None)
                return None
            data = None if kind == LOST else self._patiently(lambda: self._calls.unpack(body))
            if data is None:
                raise RemoteError("the answer of the process that runs this call is lost, since the store was emptied or is too"
                                  " slow; what the call has done is not known", code=INTERNAL_ERROR)
            if kind == RESPONSE:
                incoming.answer(data, body.get("code"))
                return None
            incoming.pass_on(data)

    def _patiently(self, use: Callable[[], T]) -> T:
        """Call a function that uses the backend, and repeat it while the backend is away.

        :raises Cancelled: the client has left.
        """
        while True:
            try:
                return use()
            except BackendError as error:
                self._calls.processes.failed(error)
            if self._context.token.wait(_AWAY_SECONDS):
                raise Cancelled(self._context.token.reason)

    def _take(self) -> ReplayLog:
        return self._calls.take_log(self._context, self._handle, self._refusal, elsewhere=True)

    def _try_take(self) -> Optional[ReplayLog]:
        try:
            return self._take()
        except RemoteError:
            return None  # the other process has begun

    def _take_over(self) -> ReplayLog:
        """Take the log of a process that has ended.

        :raises RemoteError: the other process has taken it, and has ended before it answered.
        """
        log = self._patiently(self._try_take)
        if log is not None:
            return log
        steps = self._patiently(lambda: self._calls.noted_steps(self._handle))
        raise RemoteError("the process that ran this call has ended before it answered; what the call has done is not known"
                          + (f". Of its steps: {steps}" if steps else ""), code=INTERNAL_ERROR)


class _ReplyOutlet(Outlet):
    """Sends the messages and the response of a request that came in at another process to that process.

    :param name: of the request.
    :param process: the id of that process.
    """

    def __init__(self, calls: SharedCalls, name: str, process: int) -> None:
        self._calls = calls
        self._name = name
        self._process = process

    def reply(self, body: Dict[str, Any], data: Optional[bytes] = None) -> bool:
        """Send one reply; False if the store failed."""
        try:
            self._calls.send(self._process, "reply", {**body, "name": self._name}, data)
        except BackendError as error:
            self._calls.processes.failed(error)
            return False
        return True

    def send(self, data: bytes) -> bool:
        return self.reply({"kind": MESSAGE}, data)

    def offer(self, data: bytes) -> bool:
        return False  # sending it would block on the store

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        self._calls.finish(self._name)
        body: Dict[str, Any] = {"kind": NO_RESPONSE if data is None else RESPONSE, "code": code}
        if not self.reply(body, data):
            self._calls.runtime.workers.spawn(lambda: self._finish_later(body, data))

    def _finish_later(self, body: Dict[str, Any], data: Optional[bytes]) -> None:
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            time.sleep(_AWAY_SECONDS)
            if self.reply(body, data):
                return

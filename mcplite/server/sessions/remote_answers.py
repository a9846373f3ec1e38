"""Finds the handler of a client's answer in a fleet: it waits here or in another process, or is replayed from its journal.

The process that gets an answer for another one writes it a letter, see relay.py. That one treats the request as its own,
but for the outlet: its messages are letters to the first process.

What the processes of a server with a shared backend talk to each other with, as one value for the modules that do.

Has a request answered by the process of the fleet where its handler waits, and passes on what that process sends.

handover.py decides which requests are relayed, and is the other process's side.
"""

import contextlib
import functools
import secrets
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, TypeVar

from ...backend.interface import Backend
from ...errors import INTERNAL_ERROR, BackendError, Cancelled, RemoteError, TransportError
from ...protocol import jsonrpc, meta as envelopes
from ...protocol.http.headers import Headers
from ...protocol.opaque import digest
from ...rpc.deadline import undo
from ...rpc.forks import renew
from ...rpc.interfaces import Outlet
from ...rpc.request import Incoming
from ...rpc.threads import Loop
from ...rpc.tracing import get_logger
from ..catalog.catalog import Target
from ..handling.ask_waiting import noted_steps, request_digest
from ..handling.dispatch import answer_request
from ..handling.http_request import HTTPRequest
from ..handling.request_context import RequestContext
from ..principals import ISSUED_HERE, Principal
from ..runtime.processes import away_error
from ..runtime.runtime import Runtime
from ..runtime.suspended_calls import refused_state
from .modern import ModernSession, SessionlessClient

__all__ = [
    "GONE", "Handover", "LOST", "MESSAGE", "NO_RESPONSE", "RESPONSE", "Relay", "STORED_SECONDS", "Shared", "handover_of",
    "pack", "shared_of", "take_journal", "taken_elsewhere", "unpack", "used_state",
]


class Shared(NamedTuple):
    """What a server with a shared backend has for talking to other processes."""

    backend: Backend
    leases: Any
    letters: Any
    outage: Any


def shared_of(runtime: Runtime) -> Shared:
    """Return what a server with a shared backend has for talking to other processes."""
    processes: Any = runtime.processes
    return Shared(processes.backend, processes.leases, processes.letters, processes.outage)


T = TypeVar("T")

#: The kinds of replies. The process where the handler waits sends messages, and one response, which may be none; or that
#: the handler does not wait there any more. The last two this process finds out for itself.
MESSAGE, RESPONSE, NO_RESPONSE, GONE, LOST, _CANCELLED = "message", "response", "no response", "gone", "lost", "cancelled"
#: A reply: its kind, the code of the error if it is a response with one, and the letter that has its data.
Reply = Tuple[str, Optional[int], Dict[str, Any]]
#: Bytes of a message that go into a letter; more are stored beside it, for so many seconds.
_IN_LETTER = 16_384
STORED_SECONDS = 60.0
#: Replies that wait to be passed on; messages beyond that are dropped, since the client does not read.
_MOST_REPLIES = 10_000
#: Seconds without a reply after which the other process is looked at.
_WAIT_SECONDS = 1.0
#: Seconds after which a process that has not begun with a request no longer gets it, if it has not taken the journal.
_ACCEPT_SECONDS = 3.0
#: Seconds between two attempts while the store is away.
_AWAY_SECONDS = 0.5
#: Headers with secrets, which are not written into the store.
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})


def pack(shared: Shared, body: Dict[str, Any], data: bytes) -> Dict[str, Any]:
    """Return the body of a letter with a message, which is stored beside it if it is long.

    :raises BackendError: the store failed.
    """
    if len(data) <= _IN_LETTER:
        return {**body, "data": data.decode("utf-8")}
    key = f"long-{secrets.token_hex(12)}/message"
    shared.backend.put(key, data, STORED_SECONDS)
    return {**body, "stored": key}


def unpack(shared: Shared, body: Dict[str, Any]) -> Optional[bytes]:
    """Return the message of a letter; None if it was stored beside it, and is gone.

    :raises BackendError: the store failed.
    """
    text = body.get("data")
    return shared.backend.take(str(body["stored"])) if text is None else str(text).encode("utf-8")


def used_state() -> RemoteError:
    """Return the error for a requestState that this server has given, and whose journal is gone before its time."""
    return RemoteError("this requestState was used before, or the store has lost it; its call is not repeated, and what it has"
                       " done is not known", code=INTERNAL_ERROR)


def take_journal(runtime: Runtime, session: ModernSession, incoming: Incoming, handle: str, refusal: RemoteError,
                 foreign: bool = True) -> None:
    """Take the journal of a call for a session, so that this process goes on with it and no other does.

    :param refusal: raised if it was taken before, or has expired.
    :param foreign: whether the handler waits in another process, if it still waits. Then that is noted before, for that
        process: see :func:`taken_elsewhere`.
    :raises RemoteError: there is no journal any more.
    :raises BackendError: the store failed.
    """
    if foreign:
        shared_of(runtime).backend.put(_taken_key(handle), b"taken", runtime.limits.waiting_seconds)
    journal = runtime.states.open(handle, session.owner, incoming.method, incoming.params)
    if journal is None:
        steps = noted_steps(runtime, handle)
        if steps:
            raise RemoteError(f"this requestState was used before, and its call is not repeated. Of its steps: {steps}",
                              code=INTERNAL_ERROR)
        raise refusal
    journal.answered = handle
    session.journal = journal


def taken_elsewhere(runtime: Runtime, handle: str) -> bool:
    """Whether another process may have taken the journal of a handler that waits here.

    If not, and the journal is gone, this one has taken it with an operation whose answer was lost.
    """
    return shared_of(runtime).backend.get(_taken_key(handle)) is not None


def _taken_key(handle: str) -> str:
    return f"taken-{digest(handle)}/journal"


class Relay:
    """One request whose handler waits in another process.

    :param number: of that process.
    :param handle: of the journal, and of the handler there.
    :param refusal: the error if neither is there any more.
    """

    def __init__(self, runtime: Runtime, session: ModernSession, incoming: Incoming, number: int, handle: str,
                 refusal: RemoteError) -> None:
        self._runtime = runtime
        self._shared = shared_of(runtime)
        self._session = session
        self._incoming = incoming
        self._number = number
        self._handle = handle
        self._refusal = refusal
        #: Names this request between the two processes.
        self.name = secrets.token_hex(12)
        self._replies: "SimpleQueue[Reply]" = SimpleQueue()
        #: Whether the other process has sent anything.
        self._begun = False

    def put(self, kind: str, code: Optional[int] = None, body: Optional[Dict[str, Any]] = None) -> None:
        """Take one reply; called on the thread of the letters."""
        if kind != MESSAGE or self._replies.qsize() < _MOST_REPLIES:
            self._replies.put((kind, code, body or {}))

    def run(self, context: RequestContext, target: Target) -> None:
        """Answer the request: with what the other process says, or by a replay if that one does not go on."""
        try:
            self._ask()
        except BackendError as error:
            self._shared.outage.found(error)
            raise away_error() from error
        uncancel = self._incoming.token.add_callback(self._cancel)
        try:
            with self._session.peer.suspended():
                answered = self._follow()
        finally:
            uncancel()
        if not answered:
            journal = self._session.journal
            assert journal is not None
            context.round, context.once_results = journal.entered, journal.once_results
            answer_request(context, target)

    def _ask(self) -> None:
        incoming, session, facts = self._incoming, self._session, self._incoming.facts
        assert facts is not None and facts.http is not None
        http: HTTPRequest = facts.http
        body: Dict[str, Any] = {
            "handle": self._handle, "digest": request_digest(session, incoming), "name": self.name, "sender": facts.sender,
            "from": self._shared.leases.number, "principal": _described(session.principal),
            "http": {"method": http.method, "path": http.path, "query": http.query, "mount": http.mount, "port": http.port,
                     "remote": http.remote, "network": http.network,
                     "headers": [[name, value] for name in http.headers if name not in _SECRET
                                 for value in http.headers.all(name)]}}
        data = jsonrpc.dump(jsonrpc.Request(incoming.id, incoming.method, incoming.params))
        self._shared.letters.send(self._number, "continue call", pack(self._shared, body, data))

    def _cancel(self) -> None:
        self.put(_CANCELLED)
        reason = self._incoming.token.reason or "the client has closed the connection"
        self._runtime.workers.spawn(lambda: self._send_cancel(reason))

    def _send_cancel(self, reason: str) -> None:
        try:
            self._shared.letters.send(self._number, "cancel call", {"name": self.name, "reason": reason})
        except BackendError as error:
            self._shared.outage.found(error)

    def _follow(self) -> bool:
        """Pass on what the other process sends; True once that has answered, False if the journal is to be replayed here.

        :raises Cancelled: the client has left.
        :raises RemoteError: the other process has ended, or its answer is lost.
        """
        began, asked, ended = time.monotonic(), False, False
        while True:
            try:
                kind, code, body = self._replies.get(timeout=_WAIT_SECONDS)
            except Empty:
                if ended:
                    return self._take_over()
                try:
                    # What it sent before its end may still be on its way.
                    ended = not self._shared.leases.alive(self._number)
                    if not (ended or asked or self._begun) and time.monotonic() - began > _ACCEPT_SECONDS:
                        if self._try_take():
                            return False
                        asked = True
                except BackendError as error:
                    self._shared.outage.found(error)
                continue
            self._begun = True
            if kind == _CANCELLED:
                raise Cancelled(self._incoming.token.reason)
            if kind == GONE:
                self._patiently(self._take)
                return False
            if kind == NO_RESPONSE:
                self._incoming.answer(None, None)
                return True
            data = None if kind == LOST else self._patiently(lambda: unpack(self._shared, body))
            if data is None:
                raise RemoteError("the answer of the process that runs this call is lost, since the store was emptied or is too"
                                  " slow; what the call has done is not known", code=INTERNAL_ERROR)
            if kind == RESPONSE:
                self._incoming.answer(data, code)
                return True
            self._incoming.pass_on(data)

    def _patiently(self, use: Callable[[], T]) -> T:
        """Use the backend, again while it is away.

        :raises Cancelled: the client has left.
        """
        while True:
            try:
                return use()
            except BackendError as error:
                self._shared.outage.found(error)
            if self._incoming.token.wait(_AWAY_SECONDS):
                raise Cancelled(self._incoming.token.reason)

    def _take(self) -> None:
        take_journal(self._runtime, self._session, self._incoming, self._handle, self._refusal)

    def _try_take(self) -> bool:
        try:
            self._take()
        except RemoteError:
            return False  # the other process has begun
        return True

    def _take_over(self) -> bool:
        """Take the journal of a process that has ended; always False.

        :raises RemoteError: the other process has taken it, and has ended before it answered.
        """
        if self._patiently(self._try_take):
            return False
        steps = self._patiently(lambda: noted_steps(self._runtime, self._handle))
        raise RemoteError("the process that ran this call has ended before it answered; what the call has done is not known"
                          + (f". Of its steps: {steps}" if steps else ""), code=INTERNAL_ERROR)


def _described(principal: Optional[Principal]) -> Optional[Dict[str, Any]]:
    if principal is None:
        return None
    issued_here = principal.audience is ISSUED_HERE
    return {"subject": principal.subject, "issuer": principal.issuer, "client_id": principal.client_id,
            "audience": None if issued_here else list(principal.audience), "scopes": sorted(principal.scopes),
            "expires_at": principal.expires_at,
            "claims": {name: value for name, value in principal.claims.items() if _travels(name, value)}}


def _travels(name: Any, value: Any) -> bool:
    try:
        jsonrpc.dump_notification("claim", {name: value})
    except (TypeError, ValueError):
        return False  # such as an object of the host
    return isinstance(name, str)


_log = get_logger(__name__)
_ANSWER_SECONDS = 60.0
#: Seconds between two looks whether the processes have ended whose requests run here.
_LOOK_SECONDS = 1.0


class _Accepted(NamedTuple):
    """A request of another process that runs here.

    :param number: of that process.
    """

    number: int
    peer: Any
    id: Any
    client: SessionlessClient


def handover_of(runtime: Runtime) -> "Handover":
    """Return the handover of a server with a shared backend, made with the first call."""
    if runtime.handover is None:
        runtime.handover = Handover(runtime)
    handover: Handover = runtime.handover
    return handover


class Handover:
    """What one process does with the calls that wait in others, and others with those that wait here."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._shared = shared = shared_of(runtime)
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        #: By their names: the requests of other processes that run here, and those of here that run in others.
        self._accepted: Dict[str, _Accepted] = {}
        self._relays: Dict[str, Relay] = {}
        #: The handles of journals that this process may have taken with an operation whose answer was lost.
        self._doubtful: Dict[str, bool] = {}
        #: Whether a thread looks for the end of the processes whose requests run here.
        self._watching = False
        shared.letters.on("continue call", lambda body: runtime.workers.spawn(lambda: self._accept(body)))
        shared.letters.on("cancel call", self._cancel)
        shared.letters.on("reply", self._receive)
        shared.letters.on_missed(self._lose_replies)
        shared.leases.on_lost(self._lose_number)

    def let_go(self) -> None:
        """Forget, in a forked process, the requests that run in the other one."""
        renew(self)
        self._accepted, self._relays, self._doubtful, self._watching = {}, {}, {}, False

    def _lose_number(self, number: int) -> None:
        """Give up what other processes know by a number that this one has lost."""
        self._lose_replies()
        self._runtime.workers.spawn(lambda: self._runtime.waiting.cancel_numbered(
            number, "this process was paused for too long"))

    def _lose_replies(self) -> None:
        with self._lock:
            relays = list(self._relays.values())
        for relay in relays:
            relay.put(LOST)

    # --- where a client's answer came in ----------------------------------------------------------------

    def find(self, session: ModernSession, incoming: Incoming, state: str) -> bool:
        """Find the handler of a state. True if it waits here, and goes on with this request from now on.

        Otherwise the session knows what to do: replay the journal, or have the request answered by another process.

        :raises InvalidParams: the state cannot be used.
        :raises RemoteError: the backend is away.
        """
        self._shared.outage.check()
        try:
            return self._find(session, incoming, state)
        except BackendError as error:
            self._shared.outage.found(error)
            raise away_error() from error

    def _find(self, session: ModernSession, incoming: Incoming, state: str) -> bool:
        number, handle, expired = self._runtime.states.named_process(state, session.owner, incoming.method, incoming.params)
        # A client that has the state from this server learns more.
        refusal = refused_state() if not number or expired else used_state()
        if number and number == self._shared.leases.candidate:
            return self._continue_here(session, incoming, handle, refusal)
        if number and self._shared.leases.alive(number):
            relay = Relay(self._runtime, session, incoming, number, handle, refusal)
            session.elsewhere = functools.partial(self._relay, relay)
            return False
        take_journal(self._runtime, session, incoming, handle, refusal, foreign=number > 0)
        return False

    def _relay(self, relay: Relay, context: RequestContext, target: Target) -> None:
        with self._lock:
            self._relays[relay.name] = relay
        try:
            relay.run(context, target)
        finally:
            with self._lock:
                self._relays.pop(relay.name, None)

    def _receive(self, body: Dict[str, Any]) -> None:
        with self._lock:
            relay = self._relays.get(str(body["name"]))
        if relay is not None:
            relay.put(str(body["kind"]), body.get("code"), body)

    def _continue_here(self, session: ModernSession, incoming: Incoming, handle: str, refusal: RemoteError) -> bool:
        waiting = self._runtime.waiting
        call = waiting.find(handle, request_digest(session, incoming))
        answers = None if call is None else call.read(dict(session.given))
        try:
            take_journal(self._runtime, session, incoming, handle, refusal, foreign=False)
        except BackendError:
            if call is not None:
                self._doubtful[handle] = True
            raise
        except RemoteError:
            if call is None or not self._doubtful.get(handle) or taken_elsewhere(self._runtime, handle):
                if call is not None and waiting.remove(handle):
                    call.cancel("another process has taken this call over")
                raise
        finally:
            if len(self._doubtful) > self._runtime.limits.waiting_calls:
                self._doubtful.clear()
        self._doubtful.pop(handle, None)
        if call is None or answers is None or not waiting.remove(handle):
            return False  # it was cancelled for want of room, or at this moment; the journal is here
        session.journal = None
        call.continue_call(session, incoming, answers)
        return True

    # --- where the handler waits --------------------------------------------------------------------------

    def _accept(self, body: Dict[str, Any]) -> None:
        """Go on with a handler that waits here, with a request that came in at another process."""
        runtime, name = self._runtime, str(body["name"])
        try:
            data = unpack(self._shared, body)
        except BackendError as error:
            self._shared.outage.found(error)
            return  # the other process tries for itself
        call = runtime.waiting.find(str(body["handle"]), str(body["digest"]))
        message = None if data is None else jsonrpc.parse(data, runtime.json_limits)
        outlet = _Outlet(runtime, name, int(body["from"]), self._finished)
        if call is None or data is None or type(message) is not jsonrpc.Request:
            outlet.put({"kind": GONE})
            return
        peer: Any = call.peer
        client = self._client(message, body)
        with self._lock:
            self._accepted[name] = _Accepted(int(body["from"]), peer, message.id, client)
            begins, self._watching = not self._watching, True
        if begins:
            self._watch()
        peer.receive(data, message, outlet, False, facts=client)

    def _client(self, message: jsonrpc.Request, body: Dict[str, Any]) -> SessionlessClient:
        params, catalog = message.params or {}, self._runtime.catalog
        envelope = envelopes.read(params)
        named = body["http"]
        http = HTTPRequest(named["method"], named["path"], Headers([(name, value) for name, value in named["headers"]]),
                           query=named["query"], mount=named["mount"], remote=named["remote"], network=named["network"],
                           principal=_principal(body["principal"]), port=named["port"], single_process=False)
        return SessionlessClient(envelope, envelopes.revision_of(envelope, catalog.revisions),
                                 catalog.resolve(message.method, params), http, body["sender"])

    def _cancel(self, body: Dict[str, Any]) -> None:
        with self._lock:
            accepted = self._accepted.get(str(body["name"]))
        if accepted is not None:
            # Callbacks of the user run on the thread that cancels.
            self._runtime.workers.spawn(lambda: accepted.peer.drop_incoming(accepted.id, accepted.client, body["reason"]))

    def _watch(self) -> None:
        with contextlib.suppress(TransportError), undo(self._not_watching):
            # It ends when no request of another process runs here any more; it blocks on the backend for one operation.
            Loop("watch over the processes of clients", self._cancel_abandoned).start()

    def _not_watching(self) -> None:
        self._watching = False  # the next request tries again

    def _cancel_abandoned(self) -> None:
        """Cancel the handlers that go on for clients of processes that have ended: the connections ended with them."""
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                numbers = {name: accepted.number for name, accepted in self._accepted.items()}
                if not numbers:
                    self._watching = False
                    return
            try:
                ended = {number for number in set(numbers.values()) if not self._shared.leases.alive(number)}
            except BackendError as error:
                self._shared.outage.found(error)
                continue
            for name, number in numbers.items():
                if number in ended:
                    self._cancel({"name": name, "reason": "the process that served the client has ended"})
                    self._finished(name)

    def _finished(self, name: str) -> None:
        with self._lock:
            self._accepted.pop(name, None)


class _Outlet(Outlet):
    """Where the messages of a request go that came in at another process: into letters to that one.

    :param name: of the request.
    :param number: of that process.
    """

    def __init__(self, runtime: Runtime, name: str, number: int, finished: Callable[[str], object]) -> None:
        self._runtime = runtime
        self._shared = shared_of(runtime)
        self._name = name
        self._number = number
        self._finished = finished

    def put(self, reply: Dict[str, Any], data: Optional[bytes] = None) -> bool:
        """Send one reply; False if the store failed."""
        body = {**reply, "name": self._name}
        try:
            self._shared.letters.send(self._number, "reply", body if data is None else pack(self._shared, body, data))
        except BackendError as error:
            self._shared.outage.found(error)
            return False
        return True

    def send(self, data: bytes) -> bool:
        return self.put({"kind": MESSAGE}, data)

    def offer(self, data: bytes) -> bool:
        return False  # it would block on the store

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        self._finished(self._name)
        reply: Dict[str, Any] = {"kind": NO_RESPONSE if data is None else RESPONSE, "code": code}
        if not self.put(reply, data):
            self._runtime.workers.spawn(lambda: self._finish_later(reply, data))

    def _finish_later(self, reply: Dict[str, Any], data: Optional[bytes]) -> None:
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            time.sleep(_AWAY_SECONDS)
            if self.put(reply, data):
                return


def _principal(described: Optional[Dict[str, Any]]) -> Optional[Principal]:
    if described is None:
        return None
    audience = described["audience"]
    return Principal(described["subject"], issuer=described["issuer"], client_id=described["client_id"],
                     audience=ISSUED_HERE if audience is None else audience, scopes=described["scopes"],
                     expires_at=described["expires_at"], claims=described["claims"])

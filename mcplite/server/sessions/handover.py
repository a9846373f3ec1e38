"""Finds the handler of a client's answer in a fleet: it waits here or in another process, or is replayed from its journal.

The process that gets an answer for another one writes it a letter, see relay.py. That one treats the request as its own,
but for the outlet: its messages are letters to the first process.
"""

import functools
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

from ...errors import BackendError, RemoteError, TransportError
from ...protocol import jsonrpc, meta as envelopes
from ...protocol.http.headers import Headers
from ...rpc.forks import new_lock, on_fork
from ...rpc.incoming import Incoming
from ...rpc.interfaces import Outlet
from ...rpc.threads import start_thread
from ...rpc.tracing import FaultLog, get_logger
from ..catalog.request_target import Target
from ..handling.http_request import HTTPRequest
from ..handling.request_context import RequestContext
from ..handling.wait import request_digest
from ..principals import ISSUED_HERE, Principal
from ..runtime.outage import away_error
from ..runtime.runtime import Runtime
from ..runtime.shared import shared_of
from ..runtime.waiting import refused_state
from .modern import ModernSession, SessionlessClient
from .relay import GONE, LOST, MESSAGE, NO_RESPONSE, RESPONSE, Relay, pack, take_journal, taken_elsewhere, unpack, used_state

__all__ = ["Handover", "handover_of"]

_log = get_logger(__name__)
#: Seconds between two attempts to store a response while the store is away, and in all.
_AWAY_SECONDS = 0.5
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
        self._lock = new_lock()
        #: By their names: the requests of other processes that run here, and those of here that run in others.
        self._accepted: Dict[str, _Accepted] = {}
        self._relays: Dict[str, Relay] = {}
        #: The handles of journals that this process may have taken with an operation whose answer was lost.
        self._doubtful: Dict[str, bool] = {}
        #: Whether a thread looks for the end of the processes whose requests run here.
        self._watching = False
        self._faults = FaultLog(_log)
        shared.letters.on("continue call", lambda body: runtime.workers.spawn(lambda: self._accept(body)))
        shared.letters.on("cancel call", self._cancel)
        shared.letters.on("reply", self._receive)
        shared.letters.on_missed(self._lose_replies)
        shared.leases.on_lost(self._lose_number)
        on_fork(self, Handover._forked)

    def _forked(self, owner: int) -> None:
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
        try:
            # It ends when no request of another process runs here any more; it blocks on the backend for one operation.
            start_thread(lambda: self._faults.keep_running(self._cancel_abandoned, "it is not known whether the processes have"
                                                           " ended whose requests run here"), "mcplite handover")
        except BaseException as error:
            self._watching = False  # the next request tries again
            if not isinstance(error, TransportError):
                raise

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

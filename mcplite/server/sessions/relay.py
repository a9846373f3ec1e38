"""Has a request answered by the process of the fleet where its handler waits, and passes on what that process sends.

handover.py decides which requests are relayed, and is the other process's side.
"""

import secrets
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from ...errors import INTERNAL_ERROR, BackendError, Cancelled, RemoteError
from ...protocol import jsonrpc
from ...protocol.opaque import digest
from ...rpc.incoming import Incoming
from ..catalog.request_target import Target
from ..handling.dispatch import answer_request
from ..handling.fleet_wait import noted_steps
from ..handling.http_request import HTTPRequest
from ..handling.request_context import RequestContext
from ..handling.wait import request_digest
from ..principals import ISSUED_HERE, Principal
from ..runtime.outage import away_error
from ..runtime.runtime import Runtime
from ..runtime.shared import Shared, shared_of
from .modern import ModernSession

__all__ = ["GONE", "LOST", "MESSAGE", "NO_RESPONSE", "RESPONSE", "Relay", "STORED_SECONDS", "pack", "take_journal",
           "taken_elsewhere", "unpack", "used_state"]

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

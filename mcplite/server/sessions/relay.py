"""Has a request answered by the process of the fleet where its handler waits, and passes on what that process sends.

handover.py decides which requests are relayed, and is the other process's side.
"""

import secrets
import threading
import time
from typing import Any, Dict, Optional

from ...errors import INTERNAL_ERROR, BackendError, Cancelled, RemoteError
from ...protocol import jsonrpc
from ...rpc.incoming import Incoming
from ..auth.principals import ISSUED_HERE, Principal
from ..catalog.targets import Target
from ..handling.dispatch import answer_request
from ..handling.fleet_wait import noted_steps
from ..handling.http_request import HTTPRequest
from ..handling.request_context import RequestContext
from ..handling.wait import request_digest
from ..runtime.outage import away_error
from ..runtime.runtime import Runtime
from ..runtime.shared import shared_of
from ..runtime.waiting import refused_state
from .modern import ModernSession

__all__ = ["GONE", "MESSAGE", "NO_RESPONSE", "REPLY_SECONDS", "RESPONSE", "Relay", "request_key", "take_journal"]

#: The kinds of entries of a reply, each followed by its data.
MESSAGE, RESPONSE, NO_RESPONSE, GONE = b"m", b"r", b"n", b"g"
#: Seconds for which the messages of a reply are kept.
REPLY_SECONDS = 60.0
#: Bytes of a request that go into a letter; more are stored beside it.
_IN_LETTER = 16_384
#: Seconds of one wait for a reply, after which the other process is looked at.
_WAIT_SECONDS = 1.0
#: Seconds after which a process that has not begun with a request no longer gets it, if it has not taken the journal.
_ACCEPT_SECONDS = 3.0
#: Seconds between two attempts to read a reply while the store is away.
_AWAY_SECONDS = 0.5
#: Headers with secrets, which are not written into the store.
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})


def request_key(log: str) -> str:
    """Return the key of a request that is too long for a letter, from the log of its reply."""
    return f"{log}-request"


def take_journal(runtime: Runtime, session: ModernSession, incoming: Incoming, handle: str) -> None:
    """Take the journal of a call for a session, so that this process goes on with it and no other does.

    :raises RemoteError: it was taken before, or has expired.
    :raises BackendError: the store failed.
    """
    journal = runtime.states.open(handle, session.owner, incoming.method, incoming.params)
    if journal is None:
        steps = noted_steps(runtime, handle)
        if steps:
            raise RemoteError(f"this requestState was used before, and its call is not repeated. Of its steps: {steps}",
                              code=INTERNAL_ERROR)
        raise refused_state()
    journal.answered = handle
    session.journal = journal


class Relay:
    """One request whose handler waits in another process.

    :param number: of that process.
    :param handle: of the journal, and of the handler there.
    """

    def __init__(self, runtime: Runtime, session: ModernSession, incoming: Incoming, number: int, handle: str) -> None:
        self._runtime = runtime
        self._shared = shared_of(runtime)
        self._session = session
        self._incoming = incoming
        self._number = number
        self._handle = handle
        self._log = f"reply-{secrets.token_hex(12)}/out"
        #: The number of the last entry that was passed on.
        self._known = 0
        #: Set when the request is cancelled.
        self._cancelled = threading.Event()

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
        data = jsonrpc.dump(jsonrpc.Request(incoming.id, incoming.method, incoming.params))
        body: Dict[str, Any] = {
            "handle": self._handle, "digest": request_digest(session, incoming), "reply": self._log, "sender": facts.sender,
            "principal": _described(session.principal),
            "http": {"method": http.method, "path": http.path, "query": http.query, "mount": http.mount, "port": http.port,
                     "remote": http.remote, "network": http.network,
                     "headers": [[name, value] for name in http.headers if name not in _SECRET
                                 for value in http.headers.all(name)]}}
        if len(data) <= _IN_LETTER:
            body["data"] = data.decode("utf-8")
        else:
            self._shared.backend.put(request_key(self._log), data, REPLY_SECONDS)
        self._shared.letters.send(self._number, "continue call", body)

    def _cancel(self) -> None:
        self._cancelled.set()
        reason = self._incoming.token.reason or "the client has closed the connection"
        self._runtime.workers.spawn(lambda: self._send_cancel(reason))

    def _send_cancel(self, reason: str) -> None:
        try:
            self._shared.letters.send(self._number, "cancel call", {"reply": self._log, "reason": reason})
        except BackendError as error:
            self._shared.outage.found(error)

    def _follow(self) -> bool:
        """Pass on what the other process sends; True once that has answered, False if the journal is to be replayed here.

        :raises Cancelled: the client has left.
        :raises RemoteError: the other process has ended, or its answer is lost.
        """
        began, asked, gone = time.monotonic(), False, False
        while True:
            if self._cancelled.is_set():
                raise Cancelled(self._incoming.token.reason)
            try:
                if gone:
                    take_journal(self._runtime, self._session, self._incoming, self._handle)
                    return False
                if self._shared.backend.wait({self._log: self._known}, _WAIT_SECONDS):
                    if self._pass_on():
                        return True
                elif not self._shared.leases.alive(self._number):
                    if self._pass_on():
                        return True  # its last words
                    self._take_over()
                    return False
                elif not self._known and not asked and time.monotonic() - began > _ACCEPT_SECONDS:
                    asked = True
                    if self._try_take():
                        return False
            except BackendError as error:
                self._shared.outage.found(error)
                self._cancelled.wait(_AWAY_SECONDS)
            except _NotThere:
                gone = True

    def _pass_on(self) -> bool:
        """Pass on the new entries; True if the last one was the response."""
        entries = self._shared.backend.since(self._log, self._known)
        if entries is None:
            raise RemoteError("the answer of the process that runs this call is lost, since the store was emptied or is too"
                              " slow; what the call has done is not known", code=INTERNAL_ERROR)
        for at, entry in entries:
            self._known = at
            kind, data = entry[:1], entry[1:]
            if kind == MESSAGE:
                self._incoming.pass_on(data)
            elif kind == RESPONSE:
                code, _, response = data.partition(b" ")
                self._incoming.answer(response, int(code) or None)
                return True
            elif kind == NO_RESPONSE:
                self._incoming.answer(None, None)
                return True
            elif kind == GONE:
                raise _NotThere
        return False

    def _try_take(self) -> bool:
        try:
            take_journal(self._runtime, self._session, self._incoming, self._handle)
        except RemoteError:
            return False  # the other process has begun
        return True

    def _take_over(self) -> None:
        """Take the journal of a process that has ended.

        :raises RemoteError: the other process has taken it, and has ended before it answered.
        """
        if not self._try_take():
            steps = noted_steps(self._runtime, self._handle)
            raise RemoteError("the process that ran this call has ended before it answered; what the call has done is not known"
                              + (f". Of its steps: {steps}" if steps else ""), code=INTERNAL_ERROR)


class _NotThere(Exception):
    """The handler does not wait in the other process any more."""


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
        jsonrpc.dump(jsonrpc.Notification("claim", {name: value}))
    except (TypeError, ValueError):
        return False  # such as an object of the host
    return isinstance(name, str)

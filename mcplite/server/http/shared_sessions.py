"""Sessions that any process of a fleet serves: made of their records, and told of what concerns them by letters.

The endpoint of a server with a shared backend uses them in the place of :mod:`.sessions`.
"""

import itertools
import time
from typing import Any, Callable, Iterator, Optional, Set

from ...backend.interface import Backend
from ...errors import ConnectionClosed
from ...protocol import jsonrpc
from ...rpc.forks import new_lock
from ...rpc.peer import Peer
from ..auth.principals import Principal
from ..handling.http_request import HTTPRequest
from ..runtime.changes import Changes
from ..runtime.leases import Leases
from ..runtime.letters import Letters
from ..runtime.runtime import Runtime
from ..sessions.opening import create_session
from ..sessions.records import SessionRecord, SessionRecords
from ..sessions.shared import SharedLegacySession
from .common_stream import CommonLogChannel, CommonStream, end_common
from .decision import ResumeStream
from .get_streams import GetStreams
from .log_bodies import LogBody
from .log_streams import LoggedStreams, resume_request
from .messages import HTTPResponse
from .sessions import SESSION_BYTES, HTTPSession, SessionTable

__all__ = ["SharedSession", "SharedSessions"]

#: A request id of the server's own has the number of its process above these bits, which count.
_COUNT_BITS = 32


class SharedSession(HTTPSession):
    """One session, as one process knows it: it is made of the record, and can be let go of while the session goes on."""

    session: SharedLegacySession
    streams: LoggedStreams

    def __init__(self, id: str, session: SharedLegacySession, peer: Peer, streams: LoggedStreams, now: float,
                 record: SessionRecord) -> None:
        super().__init__(id, record.owner, session, peer, streams, now)
        session.share = self.change
        self.records = streams.records
        self.record = record
        #: The stored bytes of the record.
        self.data = b""
        #: When this process has renewed the lifetime of the record; None before.
        self.renewed: Optional[float] = None
        #: The responses of this process that read the common stream.
        self.bodies: Set[LogBody] = set()
        #: Held while a change is stored, so that changes of this process do not compete with each other.
        self._changing = new_lock()

    @property
    def busy(self) -> bool:
        return self.peer.in_flight > 0 or bool(self.bodies)

    @property
    def size(self) -> int:
        return SESSION_BYTES + self.session.subscribed_bytes

    def end(self, why: str) -> None:
        for body in list(self.bodies):
            body.stop()
        super().end(why)

    def restore(self, data: bytes) -> bool:
        """Take over the stored state; False if it cannot be read."""
        if data == self.data:
            return True
        record = SessionRecord.load(data)
        if record is None:
            return False
        self.session.restore(record)
        if record.version > self.record.version or not self.data:
            self.data, self.record = data, record
        self.streams.priming = record.revision.priming_event
        return True

    def reload(self) -> bool:
        """Read the stored state; False if the session has ended.

        :raises BackendError: the store failed.
        """
        data = self.records.get(self.id)
        return data is not None and self.restore(data)

    def change(self, apply: Callable[[], object]) -> None:
        """Change the state of the session in all processes.

        :param apply: changes this object; called again if another process has changed the session meanwhile.
        :raises BackendError: the store failed.
        :raises ConnectionClosed: the session has ended.
        """
        with self._changing:
            while True:
                data = self.records.get(self.id)
                if data is None or not self.restore(data):
                    raise ConnectionClosed("the session has ended")
                apply()
                if self._swap(data):
                    return

    def overwrite(self) -> None:
        """Store the state of this object, after a new handshake.

        :raises BackendError: the store failed.
        """
        with self._changing:
            while True:
                data = self.records.get(self.id)
                record = None if data is None else SessionRecord.load(data)
                if data is None or record is None:
                    return  # the session has ended
                self.record = record
                if self._swap(data):
                    return

    def _swap(self, data: bytes) -> bool:
        record = self.session.store(self.record)
        stored = self.records.swap(self.id, data, record)
        if stored is None:
            return False
        self.session.stored(record)
        self.data, self.record = stored, record
        self.renewed = time.monotonic()
        return True

    def renew(self) -> bool:
        """Have the session last, if that is due; False if it has ended.

        :raises BackendError: the store failed.
        """
        now = time.monotonic()
        if self.renewed is not None and now - self.renewed < self.records.renew_seconds:
            return True
        while not self.records.renew(self.id, self.data, self.record):
            if not self.reload():
                return False
        self.renewed = now
        return True


class _QuestionIds(Iterator[int]):
    """The ids of questions, from which every process reads which one has asked."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._counts = itertools.count(1)

    def __next__(self) -> int:
        return self._leases.number << _COUNT_BITS | next(self._counts) % (1 << _COUNT_BITS)


class SharedSessions(SessionTable):
    """The sessions of a fleet that one process knows. To let go of one does not end it.

    :param runtime: of the server.
    :param kind: names the transport, for what is stored.
    :param enter: enters the lifespan, before a session is made.
    """

    def __init__(self, runtime: Runtime, backend: Backend, kind: str, enter: Callable[[], object]) -> None:
        super().__init__(runtime.limits)
        assert runtime.leases is not None and runtime.letters is not None
        self._runtime = runtime
        self._enter = enter
        self._kind = kind
        self.leases: Leases = runtime.leases
        self._letters: Letters = runtime.letters
        self.changes = Changes(backend, runtime.catalog.name)
        self.records = SessionRecords(backend, runtime.limits, kind)
        #: Numbers the streams, and the questions, of this process.
        self.labels: Iterator[int] = itertools.count(1)
        self._ids = _QuestionIds(self.leases)
        self._letters.on(kind, self._receive)
        self.leases.on_lost(self._lost)

    # --- opening and finding ------------------------------------------------------------------------------

    def open(self, principal: Optional[Principal], sender: str) -> SharedSession:
        """Return a new session, which is not stored yet.

        :raises BackendError: the store failed.
        """
        owner = None if principal is None else principal.key
        record = SessionRecord(self._runtime.catalog.revisions[0], owner, sender, self.records.now, self.changes.last(),
                               version=0)
        return self._make(self.new_id(), record, principal)

    def _make(self, id: str, record: SessionRecord, principal: Optional[Principal]) -> SharedSession:
        runtime = self._runtime
        self._enter()
        streams = LoggedStreams(self.records, id, self.leases, record.sender, runtime.unread, runtime.log, self.labels)
        channel = CommonLogChannel(streams, self.records, patient=self._kind != "session")
        session, peer = create_session(runtime, channel, may_be_sessionless=False, kind=SharedLegacySession)
        assert isinstance(session, SharedLegacySession)
        session.principal, session.sender = principal, record.sender
        peer.number_calls(self._ids)
        return SharedSession(id, session, peer, streams, self.now, record)

    def store(self, session: SharedSession, reader: int = 0) -> bool:
        """Store a session after its handshake, and add it; False if there are too many that are all in use.

        :param reader: the number of this process, if the session ends with it.
        :raises BackendError: the store failed.
        """
        session.record = session.session.store(session.record)
        session.data = self.records.put(session.id, session.record)
        session.session.stored(session.record)
        session.streams.priming = session.record.revision.priming_event
        if self.add(session):
            return True
        self.records.remove(session.id)
        return False

    def start_over(self, session: HTTPSession) -> None:
        """Store what a new handshake has changed.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        session.overwrite()

    def find(self, id: str, owner: Optional[str]) -> Optional[SharedSession]:
        self.sweep()
        data = self.records.get(id)
        known = self._sessions.get(id)
        assert known is None or isinstance(known, SharedSession)
        if data is None:
            if known is not None:
                self.end(known, "the session has ended")
            return None
        if known is None or known.peer.closed:
            return self._adopt(id, data, owner)
        if known.owner != owner or not known.restore(data):
            return None
        return self._use(known)

    def _adopt(self, id: str, data: bytes, owner: Optional[str]) -> Optional[SharedSession]:
        """Make a session of its record, and keep it."""
        record = SessionRecord.load(data)
        if record is None or record.owner != owner:
            return None
        made = self._make(id, record, None)
        made.restore(data)
        with self._lock:
            known = self._sessions.setdefault(id, made)
        if known is not made:
            made.end("another request has made the session meanwhile")
            assert isinstance(known, SharedSession)
            return self._use(known)
        for old in self._shares.add(made, record.sender, made.size) or ():
            self.end(old, "this process needed the room for another client's session")
        return self._use(made)

    def _use(self, session: SharedSession) -> SharedSession:
        session.renew()
        now = session.touched = self.now
        self._note_use(session, now)
        return session

    def delete(self, session: HTTPSession) -> None:
        """End a session for all processes, as its client asks.

        :raises BackendError: the store failed.
        """
        self.records.remove(session.id)
        end_common(self.records, session.id)
        self._letters.broadcast(self._kind, {"id": session.id, "what": "ended"})
        self.end(session, "the client has ended the session")

    # --- messages without an answer ---------------------------------------------------------------------

    def accept(self, session: HTTPSession, data: bytes, message: jsonrpc.Message) -> None:
        """Pass on a message without requests, to the process that it concerns.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        if type(message) is jsonrpc.Batch:
            for item in message.items:
                if isinstance(item, (jsonrpc.Response, jsonrpc.Failure, jsonrpc.Notification)):
                    self.accept(session, jsonrpc.dump(item), item)
                else:
                    session.peer.receive(data, item)
            return
        if isinstance(message, (jsonrpc.Response, jsonrpc.Failure)):
            asked = message.id >> _COUNT_BITS if type(message.id) is int else 0
            if asked <= 0 or asked == self.leases.candidate:
                session.peer.receive(data, message)
            else:
                self._letters.send(asked, self._kind, {"id": session.id, "what": "answer", "data": data.decode("latin-1")})
            return
        method = message.method if type(message) is jsonrpc.Notification else ""
        if method == "notifications/initialized":
            if not session.session.initialized:
                session.change(session.session.confirm)
            return
        if method == "notifications/cancelled":
            self._cancel(session, message)
            return
        if method == "notifications/roots/list_changed":
            session.change(session.session.change_roots)
            self._letters.broadcast(self._kind, {"id": session.id, "what": "roots"})
        session.peer.receive(data, message)

    def _cancel(self, session: SharedSession, message: Any) -> None:
        params = message.params or {}
        id, reason = params.get("requestId"), params.get("reason")
        if not session.peer.cancel_incoming(id, reason) and type(id) in (int, str):
            self._letters.broadcast(self._kind, {"id": session.id, "what": "cancelled", "request": id, "reason": reason})

    # --- GET ----------------------------------------------------------------------------------------------

    def open_common(self, request: HTTPRequest, session: HTTPSession, streams: GetStreams) -> HTTPResponse:
        """Open the session's common stream.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        body = CommonStream.open(session, self.changes, self.leases, self.labels)
        return streams.refuse_second() if body is None else streams.open(request, body)

    def resume(self, request: HTTPRequest, decision: ResumeStream, streams: GetStreams) -> HTTPResponse:
        """Resume a stream after an event, wherever its handler runs.

        :raises BackendError: the store failed.
        """
        session, name, event = decision.session, decision.stream, decision.event
        assert isinstance(session, SharedSession)
        first, _, second = name.partition(".")
        if not second:
            return streams.open(request, None)
        if first == "0":
            at = f"{self.leases.number}.{next(self.labels)}"
            return streams.open(request, CommonStream.resume(session, self.changes, at, int(second), event))
        body = resume_request(self.records, session.id, name, event, self.leases)
        if body is not None and body.ending:
            return streams.over()
        if body is not None:
            session.streams.let_go(name)
            if int(first) != self.leases.candidate:
                self._letters.send(int(first), self._kind, {"id": session.id, "what": "resumed", "stream": name})
        return streams.open(request, body)

    # --- letters, on the reading thread -------------------------------------------------------------------

    def _receive(self, letter: Any) -> None:
        session = self._sessions.get(letter["id"])
        if session is None:
            return
        assert isinstance(session, SharedSession)
        found, what = session, letter["what"]
        if what == "answer":
            data = letter["data"].encode("latin-1")
            found.peer.receive(data, jsonrpc.parse(data, self._runtime.json_limits))
        elif what == "cancelled":
            found.peer.cancel_incoming(letter["request"], letter["reason"])
        elif what == "roots":
            found.session.forget_roots()
        elif what == "resumed":
            found.streams.let_go(letter["stream"])
        elif what == "ended":
            # It waits for the store, and for callbacks of handlers.
            self._runtime.workers.spawn(lambda: self.end(found, "the client has ended the session"))

    def _lost(self, number: int) -> None:
        """Have the questions of this process fail that were asked under a number that it has lost."""
        error = ConnectionClosed("this process was paused for so long that the others have taken it for ended, and the client's"
                                 " answer cannot reach it")
        for session in list(self._sessions.values()):
            session.peer.abandon_calls(lambda id: id >> _COUNT_BITS == number, error)

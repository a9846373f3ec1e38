"""Sessions that any process of a fleet serves: made of their records, and told of what concerns them by letters.

The endpoint of a server with a shared backend uses them in the place of :mod:`.sessions`.
"""

import itertools
import time
from dataclasses import replace
from typing import Any, Callable, Iterator, List, Optional, Set

from ...backend.interface import Backend
from ...errors import SERVER_BUSY, BackendError, ConnectionClosed, RemoteError
from ...protocol import jsonrpc
from ...rpc.forks import new_lock
from ...rpc.peer import Peer
from ..handling.http_request import HTTPRequest
from ..principals import Principal
from ..runtime.changes import Changes
from ..runtime.leases import NUMBERS, Leases
from ..runtime.letters import Letters
from ..runtime.outage import Outage, away_error
from ..runtime.runtime import Runtime
from ..sessions.fleet_sessions import LISTED_BYTES, FleetSessions
from ..sessions.opening import create_session
from ..sessions.records import SessionRecord, SessionRecords
from ..sessions.shared import COUNT_BITS, QuestionIds, SharedLegacySession
from .common_stream import CommonLogChannel, CommonStream, end_common
from .get_streams import GetStreams
from .log_bodies import LogBody
from .log_streams import Backlog, LoggedStreams, resume_request
from .messages import HTTPResponse
from .routing import ResumeStream
from .sessions import SESSION_BYTES, HTTPSession, SessionTable

__all__ = ["SharedSession", "SharedSessions"]

#: Seconds after a failure in which the store is not tried for each request: somewhat longer than an operation may take.
_KNOWN_SECONDS = 6.0
#: Seconds after which a renewal that has failed is tried again.
_RENEW_AGAIN_SECONDS = 5.0
#: Characters of a reason that other processes are told.
_MOST_REASON = 200


class SharedSession(HTTPSession):
    """One session, as one process knows it: it is made of the record, and can be let go of while the session goes on."""

    session: SharedLegacySession
    streams: LoggedStreams
    #: Called when the record has more bytes than the lists of the fleet have noted.
    on_grown: "Callable[[SharedSession], object]"

    def __init__(self, id: str, session: SharedLegacySession, peer: Peer, streams: LoggedStreams, now: float,
                 record: SessionRecord, outage: Outage) -> None:
        super().__init__(id, record.owner, session, peer, streams, now)
        self._outage = outage
        session.share = self.change
        self.records = streams.records
        self.record = record
        #: The stored bytes of the record.
        self.data = b""
        #: When this process has renewed the lifetime of the record; None before.
        self.renewed: Optional[float] = None
        #: The bytes that the lists of the fleet have noted, as far as this process knows.
        self.listed = LISTED_BYTES
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

    def known_as(self, principal: Optional[Principal]) -> None:
        """Note the owner, whom a process that has made the session of its record learns from a request."""
        if self.session.principal is None:
            self.session.principal = principal

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
        :raises RemoteError: the store failed.
        :raises ConnectionClosed: the session has ended.
        """
        try:
            with self._changing:
                while True:
                    data = self.records.get(self.id)
                    if data is None or not self.restore(data):
                        raise ConnectionClosed("the session has ended")
                    apply()
                    if self._swap(data, self.session.store(self.record)):
                        break
            if len(self.data) > self.listed:
                self.on_grown(self)
        except BackendError as error:
            self._outage.found(error)
            raise away_error() from error

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
                if self._swap(data, self.session.store(self.record)):
                    return

    def _swap(self, data: bytes, new: SessionRecord) -> bool:
        record = replace(new, touched=self.records.now)
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
        with self._changing:
            while not self._swap(self.data, self.record.changed()):
                if not self.reload():
                    return False
        return True

    def renew_later(self) -> None:
        """Try the renewal again in some seconds."""
        self.renewed = time.monotonic() - self.records.renew_seconds + _RENEW_AGAIN_SECONDS


class SharedSessions(SessionTable):
    """The sessions of a fleet that one process knows. To let go of one does not end it.

    :param runtime: of the server.
    :param kind: names the transport, for what is stored.
    :param enter: enters the lifespan, before a session is made.
    """

    def __init__(self, runtime: Runtime, backend: Backend, kind: str, enter: Callable[[], object]) -> None:
        super().__init__(runtime.limits)
        assert runtime.leases is not None and runtime.letters is not None and runtime.outage is not None
        self._outage: Outage = runtime.outage
        self._runtime = runtime
        self._enter = enter
        self._kind = kind
        self.leases: Leases = runtime.leases
        self._letters: Letters = runtime.letters
        self.changes = Changes(backend, runtime.catalog.name)
        self.records = SessionRecords(backend, runtime.limits, kind)
        self._fleet_sessions = FleetSessions(self.records, runtime.catalog.name)
        #: Numbers the streams, and the questions, of this process.
        self.labels: Iterator[int] = itertools.count(1)
        self._ids = QuestionIds(self.leases, self._outage)
        self._backlog = Backlog()
        #: When the store could not be read last.
        self._failed = float("-inf")
        self._letters.on(kind, self._receive)
        self.leases.on_lost(self._lost)

    # --- opening and finding ------------------------------------------------------------------------------

    def open(self, principal: Optional[Principal], sender: str) -> SharedSession:
        """Return a new session, which is not stored yet.

        :raises BackendError: the store failed.
        """
        self._check()
        owner = None if principal is None else principal.key
        record = SessionRecord(self._runtime.catalog.revisions[0], owner, sender, self.records.now, self.changes.last(),
                               version=0)
        return self._make(self.new_id(), record, principal)

    def _make(self, id: str, record: SessionRecord, principal: Optional[Principal]) -> SharedSession:
        runtime = self._runtime
        self._enter()
        streams = LoggedStreams(self.records, id, self.leases, record.sender, runtime.unread, self._outage, self.labels,
                                self._backlog)
        channel = CommonLogChannel(streams, self.records, patient=self._kind != "session")
        session, peer = create_session(runtime, channel, may_be_sessionless=False, kind=SharedLegacySession)
        assert isinstance(session, SharedLegacySession)
        session.principal, session.sender = principal, record.sender
        peer.number_calls(self._ids)
        made = SharedSession(id, session, peer, streams, self.now, record, self._outage)
        made.on_grown = self._make_room
        return made

    def store(self, session: SharedSession, reader: int = 0) -> bool:
        """Store a new session, and add it; others end for it if there are too many. False if those are all in use.

        :param reader: the number of this process, if the session ends with it.
        :raises BackendError: the store failed.
        """
        session.record = replace(session.session.store(session.record), reader=reader)
        going = self._fleet_sessions.add(session.id, session.record.sender)
        if going is None:
            return False
        self._end_all(going)
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
        self._check()
        try:
            data = self.records.get(id)
        except BackendError:
            self._failed = time.monotonic()
            raise
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

    def _check(self) -> None:
        """Refuse a request at once if the store could not be read a moment ago: one that hangs costs seconds each time.

        A store that is full can be read, and plain calls go on.

        :raises RemoteError: it is refused.
        """
        if self._outage and time.monotonic() - self._failed < _KNOWN_SECONDS:
            raise away_error()

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
        going = self._shares.add(made, record.sender, made.size)
        if going is None:
            self.end(made, "all sessions are in use")
            raise RemoteError("Server busy: too many sessions are in use; try again later", code=SERVER_BUSY)
        for old in going:
            self.end(old, "this process needed the room for another client's session")
        return self._use(made)

    def _use(self, session: SharedSession) -> SharedSession:
        try:
            session.renew()
        except BackendError as error:
            self._outage.found(error)  # the record could be read, which is enough for now
            session.renew_later()
        now = session.touched = self.now
        self._note_use(session, now)
        return session

    def delete(self, session: HTTPSession, why: str = "the client has ended the session") -> None:
        """End a session for all processes, as its client asks.

        :raises BackendError: the store failed.
        """
        self._end_elsewhere(session.id)
        self._fleet_sessions.remove(session.id)
        self.end(session, why)

    def _end_elsewhere(self, id: str) -> None:
        self.records.remove(id)
        end_common(self.records, id)
        self._letters.broadcast(self._kind, {"id": id, "what": "ended"})

    def _end_all(self, ids: List[str]) -> None:
        for id in ids:
            self._end_elsewhere(id)
            session = self._sessions.get(id)
            if session is not None:
                self.end(session, "the processes needed the room for another client's session")

    def _make_room(self, session: SharedSession) -> None:
        """Have others end for a session that has grown, or the session itself if there is no room."""
        session.listed = size = 1 << (len(session.data) - 1).bit_length()  # so that few changes are noted
        going = self._fleet_sessions.resize(session.id, session.record.sender, size)
        self._end_all([session.id] if going is None else going)

    # --- the transport with two endpoints -----------------------------------------------------------------

    def abandoned(self, session: HTTPSession) -> bool:
        """Whether the process has ended that read the one stream of the session, which ends with it.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        if self.leases.alive(session.record.reader):
            return False
        self.delete(session, "the process that served its stream has ended")
        return True

    # --- messages without an answer ---------------------------------------------------------------------

    def accept(self, session: HTTPSession, data: bytes, message: jsonrpc.Message, principal: Optional[Principal]) -> None:
        """Pass on a message without requests, to the process that it concerns.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        session.known_as(principal)
        if type(message) is jsonrpc.Batch:
            for item in message.items:
                if isinstance(item, (jsonrpc.Response, jsonrpc.Failure, jsonrpc.Notification)):
                    self.accept(session, jsonrpc.dump(item), item, principal)
                else:
                    session.peer.receive(data, item)
            return
        if isinstance(message, (jsonrpc.Response, jsonrpc.Failure)):
            asked = message.id >> COUNT_BITS if type(message.id) is int else 0
            if not 0 < asked < NUMBERS or asked == self.leases.candidate:
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
        id, reason = jsonrpc.whole(params.get("requestId")), params.get("reason")
        if not session.peer.cancel_incoming(id, reason) and type(id) in (int, str):
            short = reason[:_MOST_REASON] if isinstance(reason, str) else None
            self._letters.broadcast(self._kind, {"id": session.id, "what": "cancelled", "request": id, "reason": short})

    # --- GET ----------------------------------------------------------------------------------------------

    def open_common(self, request: HTTPRequest, session: HTTPSession, streams: GetStreams) -> HTTPResponse:
        """Open the session's common stream.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, SharedSession)
        body = CommonStream.open(session, self.changes, self.leases, self.labels)
        return streams.refuse_second() if body is None else streams.open(request, body, name=session.id)

    def open_only(self, request: HTTPRequest, session: SharedSession, first: bytes, streams: GetStreams) -> HTTPResponse:
        """Open the one stream of a client of the transport with two endpoints; the session ends with it (LSSE-10).

        :param first: the event that comes first.
        :raises BackendError: the store failed.
        """
        body = CommonStream.open(session, self.changes, self.leases, self.labels)
        assert body is not None  # the id is not known to the client yet
        body.first = first
        return streams.open(request, body, lambda: self._close_only(session))

    def _close_only(self, session: SharedSession) -> None:
        try:
            self.delete(session, "the client has closed its stream")
        except BackendError:
            self.end(session, "the client has closed its stream")  # its record expires

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
            return streams.open(request, CommonStream.resume(session, self.changes, at, int(second), event),
                                name=session.id)
        body = resume_request(self.records, session.id, name, event, self.leases)
        if body is not None and body.ending:
            return streams.over()
        if body is not None:
            session.streams.let_go(name)
            if int(first) != self.leases.candidate:
                self._letters.send(int(first), self._kind, {"id": session.id, "what": "resumed", "stream": name})
        return streams.open(request, body, name=(session.id, name))

    def close(self, why: str) -> None:
        super().close(why)
        self._backlog.close()

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
            self._end_soon(found, "the session has ended")

    def _end_soon(self, session: SharedSession, why: str) -> None:
        """End a session on a worker: that waits for the store, and for callbacks of handlers."""
        self._runtime.workers.spawn(lambda: self.end(session, why))

    def _lost(self, number: int) -> None:
        """Have the questions of this process fail that were asked under a number that it has lost."""
        error = ConnectionClosed("this process was paused for so long that the others have taken it for ended, and the client's"
                                 " answer cannot reach it")
        for session in list(self._sessions.values()):
            assert isinstance(session, SharedSession)
            session.peer.abandon_calls(lambda id: id >> COUNT_BITS == number, error)
            if session.record.reader == number:
                self._end_soon(session, "this process was paused for too long")

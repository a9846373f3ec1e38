"""The sessions of clients with a handshake, over HTTP: each is an object of this process, and a record that others need.

In one process the object is the session, and no record is written. Several processes share the records: each makes the object
of the record when a request of the session reaches it, may release it while the session goes on, and is told by messages of
what concerns it. A record is written when the session is handed out and when a fact in it changes, never for a call.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Set, Union

from ...errors import SERVER_BUSY, BackendError, ConnectionClosed, RemoteError
from ...protocol import jsonrpc
from ...rpc.peer import Peer
from ..eviction import Shares
from ..principals import Principal
from ..runtime.processes import NUMBERS
from ..runtime.runtime import Runtime
from ..sessions.legacy import LegacySession
from ..sessions.opening import create_session
from ..sessions.records import LISTED_BYTES, SessionRecord, SessionRecords
from ..sessions.stored import COUNT_BITS, QuestionIds, StoredLegacySession
from .get_stream import CommonLogChannel, CommonOutlet, CommonStream, end_common
from .logs import LogBody, StreamLog, StreamLogs
from .streams import Backlog, RequestLogBody, RequestStreams, StreamsChannel, resume_request

__all__ = ["HTTPSession", "Sessions", "StoredSession", "create_session_for_one_message"]

#: Bytes that a session takes besides, roughly.
SESSION_BYTES = 10_000
#: Seconds between two searches for sessions that have expired.
_SWEEP_SECONDS = 1.0
#: Seconds after a use of a session was noted in which further ones are not.
_NOTE_SECONDS = 0.1
#: Seconds after a failure in which the store is not tried for each request: somewhat longer than an operation may take.
_KNOWN_SECONDS = 6.0
#: Seconds after which a renewal that has failed is tried again.
_RENEW_AGAIN_SECONDS = 5.0
#: Characters of a reason that other processes are told.
_MOST_REASON = 200
_EXPIRED = "the session has expired"
_BUSY = "Server busy: too many sessions are in use; try again later"


class HTTPSession:
    """One client of the handshake era over HTTP, for one message or for many.

    :param id: the session id, which the client sends with each request; empty for one message.
    """

    def __init__(self, id: str, session: LegacySession, peer: Peer, streams: RequestStreams) -> None:
        self.id = id
        self.session = session
        self.peer = peer
        self.streams = streams

    def end(self, why: str) -> None:
        """End the session here: cancel its calls, end its streams, drop their events (SESS-12)."""
        self.peer.close(ConnectionClosed(why))


class StoredSession(HTTPSession):
    """One session, as this process knows it.

    :param log: of its common stream.
    :param now: when this process came to know it, in the time of its table.
    :param record: its stored state.
    """

    session: StoredLegacySession
    #: Held while a change is stored, so that changes of this process do not compete with each other; for several processes.
    _changing: threading.Lock

    def __init__(self, id: str, session: StoredLegacySession, peer: Peer, streams: RequestStreams, log: StreamLog, now: float,
                 record: SessionRecord, table: "Sessions") -> None:
        super().__init__(id, session, peer, streams)
        self._table = table
        session.share = self.change
        #: The key of the principal that opened the session; only that one may use it (SESS-15). None without authentication.
        self.owner = record.owner
        self.log = log
        self.records = table.records
        self.record = record
        #: The stored bytes of the record.
        self.data = b""
        self.opened = now
        self.touched = now
        #: Whether the client has sent anything since the session began.
        self.used = False
        #: When a use was last noted.
        self.noted = now
        #: When this process has renewed the lifetime of the record; None before.
        self.renewed: Optional[float] = None
        #: The bytes that the lists of the fleet have noted, as far as this process knows.
        self.listed = LISTED_BYTES
        #: The responses of this process that read the common stream.
        self.bodies: Set[LogBody] = set()
        if table.processes.shared:
            self._changing = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether the client is connected: it waits for a response, or reads the common stream."""
        return self.peer.in_flight > 0 or bool(self.bodies)

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, roughly; the events of its streams count elsewhere."""
        return SESSION_BYTES + self.session.subscribed_bytes

    def known_as(self, principal: Optional[Principal]) -> None:
        """Note the owner, whom a process that has made the session of its record learns from a request."""
        if self.session.principal is None:
            self.session.principal = principal

    def end(self, why: str) -> None:
        for body in list(self.bodies):
            body.stop()
        super().end(why)

    # --- its state ------------------------------------------------------------------------------------

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
        """Change the state of the session, in all processes that know it.

        :param apply: changes this object; called again if another process has changed the session meanwhile.
        :raises RemoteError: the store failed.
        :raises ConnectionClosed: the session has ended.
        """
        if not self._table.processes.shared:
            apply()
            return
        try:
            with self._changing:
                while True:
                    data = self.records.get(self.id)
                    if data is None or not self.restore(data):
                        raise ConnectionClosed("the session has ended")
                    apply()
                    if self._swap(data, self.session.store(self.record, self.records.now)):
                        break
            if len(self.data) > self.listed:
                self._table.make_room(self)
        except BackendError as error:
            from ..runtime.processes import away_error

            self._table.processes.failed(error)
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
                if self._swap(data, self.session.store(self.record, self.records.now)):
                    return

    def _swap(self, data: bytes, record: SessionRecord) -> bool:
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
        if not self._table.processes.shared:
            return not self.peer.closed
        now = time.monotonic()
        if self.renewed is not None and now - self.renewed < self.records.renew_seconds:
            return True
        with self._changing:
            while not self._swap(self.data, self.record.changed(touched=self.records.now)):
                if not self.reload():
                    return False
        return True

    def renew_later(self) -> None:
        """Try the renewal again in some seconds."""
        self.renewed = time.monotonic() - self.records.renew_seconds + _RENEW_AGAIN_SECONDS


def _is_busy(session: StoredSession) -> bool:
    return session.busy


class Sessions:
    """The sessions of one endpoint that this process knows, by id.

    When there are too many, an idle session gives way to a new one (:class:`Shares`). Expired ones are ended by
    :meth:`sweep`, which is part of each access and, in our own HTTP server, of the poller's sweep. With a shared backend a
    process releases only its object then: a record expires by itself, and the lists of the fleet bound the records.

    :param runtime: of the server.
    :param kind: names the transport, for what is stored: "session", or "sse" for the one with two endpoints.
    :param logs: of all streams of the endpoint.
    :param enter: enters the lifespan, before a session is made of its record.
    :param clock: returns seconds.
    """

    def __init__(self, runtime: Runtime, kind: str, logs: StreamLogs, enter: Callable[[], object],
                 clock: Callable[[], float] = time.monotonic) -> None:
        limits = self._limits = runtime.limits
        self._runtime = runtime
        self._kind = kind
        self._shared = logs.processes.shared
        self.logs = logs
        self._enter = enter
        self._clock = clock
        processes = self.processes = logs.processes
        self.records = SessionRecords(processes.backend, limits, kind)
        self._sweep_seconds = min(_SWEEP_SECONDS, limits.session_idle_seconds / 2, limits.session_start_seconds / 2)
        self._swept = clock()
        #: Guards ``_sessions``; held for dictionary work only.
        self._lock = threading.Lock()
        #: In the order of their beginning.
        self._sessions: Dict[str, StoredSession] = {}
        self._shares: Shares[StoredSession] = Shares(limits.sessions, limits.session_bytes, busy=_is_busy, clock=clock)
        #: The changes that all processes tell, the ids of questions, from which every process reads which one has asked, the
        #: lists of all sessions, and what the store did not take; None in one process.
        self._changes: Any = None
        self._ids: Optional[QuestionIds] = None
        self._fleet_sessions: Any = None
        self._backlog: Optional[Backlog] = None
        #: When the store could not be read last.
        self._failed = float("-inf")
        if self._shared:
            self._changes = processes.changes
            self._ids = QuestionIds(processes)
            self._fleet_sessions = processes.session_limits(self.records)
            self._backlog = Backlog()
        processes.on(kind, self._receive)
        processes.on_lost(self._lost)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def now(self) -> float:
        """The table's time in seconds."""
        return self._clock()

    # --- opening and finding ------------------------------------------------------------------------------

    def open(self, principal: Optional[Principal], sender: str) -> StoredSession:
        """Return a new session, which is not stored yet.

        :param principal: its owner.
        :param sender: whose share it counts to.
        :raises BackendError: the store failed.
        """
        self._check()
        owner = None if principal is None else principal.key
        news = 0 if self._changes is None else self._changes.last()
        record = SessionRecord(self._runtime.catalog.revisions[0], owner, sender, self.records.now, news, version=0)
        # An id that cannot be guessed (SESS-02, SESS-03).
        return self._make(secrets.token_urlsafe(24), record, principal)

    def _make(self, id: str, record: SessionRecord, principal: Optional[Principal]) -> StoredSession:
        runtime = self._runtime
        self._enter()
        streams = RequestStreams(id, self._limits, record.sender, runtime.unread, self.records, self.logs, self._backlog)
        log = StreamLog(self.logs, self.records.name(id, "common"), record.sender)
        channel = CommonLogChannel(streams, log, patient=self._kind != "session")
        session, peer = create_session(runtime, channel, may_be_sessionless=False, kind=StoredLegacySession)
        assert isinstance(session, StoredLegacySession)
        session.principal, session.sender = principal, record.sender
        if self._ids is not None:
            peer.number_calls(self._ids)
            session.told_by_all = True
        return StoredSession(id, session, peer, streams, log, self.now, record, self)

    def add(self, session: StoredSession, reader: int = 0) -> bool:
        """Store a new session, and add it; others end for it if there are too many. False if those are all in use.

        :param reader: the number of this process, if the session ends with it.
        :raises BackendError: the store failed.
        """
        self.sweep()
        if self._fleet_sessions is not None:
            session.record = session.session.store(session.record, reader=reader)
            ending = self._fleet_sessions.add(session.id, session.record.sender)
            if ending is None:
                return False
            self._end_all(ending)
            session.data = self.records.put(session.id, session.record)
            session.session.stored(session.record)
        elif reader:
            session.record = replace(session.record, reader=reader)
        session.streams.priming = session.session.revision.priming_event
        with self._lock:
            self._sessions[session.id] = session  # before it can be chosen to make room for another one
        going = self._shares.add(session, session.session.sender, session.size)
        if going is None:
            with self._lock:
                del self._sessions[session.id]
            if self._shared:
                self.records.remove(session.id)
            return False
        for old in going:
            self.release(old, "the server needed the room for another client's session")
        return True

    def start_over(self, session: HTTPSession) -> None:
        """Store what a new handshake has changed.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, StoredSession)
        if self._shared:
            session.overwrite()
        session.streams.priming = session.session.revision.priming_event

    def find(self, id: str, owner: Optional[str]) -> Optional[StoredSession]:
        """Return a session; None if it is unknown, has ended, or has another owner, so that these look alike.

        :raises BackendError: the store failed.
        :raises RemoteError: it failed a moment ago, or the session has no room here.
        """
        self.sweep()
        known = self._sessions.get(id)
        if self._shared:
            data = self._read(id)
            if known is None and data is not None:
                return self._adopt(id, data, owner)
            if known is None or known.owner != owner or (data is not None and not known.restore(data)):
                return None
        elif known is None or known.owner != owner:
            return None
        if known.peer.closed or (self._shared and data is None):
            self.release(known, "the session has ended")
            return None
        return self._use(known)

    def _read(self, id: str) -> Optional[bytes]:
        self._check()
        try:
            return self.records.get(id)
        except BackendError:
            self._failed = time.monotonic()
            raise

    def _check(self) -> None:
        """Refuse a request at once if the store could not be read a moment ago: one that hangs costs seconds each time.

        A store that is full can be read, and plain calls go on.

        :raises RemoteError: it is refused.
        """
        if self.processes.away and time.monotonic() - self._failed < _KNOWN_SECONDS:
            from ..runtime.processes import away_error

            raise away_error()

    def _adopt(self, id: str, data: bytes, owner: Optional[str]) -> Optional[StoredSession]:
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
            return self._use(known)
        going = self._shares.add(made, record.sender, made.size)
        if going is None:
            self.release(made, "all sessions are in use")
            raise RemoteError(_BUSY, code=SERVER_BUSY)
        for old in going:
            self.release(old, "this process needed the room for another client's session")
        return self._use(made)

    def _use(self, session: StoredSession) -> Optional[StoredSession]:
        now = self._clock()
        if not self._shared:
            if self._is_expired(session, now):
                self.release(session, _EXPIRED)
                return None
        else:
            try:
                session.renew()
            except BackendError as error:
                self.processes.failed(error)  # the record could be read, which is enough for now
                session.renew_later()
        session.touched = now
        if not session.used or now - session.noted >= _NOTE_SECONDS:
            session.used, session.noted = True, now
            self._shares.use(session)
        return session

    # --- the end ------------------------------------------------------------------------------------------

    def _is_expired(self, session: StoredSession, now: float) -> bool:
        limits = self._limits
        idle_seconds = limits.session_idle_seconds if session.used else limits.session_start_seconds
        return now - session.opened > limits.session_seconds or (
            now - session.touched > idle_seconds and not session.busy)

    def sweep(self) -> None:
        """Release the sessions that have expired, at most once a second."""
        now, limits = self._clock(), self._limits
        if now - self._swept < self._sweep_seconds:
            return
        self._swept = now
        for session in self._shares.items():
            for old in self._shares.resize(session, session.size):
                self.release(old, "the sessions of all clients together were too large")
        expired = self._shares.idle(limits.session_start_seconds, limits.session_idle_seconds)
        with self._lock:
            for session in self._sessions.values():
                if now - session.opened <= limits.session_seconds:
                    break  # the others began later
                expired.append(session)
        for session in expired:
            self.release(session, _EXPIRED)

    def release(self, session: StoredSession, why: str) -> None:
        """End the object of a session; in one process that is the end of the session."""
        with self._lock:
            if self._sessions.get(session.id) is session:
                del self._sessions[session.id]
            elif session.peer.closed:
                return
        self._shares.remove(session)
        session.end(why)
        if not self._shared:
            self.records.drop_reader(session.id)
            self.logs.forget(session.log)

    def delete(self, session: HTTPSession, why: str = "the client has ended the session") -> None:
        """End a session in all processes.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, StoredSession)
        if self._fleet_sessions is not None:
            self._end_elsewhere(session.id)
            self._fleet_sessions.remove(session.id)
        self.release(session, why)

    def _end_elsewhere(self, id: str) -> None:
        self.records.remove(id)
        end_common(self.records, id)
        self.processes.broadcast(self._kind, {"id": id, "what": "ended"})

    def _end_all(self, ids: List[str]) -> None:
        for id in ids:
            self._end_elsewhere(id)
            session = self._sessions.get(id)
            if session is not None:
                self.release(session, "the processes needed the room for another client's session")

    def make_room(self, session: StoredSession) -> None:
        """Have others end for a session whose record has grown, or the session itself if there is no room.

        :raises BackendError: the store failed.
        """
        session.listed = size = 1 << (len(session.data) - 1).bit_length()  # so that few changes are noted
        if self._fleet_sessions is not None:
            going = self._fleet_sessions.resize(session.id, session.record.sender, size)
            self._end_all([session.id] if going is None else going)

    def close(self, why: str) -> None:
        """Release all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            self.release(session, why)
        if self._backlog is not None:
            self._backlog.close()

    # --- the transport with two endpoints -----------------------------------------------------------------

    def abandoned(self, session: StoredSession) -> bool:
        """Whether the process has ended that read the one stream of the session, which ends with it.

        :raises BackendError: the store failed.
        """
        if self.processes.alive(session.record.reader):
            return False
        self.delete(session, "the process that served its stream has ended")
        return True

    def outlet(self, session: StoredSession) -> CommonOutlet:
        """Return where the messages of a request go whose response is sent on the common stream."""
        channel = session.peer.channel
        assert isinstance(channel, CommonLogChannel)
        return CommonOutlet(channel, session.log, self._limits.unread_seconds)

    # --- messages without an answer ---------------------------------------------------------------------

    def accept(self, session: HTTPSession, data: bytes, message: jsonrpc.Message, principal: Optional[Principal]) -> None:
        """Pass on a message without requests, to the process that it concerns.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, StoredSession)
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
            if not 0 < asked < NUMBERS or asked == self.processes.candidate:
                session.peer.receive(data, message)
            else:
                self.processes.send(asked, self._kind, {"id": session.id, "what": "answer", "data": data.decode("latin-1")})
            return
        method = message.method if type(message) is jsonrpc.Notification else ""
        if method == "notifications/cancelled":
            self._cancel(session, message)
            return
        if method == "notifications/initialized" and not session.session.initialized:
            session.change(session.session.confirm)
        elif method == "notifications/roots/list_changed":
            session.change(session.session.change_roots)
            self.processes.broadcast(self._kind, {"id": session.id, "what": "roots"})
        session.peer.receive(data, message)

    def _cancel(self, session: StoredSession, message: Any) -> None:
        params = message.params or {}
        id, reason = jsonrpc.whole(params.get("requestId")), params.get("reason")
        if not session.peer.cancel_incoming(id, reason) and type(id) in (int, str):
            short = reason[:_MOST_REASON] if isinstance(reason, str) else None
            self.processes.broadcast(self._kind, {"id": session.id, "what": "cancelled", "request": id, "reason": short})

    # --- streams ------------------------------------------------------------------------------------------

    def open_common(self, session: HTTPSession) -> Optional[CommonStream]:
        """Return the body of the session's common stream; None if it is read already.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, StoredSession)
        return CommonStream.open(session, self._changes, self.logs)

    def resume(self, session: HTTPSession, name: str, event: int) -> "Union[None, CommonStream, RequestLogBody]":
        """Return the body of a stream after an event, wherever its handler runs; None if the events are not kept.

        Its ``ending`` tells that the client has all events.

        :raises BackendError: the store failed.
        """
        assert isinstance(session, StoredSession)
        first, _, second = name.partition(".")
        if not second:
            return None
        if first == "0":
            return CommonStream.resume(session, self._changes, self.logs, int(second), event)
        body = resume_request(session.streams, name, event)
        if body is not None and not body.ending and int(first) != self.processes.candidate:
            self.processes.send(int(first), self._kind, {"id": session.id, "what": "resumed", "stream": name})
        return body

    # --- messages of other processes, on the reading thread -----------------------------------------------

    def _receive(self, letter: Any) -> None:
        session = self._sessions.get(letter["id"])
        if session is None:
            return
        found, what = session, letter["what"]
        if what == "answer":
            data = letter["data"].encode("latin-1")
            found.peer.receive(data, jsonrpc.parse(data, self._runtime.json_limits))
        elif what == "cancelled":
            found.peer.cancel_incoming(letter["request"], letter["reason"])
        elif what == "roots":
            found.session.forget_roots()
        elif what == "resumed":
            found.streams.release(letter["stream"])
        elif what == "ended":
            self._end_soon(found, "the session has ended")

    def _end_soon(self, session: StoredSession, why: str) -> None:
        """End a session on a worker: that waits for the store, and for callbacks of handlers."""
        self._runtime.workers.spawn(lambda: self.release(session, why))

    def _lost(self, number: int) -> None:
        """Have the questions of this process fail that were asked under a number that it has lost."""
        error = ConnectionClosed("this process was paused for so long that the others have taken it for ended, and the client's"
                                 " answer cannot reach it")
        for session in list(self._sessions.values()):
            session.peer.abandon_calls(lambda id: id >> COUNT_BITS == number, error)
            if session.record.reader == number:
                self._end_soon(session, "this process was paused for too long")


def create_session_for_one_message(runtime: Runtime, sender: str = "") -> HTTPSession:
    """Return a new session for one message.

    :param sender: whose share it counts to.
    """
    streams = RequestStreams("", runtime.limits, sender, runtime.unread)
    session, peer = create_session(runtime, StreamsChannel(streams), persistent=False, may_be_sessionless=False)
    session.sender = sender
    return HTTPSession("", session, peer, streams)

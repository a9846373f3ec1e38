"""The sessions of clients with a handshake over HTTP that any process serves: each is a record, and an object where it is used.

A process makes the object of a record when a request of the session reaches it, and may release the object while the session
goes on. Other processes send it messages for the session: an answer to its question, a cancelled call, changed roots, a resumed
stream, the end. A record expires in the store, and the lists of :class:`FleetSessions` bound the number of records.
"""

import itertools
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..errors import SERVER_BUSY, BackendError, ConnectionClosed, RemoteError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import memory_size
from ..protocol.uris import normal_uri
from ..rpc.peer import Peer
from ..server.principals import Principal
from ..server.runtime.processes import NUMBERS, away_error
from ..server.runtime.runtime import Runtime
from ..server.sessions.legacy import LegacySession
from ..server.state.logs import RequestLogBody, StreamLog
from ..server.state.sessions import CommonLogChannel, CommonStream, HTTPSession, Sessions
from ..server.state.streams import RequestStreams
from ..types import ClientCapabilities
from .backend_health import KNOWN_SECONDS
from .fleet_processes import FleetProcesses
from .session_records import LISTED_BYTES, FleetSessions, SessionRecord, SessionRecords
from .shared_streams import ENDED, SharedCommonStream, SharedLogChannel, SharedLogs

__all__ = ["SharedLegacySession", "SharedSession", "SharedSessions"]

#: The id of a request of the server: these lower bits are a counter, and the bits above are the number of the process.
_COUNT_BITS = 32
_ALONE = (jsonrpc.Response, jsonrpc.Failure, jsonrpc.Notification)
#: Seconds after which a renewal that has failed is tried again.
_RENEW_AGAIN_SECONDS = 5.0
#: Characters of a reason that are sent to other processes.
_MOST_REASON = 200


class SharedLegacySession(LegacySession):
    """The session of a client over HTTP: what changes is stored, so that any process can serve its requests.

    The process that serves the GET stream of the client sends it the change notifications, since it reads the changes of all
    processes.
    """

    #: Calls a function that changes this object, and stores the changed state; it is :meth:`SharedSession.change`.
    share: Callable[[Callable[[], object]], object]

    #: The version of the record whose state this object has, and how often the roots had changed by that version.
    _version = _roots_changed = 0

    def publish(self, method: str, uri: Optional[str], capability: str, written: Dict[Optional[str], bytes]) -> None:
        """Do nothing: the GET stream of the client reads the changes by itself."""

    def subscribe(self, uri: str) -> None:
        self.share(lambda: super(SharedLegacySession, self).subscribe(uri))

    def unsubscribe(self, uri: str) -> None:
        self.share(lambda: super(SharedLegacySession, self).unsubscribe(uri))

    def set_level(self, level: str) -> None:
        self.share(lambda: super(SharedLegacySession, self).set_level(level))

    def confirm(self) -> None:
        """Note that the client has confirmed the handshake."""
        self.initialized = self.agreed is not None

    def change_roots(self) -> None:
        """Note that the client has announced a change of its roots."""
        self._roots_changed += 1

    def restore(self, record: SessionRecord) -> None:
        """Take over the state of a stored record, unless this object has that version or a later one."""
        with self._lock:
            if record.version <= self._version or self._closed:
                return
            self._version = record.version
            if not record.begun:
                return
            declared = self.agreed, self.client_info, self.client_capabilities
            if declared != (record.revision, record.info, record.capabilities):
                self.client_info, self.client_capabilities = record.info, record.capabilities or ClientCapabilities()
                self._declare(record.revision)
                self.revision = self.agreed = record.revision
            self._level, self.initialized = record.level, record.ready
            given = {normal_uri(uri): uri for uri in record.uris}
            uris, known = set(given), set(self._subscriptions)
            if uris != known:
                most = self.limits.subscription_bytes
                self.runtime.subscribers.add(uris - known)
                self.runtime.subscribers.remove(known - uris)
                self._subscriptions = given
                self.subscribed_bytes = sum(memory_size(uri, most) for uri in record.uris)
            changed, self._roots_changed = record.roots != self._roots_changed, record.roots
        if changed:
            self.roots.forget()

    def store(self, record: SessionRecord, touched: float = 0.0, reader: int = 0) -> SessionRecord:
        """Return a record with the state of this object, as the next version of another record.

        :param touched: the time of storing it, in seconds since 1970; 0 for a session that begins.
        :param reader: the number of this process, if the session ends with it.
        """
        with self._lock:
            return record.changed(
                revision=self.revision, begun=self.agreed is not None, info=self.client_info,
                capabilities=self.client_capabilities, level=self._level, uris=tuple(self._subscriptions.values()),
                ready=self.initialized, roots=self._roots_changed, touched=touched, reader=reader or record.reader)

    def stored(self, record: SessionRecord) -> None:
        """Note that this object has the state of a record."""
        with self._lock:
            self._version = max(self._version, record.version)


class SharedSession(HTTPSession):
    """One session, as this process knows it."""

    session: SharedLegacySession
    reader: Optional[SharedCommonStream]
    #: Its stored state.
    record: SessionRecord
    #: The stored bytes of the record.
    data = b""
    #: When this process last renewed the lifetime of the record, by the monotonic clock; None if it never did.
    renewed: Optional[float] = None
    #: The bytes that the lists of the fleet have noted, as far as this process knows.
    listed = LISTED_BYTES

    def __init__(self, id: str, session: SharedLegacySession, peer: Peer, streams: RequestStreams,
                 table: "SharedSessions") -> None:
        super().__init__(id, session, peer, streams)
        self._table = table
        self.records = table.records
        session.share = self.change
        #: Held while a change is stored, so that changes of this process do not compete with each other.
        self._changing = threading.Lock()

    def restore(self, data: bytes) -> bool:
        """Take over the stored state; False if this version of the package does not know its revision."""
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
        with self._table.processes.refuse_while_away():
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
        """Renew the lifetime of the session, if that is due; False if the session has ended.

        :raises BackendError: the store failed.
        """
        now = time.monotonic()
        if self.renewed is not None and now - self.renewed < self.records.renew_seconds:
            return True
        with self._changing:
            while not self._swap(self.data, self.record.changed(touched=self.records.now)):
                if not self.reload():
                    return False
        return True


class SharedSessions(Sessions):
    """The sessions of one endpoint that all processes serve, and those of them that this process knows."""

    logs: SharedLogs
    _sessions: Dict[str, Any]
    _legacy = SharedLegacySession

    def __init__(self, runtime: Runtime, kind: str, logs: SharedLogs, enter: Callable[[], object],
                 clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(runtime, kind, logs, enter, clock)
        processes = self.processes = logs.processes
        self.records = SessionRecords(processes.backend, runtime.limits, kind)
        self._lists = FleetSessions(self.records, runtime.catalog.name)
        self._counts = itertools.count(1)
        self._ids: Iterator[int] = iter(self._question_id, None)
        #: When reading a session from the store last failed.
        self._failed = float("-inf")
        processes.messages.on(kind, self._receive)
        processes.leases.on_lost(self._lost)

    @staticmethod
    def new_logs(runtime: Runtime) -> SharedLogs:
        assert isinstance(runtime.processes, FleetProcesses)
        return SharedLogs(runtime.processes, runtime.limits)

    # --- opening and finding ------------------------------------------------------------------------------

    def open(self, principal: Optional[Principal], sender: str) -> HTTPSession:
        self._check()
        change, revision = self.processes.changes.last(), self._runtime.catalog.revisions[0]
        made: Any = super().open(principal, sender)
        made.record = SessionRecord(revision, made.owner, sender, self.records.now, change, version=0)
        return made  # type: ignore[no-any-return]

    def _channel(self, streams: RequestStreams, log: StreamLog) -> CommonLogChannel:
        made = SharedLogChannel(streams, log)
        made.patient_seconds = 0.0 if self._kind == "session" else self._limits.unread_seconds
        return made

    def _session(self, id: str, session: LegacySession, peer: Peer, streams: RequestStreams) -> HTTPSession:
        assert isinstance(session, SharedLegacySession)
        peer.number_calls(self._ids)
        return SharedSession(id, session, peer, streams, self)

    def _question_id(self) -> int:
        """Return the id of a question; each process can read from it which process has asked the question."""
        with self.processes.refuse_while_away():
            number = self.processes.number
        return number << _COUNT_BITS | next(self._counts) % (1 << _COUNT_BITS)

    def add(self, session: Any) -> bool:
        # The session of a client of the transport with two endpoints ends with the process that has its stream.
        reader = 0 if self._kind == "session" else self.processes.number
        session.record = session.session.store(session.record, reader=reader)
        self.sweep()
        ending = self._lists.add(session.id, session.record.sender)
        if ending is None:
            return False
        self._end_all(ending)
        session.data = self.records.put(session.id, session.record)
        session.session.stored(session.record)
        if not super().add(session):
            self.records.remove(session.id)
            return False
        return True

    def start_over(self, session: Any) -> None:
        session.overwrite()
        super().start_over(session)

    def find(self, id: str, owner: Optional[str]) -> Optional[HTTPSession]:
        self.sweep()
        known, data = self._sessions.get(id), self._read(id)
        if known is None:
            return None if data is None else self._adopt(id, data, owner)
        if known.owner != owner or (data is not None and not known.restore(data)):
            return None
        if known.peer.closed or data is None:
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
        """Refuse a request at once if the store could not be read a moment ago.

        With a store that hangs, each attempt would take seconds. A store that is full can be read, so plain calls go on.

        :raises RemoteError: the request is refused.
        """
        if self.processes.outage and time.monotonic() - self._failed < KNOWN_SECONDS:
            raise away_error()

    def _adopt(self, id: str, data: bytes, owner: Optional[str]) -> Optional[HTTPSession]:
        """Make the object of a session from its record, and keep it in this process; None if the session is another owner's."""
        record = SessionRecord.load(data)
        if record is None or record.owner != owner:
            return None
        made: Any = self._make(id, None, owner, record.sender)
        made.record = record
        made.restore(data)
        with self._lock:
            known = self._sessions.setdefault(id, made)
        if known is not made:
            made.end("another request has made the session meanwhile")
            return self._use(known)
        if not self._has_room(made, "this process needed the room for another client's session"):
            self.release(made, "all sessions are in use")
            raise RemoteError("Server busy: too many sessions are in use; try again later", code=SERVER_BUSY)
        return self._use(made)

    def _use(self, session: Any) -> HTTPSession:
        try:
            session.renew()
        except BackendError as error:
            self.processes.failed(error)  # the record could be read, so the request goes on
            session.renewed = time.monotonic() - self.records.renew_seconds + _RENEW_AGAIN_SECONDS
        self._note_use(session, self._clock())
        return session  # type: ignore[no-any-return]

    # --- the end ------------------------------------------------------------------------------------------

    def delete(self, session: Any, why: str = "the client has ended the session") -> None:
        self._end_elsewhere(session.id)
        self._lists.remove(session.id)
        self.release(session, why)

    def _end_elsewhere(self, id: str) -> None:
        limits = self._limits
        self.records.remove(id)
        # This entry ends the reader of the common stream, in whatever process it is.
        self.records.backend.append(self.records.name(id, "common"), ENDED, limits.store_seconds, limits.stream_events)
        self.processes.broadcast(self._kind, {"id": id, "what": "ended"})

    def _end_all(self, ids: List[str]) -> None:
        for id in ids:
            self._end_elsewhere(id)
            session = self._sessions.get(id)
            if session is not None:
                self.release(session, "the processes needed the room for another client's session")

    def make_room(self, session: SharedSession) -> None:
        """End other sessions to make space for one whose record has grown, or that session itself if there is no space for it.

        :raises BackendError: the store failed.
        """
        session.listed = size = 1 << (len(session.data) - 1).bit_length()  # so that few changes are noted
        going = self._lists.resize(session.id, session.record.sender, size)
        self._end_all([session.id] if going is None else going)

    def close(self, why: str) -> None:
        super().close(why)
        self.logs.later.stop()

    def abandoned(self, session: Any) -> bool:
        if self.processes.alive(session.record.reader):
            return False
        self.delete(session, "the process that served its stream has ended")
        return True

    # --- messages without an answer, and streams -----------------------------------------------------------

    def accept(self, session: Any, data: bytes, message: jsonrpc.Message, principal: Optional[Principal]) -> None:
        """Pass on a message without requests, to the process that it concerns."""
        if session.session.principal is None:
            session.session.principal = principal  # this process has made the session from its record, which has no principal
        if type(message) is jsonrpc.Batch:
            for item in message.items:
                self.accept(session, jsonrpc.dump(item) if isinstance(item, _ALONE) else data, item, principal)
            return
        if isinstance(message, (jsonrpc.Response, jsonrpc.Failure)):
            asked = message.id >> _COUNT_BITS if type(message.id) is int else 0
            if 0 < asked < NUMBERS and asked != self.processes.candidate:
                self.processes.messages.send(asked, self._kind,
                                            {"id": session.id, "what": "answer", "data": data.decode("latin-1")})
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

    def _cancel(self, session: Any, message: Any) -> None:
        params = message.params or {}
        id, reason = jsonrpc.whole(params.get("requestId")), params.get("reason")
        if not session.peer.cancel_incoming(id, reason) and type(id) in (int, str):
            short = reason[:_MOST_REASON] if isinstance(reason, str) else None
            self.processes.broadcast(self._kind, {"id": session.id, "what": "cancelled", "request": id, "reason": short})

    def open_common(self, session: Any) -> Optional[CommonStream]:
        return SharedCommonStream.open(session, self.logs)

    def _resume_common(self, session: Any, change: int, number: int) -> Optional[CommonStream]:
        return SharedCommonStream.resume(session, self.logs, change, number)

    def _resume_request(self, session: Any, label: str, event: int) -> Optional[RequestLogBody]:
        body, number = super()._resume_request(session, label, event), int(label.partition(".")[0])
        if body is not None and not body.ending and number != self.processes.candidate:
            self.processes.messages.send(number, self._kind, {"id": session.id, "what": "resumed", "stream": label})
        return body

    # --- messages of other processes, on the reading thread -----------------------------------------------

    def _receive(self, body: Any) -> None:
        session, what = self._sessions.get(body["id"]), body["what"]
        if session is None:
            return
        if what == "answer":
            data = body["data"].encode("latin-1")
            session.peer.receive(data, jsonrpc.parse(data, self._runtime.json_limits))
        elif what == "cancelled":
            session.peer.cancel_incoming(body["request"], body["reason"])
        elif what == "roots":
            session.session.roots.forget()
        elif what == "resumed":
            session.streams.release(body["stream"])
        elif what == "ended":
            self._end_soon(session, "the session has ended")

    def _end_soon(self, session: SharedSession, why: str) -> None:
        """End a session on a worker: ending it waits for the store, and for callbacks of handlers."""
        self._runtime.workers.spawn(lambda: self.release(session, why))

    def _lost(self, number: int) -> None:
        """Fail the questions that this process has asked under a number that it has lost, and end the sessions of that number.

        Those are the sessions of the transport with two endpoints whose stream this process serves.
        """
        error = ConnectionClosed("this process was paused for so long that the others have taken it for ended, and the client's"
                                 " answer cannot reach it")
        for session in list(self._sessions.values()):
            session.peer.abandon_calls(lambda id: id >> _COUNT_BITS == number, error)
            if session.record.reader == number:
                self._end_soon(session, "this process was paused for too long")

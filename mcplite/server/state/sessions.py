r"""The sessions of clients with a handshake, over HTTP: each lasts for one message, or in a table until it ends or expires.

    open() --> the handshake --> add() --> find(), for each request --> delete(), by the client
                                   |  \--> release(): it has expired, or another session needs the room
                                   \--> False: there is no room, since all are in use

Several processes share their sessions, whose table is in ``fleet/shared_sessions.py``; it extends the one here.

The messages that belong to no request of the client are on the common stream of its session. They stay in a log until the
client opens its GET stream, which reads them, and a client resumes after an event:

    peer --write--> CommonLogChannel --append--> the log of the session --> CommonStream (LogBody) --> the GET response

The transport with two endpoints uses the common stream, too, and sends the responses to requests on it (CommonOutlet).
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any, Callable, Dict, Optional, Set, Type, Union

from ...backend.interface import Backend
from ...errors import ConnectionClosed
from ...protocol import jsonrpc
from ...protocol.http.sse import encode_event
from ...rpc.interfaces import Outlet
from ...rpc.peer import Peer
from ...rpc.tracing import get_logger
from ..eviction import Shares
from ..limits import Limits
from ..principals import Principal
from ..runtime.runtime import Runtime
from ..sessions.legacy import LegacySession, create_session
from .logs import NOTHING, LogBody, RequestLogBody, StreamLog, StreamLogs, read_log
from .response_bodies import OPENING, priming_event
from .streams import RequestStreams, StreamsChannel

__all__ = ["CommonLogChannel", "CommonOutlet", "CommonStream", "HTTPSession", "Sessions", "create_session_for_one_message"]

_log = get_logger(__name__)
#: Seconds that a notification waits while its client has too much to read. It must not block on one slow client, but if a
#: client reads, the thread that sends to it may only be waiting for the interpreter.
_MOMENT_SECONDS = 0.02


class CommonLogChannel(StreamsChannel):
    """Sends the messages that belong to no request of the client: they are in the log of the common stream.

    :param streams: of the session in this process.
    :param log: of the common stream.
    """

    def __init__(self, streams: RequestStreams, log: StreamLog) -> None:
        super().__init__(streams)
        self._log = log

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._log.wait_for_room(len(data), _MOMENT_SECONDS)
        self.store(data)

    def store(self, data: bytes) -> None:
        """Append a message.

        :raises ConnectionClosed: the session has ended, or the message could not be stored.
        """
        if self._closed:
            raise ConnectionClosed(f"the session of {self.name} has ended")
        self._log.append(data)


class CommonOutlet(Outlet):
    """Sends the messages of one request on the common stream of a client that has no other stream.

    While the client reads slowly, a handler waits. Messages that wait use at most half of the unread limits; notifications,
    which do not wait, have the other half.
    """

    def __init__(self, channel: CommonLogChannel, log: StreamLog, seconds: float) -> None:
        self._channel = channel
        self._log = log
        self._seconds = seconds
        #: Set before the response is sent.
        self._finished = False

    def send(self, data: bytes) -> bool:
        self._wait(data)
        return not self._finished and self._store(data)

    def offer(self, data: bytes) -> bool:
        if self._finished:
            return True
        return self._log.wait_for_room(len(data), 0.0) and self._store(data)

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        self._finished = True
        if data is not None:
            self._wait(data)
            self._store(data)

    def _wait(self, data: bytes) -> None:
        if not self._log.wait_for_room(len(data), self._seconds, 2):
            self._log.drop_slowest()  # a client that does not read is considered gone

    def _store(self, data: bytes) -> bool:
        try:
            self._channel.store(data)
        except ConnectionClosed as error:
            _log.debug("a message was not sent: %s", error)
            return False
        return True


class CommonStream(LogBody):
    """The body of the response that reads the common stream of a session; the session has one reader at a time.

    :param session: an :class:`.HTTPSession` with a log.
    :param number: of the last entry that was read.
    """

    #: Sent before everything else, for a client that cannot resume: then events have no ids.
    first = b""

    def __init__(self, session: Any, backend: Backend, limits: Limits, number: int) -> None:
        super().__init__(backend, limits)
        self._session = session
        self._log = session.log.name
        self.number = number
        session.reader = self
        session.log.follow(self)

    def close(self) -> None:
        session = self._session
        session.log.unfollow(self)
        if session.reader is self:
            session.reader = None
            self.leave()
            session.streams.note_use()
        super().close()

    def leave(self) -> None:
        """Note how far the stream was read, for the next reader."""
        self._session.read_to = self.number

    @property
    def position(self) -> str:
        """The id of the last event that was read: after it, the client continues."""
        return f"0.0-{self.number}"

    def event(self, data: bytes) -> bytes:
        """Return a message as an event."""
        return encode_event(data, None if self.first else self.position)

    def opening(self) -> bytes:
        if self.first:
            return self.first
        return priming_event(self.position, self._limits) if self._session.session.revision.priming_event else OPENING

    def numbers(self) -> Dict[str, int]:
        return {self._log: self.number}

    def read(self, grown: Set[str]) -> bytes:
        entries, last, missing = read_log(self._backend, self._log, self.number)
        if missing:
            _log.info("a client has missed messages, since it did not read its stream in time or the store was emptied")
        events = []
        for self.number, entry in entries:
            if self.is_message(entry):
                events.append(self.event(entry))
            if self.ending:
                break
        else:
            self.number = last
        self._session.log.was_read()
        return b"".join(events)

    def is_message(self, entry: bytes) -> bool:
        """Whether an entry is a message to the client. A subclass handles its other entries here."""
        return entry != NOTHING


#: Bytes of memory that a session takes besides its subscriptions, roughly.
SESSION_BYTES = 10_000
#: Seconds between two searches for sessions that have expired.
_SWEEP_SECONDS = 1.0
#: Seconds after a use of a session was noted in which further uses are not noted.
_NOTE_SECONDS = 0.1
_EXPIRED = "the session has expired"


class HTTPSession:
    """One client of the handshake era over HTTP, for one message or for many.

    :param id: the session id, which the client sends with each request; empty for one message.
    """

    #: The log of its common stream.
    log: StreamLog
    #: The key of the principal that opened the session; only that one may use it (SESS-15). None without authentication.
    owner: Optional[str] = None
    #: The response of this process that reads the common stream, and up to which entry the last one has read it.
    reader: Optional[CommonStream] = None
    read_to = 0
    #: When this process came to know it, when it was used last, and when a use was noted, in the time of its table.
    opened = touched = noted = 0.0
    #: Whether the client has sent anything since the session began.
    used = False

    def __init__(self, id: str, session: LegacySession, peer: Peer, streams: RequestStreams) -> None:
        self.id = id
        self.session = session
        session.store_key = id
        self.peer = peer
        self.streams = streams

    @property
    def busy(self) -> bool:
        """Whether the client is connected: it waits for a response, or reads the common stream."""
        return self.peer.in_flight > 0 or self.reader is not None

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, roughly; the events of its streams count elsewhere."""
        return SESSION_BYTES + self.session.subscribed_bytes

    def end(self, why: str) -> None:
        """End the session here: cancel its calls, end its streams, drop their events (SESS-12)."""
        if self.reader is not None:
            self.reader.stop()
        self.peer.close(ConnectionClosed(why))


class Sessions:
    """The sessions of one endpoint that this process knows, by id.

    When there are too many, an idle session ends for a new one (:class:`Shares`). :meth:`sweep` ends expired ones. It is called
    when a session is found or added, and in our own HTTP server by the poller's sweep.

    :param runtime: of the server.
    :param kind: names the transport: "session", or "sse" for the one with two endpoints.
    :param logs: of all streams of the endpoint.
    :param enter: enters the lifespan.
    :param clock: returns seconds.
    """

    #: The class of what the client opens.
    _legacy: Type[LegacySession] = LegacySession

    def __init__(self, runtime: Runtime, kind: str, logs: StreamLogs, enter: Callable[[], object],
                 clock: Callable[[], float] = time.monotonic) -> None:
        limits = self._limits = runtime.limits
        self._runtime = runtime
        self._kind = kind
        self.logs = logs
        self._enter = enter
        self._clock = clock
        self._sweep_seconds = min(_SWEEP_SECONDS, limits.session_idle_seconds / 2, limits.session_start_seconds / 2)
        self._swept = clock()
        #: Guards ``_sessions``; held for dictionary work only.
        self._lock = threading.Lock()
        #: In the order of their beginning.
        self._sessions: Dict[str, HTTPSession] = {}
        #: Whether the endpoint has stopped, so that no session begins any more.
        self._closed = False
        self._shares: Shares[HTTPSession] = Shares(limits.sessions, limits.session_bytes,
                                                   busy=lambda session: session.busy, clock=clock)

    def __len__(self) -> int:
        return len(self._sessions)

    @staticmethod
    def new_logs(runtime: Runtime) -> StreamLogs:
        """Return the logs of the streams of an endpoint."""
        return StreamLogs(runtime.processes.backend, runtime.limits)

    # --- opening and finding ------------------------------------------------------------------------------

    def open(self, principal: Optional[Principal], sender: str) -> HTTPSession:
        """Return a new session, which is not in the table yet.

        :param principal: its owner.
        :param sender: the key under which limits count it.
        :raises BackendError: the store failed.
        """
        # The id must be one that cannot be guessed (SESS-02, SESS-03).
        return self._make(secrets.token_urlsafe(24), principal, None if principal is None else principal.key, sender)

    def _make(self, id: str, principal: Optional[Principal], owner: Optional[str], sender: str) -> HTTPSession:
        self._enter()
        prefix = f"{self._kind}-{id}"
        streams = RequestStreams(id, self._limits, sender, self._runtime.unread, prefix, self.logs)
        log = StreamLog(self.logs, f"{prefix}/common", sender)
        session, peer = create_session(self._runtime, self._channel(streams, log), may_be_sessionless=False, kind=self._legacy)
        session.principal, session.sender = principal, sender
        made = self._session(id, session, peer, streams)
        made.log, made.owner = log, owner
        made.opened = made.touched = made.noted = self._clock()
        streams.note_use = lambda: self._note_use(made, self._clock())
        return made

    def _channel(self, streams: RequestStreams, log: StreamLog) -> CommonLogChannel:
        return CommonLogChannel(streams, log)

    def _session(self, id: str, session: LegacySession, peer: Peer, streams: RequestStreams) -> HTTPSession:
        return HTTPSession(id, session, peer, streams)

    def add(self, session: HTTPSession) -> bool:
        """Add a new session; others end for it if there are too many. False if those are all in use, or after :meth:`close`.

        :raises BackendError: the store failed.
        """
        self.sweep()
        session.streams.priming = session.session.revision.priming_event
        with self._lock:
            if self._closed:
                return False
            self._sessions[session.id] = session  # before it can be chosen to end for another one
        if self._has_room(session, "the server needed the room for another client's session"):
            return True
        with self._lock:
            del self._sessions[session.id]
        return False

    def _has_room(self, session: HTTPSession, why: str) -> bool:
        """Count one more session of the table; others end for it. False if those are all in use."""
        going = self._shares.add(session, session.session.sender, session.size)
        for old in going or ():
            self.release(old, why)
        return going is not None

    def start_over(self, session: HTTPSession) -> None:
        """Note what a handshake has changed.

        :raises BackendError: the store failed.
        """
        session.streams.priming = session.session.revision.priming_event

    def find(self, id: str, owner: Optional[str]) -> Optional[HTTPSession]:
        """Return a session; None if it is unknown, has ended, or has another owner, so that these look alike.

        :raises BackendError: the store failed.
        :raises RemoteError: it failed a moment ago, or the session has no room here.
        """
        now = self._clock()
        if now - self._swept >= self._sweep_seconds:
            self.sweep()
        known = self._sessions.get(id)
        if known is None or known.owner != owner:
            return None
        if known.peer.closed or self._is_expired(known, now):
            self.release(known, "the session has ended" if known.peer.closed else _EXPIRED)
            return None
        known.touched = now
        if now - known.noted >= _NOTE_SECONDS or not known.used:
            self._note_use(known, now)
        return known

    def _note_use(self, session: HTTPSession, now: float) -> None:
        """Count a use of a session, at most once in a while."""
        session.touched = now
        if not session.used or now - session.noted >= _NOTE_SECONDS:
            session.used, session.noted = True, now
            self._shares.use(session)

    # --- the end ------------------------------------------------------------------------------------------

    def _is_expired(self, session: HTTPSession, now: float) -> bool:
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
            if session.used and session.busy:
                self._note_use(session, now)  # its idle time begins with the end of its requests and streams
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

    def release(self, session: HTTPSession, why: str) -> None:
        """End the object of a session; in one process that is the end of the session."""
        with self._lock:
            if self._sessions.get(session.id) is session:
                del self._sessions[session.id]
            elif session.peer.closed:
                return
        self._shares.remove(session)
        session.end(why)
        self.logs.forget(session.log)

    def delete(self, session: HTTPSession, why: str = "the client has ended the session") -> None:
        """End a session in all processes.

        :raises BackendError: the store failed.
        """
        self.release(session, why)

    def close(self, why: str) -> None:
        """Release all sessions; no other one begins."""
        with self._lock:
            self._closed = True
            sessions = list(self._sessions.values())
        for session in sessions:
            self.release(session, why)

    # --- the transport with two endpoints -----------------------------------------------------------------

    def abandoned(self, session: HTTPSession) -> bool:
        """Whether the process that read the one stream of the session has ended; the session then ends, too.

        :raises BackendError: the store failed.
        """
        return False

    def outlet(self, session: HTTPSession) -> CommonOutlet:
        """Return the outlet for the messages of a request whose response is sent on the common stream."""
        channel = session.peer.channel
        assert isinstance(channel, CommonLogChannel)
        return CommonOutlet(channel, session.log, self._limits.unread_seconds)

    # --- messages and streams -----------------------------------------------------------------------------

    def accept(self, session: HTTPSession, data: bytes, message: jsonrpc.Message, principal: Optional[Principal]) -> None:
        """Pass on a message without requests.

        :raises BackendError: the store failed.
        """
        session.peer.receive(data, message)

    def open_common(self, session: HTTPSession) -> Optional[CommonStream]:
        """Return the body of the session's common stream, from where the last reader was; None if it has a connected reader.

        :raises BackendError: the store failed.
        """
        number, before = session.read_to, session.reader
        if before is not None:
            if not (before.over or before.disconnected()):
                return None  # each of two readers would miss the other's messages (HTTP-31, SEC-55)
            number = before.number
            before.stop()
        return CommonStream(session, self.logs.backend, self._limits, number)

    def resume(self, session: HTTPSession, name: str, event: int) -> "Union[None, CommonStream, RequestLogBody]":
        """Return the body of a stream after an event; None if the events are not kept.

        If it is a stream of a request, its ``ending`` says that the client has all events.

        :raises BackendError: the store failed.
        """
        first, _, second = name.partition(".")
        if not second:
            return None
        if first == "0":
            return self._resume_common(session, int(second), event)
        return self._resume_request(session, name, event)

    def _resume_common(self, session: HTTPSession, change: int, number: int) -> Optional[CommonStream]:
        if self.logs.backend.since(session.log.name, number) is None:
            return None
        if session.reader is not None:
            session.reader.stop()
        return CommonStream(session, self.logs.backend, self._limits, number)

    def _resume_request(self, session: HTTPSession, label: str, event: int) -> Optional[RequestLogBody]:
        return session.streams.resume(label, event)


def create_session_for_one_message(runtime: Runtime, sender: str = "") -> HTTPSession:
    """Return a new session for one message.

    :param sender: the key under which limits count it.
    """
    streams = RequestStreams("", runtime.limits, sender, runtime.unread)
    session, peer = create_session(runtime, StreamsChannel(streams), persistent=False, may_be_sessionless=False)
    session.sender = sender
    return HTTPSession("", session, peer, streams)

"""HTTP sessions: their creation, and the table that finds them by id."""

import secrets
import time
from typing import Callable, Dict, Optional

from ...errors import ConnectionClosed
from ...rpc.forks import new_lock
from ...rpc.interfaces import Channel, Network
from ...rpc.peer import Peer
from ...rpc.reading import PushedReading
from ...rpc.threads import Workers
from ..eviction import Shares
from ..limits import Limits
from ..principals import Principal
from ..runtime.runtime import Runtime
from ..sessions.legacy import LegacySession
from ..sessions.opening import create_session
from .event_store import EventStore
from .session_ids import ClientDescription
from .streams import StreamSet

__all__ = ["SESSION_BYTES", "HTTPSession", "SessionTable", "StreamsChannel", "create_session_for_one_message", "open_session"]

#: Bytes that a session takes besides, roughly.
SESSION_BYTES = 10_000
#: Seconds between two searches for sessions that have expired.
_SWEEP_SECONDS = 1.0
#: Seconds after a use of a session was noted in which further ones are not.
_NOTE_SECONDS = 0.1
_EXPIRED = "the session has expired"


class StreamsChannel(Channel):
    """Sends the messages that belong to no request of the client, on the common event stream."""

    def __init__(self, streams: StreamSet, name: str = "the client") -> None:
        self._streams = streams
        self.name = name
        self._closed = False

    @property
    def network(self) -> Network:
        return Network("tcp", "http")

    @property
    def session_id(self) -> str:
        return self._streams.key

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> PushedReading:
        return PushedReading(self, workers)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        if self._closed or not self._streams.common.send(data):
            raise ConnectionClosed(f"the session of {self.name} has ended")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._streams.close()


class HTTPSession:
    """One client's session over HTTP.

    :param id: the session id, which the client sends with each request.
    :param owner: the key of the principal that opened the session; only that one may use it (SESS-15). None without
        authentication.
    :param now: when it was opened, in the time of its table.
    """

    def __init__(self, id: str, owner: Optional[str], session: LegacySession, peer: Peer, streams: StreamSet,
                 now: float) -> None:
        self.id = id
        self.owner = owner
        self.session = session
        self.peer = peer
        self.streams = streams
        self.opened = now
        self.touched = now
        #: Whether the client has sent anything since the session began.
        self.used = False
        #: When a use was last noted.
        self.noted = now

    @property
    def busy(self) -> bool:
        """Whether the client is connected: it waits for a response, or reads the common stream."""
        return self.peer.in_flight > 0 or self.streams.common.reader is not None

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, roughly: what it subscribes to, and what its client has not read."""
        return SESSION_BYTES + self.session.subscribed_bytes + self.streams.common.unread_bytes

    def end(self, why: str) -> None:
        """End the session: cancel its calls, end its streams, drop its events (SESS-12)."""
        self.peer.close(ConnectionClosed(why))


def _is_busy(session: HTTPSession) -> bool:
    return session.busy


class SessionTable:
    """Sessions by id.

    When there are too many, an idle session makes room for a new one (:class:`Shares`). Expired ones are ended by
    :meth:`sweep`, which is part of each access and, in our own HTTP server, of the poller's sweep.

    :param clock: returns seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._sweep_seconds = min(_SWEEP_SECONDS, limits.session_idle_seconds / 2, limits.session_start_seconds / 2)
        self._swept = clock()
        #: Guards ``_sessions``; held for dictionary work only.
        self._lock = new_lock()
        #: In the order of their beginning.
        self._sessions: Dict[str, HTTPSession] = {}
        self._shares: Shares[HTTPSession] = Shares(limits.sessions, limits.session_bytes, busy=_is_busy, clock=clock)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def now(self) -> float:
        """The table's time in seconds."""
        return self._clock()

    @staticmethod
    def new_id() -> str:
        """Return an id that cannot be guessed (SESS-02, SESS-03)."""
        return secrets.token_urlsafe(24)

    def add(self, session: HTTPSession) -> bool:
        """Add a session; return False if there are too many that are all in use."""
        self.sweep()
        with self._lock:
            self._sessions[session.id] = session  # before it can be chosen to make room for another one
        going = self._shares.add(session, session.session.sender, session.size)
        if going is None:
            with self._lock:
                del self._sessions[session.id]
            return False
        for old in going:
            self.end(old, "the server needed the room for another client's session")
        return True

    def sweep(self) -> None:
        """End the sessions that have expired, at most once a second."""
        now, limits = self._clock(), self._limits
        if now - self._swept < self._sweep_seconds:
            return
        self._swept = now
        for session in self._shares.items():
            self._weigh(session)
        expired = self._shares.idle(limits.session_start_seconds, limits.session_idle_seconds)
        with self._lock:
            for session in self._sessions.values():
                if now - session.opened <= limits.session_seconds:
                    break  # the others began later
                expired.append(session)
        for session in expired:
            self.end(session, _EXPIRED)

    def _weigh(self, session: HTTPSession) -> None:
        """Note what a session has grown to, and end those that make room for it, if they are too large together."""
        for old in self._shares.resize(session, session.size):
            self.end(old, "the sessions of all clients together were too large")

    def find(self, id: str, owner: Optional[str]) -> Optional[HTTPSession]:
        """Return a session; None if it is unknown, has ended, or has another owner, so that these look alike."""
        self.sweep()
        session = self._sessions.get(id)
        if session is None or session.owner != owner:
            return None
        if session.peer.closed:
            self.end(session, "the session has ended")
            return None
        now, limits = self._clock(), self._limits
        idle_seconds = limits.session_idle_seconds if session.used else limits.session_start_seconds
        if now - session.opened > limits.session_seconds or (
                now - session.touched > idle_seconds and not session.busy):
            self.end(session, _EXPIRED)
            return None
        session.touched = now
        self._note_use(session, now)
        return session

    def _note_use(self, session: HTTPSession, now: float) -> None:
        if not session.used or now - session.noted >= _NOTE_SECONDS:
            session.used, session.noted = True, now
            self._shares.use(session)

    def end(self, session: HTTPSession, why: str) -> None:
        """Remove a session and end it."""
        with self._lock:
            if self._sessions.pop(session.id, None) is None:
                return
        self._shares.remove(session)
        session.end(why)

    def delete(self, session: HTTPSession) -> None:
        """End a session as its client asks."""
        self.end(session, "the client has ended the session")

    def close(self, why: str) -> None:
        """End all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            self.end(session, why)


def open_session(runtime: Runtime, store: Optional[EventStore], principal: Optional[Principal], now: float,
                 sender: str = "") -> HTTPSession:
    """Return a new session for many messages, which is not in a table yet.

    :param store: keeps the events of its streams for resumption.
    :param principal: its owner.
    :param now: the time of the table that it will be in.
    :param sender: whose share it counts to.
    """
    id = SessionTable.new_id()
    streams = StreamSet(id, store, runtime.limits, sender, runtime.unread)
    session, peer = create_session(runtime, StreamsChannel(streams), may_be_sessionless=False)
    session.principal, session.sender = principal, sender
    return HTTPSession(id, None if principal is None else principal.key, session, peer, streams, now)


def create_session_for_one_message(runtime: Runtime, client: Optional[ClientDescription], sender: str = "") -> HTTPSession:
    """Return a new session for one message.

    :param client: the client's facts; None if the message is its ``initialize``.
    :param sender: whose share it counts to.
    """
    streams = StreamSet("", None, runtime.limits, sender, runtime.unread)
    session, peer = create_session(runtime, StreamsChannel(streams), persistent=False, may_be_sessionless=False)
    session.sender = sender
    if client is not None:
        session.skip_handshake(client.revision, client.info, client.capabilities)
    return HTTPSession("", None, session, peer, streams, 0.0)

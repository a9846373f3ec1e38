"""The sessions of clients that come over HTTP: what belongs to one, and the table that finds them.

Sessions expire when somebody looks for one; there is no thread that watches them.
"""

import secrets
import threading
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional

from ...errors import ConnectionClosed
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.reading import PushedReading
from ...rpc.threads import Workers
from ..limits import Limits
from ..runtime.runtime import Runtime
from ..sessions.legacy import LegacySession
from ..sessions.opening import create_session
from .event_store import EventStore
from .session_ids import Ticket
from .streams import StreamSet

if TYPE_CHECKING:
    from ..auth.principals import Principal


__all__ = ["HTTPChannel", "HTTPSession", "SessionTable", "open_session", "visit"]


class HTTPChannel(Channel):
    """The way to a client for what belongs to none of its requests: the common event stream."""

    def __init__(self, streams: StreamSet, name: str = "the client") -> None:
        self._streams = streams
        self.name = name
        self._closed = False

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> PushedReading:
        return PushedReading(self, workers)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        if self._closed or not self._streams.common.send(data):
            raise ConnectionClosed(f"the session of {self.name} is over")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._streams.close()


class HTTPSession:
    """One client's session over HTTP.

    :param id: what the client shows with each request.
    :param owner: the key of who opened it; nobody else may use it (SESS-15). None when nobody is authenticated.
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

    @property
    def busy(self) -> bool:
        """Whether the client is there: it waits for an answer, or listens."""
        return self.peer.in_flight > 0 or self.streams.common.reader is not None

    def end(self, why: str) -> None:
        """End the session: its calls are cancelled, its streams end, its events are forgotten (SESS-12)."""
        self.peer.close(ConnectionClosed(why))


class SessionTable:
    """Sessions by id.

    :param clock: returns seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        #: Guards ``_sessions``; held for dictionary work only.
        self._lock = threading.Lock()
        self._sessions: Dict[str, HTTPSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def now(self) -> float:
        """The table's time."""
        return self._clock()

    @staticmethod
    def new_id() -> str:
        """Return an id that nobody can guess (SESS-02, SESS-03)."""
        return secrets.token_urlsafe(24)

    def add(self, session: HTTPSession) -> bool:
        """Put a session in; False when there are too many."""
        with self._lock:
            full = len(self._sessions) >= self._limits.sessions
            if not full:
                self._sessions[session.id] = session
        return not full

    def room(self) -> bool:
        """Make room by ending what has expired; return whether there is some."""
        if len(self._sessions) < self._limits.sessions:
            return True
        for session in self.expired():
            self.end(session, "the session has expired")
        return len(self._sessions) < self._limits.sessions

    def expired(self) -> List[HTTPSession]:
        """Return the sessions whose time is over."""
        with self._lock:
            sessions = list(self._sessions.values())
        return [session for session in sessions if self._over(session)]

    def _over(self, session: HTTPSession) -> bool:
        now, limits = self._clock(), self._limits
        if now - session.opened > limits.session_seconds:
            return True
        return now - session.touched > limits.session_idle_seconds and not session.busy

    def find(self, id: str, owner: Optional[str]) -> Optional[HTTPSession]:
        """Return a session; None for one that never was, is over, or is somebody else's: nobody learns which."""
        session = self._sessions.get(id)
        if session is None or session.owner != owner:
            return None
        if session.peer.closed:
            self.end(session, "the session is over")
            return None
        if self._over(session):
            self.end(session, "the session has expired")
            return None
        session.touched = self._clock()
        return session

    def end(self, session: HTTPSession, why: str) -> None:
        """Take a session out and end it."""
        with self._lock:
            if self._sessions.pop(session.id, None) is None:
                return
        session.end(why)

    def close(self, why: str) -> None:
        """End all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.end(why)


def open_session(runtime: Runtime, store: Optional[EventStore], principal: "Optional[Principal]", now: float,
                 id: Optional[str] = None) -> HTTPSession:
    """Return a session that lasts; it is not in the table yet.

    :param principal: who opens it, and alone may use it.
    """
    id = id or SessionTable.new_id()
    streams = StreamSet(id, store, runtime.limits)
    session, peer = create_session(runtime, HTTPChannel(streams), piped=False)
    session.principal = principal
    return HTTPSession(id, None if principal is None else principal.key, session, peer, streams, now)


def visit(runtime: Runtime, ticket: Optional[Ticket]) -> HTTPSession:
    """Return a session for one message, for the client that *ticket* describes; None for one that introduces itself."""
    streams = StreamSet("", None, runtime.limits)
    session, peer = create_session(runtime, HTTPChannel(streams), lasting=False, piped=False)
    if ticket is not None:
        session.assume(ticket.revision, ticket.info, ticket.capabilities)
    return HTTPSession("", None, session, peer, streams, 0.0)

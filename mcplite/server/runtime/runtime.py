"""The serving half of a server: its clients, its worker threads, its lifespan."""

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, ContextManager, List, Optional, Tuple, Union, cast

from ...protocol import jsonrpc
from ...rpc.incoming import Handler
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.threads import Workers
from ..limits import Limits
from ..sessions.legacy import LegacySession
from ..sessions.modern import BothEras, ModernHandler
from .subscriptions import Listeners

if TYPE_CHECKING:
    from ..app import Server
    from .waiting import WaitingCalls

__all__ = ["Serving"]

_log = logging.getLogger(__name__)


class Serving:
    """What a :class:`Server` is besides a registry; the other half says what is served.

    :param limits: every bound.
    :param lifespan: entered before the first client is served, left after the last.
    :param debug: logs every message.
    """

    def __init__(self, limits: Limits, lifespan: Optional[Callable[[Any], ContextManager[Any]]],
                 debug: Union[None, bool, str]) -> None:
        self.limits = limits
        self.debug = debug
        self._lifespan = lifespan
        self._json_limits = jsonrpc.JSONLimits(nesting=limits.json_nesting, elements=limits.json_elements, batch=limits.batch)
        #: Guards the fields below; held for list and dictionary work, and while a lifespan is entered or left.
        self._lock = threading.RLock()
        self._sessions: List[LegacySession] = []
        self._users = 0
        self._exit: Optional[contextlib.ExitStack] = None
        self._workers: Optional[Workers] = None
        self._pid = 0
        self._waiting: "Optional[WaitingCalls]" = None
        self.lifespan_value: Any = None
        #: The clients that listen without a session.
        self.listeners = Listeners(cast("Server", self))

    def forked(self) -> None:
        """Begin anew in a process that was forked: clients and threads are the parent's, and a lifespan is shared with it."""
        self._lock = threading.RLock()
        self._sessions, self._waiting = [], None
        self.listeners = Listeners(cast("Server", self))

    @property
    def name(self) -> str:
        """How the server calls itself."""
        raise NotImplementedError

    def serve_channel(self, channel: Channel, on_close: Optional[Callable[[], object]] = None) -> Peer:
        """Begin to serve one client on a channel, and return at once.

        :param on_close: called when the conversation is over.
        :returns: the conversation; ``wait_closed()`` blocks until it is over, ``close()`` ends it.
        """
        session, peer = self.converse(channel, on_close)
        peer.start()
        return peer

    def converse(self, channel: Channel, on_close: Optional[Callable[[], object]] = None, lasting: bool = True,
                 piped: bool = True) -> Tuple[LegacySession, Peer]:
        """Return the session of one client, and its peer, which nobody reads for yet.

        :param lasting: whether news are published to it; False for a visitor with one message.
        """
        app = cast("Server", self)  # this is a half of one
        session = LegacySession(app, on_close, lasting)
        handler = BothEras(app, session) if piped or not app.speaks_legacy else session
        peer = self._peer(channel, handler)
        session.peer = handler.peer = peer
        if lasting:
            self.enter()
            with self._lock:
                self._sessions.append(session)
        return session, peer

    def receive_modern(self, channel: Channel) -> Peer:
        """Return the peer that speaks for all clients without a session, whose requests come by themselves."""
        handler = ModernHandler(cast("Server", self))
        handler.peer = self._peer(channel, handler, shared=True)
        return handler.peer

    def _peer(self, channel: Channel, handler: Handler, shared: bool = False) -> Peer:
        return Peer(channel, handler, workers=self.workers, serving=True, trace=self._trace(channel), limits=self.json_limits,
                    shared=shared)

    @property
    def waiting(self) -> "WaitingCalls":
        """The handlers that wait for their clients; made with the first."""
        with self._lock:
            if self._waiting is None:
                from .waiting import WaitingCalls

                self._waiting = WaitingCalls(self.limits)
            return self._waiting

    def forget(self, peer: Peer, reason: str) -> None:
        """Cancel the handlers that wait for clients of a conversation that is over."""
        if self._waiting is not None:
            self._waiting.drop(peer, reason)

    @property
    def json_limits(self) -> jsonrpc.JSONLimits:
        """The bounds of incoming JSON."""
        return self._json_limits

    def _trace(self, channel: Channel) -> Any:
        from ...rpc.tracing import trace_for

        return trace_for(self.debug, channel.name)

    @property
    def workers(self) -> Workers:
        """The threads that run handlers; made with the first client, and anew in a process that was forked."""
        with self._lock:
            if self._workers is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._workers = Workers(self.limits.running, self.limits.queued, "mcplite worker")
            return self._workers

    @property
    def sessions(self) -> List[LegacySession]:
        """The clients that are connected now."""
        with self._lock:
            return list(self._sessions)

    def close(self) -> None:
        """End every conversation, leave the lifespan, and stop the worker threads; idempotent."""
        for session in self.sessions:
            self.listeners.end(session.peer)
            session.peer.close()
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.stop()

    def enter(self) -> None:
        """Note one more user; the first enters the lifespan."""
        with self._lock:
            self._users += 1
            if self._lifespan is None or self._exit is not None:
                return
            stack = contextlib.ExitStack()
            try:
                self.lifespan_value = stack.enter_context(self._lifespan(self))
            except BaseException:
                self._users -= 1
                raise
            self._exit = stack

    def leave(self) -> None:
        """Note one user less; the last leaves the lifespan and ends the workers."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            workers, self._workers = self._workers, None
            if workers is not None:
                workers.stop()  # the last client is gone; the next one gets new threads
            if self._exit is None:
                return
            stack, self._exit = self._exit, None
            try:
                stack.close()
            except Exception:
                _log.exception("the lifespan of %r failed at its end", self.name)
            self.lifespan_value = None

    def session_closed(self, session: LegacySession, error: Exception) -> None:
        """Forget a session."""
        with self._lock:
            if session not in self._sessions:
                return
            self._sessions.remove(session)
        _log.debug("a session ended: %s", error)
        self.leave()

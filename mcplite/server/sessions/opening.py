"""Opens sessions on channels: for clients with a handshake, without one, or both on one pipe.

Transports and the HTTP endpoint start here. On a pipe the session with a handshake takes each message, and passes those that
belong to no session on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional, Tuple, Type

from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.request import MessageHandler
from .legacy import LegacySession
from .modern import SessionlessHandler

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime

__all__ = ["create_session", "create_sessionless_peer", "serve_channel"]


def serve_channel(runtime: Runtime, channel: Channel, on_close: Optional[Callable[[], object]] = None) -> Peer:
    """Start to serve one client on a channel, and return.

    :param on_close: called when the connection has ended.
    :returns: the connection; ``wait_closed()`` blocks until it has ended, ``close()`` ends it.
    :raises TransportError: the system has no thread for it; the channel is closed.
    """
    _, peer = create_session(runtime, channel, on_close)
    try:
        peer.start()
    except BaseException as error:
        peer.close(error if isinstance(error, Exception) else None)
        raise
    return peer


def create_session(runtime: Runtime, channel: Channel, on_close: Optional[Callable[[], object]] = None,
                   persistent: bool = True, may_be_sessionless: bool = True,
                   kind: Type[LegacySession] = LegacySession) -> Tuple[LegacySession, Peer]:
    """Return the session of one client, and its peer; the peer is not started.

    :param persistent: whether the session outlives one message, so that its client gets notifications.
    :param may_be_sessionless: whether the channel may carry sessionless requests, too.
    :param kind: the class of the session.
    """
    if persistent:
        runtime.enter()  # first: the last user of the runtime, who may leave at this moment, ends its threads
    try:
        sessionless = SessionlessHandler(runtime) if may_be_sessionless or not runtime.catalog.speaks_legacy else None
        session = kind(runtime, on_close, persistent, sessionless)
        session.peer = peer = _peer(runtime, channel, session)
        if sessionless is not None:
            sessionless.peer = peer
    except BaseException:
        if persistent:
            runtime.leave()
        raise
    if persistent:
        runtime.session_opened(session)
    return session, peer


def create_sessionless_peer(runtime: Runtime, channel: Channel) -> Peer:
    """Return the peer for all sessionless clients of an endpoint, which passes their requests to it."""
    handler = SessionlessHandler(runtime)
    handler.peer = _peer(runtime, channel, handler, shared=True)
    return handler.peer


def _peer(runtime: Runtime, channel: Channel, handler: MessageHandler, shared: bool = False) -> Peer:
    from ...rpc.tracing import trace_for  # with the first client

    peer = Peer(channel, handler, workers=runtime.workers, serving=True, trace=trace_for(runtime.debug, channel.name),
                limits=runtime.json_limits, shared=shared, most_bytes=runtime.limits.sent_bytes,
                grace=runtime.limits.grace)
    runtime.peers.add(peer)
    return peer

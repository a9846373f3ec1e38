"""Opens sessions on channels: for clients with a handshake, without one, or both on one pipe.

Transports and the HTTP endpoint start here. It is a module of its own since it needs both eras: on a pipe, each message
decides which session it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional, Tuple, Type

from ...protocol import jsonrpc, meta as envelopes
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.request import Incoming, MessageHandler
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
        session = kind(runtime, on_close, persistent)
        handler = PipeHandler(runtime, session) if may_be_sessionless or not runtime.catalog.speaks_legacy else session
        peer = _peer(runtime, channel, handler)
        session.peer = handler.peer = peer
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


class PipeHandler(SessionlessHandler):
    """Handles the messages on a pipe, where a client may use a session or sessionless requests (ERA-18 to ERA-20).

    :param legacy: the session that starts with ``initialize``, if the client sends it.
    """

    def __init__(self, runtime: Runtime, legacy: LegacySession) -> None:
        super().__init__(runtime)
        self._legacy = legacy

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        catalog, params = self.catalog, incoming.params
        if not catalog.speaks_legacy:
            sessionless = True
        elif "_meta" in params and envelopes.claims(params):
            sessionless = catalog.speaks_modern
        else:  # a method that only revisions without a handshake have, before any handshake
            sessionless = (self._legacy.agreed is None and incoming.method in catalog.modern_methods
                           and catalog.speaks_modern)
        return super().on_request(incoming) if sessionless else self._legacy.on_request(incoming)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        if self.catalog.speaks_legacy:
            self._legacy.on_notification(message)
        else:
            super().on_notification(message)

    def on_input_end(self) -> None:
        subscriptions = self.runtime.subscriptions
        if subscriptions:
            # On a thread of its own: a client that does not read blocks it.
            self.runtime.workers.spawn(lambda: subscriptions.end(self.peer))

    def on_close(self, error: Exception) -> None:
        self.runtime.cancel_suspended(self.peer, "the client has left")
        self._legacy.on_close(error)

    def accepts_batches(self) -> bool:
        return self._legacy.accepts_batches()

    def names_unreadable_ids(self) -> bool:
        return self._legacy.names_unreadable_ids()

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return self._legacy.cancel_notice(id, reason)

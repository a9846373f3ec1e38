"""The session of a client with a handshake: revision, capabilities, log level and subscriptions last until it ends.

It is the message handler of its connection. On a pipe each message decides which era it belongs to (ERA-18 to ERA-20), and the
session passes those without a handshake on::

    message --> LegacySession.on_request --> its own
                        '------------------> SessionlessHandler.on_request (modern.py)

Transports begin with :func:`serve_channel`, the HTTP endpoint with :func:`create_session`.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Optional, Set, Tuple, Type

from ...errors import INVALID_REQUEST, InvalidParams, MCPError, MethodNotFound, ProtocolError, RemoteError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import memory_size, object_of
from ...protocol.meta import bounded_capabilities, bounded_info
from ...revisions import NEWEST_LEGACY, Revision, find_revision
from ...rpc.interfaces import Channel, Delivery
from ...rpc.peer import Peer
from ...rpc.request import MessageHandler
from ...rpc.tracing import get_logger
from ...types import ClientCapabilities, Implementation, codec
from ..catalog.registry import granted_scopes
from ..handling.context import LEVELS, RequestContext, RequestFacts, log_params, rank
from ..handling.dispatch import answer_request
from ..handling.session import KnownRoots, Session, check_own_method
from ..runtime.runtime import OpenSession, Runtime
from .modern import SessionlessHandler, create_peer, names_revision

if TYPE_CHECKING:
    from ...rpc.request import Incoming
    from ..catalog.catalog import Target
    from ..handling.client_questions import Asker
    from ..handling.questions import Question
    from ..principals import Principal

__all__ = ["LegacySession", "create_session", "serve_channel"]

_log = get_logger(__name__)
_DEFAULT_LEVEL = "info"
#: Methods that change state of the session.
_STATEFUL_METHODS = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


class LegacySession(Session, OpenSession, MessageHandler):
    """One client of the handshake era, from its ``initialize`` to the end of its connection.

    A second ``initialize`` starts it over: the client's description, the revision, the log level, the subscriptions and
    the roots are those of the new handshake. Requests in progress go on.

    Its state is the client's own: nothing of it is shared with another session (LOG-05, SAFE-16).
    """

    def __init__(self, runtime: Runtime, on_close: Optional[Callable[[], object]] = None, persistent: bool = True,
                 sessionless: Optional[SessionlessHandler] = None) -> None:
        self.runtime = runtime
        #: Takes the requests of clients without a handshake; None if the transport does that.
        self._sessionless = sessionless
        self._catalog = runtime.catalog
        self._on_close = on_close
        self.persistent = persistent
        #: Guards the fields below; held for single assignments and set operations, and while the
        #: thread is started that calls the hooks of subscriptions.
        self._lock = threading.Lock()
        #: The revision in use: until one is negotiated, the newest one with a handshake.
        self.revision = NEWEST_LEGACY
        #: The negotiated revision; None before the handshake.
        self.agreed: Optional[Revision] = None
        #: Whether the handshake is complete.
        self.initialized = False
        #: Whether the connection has ended, so that nothing is subscribed to any more.
        self._closed = False
        self._level = _DEFAULT_LEVEL
        #: The URIs as the client wrote them, by their normal forms.
        self._subscriptions: Dict[str, str] = {}
        #: The bytes of memory of these URIs.
        self.subscribed_bytes = 0
        self.roots = KnownRoots()
        self._declared: Set[str] = set()
        #: The methods that stay available until the next handshake.
        self._served: FrozenSet[str] = frozenset()
        self.client_info: Optional[Implementation] = None
        self.client_capabilities = ClientCapabilities()

    # --- for handlers -----------------------------------------------------------------------------

    def skip_handshake(self, revision: Revision) -> None:
        """Begin without a handshake: the client has had it with another process, or has left it out."""
        self._declare(revision)
        self.revision = self.agreed = revision
        self.initialized = True

    @property
    def followed(self) -> Set[str]:
        with self._lock:
            return set(self._subscriptions)

    def wants_log(self, level: str) -> bool:
        """Whether the client wants messages of this level (LOG-04)."""
        return self.persistent and self._catalog.description.flags.logging and rank(level) >= rank(self._level)

    @property
    def log_level(self) -> Optional[str]:
        return self._level if self.wants_log(self._level) else None

    def log(self, level: str, data: Any, logger: Optional[str] = None) -> None:
        """Send a log message outside of a request (LOG-20).

        :raises ConnectionClosed: the client is gone.
        """
        if level not in LEVELS:
            raise ValueError(f"{level!r} is not a log level; use one of {', '.join(LEVELS)}")
        if self.initialized and self.wants_log(level):
            self.peer.notify("notifications/message", log_params(level, data, logger))

    def _notify(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        if not self.persistent:
            super()._notify(method, params)
        self.peer.notify(method, params)

    def request(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
        if not self.persistent:
            return super().request(method, params, timeout)
        check_own_method(method, params)
        result = self.peer.call(method, params, timeout=self.limits.ask_seconds if timeout is None else timeout)
        return result  # type: ignore[no-any-return]

    def ping(self, timeout: Optional[float] = None) -> None:
        if not self.persistent:
            super().ping(timeout)
        self.peer.call("ping", timeout=self.limits.ask_seconds if timeout is None else timeout)

    def create_asker(self, context: RequestContext) -> "Asker":
        from ..handling.back_channel import BackChannelAsker  # forms and sampling are loaded by the first handler that asks

        return BackChannelAsker(self, self.roots, context.incoming)

    def ask(self, question: Question) -> Any:
        """Ask the client outside of any request, and return its answer.

        :raises MissingCapability: the client cannot be asked this; nothing was sent.
        :raises RemoteError, RequestTimeout, ConnectionClosed: there is no answer.
        """
        from ..handling.back_channel import BackChannelAsker, send_question

        asked = BackChannelAsker(self, self.roots, None).prepare(question)
        return asked.read(send_question(self, asked, asked.cancel, Delivery()))

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell this client, and no other, that a URL question was answered (URLE-05 to URLE-07)."""
        method = "notifications/elicitation/complete"
        if method in self.revision.server_notifications:
            self.peer.notify(method, {"elicitationId": elicitation_id})

    def principal_of(self, incoming: Incoming) -> "Optional[Principal]":
        # Each request has its own token, and a later token may have fewer scopes.
        facts: Optional[RequestFacts] = incoming.facts
        return self.principal if facts is None else facts.principal or self.principal

    def note_scopes(self, principal: "Optional[Principal]") -> None:
        """If entries are hidden, note the scopes of a principal: they decide which changes the client is notified of."""
        if self._catalog.hides:
            self.granted = granted_scopes(principal)

    # --- subscriptions and changes ------------------------------------------------------------------

    def subscribe(self, uri: str) -> None:
        """Notify the client of updates to *uri* from now on.

        :raises RemoteError: the session already subscribes to as many as ``Limits`` allow.
        """
        from ...protocol.uris import normal_uri  # for clients that follow resources

        limits, size, normal = self.limits, memory_size(uri, self.limits.subscription_bytes), normal_uri(uri)
        with self._lock:
            if normal in self._subscriptions or self._closed:
                return
            total = self.subscribed_bytes + size
            if len(self._subscriptions) < limits.subscriptions and total <= limits.subscription_bytes:
                self._subscriptions[normal], self.subscribed_bytes = uri, total
                self.runtime.subscribers.add([normal])
                return
        raise RemoteError(f"this session may subscribe to {limits.subscriptions} resources, whose URIs take"
                          f" {limits.subscription_bytes} bytes of memory at most; unsubscribe from others first",
                          code=INVALID_REQUEST)

    def unsubscribe(self, uri: str) -> None:
        """Stop notifying the client of updates to *uri*."""
        from ...protocol.uris import normal_uri  # for clients that follow resources

        with self._lock:
            normal = normal_uri(uri)
            given = self._subscriptions.pop(normal, None)
            if given is not None:
                self.subscribed_bytes -= memory_size(given, self.limits.subscription_bytes)
                self.runtime.subscribers.remove([normal])

    def _unsubscribe_all(self) -> None:
        # Called with the lock held, so that changes are counted in their order.
        if self._subscriptions:
            self.runtime.subscribers.remove(self._subscriptions)
            self._subscriptions, self.subscribed_bytes = {}, 0

    def set_level(self, level: str) -> None:
        """Set the least urgent level that this client wants."""
        self._level = level

    def wants_change(self, uri: Optional[str], capability: str) -> bool:
        """Whether the client has declared to take changes of a list, or subscribed to the resource that has changed.

        :param uri: of the resource, in its normal form; None for a list.
        :param capability: "tools", "resources" or "prompts".
        """
        return self.initialized and capability in self._declared and (uri is None or uri in self._subscriptions)

    def subscribed(self, uri: str) -> str:
        """Return the URI of a resource as the client wrote it when it subscribed.

        :param uri: in its normal form.
        """
        return self._subscriptions.get(uri, uri)

    def publish(self, method: str, uri: Optional[str], capability: str, written: Dict[Optional[str], bytes]) -> None:
        """Send a change notification, if the client declared or subscribed to it.

        :param method: of the notification.
        :param uri: of the resource, in its normal form: only subscribers of it get it (RSRC-13); None for a list.
        :param capability: "tools", "resources" or "prompts"; sent only if it was declared to the client.
        :param written: the encoded notification, by the URI as the client wrote it. All sessions share this dictionary, so that
            each text is encoded once.
        """
        if not self.wants_change(uri, capability):
            return
        if uri is not None:
            uri = self.subscribed(uri)
        data = written.get(uri)
        if data is None:
            data = written[uri] = jsonrpc.dump_notification(method, None if uri is None else {"uri": uri})
        try:
            self.peer.send_notification(method, data)
        except MCPError as error:
            _log.debug("%s was not sent: %s", method, error)

    # --- MessageHandler: on the reading thread ---------------------------------------------------------------

    def accepts_batches(self) -> bool:
        return self.agreed is not None and self.agreed.batches

    def names_unreadable_ids(self) -> bool:
        return not self.revision.error_id_optional

    def _stands_alone(self, method: str, params: Dict[str, Any]) -> bool:
        """Whether a request on a pipe belongs to no session."""
        catalog = self._catalog
        if not catalog.speaks_legacy:
            return True
        # A request whose ``_meta`` names a revision stands alone. So does one that came before any handshake, if only revisions
        # without a handshake have its method.
        return catalog.speaks_modern and (("_meta" in params and names_revision(params))
                                          or (self.agreed is None and method in catalog.modern_methods))

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        method, params = incoming.method, incoming.params
        if ("_meta" in params or self.agreed is None) and self._sessionless is not None and self._stands_alone(method, params):
            return self._sessionless.on_request(incoming)
        served = method in self._served
        if not served:
            if method == "ping":
                incoming.respond({})
                return None
            if method == "initialize":
                self._initialize(incoming)
                return None
        if self.agreed is None:
            raise RemoteError(f"{method!r} came before 'initialize'", code=INVALID_REQUEST)
        facts: Optional[RequestFacts] = incoming.facts
        target: Optional[Target]
        if facts is None:
            target = self._catalog.resolve(method, params)
        else:
            target = facts.target
            if target is None:  # a request of a batch
                target = self._catalog.resolve_for(method, params, granted_scopes(facts.principal))
        if target.custom_handler is not None:
            exists = self._catalog.has_method(method, self.agreed, self.principal is not None)
        else:
            exists = served or (method in self.agreed.client_requests and self._offers(method))
        if not exists:
            raise MethodNotFound(f"Method not found: {method[:200]}")
        return functools.partial(answer_request, RequestContext(self, incoming, target))

    def _offers(self, method: str) -> bool:
        # RPC-18: a method behind a capability that was not declared does not exist.
        area = method.partition("/")[0]
        if area == "completion":
            return self._catalog.completes
        flags = self._catalog.description.flags
        if method in _STATEFUL_METHODS and not (self.persistent and (flags.logging if area == "logging" else flags.subscribe)):
            return False
        return area == "logging" or area in self._declared

    def on_notification(self, message: jsonrpc.Notification) -> None:
        if self._sessionless is not None and not self._catalog.speaks_legacy:
            self._sessionless.on_notification(message)
            return
        method, params = message.method, message.params or {}
        if method == "notifications/cancelled":
            self.peer.cancel_incoming(params.get("requestId"), params.get("reason"))
        elif method == "notifications/initialized":
            self.initialized = self.agreed is not None
            for greeter in self.runtime.greeters if self.initialized else ():
                greeter(self)
        elif method == "notifications/roots/list_changed":
            self.roots.forget()
            self.runtime.roots_changed(self)
        elif method == "notifications/progress":
            if type(params.get("progress")) in (int, float):
                self.peer.progress(params.get("progressToken"), params, message.size)
        else:
            own = self._catalog.registry.notifications.get(method)
            if own is not None:
                over_http = self._sessionless is None
                size = memory_size(params, self.limits.queued_bytes) if over_http else 0
                self.runtime.notified(method, lambda: own(params, self), self.sender, size)

    def on_input_end(self) -> None:
        subscriptions = self.runtime.subscriptions
        if self._sessionless is not None and subscriptions:
            # On a thread of its own: a client that does not read blocks it.
            self.runtime.workers.spawn(lambda: subscriptions.end(self.peer))

    def on_close(self, error: Exception) -> None:
        if self._sessionless is not None:
            self.runtime.cancel_suspended(self.peer, "the client has left")
        with self._lock:
            self.initialized, self._closed = False, True
            self._unsubscribe_all()
        self.runtime.session_closed(self, error)
        if self._on_close is not None:
            self._on_close()

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return jsonrpc.Notification("notifications/cancelled", {"requestId": id, "reason": reason})

    # --- the handshake ----------------------------------------------------------------------------------

    def _initialize(self, incoming: Incoming) -> None:
        if incoming.batch is not None:
            raise RemoteError("'initialize' must not be in an array of messages", code=INVALID_REQUEST)
        params = incoming.params
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise InvalidParams("initialize needs params.protocolVersion, a string")
        try:
            capabilities = bounded_capabilities(codec.decode(ClientCapabilities, _member(params, "capabilities")))
            info = bounded_info(codec.decode(Implementation, _member(params, "clientInfo")))
        except ProtocolError as error:
            raise InvalidParams(f"initialize: {error}") from error
        revision = find_revision(asked)
        if revision is None or revision.modern:
            revision = NEWEST_LEGACY  # LIFE-10, LIFE-11
        if self.agreed is not None:
            self._start_over()
        self.client_capabilities = capabilities
        self.client_info = info
        self._declare(revision)
        result = self._catalog.describe(revision, self.persistent, self.principal is not None)
        if self._catalog.hides and incoming.facts is not None:
            self.granted = granted_scopes(incoming.facts.principal)
        self.revision = self.agreed = revision
        _log.info("client %.200r speaks %s", info.name, revision)
        incoming.respond(result)

    def _start_over(self) -> None:
        """Forget the state so far, since the client has sent another ``initialize``.

        The new handshake may be that of another client behind one bridge. Requests in progress go on and are answered, since
        their client may still wait.
        """
        with self._lock:
            self.initialized = False
            self._level = _DEFAULT_LEVEL
            self._unsubscribe_all()
        self.roots.forget()
        _log.info("a client begins the session again")

    def _declare(self, revision: Revision) -> None:
        self._declared = {kind for kind in ("tools", "resources", "prompts") if self._catalog.offers(kind)}
        self._served = frozenset(filter(self._offers, revision.client_requests))


def _member(params: Dict[str, Any], name: str) -> Dict[str, Any]:
    value = object_of(params.get(name))
    if not isinstance(value, dict):
        raise ProtocolError(f"params.{name} must be an object")
    return value


# --- opening ----------------------------------------------------------------------------------------


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
        runtime.enter()  # first: if the last other user of the runtime leaves at this moment, its threads end
    try:
        sessionless = SessionlessHandler(runtime) if may_be_sessionless or not runtime.catalog.speaks_legacy else None
        session = kind(runtime, on_close, persistent, sessionless)
        session.peer = peer = create_peer(runtime, channel, session)
        if sessionless is not None:
            sessionless.peer = peer
    except BaseException:
        if persistent:
            runtime.leave()
        raise
    if persistent:
        runtime.session_opened(session)
    return session, peer

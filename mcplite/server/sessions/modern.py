"""The session of a client without a handshake: it lasts for one request, which carries all facts of the client (STAT-13).

Each request has them in its ``_meta``, which is read as an :class:`Envelope`.
:class:`SessionlessHandler` admits each request and makes its session; the HTTP endpoint passes the :class:`SessionlessClient`
along with the request.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from ...errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    RemoteError,
    ResourceNotFound,
    UnsupportedVersion,
)
from ...protocol import jsonrpc
from ...protocol.jsonrpc import encode_json, memory_size
from ...protocol.meta import CAPABILITIES, CLIENT_INFO, LOG_LEVEL, MAX_SETTINGS, VERSION, bounded_capabilities, bounded_info
from ...revisions import TASKS_EXTENSION, Revision
from ...rpc.interfaces import Channel
from ...rpc.peer import Peer
from ...rpc.request import Incoming, MessageHandler
from ...rpc.tracing import get_logger
from ...types import ClientCapabilities, Implementation, codec
from ..catalog.catalog import Target
from ..handling.context import RequestContext, RequestFacts, rank
from ..handling.dispatch import answer_request
from ..handling.session import Session
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from ..handling.client_questions import Asker
    from ..handling.http_request import HTTPRequest

__all__ = ["AcceptedSenders", "Envelope", "ModernSession", "SessionlessClient", "SessionlessHandler", "create_peer",
           "create_sessionless_peer", "names_revision", "read_envelope", "revision_of", "unsupported"]

_log = get_logger(__name__)
#: Error codes that are reserved for the specification.
_RESERVED = range(-32099, -32019)
#: Error codes of JSON-RPC that handlers may use.
_OPEN = frozenset({INVALID_PARAMS, INTERNAL_ERROR})
#: The capabilities of a client without handlers, which are valid without the work of decoding them.
_ONLY_TASKS: Dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}


class Envelope:
    """The sender of one request, as its ``_meta`` describes it; it does not hold for the next request (STAT-13).

    Capabilities and client info are decoded on first use; most handlers never use them.

    :param version: the name of the revision, supported or not.
    :param meta: the whole ``_meta`` of the request, which has the required members.
    """

    __slots__ = ("version", "meta", "log_level", "_capabilities", "_info")

    def __init__(self, version: str, meta: Mapping[str, Any]) -> None:
        self.version = version
        self.meta = meta
        #: The least urgent level of log messages that the client wants; None for none at all.
        self.log_level: Optional[str] = meta.get(LOG_LEVEL)
        self._capabilities: Optional[ClientCapabilities] = None
        self._info: Optional[Implementation] = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The client's capabilities, for this request alone."""
        if self._capabilities is None:
            self._capabilities = codec.decode(ClientCapabilities, self.meta[CAPABILITIES])
        return self._capabilities

    @property
    def info(self) -> Optional[Implementation]:
        """The client's name and version; None if it does not say (STAT-05)."""
        if self._info is None and CLIENT_INFO in self.meta:
            self._info = codec.decode(Implementation, self.meta[CLIENT_INFO])
        return self._info

    @property
    def facts(self) -> Any:
        """The capabilities and the info of the client, to compare them; not decoded, unless :meth:`forget_meta` was called."""
        meta = self.meta
        return (meta[CAPABILITIES], meta.get(CLIENT_INFO)) if meta else (self._capabilities, self._info)

    def forget_meta(self) -> None:
        """Keep only the bounded capabilities and info of the client, while a request is in progress for long."""
        info = self.info
        self._info = None if info is None else bounded_info(info)
        self._capabilities = bounded_capabilities(self.capabilities)
        self.meta = {}


class AcceptedSenders:
    """Remembers the ``_meta`` of the request that was accepted last: a client sends the same one with each of its requests.

    The checks of :func:`read_envelope` look for members that are strings or objects, so that equal values pass them alike.
    """

    def __init__(self) -> None:
        #: That ``_meta`` and its revision; without a lock, since it is replaced in one step.
        self._latest: Tuple[Mapping[str, Any], Optional[Revision]] = ({}, None)

    def find(self, params: Optional[Mapping[str, Any]]) -> Optional[Tuple[Envelope, Revision]]:
        """Return the envelope and the revision of a request; None if its ``_meta`` is another one, which must be read."""
        meta = None if params is None else params.get("_meta")
        latest, revision = self._latest
        return None if revision is None or meta != latest else (Envelope(revision.name, meta), revision)

    def note(self, envelope: Envelope, revision: Revision) -> None:
        """Note a request that was accepted, unless its ``_meta`` takes much memory."""
        meta = envelope.meta
        if memory_size(meta, MAX_SETTINGS) <= MAX_SETTINGS:
            # A deep copy: a handler may change the ``_meta`` of its request.
            self._latest = (json.loads(encode_json(meta)), revision)


def names_revision(params: Optional[Mapping[str, Any]]) -> bool:
    """Whether a request's params name a revision, which makes the request modern (ERA-18)."""
    meta = None if params is None else params.get("_meta")
    return type(meta) is dict and (VERSION in meta or CAPABILITIES in meta)


def read_envelope(params: Optional[Mapping[str, Any]]) -> Envelope:
    """Return the envelope of a request.

    :raises InvalidParams: a required member is missing, or a member has a wrong type (STAT-03).
    """
    meta = None if params is None else params.get("_meta")
    if not isinstance(meta, dict):
        raise InvalidParams(f"params._meta must be an object with {VERSION!r} and {CAPABILITIES!r}")
    version = meta.get(VERSION)
    if not isinstance(version, str):
        raise InvalidParams(f"params._meta must have {VERSION!r}, a string")
    if meta.get(CAPABILITIES) == []:
        meta[CAPABILITIES] = {}
    elif not isinstance(meta.get(CAPABILITIES), dict):
        raise InvalidParams(f"params._meta must have {CAPABILITIES!r}, an object")
    envelope = Envelope(version, meta)
    level = meta.get(LOG_LEVEL)
    if level is not None and not isinstance(level, str):
        raise InvalidParams(f"params._meta[{LOG_LEVEL!r}] must be a string")
    try:
        if meta[CAPABILITIES] and meta[CAPABILITIES] != _ONLY_TASKS:
            envelope.capabilities
        info = meta.get(CLIENT_INFO)
        # An info with just these two texts, as most clients send it, need not be decoded.
        if CLIENT_INFO in meta and not (type(info) is dict and len(info) == 2 and type(info.get("name")) is str
                                        and type(info.get("version")) is str):
            codec.decode(Implementation, info)
    except ProtocolError as error:
        raise InvalidParams(f"params._meta: {error}") from error
    return envelope


def revision_of(envelope: Envelope, offered: Sequence[Revision]) -> Revision:
    """Return the modern revision that a request is served under.

    :param offered: the revisions that the server speaks, those with a handshake included; the error lists them.
    :raises UnsupportedVersion: the request names none of them, or one that begins with a handshake (STAT-16, ERA-23).
    """
    for revision in reversed(offered):  # the newest is the one that most clients use
        if revision.name == envelope.version and revision.modern:
            return revision
    raise unsupported(envelope.version, offered)


def unsupported(version: Any, offered: Sequence[Revision]) -> UnsupportedVersion:
    """Return the error for a version that is not supported, or not in this form; it names the supported ones."""
    names = [known.name for known in reversed(offered)]
    said = version if isinstance(version, str) else ""
    return UnsupportedVersion(f"Unsupported protocol version: {said[:50]!r}; this server speaks {', '.join(names)}",
                              data={"supported": names, "requested": said[:200]})


class SessionlessClient(RequestFacts):
    """The client that has sent one request over HTTP, without a session.

    :param envelope: of the request, which was compared with its headers.
    :param revision: of the request.
    :param target: what the request is about.
    :param http: the HTTP request, authenticated.
    :param sender: as for the base class.
    """

    __slots__ = ("envelope", "revision", "single_process")

    def __init__(self, envelope: Envelope, revision: Revision, target: Target, http: "HTTPRequest", sender: str = ""
                 ) -> None:
        # As in the base class, without a call to it: each request passes here.
        self.http = http
        principal = self.principal = http.principal
        self.target = target
        self.sender = sender or (http.network if principal is None else principal.key)
        self.envelope = envelope
        self.revision = revision
        self.single_process = http.single_process

    def forget_request(self) -> None:
        self.envelope.forget_meta()
        self.http = None


class ModernSession(Session):
    """One client for the time of one request.

    :param client: the sender of a request over HTTP; None on a pipe, which has one client.
    """

    def __init__(self, runtime: Runtime, peer: Peer, envelope: Envelope, revision: Revision,
                 client: Optional[SessionlessClient] = None) -> None:
        self.runtime = runtime
        self.peer = peer
        self.revision = revision
        self._envelope = envelope
        self._client = client
        if client is not None:
            self.principal, self.sender = client.principal, client.sender

    @property
    def client_info(self) -> Optional[Implementation]:  # type: ignore[override]
        info = self._envelope.info
        return None if info is None else bounded_info(info)

    @property
    def client_capabilities(self) -> ClientCapabilities:  # type: ignore[override]
        return bounded_capabilities(self._envelope.capabilities)

    @property
    def client_facts(self) -> Any:
        return self._envelope.facts

    def forget_request(self) -> None:
        self._envelope.forget_meta()

    def wants_log(self, level: str) -> bool:
        wanted = self._envelope.log_level
        return wanted is not None and self.runtime.catalog.description.flags.logging and rank(level) >= rank(wanted)

    @property
    def log_level(self) -> Optional[str]:
        return self._envelope.log_level if self.runtime.catalog.description.flags.logging else None

    def create_asker(self, context: RequestContext) -> "Asker":
        from ..handling.client_questions import NoAsker  # forms and sampling are loaded by the first handler that asks

        if context.method not in self.revision.asking_methods:
            return NoAsker(self, "questions can only be asked while a tool is called, a prompt is got or a resource"
                                     f" is read (revision {self.revision})")
        if self._client is not None and self.runtime.fleet is None and not self._client.single_process:
            return NoAsker(self, "this server runs in several processes, so the client's answer may reach another one"
                                 " than asked; share backend= between them, or the variable MCPLITE_BACKEND, or say so with"
                                 " Server(fleet=True, state_keys=[...])")
        from ..handling.suspended_calls import ResultAsker

        return ResultAsker(context)

    def _notify(self, method: str, params: Optional[Dict[str, Any]]) -> None:
        if self._client is not None:
            super()._notify(method, params)
        self.peer.notify(method, params)

    def complete_result(self, result: Any) -> Any:
        return self.runtime.catalog.stamp(result, self.revision)

    @property
    def result_end(self) -> str:  # type: ignore[override]
        return self.runtime.catalog.result_end(self.revision)

    def translate_error(self, error: RemoteError) -> RemoteError:
        code = error.code
        if isinstance(error, ResourceNotFound) or code == RESOURCE_NOT_FOUND:
            return InvalidParams(error.message, data=error.data) if code != INVALID_PARAMS else error  # ERR-06
        if code == MISSING_CAPABILITY and isinstance(error.data, dict) and isinstance(
                error.data.get("requiredCapabilities"), dict):
            return error
        if code in _RESERVED:
            # ERR-01, ERR-02, ERR-06: clients would take it for an error of the protocol.
            _log.error("a handler raised the code %d, which is the protocol's own; use one outside of -32768 to -32000", code)
            return InternalError(error.message, data=error.data)
        if code not in _OPEN and -32768 <= code <= -32000:
            _log.warning("a handler raised the code %d; those from -32768 to -32000 are JSON-RPC's to define", code)  # ERR-04
        return error


class SessionlessHandler(MessageHandler):
    """Handles sessionless requests."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.catalog = runtime.catalog
        self.peer: Peer
        self._senders = AcceptedSenders()

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        catalog, method = self.catalog, incoming.method
        client: Optional[SessionlessClient] = incoming.facts
        target: Optional[Target] = None
        if client is not None:
            envelope, revision, target = client.envelope, client.revision, client.target
        else:
            found = self._senders.find(incoming.params)
            if found is not None:
                envelope, revision = found
            else:
                if method == "initialize" and not names_revision(incoming.params):
                    raise unsupported(incoming.params.get("protocolVersion"), catalog.revisions)  # ERA-21
                envelope = read_envelope(incoming.params)
                revision = revision_of(envelope, catalog.revisions)
                self._senders.note(envelope, revision)
        level = envelope.log_level
        if level is not None:
            _check_level(level)
        if target is None:
            target = catalog.resolve(method, incoming.params)
        if target.custom_handler is None:
            if method not in revision.client_requests or (target.entry is None and not catalog.serves(method)):
                raise MethodNotFound(f"Method not found: {method[:200]}")
            if method == "server/discover":
                incoming.respond(catalog.discover(revision, client is not None and client.principal is not None))
                return None
            if method == "subscriptions/listen":
                principal = None if client is None else client.principal
                self.runtime.subscriptions.open(incoming, revision, envelope.capabilities.extensions,
                                                None if principal is None else principal.key)
                return None
        elif not catalog.has_method(method, revision, client is not None and client.principal is not None):
            raise MethodNotFound(f"Method not found: {method[:200]}")
        session = ModernSession(self.runtime, self.peer, envelope, revision, client)
        context = RequestContext(session, incoming, target)
        if method in revision.asking_methods:
            params = incoming.params
            if "requestState" in params or "inputResponses" in params:
                from ..handling.suspended_calls import resume  # with the first answer

                return resume(context)
        return functools.partial(answer_request, context)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        params = message.params or {}
        if message.method == "notifications/cancelled":
            # This is for pipes. Over HTTP, closing the response stream cancels; an id alone does not identify a request there.
            self.peer.cancel_incoming(params.get("requestId"), params.get("reason"))
            return
        own = self.catalog.registry.notifications.get(message.method)
        if own is not None:
            size = memory_size(params, self.runtime.limits.queued_bytes) if self.peer.shared else 0  # over HTTP
            self.runtime.notified(message.method, lambda: own(params, None), size=size)


def _check_level(level: str) -> None:
    try:
        rank(level)
    except KeyError:
        raise InvalidParams(f"unknown log level {level[:50]!r} in params._meta") from None


def create_sessionless_peer(runtime: Runtime, channel: Channel) -> Peer:
    """Return the peer for all sessionless clients of an endpoint, which passes their requests to it."""
    handler = SessionlessHandler(runtime)
    handler.peer = create_peer(runtime, channel, handler, shared=True)
    return handler.peer


def create_peer(runtime: Runtime, channel: Channel, handler: MessageHandler, shared: bool = False) -> Peer:
    """Return the peer of a channel, whose messages *handler* takes; it is not started.

    :param shared: whether it speaks for many clients.
    """
    from ...rpc.tracing import trace_for  # with the first client

    peer = Peer(channel, handler, workers=runtime.workers, serving=True, trace=trace_for(runtime.debug, channel.name),
                limits=runtime.json_limits, shared=shared, most_bytes=runtime.limits.sent_bytes,
                grace=runtime.limits.grace)
    runtime.peers.add(peer)
    return peer

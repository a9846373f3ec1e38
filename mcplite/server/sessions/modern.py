"""Serving clients without a handshake: each request says who sends it, and nothing lasts beyond it (STAT-13)."""

import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional

from ...errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    InternalError,
    InvalidParams,
    RemoteError,
    ResourceNotFound,
)
from ...protocol import envelope as envelopes, jsonrpc
from ...protocol.envelope import Envelope, unsupported
from ...revisions import Revision
from ...rpc.incoming import Handler, Incoming
from ...rpc.peer import Peer
from ...types import ClientCapabilities, Implementation
from ..handling.context import Context, rank
from ..handling.dispatch import serve
from ..handling.session import Session
from .legacy import LegacySession

if TYPE_CHECKING:
    from ...protocol.state import Journal
    from ..app import Server
    from ..auth.principals import Principal
    from ..handling.asker import Asker

__all__ = ["BothEras", "ModernHandler", "ModernSession", "Visitor"]

_log = logging.getLogger(__name__)
_NOTHING: Dict[str, Any] = {}
#: Codes that are the specification's to define.
_RESERVED = range(-32099, -32019)
#: Those of JSON-RPC that handlers may raise.
_OPEN = frozenset({INVALID_PARAMS, INTERNAL_ERROR})


class Visitor:
    """Who has sent one request over HTTP, as far as the exchange knows.

    :param envelope: of the request, which was compared with its headers.
    :param revision: that it is served under.
    :param principal: who it is, as its token or the host says.
    :param alone: whether all requests of a client reach this process, so that a handler may wait for the next one.
    """

    __slots__ = ("envelope", "revision", "principal", "alone")

    def __init__(self, envelope: Envelope, revision: Revision, principal: "Optional[Principal]", alone: bool) -> None:
        self.envelope = envelope
        self.revision = revision
        self.principal = principal
        self.alone = alone


class ModernSession(Session):
    """One client for the time of one request.

    :param visitor: who has sent it over HTTP; None on a pipe, where there is one client.
    """

    def __init__(self, app: "Server", peer: Peer, envelope: Envelope, revision: Revision,
                 visitor: Optional[Visitor] = None) -> None:
        self.app = app
        self.peer = peer
        self._envelope = envelope
        self._revision = revision
        self._visitor = visitor
        self.principal = None if visitor is None else visitor.principal
        #: Answers that came with the request, by key.
        self.given: Mapping[str, Any] = _NOTHING
        #: What the request's state says, in a fleet.
        self.journal: "Optional[Journal]" = None

    @property
    def revision(self) -> Revision:
        return self._revision

    @property
    def client_info(self) -> Optional[Implementation]:  # type: ignore[override]
        return self._envelope.info

    @property
    def client_capabilities(self) -> ClientCapabilities:  # type: ignore[override]
        return self._envelope.capabilities

    def wants_log(self, level: str) -> bool:
        wanted = self._envelope.log_level
        return wanted is not None and rank(level) >= rank(wanted)

    def asker(self, context: Optional[Context] = None) -> "Asker":
        from ..handling.asker import Unreachable

        if context is None or context.method not in self._revision.asking_methods:
            return Unreachable(self, "questions can only be asked while a tool is called, a prompt is got or a resource"
                                     f" is read (revision {self._revision})")
        if self._visitor is not None and self.app.fleet:
            from ..handling.replay import Replay

            return Replay(context, self.journal, self.given)
        if self._visitor is not None and not self._visitor.alone:
            return Unreachable(self, "this server runs in several processes, so the client's answer may reach another one"
                                     " than asked; say so with Server(fleet=True, state_keys=[...])")
        from ..handling.wait import Wait

        return Wait(context, self.given)

    def finish(self, result: Any) -> Any:
        if type(result) is jsonrpc.Encoded:
            return result  # a page of a list, which was finished before it was kept
        return self.app.stamped(result, self._revision)

    def refuse(self, error: RemoteError) -> RemoteError:
        code = error.code
        if isinstance(error, ResourceNotFound) or code == RESOURCE_NOT_FOUND:
            return InvalidParams(error.message, data=error.data) if code != INVALID_PARAMS else error  # ERR-06
        if code == MISSING_CAPABILITY and isinstance(error.data, dict) and isinstance(error.data.get("requiredCapabilities"), dict):
            return error
        if code in _RESERVED:
            # ERR-01, ERR-02, ERR-06: these mean something that this one does not.
            _log.error("a handler raised the code %d, which is the protocol's own; use one outside of -32768 to -32000", code)
            return InternalError(error.message, data=error.data)
        if code not in _OPEN and -32768 <= code <= -32000:
            _log.warning("a handler raised the code %d; those from -32768 to -32000 are JSON-RPC's to define (ERR-04)", code)
        return error


class ModernHandler(Handler):
    """What requests mean that each stand for themselves."""

    def __init__(self, app: "Server") -> None:
        self.app = app
        self.peer: Peer

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        try:
            return self._admit(incoming)
        except RemoteError as error:
            incoming.fail(error.code, error.message, error.data)
            return None

    def _admit(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        """Return what a worker shall run; None when the request is dealt with.

        :raises RemoteError: it cannot be served.
        """
        app, visitor, method = self.app, incoming.sender, incoming.method
        if visitor is not None:
            envelope, revision = visitor.envelope, visitor.revision
        else:
            if method == "initialize" and not envelopes.claims(incoming.params):
                raise unsupported(incoming.params.get("protocolVersion"), app.revisions)  # ERA-21
            envelope = envelopes.read(incoming.params)
            revision = envelopes.revision_of(envelope, app.revisions)
        session = ModernSession(app, self.peer, envelope, revision, visitor)
        level = envelope.log_level
        if level is not None:
            _check_level(level)
        own = app.registry.method(method)
        if own is None and not (method in revision.client_requests and app.serves(method)):
            incoming.fail(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
            return None
        if own is None and method == "server/discover":
            incoming.respond(app.discover(revision))
            return None
        if own is None and method == "subscriptions/listen":
            app.listeners.open(incoming, revision)
            return None
        context = Context(session, incoming)
        if method in revision.asking_methods and self._comes_back(session, incoming):
            return None
        if session.journal is not None:
            context.round, context.notes = session.journal.entered, session.journal.notes
        return lambda: serve(context, own)

    def _comes_back(self, session: ModernSession, incoming: Incoming) -> bool:
        """Take what a retry brings; True when a handler that waits goes on with it.

        :raises InvalidParams: it is not what it must be.
        """
        params = incoming.params
        if "inputResponses" in params:
            session.given = _responses(params["inputResponses"])
        state = params.get("requestState")
        if state is None:
            return False
        if not isinstance(state, str):
            raise InvalidParams("params.requestState must be a string")
        from ..runtime.waiting import refused_state

        if incoming.sender is not None and self.app.fleet:
            session.journal = self.app.states.open(state, session.owner, incoming.method, incoming.params)
            if session.journal is None:
                raise refused_state()
            return False
        if not self.app.waiting.claim(state, session, incoming, dict(session.given)):
            raise refused_state()
        return True

    def on_notification(self, message: jsonrpc.Notification) -> None:
        params = message.params or {}
        if message.method == "notifications/cancelled":
            # On a pipe; over HTTP a client hangs up, and ids, which belong to many senders, find nothing.
            self.peer.cancel_incoming(params.get("requestId"), params.get("reason"))
            return
        own = self.app.registry.notification(message.method)
        if own is not None:
            self.app.workers.submit(lambda: own(params, None))


class BothEras(ModernHandler):
    """What messages mean on a pipe, where a client may speak either way, message by message (ERA-18 to ERA-20).

    :param legacy: the session that begins with ``initialize``, if the client sends one.
    """

    def __init__(self, app: "Server", legacy: LegacySession) -> None:
        super().__init__(app)
        self._legacy = legacy

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        app = self.app
        if app.speaks_modern and (not app.speaks_legacy or envelopes.claims(incoming.params) or (
                self._legacy.agreed is None and incoming.method in app.modern_methods)):
            return super().on_request(incoming)
        return self._legacy.on_request(incoming)

    def on_notification(self, message: jsonrpc.Notification) -> None:
        if self.app.speaks_legacy:
            self._legacy.on_notification(message)
        else:
            super().on_notification(message)

    def on_close(self, error: Exception) -> None:
        self.app.forget(self.peer, "the client has left")
        self._legacy.on_close(error)

    def accepts_batches(self) -> bool:
        return self._legacy.accepts_batches()

    def names_unreadable_ids(self) -> bool:
        return self._legacy.names_unreadable_ids()

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        return self._legacy.cancel_notice(id, reason)


def _check_level(level: str) -> None:
    try:
        rank(level)
    except KeyError:
        raise InvalidParams(f"unknown log level {level[:50]!r} in params._meta") from None


def _responses(given: Any) -> Dict[str, Any]:
    """Return the answers of a retry.

    :raises InvalidParams: they are no object of objects (MRTR-19).
    """
    if not isinstance(given, dict):
        raise InvalidParams("params.inputResponses must be an object")
    for key, answer in given.items():
        if not isinstance(answer, dict):
            raise InvalidParams(f"params.inputResponses[{key[:100]!r}] must be an object")
    return given

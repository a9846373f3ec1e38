"""ModernClientSession: talks to a server without a handshake; each request identifies the client and stands for itself."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ...errors import HeaderMismatch, HTTPStatusError, ProtocolError, RemoteError, TransportError, UnsupportedVersion
from ...protocol import jsonrpc, meta as envelopes
from ...protocol.http import routing_headers
from ...protocol.meta import REPEATABLE
from ...revisions import TASKS_EXTENSION, Revision, find_revision
from ...rooms import has
from ...rpc.cancel import CancelToken
from ...rpc.interfaces import DIRECT, Delivery
from ...rpc.request import Incoming
from ...rpc.tracing import get_logger
from ...types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities, Tool, codec
from ..cache import CACHEABLE, Cache
from ..call import Call, Waiting, send_again
from ..output_schemas import Listed
from .base import MODERN_ERRORS, ClientSession, ConnectionToServer, Subscriber

__all__ = ["ModernClientSession", "choose"]

_log = get_logger(__name__)


class ModernClientSession(ClientSession):
    """A session without a handshake.

    :param connection: to the server.
    :param revision: of the first request; :meth:`use_revision` changes it.
    """

    era = "modern"
    change_streams = True

    def __init__(self, connection: ConnectionToServer, revision: Revision) -> None:
        super().__init__(connection)
        options, settings = self._options, self._options.settings
        self._cache = options.cache
        self._extensions = options.extensions
        #: The members that ``Mcp-Name`` repeats, by methods of extensions.
        self._names = {} if options.extensions is None else options.extensions.names
        self._trace_context = settings.trace_context
        self.restartable = self._channel.restartable
        self._carries_headers = self._channel.carries_headers
        #: Whether each request needs its params in one piece: for its headers, or for the trace context in them.
        self._stamps_more = self._carries_headers or self._trace_context is not None
        self._result_types = frozenset({"complete", "input_required", *settings.result_types})
        # Servers with a session send log messages unasked; here each request has to ask for them (STAT-24).
        self.log_level = "info" if self._handlers.wants_logs else None
        self.use_revision(revision)
        #: The parameters of listed tools that travel in headers as well.
        self._marks: Listed[Sequence[routing_headers.Mark]] = Listed()
        #: Guards ``_subscribers``; held for dictionary work only.
        self._lock = threading.Lock()
        #: By the id of the ``subscriptions/listen`` request.
        self._subscribers: Dict[int, Subscriber] = {}
        connection.session = self

    def use_revision(self, revision: Revision) -> None:
        """Use a revision from now on."""
        self.revision = revision
        capabilities = self._handlers.capabilities()
        if has("tasks"):
            capabilities.extensions = {TASKS_EXTENSION: {}, **(capabilities.extensions or {})}
        #: The members of ``_meta`` in every request.
        self._envelope = envelopes.members(revision, capabilities, self._options.info, self.log_level)
        if self._extensions is not None:
            self._extensions.declare(self._envelope[envelopes.CAPABILITIES], revision)
        self._encoded_envelope = jsonrpc.Encoded(self._envelope)

    # --- opening ----------------------------------------------------------------------------------------

    def discover(self, timeout: Optional[float], cancel: Optional[CancelToken] = None) -> DiscoverResult:
        """Send ``server/discover``.

        :raises ProtocolError: the answer is not a result of it (ERA-15).
        :raises RemoteError, RequestTimeout, TransportError: as for every call.
        """
        answer = self._observed(Call("server/discover", None, timeout, timeout, cancel, notice=False),
                                lambda call: self._send_patiently(call, self.peer.now()))
        if "supportedVersions" not in answer:
            raise ProtocolError(f"{self.name} answered 'server/discover' with something else", answer)
        try:
            return codec.decode(DiscoverResult, answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} answered 'server/discover' with an invalid result: {error}",
                                error.raw) from error

    def complete(self, revision: Revision, capabilities: ServerCapabilities, instructions: Optional[str],
                 info: Optional[Implementation]) -> None:
        """Complete the opening with the revision and the server's description."""
        if revision is not self.revision:
            self.use_revision(revision)
        self._opened(InitializeResult(revision.name, capabilities, info or Implementation(name="", version=""), instructions),
                     revision)

    def set_level(self, level: str) -> bool:
        self.log_level = level
        self.use_revision(self.revision)
        return True

    def take_over(self, lost: ClientSession, waiting: Waiting) -> None:
        if lost.log_level is not None:
            self.set_level(lost.log_level)

    # --- requests: the cache, the headers, the message, the rounds of input ----------------------------------

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`.

        :raises InputNeeded: the server needs input, and the call leaves the answers to its caller.
        :raises TypeError, ValueError: the params are not JSON; nothing was sent.
        """
        cacheable, epoch = call.method in CACHEABLE, 0
        if cacheable:
            kept = None if call.fresh else self._cache.find(call.method, call.params)  # CACHE-17
            if kept is not None:
                return kept
            epoch = self._cache.epoch
        place = (self._cache, call.params, epoch) if cacheable else None
        if not self._observers:
            return self._send_with_rounds(call, place)
        return self._observed(call, lambda sent: self._send_with_rounds(sent, place))

    def _send_with_rounds(self, call: Call, place: Optional[Tuple[Cache, Optional[Dict[str, Any]], int]]) -> Dict[str, Any]:
        """Send a request, answer the server's questions, and return the complete result.

        :param place: the cache for the result, with the params and the epoch of its entry; None if it is not cached.
        """
        begun = self.peer.now()
        result = self._send_patiently(call, begun)
        if result.get("resultType") == "input_required":
            from .answering import InputRounds  # for servers that ask

            return InputRounds(self).run(call._replace(id=None, spent=0.0), result, call.spent + self.peer.now() - begun,
                                         lambda sent: self._send_patiently(sent, self.peer.now()))
        if place is not None:  # CACHE-07: results of several rounds are not cached
            cache, params, epoch = place
            cache.keep(call.method, params, result, epoch)
        return result

    def _send_patiently(self, call: Call, begun: float) -> Dict[str, Any]:
        """Send a request, again while the server is busy.

        :param begun: now, by the clock of the connection.
        """
        try:
            # Without headers, _send_with_retry() has nothing to add: no header can be wrong, and no idle connection can be
            # stale.
            return self._send_once(call) if not self._carries_headers else self._send_with_retry(call, begun)
        except (RemoteError, HTTPStatusError) as error:
            return send_again(self._send_with_retry, call, error, self.peer.now() - begun)

    def _send_with_retry(self, call: Call, begun: Optional[float] = None) -> Dict[str, Any]:
        """Send a request with its headers; once more if the server expects other headers or a connection was stale."""
        marked = self._carries_headers and call.method == "tools/call"
        if begun is None:
            begun = self.peer.now()
        if marked and (self._marks.found or call.headers):
            call = call._replace(headers=self._parameter_headers(call))
        first: Optional[TransportError] = None
        try:
            return self._send_once(call)
        except HeaderMismatch as error:
            again = self._with_other_headers(call, error, begun) if marked and error.received else None
            if again is None:
                raise
        except TransportError as error:
            if not error.stale or call.method not in REPEATABLE:
                raise
            again, first = call, error  # H26-22
        try:
            return self._send_once(again._replace(id=None, spent=call.spent + self.peer.now() - begun))
        except TransportError as error:
            if first is None:
                raise
            raise error.of_second_attempt(first) from error

    def _parameter_headers(self, call: Call) -> Dict[str, str]:
        params = call.params or {}
        return routing_headers.parameters(params.get("arguments") or {}, self._marks.found.get(str(params.get("name")), ()))

    def _with_other_headers(self, call: Call, error: HeaderMismatch, begun: float) -> Optional[Call]:
        """Read the list of tools again; return the call with other headers, or None if no header has changed (MHDR-28)."""
        _log.info("%s expects other headers for the tool %.100r (%s); its list is read again", self.name,
                  (call.params or {}).get("name"), error.message)
        self._cache.changed("notifications/tools/list_changed")  # the cached list is outdated
        most = call.max_timeout
        if most is not None:
            most = max(most - call.spent - (self.peer.now() - begun), 0.001)
        self._options.list_tools(timeout=call.timeout, max_timeout=most, cancel=call.cancel)
        headers = self._parameter_headers(call)
        return None if headers == call.headers else call._replace(headers=headers)

    def _send_once(self, call: Call) -> Dict[str, Any]:
        """Send one message and return the checked answer."""
        method, params, id = call.method, call.params, call.id
        stamped: Any
        if call.sender is not None:
            own = {**self._envelope, **call.sender}
            stamped = envelopes.stamp(params, {name: value for name, value in own.items() if value is not None})
        elif not (self._stamps_more or call.on_progress is not None or params and "_meta" in params):
            stamped = envelopes.Stamped(params or {}, self._encoded_envelope)
        else:
            stamped = envelopes.stamp(params, self._envelope)
        if call.on_progress is not None:
            id = self.peer.new_id() if id is None else id
            stamped["_meta"]["progressToken"] = id
        if self._trace_context is not None:
            stamped["_meta"].update(envelopes.checked_trace(self._trace_context()))
        delivery = DIRECT
        if self._carries_headers:
            headers = {**routing_headers.standard(method, stamped, self.revision.name, self._names), **call.headers}
            delivery = Delivery(None, headers, call.notice, call.lasting, call.spent)
        elif not call.notice or call.lasting or call.spent:
            delivery = Delivery(None, None, call.notice, call.lasting, call.spent)
        try:
            result = self.peer.call(method, stamped, id=id, timeout=call.timeout, max_timeout=call.max_timeout,
                                    cancel=call.cancel, on_progress=call.on_progress, delivery=delivery)
        except HTTPStatusError as error:
            # A server that refuses a request because of its headers may not have read its id (ERA-10, MHDR-28).
            cause = error.__cause__
            if isinstance(cause, RemoteError) and cause.code in MODERN_ERRORS:
                raise cause from None
            raise
        if not isinstance(result, dict):
            raise ProtocolError(f"{self.name} answered {method!r} with {type(result).__name__}, not an object", result)
        kind = result.get("resultType", "complete")  # STAT-07
        known = isinstance(kind, str) and (kind in self._result_types or kind == "task" and method == "tools/call")
        if not known and (self._extensions is None or not self._extensions.may_answer(kind, method)):  # STAT-08
            raise ProtocolError(f"{self.name} answered {method!r} with a result of the unknown type {kind!r:.100}", result)
        return result

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        headers = (routing_headers.standard(method, params or {}, self.revision.name, self._names) if self._carries_headers
                   else None)  # H26-15
        self.peer.notify(method, params, timeout=timeout, beside=headers)

    # --- the tools' parameters that travel in headers -------------------------------------------------------

    def usable_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called here, and remember which parameters travel in headers (MHDR-18)."""
        if not self._carries_headers:
            return tools
        usable: List[Tool] = []
        found: Dict[str, Sequence[routing_headers.Mark]] = {}
        for tool in tools:
            try:
                marks = routing_headers.marks(tool.input_schema)
                usable.append(tool)
                found[tool.name] = marks
            except ValueError as error:
                _log.warning("%s: the tool %.100r cannot be used and is left out: %s", self.name, tool.name, error)
        self._marks.learn([tool.name for tool in usable], {name: marks for name, marks in found.items() if marks})  # MHDR-11
        return usable

    def on_change(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._marks.forget()

    # --- subscriptions ----------------------------------------------------------------------------------

    def listen(self, subscriber: Subscriber, filter: Dict[str, Any], cancel: CancelToken) -> None:
        """Send one ``subscriptions/listen`` and return when the server ends it.

        :param subscriber: takes the messages of this subscription.
        :raises Cancelled: the token was cancelled.
        :raises RemoteError, TransportError: the server refused it, or the stream broke.
        """
        id = self.peer.new_id()
        with self._lock:
            self._subscribers[id] = subscriber
        try:
            self._send_once(Call("subscriptions/listen", {"notifications": filter}, cancel=cancel, lasting=True,
                                 id=id))
        finally:
            with self._lock:
                self._subscribers.pop(id, None)

    def answer_inputs(self, requests: Dict[str, Any], cancel: Optional[CancelToken]) -> Dict[str, Any]:
        from .answering import InputRounds

        rounds = InputRounds(self)
        rounds.check(requests, requests)
        return rounds.answers(requests, cancel)

    # --- what the server sends, on the reader's thread ----------------------------------------------------

    def take_notification(self, method: str, params: Dict[str, Any]) -> bool:
        """Give a notification to the subscription that it names; False when it names none (SUBS-06)."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or envelopes.SUBSCRIPTION not in meta:
            return False
        id = jsonrpc.own_id(meta[envelopes.SUBSCRIPTION])
        subscriber = None if id is None else self._subscribers.get(id)
        if subscriber is None:
            _log.debug("%s sent %s for a subscription that is over: %.100r", self.name, method,
                       meta[envelopes.SUBSCRIPTION])
        else:
            subscriber.take_notification(method, params)
        return True

    def on_request(self, incoming: Incoming) -> Optional[Callable[[], object]]:
        # STAT-21, STAT-22: servers of this era send no requests, and clients do not answer them.
        _log.warning("%s sent the request %.100r, which is not part of %s; it is not answered",
                              self.name, incoming.method, self.revision)
        incoming.cancel(None)
        incoming.respond({})
        return None

    def cancel_notice(self, id: int, reason: str) -> Optional[jsonrpc.Notification]:
        # CANC, H26-10: over HTTP, closing the connection of the call cancels it.
        return None if self._carries_headers else super().cancel_notice(id, reason)

    def on_cancelled(self, params: Dict[str, Any]) -> None:
        id = jsonrpc.own_id(params.get("requestId"))
        subscriber = None if id is None else self._subscribers.get(id)
        if subscriber is not None:
            subscriber.on_ended()


def choose(versions: Sequence[Any], ours: Sequence[Revision], name: str) -> Revision:
    """Return the newest of our revisions that a server supports.

    :raises UnsupportedVersion: it supports none of them (STAT-17).
    """
    theirs = [find_revision(version) for version in versions]
    for revision in reversed(ours):
        if revision in theirs:
            return revision
    theirs_shown = ", ".join(str(version)[:40] for version in versions[:20])
    raise UnsupportedVersion(f"{name} supports {theirs_shown or 'no revision'}; this client accepts"
                             f" {', '.join(revision.name for revision in ours)}",
                             data={"supported": list(versions), "requested": ours[-1].name})

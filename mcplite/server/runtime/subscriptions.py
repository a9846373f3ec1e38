"""The clients that follow changes: open ``subscriptions/listen`` requests, each with a bounded queue, and how many follow what.

The runtime publishes changes to its open sessions, and here. Sessions and listen requests report each URI that a client follows
from now on, or no more, so that a server with a hook knows what to watch.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Set, Tuple

from ...errors import InvalidParams, MCPError, TransportError
from ...protocol.jsonrpc import memory_size
from ...protocol.meta import LIST_CHANGES, RESOURCE_SUBSCRIPTIONS, RESOURCE_UPDATED, SUBSCRIPTION
from ...revisions import Revision
from ...rpc.deadline import undo
from ...rpc.forks import renew
from ...rpc.request import Incoming
from ...rpc.threads import CallQueue
from ...rpc.tracing import get_logger
from ..catalog.catalog import MOST_URIS, Catalog
from ..catalog.registry import Needed, granted_scopes, may_be_told
from ..eviction import Shares
from ..limits import Limits

__all__ = ["ListenRequests", "Subscribers"]

#: The subjects that a client follows of one kind of change (None for a kind without subjects), and the function that makes the
#: params of a notification.
Followed = Tuple[Optional[FrozenSet[str]], Callable[[Optional[str], Revision], Optional[Dict[str, Any]]]]
_log = get_logger(__name__)
#: Seconds that an acknowledgement waits at most until a mounted server knows of the subscription.
_SUBSCRIBED_SECONDS = 10.0


class _ListenRequest:
    """One ``subscriptions/listen`` request.

    A notification that waits to be sent is kept once, however often the change happens: the text is the same. So the
    queue is no longer than the filter.

    :param honoured: the part of the filter that the server supports.
    :param spawn: runs a task on a thread.
    :param described: for each kind of change that an extension adds, by the method of its notification: the subjects that the
        client follows (None for a kind without subjects), and a function that returns the params of the notification, or None
        if there is nothing to send.
    """

    def __init__(self, incoming: Incoming, revision: Revision, honoured: Dict[str, Any],
                 spawn: Callable[[Callable[[], object]], None], described: Mapping[str, "Followed"]) -> None:
        self._described = described
        self.incoming = incoming
        self.revision = revision
        self._methods: Set[str] = {method for method, change in LIST_CHANGES.items() if change.filter in honoured}
        #: The scopes of the client: it is not notified of changes of entries that they do not allow. None if nothing is hidden
        #: from it.
        self.granted: Optional[FrozenSet[str]] = None
        #: The URIs as the client wrote them, by their normal forms.
        self.uris: Dict[str, str] = {}
        if honoured.get(RESOURCE_SUBSCRIPTIONS):
            from ...protocol.uris import normal_uri  # for clients that follow resources

            self.uris = {normal_uri(uri): uri for uri in honoured[RESOURCE_SUBSCRIPTIONS]}
        self._spawn = spawn
        #: Guards the two fields below; held for dictionary operations only.
        self._lock = threading.Lock()
        self._waiting: Dict[Tuple[str, Optional[str]], None] = {}
        #: Whether a thread sends the waiting notifications; also true until the acknowledgement, which comes first, was sent
        #: (SUBS-03).
        self._sending = True

    def wants(self, method: str, uri: Optional[str]) -> bool:
        """Whether the filter asks for this (SUBS-02, SUBS-18)."""
        followed = self._described.get(method)
        if followed is not None:
            subjects, _ = followed
            return uri is None if subjects is None else uri in subjects
        return method in self._methods if uri is None else method == RESOURCE_UPDATED and uri in self.uris

    def notify(self, method: str, uri: Optional[str]) -> None:
        """Send a notification soon; never waits for the client (SUBS-20)."""
        with self._lock:
            self._waiting[(method, uri)] = None
            if self._sending:
                return
            self._sending = True
        self._send(wait=False)

    def begin(self, honoured: Dict[str, Any]) -> None:
        """Acknowledge the request, and send the notifications that wait by then."""
        self.incoming.emit("notifications/subscriptions/acknowledged", self._tagged({"notifications": honoured}))
        self._send(wait=False)

    def _tagged(self, params: Dict[str, Any]) -> Dict[str, Any]:
        return {"_meta": {SUBSCRIPTION: self.incoming.id}, **params}

    def _send(self, wait: bool) -> None:
        with undo(self._pause):
            while True:
                with self._lock:
                    item = next(iter(self._waiting), None)
                    if item is None:
                        self._sending = False
                        return
                    del self._waiting[item]
                done = False
                try:
                    done = self._send_one(*item, wait)
                except MCPError as error:
                    _log.debug("%s was not sent: %s", item[0], error)
                    done = True
                finally:
                    if not done:
                        with self._lock:
                            self._waiting[item] = None
                if not done:
                    self._spawn(lambda: self._send(wait=True))
                    return

    def _pause(self) -> None:
        with self._lock:
            self._sending = False  # the waiting notifications are sent with the next one

    def _send_one(self, method: str, uri: Optional[str], wait: bool) -> bool:
        followed = self._described.get(method)
        described: Optional[Dict[str, Any]] = {} if uri is None else {"uri": self.uris.get(uri, uri)}
        if followed is not None:
            described = followed[1](uri, self.revision)
        if described is None:
            return True  # there is nothing left to send
        params = self._tagged(described)
        if not wait:
            return self.incoming.offer(method, params)
        self.incoming.emit(method, params)
        return True


class ListenRequests:
    """The open ``subscriptions/listen`` requests of one server.

    :param catalog: what is offered, and so may be listened to.
    :param limits: how many may be open, and what each may name.
    :param spawn: runs a task on a thread.
    :param subscribers: counts the subscriptions to resources.
    """

    def __init__(self, catalog: Catalog, limits: Limits, spawn: Callable[[Callable[[], object]], None],
                 subscribers: "Subscribers") -> None:
        self._catalog = catalog
        self._limits = limits
        self._spawn = spawn
        #: Guards ``_requests``; held for dictionary operations only.
        self._lock = threading.Lock()
        self._requests: Dict[_ListenRequest, None] = {}
        self._shares: Shares[_ListenRequest] = Shares(limits.streams)
        self._subscribers = subscribers

    def __len__(self) -> int:
        return len(self._requests)

    def open(self, incoming: Incoming, revision: Revision, extensions: Optional[Dict[str, Any]] = None,
             owner: Optional[str] = None) -> None:
        """Add a request, which listens until it is cancelled or ended from here; returns at once.

        If too many are open, the sender with the most loses its oldest one.

        :param extensions: that the client declares.
        :param owner: the key of the principal that sent it; None without authentication.
        :raises InvalidParams: its filter cannot be read.
        :raises RemoteError: an extension refuses its members of the filter.
        """
        wanted: Any = incoming.params.get("notifications")
        honoured = self._honoured(wanted)
        described: Dict[str, Followed] = {}
        if self._catalog.extensions is not None:
            for member, kind in self._catalog.extensions.listens.items():
                value = None if wanted.get(member) is None else kind.honour(wanted[member], extensions or {}, owner)
                if value is not None:
                    honoured[member] = value
                    described[kind.notification] = (None if value is True else frozenset(value), kind.describe)
        request = _ListenRequest(incoming, revision, honoured, self._spawn, described)
        if self._catalog.hides and incoming.facts is not None:
            request.granted = granted_scopes(incoming.facts.principal)
        with self._lock:
            self._requests[request] = None
        self._subscribers.add(request.uris)
        self._end(self._shares.add(request, incoming.sender) or [], "the server needed the room for another client")
        if incoming.outlet is not None:
            incoming.outlet.handler_started()
        incoming.params = {}  # the filter is read, and the request is in progress for as long as the client likes
        if incoming.facts is not None:
            incoming.facts.forget_request()
        incoming.token.add_callback(lambda: self._cancelled(request))
        if request.uris and self._subscribers.awaited:
            self._spawn(lambda: self._begin_awaited(request, honoured))  # since the reader's thread must not wait
        else:
            request.begin(honoured)

    def _begin_awaited(self, request: _ListenRequest, honoured: Dict[str, Any]) -> None:
        self._subscribers.wait_told()
        request.begin(honoured)

    def _honoured(self, wanted: Any) -> Dict[str, Any]:
        if not isinstance(wanted, dict):
            raise InvalidParams("params.notifications must be an object: the filter of what to listen to")
        honoured: Dict[str, Any] = {}
        flags = self._catalog.description.flags
        for change in LIST_CHANGES.values():
            value = wanted.get(change.filter)
            if value is not None and not isinstance(value, bool):
                raise InvalidParams(f"params.notifications.{change.filter} must be true or false")
            if value and self._catalog.offers(change.capability) and change.capability in flags.list_changed:
                honoured[change.filter] = True
        uris = wanted.get(RESOURCE_SUBSCRIPTIONS)
        if uris is None:
            return honoured
        most, most_bytes = min(self._limits.subscriptions, MOST_URIS), self._limits.listen_bytes
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris) or len(uris) > most:
            raise InvalidParams(f"params.notifications.{RESOURCE_SUBSCRIPTIONS} must be a list of at most {most} URIs")
        if sum(memory_size(uri, most_bytes) for uri in uris) > most_bytes:
            raise InvalidParams(f"params.notifications.{RESOURCE_SUBSCRIPTIONS}: the URIs take more than {most_bytes} bytes of"
                                " memory; listen to fewer, or in several requests")
        if self._catalog.offers("resources") and flags.subscribe:
            honoured[RESOURCE_SUBSCRIPTIONS] = uris
        return honoured

    def _cancelled(self, request: _ListenRequest) -> None:
        self._remove(request)
        request.incoming.respond({})  # it was cancelled, so nothing is sent; the peer only forgets the request

    def _remove(self, request: _ListenRequest) -> bool:
        """Remove a request; return whether it was open."""
        with self._lock:
            if request not in self._requests:
                return False
            del self._requests[request]
        self._shares.remove(request)
        self._subscribers.remove(request.uris)
        return True

    def uris(self) -> Set[str]:
        """Return the URIs of all resources that clients listen to."""
        with self._lock:
            return {uri for request in self._requests for uri in request.uris}

    def publish(self, method: str, uri: Optional[str] = None, needed: Needed = None) -> None:
        """Notify the clients whose filter asks for this.

        :param needed: the callers that may be notified.
        """
        if not self._requests:
            return
        with self._lock:
            requests = list(self._requests)
        if needed is not None:
            requests = [request for request in requests if may_be_told(request.granted, needed)]
        for request in requests:
            if request.wants(method, uri):
                try:
                    request.notify(method, uri)
                except Exception:
                    _log.exception("a client is told of a change with the next one")

    def end(self, peer: Any, facts: Any = None) -> None:
        """End all requests of one connection, each with a result that says so (SUBS-11).

        :param facts: ends only the request that came with these; see :meth:`Peer.receive`.
        """
        with self._lock:
            ending: List[_ListenRequest] = [request for request in self._requests if request.incoming.peer is peer
                                            and facts in (None, request.incoming.facts)]
        self._end(ending, "the server is stopping")

    def _end(self, ending: List[_ListenRequest], why: str) -> None:
        for request in ending:
            incoming = request.incoming
            peer: Any = incoming.peer
            if not self._remove(request):
                continue  # it was cancelled at this moment
            incoming.respond(self._catalog.stamp({"_meta": {SUBSCRIPTION: incoming.id}}, request.revision))
            if incoming.outlet is None:
                # On a pipe the specification wants a result and a cancellation. The result is first, since clients may drop
                # messages of a request that is cancelled (SUBS-12).
                try:
                    peer.notify("notifications/cancelled", {"requestId": incoming.id, "reason": why})
                except MCPError as error:
                    _log.debug("the end of a subscription was not sent: %s", error)


class Subscribers:
    """The number of subscriptions to each URI, of all clients together.

    The hooks are called for one change after another, in their order, on a thread of their own. A hook may block: that delays
    only the calls for later changes.

    :param hooks: called with a URI and the number of subscriptions to it, after each change of that number.
    """

    def __init__(self, *hooks: Callable[[str, int], object]) -> None:
        self.hooks = list(hooks)
        #: Whether a subscription is acknowledged only after the hooks were called.
        self.awaited = False
        #: Guards the counts; held for dictionary operations only. Sessions take it while they hold their own lock.
        self._lock = threading.Lock()
        self._counts: "Counter[str]" = Counter()
        self._changes = CallQueue("calls of on_subscribe", self._tell)

    def let_go(self) -> None:
        """Forget clients and thread in a forked process; they belong to the parent process."""
        renew(self)
        self._counts, self._changes = Counter(), CallQueue("calls of on_subscribe", self._tell)

    def add(self, uris: Iterable[str]) -> None:
        """Count one subscription more to each URI, and have the hooks called; returns at once."""
        self._count(uris, 1)

    def remove(self, uris: Iterable[str]) -> None:
        """Count one subscription less to each URI, and have the hooks called; returns at once."""
        self._count(uris, -1)

    def _count(self, uris: Iterable[str], step: int) -> None:
        with self._lock:
            for uri in uris:
                count = self._counts[uri] = self._counts[uri] + step
                if self.hooks:
                    self._changes.put((uri, count))
                if not count:
                    del self._counts[uri]
        try:
            self._changes.begin()
        except TransportError as error:
            _log.warning("on_subscribe is called later: %s", error)

    def wait_told(self) -> None:
        """If the hooks are awaited, wait until they were called for all changes so far, or for ten seconds."""
        if self.awaited:
            self._changes.wait(_SUBSCRIBED_SECONDS)

    def _tell(self, change: Tuple[str, int]) -> None:
        for hook in list(self.hooks):
            try:
                hook(*change)
            except BaseException:  # of the user's
                _log.exception("on_subscribe failed for %.200r", change[0])

"""Subscriptions: all subscriptions of one client, in either era, and those that its handlers need.

The client has one and passes each change on to it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ..errors import ConnectionClosed, MCPError
from ..rpc.deadline import undo
from ..rpc.forks import renew
from ..rpc.tracing import get_logger
from .handlers import Handlers
from .sessions.base import ClientSession

if TYPE_CHECKING:
    from .subscription import Event, Filter, Subscription

__all__ = ["Subscriptions"]

_log = get_logger(__name__)
#: Seconds for the acknowledgement of a subscription that handlers need.
_ACKNOWLEDGED_SECONDS = 5.0


class Subscriptions:
    """The subscriptions of one client.

    :param handlers: the user's callbacks.
    :param current: returns the open session, which may be another one after a restart.
    :param subscribe: sends ``resources/subscribe`` for a URI, within ``timeout=``, in the era that has it.
    :param unsubscribe: sends ``resources/unsubscribe``.
    """

    def __init__(self, handlers: Handlers, current: Callable[[], ClientSession],
                 subscribe: Callable[..., object], unsubscribe: Callable[[str], object]) -> None:
        self._handlers = handlers
        self._current = current
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        #: Guards the two fields below; held for list work only.
        self._lock = threading.Lock()
        self._open: "List[Subscription]" = []
        self._watched: "Dict[str, Subscription]" = {}

    def open(self, session: ClientSession, filter: "Filter", callback: "Optional[Callable[[Event], object]]",
             timeout: Optional[float]) -> "Subscription":
        """Return a subscription that the server has acknowledged.

        :raises MCPError: the server refused it, or did not acknowledge it in time.
        """
        from .subscription import Subscription  # for clients that have one

        subscription = Subscription(session.connection, filter, callback)
        with self._lock:
            self._open.append(subscription)
        subscription.on_close(lambda: self._closed(session, subscription))
        with undo(subscription.close):
            if session.change_streams:
                subscription.begin(self._current, timeout)
            else:
                for uri in filter.uris:
                    self._subscribe(uri, timeout=timeout)
                subscription.acknowledged(filter.wire)
        return subscription

    def _closed(self, session: ClientSession, subscription: "Subscription") -> None:
        with self._lock:
            if subscription not in self._open:
                return
            self._open.remove(subscription)
            unused = [uri for uri in subscription.uris if not any(uri in other.uris for other in self._open)]
        if session.change_streams or session.peer.closed:
            return
        for uri in unused:
            try:
                self._unsubscribe(uri)
            except MCPError as error:
                _log.debug("unsubscribing from %.200r failed: %s", uri, error)

    def open_for_handlers(self, session: ClientSession, timeout: Optional[float]) -> None:
        """Subscribe to the changes that have handlers, in the era where the server does not send them otherwise."""
        if not session.change_streams:
            return
        declared = {"tools": session.capabilities.tools, "prompts": session.capabilities.prompts,
                    "resource_list": session.capabilities.resources}
        # A server that does not announce such changes is not asked to (LIFE-15).
        wanted: Dict[str, Any] = {name: wants and bool((declared[name] or {}).get("listChanged"))
                                  for name, wants in self._handlers.interests().items()}
        if not any(wanted.values()):
            return
        from .subscription import Filter

        try:
            # No caller waits for this subscription, so opening a client must not take long for it.
            seconds = min(timeout or _ACKNOWLEDGED_SECONDS, _ACKNOWLEDGED_SECONDS)
            self.open(session, Filter(**wanted), self._call_handler, seconds)
        except MCPError as error:
            _log.warning("%s does not announce changes: %s", session.name, error)

    def watch(self, session: ClientSession, uri: str, timeout: Optional[float]) -> None:
        """Call the handler of updates when a resource changes."""
        watched = self._watched.get(uri)
        if watched is None or watched.error is not None:
            from .subscription import Filter

            self._watched[uri] = self.open(session, Filter(resources=[uri]), self._call_handler, timeout)

    def unwatch(self, uri: str) -> None:
        """Undo :meth:`watch`."""
        watched = self._watched.pop(uri, None)
        if watched is not None:
            watched.close()

    def _call_handler(self, event: "Event") -> None:
        callback = self._handlers.callback_for(event.method, event.params)
        if callback is not None:
            callback()

    def on_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Pass a notification for the whole client to the subscriptions without a stream."""
        if self._open:
            with self._lock:
                subscriptions = list(self._open)
            for subscription in subscriptions:
                subscription.on_notification(method, params)

    def let_go(self, error: Exception) -> None:
        """End all subscriptions in a forked process.

        :param error: for those who read them.
        """
        renew(self)
        for subscription in self._open:
            subscription.let_go(error)
        self._open = []

    def watch_again(self, session: ClientSession, timeout: Optional[float]) -> None:
        """Watch in a forked process what was watched in the other one."""
        for uri in list(self._watched):
            self.watch(session, uri, timeout)

    def lost(self, name: str) -> None:
        """End all subscriptions: the connection is over."""
        with self._lock:
            subscriptions, self._open = self._open, []
        for subscription in subscriptions:
            subscription.lost(ConnectionClosed(f"the connection to {name} is over"))

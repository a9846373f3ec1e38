"""What one client listens to: its subscriptions, in whichever era, and which of them its handlers need."""

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from ...errors import ConnectionClosed, MCPError
from ..handlers import Handlers
from ..sessions.modern import ModernSession
from .events import Event, Filter
from .subscription import Listening

if TYPE_CHECKING:
    from ..sessions.legacy import LegacySession

__all__ = ["Subscriptions"]

_log = logging.getLogger(__name__)
#: Seconds for the acknowledgement of a subscription that handlers need.
_PATIENCE = 5.0


class Subscriptions:
    """The subscriptions of one client.

    :param handlers: get the news that they were given for.
    :param current: returns the session that is open, which may be another one after a while.
    :param subscribe: has a server with a session tell of a URI, and
    :param unsubscribe: no more.
    """

    def __init__(self, handlers: Handlers, current: "Callable[[], Union[LegacySession, ModernSession]]",
                 subscribe: Callable[[str, Optional[float]], object], unsubscribe: Callable[[str], object]) -> None:
        self._handlers = handlers
        self._current = current
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        #: Guards the two fields below; held for list work only.
        self._lock = threading.Lock()
        self._open: List[Listening] = []
        self._watched: Dict[str, Listening] = {}

    def open(self, session: "Union[LegacySession, ModernSession]", filter: Filter, sink: Optional[Callable[[Event], object]],
             timeout: Optional[float]) -> Listening:
        """Return a subscription that the server has acknowledged.

        :raises MCPError: it was refused, or not acknowledged in time.
        """
        listening = Listening(session.line, filter, sink)
        with self._lock:
            self._open.append(listening)
        listening.on_close(lambda: self._closed(session, listening))
        try:
            if isinstance(session, ModernSession):
                listening.begin(self._modern, timeout)
            else:
                for uri in filter.uris:
                    self._subscribe(uri, timeout)
                listening.acknowledged(filter.wire)
        except BaseException:
            listening.close()
            raise
        return listening

    def _modern(self) -> ModernSession:
        session = self._current()
        assert isinstance(session, ModernSession)
        return session

    def _closed(self, session: "Union[LegacySession, ModernSession]", listening: Listening) -> None:
        with self._lock:
            if listening not in self._open:
                return
            self._open.remove(listening)
            unused = [uri for uri in listening.uris if not any(uri in other.uris for other in self._open)]
        if isinstance(session, ModernSession) or session.line.peer.closed:
            return
        for uri in unused:
            try:
                self._unsubscribe(uri)
            except MCPError as error:
                _log.debug("the subscription to %.200r was not ended: %s", uri, error)

    def for_handlers(self, session: ModernSession, timeout: Optional[float]) -> None:
        """Listen for what handlers were given for, since it does not come by itself."""
        result = session.result
        assert result is not None
        declared = {"tools": result.capabilities.tools, "prompts": result.capabilities.prompts,
                    "resource_list": result.capabilities.resources}
        # A server that does not tell of such changes is not asked to (LIFE-15).
        wanted: Dict[str, Any] = {name: wants and bool((declared[name] or {}).get("listChanged"))
                                  for name, wants in self._handlers.interests().items()}
        if not any(wanted.values()):
            return
        try:
            # Nobody asked for this in particular, so opening a client does not take long for it.
            self.open(session, Filter(**wanted), self._heard, min(timeout or _PATIENCE, _PATIENCE))
        except MCPError as error:
            _log.warning("%s does not tell of changes: %s", session.line.name, error)

    def watch(self, session: ModernSession, uri: str, timeout: Optional[float]) -> None:
        """Have the handler of updates called when a resource changes."""
        watched = self._watched.get(uri)
        if watched is None or watched.error is not None:
            self._watched[uri] = self.open(session, Filter(resources=[uri]), self._heard, timeout)

    def unwatch(self, uri: str) -> None:
        """End that."""
        watched = self._watched.pop(uri, None)
        if watched is not None:
            watched.close()

    def _heard(self, event: Event) -> None:
        task = self._handlers.news(event.method, event.params)
        if task is not None:
            task()

    def heard(self, method: str, params: Dict[str, Any]) -> None:
        """Give news that came for all to the subscriptions that ask for them."""
        if self._open:
            with self._lock:
                listening = list(self._open)
            for one in listening:
                one.heard(method, params)

    def lost(self, name: str) -> None:
        """End them all: there is no connection any more."""
        with self._lock:
            listening, self._open = self._open, []
        for one in listening:
            one.lost(ConnectionClosed(f"the connection to {name} is over"))

"""Subscription: yields events of changes at a server, in either era, and resumes after an interruption.

Events and filters exist in two forms: for users, and as on the wire. :class:`Subscriptions` has all subscriptions of one
client, including those for its handlers. :class:`Following` is a stream of the notifications that an extension adds.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Type

from ..errors import (
    SERVER_BUSY,
    AuthError,
    Cancelled,
    ConnectionClosed,
    MCPError,
    NotSupported,
    RemoteError,
    RequestTimeout,
    TransportError,
)
from ..protocol.meta import LIST_CHANGES, RESOURCE_SUBSCRIPTIONS, RESOURCE_UPDATED
from ..protocol.uris import normal_uri
from ..rpc.cancel import CancelToken
from ..rpc.deadline import Deadline, Sleepers, undo
from ..rpc.forks import renew
from ..rpc.threads import Loop, start_thread
from ..rpc.tracing import get_logger
from .calls import Features
from .handlers import Handlers
from .sessions.base import ClientSession, ConnectionToServer, Subscriber

__all__ = [
    "Event", "Filter", "Following", "PromptsChanged", "ResourceUpdated", "ResourcesChanged", "Subscription", "Subscriptions",
    "ToolsChanged",
]

_log = get_logger(__name__)
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@dataclass(frozen=True)
class Event:
    """A change at the server.

    :param missed: True if the change is only possible: the subscription was interrupted and may have missed it.
    """

    missed: bool = False
    #: The notification of this change.
    method: ClassVar[str] = ""

    @property
    def params(self) -> Dict[str, Any]:
        """The params of that notification."""
        return {}

    @property
    def characters(self) -> int:
        """The number of characters of the URI; 0 without one."""
        return 0


@dataclass(frozen=True)
class ToolsChanged(Event):
    """The list of tools has changed."""

    method = "notifications/tools/list_changed"


@dataclass(frozen=True)
class PromptsChanged(Event):
    """The list of prompts has changed."""

    method = "notifications/prompts/list_changed"


@dataclass(frozen=True)
class ResourcesChanged(Event):
    """The list of resources, or of templates, has changed."""

    method = "notifications/resources/list_changed"


@dataclass(frozen=True)
class ResourceUpdated(Event):
    """A resource has changed; its URI may be below the one subscribed to (RSRC-14)."""

    uri: str = ""
    method = RESOURCE_UPDATED

    @property
    def params(self) -> Dict[str, Any]:
        return {"uri": self.uri}

    @property
    def characters(self) -> int:
        return len(self.uri)


_LISTS: Tuple[Type[Event], ...] = (ToolsChanged, PromptsChanged, ResourcesChanged)
_BY_METHOD = {kind.method: kind for kind in _LISTS}


class Filter:
    """The changes that a subscription includes.

    :param tools, prompts, resource_list: whether to include changes of these lists.
    :param resources: URIs whose updates to include.
    :raises TypeError: the URIs are one string.
    :raises ValueError: nothing is included.
    """

    def __init__(self, tools: bool = False, prompts: bool = False, resource_list: bool = False,
                 resources: Sequence[str] = ()) -> None:
        if isinstance(resources, str):
            raise TypeError(f"resources is a list of URIs: write [{resources!r}]")
        self.uris: List[str] = list(dict.fromkeys(resources))
        self.wire: Dict[str, Any] = {}
        for kind, wanted in zip(_LISTS, (tools, prompts, resource_list)):
            if wanted:
                self.wire[LIST_CHANGES[kind.method].filter] = True
        if self.uris:
            self.wire[RESOURCE_SUBSCRIPTIONS] = self.uris
        if not self.wire:
            raise ValueError("nothing to listen to: give tools=True, prompts=True, resource_list=True, resources=[uri, ...]")

    def event(self, method: str, params: Mapping[str, Any]) -> Optional[Event]:
        """Return the event for a change notification; None if the filter does not include it."""
        if method != RESOURCE_UPDATED:
            change = LIST_CHANGES.get(method)
            return None if change is None or change.filter not in self.wire else _BY_METHOD[method]()
        given = str(params.get("uri"))
        uri = normal_uri(given)
        below = any(uri == known or uri.startswith(known.rstrip("/") + "/") for known in map(normal_uri, self.uris))
        return ResourceUpdated(uri=given) if below else None

    def missed_events(self) -> List[Event]:
        """Return an event for each included change, marked as possibly missed (SUBS-15)."""
        events: List[Event] = [kind(missed=True) for kind in _LISTS if LIST_CHANGES[kind.method].filter in self.wire]
        return [*events, *(ResourceUpdated(missed=True, uri=uri) for uri in self.uris)]


#: Failed attempts in a row that do not end the subscription; the next one does.
_ATTEMPTS = 8
_LONGEST_PAUSE_SECONDS = 30.0
#: Seconds that a stream must have lasted to start the count of failures again.
_STEADY_SECONDS = 5.0
#: Seconds for the acknowledgement of a resumed stream.
_ACKNOWLEDGED_SECONDS = 60.0
#: Seconds for the acknowledgement of a subscription that handlers need.
_HANDLERS_SECONDS = 5.0
_MOST_EVENTS = 10_000
#: Characters of the URIs of the events that wait.
_MOST_CHARACTERS = 4 << 20


class Subscription(Subscriber):
    """One subscription; iterate over it for the events, and close it, or leave its ``with`` block, to end it.

    Waiting events are kept once each, so that two changes of one list give one event. When the stream breaks, it is opened
    again, and each change that may have been missed gives an event with ``missed``. The iteration ends after :meth:`close`. If
    the subscription is lost for good, the iteration raises the error.

    :param connection: to the server; resuming may replace it.
    :param filter: the changes to include.
    :param callback: gets the events in place of the iteration, on the thread of notifications.
    :param on_close: called with the subscription when it ends, but not when the whole connection does.
    """

    def __init__(self, connection: ConnectionToServer, filter: Filter, callback: Optional[Callable[[Event], object]] = None,
                 on_close: Callable[["Subscription"], object] = lambda subscription: None) -> None:
        #: The present one: after a restart of the server's process that is a new one.
        self.connection = connection
        self.filter = filter
        self._callback = callback
        self._on_close = on_close
        #: Guards the fields below; held for dictionary work.
        self._lock = threading.RLock()
        #: The threads that wait for an event, for the acknowledgement or for the end.
        self._changed = Sleepers()
        self._events: Dict[Event, None] = {}
        self._characters = 0
        self._closed = False
        self._error: Optional[Exception] = None
        #: The filter that the server acknowledged, as on the wire; None before that (SUBS-08).
        self.honoured: Optional[Dict[str, Any]] = None
        self._token = CancelToken()
        #: Whether it has a stream of its own; if not, its events come from the notifications for the whole client.
        self._streamed = False
        self._timer: Optional[threading.Timer] = None

    # --- receiving, on the reader's thread ----------------------------------------------------------------------------

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of this subscription's stream."""
        if method == _ACKNOWLEDGED:
            given = params.get("notifications")
            self.acknowledged(given if isinstance(given, dict) else {})
            return
        event = self.filter.event(method, params)
        if event is None:
            _log.debug("%s sent %s, which the subscription does not include", self.connection.name, method)
            return
        self.connection.note_change(method, params)
        self.put(event)

    def acknowledged(self, honoured: Dict[str, Any]) -> None:
        """Note the filter that the server acknowledged, and log what it left out."""
        missing = [name for name in self.filter.wire if not honoured.get(name)]
        uris = honoured.get(RESOURCE_SUBSCRIPTIONS)
        if uris:
            known = {normal_uri(uri) for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else set()
            missing += [uri for uri in self.filter.uris if normal_uri(uri) not in known]
        if missing:
            _log.warning("%s does not announce changes of %s", self.connection.name, ", ".join(missing))
        self._acknowledge()
        with self._lock:
            resumed = self.honoured is not None
            self.honoured = honoured
        self._changed.notify()
        if resumed:
            self._add_missed()

    def _acknowledge(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _add_missed(self, events: bool = True) -> None:
        """Treat everything included as changed: drop cached state, and add events unless *events* is False (SUBS-15)."""
        for event in self.filter.missed_events():
            self.connection.note_change(event.method, event.params)
            if events:
                self.put(event)

    def put(self, event: Event) -> None:
        """Pass an event to the callback, or queue it for the iteration."""
        if self._callback is not None:
            callback = self._callback
            self.connection.post(lambda: callback(event), event.characters)
            return
        with self._lock:
            if event in self._events:
                return
            self._characters += event.characters
            if len(self._events) >= _MOST_EVENTS or self._characters > _MOST_CHARACTERS:
                # Any number of resources may be below a URI, so the queue is bounded: these events stand for all others.
                self._events = dict.fromkeys([*self.filter.missed_events(), event])
                self._characters = sum(kept.characters for kept in self._events)
            self._events[event] = None
        self._changed.notify()

    def on_notification(self, method: str, params: Dict[str, Any], connection: Optional[ConnectionToServer]) -> None:
        """Take a notification for the whole client; ignored by a subscription with a stream of its own.

        :param connection: the latest of the client; None while there is none.
        """
        event = None if self._streamed else self.filter.event(method, params)
        if event is not None:
            self.connection = connection or self.connection
            self.put(event)

    def end(self, reason: str, error: Optional[Exception] = None) -> bool:
        """End the subscription; False if it has ended already.

        :param error: the error that reading the events raises; None for none.
        """
        with self._lock:
            if self._closed:
                return False
            self._closed, self._error = True, error
        self._changed.notify()
        self._token.cancel(reason)
        return True

    def let_go(self, error: Exception) -> None:
        """End the subscription in a forked process, which does not have its thread."""
        renew(self)
        if not self._closed:
            self._closed, self._error = True, error

    def on_ended(self) -> None:
        """Called when the server has ended the stream; the subscription's thread opens another or gives up."""
        self._token.cancel("the server has ended the subscription")

    # --- the stream and its thread ---------------------------------------------------------------------------

    def begin(self, current: Callable[[], ClientSession], timeout: Optional[float]) -> None:
        """Open a stream, on a thread of its own that ends with :meth:`close`; return when the server has acknowledged it.

        :param current: returns the open session; after a restart of the server's process that is a new one (SUBS-14).
        :raises RemoteError, TransportError: the server refused it.
        :raises RequestTimeout: the server did not acknowledge it in time.
        """
        self._streamed = True
        with undo(self.close):
            Loop(f"listener of {self.connection.name}", lambda: self._run(current), self._pause).start()
        acknowledged = self._changed.wait_for(lambda: self.honoured is not None or self._closed, timeout)
        error = self._error
        if error is not None:
            raise error
        if not acknowledged:
            self.close()
            raise RequestTimeout(f"{self.connection.name} did not acknowledge a subscription within {timeout or 0:g} s")

    def _run(self, current: Callable[[], ClientSession]) -> None:
        # Blocks on the stream, on the pauses between attempts, and on the restart of a server's process.
        failures = 0
        while not self._closed:
            begun = time.monotonic()
            error: Exception = ConnectionClosed(f"{self.connection.name} has ended the subscription")
            again: Optional[float] = None
            try:
                session = current()
            except Exception as reason:
                if self.honoured is not None and not isinstance(reason, MCPError):
                    raise  # a fault of the system, which may pass: the Loop calls _run() again
                self._fail(reason)
                return
            self.connection = session.connection
            try:
                if self.honoured is not None:
                    # Only for resumed streams: begin() waits for the first one, with a limit of its own. The timer's thread
                    # ends with the acknowledgement or with the limit.
                    timer = self._timer = threading.Timer(_ACKNOWLEDGED_SECONDS, self._token.cancel,
                                                          ["the server did not acknowledge it"])
                    timer.daemon = True
                    timer.start()
                session.listen(self, self.filter.wire, self._token)
                again = self.connection.channel.ask_again_seconds
            except Exception as reason:
                if not isinstance(reason, (Cancelled, MCPError)):
                    _log.exception("the subscription to %s failed", self.connection.name)
                error = reason
            finally:
                self._acknowledge()
            if self._closed:
                return
            if time.monotonic() - begun > _STEADY_SECONDS or again is not None:
                failures = 0
            failures += again is None
            over = self.connection.peer.closed and not self.connection.channel.restartable
            if self.honoured is None or over or failures > _ATTEMPTS or _is_final(error):
                self._fail(error)
                return
            _log.info("the subscription to %s has ended (%s); it is opened again", self.connection.name, error)
            self._token = CancelToken()
            import random  # for subscriptions that are interrupted

            # A server that ends the stream because it has too few threads has said after how many seconds it may be asked
            # again.
            pause = min(0.1 * 2.0 ** failures, _LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25)
            self._pause(pause if again is None else again)

    def _pause(self, seconds: float) -> None:
        self._changed.wait_for(lambda: self._closed, seconds)

    def _fail(self, error: Exception) -> None:
        try:
            if self.honoured is not None and not self._closed:
                _log.warning("%s announces no more changes: %s", self.connection.name, error)
                # An iteration raises the error; a callback gets a last round of events.
                self._add_missed(self._callback is not None)
        finally:
            self.end("it has failed", error)
        self._on_close(self)

    def close(self) -> None:
        """End the subscription; idempotent, from any thread."""
        if self.end("the subscription was closed"):
            self._on_close(self)

    @property
    def error(self) -> Optional[Exception]:
        """The error that ended the subscription; None after :meth:`close` or while it is open."""
        return self._error

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- reading the events ---------------------------------------------------------------------------------

    def get(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Return the next event; None at the end, or if none has come in time.

        :param timeout: seconds; None waits without a limit.
        :raises MCPError: the subscription was lost for good.
        """
        deadline = Deadline(timeout)
        while self._changed.wait_for(lambda: self._events or self._closed, deadline.remaining()):
            with self._lock:
                if self._events:  # another thread may have taken the event
                    event = next(iter(self._events))
                    del self._events[event]
                    self._characters -= event.characters
                    return event
                if self._closed:
                    break
        if self._error is not None:
            raise self._error
        return None

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.get()
            if event is None:
                return
            yield event


def _is_final(error: Exception) -> bool:
    """Whether another attempt would fail the same way; a user who has refused a login is not asked again (AUTH-46)."""
    if not isinstance(error, AuthError):
        return isinstance(error, RemoteError) and error.code != SERVER_BUSY
    cause: Optional[BaseException] = error
    while isinstance(cause, AuthError):
        cause = cause.__cause__
    return not isinstance(cause, TransportError)  # a transport error: the authorization server could not be reached


class Subscriptions:
    """The subscriptions of one client.

    :param client: subscribes to resources by requests, in the handshake era.
    :param handlers: the user's callbacks.
    :param current: returns the open session, which may be another one after a restart.
    """

    def __init__(self, client: Features, handlers: Handlers, current: Callable[[], ClientSession]) -> None:
        self._client = client
        self._handlers = handlers
        self._current = current
        #: Guards ``_open`` and ``_kept``; held for work in memory only.
        self._lock = threading.Lock()
        self._open: List[Subscription] = []
        #: In the handshake era, where a resource has one subscription for the whole client: the URIs that the user has
        #: subscribed to without a :class:`Subscription`, in their normal form.
        self._kept: Set[str] = set()
        self._watched: Dict[str, Subscription] = {}

    def open(self, session: ClientSession, filter: Filter, callback: Optional[Callable[[Event], object]],
             timeout: Optional[float]) -> Subscription:
        """Return a subscription that the server has acknowledged.

        :raises MCPError: the server refused it, or did not acknowledge it in time.
        """
        subscription = Subscription(session.connection, filter, callback, functools.partial(self._closed, session))
        with self._lock:
            self._open.append(subscription)
        with undo(subscription.close):
            if session.change_streams:
                subscription.begin(self._current, timeout)
            else:
                for uri in filter.uris:
                    self._client.request("resources/subscribe", {"uri": uri}, timeout=timeout)
                subscription.acknowledged(filter.wire)
        return subscription

    def _closed(self, session: ClientSession, subscription: Subscription) -> None:
        with self._lock:
            if subscription not in self._open:
                return
            self._open.remove(subscription)
        if session.change_streams or subscription.connection.peer.closed:
            return
        for uri in subscription.filter.uris:
            if self._is_used(uri):
                continue
            try:
                self._client.request("resources/unsubscribe", {"uri": uri})
                if self._is_used(uri):
                    # Another subscription has begun meanwhile, and the server may have ended it with this one.
                    self._client.request("resources/subscribe", {"uri": uri})
                    for other in self._users(uri):
                        other.put(ResourceUpdated(missed=True, uri=uri))
            except MCPError as error:
                _log.debug("unsubscribing from %.200r failed: %s", uri, error)

    def _users(self, uri: str) -> List[Subscription]:
        with self._lock:
            return [one for one in self._open if normal_uri(uri) in map(normal_uri, one.filter.uris)]

    def _is_used(self, uri: str) -> bool:
        return normal_uri(uri) in self._kept or bool(self._users(uri))

    def keep(self, uri: str) -> None:
        """Note that the user subscribes to a resource by a request."""
        with self._lock:
            self._kept.add(normal_uri(uri))

    def release(self, uri: str) -> bool:
        """Undo :meth:`keep`; return whether a subscription still needs the resource."""
        with self._lock:
            self._kept.discard(normal_uri(uri))
        return bool(self._users(uri))

    def open_for_handlers(self, session: ClientSession, timeout: float) -> None:
        """Subscribe to the changes that have handlers, if the server sends them only on streams that the client opens.

        In a forked process, also watch the resources that the first process watched.
        """
        declared = {"tools": session.capabilities.tools, "prompts": session.capabilities.prompts,
                    "resource_list": session.capabilities.resources}
        # A server that does not announce such changes is not asked to (LIFE-15).
        wanted: Dict[str, Any] = {name: wants and bool((declared[name] or {}).get("listChanged"))
                                  for name, wants in self._handlers.interests().items()}
        if session.change_streams and any(wanted.values()):
            try:
                # The caller opens the client and has not asked for this subscription, so it is not waited for long.
                self.open(session, Filter(**wanted), self._call_handler, min(timeout, _HANDLERS_SECONDS))
            except MCPError as error:
                _log.warning("%s does not announce changes: %s", session.name, error)
        for uri in list(self._watched):
            try:
                self.watch(session, uri, timeout)
            except RemoteError as error:
                _log.warning("%s does not announce changes of %.200r: %s", session.name, uri, error)

    def watch(self, session: ClientSession, uri: str, timeout: Optional[float]) -> None:
        """Call the handler of updates when a resource changes."""
        watched = self._watched.get(uri)
        if watched is not None and watched.error is None:
            return
        opened = self.open(session, Filter(resources=[uri]), self._call_handler, timeout)
        with self._lock:
            if self._watched.get(uri) is watched:
                self._watched[uri] = opened
                return
        opened.close()  # another thread has opened one meanwhile

    def unwatch(self, uri: str) -> None:
        """Undo :meth:`watch`."""
        watched = self._watched.pop(uri, None)
        if watched is not None:
            watched.close()

    def _call_handler(self, event: Event) -> None:
        callback = self._handlers.callback_for(event.method, event.params)
        if callback is not None:
            callback()

    def on_notification(self, method: str, params: Dict[str, Any], connection: Optional[ConnectionToServer]) -> None:
        """Pass a notification for the whole client to the subscriptions without a stream.

        :param connection: as for :meth:`Subscription.on_notification`.
        """
        if self._open:
            with self._lock:
                subscriptions = list(self._open)
            for subscription in subscriptions:
                subscription.on_notification(method, params, connection)

    def let_go(self, error: Exception) -> None:
        """End all subscriptions in a forked process.

        :param error: the error that reading their events raises.
        """
        renew(self)
        for subscription in self._open:
            subscription.let_go(error)
        self._open = []

    def lost(self, name: str) -> None:
        """End all subscriptions: the connection is over."""
        with self._lock:
            subscriptions, self._open = self._open, []
        for subscription in subscriptions:
            subscription.end("the connection is over", ConnectionClosed(f"the connection to {name} is over"))


class Following(Subscriber):
    """One ``subscriptions/listen`` for the changes of an extension, on a thread of its own; a ``with`` block ends it.

    The thread starts with :meth:`open`, blocks on the stream, and ends with :meth:`close` or with the stream.

    :param session: with the server, in a revision without a handshake.
    :param filter: the members of the filter, with their values.
    :param take: called with the method and the params of each notification, on the client's thread of notifications.
    """

    def __init__(self, session: ClientSession, filter: Mapping[str, Any],
                 take: Callable[[str, Dict[str, Any]], object]) -> None:
        self._session = session
        self._filter = dict(filter)
        self._take = take
        self._token = CancelToken()
        #: Set when the server has acknowledged the filter, or the stream is over; the fields below are set before.
        self._answered = threading.Event()
        self._honoured: Mapping[str, Any] = {}
        self._error: Optional[Exception] = None

    def open(self, seconds: float) -> None:
        """Open the stream, and return when the server has acknowledged it.

        :raises NotSupported: the server does not acknowledge each member of the filter.
        :raises MCPError: the server refuses the filter, or the connection is lost.
        :raises RequestTimeout: there is no acknowledgement in time.
        """
        start_thread(self._run, "mcplite follows")
        if not self._answered.wait(seconds):
            self.close()
            raise RequestTimeout(f"{self._session.name} did not acknowledge the filter {self._filter} within {seconds:g} s")
        if self._error is not None:
            raise self._error
        missing = [member for member in self._filter if member not in self._honoured]
        if missing:
            self.close()
            raise NotSupported(f"{self._session.name} does not tell of {', '.join(map(repr, missing))}")

    def _run(self) -> None:
        try:
            self._session.listen(self, self._filter, self._token)
        except Cancelled:
            _log.debug("the stream of %s was closed", self._filter)
        except MCPError as error:
            self._error = error
        finally:
            self._answered.set()

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification of the stream, on the reader's thread."""
        if method != _ACKNOWLEDGED:
            self._session.connection.post(lambda: self._take(method, params))
            return
        given = params.get("notifications")
        self._honoured = given if isinstance(given, dict) else {}
        self._answered.set()

    def on_ended(self) -> None:
        """Called when the server has ended the stream."""
        self._token.cancel("the server has ended the subscription")

    def close(self) -> None:
        """End the stream; idempotent, from any thread."""
        self._token.cancel("the caller follows it no more")

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

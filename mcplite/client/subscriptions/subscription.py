"""Listening to what changes at a server, in either era with the same words."""

import logging
import random
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from ...errors import SERVER_BUSY, AuthError, Cancelled, ConnectionClosed, MCPError, RemoteError, RequestTimeout, TransportError
from ...rpc.cancel import CancelToken
from ..sessions.base import ClientSession, Subscriber
from ..sessions.connection import ServerConnection
from .events import _KINDS, _UPDATED, _URIS, Event, Filter, ResourceUpdated

__all__ = ["Subscription"]

_log = logging.getLogger(__name__)
#: Attempts to listen again, in a row, before it is given up.
_ATTEMPTS = 8
_LONGEST_PAUSE = 30.0
#: Seconds that a subscription must have lasted for the next attempt to be the first of a row.
_STEADY_SECONDS = 5.0
#: Seconds for the acknowledgement of an attempt to listen again.
_ACKNOWLEDGED_SECONDS = 60.0
_MOST_EVENTS = 10_000


class Subscription(Subscriber):
    """One subscription; iterate over it for the events, and close it, or leave its ``with`` block, to end it.

    Events that nobody has taken yet are kept once each, since what has changed twice has changed. When the connection
    breaks, it is subscribed to again, and whatever may have changed meanwhile comes as an event that says ``missed``.
    The iteration ends when it is closed from either side for good.

    :param sink: gets the events in place of the iteration; called on the thread that they come on.
    """

    def __init__(self, connection: ServerConnection, filter: Filter, sink: Optional[Callable[[Event], object]] = None) -> None:
        self._connection = connection
        self._filter = filter
        self._sink = sink
        #: Guards the fields below; waited on for events, for the acknowledgement and for the end.
        self._changed = threading.Condition()
        self._events: Dict[Event, None] = {}
        self._closed = False
        self._error: Optional[Exception] = None
        #: What the server keeps to of what was asked for, as on the wire; None until it has said (SUBS-08).
        self.honoured: Optional[Dict[str, Any]] = None
        self._token = CancelToken()
        self._on_close: Optional[Callable[[], object]] = None
        #: Whether it has a stream of its own; else its events are picked from what comes unasked.
        self._streamed = False
        self._timer: Optional[threading.Timer] = None

    # --- how events come ----------------------------------------------------------------------------------

    def take_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification; called on the reader."""
        if method == "notifications/subscriptions/acknowledged":
            given = params.get("notifications")
            self.acknowledged(given if isinstance(given, dict) else {})
            return
        if not self._concerns(method, params):
            _log.debug("%s sent %s, which was not subscribed to", self._connection.name, method)
            return
        self._connection.note_change(method, params)
        self._put(method, params)

    def _concerns(self, method: str, params: Dict[str, Any]) -> bool:
        if method != _UPDATED or not self._filter.uris:
            return self._filter.wants(method)
        uri = str(params.get("uri"))
        return any(uri == known or uri.startswith(known.rstrip("/") + "/") for known in self._filter.uris)

    def _put(self, method: str, params: Dict[str, Any]) -> None:
        self.put(ResourceUpdated(uri=str(params.get("uri"))) if method == _UPDATED else _KINDS[method][1]())

    def acknowledged(self, honoured: Dict[str, Any]) -> None:
        """Note what the server keeps to."""
        missing = [name for name in self._filter.wire if not honoured.get(name)]
        uris = honoured.get(_URIS)
        if uris:
            missing += [uri for uri in self._filter.uris if not isinstance(uris, list) or uri not in uris]
        if missing:
            _log.warning("%s does not tell of %s", self._connection.name, ", ".join(missing))
        self._acknowledge()
        with self._changed:
            again = self.honoured is not None
            self.honoured = honoured
            self._changed.notify_all()
        if again:
            self._missed()

    def _acknowledge(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _missed(self, events: bool = True) -> None:
        """Tell that anything may have changed (SUBS-15)."""
        for event in self._filter.everything():
            self._connection.note_change(event.method, event.params)
            if events:
                self.put(event)

    def put(self, event: Event) -> None:
        """Give an event to whoever waits for it."""
        if self._sink is not None:
            sink = self._sink
            self._connection.post(lambda: sink(event))
            return
        with self._changed:
            if len(self._events) >= _MOST_EVENTS:
                # There may be any number of resources below a URI: from here on anything may have changed.
                self._events = dict.fromkeys(self._filter.everything())
            self._events[event] = None
            self._changed.notify_all()

    @property
    def uris(self) -> List[str]:
        """The URIs that are listened to."""
        return self._filter.uris

    def on_notification(self, method: str, params: Dict[str, Any]) -> None:
        """Take a notification that came unasked; a subscription with a stream of its own gets its events there alone."""
        if not self._streamed and self._concerns(method, params):
            self._put(method, params)

    def lost(self, error: Exception) -> None:
        """Note that there is no connection any more."""
        self._token.cancel("the connection is over")
        with self._changed:
            if not self._closed:
                self._closed, self._error = True, error
                self._changed.notify_all()

    def on_ended(self) -> None:
        """Note that the server has ended it; what comes next is up to the thread that listens."""
        self._token.cancel("the server has ended the subscription")

    # --- how it lives -------------------------------------------------------------------------------------

    def begin(self, current: Callable[[], ClientSession], timeout: Optional[float]) -> None:
        """Subscribe, on a thread of its own that ends with :meth:`close`; return when the server has acknowledged it.

        :param current: returns the session that is open; after the end of a server's process that is a new one (SUBS-14).
        :raises RemoteError, TransportError: it was refused.
        :raises RequestTimeout: it was not acknowledged in time.
        """
        self._streamed = True
        thread = threading.Thread(target=self._run, args=(current,), name="mcplite listener", daemon=True)
        thread.start()
        with self._changed:
            there = self._changed.wait_for(lambda: self.honoured is not None or self._closed, timeout)
            error = self._error
        if error is not None:
            raise error
        if not there:
            self.close()
            raise RequestTimeout(f"{self._connection.name} did not acknowledge a subscription within {timeout or 0:g} s")

    def _run(self, current: Callable[[], ClientSession]) -> None:
        # Blocks on the stream of the subscription, on its own pauses between attempts, and on the start of a process.
        failures = 0
        while not self._closed:
            begun = time.monotonic()
            error: Exception = ConnectionClosed(f"{self._connection.name} has ended the subscription")
            try:
                session = current()
            except Exception as reason:
                self._fail(reason)
                return
            self._connection = session.connection
            if self.honoured is not None:
                # The first time somebody waits for it, with a limit of their own. The timer's thread ends with it.
                timer = self._timer = threading.Timer(_ACKNOWLEDGED_SECONDS, self._token.cancel, ["it was not acknowledged"])
                timer.daemon = True
                timer.start()
            try:
                session.listen(self, self._filter.wire, self._token)
            except Cancelled as reason:
                error = reason
            except MCPError as reason:
                error = reason
            except Exception as reason:
                _log.exception("listening to %s failed", self._connection.name)
                error = reason
            finally:
                self._acknowledge()
            if self._closed:
                return
            if time.monotonic() - begun > _STEADY_SECONDS:
                failures = 0
            failures += 1
            over = self._connection.peer.closed and not self._connection.channel.restartable
            if self.honoured is None or over or failures > _ATTEMPTS or _is_final(error):
                self._fail(error)
                return
            _log.info("the subscription to %s is over (%s); it is made again", self._connection.name, error)
            self._token = CancelToken()
            pause = min(0.1 * 2.0 ** failures, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause)

    def _fail(self, error: Exception) -> None:
        if self.honoured is not None and not self._closed:
            _log.warning("%s tells of changes no more: %s", self._connection.name, error)
            # Who iterates gets the error; a callback hears for the last time.
            self._missed(self._sink is not None)
        with self._changed:
            self._error = error
            self._closed = True
            self._changed.notify_all()
        if self._on_close is not None:
            self._on_close()

    def on_close(self, callback: Callable[[], object]) -> None:
        """Have *callback* called when it is closed."""
        self._on_close = callback

    def close(self) -> None:
        """End the subscription; idempotent, from any thread."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._token.cancel("nobody listens any more")
        if self._on_close is not None:
            self._on_close()

    @property
    def error(self) -> Optional[Exception]:
        """What ended it, if that was not :meth:`close`."""
        return self._error

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what users do --------------------------------------------------------------------------------------

    def get(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Return the next event; None at the end, or when none has come in time.

        :param timeout: seconds; None waits for as long as it takes.
        :raises MCPError: the subscription was lost for good.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._closed, timeout)
            if self._events:
                event = next(iter(self._events))
                del self._events[event]
                return event
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
    """Whether another attempt would end like this one; a user who has said no is not asked again (AUTH-46)."""
    if not isinstance(error, AuthError):
        return isinstance(error, RemoteError) and error.code != SERVER_BUSY
    cause: Optional[BaseException] = error
    while isinstance(cause, AuthError):
        cause = cause.__cause__
    return not isinstance(cause, TransportError)  # else the authorization server could not be reached just now

"""Calls that this side makes: ids, the wait for the response, timeouts, cancel notices.

:class:`Caller` makes calls; :class:`~.peer.Peer` adds the requests of the other side.
"""

from __future__ import annotations

import copy
import itertools
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, Optional, Union

from ..errors import Cancelled, RequestTimeout, TransportError, remote_error
from ..protocol import jsonrpc
from .cancel import CancelToken
from .deadline import Deadline
from .interfaces import DIRECT, Channel, Delivery, Outlet, Reading, too_long
from .pending import Clock, Pending
from .request import MessageHandler
from .tracing import Counters, Trace, get_logger

__all__ = ["Caller"]

_log = get_logger(__name__)
#: Seconds between two looks at callbacks that still run when the connection is closed.
_CALLBACK_POLL_SECONDS = 0.005
#: How many of the latest calls that were given up are remembered.
_MOST_GIVEN_UP = 1024


class Caller:
    """Sends requests and notifications over one channel, and waits for the responses.

    :param channel: carries the bytes.
    :param handler: writes the cancel notices.
    :param reading: how the channel is read.
    :param trace: called with "->" or "<-" and the bytes of each message.
    :param most_bytes: that a message may have which is sent; None for what the channel carries.
    :param clock: of the time limits; paused while this side answers a question of the other. By default one of its own.
    """

    def __init__(self, channel: Channel, handler: MessageHandler, reading: Reading, trace: Optional[Trace],
                 most_bytes: Optional[int] = None, clock: Optional[Clock] = None) -> None:
        self._channel = channel
        self.most_bytes = most_bytes or channel.most_bytes or sys.maxsize
        self._handler = handler
        self._reading = reading
        self._trace = trace
        #: Guards the next three, and what is counted as sent; held for dictionary work only. A call is removed without it.
        self._lock = threading.RLock()
        self._pending: Dict[int, Pending] = {}
        #: The ids of calls that ended without their response, oldest first: the response may still come (CANC-03).
        self._given_up: Dict[int, None] = {}
        self._error: Optional[Exception] = None
        #: The ids, from 1 on; taking one is one step in C.
        self._ids: Iterator[int] = itertools.count(1)
        self.clock = clock or Clock()
        self._silenced = False
        #: When the last invalid input came, and why it was refused: a hint for calls that get no response.
        self._last_invalid = (-1.0, "")
        self.counters = Counters()

    @property
    def channel(self) -> Channel:
        """The channel that carries the messages."""
        return self._channel

    @property
    def name(self) -> str:
        """How errors name the other side."""
        return self._channel.name

    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        return self._error is not None

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the connection; None while it lasts."""
        return self._error

    def now(self) -> float:
        """Return the seconds that have passed for calls: without the time that answering questions took."""
        return self.clock.now()

    def new_id(self) -> int:
        """Return an id that this connection has not used (RPC-05)."""
        return next(self._ids)

    def number_calls(self, ids: Iterator[int]) -> None:
        """Take the ids of calls from an iterator, which several threads may use at once; before the first call."""
        self._ids = ids

    def abandon_calls(self, chosen: Callable[[int], bool], error: Exception) -> None:
        """Make the calls that wait with one of the chosen ids raise *error*."""
        with self._lock:
            waiting = list(self._pending.copy().values())
        for pending in waiting:
            if chosen(pending.id):
                pending.complete(error)

    def call(self, method: str, params: Union[None, Dict[str, Any], jsonrpc.Encoded] = None, *, id: Optional[int] = None,
             timeout: Optional[float] = None, max_timeout: Optional[float] = None,
             cancel: Optional[CancelToken] = None, on_progress: Optional[Callable[[Dict[str, Any]], object]] = None,
             delivery: Delivery = DIRECT) -> Any:
        """Send a request and wait for its result.

        :param id: from :meth:`new_id`, if the params mention it; by default a new one.
        :param timeout: seconds; progress for this call restarts it. None waits without a limit.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token that ends the wait.
        :param on_progress: called with the params of each progress notification, on this thread, in
            order, all of them before this method returns. When it is slower than they come, and more than a thousand of
            them or a megabyte wait, the newest stands for those before it. Those that wait at the end of *max_timeout*
            or when *cancel* is cancelled are dropped.
        :param delivery: how the request travels.
        :raises RemoteError: the peer answered with an error.
        :raises ProtocolError: the peer's response broke the rules.
        :raises RequestTimeout: no response in time.
        :raises Cancelled: the token was cancelled.
        :raises ConnectionClosed: the connection is over, or ended meanwhile.
        :raises TransportError: the message has more bytes than it may have; nothing was sent.
        :raises TypeError, ValueError: the params are not JSON; nothing was sent.
        """
        if id is None:
            id = next(self._ids)
        if cancel is not None:
            cancel.check()
        try:
            data = jsonrpc.dump_request(id, method, params)
        except (TypeError, ValueError) as error:
            # Errors of user callbacks pass through here too, so this error gets its own text.
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{method!r} was not sent to {self.name}, since its params are not JSON: {error}") from error
        size = len(data)
        if size > self.most_bytes:
            raise too_long(f"{method!r} to {self.name}", size, self.most_bytes)
        pending = Pending(id, method, self.clock, timeout, max_timeout, on_progress)
        outlet, beside, cancel_notice, lasting, spent = delivery
        if delivery is not DIRECT:
            pending.beside, pending.lasting, pending.cancel_notice = beside, lasting, cancel_notice
            if spent:
                pending.begin_before(spent)
                timeout = pending.remaining()
                if timeout is not None and timeout <= 0:
                    raise self._overdue(pending)
        with self._lock:
            if self._error is not None:
                raise copy.copy(self._error)
            self._pending[id] = pending
            counters = self.counters
            counters.messages_sent += 1
            counters.bytes_sent += size
        uncancel = None if cancel is None else cancel.add_callback(lambda: self._interrupt(pending))
        try:
            if self._trace is not None:
                self._trace("->", data)
            if outlet is not None:
                outlet.send(data)
            else:
                self._reading.send(pending, data, max_timeout if timeout is None else timeout)
            self._wait(pending, cancel)
        except BaseException as error:
            if pending.outcome is None:
                self._expect_late_response(id)
            # Also for an exception from a signal handler: the response would reach no caller any more.
            if (cancel_notice and pending.outcome is None and self._error is None
                    and not isinstance(error, TransportError)):
                reason = (f"no answer {pending.overdue()}" if isinstance(error, RequestTimeout)
                          else str(error) if isinstance(error, Cancelled) else "the caller was interrupted")
                self._send_cancel_notice(pending, reason, outlet)
            raise
        finally:
            self._pending.pop(id, None)
            if uncancel is not None:
                uncancel()
            self._reading.done(pending)
        outcome = pending.outcome
        if type(outcome) is jsonrpc.Response:
            return outcome.result
        if isinstance(outcome, jsonrpc.Failure):
            raise remote_error(outcome.code, outcome.message, outcome.data)
        raise copy.copy(outcome) from outcome.__cause__

    def _wait(self, pending: Pending, cancel: Optional[CancelToken]) -> None:
        progress = pending.progress
        while pending.outcome is None or progress:
            # Reset before the token is checked: a cancel in between sets it again.
            pending.interrupted = False
            if cancel is not None:
                cancel.check()
            if progress:
                if not self._deliver_progress(pending):
                    progress.clear()  # the outcome is there, or comes in a moment
                elif progress and pending.out_of_time:
                    if pending.outcome is None:
                        raise self._overdue(pending)
                    return
                continue
            if self._error is not None and pending.outcome is None:
                raise copy.copy(self._error)
            self._reading.wait(pending)
            if pending.outcome is None and not progress:
                remaining = pending.remaining()
                if remaining is not None and remaining <= 0:
                    raise self._overdue(pending)

    def _deliver_progress(self, pending: Pending) -> bool:
        """Call the progress callback for what is kept; return False when this side has closed the connection."""
        # Noted before the check: close() sets the mark first, and then waits for the callbacks that run.
        pending.delivering = threading.get_ident()
        try:
            if not self._silenced:
                pending.deliver_progress()
            return not self._silenced
        finally:
            pending.delivering = 0

    def silence(self) -> None:
        """Let no progress callback run from now on, but for those that run already: this side closes the connection."""
        self._silenced = True
        # A call that is entered after this looks at the mark itself.
        with self._lock:
            waiting = list(self._pending.copy().values())
        for pending in waiting:
            pending.interrupted = True

    def in_callback(self) -> bool:
        """Whether the current thread runs a progress callback."""
        with self._lock:
            return any(pending.delivering == threading.get_ident() for pending in self._pending.copy().values())

    def wait_for_callbacks(self, deadline: Deadline) -> bool:
        """Wait for the progress callbacks that run, but for one on the current thread; return whether they have ended."""
        def running() -> bool:
            with self._lock:
                waiting = list(self._pending.copy().values())
            return any(pending.delivering not in (0, threading.get_ident()) for pending in waiting)

        while running():
            if deadline.expired:
                return False
            time.sleep(_CALLBACK_POLL_SECONDS)
        return True

    def _overdue(self, pending: Pending) -> RequestTimeout:
        at, invalid = self._last_invalid
        hint = f"; it did send something that is not a message: {invalid[:200]}" if at >= pending.begun else ""
        return RequestTimeout(f"{self.name} did not answer {pending.method!r} {pending.overdue()}{hint}")

    def _expect_late_response(self, id: int) -> None:
        with self._lock:
            self._given_up[id] = None
            if len(self._given_up) > _MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]

    def _interrupt(self, pending: Pending) -> None:
        pending.interrupted = True
        pending.wake()
        if pending.outcome is None:
            self._reading.interrupt(pending)

    def _send_cancel_notice(self, pending: Pending, reason: str, outlet: Optional[Outlet]) -> bool:
        """Send a cancel notice, if there is one; False if the other side does not take it."""
        notice = self._handler.cancel_notice(pending.id, reason)
        if notice is None:
            return True
        data = jsonrpc.dump(notice)
        try:
            self._count(data)
            if outlet is not None:
                outlet.send(data)
            else:
                self._channel.write_soon(data)
        except (RequestTimeout, TransportError) as failure:
            # A peer that does not read cannot be notified; the caller must not wait for it (CANC-03).
            _log.debug("no cancel notice for %r: %s", pending.method, failure)
            return False
        return True

    def cancel_calls(self, reason: str) -> None:
        """Tell the other side, as far as it takes that at once, that no answer is awaited any more."""
        for pending in list(self._pending.copy().values()):
            if pending.cancel_notice and pending.outcome is None and not self._send_cancel_notice(pending, reason, None):
                return

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = None,
               beside: Any = None) -> None:
        """Send a notification.

        :param beside: the value beside the message, on a channel that :attr:`~Channel.carries_beside`.
        :raises ConnectionClosed: the connection is over.
        :raises TransportError: the message has more bytes than it may have.
        :raises RequestTimeout: the peer did not take it within *timeout* seconds.
        """
        if self._error is not None:
            raise copy.copy(self._error)
        data = jsonrpc.dump_notification(method, params)
        if len(data) > self.most_bytes:
            raise too_long(f"{method!r} to {self.name}", len(data), self.most_bytes)
        self._count(data)
        if beside is None:
            self._channel.write(data, timeout)
        else:
            self._channel.write_beside(data, beside, timeout)

    def progress(self, token: Any, params: Dict[str, Any], size: int = 0) -> bool:
        """Pass a progress notification to the call with this id; False if there is none.

        :param token: as the other side sent it, of any type.
        :param size: of the message, in bytes.
        """
        id = token if type(token) is int else jsonrpc.own_id(token)
        pending = None if id is None else self._pending.get(id)
        return pending is not None and pending.add_progress(params, size)

    def _end_calls(self, error: Exception) -> bool:
        """Note the end of the connection, and make every waiting call raise *error*; False if it was noted before."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
            waiting = list(self._pending.copy().values())
        for pending in waiting:
            pending.complete(error)
        return True

    def _count(self, data: bytes) -> None:
        """Count and trace one message that is sent."""
        counters = self.counters
        with self._lock:
            counters.messages_sent += 1
            counters.bytes_sent += len(data)
        if self._trace is not None:
            self._trace("->", data)

"""One conversation: the calls that wait, the requests in work, cancellation, and the end.

A peer knows JSON-RPC and no method name: what a message means is the handler's affair. Locks: ``_lock``
guards ``_pending``, ``_in_flight``, the counters and the closing state, for dictionary work only.
"""

import contextlib
import copy
import logging
import threading
from dataclasses import dataclass
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, Union

from ..errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_BUSY,
    Cancelled,
    ConnectionClosed,
    ProtocolError,
    RequestTimeout,
    TransportError,
    remote_error,
)
from ..protocol import jsonrpc
from .cancel import CancelToken
from .incoming import Batch, Handler, Incoming
from .interfaces import Channel, Outlet, Reading
from .pending import Clock, Pending
from .reading import CallerReading, LeaderReading
from .threads import Workers
from .tracing import RateLog

__all__ = ["Counters", "Incoming", "Outlet", "Peer"]

_log = logging.getLogger(__name__)
Trace = Callable[[str, bytes], None]
_NO_PARAMS: Dict[str, Any] = {}


@dataclass
class Counters:
    """What has passed over one connection since it was opened."""

    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    #: Input that was no message, answers that nobody waited for, duplicate ids.
    refused: int = 0


class Peer:
    """The other side of one channel.

    :param channel: carries the bytes; the peer closes it.
    :param handler: gives messages their meaning.
    :param workers: runs handlers; its places bound how many.
    :param leading: True for a server's side (the reader runs handlers under a watchdog), False for a
        client's (callers read their own answers).
    :param limits: bounds on incoming JSON.
    :param trace: called with "->" or "<-" and the bytes of each message.
    :param shared: whether it speaks for many senders, each of which has request ids of its own.
    """

    def __init__(self, channel: Channel, handler: Handler, *, workers: Workers, leading: bool = False,
                 limits: jsonrpc.JSONLimits = jsonrpc.DEFAULT_LIMITS, trace: Optional[Trace] = None,
                 shared: bool = False) -> None:
        self._channel = channel
        self._handler = handler
        self._workers = workers
        self._leading = leading
        self._limits = limits
        self._trace = trace
        self.shared = shared
        self._warn = RateLog(_log)
        self._lock = threading.Lock()
        self._pending: Dict[int, Pending] = {}
        self._in_flight: Dict[Any, Incoming] = {}
        self._next_id = 0
        self._error: Optional[Exception] = None
        self._gone = threading.Event()
        self._clock = Clock()
        #: What the last input was that could not be understood: a hint for calls that never get an answer.
        self._noise = ""
        self.counters = Counters()
        self._reading: Reading
        own = channel.reading(self._receive, self._fail, workers)
        if own is not None:
            self._reading = own
        elif leading:
            self._reading = LeaderReading(channel, self._receive, self._refuse, self._fail, workers)
        else:
            self._reading = CallerReading(channel, self._receive, self._fail, "mcplite reader")

    @property
    def name(self) -> str:
        """How errors call the other side."""
        return self._channel.name

    @property
    def closed(self) -> bool:
        """Whether the conversation is over."""
        return self._error is not None

    def now(self) -> float:
        """Return the seconds that have passed for calls: not those in which a person was asked something."""
        return self._clock.now()

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the conversation; None while it lasts."""
        return self._error

    def start(self) -> None:
        """Begin to read."""
        self._reading.start()

    # --- calls that this side makes -------------------------------------------------------------

    def new_id(self) -> int:
        """Return an id that this conversation has not used (RPC-05)."""
        with self._lock:
            self._next_id += 1
            return self._next_id

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *, id: Optional[int] = None,
             timeout: Optional[float] = None, max_timeout: Optional[float] = None,
             cancel: Optional[CancelToken] = None, on_progress: Optional[Callable[[Dict[str, Any]], object]] = None,
             cancel_notice: bool = True, outlet: Optional[Outlet] = None, headers: Optional[Mapping[str, str]] = None) -> Any:
        """Send a request and wait for its result.

        :param id: from :meth:`new_id`, when the params mention it; by default a new one.
        :param timeout: seconds; progress for this call starts them anew. None waits for ever.
        :param max_timeout: seconds in all, whatever the progress.
        :param cancel: a token that calls the wait off.
        :param on_progress: called with the params of each progress notification, on this thread, in
            order, all of them before this method returns.
        :param cancel_notice: whether the peer is told when the call is given up.
        :param outlet: of the peer's request that this one belongs to (HTTP-12).
        :param headers: what goes beside the message, on a channel that has a place for it.
        :raises RemoteError: the peer answered with an error.
        :raises ProtocolError: the peer's answer broke the rules.
        :raises RequestTimeout: no answer in time.
        :raises Cancelled: the token was cancelled.
        :raises ConnectionClosed: the connection is over, or ended meanwhile.
        :raises TypeError, ValueError: the params are no JSON; nothing was sent.
        """
        if id is None:
            id = self.new_id()
        if cancel is not None:
            cancel.check()
        data = self._dumped(jsonrpc.Request(id, method, params))
        pending = Pending(id, method, self._clock, timeout, max_timeout, on_progress)
        pending.headers = headers
        with self._lock:
            if self._error is not None:
                raise copy.copy(self._error)
            self._pending[id] = pending
            self.counters.messages_sent += 1
            self.counters.bytes_sent += len(data)
        uncancel = None if cancel is None else cancel.add_callback(lambda: self._interrupt(pending))
        try:
            self._write(data, max_timeout if timeout is None else timeout, pending, outlet)
            self._wait(pending, cancel)
        except BaseException as error:
            # Also for an exception from a signal handler: nobody will take the answer any more.
            if (cancel_notice and pending.outcome is None and self._error is None
                    and not isinstance(error, TransportError)):
                self._give_notice(pending, error, outlet)
            raise
        finally:
            with self._lock:
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

    def _dumped(self, request: jsonrpc.Request) -> bytes:
        try:
            return jsonrpc.dump(request)
        except (TypeError, ValueError) as error:
            # Said here, where nobody else's errors come by: those of a caller's own functions have to pass as they are.
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{request.method!r} was not sent to {self.name}, since its params are no JSON: {error}") from error

    def _wait(self, pending: Pending, cancel: Optional[CancelToken]) -> None:
        progress = pending.progress
        while pending.outcome is None or progress:
            if progress:
                while progress:
                    self._deliver(pending, progress.popleft())
                continue
            # Reset before the token is looked at: a cancel in between sets it again.
            pending.interrupted = False
            if cancel is not None:
                cancel.check()
            if self._error is not None and pending.outcome is None:
                raise copy.copy(self._error)
            self._reading.wait(pending)
            if pending.outcome is None and not progress:
                remaining = pending.remaining()
                if remaining is not None and remaining <= 0:
                    raise RequestTimeout(
                        f"{self.name} did not answer {pending.method!r} (id {pending.id}) in time"
                        f" (timeout={pending.timeout!r} s){self._hint()}")

    def _hint(self) -> str:
        return f"; it did send something that is no message: {self._noise[:200]}" if self._noise else ""

    def _deliver(self, pending: Pending, params: Dict[str, Any]) -> None:
        assert pending.on_progress is not None
        try:
            pending.on_progress(params)
        except Exception:
            _log.exception("the progress callback of %r failed", pending.method)

    def _interrupt(self, pending: Pending) -> None:
        pending.interrupted = True
        pending.nudge()
        if pending.outcome is None:
            self._reading.interrupt(pending)

    def _give_notice(self, pending: Pending, error: BaseException, outlet: Optional[Outlet]) -> None:
        reason = str(error) if isinstance(error, (Cancelled, RequestTimeout)) else "the caller was interrupted"
        notice = self._handler.cancel_notice(pending.id, reason)
        if notice is None:
            return
        data = jsonrpc.dump(notice)
        try:
            if outlet is not None:
                self._send(data, outlet=outlet)
                return
            with self._lock:
                self.counters.messages_sent += 1
                self.counters.bytes_sent += len(data)
            self._noted("->", data)
            self._channel.write_soon(data)
        except (RequestTimeout, TransportError) as failure:
            # A peer that does not read cannot be told; the caller must not wait for it (CANC-03).
            _log.debug("no cancel notice for %r: %s", pending.method, failure)

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = None,
               headers: Optional[Mapping[str, str]] = None) -> None:
        """Send a notification.

        :param headers: what goes beside the message, on a channel that has a place for it.
        :raises ConnectionClosed: the connection is over.
        :raises RequestTimeout: the peer did not take it within *timeout* seconds.
        """
        if self._error is not None:
            raise copy.copy(self._error)
        data = jsonrpc.dump(jsonrpc.Notification(method, params))
        if headers is None:
            self._send(data, timeout)
            return
        self._count(data)
        self._channel.write_beside(data, headers, timeout)

    def progress(self, token: Any, params: Dict[str, Any]) -> bool:
        """Pass an incoming progress notification to the call with this id; False when there is none.

        :param token: as the other side gave it, of any type.
        """
        pending = self._pending.get(token) if type(token) is int else None
        if pending is None or pending.progress is None:
            return False
        pending.add_progress(params)
        return True

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of all calls while the block answers a question of the peer."""
        self._clock.stop()
        try:
            yield
        finally:
            self._clock.go()

    # --- requests of the other side ---------------------------------------------------------------

    def cancel_incoming(self, id: Any, reason: Any) -> bool:
        """Cancel a request in work; False when there is none with this id (CANC-04).

        :param id, reason: as the other side gave them, of any type.
        """
        incoming = self._in_flight.get(id) if type(id) in (int, str) else None
        if incoming is None:
            return False
        incoming.cancelled(reason if isinstance(reason, str) else None)
        return True

    def refuse_incoming(self, id: Union[int, str], code: int, message: str, sender: Any = None) -> None:
        """Answer a request in work with an error, whatever becomes of its handler."""
        incoming = self._in_flight.get((sender, id) if self.shared else id)
        if incoming is not None:
            incoming.fail(code, message)

    def drop_incoming(self, id: Union[int, str], sender: Any, reason: str) -> None:
        """Cancel a request in work whose sender has gone."""
        incoming = self._in_flight.get((sender, id))
        if incoming is not None:
            incoming.cancelled(reason)

    def aside(self) -> ContextManager[None]:
        """Let the current thread wait for something that is no answer: it neither leads nor keeps a place meanwhile."""
        return self._reading.aside()

    def cancel_all(self, reason: str) -> List[Incoming]:
        """Cancel every request in work and return them."""
        with self._lock:
            running = list(self._in_flight.values())
        for incoming in running:
            incoming.cancelled(reason)
        return running

    @property
    def in_flight(self) -> int:
        """How many requests of the other side are in work."""
        return len(self._in_flight)

    def _finish(self, incoming: Incoming, data: Optional[bytes], code: Optional[int]) -> None:
        """Take *incoming* off the books and send its response, unless it was cancelled (CANC-03)."""
        with self._lock:
            self._in_flight.pop(incoming.key, None)
            if data is not None and incoming.batch is None:
                self.counters.messages_sent += 1
                self.counters.bytes_sent += len(data)
        if incoming.batch is not None:
            self._answer_batch(incoming.batch, data)
        elif incoming.outlet is not None:
            if data is not None:
                self._noted("->", data)
            incoming.outlet.finish(data, code)
        elif data is not None:
            self._write(data, None)

    def _answer_batch(self, batch: Batch, data: Optional[bytes]) -> None:
        if not batch.add(data):
            return
        joined = batch.joined()
        if batch.outlet is not None:
            if joined is not None:
                self._noted("->", joined)
            batch.outlet.finish(joined)
        elif joined is not None:
            self._send(joined)

    # --- receiving: on whichever thread holds the reading role, or was handed a message --------------

    def _receive(self, data: bytes) -> None:
        self.receive(data, jsonrpc.parse(data, self._limits))

    def receive(self, data: bytes, message: jsonrpc.Message, outlet: Optional[Outlet] = None,
                inline: bool = True, sender: Any = None) -> None:
        """Deal with one message, which a reader read or somebody else was handed.

        :param data: the message as it came.
        :param message: the same, parsed.
        :param outlet: where its answers go; None is the channel.
        :param inline: whether a handler may run on this thread, when the peer is one that leads.
        :param sender: who sent it, for its handler to know; compared by identity when this peer speaks for many.
        """
        self._noted("<-", data)
        counters = self.counters
        counters.messages_received += 1
        counters.bytes_received += len(data)
        if type(message) is jsonrpc.Batch:
            self._receive_batch(message, outlet, sender)
        else:
            self._route(message, None, outlet, inline, sender)

    def _receive_batch(self, batch: jsonrpc.Batch, outlet: Optional[Outlet], sender: Any) -> None:
        if not self._handler.accepts_batches():
            self._reject(jsonrpc.Invalid(None, INVALID_REQUEST, "arrays of messages are not part of this revision"),
                         outlet=outlet)
            return
        expected = sum(type(item) is jsonrpc.Request or (type(item) is jsonrpc.Invalid and not item.answers)
                       for item in batch.items)
        collector = Batch(expected, outlet)
        for item in batch.items:
            self._route(item, collector, outlet, False, sender)
        if not expected and outlet is not None:
            outlet.finish(None)

    def _route(self, message: Any, batch: Optional[Batch], outlet: Optional[Outlet], inline: bool,
               sender: Any = None) -> None:
        kind = type(message)
        if kind is jsonrpc.Response or kind is jsonrpc.Failure:
            self._answered(message)
        elif kind is jsonrpc.Notification:
            try:
                self._handler.on_notification(message)
            except Exception:
                _log.exception("notification %s of %s failed", jsonrpc.describe(message), self.name)
        elif kind is jsonrpc.Request:
            self._requested(message, batch, outlet, inline, sender)
        else:
            self._reject(message, batch, outlet)

    def _answered(self, message: Union[jsonrpc.Response, jsonrpc.Failure]) -> None:
        pending = self._pending.get(message.id) if type(message.id) is int else None
        if pending is None:
            self.counters.refused += 1
            self._warn.warning("%s sent an answer that nobody waits for: %s", self.name, jsonrpc.describe(message))
        else:
            pending.settle(message)

    def _requested(self, request: jsonrpc.Request, batch: Optional[Batch], outlet: Optional[Outlet],
                   inline: bool, sender: Any) -> None:
        incoming = Incoming(self, request.id, request.method,
                            _NO_PARAMS if request.params is None else request.params, batch, outlet, sender)
        key = incoming.key
        with self._lock:
            duplicate = key in self._in_flight
            if not duplicate:
                self._in_flight[key] = incoming
        if duplicate:
            # The first one keeps its place and its answer (SEC-30).
            self._reject(jsonrpc.Invalid(request.id, INVALID_REQUEST, f"request id {request.id!r} is in use"), batch, outlet)
            return
        try:
            task = self._handler.on_request(incoming)
        except Exception:
            _log.exception("request %r of %s failed", request.method, self.name)
            incoming.fail(INTERNAL_ERROR, "Internal error")
            return
        if task is None:
            return
        if self._leading and inline and self._workers.take():
            try:
                incoming.run(task)
            finally:
                self._workers.give()
        elif not self._workers.submit(lambda: incoming.run(task)):
            incoming.fail(SERVER_BUSY, "Server busy: too many requests are waiting; try again later")

    def _reject(self, invalid: jsonrpc.Invalid, batch: Optional[Batch] = None, outlet: Optional[Outlet] = None) -> None:
        self.counters.refused += 1
        self._noise = invalid.message
        if invalid.answers:
            pending = self._pending.get(invalid.id) if type(invalid.id) is int else None
            if pending is not None:
                pending.settle(ProtocolError(f"{self.name} answered {pending.method!r} with something that is no"
                                             f" JSON-RPC response: {invalid.message}"))
                return
        self._warn.warning("%s sent something that is no message: %s", self.name, invalid.message)
        # A client leaves noise on a server's stdout unanswered (STD-25); a server says what was wrong.
        if invalid.answers or (invalid.code == PARSE_ERROR and not self._leading) or not self._handler.answers_noise():
            return
        failure = jsonrpc.Failure(invalid.id, invalid.code, invalid.message, None)
        data = jsonrpc.dump(failure, null_id=self._handler.names_unreadable_ids())
        try:
            if batch is not None:
                self._answer_batch(batch, data)
            elif outlet is not None:
                self._noted("->", data)
                outlet.finish(data, invalid.code)
            else:
                self._send(data)
        except ConnectionClosed as error:
            _log.debug("not sent: %s", error)

    def _refuse(self, error: ProtocolError) -> None:
        self._reject(jsonrpc.Invalid(None, PARSE_ERROR, str(error)))

    # --- sending -----------------------------------------------------------------------------------

    def _observe(self, direction: str, data: bytes) -> None:
        """Called with every message; does nothing. Tests replace it to see the wire."""

    def _noted(self, direction: str, data: bytes) -> None:
        self._observe(direction, data)
        if self._trace is not None:
            self._trace(direction, data)

    def _write(self, data: bytes, timeout: Optional[float], pending: Optional[Pending] = None,
               outlet: Optional[Outlet] = None) -> bool:
        self._noted("->", data)
        if outlet is not None:
            return outlet.send(data)
        if pending is not None:
            self._reading.send(pending, data, timeout)
        else:
            self._channel.write(data, timeout)
        return True

    def _send(self, data: bytes, timeout: Optional[float] = None, outlet: Optional[Outlet] = None) -> bool:
        with self._lock:
            self.counters.messages_sent += 1
            self.counters.bytes_sent += len(data)
        return self._write(data, timeout, None, outlet)

    def _count(self, data: bytes) -> None:
        """Note a message that goes out past :meth:`_write`."""
        with self._lock:
            self.counters.messages_sent += 1
            self.counters.bytes_sent += len(data)
        self._noted("->", data)

    def offer(self, data: bytes, outlet: Outlet) -> bool:
        """Send a message on an outlet that has room for it; False when it has none."""
        if not outlet.offer(data):
            return False
        self._count(data)
        return True

    # --- the end -----------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """End the conversation: everybody who waits gets *error*, everything in work is cancelled."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            waiting = list(self._pending.values())
        for pending in waiting:
            pending.settle(error)
        self.cancel_all("the connection is over")
        try:
            self._handler.on_close(error)
        finally:
            self._gone.set()

    def wait_closed(self, timeout: Optional[float] = None) -> bool:
        """Block until the conversation is over; return whether it is."""
        return self._gone.wait(timeout)

    def close(self, error: Optional[Exception] = None, timeout: float = 2.0) -> None:
        """End the conversation and close the channel; idempotent, from any thread.

        :param error: what calls that wait get; by default a ConnectionClosed that says who closed.
        :param timeout: seconds to wait for a reader to step back.
        """
        self._fail(error or ConnectionClosed(f"the connection to {self.name} was closed on this side"))
        if not self._channel.interruptible:
            # Nothing but its end wakes a reader there, so that waiting for the reader first would be in vain.
            self._channel.close()
        if not self._reading.stop(timeout) and self._channel.interruptible:
            _log.warning("a reader of %s did not step back within %g s", self.name, timeout)
        self._channel.close()

"""One connection: the calls of this side, the requests of the other side, the way of each message, and the end.

Both sides use it. A peer knows no method name: its handler gives messages their meaning. Its states, and what leads from one
to the next::

    open --the other side sends nothing more (a server)--> ending: what runs is answered, within the grace
      |                                                       |
      '--a fault, close(), the end (a client)--> over <-------'
                                                 each call that waits gets the error, each request is cancelled

``_error`` says what ended it, ``ending`` until when answers are sent. :meth:`Peer._end_calls` is the one way out of *open*,
and :meth:`Peer._end_requests` the one way to *over*. In a forked process a peer is over from the beginning.

A call of this side::

    waits --response, or end of the connection--> complete
     |  ^
     |  '--progress: its callbacks run, and the timeout starts over
     '--timeout, cancel, Ctrl-C--> given up: a cancel notice goes out, and a late response is expected
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from functools import partial
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple, Union

from ..errors import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Cancelled,
    ConnectionClosed,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    TransportError,
    copied,
    remote_error,
)
from ..protocol import jsonrpc
from ..protocol.error_text import quoted
from ..protocol.framing import KEPT_BYTES, CutLine
from .cancel import CancelToken, check_token
from .deadline import Deadline, poll_until, wait_interruptibly
from .fair_queue import QueuedJob
from .forks import foreign_error
from .interfaces import DIRECT, Channel, Delivery, MessageSink, Outlet, Reading, too_long
from .pending import Clock, Pending
from .reading import TICK_SECONDS, CallerReading, LeaderFollowerReading
from .request import MUCH, BatchResponses, Incoming, MessageHandler
from .threads import Mailbox, Workers
from .tracing import Counters, get_logger

__all__ = ["Peer"]

_log = get_logger(__name__)
#: Seconds between two looks at callbacks that still run when the connection is closed.
_CALLBACK_POLL_SECONDS = 0.005
#: How many of the latest calls that were given up are remembered.
_MOST_GIVEN_UP = 1024
#: Seconds for a small answer of a client to a server that does not read, and its bytes; larger ones may take longer.
_ANSWER_SECONDS = 10.0
_SMALL_ANSWER = 4096
#: Answers of a client that may wait.
_MOST_ANSWERS = 1000
#: How many kinds of requests that were slow are remembered.
_MOST_SLOW = 1000
#: Seconds between two looks at the answers that are still to come at the end.
_ANSWER_POLL_SECONDS = 0.001


class Peer(MessageSink):
    """The other side of one channel.

    :param channel: carries the bytes; the peer closes it.
    :param handler: gives messages their meaning.
    :param workers: runs handlers; its slots bound how many.
    :param serving: True for a server's side, where the thread that reads or hands in a message may run its handler: on a
        pipe the reading thread, under a watchdog, over HTTP the thread of the request. False for a client's, where callers
        read their own responses, and workers run handlers.
    :param limits: bounds on incoming JSON.
    :param trace: called with "->" or "<-" and the bytes of each message.
    :param shared: whether it speaks for many clients, each of which has request ids of its own.
    :param most_bytes: that a message may have which is sent; None for what the channel carries.
    :param grace: seconds in which requests in progress are answered once the other side sends nothing more.
    :param clock: of the time limits; paused while this side answers a question of the other. By default one of its own.
    """

    def __init__(self, channel: Channel, handler: MessageHandler, *, workers: Workers, serving: bool = False,
                 limits: jsonrpc.JSONLimits = jsonrpc.DEFAULT_LIMITS, trace: Optional[Callable[[str, bytes], object]] = None,
                 shared: bool = False, most_bytes: Optional[int] = None,
                 grace: float = 0.0, clock: Optional[Clock] = None) -> None:
        self.channel = channel
        self._handler = handler
        self._workers = workers
        self._serving = serving
        self._limits = limits
        self._trace = trace
        self.most_bytes = most_bytes or channel.most_bytes or sys.maxsize
        #: Whether it speaks for many clients.
        self.shared = shared
        self.foreign = False
        #: Guards the next three, and what is counted as sent; held for dictionary work only. A call is removed without it.
        self._lock = threading.RLock()
        self._pending: Dict[int, Pending] = {}
        #: The ids of calls that ended without their response, oldest first: the response may still come (CANC-03).
        self._given_up: Dict[int, None] = {}
        #: What ended the connection; None while it is open.
        self._error: Optional[Exception] = None
        #: The ids, from 1 on; taking one is one step in C.
        self._ids: Iterator[int] = itertools.count(1)
        self.clock = clock or Clock()
        self._silenced = False
        #: When the last invalid input came, and why it was refused: a hint for calls that get no response.
        self._last_invalid = (-1.0, "")
        #: The first line that a program has printed to its stdout and that is no message; quoted, "" for none.
        self.printed = ""
        self.counters = Counters()
        #: Without a lock: each change is one step in C.
        self._in_flight: Dict[Any, Incoming] = {}
        #: Sends what a client answers at once, to pings and with refusals: its callers read the connection themselves, and a
        #: server that asks and does not take the answers must not keep them beyond the limits of their calls. None for a
        #: server, which reads on threads of its own.
        self._answers = None if serving else Mailbox(
            f"answers to {channel.name}", _MOST_ANSWERS, why=f"{channel.name} asks faster than it takes the answers")
        #: One item for each answer that is being written.
        self._writing: List[None] = []
        self._grace = grace
        #: Until when requests in progress are answered; None while the other side may send more.
        self.ending: Optional[Deadline] = None
        #: Set when the connection is over.
        self._ended = threading.Event()
        #: What took longer than a tick when the reading thread ran it, so that other threads run it; see :meth:`_note_late`.
        self._slow: Dict[Tuple[str, Optional[str]], None] = {}
        reading = channel.create_reading(self.receive, self._fail, workers)
        if reading is None:
            reading = LeaderFollowerReading(channel, self.receive, self._answer_unreadable, self._end_input, workers,
                                            self._note_late) if serving else CallerReading(channel, self.receive, self._fail)
        self._reading: Reading = reading

    def start(self) -> None:
        """Start to read."""
        # LeaderFollowerReading on a server's pipe, CallerReading on a client's; over HTTP nothing is started (PushedReading
        # on a server, HTTPReading on a client).
        self._reading.start()

    @property
    def name(self) -> str:
        """How errors name the other side."""
        return self.channel.name

    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        return self._error is not None

    @property
    def last_error(self) -> Optional[Exception]:
        """What ended the connection; None while it lasts."""
        return self._error

    # --- calls of this side --------------------------------------------------------------------------

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
        for pending in self._waiting():
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
            check_token(cancel)
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
        outlet = delivery.outlet
        if delivery is not DIRECT:
            pending.beside, pending.lasting = delivery.beside, delivery.lasting
            pending.cancel_notice = delivery.cancel_notice
            if delivery.spent:
                pending.begin_before(delivery.spent)
                timeout = pending.remaining()
                if timeout is not None and timeout <= 0:
                    raise self._overdue(pending, params)
        with self._lock:
            if self._error is not None:
                ended = copied(self._error)
                if isinstance(ended, TransportError):
                    ended.unsent = True
                raise ended
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
            self._wait(pending, cancel, params)
        except BaseException as error:
            if pending.outcome is None:
                self._expect_late_response(id)
            # Also for an exception from a signal handler: the response would reach no caller any more.
            if (pending.cancel_notice and pending.outcome is None and self._error is None
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
        raise copied(outcome) from outcome.__cause__

    def _wait(self, pending: Pending, cancel: Optional[CancelToken], params: Any) -> None:
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
                        raise self._overdue(pending, params)
                    return
                continue
            if self._error is not None and pending.outcome is None:
                raise copied(self._error)
            self._reading.wait(pending)
            if pending.outcome is None and not progress:
                remaining = pending.remaining()
                if remaining is not None and remaining <= 0:
                    raise self._overdue(pending, params)

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
        for pending in self._waiting():
            pending.interrupted = True

    def in_callback(self) -> bool:
        """Whether the current thread runs a progress callback."""
        return any(pending.delivering == threading.get_ident() for pending in self._waiting())

    def wait_for_callbacks(self, deadline: Deadline) -> bool:
        """Wait for the progress callbacks that run, but for one on the current thread; return whether they have ended."""
        idle = 0, threading.get_ident()
        return poll_until(lambda: all(pending.delivering in idle for pending in self._waiting()), deadline,
                          _CALLBACK_POLL_SECONDS)

    def _waiting(self) -> List[Pending]:
        """Return the calls that wait now."""
        with self._lock:
            return list(self._pending.copy().values())

    def _overdue(self, pending: Pending, params: Any) -> RequestTimeout:
        at, invalid = self._last_invalid
        hint = f"; it {invalid[:200]}" if at >= pending.begun else ""
        members = getattr(params, "value", params)  # of Encoded, or of a dict
        named = members.get("name") or members.get("uri") if isinstance(members, dict) else None
        subject = f" for {quoted(named)}" if named else ""
        return RequestTimeout(f"{self.name} did not answer {pending.method!r}{subject} {pending.overdue()}{hint}")

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
                self.channel.write_soon(data)
        except (RequestTimeout, TransportError) as failure:
            # A peer that does not read cannot be notified; the caller must not wait for it (CANC-03).
            _log.debug("no cancel notice for %r: %s", pending.method, failure)
            return False
        return True

    def cancel_calls(self, reason: str) -> None:
        """Tell the other side, as far as it takes that at once, that no answer is awaited any more."""
        for pending in self._waiting():
            if pending.cancel_notice and pending.outcome is None and not self._send_cancel_notice(pending, reason, None):
                return

    # --- requests of the other side ---------------------------------------------------------------

    def cancel_incoming(self, id: Any, reason: Any) -> bool:
        """Cancel a request in progress; False if there is none with this id (CANC-04).

        :param id, reason: as the other side sent them, of any type.
        """
        id = jsonrpc.whole(id)
        incoming = self._in_flight.get(id) if type(id) in (int, str) else None
        if incoming is None:
            return False
        incoming.cancel(reason if isinstance(reason, str) else None)
        return True

    def refuse_incoming(self, id: Union[int, str], code: int, message: str, facts: Any = None) -> None:
        """Answer a request in progress with an error; what its handler returns later is dropped."""
        incoming = self._in_flight.get((facts, id) if self.shared else id)
        if incoming is not None:
            incoming.fail(code, message)
            self._forget_queued(incoming)

    def drop_incoming(self, id: Union[int, str], facts: Any, reason: str) -> None:
        """Cancel a request in progress whose client has disconnected; *facts* as given to :meth:`receive`."""
        incoming = self._in_flight.get((facts, id))
        if incoming is not None:
            incoming.cancel(reason)
            self._forget_queued(incoming)

    def _forget_queued(self, incoming: Incoming) -> None:
        """Let a request that needs no handler any more leave the queue, where it would keep its params until its turn."""
        if self._workers.discard(incoming):
            incoming.execute()

    def without_slot(self) -> ContextManager[None]:
        """Return a block in which the current thread waits for something other than a response.

        Meanwhile the thread does not lead the reading and holds no slot among the workers.
        """
        return self._reading.suspended()

    def cancel_all(self, reason: str) -> None:
        """Cancel every request in progress."""
        for incoming in list(self._in_flight.copy().values()):
            incoming.cancel(reason)

    @property
    def in_flight(self) -> int:
        """How many requests of the other side are in progress."""
        return len(self._in_flight)

    # --- receiving: on the thread that reads, or on one that was handed a message -------------------

    def _identify(self, data: bytes, invalid: jsonrpc.Invalid) -> jsonrpc.Message:
        """Return what to refuse in place of an unreadable message: its call ends now, and not by its timeout.

        A server does not look for the id of a request that is not JSON (RPC-11).
        """
        tail = data[-KEPT_BYTES:]
        if type(data) is CutLine:
            option = "Limits.message_bytes of the server" if self._serving else "line_limit= of ClientOptions"
            invalid = jsonrpc.Invalid(None, PARSE_ERROR, f"send less in one message, or raise {option}: it has {data.size}"
                                      f" bytes, and the limit is {data.limit}", oversized=True)
            tail = data.tail
        elif self._serving and not invalid.oversized:
            return invalid
        from ..protocol.framing import refuse_unread

        found = refuse_unread(data[:KEPT_BYTES], tail, invalid, not self._serving, self._limits)
        # What a server's program prints may look like a request.
        if invalid.oversized or type(found) is jsonrpc.Invalid and found.answers:
            return found
        if self.channel.from_stdout and not data.lstrip().startswith((b"{", b"[{")):
            invalid.printed = quoted(data.decode("utf-8", "replace"))
        return invalid

    def receive(self, data: bytes, message: Optional[jsonrpc.Message] = None, outlet: Optional[Outlet] = None,
                inline: bool = True, facts: Any = None) -> None:
        """Process one message, which was read or handed in.

        :param data: the message as it came.
        :param message: the same, parsed; by default it is parsed here.
        :param outlet: where its responses go; None is the channel.
        :param inline: whether a handler may run on this thread, if this is a server's side.
        :param facts: what the transport knows of it beside the message, for the handler: a ``RequestFacts`` in a session over
            HTTP, a ``SessionlessClient`` without one, None on a pipe. It is compared by identity if this peer is shared.
        """
        if self._trace is not None:
            self._trace("<-", data)
        counters, length = self.counters, len(data)
        counters.messages_received += 1
        counters.bytes_received += length
        if message is None:
            message = jsonrpc.parse(data, self._limits)
            if type(message) is jsonrpc.Invalid and message.id is None:
                message = self._identify(data, message)
        if type(message) is jsonrpc.Request:
            size = 0 if length < MUCH or facts is None else jsonrpc.estimate_memory(data, message.params, self._limits)
            self._begin(Incoming(self, message, None, outlet, facts, size), inline, data)
        elif type(message) is jsonrpc.Batch:
            size = 0 if facts is None else jsonrpc.estimate_memory(data, None, self._limits)
            self._receive_batch(message, outlet, facts, size)
        elif type(message) is jsonrpc.Invalid:
            self._reject(message, None, outlet)
        elif type(message) is jsonrpc.Response or type(message) is jsonrpc.Failure:
            self._on_response(message)
        elif type(message) is jsonrpc.Notification:
            self._on_notification(message)

    def _receive_batch(self, batch: jsonrpc.Batch, outlet: Optional[Outlet], facts: Any, size: int) -> None:
        if not self._handler.accepts_batches():
            self._reject(jsonrpc.Invalid(None, INVALID_REQUEST, "arrays of messages are not part of this revision"),
                         outlet=outlet)
            return
        expected = sum(type(item) is jsonrpc.Request or (type(item) is jsonrpc.Invalid and not item.answers)
                       for item in batch.items)
        responses = BatchResponses(expected)
        for item in batch.items:
            if type(item) is jsonrpc.Request:
                self._begin(Incoming(self, item, responses, outlet, facts, size // len(batch.items)), False, b"")
            elif isinstance(item, jsonrpc.Invalid):
                self._reject(item, responses, outlet)
            elif type(item) is jsonrpc.Response or type(item) is jsonrpc.Failure:
                self._on_response(item)
            elif type(item) is jsonrpc.Notification:
                self._on_notification(item)
        if not expected and outlet is not None:
            outlet.finish(None)

    def _on_notification(self, message: jsonrpc.Notification) -> None:
        try:
            self._handler.on_notification(message)
        except Exception:
            _log.exception("notification %s of %s failed", jsonrpc.describe(message), self.name)

    def _on_response(self, message: Union[jsonrpc.Response, jsonrpc.Failure]) -> None:
        id = message.id if type(message.id) is int else jsonrpc.own_id(message.id)
        pending = None if id is None else self._pending.get(id)
        if pending is not None:
            pending.complete(message)
        elif self.closed:
            _log.debug("%s sent a response after the end: %s", self.name, jsonrpc.describe(message))
        elif id is not None and self._given_up.pop(id, self) is None:
            _log.debug("%s sent a response to a call that was given up: %s", self.name, jsonrpc.describe(message))
        elif self._is_read_again(message):
            _log.debug("a response of %s was read twice, as a call was interrupted: %s", self.name, jsonrpc.describe(message))
        else:
            self.counters.refused += 1
            _log.warning("%s sent a response to no pending call: %s", self.name,
                         jsonrpc.describe(message))

    def _is_read_again(self, message: Union[jsonrpc.Response, jsonrpc.Failure]) -> bool:
        unconsumed, self._reading.unconsumed = self._reading.unconsumed, None
        return unconsumed is not None and getattr(jsonrpc.parse(unconsumed, self._limits), "id", self) == message.id

    def _begin(self, incoming: Incoming, inline: bool, data: bytes) -> None:
        """Have a request answered: by its handler on this thread, or by a worker.

        :param data: the message as it came; empty for one in an array.
        """
        if self._in_flight.setdefault(incoming.key, incoming) is not incoming:
            # The first request with this id keeps its slot and its response (SEC-30).
            self._reject(jsonrpc.Invalid(incoming.id, INVALID_REQUEST, f"request id {incoming.id!r} is in use"),
                         incoming.batch, incoming.outlet)
            return
        # What follows depends on the answer to "initialize".
        self._reading.in_order = incoming.method == "initialize"
        try:
            work = self._handler.on_request(incoming)  # of LegacySession, SessionlessHandler or ConnectionToServer
        except Exception as error:
            if not isinstance(error, RemoteError):
                _log.exception("request %r of %s failed", incoming.method, self.name)
                error = RemoteError("Internal error")
            incoming.fail(error.code, error.message, error.data)
            return
        if work is None:
            return
        slow = self._slow and incoming.subject in self._slow
        if inline and self._serving and not slow and self._workers.run_here(incoming, incoming.run, work):
            return
        counted = data and not incoming.size and incoming.facts is not None
        incoming.wait_for_slot(partial(self._run_slow, incoming, work) if slow else work,
                               jsonrpc.estimate_memory(data, None, self._limits) if counted else 0)
        if not self._workers.enqueue(incoming):
            if self.closed:
                incoming.cancel("the connection is over")  # with which the threads may have ended
            incoming.refuse()

    def _note_late(self, job: QueuedJob) -> None:
        """Have other threads run what has kept the reading thread, from the next request of its kind on.

        Else each of many calls of a tool that blocks would keep the calls behind it for two ticks.
        """
        if isinstance(job, Incoming):
            self._slow[job.subject] = None
            if len(self._slow) > _MOST_SLOW:
                self._slow.pop(next(iter(self._slow)), None)

    def _run_slow(self, incoming: Incoming, work: Callable[[], object]) -> None:
        """Run a handler that was slow before; if it is not this time, the reading thread runs the next one."""
        begun = time.monotonic()
        try:
            work()
        finally:
            if time.monotonic() - begun < TICK_SECONDS:
                self._slow.pop(incoming.subject, None)

    def _reject(self, invalid: jsonrpc.Invalid, batch: Optional[BatchResponses] = None,
                outlet: Optional[Outlet] = None) -> None:
        self.counters.refused += 1
        said = f"sent something that is not a message: {invalid.message}"
        if invalid.printed:
            said = f"printed to stdout, which belongs to the protocol: {invalid.printed}"
        self._last_invalid = self.clock.now(), said
        if invalid.answers or invalid.bare:
            id = jsonrpc.own_id(invalid.id)
            pending = None if id is None else self._pending.get(id)
            if pending is not None:
                kind = "too large a message" if invalid.oversized else "something that is not a JSON-RPC response"
                pending.complete(ProtocolError(f"{self.name} answered {pending.method!r} with {kind}: {invalid.message}"))
                return
        if not (invalid.printed and self.printed):  # what prints once may print often: the first line tells all
            _log.warning("%s %s", self.name, said)
        self.printed = self.printed or invalid.printed
        # A client does not answer noise on a server's stdout (STD-25); a server says what was wrong.
        if invalid.answers or (invalid.code == PARSE_ERROR and not self._serving) or not self._handler.answers_invalid_input():
            return
        failure = jsonrpc.Failure(invalid.id, invalid.code, invalid.message, None)
        data = jsonrpc.dump(failure, null_id=self._handler.names_unreadable_ids())
        code: Optional[int] = invalid.code
        if batch is not None:
            if not batch.add(data):
                return
            data, code = batch.joined(), None
        if self._answers is not None:
            self._answer_later(data)
            return
        try:
            if outlet is not None:
                self._count(data)
                outlet.finish(data, code)
            else:
                self.send_message(data)
        except ConnectionClosed as error:
            _log.debug("not sent: %s", error)

    def _answer_unreadable(self, error: ProtocolError) -> None:
        self._reject(jsonrpc.Invalid(None, PARSE_ERROR, str(error)))

    # --- sending -----------------------------------------------------------------------------------

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = None,
               beside: Any = None) -> None:
        """Send a notification.

        :param beside: the value beside the message, on a channel that :attr:`~Channel.carries_headers`.
        :raises ConnectionClosed: the connection is over.
        :raises TransportError: the message has more bytes than it may have.
        :raises RequestTimeout: the peer did not take it within *timeout* seconds.
        """
        self.send_notification(method, jsonrpc.dump_notification(method, params), timeout, beside)

    def send_notification(self, method: str, data: bytes, timeout: Optional[float] = None, beside: Any = None) -> None:
        """Send a notification that is written already; the arguments and the errors are those of :meth:`notify`."""
        if self._error is not None:
            raise copied(self._error)
        if len(data) > self.most_bytes:
            raise too_long(f"{method!r} to {self.name}", len(data), self.most_bytes)
        self._count(data)
        if beside is None:
            self.channel.write(data, timeout)
        else:
            self.channel.write_beside(data, beside, timeout)

    def progress(self, token: Any, params: Dict[str, Any], size: int = 0) -> bool:
        """Pass a progress notification to the call with this id; False if there is none.

        :param token: as the other side sent it, of any type.
        :param size: of the message, in bytes.
        """
        id = token if type(token) is int else jsonrpc.own_id(token)
        pending = None if id is None else self._pending.get(id)
        return pending is not None and pending.add_progress(params, size)

    def _count(self, data: bytes) -> None:
        """Count and trace one message that is sent."""
        counters = self.counters
        with self._lock:
            counters.messages_sent += 1
            counters.bytes_sent += len(data)
        if self._trace is not None:
            self._trace("->", data)

    def send_message(self, data: bytes, outlet: Optional[Outlet] = None, wait: bool = True) -> bool:
        if not wait:
            if outlet is None or not outlet.offer(data):
                return False
            self._count(data)
            return True
        self._count(data)
        if outlet is not None:
            return outlet.send(data)
        self.channel.write(data)
        return True

    def send_response(self, key: Any, data: Optional[bytes], code: Optional[int], outlet: Optional[Outlet]) -> None:
        if outlet is not None:
            self._in_flight.pop(key, None)
            if data is not None:
                self._count(data)
            outlet.finish(data, code)
            return
        if data is not None and self._answers is None:
            self._writing.append(None)
            try:
                self._in_flight.pop(key, None)
                self._count(data)
                self.channel.write(data)
            finally:
                self._writing.pop()
            return
        self._in_flight.pop(key, None)
        if data is None:
            return
        if self._workers.running_on(threading.get_ident()) is not None:
            self._write_answer(data)
        else:
            self._answer_later(data)

    def _answer_later(self, data: bytes) -> None:
        """Have an answer of a client sent by another thread, since this one may be that of a call, which reads."""
        if self._answers is not None:
            self._answers.post(partial(self._send_answer, data), len(data))

    def _send_answer(self, data: bytes) -> None:
        try:
            self._write_answer(data)
        except (RequestTimeout, TransportError) as error:
            _log.debug("an answer was not sent: %s", error)
        except Exception:
            _log.exception("an answer to %s was not sent", self.name)

    def _write_answer(self, data: bytes) -> None:
        """Send an answer of a client, on a thread that reads for no call.

        :raises RequestTimeout: the server does not take it; over a pipe that ends the connection.
        """
        if self.closed:
            return
        self._count(data)
        try:
            self.channel.write(data, _ANSWER_SECONDS if len(data) <= _SMALL_ANSWER else None)
        except RequestTimeout as error:
            if not self.channel.carries_headers:
                self._fail(ConnectionClosed(f"{self.name} asks and does not read the answers: {error}"))
            raise

    # --- the end -----------------------------------------------------------------------------------

    def _end_calls(self, error: Exception) -> bool:
        """Note the end of the connection, and make every waiting call raise *error*; False if it was noted before."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
            waiting = self._waiting()
        for pending in waiting:
            pending.complete(error)
        return True

    def _fail(self, error: Exception) -> None:
        """End the connection: every waiting call gets *error*, every request in progress is cancelled."""
        if self._end_calls(error):
            self._end_requests(error)

    def _end_input(self, error: Exception) -> None:
        """End the connection after the other side has sent its last message: requests in progress are answered before."""
        if not self._end_calls(error):
            return
        try:
            deadline = self.ending = Deadline(self._grace)
            self._handler.on_input_end()
            if not poll_until(lambda: not (self._owes_answers() and self.channel.still_read()), deadline, _ANSWER_POLL_SECONDS):
                _log.warning("%d requests of %s were not answered within %g s after its last message (Limits.grace)",
                             len(self._in_flight), self.name, self._grace)
        finally:
            self._end_requests(error)

    def _owes_answers(self) -> bool:
        # A former leader has read a message, which is no request in progress before it is parsed.
        return bool(any(incoming.awaited for incoming in self._in_flight.copy().values()) or self._writing
                    or any(self._workers.running_on(thread) is None for thread in list(self._reading.behind)))

    def _end_requests(self, error: Exception) -> None:
        self.cancel_all("the connection is over")
        try:
            self._handler.on_close(error)
        finally:
            self._ended.set()

    def wait_closed(self, timeout: Optional[float] = None) -> bool:
        """Block until the connection is over; return whether it is."""
        return wait_interruptibly(self._ended.wait, timeout)

    def close(self, error: Optional[Exception] = None, timeout: float = 2.0) -> None:
        """End the connection and close the channel; idempotent, callable from any thread.

        :param error: raised by the calls that wait; by default a ConnectionClosed that says which side closed.
        :param timeout: seconds to wait for the reading thread to leave the channel.
        """
        if self.foreign:
            return
        if error is None and not (self._serving or self.closed or self.channel.carries_headers):
            # A server answers what is in progress at the end of its input, and these answers are not wanted.
            self.cancel_calls("the client has closed the connection")
        self._fail(error or ConnectionClosed(f"the connection to {self.name} was closed on this side"))
        if not self.channel.interruptible:
            # Only its end wakes the reading thread there, so waiting for that thread first would be in vain.
            self.channel.close()
        try:
            if not self._reading.stop(timeout) and self.channel.interruptible:
                _log.warning("the reading thread of %s did not stop within %g s", self.name, timeout)
        finally:
            self.channel.close()
            if self._answers is not None:
                self._answers.stop()
        self._reading.join(timeout)
        if self._answers is not None:
            self._answers.join(Deadline(timeout))

    def let_go(self, owner: int) -> None:
        """Let go of the connection in a forked process; the client or the runtime that has it calls this there.

        The other side must not notice it, and no call may wait for an answer that comes elsewhere.

        :param owner: the id of the process that has the connection.
        """
        self.foreign = True
        self.channel.let_go(owner)
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._ended.set()
        instead = "only that process can reach it" if self._serving else "open one in this process"
        error = self._error = self._error or foreign_error(self.name, owner, instead)
        for pending in self._pending.values():
            pending.outcome = pending.outcome or error
        for incoming in self._in_flight.values():
            incoming.let_go()
        self._pending, self._in_flight = {}, {}
        self._reading.let_go()

"""Reading over Streamable HTTP: each caller posts its own request and reads its own response.

There is no reading thread and no hand-over: the caller's thread deals with all that arrives in the response of its call
(progress, requests of the server's handler, the answer). When the response breaks off, the caller resumes the stream
(RES-04), as long as its own time lasts. A :class:`ResumableStream` knows the last event id and the pause before the next
attempt; the GET stream resumes by it too.
"""

import random
import re
import time
from typing import Callable, Dict, Optional

from ...errors import AuthError, HTTPStatusError, ProtocolError, SessionLost, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...protocol.http.sse import EventParser
from ...protocol.meta import REPEATABLE
from ...rpc.deadline import Sleepers
from ...rpc.interfaces import Channel, Reading
from ...rpc.pending import Pending
from .http_endpoint import HTTPEndpoint

__all__ = ["HTTPReading", "ResumableStream"]

#: Seconds of the longest backoff, however many attempts have failed.
_LONGEST_DELAY = 30.0
#: Bounds in seconds of the delay that a server asks for; the lower one so that the client does not spin (REL-46).
_SHORTEST_RETRY, _LONGEST_RETRY = 0.1, 60.0


class ResumableStream:
    """One event stream, across the connections that carry it.

    :param limit: bytes that one message may have.
    :param receive: takes each message.
    """

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        self._limit = limit
        self._receive = receive
        self._parser = EventParser(limit)
        #: The id of the last event as it came; empty when there is nothing to resume from.
        self._id = ""
        #: Attempts that have failed since the last one that succeeded.
        self.failures = 0
        #: Seconds that the server asks to wait (HTTP-17); None while it has not said.
        self.retry: Optional[float] = None

    @property
    def last_id(self) -> Optional[str]:
        """The id of the last event, to resume behind it (RES-04); None when there is nothing to resume from.

        It is as a header has it, which is sent as Latin-1: the bytes of the id, as they came. Control characters cannot
        stand in a header.
        """
        written = self._id.encode("utf-8", "surrogateescape").decode("latin-1")
        return re.sub(r"[\x00-\x1f\x7f]", "", written).strip(" ") or None

    def forget_id(self) -> None:
        """Drop the id of the last event, which the server no longer has: the stream begins with what comes from now on."""
        self._id = ""

    def begin(self) -> None:
        """Note that a new connection carries the stream from here; an unfinished event is dropped."""
        self._parser = EventParser(self._limit)

    def feed(self, data: bytes) -> bool:
        """Parse what a connection has brought; return whether there was a message in it.

        :raises ProtocolError: an event is too large.
        """
        useful = False
        for event in self._parser.feed(data):
            if event.id is not None:
                self._id = event.id
            if event.retry is not None:
                self.retry = min(max(event.retry / 1000, _SHORTEST_RETRY), _LONGEST_RETRY)
            if event.data and event.event == "message":
                useful = True
                self._receive(event.data)
        return useful

    def delay(self) -> float:
        """Return the seconds until the next attempt: what the server asks for, doubled with each failure, with jitter."""
        if self.retry is not None and not self.failures:
            return self.retry
        backoff = min((self.retry or 1.0) * 2.0 ** max(self.failures - 1, 0), _LONGEST_DELAY)
        return max(self.retry or 0.0, backoff * random.uniform(0.75, 1.25))


#: Seconds that a read blocks at most: another response may have brought the answer meanwhile.
_SLICE_SECONDS = 1.0
#: Seconds without a byte of an event stream after which its connection is taken for broken.
_SILENT_SECONDS = 300.0
#: Seconds that the end of a response may come behind its answer, for the connection to be used again.
_TAIL_SECONDS = 0.05
#: Attempts to resume a stream, in a row, before the call fails.
_MOST_ATTEMPTS = 5


class _ResponseState:
    """The response to one call, as far as it has been read."""

    __slots__ = ("exchange", "reply", "stream", "last_data_at", "broken", "drain_until")

    def __init__(self, stream: ResumableStream) -> None:
        self.exchange: Optional[Exchange] = None
        #: The event stream that is read now; None before, after, and between two connections.
        self.reply: Optional[Reply] = None
        self.stream = stream
        #: When the last data came.
        self.last_data_at = 0.0
        #: Why the stream is not read any more, if it broke.
        self.broken: Optional[Exception] = None
        #: Until when the end of the response is read, once the answer has come.
        self.drain_until: Optional[float] = None


class HTTPReading(Reading):
    """The reading of a Streamable HTTP channel.

    :param receive: takes each message.
    """

    def __init__(self, channel: Channel, endpoint: HTTPEndpoint, receive: Callable[[bytes], None]) -> None:
        super().__init__(channel)
        self._endpoint = endpoint
        self._receive = receive
        self._calls: Dict[int, _ResponseState] = {}
        self._stopped = False
        #: The ids of the calls whose threads are in a read or a write. Without a lock: each change is one step in C.
        self._busy: Dict[int, None] = {}
        #: Of ``_busy``, for :meth:`stop`.
        self._left = Sleepers()

    # --- the caller's thread --------------------------------------------------------------------------

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        call = self._calls[pending.id] = _ResponseState(ResumableStream(self._endpoint.line_limit, self._receive))
        pending.reads = True
        self._busy[pending.id] = None
        try:
            self._post(pending, call, data)
        except Stopped:
            return  # the thread that stopped it has left a reason with the call
        finally:
            self._leave(pending)

    def _post(self, pending: Pending, call: _ResponseState, data: bytes) -> None:
        first: Optional[TransportError] = None
        while True:
            exchange = self._create_exchange(pending, call)
            try:
                reply = self._endpoint.post(exchange, data, pending.method == "initialize", pending.beside)
                break
            except TransportError as error:
                # The server may have closed a keep-alive connection at this very moment.
                error.stale = exchange.reused and not exchange.answered
                if first is not None:
                    raise error.of_second_attempt(first) from error
                if error.stale and pending.method not in REPEATABLE:
                    raise TransportError(f"{error}, so {pending.method!r} was not sent again") from error
                # Without a session a repeated request needs another id (H26-22), which is not given here.
                if not error.stale or pending.beside is not None:
                    raise
                first = error
        if 200 <= reply.status < 300 and reply.kind == "text/event-stream":
            reply.check_plain()
            self._begin_stream(call, reply)
        elif 200 <= reply.status < 300 and reply.kind == "application/json":
            self._receive(reply.read(self._endpoint.line_limit))
            if pending.outcome is None:
                raise ProtocolError(f"{self._endpoint.name} answered {pending.method!r} with JSON that is not its answer")
        elif 200 <= reply.status < 300:
            kind = reply.kind
            reply.close()
            raise ProtocolError(f"{self._endpoint.name} answered {pending.method!r} with {reply.status} and"
                                f" {kind[:60] or 'no content'}; an answer is application/json or text/event-stream."
                                " Is this the URL of an MCP server?")
        else:
            self._endpoint.handle_refusal(reply, pending.method, pending.id, self._receive)

    def wait(self, pending: Pending) -> None:
        call = self._calls[pending.id]
        self._busy[pending.id] = None
        try:
            while pending.outcome is None and not pending.interrupted and not pending.progress:
                remaining = pending.remaining()
                if self._stopped or (remaining is not None and remaining <= 0):
                    return
                if call.reply is None:
                    self._resume(pending, call)
                else:
                    self._read(call, call.reply)
        except Stopped:
            # In the middle of a read: the connection cannot be used for anything else.
            self._drop(call)
        finally:
            self._leave(pending)

    def _read(self, call: _ResponseState, reply: Reply) -> None:
        try:
            data = reply.read1()
        except TransportError as error:
            call.reply, call.broken = None, error
            return
        if not data:
            call.reply = None
            return
        call.last_data_at = time.monotonic()
        call.stream.feed(data)

    def _begin_stream(self, call: _ResponseState, reply: Reply) -> None:
        call.reply, call.broken, call.last_data_at = reply, None, time.monotonic()
        call.stream.begin()

    def _resume(self, pending: Pending, call: _ResponseState) -> None:
        """Wait as long as the server asks, and resume the stream behind its last event (RES-04, HTTP-18)."""
        if call.stream.last_id is None or pending.beside is not None:  # H26-22: a message without a session is not resumed
            raise TransportError(
                f"{self._endpoint.name} ended its response to {pending.method!r} without an answer"
                f"{f' ({call.broken})' if call.broken else ''}; it may or may not have done what was asked, so nothing"
                " is sent again") from call.broken
        if call.stream.failures >= _MOST_ATTEMPTS:
            raise TransportError(f"the connection to {self._endpoint.name} broke before {pending.method!r} was answered, and"
                                 f" {_MOST_ATTEMPTS} attempts to resume failed: {call.broken}") from call.broken
        if not self._sleep(pending, call.stream.delay()):
            return
        exchange = self._create_exchange(pending, call)
        try:
            reply = self._endpoint.get(exchange, call.stream.last_id)
        except (SessionLost, AuthError):
            raise  # not repeated: each attempt would ask the user again
        except TransportError as error:
            call.stream.failures += 1
            call.broken = error
            return
        if 200 <= reply.status < 300 and reply.kind == "text/event-stream":
            call.stream.failures = 0
            self._begin_stream(call, reply)
        elif reply.status >= 500 or reply.status in (408, 409, 429):
            call.stream.failures += 1
            call.broken = HTTPStatusError(f"{self._endpoint.name} answered with {reply.status}", status=reply.status)
            reply.close()
        else:
            status, text = reply.status, reply.excerpt()
            raise HTTPStatusError(
                f"the response of {self._endpoint.name} to {pending.method!r} broke off, and the server does not resume"
                f" it ({status}): {text[:200]}", status=status, body=text)

    def _sleep(self, pending: Pending, seconds: float) -> bool:
        """Sleep; return False when the call needs its thread before the time is over."""
        end = time.monotonic() + seconds
        while True:
            event = pending.prepare_sleep()
            remaining = pending.remaining()
            if (self._stopped or pending.outcome is not None or pending.interrupted or pending.progress
                    or (remaining is not None and remaining <= 0)):
                return False
            left = end - time.monotonic()
            if left <= 0:
                return True
            event.wait(left if remaining is None else min(left, remaining))

    def done(self, pending: Pending) -> None:
        call = self._calls.pop(pending.id, None)
        self._leave(pending)
        if call is None:
            return
        if pending.lasting and pending.outcome is not None:
            self._channel.ask_again_seconds = call.stream.retry
        self._finish_response(pending, call)
        # Its functions refer to this call, and a circle would keep the result until the garbage collector comes.
        call.exchange = call.reply = None

    def _finish_response(self, pending: Pending, call: _ResponseState) -> None:
        """Read to the end of the response, so that its connection can be used again."""
        if call.reply is None:
            return
        if pending.outcome is None:
            self._drop(call)  # the call was given up, so that nothing reads the rest of the response
            return
        # The end of a response follows its answer, most often in the same packet.
        reply = call.reply
        call.drain_until = time.monotonic() + _TAIL_SECONDS
        try:
            while reply.read1():
                continue
        except (Stopped, TransportError):
            reply.close()

    def _drop(self, call: _ResponseState) -> None:
        if call.reply is not None:
            call.reply.close()
            call.reply = None

    # --- time ---------------------------------------------------------------------------------------------

    def _create_exchange(self, pending: Pending, call: _ResponseState) -> Exchange:
        def next_timeout() -> float:
            if call.drain_until is not None:
                seconds: Optional[float] = call.drain_until - time.monotonic()
            elif self._stopped or pending.interrupted or pending.outcome is not None:
                raise Stopped
            elif (call.reply is not None and time.monotonic() - call.last_data_at > _SILENT_SECONDS
                  and not (pending.beside is not None and pending.method not in REPEATABLE)):
                # A call without a session would be cancelled with its response (H26-10): its own timeout decides.
                raise TimeoutError(f"nothing came for {_SILENT_SECONDS:g} s")
            else:
                seconds = pending.remaining()
            if seconds is None:
                return _SLICE_SECONDS
            if seconds <= 0:
                raise Stopped
            return min(seconds, _SLICE_SECONDS)

        exchange = call.exchange = Exchange(next_timeout, pending.remaining, pending.clock)
        if self._stopped or pending.interrupted:
            raise Stopped
        return exchange

    def interrupt(self, pending: Pending) -> None:
        call = self._calls.get(pending.id)
        exchange = None if call is None else call.exchange  # once, since done() takes it off the call
        if exchange is not None:
            exchange.interrupt()

    def _leave(self, pending: Pending) -> None:
        self._busy.pop(pending.id, None)
        if self._stopped:
            self._left.notify()

    def stop(self, timeout: float) -> bool:
        self._stopped = True
        for call in list(self._calls.values()):
            exchange = call.exchange
            if exchange is not None:
                exchange.interrupt()
        return self._left.wait_for(lambda: not self._busy, timeout)

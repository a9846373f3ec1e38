"""How answers come over Streamable HTTP: each caller posts its own request and reads its own response.

There is no reader and no hand-over: what arrives in the response of a call (its progress, the questions
of its handler, its answer) is dealt with on the caller's thread. When the response breaks off, the
caller comes back to the stream for the rest (RES-04), as long as its own time lasts.
"""

import threading
import time
from typing import TYPE_CHECKING, Callable, Dict, Optional

from ...errors import AuthError, HTTPStatusError, ProtocolError, SessionLost, TransportError
from ...net.link import Exchange, Reply, Stopped
from ...protocol.methods import REPEATABLE
from ...rpc.interfaces import Reading
from ...rpc.pending import Pending
from .resumption import Following

if TYPE_CHECKING:
    from .channel import HTTPChannel

__all__ = ["HTTPReading"]

#: How often a thread that reads looks up: another response may have brought its answer.
_SLICE = 1.0
#: Seconds without a byte of an event stream after which its connection is taken for broken.
_SILENT_SECONDS = 300.0
#: How long the end of a response may come behind its answer, for the connection to be used again.
_TAIL_SECONDS = 0.05
#: Attempts to come back to a stream, in a row, before the call fails.
_ATTEMPTS = 5


class _Call:
    """One call that is on its way."""

    __slots__ = ("exchange", "reply", "following", "heard", "broken", "drain_until")

    def __init__(self, following: Following) -> None:
        self.exchange: Optional[Exchange] = None
        #: The event stream that is read now; None before, after, and between two.
        self.reply: Optional[Reply] = None
        self.following = following
        #: When the stream has said something.
        self.heard = 0.0
        #: Why the stream is not read any more, if it broke.
        self.broken: Optional[Exception] = None
        self.drain_until: Optional[float] = None


class HTTPReading(Reading):
    """The reading of a Streamable HTTP channel.

    :param receive: takes each message.
    """

    def __init__(self, channel: "HTTPChannel", receive: Callable[[bytes], None]) -> None:
        super().__init__(channel)
        self._http = channel
        self._receive = receive
        self._calls: Dict[int, _Call] = {}
        self._stopped = False
        #: Guards ``_inside``: how many threads are in a read or a write; waited on by :meth:`stop`.
        self._left = threading.Condition()
        self._inside = 0

    # --- the caller's thread --------------------------------------------------------------------------

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        call = self._calls[pending.id] = _Call(Following(self._http.line_limit, self._receive))
        self._enter()
        try:
            self._post(pending, call, data)
        except Stopped:
            return  # whoever stopped it has left a reason with the call
        finally:
            self._leave()

    def _post(self, pending: Pending, call: _Call, data: bytes) -> None:
        for attempt in (1, 2):
            exchange = self._exchange(pending, call)
            try:
                reply = self._http.post(exchange, data, pending.method == "initialize", pending.beside)
                break
            except TransportError as error:
                # A connection that rested may have been closed by the server just now.
                error.stale = exchange.used and not exchange.answered
                # Without a session what is sent again has another id (H26-22), which is not given here.
                if attempt == 2 or pending.method not in REPEATABLE or not error.stale or pending.beside is not None:
                    raise
        if reply.status == 200 and reply.kind == "text/event-stream":
            reply.check_plain()
            self._stream(call, reply)
        elif 200 <= reply.status < 300 and reply.kind == "application/json":
            self._receive(reply.read(self._http.line_limit))
            if pending.outcome is None:
                raise ProtocolError(f"{self._http.name} answered {pending.method!r} with JSON that is not its answer")
        elif 200 <= reply.status < 300:
            kind = reply.kind
            reply.close()
            raise ProtocolError(f"{self._http.name} answered {pending.method!r} with {reply.status} and"
                                f" {kind[:60] or 'no content'}; an answer is application/json or text/event-stream."
                                " Is this the URL of an MCP server?")
        else:
            self._http.refused(reply, pending.method, pending.id, self._receive)

    def wait(self, pending: Pending) -> None:
        call = self._calls[pending.id]
        self._enter()
        try:
            while pending.outcome is None and not pending.interrupted and not pending.progress:
                remaining = pending.remaining()
                if self._stopped or (remaining is not None and remaining <= 0):
                    return
                if call.reply is None:
                    self._come_back(pending, call)
                else:
                    self._read(call, call.reply)
        except Stopped:
            # In the middle of a read: what comes next on that connection cannot be told.
            self._drop(call)
        finally:
            self._leave()

    def _read(self, call: _Call, reply: Reply) -> None:
        try:
            data = reply.read1()
        except TransportError as error:
            call.reply, call.broken = None, error
            return
        if not data:
            call.reply = None
            return
        call.heard = time.monotonic()
        call.following.take(data)

    def _stream(self, call: _Call, reply: Reply) -> None:
        call.reply, call.broken, call.heard = reply, None, time.monotonic()
        call.following.begin()

    def _come_back(self, pending: Pending, call: _Call) -> None:
        """Wait as long as the server wants, and go on with the stream behind the last event (RES-04, HTTP-18)."""
        if call.following.last_id is None or pending.beside is not None:  # H26-22: then nothing goes on
            raise TransportError(
                f"{self._http.name} ended its response to {pending.method!r} without an answer"
                f"{f' ({call.broken})' if call.broken else ''}; it may or may not have done what was asked, so nothing"
                " is sent again") from call.broken
        if call.following.failures >= _ATTEMPTS:
            raise TransportError(f"the connection to {self._http.name} broke while {pending.method!r} was in work, and"
                                 f" {_ATTEMPTS} attempts to go on failed: {call.broken}") from call.broken
        if not self._sleep(pending, call.following.delay()):
            return
        exchange = self._exchange(pending, call)
        try:
            reply = self._http.get(exchange, call.following.last_id)
        except (SessionLost, AuthError):
            raise  # a user is not asked by each attempt anew
        except TransportError as error:
            call.following.failures += 1
            call.broken = error
            return
        if reply.status == 200 and reply.kind == "text/event-stream":
            call.following.failures = 0
            self._stream(call, reply)
        elif reply.status >= 500 or reply.status in (408, 409, 429):
            call.following.failures += 1
            call.broken = HTTPStatusError(f"{self._http.name} answered with {reply.status}", status=reply.status)
            reply.close()
        else:
            status, text = reply.status, reply.excerpt()
            raise HTTPStatusError(
                f"the response of {self._http.name} to {pending.method!r} broke off, and the server does not go on with"
                f" it ({status}): {text[:200]}", status=status, body=text)

    def _sleep(self, pending: Pending, seconds: float) -> bool:
        """Sleep; False when the call needs its thread before the time is over."""
        end = time.monotonic() + seconds
        while True:
            event: threading.Event = pending.prepare_sleep()
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
        if call is None or call.reply is None:
            return
        if pending.outcome is None:
            self._drop(call)  # given up: the rest of the response is nobody's
            return
        # The end of a response follows its answer, most often in the same packet.
        reply = call.reply
        call.drain_until = time.monotonic() + _TAIL_SECONDS
        try:
            while reply.read1():
                continue
        except (Stopped, TransportError):
            reply.close()

    def _drop(self, call: _Call) -> None:
        if call.reply is not None:
            call.reply.close()
            call.reply = None

    # --- time ---------------------------------------------------------------------------------------------

    def _exchange(self, pending: Pending, call: _Call) -> Exchange:
        def left() -> float:
            if call.drain_until is not None:
                seconds: Optional[float] = call.drain_until - time.monotonic()
            elif self._stopped or pending.interrupted or pending.outcome is not None:
                raise Stopped
            elif (call.reply is not None and time.monotonic() - call.heard > _SILENT_SECONDS
                  and not (pending.beside is not None and pending.method not in REPEATABLE)):
                # A call that stands for itself would be lost with its response (H26-10): its own time limit counts.
                raise TimeoutError(f"nothing came for {_SILENT_SECONDS:g} s")
            else:
                seconds = pending.remaining()
            if seconds is None:
                return _SLICE
            if seconds <= 0:
                raise Stopped
            return min(seconds, _SLICE)

        exchange = call.exchange = Exchange(left, pending.remaining, pending.clock)
        if self._stopped or pending.interrupted:
            raise Stopped
        return exchange

    def interrupt(self, pending: Pending) -> None:
        call = self._calls.get(pending.id)
        if call is not None and call.exchange is not None:
            call.exchange.interrupt()

    def _enter(self) -> None:
        with self._left:
            self._inside += 1

    def _leave(self) -> None:
        with self._left:
            self._inside -= 1
            if not self._inside:
                self._left.notify_all()

    def stop(self, timeout: float) -> bool:
        self._stopped = True
        for call in list(self._calls.values()):
            if call.exchange is not None:
                call.exchange.interrupt()
        with self._left:
            return self._left.wait_for(lambda: not self._inside, timeout)

"""The channel to one server over Streamable HTTP: sends and reads calls, and owns the endpoint and the exchanges in progress.

``connect()`` makes it for a URL. No thread reads for others: each caller posts its own request, and its thread processes
everything that arrives in the response (progress, requests of the server's handler, the answer). If the response breaks off,
the caller resumes the stream (RES-04), within the time limits of its call.
"""

import contextlib
import threading
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Set

from ...errors import AuthError, ConnectionClosed, HTTPStatusError, ProtocolError, RequestTimeout, SessionLost, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...protocol.meta import REPEATABLE
from ...rpc.deadline import Deadline, Sleepers
from ...rpc.forks import renew
from ...rpc.interfaces import Channel, Network, Reading
from ...rpc.pending import Clock, Pending
from ...rpc.threads import Workers
from ...rpc.tracing import get_logger
from .http_endpoint import SILENT_SECONDS, SLICE_SECONDS, GetStream, HTTPEndpoint, ResumableStream, network_of, next_timeout_of

__all__ = ["HTTPChannel", "HTTPReading"]

_log = get_logger(__name__)
#: If the end of a response comes within this many seconds after its answer, the connection is used again.
_TAIL_SECONDS = 0.05
#: Attempts to resume a stream, in a row, before the call fails.
_MOST_ATTEMPTS = 5


class _ResponseState(ResumableStream):
    """The response to one call, as far as it has been read."""

    exchange: Optional[Exchange] = None
    #: The event stream that is read now; None before, after, and between two connections.
    reply: Optional[Reply] = None
    #: When the last data came.
    last_data_at = 0.0
    #: The error that broke the stream; None once it is resumed.
    broken: Optional[Exception] = None
    #: Until when the end of the response is read, once the answer has come.
    drain_until: Optional[float] = None


class HTTPReading(Reading):
    """The reading of a Streamable HTTP channel.

    :param receive: takes each message; it is ``Peer.receive``.
    """

    def __init__(self, channel: Channel, endpoint: HTTPEndpoint, receive: Callable[[bytes], None]) -> None:
        super().__init__(channel)
        self._endpoint = endpoint
        self._receive = receive
        self._calls: Dict[int, _ResponseState] = {}
        self._stopped = False
        #: The ids of the calls whose threads are in a read or a write. Without a lock: each change is one step in C.
        self._busy: Dict[int, None] = {}
        #: Wakes :meth:`stop`, which waits until ``_busy`` is empty.
        self._left = Sleepers()

    # --- the caller's thread --------------------------------------------------------------------------

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        call = self._calls[pending.id] = _ResponseState(self._endpoint.line_limit, self._receive)
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
                # Without a session a repeated request needs another id (H26-22), so it is not repeated here, but by
                # ModernClientSession.
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
            # A read ended in its middle, so no other request can use the connection.
            if call.reply is not None:
                call.reply.close()
                call.reply = None
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
        call.feed(data)

    def _begin_stream(self, call: _ResponseState, reply: Reply) -> None:
        call.reply, call.broken, call.last_data_at = reply, None, time.monotonic()
        call.begin()

    def _resume(self, pending: Pending, call: _ResponseState) -> None:
        """Wait as long as the server asks, and resume the stream behind its last event (RES-04, HTTP-18)."""
        if call.last_id is None or pending.beside is not None:  # H26-22: a message without a session is not resumed
            raise TransportError(
                f"{self._endpoint.name} ended its response to {pending.method!r} without an answer"
                f"{f' ({call.broken})' if call.broken else ''}. As it may or may not have done what was asked, the request was"
                " not repeated") from call.broken
        if call.failures >= _MOST_ATTEMPTS:
            raise TransportError(f"the connection to {self._endpoint.name} broke before {pending.method!r} was answered, and"
                                 f" {_MOST_ATTEMPTS} attempts to resume failed: {call.broken}") from call.broken
        if not self._sleep(pending, call.delay()):
            return
        exchange = self._create_exchange(pending, call)
        try:
            reply = self._endpoint.get(exchange, call.last_id)
        except (SessionLost, AuthError):
            raise  # not repeated: each attempt would ask the user again
        except TransportError as error:
            call.failures += 1
            call.broken = error
            return
        if 200 <= reply.status < 300 and reply.kind == "text/event-stream":
            call.failures = 0
            self._begin_stream(call, reply)
        elif reply.status >= 500 or reply.status in (408, 409, 429):
            call.failures += 1
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
            self._channel.ask_again_seconds = call.retry
        reply = call.reply
        if reply is not None and pending.outcome is None:
            reply.close()  # the call was given up, so that nothing reads the rest of the response
        elif reply is not None:
            # The end of the response follows the answer, most often in the same packet. After it the connection can be used
            # again.
            call.drain_until = time.monotonic() + _TAIL_SECONDS
            try:
                while reply.read1():
                    continue
            except (Stopped, TransportError):
                reply.close()
        # The exchange has functions that refer to this call. This cycle of references would keep the result until the garbage
        # collector runs.
        call.exchange = call.reply = None

    # --- time ---------------------------------------------------------------------------------------------

    def _create_exchange(self, pending: Pending, call: _ResponseState) -> Exchange:
        def next_timeout() -> float:
            if call.drain_until is not None:
                seconds: Optional[float] = call.drain_until - time.monotonic()
            elif self._stopped or pending.interrupted or pending.outcome is not None:
                raise Stopped
            elif (call.reply is not None and time.monotonic() - call.last_data_at > SILENT_SECONDS
                  and not (pending.beside is not None and pending.method not in REPEATABLE)):
                # To end the response of a call without a session would cancel the call (H26-10), so only its own timeout ends
                # it.
                raise TimeoutError(f"nothing came for {SILENT_SECONDS:g} s")
            else:
                seconds = pending.remaining()
            if seconds is None:
                return SLICE_SECONDS
            if seconds <= 0:
                raise Stopped
            return min(seconds, SLICE_SECONDS)

        exchange = call.exchange = Exchange(next_timeout, pending.remaining, pending.clock)
        if self._stopped or pending.interrupted:
            raise Stopped
        return exchange

    def interrupt(self, pending: Pending) -> None:
        call = self._calls.get(pending.id)
        exchange = None if call is None else call.exchange  # read once, since done() may set it to None meanwhile
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


#: Seconds for a message that must not be waited for, such as the end of the session.
_SOON_SECONDS = 2.0
#: Seconds for which an answer that did not arrive is sent again, and between the attempts at first and at most.
_AGAIN_SECONDS, _FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 0.5, 5.0
#: How many answers are sent again at a time, each by a thread of its own.
_MOST_AGAIN = 32
#: Statuses by which a server of 2024 answers a POST to the URL of its stream (LSSE-13).
_MAYBE_OLDER = frozenset({400, 404, 405, 406, 415, 422})


def _may_arrive_later(error: Exception) -> bool:
    """Whether a message may be taken when it is sent again: the connection broke, or the server is busy for a while."""
    if isinstance(error, HTTPStatusError):
        return error.retry_after is not None
    return type(error) in (TransportError, RequestTimeout)


def _is_answer(data: bytes) -> bool:
    return isinstance(jsonrpc.parse(data), (jsonrpc.Response, jsonrpc.Failure))


def _ignore(data: bytes) -> None:
    """Discard an answer to a message that is no request."""


class HTTPChannel(Channel):
    """The channel to the server at one URL.

    :param url: of the endpoint.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :param listen: whether to open the GET stream, on which a server sends messages that belong to no call.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    interruptible = True
    carries_headers = True
    reopens_after_fork = True

    def __init__(self, url: str, settings: HTTPSettings = HTTPSettings(), *, line_limit: int = 16 << 20,
                 listen: bool = True) -> None:
        self._url, self._settings, self._line_limit = url, settings, line_limit
        self._endpoint = HTTPEndpoint(url, settings, line_limit)
        self.name = self._endpoint.name
        self._listens = listen
        self._receive: Callable[[bytes], None] = _ignore
        self._workers: Optional[Workers] = None
        #: Guards the fields below; held for set work and assignments.
        self._lock = threading.Lock()
        self._exchanges: Set[Exchange] = set()
        self._get_stream: Optional[GetStream] = None
        self._closed = False
        #: Set when it is closed: nothing is sent again.
        self._closing = threading.Event()
        #: Bounds the answers that are sent again at a time: if a server breaks the connection of each, there must not be a
        #: thread for each.
        self._again = threading.Semaphore(_MOST_AGAIN)

    def let_go(self, owner: int) -> None:
        # The session and the listening thread belong to the other process.
        renew(self)
        self._closed, self._get_stream = True, None
        self._exchanges.clear()

    @property
    def network(self) -> Network:
        return network_of(self._url)

    def accompany(self, values: Callable[[], Any]) -> None:
        self._endpoint.added_headers = values

    @property
    def session_id(self) -> str:
        return self._endpoint.session_id

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> HTTPReading:
        self._receive, self._workers = receive, workers
        return HTTPReading(self, self._endpoint, receive)

    # --- notifications and answers -------------------------------------------------------------------

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        try:
            self._write(data, timeout, None)
        except (TransportError, RequestTimeout) as error:
            # A handler of the server waits for this answer. If the answer arrives twice, the server takes it once, by its id.
            if self._closed or self._workers is None or not _may_arrive_later(error) or not _is_answer(data):
                raise
            if not self._again.acquire(blocking=False):
                raise
            _log.debug("an answer to %s is sent again: %s", self.name, error)
            # Another thread sends it again, since this one may have other answers to send. That thread ends with the channel.
            try:
                self._workers.spawn(lambda: self._write_again(data))
            except TransportError:
                self._again.release()
                raise

    def _write_again(self, data: bytes) -> None:
        until, pause = time.monotonic() + _AGAIN_SECONDS, _FIRST_PAUSE
        try:
            while not self._closing.wait(pause):
                try:
                    return self._write(data, max(0.001, until - time.monotonic()), None, may_log_in=False)
                except (TransportError, RequestTimeout) as error:
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    if not self._closed and (not _may_arrive_later(error) or time.monotonic() + pause > until):
                        return _log.warning("an answer did not reach %s: %s", self.name, error)
        finally:
            self._again.release()

    def write_beside(self, data: bytes, beside: Mapping[str, str], timeout: Optional[float] = None) -> None:
        self._write(data, timeout, beside)

    def _write(self, data: bytes, timeout: Optional[float], beside: Optional[Mapping[str, str]],
               may_log_in: bool = True) -> None:
        if self._closed:
            raise ConnectionClosed(f"the connection to {self.name} is closed")
        try:
            with self._open_exchange(timeout, may_log_in=may_log_in) as exchange:
                reply = self._endpoint.post(exchange, data, beside=beside)
                if not 200 <= reply.status < 300:
                    self._endpoint.handle_refusal(reply, "a notification or an answer", None, _ignore)
                elif reply.kind == "text/event-stream":
                    reply.close()
                else:
                    reply.excerpt()
        except Stopped:
            if self._closed:
                raise ConnectionClosed(f"the connection to {self.name} was closed on this side") from None
            raise RequestTimeout(f"{self.name} did not take a message within {timeout or 0:g} s") from None

    def write_soon(self, data: bytes) -> None:
        workers = self._workers
        if workers is not None and not self._closed:
            workers.spawn(lambda: self._try_write(data))

    def _try_write(self, data: bytes) -> None:
        try:
            self._write(data, _SOON_SECONDS, None, may_log_in=False)
        except (TransportError, RequestTimeout) as error:
            _log.debug("not sent to %s: %s", self.name, error)

    @contextlib.contextmanager
    def _open_exchange(self, seconds: Optional[float], after_close: bool = False, may_log_in: bool = True
                       ) -> Iterator[Exchange]:
        """Return an exchange that ends after some time and, unless *after_close*, with the channel.

        :param seconds: that it may last; None for no limit.
        :param may_log_in: whether a user may be asked to log in for it; that time does not count.
        """
        clock = Clock()
        deadline = Deadline(seconds, clock.now)
        exchange = Exchange(next_timeout_of(deadline.remaining, lambda: self._closed and not after_close), deadline.remaining,
                            clock if may_log_in else None)
        exchange.may_log_in = may_log_in
        with self._lock:
            self._exchanges.add(exchange)
        try:
            yield exchange
        finally:
            with self._lock:
                self._exchanges.discard(exchange)

    # --- life -----------------------------------------------------------------------------------------

    def set_version(self, version: Optional[str]) -> None:
        self._endpoint.version = version

    def listen(self, on_session_lost: Callable[[str], object], timeout: float) -> None:
        if not self._listens:
            return
        stream = GetStream(self._endpoint, self._receive, lambda error: on_session_lost(error.session))
        with self._lock:
            if self._closed:
                return
            before, self._get_stream = self._get_stream, stream
        if before is not None:
            before.stop()
        stream.start(timeout)

    def alternative(self, error: Exception) -> Optional[Channel]:
        if not isinstance(error, HTTPStatusError) or error.status not in _MAYBE_OLDER:
            return None
        from .sse_channel import SSEChannel

        return SSEChannel(self._url, self._settings, line_limit=self._line_limit)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._closing.set()
            exchanges = list(self._exchanges)
            stream = self._get_stream
        for exchange in exchanges:
            exchange.interrupt()
        if stream is not None:
            stream.stop()
        if self._endpoint.session_id:
            self._end_session(self._endpoint.session_id)
        self._endpoint.close()

    def restore_session_id(self, lost: str) -> None:
        begun, self._endpoint.session_id = self._endpoint.session_id, lost
        if begun and begun != lost and self._workers is not None:
            self._workers.spawn(lambda: self._end_session(begun))

    def _end_session(self, id: str) -> None:
        try:
            with self._open_exchange(_SOON_SECONDS, after_close=True, may_log_in=False) as exchange:
                self._endpoint.end_session(exchange, id)
        except (TransportError, Stopped) as error:
            _log.debug("the end of the session was not sent to %s: %s", self.name, error)

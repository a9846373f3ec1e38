"""The channel to one server over Streamable HTTP: owns the endpoint, the exchanges in progress and the GET stream.

``connect()`` makes it for a URL. Calls are posted and read by :mod:`.http_endpoint`; this module sends what is no call.
The GET stream carries what the server sends that belongs to no call; each session of the legacy era has one.
"""

import contextlib
import threading
import time
from typing import Any, Callable, Iterator, Mapping, Optional, Set

from ...errors import AuthError, ConnectionClosed, HTTPStatusError, MCPError, RequestTimeout, SessionLost, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...rpc.deadline import Deadline
from ...rpc.forks import renew
from ...rpc.interfaces import Channel, Network
from ...rpc.threads import Loop, Workers
from ...rpc.tracing import get_logger
from .http_endpoint import HTTPEndpoint, HTTPReading, ResumableStream, network_of, next_timeout_of, says_no_session

__all__ = ["GetStream", "HTTPChannel"]

_log = get_logger(__name__)
#: Seconds that a read or write blocks at most before it checks whether the channel was closed.
_SLICE_SECONDS = 1.0
#: Seconds without a byte, not even a comment, after which the server is taken for gone; servers send something far
#: more often to keep a stream alive.
_SILENT_SECONDS = 300.0
#: Seconds that the beginning of a session waits for the stream: some servers begin their response with the first event only.
_START_SECONDS = 0.1
#: Seconds of a stream without a message after which its end shows no fault of the server.
_STEADY_SECONDS = 5.0
#: Seconds between two streams at least, and at most where a server ends each of them at once. One that says how long to wait
#: may want to be polled, so it is: then the last is the longest pause of ours.
_SHORTEST_PAUSE, _LONGEST_STREAM_PAUSE, _LONGEST_POLL = 0.5, 30.0, 5.0
#: Error codes that a new token would not cure.
_FINAL_ERRORS = frozenset({"invalid_token", "insufficient_scope"})


class GetStream:
    """Listens to one session on a daemon thread, and resumes when the stream breaks (HTTP-28, RES-04).

    The thread is started with the session; it is ended by :meth:`stop`, by a server that offers no such stream, or by the
    end of the session; it blocks on the stream and on its own pauses.

    :param receive: takes each message.
    :param on_lost: called when the server does not know the session any more.
    """

    def __init__(self, endpoint: HTTPEndpoint, receive: Callable[[bytes], None],
                 on_lost: Callable[[SessionLost], object]) -> None:
        self._endpoint = endpoint
        self._stream = ResumableStream(endpoint.line_limit, receive)
        self._on_lost = on_lost
        self._stop = threading.Event()
        self._exchange: Optional[Exchange] = None
        #: Whether a user may be asked to log in for the stream: until that has failed once (AUTH-46).
        self._may_log_in = True
        #: When the last data came; None while there is no stream.
        self._last_data_at: Optional[float] = None
        #: How many streams in a row have ended soon and without a message.
        self._ended_early = 0
        #: Whether there has been a stream.
        self._offered = False
        #: Set when the server has answered for the first time, in whatever way.
        self._answered = threading.Event()
        self._loop = Loop(f"listener of {endpoint.name}", self._run, self._stop.wait)

    def start(self, timeout: float) -> None:
        """Start to listen; return when the stream is there, or the server takes long to answer.

        Nothing that the server sends from then on is missed. Some servers begin their response with the first event only.

        :param timeout: seconds after which it returns as well.
        :raises TransportError: the system has no thread for it.
        """
        self._loop.start()
        self._answered.wait(max(0.0, min(_START_SECONDS, timeout)))

    def stop(self) -> None:
        """End the thread; callable from any thread, itself included."""
        self._stop.set()
        exchange = self._exchange
        if exchange is not None:
            exchange.interrupt()
        self._loop.join(Deadline(2 * _SLICE_SECONDS))

    def _next_timeout(self) -> float:
        if self._stop.is_set():
            raise Stopped
        if self._last_data_at is not None and time.monotonic() - self._last_data_at > _SILENT_SECONDS:
            raise TimeoutError(f"nothing came for {_SILENT_SECONDS:g} s")
        return _SLICE_SECONDS

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._listen():
                    return
            except Stopped:
                continue
            except SessionLost as error:
                if not self._stop.is_set():
                    self._report_lost(error)
                return
            except AuthError as error:
                if error.error in _FINAL_ERRORS:
                    _log.warning("%s refuses its GET stream to us: %s", self._endpoint.name, error)
                    return
                self._may_log_in = False
                self._stream.failures += 1
                _log.debug("no token for the GET stream of %s: %s", self._endpoint.name, error)
            except MCPError as error:
                self._stream.failures += 1
                _log.debug("the GET stream of %s broke: %s", self._endpoint.name, error)
            self._stop.wait(self._delay())

    def _delay(self) -> float:
        """Return the seconds until the next attempt: as for every stream, and longer where the server ends each at once."""
        longest = _LONGEST_STREAM_PAUSE if self._stream.retry is None else _LONGEST_POLL
        return max(min(_SHORTEST_PAUSE * 2.0 ** max(self._ended_early - 1, 0), longest), self._stream.delay())

    def _report_lost(self, error: SessionLost) -> None:
        try:
            self._on_lost(error)
        except Exception as failure:
            # The next call will meet it as well, and has a caller to tell.
            _log.warning("%s lost our session, and a new one could not be opened: %s", self._endpoint.name, failure)

    def _listen(self) -> bool:
        """Listen until the stream ends; return False when the server offers none."""
        exchange = self._exchange = Exchange(self._next_timeout)
        exchange.may_log_in = self._may_log_in
        try:
            reply = self._endpoint.get(exchange, self._stream.last_id)
        except SessionLost:
            if self._offered:
                raise
            # The session has just begun, so that 404 means that there is no such stream at all.
            _log.debug("%s offers no GET stream (404)", self._endpoint.name)
            return False
        finally:
            self._answered.set()
        if not 200 <= reply.status < 300 or reply.kind != "text/event-stream":
            return self._may_retry(reply)
        self._stream.begin()
        self._offered = self._may_log_in = True
        begun, useful = time.monotonic(), False
        try:
            reply.check_plain()
            while True:
                self._last_data_at = time.monotonic()
                data = reply.read1()
                self._stream.failures = 0
                if not data:
                    return True
                useful = self._stream.feed(data) or useful
        finally:
            self._last_data_at = None
            steady = useful or time.monotonic() - begun >= _STEADY_SECONDS
            self._ended_early = 0 if steady else self._ended_early + 1
            reply.close()

    def _may_retry(self, reply: Reply) -> bool:
        """Return whether to ask again after a response that is no stream.

        :raises SessionLost: the server does not know the session any more.
        :raises TransportError: to ask again later, with backoff.
        """
        status, text = reply.status, reply.excerpt() if reply.status == 400 else ""
        reply.close()
        if self._offered and says_no_session(reply, text):
            raise self._endpoint.session_lost(reply.session, unserved=False, text=text)
        if status == 400 and self._stream.last_id is not None:
            self._stream.forget_id()
            return True
        if status >= 500 or status in (408, 409, 429):
            raise TransportError(f"{self._endpoint.name} answered GET with {status}")
        # 405 is how a server says that it has no such stream (HTTP-24); others say so in other ways.
        _log.debug("%s offers no GET stream (%d)", self._endpoint.name, status)
        return False


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
    """Discard an answer that comes to something else than a request."""


class HTTPChannel(Channel):
    """The channel to the server at one URL.

    :param url: of the endpoint.
    :param line_limit: bytes that one message may have; default 16 MiB.
    :param listen: whether to open the GET stream, by which a server sends what belongs to no call.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    interruptible = True
    carries_beside = True
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
        #: For the answers that are sent again: a server that breaks the connection of each must not cost a thread for each.
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
            # A handler of the server waits for an answer. One that arrives twice is taken once, by its id.
            if self._closed or self._workers is None or not _may_arrive_later(error) or not _is_answer(data):
                raise
            if not self._again.acquire(blocking=False):
                raise
            _log.debug("an answer to %s is sent again: %s", self.name, error)
            # Not by this thread, which has other answers to send; that one ends with the channel.
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
            with self._open_exchange(Deadline(timeout), may_log_in=may_log_in) as exchange:
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
    def _open_exchange(self, deadline: Deadline, after_close: bool = False, may_log_in: bool = True) -> Iterator[Exchange]:
        """Return an exchange that ends with the deadline and, unless *after_close*, with the channel.

        :param may_log_in: whether a user may be asked to log in for it; the deadline is paused meanwhile.
        """
        exchange = Exchange(next_timeout_of(deadline.remaining, lambda: self._closed and not after_close), deadline.remaining,
                            deadline if may_log_in else None)
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
            with self._open_exchange(Deadline(_SOON_SECONDS), after_close=True, may_log_in=False) as exchange:
                self._endpoint.end_session(exchange, id)
        except (TransportError, Stopped) as error:
            _log.debug("the end of the session was not sent to %s: %s", self.name, error)

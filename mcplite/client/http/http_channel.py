"""The channel to one server over Streamable HTTP: owns the endpoint, the exchanges in progress and the GET stream.

``connect()`` makes it for a URL. Calls are posted and read by :mod:`.reading`; this module sends what is no call.
"""

import contextlib
import time
from typing import Any, Callable, Iterator, Mapping, Optional, Set

from ...errors import ConnectionClosed, HTTPStatusError, RequestTimeout, TransportError
from ...net.exchange import Exchange, Stopped
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...rpc.deadline import Deadline
from ...rpc.forks import new_lock, on_fork
from ...rpc.interfaces import Channel, Network
from ...rpc.threads import Workers
from ...rpc.tracing import RateLog, get_logger
from .get_stream import GetStream
from .http_endpoint import HTTPEndpoint, network_of
from .response_reading import HTTPReading

__all__ = ["HTTPChannel"]

_log = get_logger(__name__)
#: Seconds for a message that must not be waited for, such as the end of the session.
_SOON_SECONDS = 2.0
#: Seconds for which an answer that did not arrive is sent again, and between the attempts at first and at most.
_AGAIN_SECONDS, _FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 0.5, 5.0
#: How many answers are sent again at a time, each by a thread of its own.
_MOST_AGAIN = 32
#: Seconds that a read or write blocks at most before it checks whether the channel was closed.
_SLICE_SECONDS = 1.0
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
        self._lock = new_lock()
        self._exchanges: Set[Exchange] = set()
        self._get_stream: Optional[GetStream] = None
        self._closed = False
        #: How many answers are being sent again: a server that breaks the connection of each must not cost a thread for each.
        self._again = 0
        self._again_log = RateLog(_log)
        on_fork(self, HTTPChannel._let_go)

    def _let_go(self, owner: int) -> None:
        # In a forked process: the session and the listening thread belong to the other one.
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
            with self._lock:
                if self._again >= _MOST_AGAIN:
                    raise
                self._again += 1  # before there is a thread, so that there are never more than the limit
            _log.debug("an answer to %s is sent again: %s", self.name, error)
            # Not by this thread, which has other answers to send; that one ends with the channel.
            try:
                self._workers.spawn(lambda: self._write_again(data))
            except TransportError:
                self._end_again()
                raise

    def _write_again(self, data: bytes) -> None:
        try:
            self._attempt_again(data)
        finally:
            self._end_again()

    def _end_again(self) -> None:
        with self._lock:
            self._again -= 1

    def _attempt_again(self, data: bytes) -> None:
        until, pause = time.monotonic() + _AGAIN_SECONDS, _FIRST_PAUSE
        while self._pause(pause):
            try:
                self._write(data, max(0.001, until - time.monotonic()), None, may_log_in=False)
                return
            except (TransportError, RequestTimeout) as error:
                pause = min(2 * pause, _LONGEST_PAUSE)
                if self._closed:
                    return
                if not _may_arrive_later(error) or time.monotonic() + pause > until:
                    self._again_log.warning("an answer did not reach %s: %s", self.name, error)
                    return

    def _pause(self, seconds: float) -> bool:
        """Wait; return whether the channel is still open."""
        end = time.monotonic() + seconds
        while not self._closed and time.monotonic() < end:
            time.sleep(0.05)
        return not self._closed

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

        def next_timeout() -> float:
            remaining = deadline.remaining()
            if (self._closed and not after_close) or (remaining is not None and remaining <= 0):
                raise Stopped
            return _SLICE_SECONDS if remaining is None else min(remaining, _SLICE_SECONDS)

        exchange = Exchange(next_timeout, deadline.remaining, deadline if may_log_in else None)
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

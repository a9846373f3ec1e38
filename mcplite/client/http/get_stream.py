"""The GET stream of a session: it carries what the server sends that belongs to no call.

The channel starts one for each session of the legacy era.
"""

import threading
import time
from typing import Callable, Optional

from ...errors import AuthError, MCPError, SessionLost, TransportError
from ...net.exchange import Exchange, Stopped
from ...net.reply import Reply
from ...rpc.threads import start_thread
from ...rpc.tracing import FaultLog, get_logger
from .http_endpoint import HTTPEndpoint, says_no_session
from .resumption import ResumableStream

__all__ = ["GetStream"]

_log = get_logger(__name__)
#: Seconds that a read blocks at most before it checks whether to stop.
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
_SHORTEST_PAUSE, _LONGEST_PAUSE, _LONGEST_POLL = 0.5, 30.0, 5.0
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
        self._thread: Optional[threading.Thread] = None
        self._faults = FaultLog(_log, self._stop.wait)

    def start(self, timeout: float) -> None:
        """Start to listen; return when the stream is there, or the server takes long to answer.

        Nothing that the server sends from then on is missed. Some servers begin their response with the first event only.

        :param timeout: seconds after which it returns as well.
        :raises TransportError: the system has no thread for it.
        """
        self._thread = start_thread(lambda: self._faults.keep_running(self._run, "listening to %s failed",
                                                                     self._endpoint.name), "mcplite listener")
        self._answered.wait(max(0.0, min(_START_SECONDS, timeout)))

    def stop(self) -> None:
        """End the thread; callable from any thread, itself included."""
        self._stop.set()
        exchange = self._exchange
        if exchange is not None:
            exchange.interrupt()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * _SLICE_SECONDS)

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
            except Exception:
                self._stream.failures += 1
                self._faults.note("listening to %s failed", self._endpoint.name)
            self._stop.wait(self._delay())

    def _delay(self) -> float:
        """Return the seconds until the next attempt: as for every stream, and longer where the server ends each at once."""
        longest = _LONGEST_PAUSE if self._stream.retry is None else _LONGEST_POLL
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

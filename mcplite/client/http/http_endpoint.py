"""One URL over Streamable HTTP: sends POST, GET and DELETE with the headers of the session, and listens to its GET stream.

The channel, its reading and the GET stream share one :class:`HTTPEndpoint`; it keeps the session id and the revision for all of
them. A :class:`ResumableStream` knows the last event id and the pause before the next attempt. The GET stream has one, to
resume by it. It carries the messages of the server that belong to no call; each session of the legacy era has a GET stream.
"""

import random
import re
import threading
import time
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ...errors import AuthError, HTTPStatusError, MCPError, ProtocolError, SessionLost, TransportError, remote_error
from ...net.exchange import Exchange, Reply, Stopped
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...protocol.error_text import shown
from ...protocol.http.headers import DEFAULT_PORTS, POST_HEADERS
from ...protocol.http.sse import EventParser
from ...rpc.deadline import Deadline
from ...rpc.interfaces import Network
from ...rpc.threads import Loop
from ...rpc.tracing import get_logger

__all__ = [
    "GetStream", "HTTPEndpoint", "ResumableStream", "SILENT_SECONDS", "SLICE_SECONDS", "asked_pause", "network_of",
    "next_timeout_of",
]

_log = get_logger(__name__)
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
#: Words in the body of a 400 by which servers, such as the examples of the TypeScript SDK, say that they do not know a session.
_NO_SESSION = re.compile(r"session|not (?:yet )?initiali[sz]ed", re.IGNORECASE)
#: The statuses whose header Retry-After asks for another attempt; the request was not served.
_BUSY = frozenset({429, 503})
#: Seconds that a read or write blocks at most: the channel may be closed, or another response may have brought the answer.
SLICE_SECONDS = 1.0
#: Seconds without a byte, not even a comment, after which the connection of an event stream is taken for broken; servers send
#: something far more often to keep a stream alive.
SILENT_SECONDS = 300.0


class HTTPEndpoint:
    """Sends requests to one URL and keeps the id of the session there; any thread may use it.

    :param line_limit: bytes that one message may have.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    def __init__(self, url: str, settings: HTTPSettings, line_limit: int) -> None:
        self._client = OriginClient(url, settings)
        #: How errors and logs name the server.
        self.name = shown(url)
        self.line_limit = line_limit
        #: The server's name for the session; empty without one.
        self.session_id = ""
        #: ``_refused``: whether a 400 was taken for the loss of a session, and no session has begun since. ``_doubted``:
        #: whether the present session began after such a 400, and has not answered yet. If it is refused with 400 as well, a
        #: 400 of this server does not mean that a session is lost.
        self._refused = self._doubted = False
        #: The revision, if requests have to repeat it (HDR-01); otherwise None.
        self.version: Optional[str] = None
        #: Returns further headers for each message; called on the thread that sends it.
        self.added_headers: Optional[Callable[[], Mapping[str, str]]] = None

    def post(self, exchange: Exchange, data: bytes, initialize: bool = False,
             beside: Optional[Mapping[str, str]] = None) -> Reply:
        """Send a message and return the response.

        :param initialize: whether the message is ``initialize``, which begins a session (SESS-09).
        :param beside: the headers of a message without a session; None for one of the session.
        :raises SessionLost: the server does not know the session any more; it did not serve the message.
        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        session = "" if initialize or beside is not None else self.session_id
        if beside is not None:
            headers = {**POST_HEADERS, **beside}
        else:
            headers = POST_HEADERS if initialize else {**POST_HEADERS, **self._session_headers(session)}
        if self.added_headers is not None:
            headers = {**self.added_headers(), **headers}
        reply = self._client.send_authorized(exchange, "POST", None, headers, data)
        reply.session = session
        if initialize and 200 <= reply.status < 300:
            self.session_id = self._given_session_id(reply)
            self._doubted, self._refused = self._refused, False
        elif reply.status == 404 and session:
            reply.close()
            raise self.session_lost(session, unserved=True)
        elif self._doubted and reply.status == 200 and session == self.session_id:
            self._doubted = False
        return reply

    def get(self, exchange: Exchange, last_id: Optional[str]) -> Reply:
        """Ask for an event stream and return the response.

        :param last_id: of the last event that was read, to resume behind it; None for a new stream.
        :raises SessionLost: the server does not know the session any more.
        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        session = self.session_id
        headers = {"Accept": "text/event-stream", **self._session_headers(session)}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        reply = self._client.send_authorized(exchange, "GET", None, headers)
        reply.session = session
        if reply.status == 404 and session:
            reply.close()
            raise self.session_lost(session, unserved=False)
        return reply

    def end_session(self, exchange: Exchange, id: str) -> None:
        """Tell the server that a session is over (SESS-10); it may refuse the request (SESS-11).

        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        self._client.send_authorized(exchange, "DELETE", None, self._session_headers(id)).excerpt()

    def handle_refusal(self, reply: Reply, what: str, id: Optional[int], receive: Callable[[bytes], None]) -> None:
        """Deal with the response to a message that was not accepted.

        :param what: the message, for errors.
        :param id: of the request, whose answer may be in the response all the same (HTTP-42).
        :param receive: takes that answer.
        :raises SessionLost: the server does not know the session any more; it did not serve the message.
        :raises RemoteError: the server answered the request with a JSON-RPC error.
        :raises HTTPStatusError: the server did not answer the request in JSON-RPC.
        """
        status, is_json, after = reply.status, reply.kind == "application/json", asked_pause(reply)
        # JSON is read whole, up to the limit of a message, since it may be an error in JSON-RPC (HTTP-42).
        text = reply.read(self.line_limit).decode("utf-8", "replace") if is_json else reply.excerpt()
        message = jsonrpc.parse(text.encode("utf-8")) if is_json else None
        failure = None
        if isinstance(message, jsonrpc.Failure):
            failure = remote_error(message.code, message.message, message.data)
        if isinstance(message, (jsonrpc.Failure, jsonrpc.Response)) and id is not None and jsonrpc.own_id(message.id) == id:
            if failure is None:
                return receive(text.encode("utf-8"))
            failure.http_status, failure.retry_after = status, after
            raise failure
        said = text if failure is None else str(message.message)  # type: ignore[union-attr]
        # 404 would be right for a session that is lost (SESS-07), but many servers answer with 400.
        doubted = self._doubted and reply.session == self.session_id
        if status == 400 and says_no_session(reply, said) and not doubted:
            self._refused = True
            raise self.session_lost(reply.session, unserved=True, text=said)
        excerpt = " ".join(text.split())[:200] if failure is None else said[:500]
        hint = ""
        if status in (404, 405) and not is_json and what in ("initialize", "server/discover"):
            hint = ". Is this the URL of an MCP server?" + ("" if self.name.endswith("/mcp") else " Mostly its path is /mcp")
        refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}{': ' + excerpt if excerpt else ''}{hint}",
                                  status=status, body=text)
        refusal.retry_after = after
        raise refusal from failure

    def close(self) -> None:
        """Close all idle connections."""
        self._client.close()

    def _session_headers(self, session: str) -> Dict[str, str]:
        headers = {}
        if session:
            headers["Mcp-Session-Id"] = session  # SESS-05
        if self.version is not None:
            headers["MCP-Protocol-Version"] = self.version  # HDR-01
        return headers

    def _given_session_id(self, reply: Reply) -> str:
        """Return the session id that a response assigns; empty for none.

        :raises ProtocolError: it has characters that cannot stand in a header (SESS-03).
        """
        session = reply.headers.get("mcp-session-id", "")
        if session and not _SESSION_ID.fullmatch(session):
            reply.close()
            raise ProtocolError(f"{self.name} gave a session id that cannot be sent back in a header")
        return session

    def session_lost(self, session: str, unserved: bool, text: str = "") -> SessionLost:
        """Return the error for a session that the server does not know any more.

        :param unserved: whether it is certain that the message was not served.
        :param text: what the server said.
        """
        said = " ".join(text.split())[:200]
        return SessionLost(f"{self.name} does not know our session any more{': ' + said if said else ''}", session=session,
                           unserved=unserved)


def says_no_session(reply: Reply, text: str) -> bool:
    """Whether a response with status 400 to a message of a session says that the server does not know the session."""
    return bool(reply.session) and _NO_SESSION.search(text) is not None


def asked_pause(reply: Reply) -> Optional[float]:
    """Return the seconds after which a busy server asks to try again: a number, or until a date by the server's own clock."""
    value = reply.headers.get("retry-after", "").strip() if reply.status in _BUSY else ""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", value):
        return float(value)
    at = _seconds_of(value)
    if at is None:
        return None
    now = _seconds_of(reply.headers.get("date", ""))
    return max(0.0, at - (time.time() if now is None else now))


def _seconds_of(date: str) -> Optional[float]:
    """Return an HTTP date in seconds since 1970; None for what is none."""
    from email.utils import mktime_tz, parsedate_tz  # for busy servers that write one

    parts = parsedate_tz(date)
    try:
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):
        return None


def next_timeout_of(remaining: Callable[[], Optional[float]], is_over: Callable[[], bool]) -> Callable[[], float]:
    """Return the ``next_timeout`` of an exchange that ends with a deadline, or when *is_over* says so."""
    def next_timeout() -> float:
        seconds = remaining()
        if is_over() or (seconds is not None and seconds <= 0):
            raise Stopped
        return SLICE_SECONDS if seconds is None else min(seconds, SLICE_SECONDS)

    return next_timeout


def network_of(url: str) -> Network:
    """Return what carries the messages to a URL."""
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    return Network("tcp", "http", "1.1", parts.hostname or "", port)


#: Seconds of the longest backoff, however many attempts have failed.
_LONGEST_DELAY = 30.0
#: Bounds in seconds of the delay that a server asks for; the lower one so that the client does not spin (REL-46).
_SHORTEST_RETRY, _LONGEST_RETRY = 0.1, 60.0


class ResumableStream:
    """One event stream, across the connections that carry it.

    :param limit: bytes that one message may have.
    :param receive: takes each message; it is ``Peer.receive``.
    """

    #: Of the connection that carries the stream now.
    _parser: EventParser
    #: The id of the last event as it came; empty when there is nothing to resume from.
    _id = ""
    #: Attempts that have failed since the last one that succeeded.
    failures = 0
    #: Seconds that the server asks to wait (HTTP-17); None while it has not said.
    retry: Optional[float] = None

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        self._limit = limit
        self._receive = receive

    @property
    def last_id(self) -> Optional[str]:
        """The id of the last event, to resume behind it (RES-04); None when there is nothing to resume from.

        Its form suits a header, which is sent as Latin-1: each character is one byte of the id, as it came. Control characters
        are left out, since they cannot stand in a header.
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
        """Return the seconds until the next attempt: those that the server asks for, or 1.

        They are doubled with each failure after the first, up to 30 or to those that the server asks for, with jitter.
        """
        if self.retry is not None and not self.failures:
            return self.retry
        backoff = min((self.retry or 1.0) * 2.0 ** max(self.failures - 1, 0), _LONGEST_DELAY)
        return max(self.retry or 0.0, backoff * random.uniform(0.75, 1.25))


#: Seconds that the beginning of a session waits for the stream: some servers begin their response with the first event only.
_START_SECONDS = 0.1
#: Seconds of a stream without a message after which its end shows no fault of the server.
_STEADY_SECONDS = 5.0
#: Seconds between two streams at least; and at most, if the server ends each of them at once. If the server says how long to
#: wait, it may want to be polled. Then the third number is the most, unless the server asks for more.
_SHORTEST_PAUSE, _LONGEST_STREAM_PAUSE, _LONGEST_POLL = 0.5, 30.0, 5.0
#: Error codes that a new token would not cure.
_FINAL_ERRORS = frozenset({"invalid_token", "insufficient_scope"})


class GetStream:
    """Listens to one session on a daemon thread, and resumes when the stream breaks (HTTP-28, RES-04).

    The thread is started with the session; it is ended by :meth:`stop`, by a server that offers no such stream, or by the
    end of the session; it blocks on the stream and on its own pauses.

    :param receive: takes each message; it is ``Peer.receive``.
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
        #: Set when the server has answered for the first time, in whatever way, or the request has failed.
        self._answered = threading.Event()
        self._loop = Loop(f"listener of {endpoint.name}", self._run, self._stop.wait)

    def start(self, timeout: float) -> None:
        """Start to listen; return when the server has answered, or after a tenth of a second.

        Once the server has answered with a stream, no message on it is missed. The wait is short, since some servers begin
        their response with the first event only.

        :param timeout: the most seconds to wait, if they are fewer.
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
        self._loop.join(Deadline(2 * SLICE_SECONDS))

    def _next_timeout(self) -> float:
        if self._stop.is_set():
            raise Stopped
        if self._last_data_at is not None and time.monotonic() - self._last_data_at > SILENT_SECONDS:
            raise TimeoutError(f"nothing came for {SILENT_SECONDS:g} s")
        return SLICE_SECONDS

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
            # The next call finds the session lost as well, and raises the error to its caller.
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

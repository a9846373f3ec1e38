"""One URL over Streamable HTTP: sends POST, GET and DELETE with the headers of the session, and reads the responses to calls.

The channel, its reading and the GET stream share one endpoint; it keeps the session id and the revision for all of them.

There is no reading thread and no hand-over: each caller posts its own request, and its thread deals with all that arrives in
the response (progress, requests of the server's handler, the answer). When the response breaks off, the caller resumes the
stream (RES-04), as long as its own time lasts. A :class:`ResumableStream` knows the last event id and the pause before the
next attempt; the GET stream resumes by it too.
"""

import random
import re
import time
from typing import Callable, Dict, Mapping, Optional
from urllib.parse import urlsplit

from ...errors import AuthError, HTTPStatusError, ProtocolError, SessionLost, TransportError, remote_error
from ...net.exchange import Exchange, Reply, Stopped
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings
from ...protocol import jsonrpc
from ...protocol.error_text import shown
from ...protocol.http.headers import DEFAULT_PORTS, POST_HEADERS
from ...protocol.http.sse import EventParser
from ...protocol.meta import REPEATABLE
from ...rpc.deadline import Sleepers
from ...rpc.interfaces import Channel, Network, Reading
from ...rpc.pending import Pending

__all__ = ["HTTPEndpoint", "HTTPReading", "ResumableStream", "network_of", "next_timeout_of"]

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")
#: What servers say with 400 of a session that they do not know, such as those of the TypeScript SDK's examples.
_NO_SESSION = re.compile(r"session|not (?:yet )?initiali[sz]ed", re.IGNORECASE)
#: The statuses that ask for another attempt, by the header Retry-After; the request was not served.
_BUSY = frozenset({429, 503})
#: Seconds that a read or write blocks at most: the channel may be closed, or another response may have brought the answer.
_SLICE_SECONDS = 1.0


class HTTPEndpoint:
    """Sends requests to one URL and keeps the id of the session there; any thread may use it.

    :param line_limit: bytes that one message may have.
    :raises ValueError: the URL is not one of a server, or a header cannot be sent.
    """

    def __init__(self, url: str, settings: HTTPSettings, line_limit: int) -> None:
        self._client = OriginClient(url, settings)
        #: How errors and logs call the server.
        self.name = shown(url)
        self.line_limit = line_limit
        #: The server's name for the session; empty without one.
        self.session_id = ""
        #: Whether a session was lost by a 400, and whether the one after it, which is the present one, has not answered yet: if
        #: that is refused as well, the 400 means no loss.
        self._refused = self._doubted = False
        #: The revision, when requests have to repeat it (HDR-01).
        self.version: Optional[str] = None
        #: Returns headers of each message in addition, on the thread that sends it.
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
        """Tell the server that a session is over (SESS-10); it may refuse to hear it (SESS-11).

        :raises TransportError, AuthError, Stopped: as for :meth:`OriginClient.send_authorized`.
        """
        self._client.send_authorized(exchange, "DELETE", None, self._session_headers(id)).excerpt()

    def handle_refusal(self, reply: Reply, what: str, id: Optional[int], receive: Callable[[bytes], None]) -> None:
        """Deal with the response to a message that was not accepted.

        :param what: the message, for errors.
        :param id: of the request, whose answer may be in the response all the same (HTTP-42).
        :param receive: takes that answer.
        :raises SessionLost: the server does not know the session any more; it did not serve the message.
        :raises RemoteError: the server said why, in JSON-RPC.
        :raises HTTPStatusError: it did not.
        """
        status, is_json, after = reply.status, reply.kind == "application/json", _retry_after(reply)
        # An error in JSON-RPC is read whole, however long it is (HTTP-42).
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
        refusal = HTTPStatusError(f"{self.name} answered {what!r} with {status}{': ' + excerpt if excerpt else ''}",
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


def _retry_after(reply: Reply) -> Optional[float]:
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
        return _SLICE_SECONDS if seconds is None else min(seconds, _SLICE_SECONDS)

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
    :param receive: takes each message.
    """

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        self._limit = limit
        self._receive = receive
        #: Of the connection that carries the stream now.
        self._parser: EventParser
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


#: Seconds without a byte of an event stream after which its connection is taken for broken.
_SILENT_SECONDS = 300.0
#: Seconds that the end of a response may come behind its answer, for the connection to be used again.
_TAIL_SECONDS = 0.05
#: Attempts to resume a stream, in a row, before the call fails.
_MOST_ATTEMPTS = 5


class _ResponseState(ResumableStream):
    """The response to one call, as far as it has been read."""

    def __init__(self, limit: int, receive: Callable[[bytes], None]) -> None:
        super().__init__(limit, receive)
        self.exchange: Optional[Exchange] = None
        #: The event stream that is read now; None before, after, and between two connections.
        self.reply: Optional[Reply] = None
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
                f"{f' ({call.broken})' if call.broken else ''}; it may or may not have done what was asked, so nothing"
                " is sent again") from call.broken
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
            # Its end follows the answer, most often in the same packet; then its connection can be used again.
            call.drain_until = time.monotonic() + _TAIL_SECONDS
            try:
                while reply.read1():
                    continue
            except (Stopped, TransportError):
                reply.close()
        # Its functions refer to this call, and a circle would keep the result until the garbage collector comes.
        call.exchange = call.reply = None

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

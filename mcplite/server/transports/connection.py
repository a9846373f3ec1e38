"""One connection of an HTTP client: a request handler of :mod:`http.server`, which reads requests and writes responses.

Between requests a connection is parked in the poller, without a thread. The poller's leader reads, handles and answers a
request without blocking. Before it has to block on the client, it gives up the leader role and serves only this
connection until the response is sent. A strict parser checks every request, and the connection is closed whenever the
end of a request is in doubt.

The docstring of :mod:`.httpd` lists what differs from a handler of the standard library, with the reasons.
"""

import contextvars
import functools
import io
import socket
import sys
import time
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Optional, Set, Tuple, Type

from ...protocol.http.headers import check_header
from ...protocol.http.http1 import BadRequest, HeadLimits, RequestHead, body_plan, find_head, parse_head, split_length
from ...rpc.tracing import get_logger
from ..eviction import sender_at
from ..handling.http_request import HTTPRequest
from ..http.access import TrustedProxies
from ..http.messages import HTTPResponse
from ..limits import Limits
from .client_socket import SMALL_BODY, SMALL_BYTES, BodyBudget, ClientGone, ClientSocket, RequestBody, State, parts_of
from .streamed_response import StreamedResponse

if TYPE_CHECKING:
    import logging
    from typing import Protocol

    class ConnectionPoller(Protocol):
        """What a connection uses of the poller; :class:`.poller.Poller` has it."""

        def may_park(self) -> bool:
            """Whether a connection may wait in the poller for its next request."""

        def step_down(self, connection: "Connection") -> None:
            """Have another thread lead, since this one is about to block."""

        def may_own(self) -> bool:
            """Whether a connection may leave the rest of an event stream to the poller."""

    class ConnectionServer(Protocol):
        """What a connection uses of its server; :class:`.httpd.HTTPServer` has it."""

        limits: Limits
        head_limits: HeadLimits
        #: The request bodies of all connections.
        budget: BodyBudget
        #: The proxies that are believed when they tell the address of a client; None believes none.
        proxies: Optional[TrustedProxies]
        #: The senders that wait for another slot: each of their connections ends with its response.
        crowded: Set[str]
        #: The class of the sockets that connections read and write; over TLS it is another one.
        client_socket: Type[ClientSocket]
        #: Whether the server is stopping, so that the current response is the last.
        closing: bool
        server_port: int

        @property
        def poller(self) -> "ConnectionPoller":
            """Where its connections wait."""

        def answer(self, request: HTTPRequest) -> HTTPResponse:
            """Answer a request; never raises. It is :meth:`Endpoint.handle`."""

        def note_served(self, connection: "Connection") -> object:
            """Note that a response was sent; not called for further responses of the connection within a tenth of a second."""

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log the exception that is being handled."""

__all__ = ["Connection"]

_log = get_logger(__name__)
#: The name of the access log: one line for each request, at INFO.
_ACCESS = __name__.rpartition(".server.")[0] + ".access"
_INFO = 20
_access: "Optional[logging.Logger]" = None
_PIECE = 65_536
#: Seconds of a lingering close: bytes that the client still sends are read for so long, since the kernel would otherwise reset
#: the connection and drop our last response.
_LINGER_SECONDS = 2.0
#: Seconds of a lingering close while others of the sender wait for a slot; clients close at once after "Connection: close".
_SHORT_LINGER_SECONDS = 0.2
_LINGER_BYTES = 1 << 20
_BODILESS = frozenset({204, 304})
#: Seconds that a thread of its own waits for the client before it looks whether the connection can be parked, or was hung up.
_WAIT_SECONDS = 1.0
#: If a head has not arrived whole, at most so many bytes of it do not count to the budget. Ordinary heads arrive whole.
_SMALL_HEAD = 2048
#: Seconds for which a client may owe its first request, or the rest of one, before the connection counts as idle.
_OWED_SECONDS = 2.0
#: Seconds after a response in which its client may be sending the next request; httpx uses idle connections for so long.
_SETTLED_SECONDS = 5.0
#: Seconds after a response was noted in which further responses are not noted.
_NOTE_SECONDS = 0.1


class Parked(Exception):
    """No request has arrived for a moment, or not its body: the connection can be parked instead of waiting on a thread."""


def _access_log_enabled() -> bool:
    global _access
    if _access is None:
        if "logging" not in sys.modules:
            return False  # no program has asked for lines at INFO; logging is a twentieth of what a server imports
        import logging

        _access = logging.getLogger(_ACCESS)
    return _access.isEnabledFor(_INFO)


class Connection(BaseHTTPRequestHandler):
    """One connection; the server makes it, and the poller calls it when its client has sent something.

    A subclass may override what handlers of :mod:`http.server` override: ``log_message``, ``log_request``, ``setup``,
    ``finish``, ``do_GET`` and its kind. ``command``, ``path``, ``headers``, ``rfile`` and ``client_address`` are those of the
    current request. A method that writes to ``wfile``, itself or by ``send_response`` and ``end_headers``, answers the
    request, and the connection is closed after that.

    :param request: the socket, connected; this object closes it.
    :param client_address: as the socket tells it: the peer's address and port come first.
    :param server: whose endpoint answers the requests.
    """

    server: "ConnectionServer"  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version = "mcplite"
    error_message_format = "%(explain)s\n"
    error_content_type = "text/plain; charset=utf-8"
    #: The method and the target of the request line that was read last; empty if it was malformed.
    command = path = ""
    #: The current second, and the text for ``Date``, which all connections of the class share.
    _date = (0, "")
    #: Whether a subclass overrides the methods of the log, so that each line is passed to them.
    _logs = False
    #: Made when they are used: the fields of a head, and the file of a body; each with the head or body that it was made for.
    _message: "Tuple[Optional[RequestHead], Optional[HTTPMessage]]" = (None, None)
    _input: "Tuple[Optional[RequestBody], Optional[io.BytesIO]]" = (None, None)

    def __init__(self, request: socket.socket, client_address: Any, server: "ConnectionServer") -> None:
        # The constructor of the standard library is not called: it would serve all requests at once, on this thread.
        self.request = request
        self.client_address = client_address
        self.server = server
        #: The key under which limits count the connection.
        self.sender = sender_at(client_address[0])
        #: The client for the log, with its port. If a proxy has told the address for the current request, ``_remote`` is that.
        self._remote = self._address = f"{client_address[0]}:{client_address[1]}"
        self._socket = server.client_socket(request, self._address, server.limits.write_seconds, self._step_down)
        #: The time of the request whose response the server noted last.
        self._noted = float("-inf")
        #: A cache, since clients repeat their headers: the last head as bytes, and parsed, with the length of its body.
        self._block = b""
        self._head: Optional[RequestHead] = None
        self._plan: Optional[int] = 0
        #: The method that answers a request of that head: ``do_GET`` or its kind.
        self._method: Callable[[Connection], None] = Connection.do_POST
        #: The head of a request whose body the poller waits for.
        self._awaited: Optional[RequestHead] = None
        #: The body of the request that is being served, and since when it is.
        self._body: Optional[RequestBody] = None
        self._began = 0.0
        #: Whether something was written to ``wfile`` for the request that is being served.
        self.has_written = False
        self.close_connection = False
        #: The event stream that is sent without a thread, from the return of :meth:`handle` to :meth:`end_stream`.
        self.stream: Optional[StreamedResponse] = None
        #: The events for which the poller has registered the socket; only the poller uses it.
        self.events = 0
        #: Whether the client may still send something that has to be read before the socket is closed.
        self.lingers = False
        #: A cache, since responses repeat their heads: the values that the last head was made of, and that head up to the
        #: length of the body.
        self._made_of: Tuple[Any, ...] = ()
        self._top = b""
        self.setup()

    def __init_subclass__(cls) -> None:
        cls._logs = (cls.log_message, cls.log_request) != (Connection.log_message, Connection.log_request)

    # --- what handlers of http.server have ----------------------------------------------------------------

    def setup(self) -> None:
        """Called once, before the first request; the files are made when they are used."""

    def finish(self) -> None:
        """Called once, when the socket has been closed."""

    @property
    def connection(self) -> socket.socket:
        """The socket."""
        return self.request  # type: ignore[no-any-return]

    @property
    def request_version(self) -> str:  # type: ignore[override]
        """The version of HTTP that the client speaks."""
        return "HTTP/1.1" if self._head is None else f"HTTP/1.{self._head.version[1]}"

    @property
    def requestline(self) -> str:  # type: ignore[override]
        """The first line of the request; empty if it was malformed."""
        return "" if self._head is None else f"{self._head.method} {self._head.target} {self.request_version}"

    @property
    def headers(self) -> HTTPMessage:  # type: ignore[override]
        """The header fields of the request."""
        head, message = self._message
        if message is None or head is not self._head:
            message = HTTPMessage()
            for name, value in () if self._head is None else self._head.headers.items():
                message[name] = value
            self._message = self._head, message
        return message

    @property
    def rfile(self) -> BinaryIO:  # type: ignore[override]
        """The body of the request, as far as nothing has read it; it is received when this is used first.

        :raises UnreadableBody: it is too large, or comes too slowly.
        """
        body, file = self._input
        if file is None or body is not self._body:
            body = self._body
            file = io.BytesIO(b"" if body is None or not body.unread else body.read(self.server.limits.message_bytes))
            self._input = body, file
        return file

    @property
    def wfile(self) -> BinaryIO:  # type: ignore[override]
        """Takes the response; each write is sent at once, and has the deadline of all writes."""
        return _ResponseFile(self._write)  # type: ignore[return-value]

    def _write(self, data: bytes) -> None:
        self.has_written = True
        if len(data) > SMALL_BYTES and self._body is not None:
            self._socket.send_all(data, functools.partial(self._body.count_answer, len(data)))
            self._body.answer_read()
        else:
            self._socket.send_all(data)

    def send_header(self, keyword: str, value: str) -> None:
        """Add a header field to the response.

        :raises ValueError: it contains a line break or another character that no field may have.
        """
        check_header(keyword, str(value))
        if keyword.lower() != "connection":
            super().send_header(keyword, value)

    def end_headers(self) -> None:
        """Send the head of the response; what follows is its body, up to the end of the connection."""
        super().send_header("Connection", "close")
        super().end_headers()

    def version_string(self) -> str:
        """Return the name of the server, without the version of Python."""
        return self.server_version

    def address_string(self) -> str:
        """Return the client's address and port; behind trusted proxies, the address that they tell."""
        return self._remote

    def log_request(self, code: "int | str" = "-", size: "int | str" = "-") -> None:
        """Log one request: without its query, which may hold secrets."""
        if type(self).log_message is Connection.log_message and not _access_log_enabled():
            return  # send_response() calls this, too
        if self._head is None:
            self.log_message("- %s", getattr(code, "value", code))
        else:
            self.log_message("%s %.200r %s %.1f ms", self.command, self._head.path, getattr(code, "value", code),
                             (time.monotonic() - self._began) * 1000)

    def log_error(self, format: str, *args: Any) -> None:
        """Do nothing: :meth:`log_request` has written a line about the response."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write one line of the access log, with the client's address."""
        import logging

        logging.getLogger(_ACCESS).info("%s " + format, self.address_string(), *args)

    def do_POST(self) -> None:
        """Have the endpoint answer the request, or the function of ``routes`` for its path; all methods do this."""
        body, head = self._body, self._head
        assert body is not None and head is not None
        response = self.server.answer(_ConnectionRequest(self, self._socket, head, body, self._remote))
        try:
            if self.has_written:
                return
            self.close_connection = not self._respond(head, body, response)
        finally:
            if response.streaming and self.stream is None:
                response.close()
        if self.stream is None and (self._logs or _access_log_enabled()):
            self.log_request(response.status)

    # One function for all methods; a subclass may have others, so a request finds its own by name.
    do_GET = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST

    # --- what the server and the poller see -----------------------------------------------------------------

    @property
    def state(self) -> State:
        """What the connection waits for."""
        return self._socket.state

    @property
    def since(self) -> float:
        """Since when it is in its state."""
        return self._socket.since

    @property
    def busy(self) -> bool:
        """Whether a whole request is being served; false while the connection waits for a head or a body."""
        return self._socket.state in (State.SERVING, State.STREAMING)

    @property
    def lasting(self) -> bool:
        """Whether the response that is being sent lasts until one side ends it."""
        stream = self.stream
        return stream is not None and stream.body.lasting

    @property
    def has_input(self) -> bool:
        """Whether the client has sent something that was not read yet, or has left."""
        return self._socket.has_input()

    @property
    def has_next(self) -> bool:
        """Whether a part of the next request was read already."""
        return bool(self._socket.buffer)

    @property
    def disconnected(self) -> bool:
        """Whether the client has left, as far as that can be seen."""
        return self._socket.disconnected()

    def due(self, parked: bool) -> bool:
        """Whether closing the connection may lose a request of a client that is not slow; asked while it is not ``busy``.

        :param parked: whether no thread serves it.
        """
        waited = time.monotonic() - self.since
        if self.state is State.IDLE:
            # Another thread may have received the next request, without having noted it.
            return not parked or waited < _SETTLED_SECONDS or self.has_input
        return waited < _OWED_SECONDS or self.has_input

    def admit(self) -> None:
        """Note that its requests are read from now on: while it waited for that, its client was not slow."""
        self._socket.enter(State.NEW)

    @property
    def owed_for_long(self) -> bool:
        """Whether its first request was not sent, or not read, for longer than it takes an ordinary client."""
        return time.monotonic() - self.since >= _OWED_SECONDS

    @property
    def silent(self) -> bool:
        """Whether nothing of a first request has come yet: the client may be about to send it."""
        return self.state is State.NEW and not self._socket.buffer

    def handle(self, blocking: bool = True) -> None:
        """Serve requests until the connection can be parked or is closed; ``close_connection`` says which.

        :param blocking: whether this thread may block. If not, only requests that have arrived are served, and the connection
            is left open.
        """
        client = self._socket
        client.may_block = blocking
        try:
            if self.close_connection:
                self._linger()  # after an event stream
            while not self.close_connection and (
                    not blocking or client.buffer or self._awaited is not None or not self.server.poller.may_park()):
                self.handle_one_request()
                if self.stream is not None:
                    self.close_connection = False  # open for as long as the stream lasts
                    return
                if self.close_connection:
                    self._linger()
                    break
                if not blocking and (client.may_block or not client.buffer):
                    break
        except Parked:
            self.close_connection = False
        except (ClientGone, OSError) as error:
            self.close_connection = True
            _log.debug("the connection of %s ended: %s", self._address, error)
        except BaseException:
            # A response cannot be sent, or a stream or a subclass fails. Part of the response may be sent already, so only
            # closing is left. SystemExit is caught as well: the thread also serves other connections.
            self.close_connection = True
            self.server.handle_error(self.request, self.client_address)
            if self.stream is not None:
                self.end_stream()  # which a subclass has begun
                self.close_connection = True
        if blocking and self.close_connection:
            self.close()

    def _step_down(self) -> None:
        self.server.poller.step_down(self)

    def receive_pending(self) -> None:
        """Read what has arrived already, so that it is still served although the server stops."""
        self._socket.receive_pending(_PIECE)

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self._socket.close():
            self.server.budget.heads.remove(self)
            self.finish()

    def hang_up(self) -> None:
        """End the connection from another thread: a blocked read or write returns, and the poller closes a parked one."""
        self._socket.hang_up()
        stream = self.stream
        if stream is not None:
            stream.cancel()

    def stop_reading(self) -> None:
        """End an idle connection; a request that has arrived already is still served."""
        self._socket.shut(socket.SHUT_RD)

    # --- one request ------------------------------------------------------------------------------------

    def handle_one_request(self) -> None:
        """Serve the next request; ``close_connection`` says whether it was the last.

        :raises ClientGone, OSError: the client has left.
        :raises Parked: no request has arrived, and the connection can be parked.
        """
        self.close_connection = True
        try:
            head = self._awaited or self._read_head()
            if head is None:
                return
        except BadRequest as error:
            # The log gets no request line, since its query may hold secrets.
            self._head, self.command, self.path = None, "", ""
            self.send_error(error.status, explain=str(error))
            return
        server, client, plan = self.server, self._socket, self._plan
        awaited, self._awaited = self._awaited, None
        if not client.may_block and plan and len(client.buffer) < plan <= SMALL_BODY and "expect" not in head.headers:
            self._receive_body(head, plan, again=awaited is None)
        client.enter(State.SERVING)
        self._began = client.since
        sender = self.sender
        if server.proxies is not None:
            sender = self._find_client(server.proxies, head)
        body = self._body = RequestBody(client, head, plan, server.limits, server.budget, sender)
        try:
            self._method(self)
        finally:
            if self.stream is None:
                self._end_body(body)
        if self.stream is None:
            self._end_request()

    def _end_body(self, body: RequestBody) -> None:
        self._body, body.over = None, True
        if body.counted or body.planned is not None:
            body.close()

    def _end_request(self) -> None:
        if self.has_written:
            self.has_written, self.close_connection = False, True
        self._socket.enter(State.IDLE)
        if self._began - self._noted >= _NOTE_SECONDS:
            self._noted = self._began
            self.server.note_served(self)
        if self.server.closing:
            self.close_connection = True

    def _find_client(self, proxies: TrustedProxies, head: RequestHead) -> str:
        """Note the client that a proxy names; return the key under which limits count the request."""
        address = proxies.client(self.client_address[0], head.headers)
        self._remote = address if address != self.client_address[0] else self._address
        return sender_at(address)

    def _read_head(self) -> Optional[RequestHead]:
        """Return the head of the next request; None if none comes in time, or the server is stopping.

        :raises BadRequest: it is malformed or too slow.
        :raises ClientGone: the client has closed the connection.
        :raises Parked: no request has arrived, and the connection can be parked.
        """
        limits, buffer = self.server.limits, self._socket.buffer
        deadline: Optional[float] = None
        waited = 0.0
        while True:
            if buffer:
                if self._head is not None and buffer.startswith(self._block):
                    del buffer[:len(self._block)]
                    break  # the same head as before, which most clients send as long as their bodies have one length
                while buffer[:2] == b"\r\n":
                    del buffer[:2]  # some clients send an extra line end after a body
                end = find_head(buffer, self.server.head_limits)
                if end is not None:
                    self._take_head(end)
                    break
                if deadline is None:
                    self._socket.enter(State.HEAD)
                    deadline = self._socket.since + limits.header_seconds
                if len(buffer) > _SMALL_HEAD:
                    self._count_head(2 * len(buffer))
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise BadRequest(408, f"the headers did not arrive within {limits.header_seconds:g} s")
            else:
                seconds = limits.idle_seconds - waited
                if self.server.closing:
                    return None
            seconds = min(seconds, _WAIT_SECONDS)
            try:
                data = self._socket.recv(_PIECE, seconds)
            except socket.timeout:
                if buffer:
                    continue
                waited += seconds
                if self.server.poller.may_park():
                    raise Parked from None
                if waited >= limits.idle_seconds or self.sender in self.server.crowded:
                    return None  # also after empty lines
                continue
            if not data:
                raise ClientGone("it closed in the middle of a request" if buffer else "it closed")
            buffer += data
        if deadline is not None:
            self.server.budget.heads.remove(self)
        return self._head

    def _count_head(self, size: int) -> None:
        """Count a head that has not arrived whole.

        :raises BadRequest: there is no room for it.
        """
        heads = self.server.budget.heads
        going = heads.resize(self, size) if self in heads else heads.add(self, self.sender, size)
        for other in going or ():
            if isinstance(other, Connection) and other is not self:
                other.hang_up()
        if going is None or self in going:
            raise BadRequest(503, "the unfinished heads of all clients together are too large; try again later")

    def _take_head(self, end: int) -> None:
        """Remove the head from the buffer and parse it; ``_plan`` is the length of its body."""
        buffer = self._socket.buffer
        block = bytes(buffer[:end])
        del buffer[:end]
        form, digits = split_length(block)
        if form is not None and self._head is not None and split_length(self._block) == (form, str(self._plan)):
            self._head, self._block, self._plan = self._head.with_length(digits), block, int(digits)
            return
        head = parse_head(block, self.server.head_limits)
        self._plan = body_plan(head)
        self._head, self._block = head, block
        self.command = head.method
        self._method = getattr(type(self), "do_" + head.method, type(self).do_POST)
        self.path = "/" + head.target.lstrip("/") if head.target.startswith("//") else head.target

    def _receive_body(self, head: RequestHead, plan: int, again: bool) -> None:
        """Leave a small body that is not there yet to the poller: many clients send it apart, a moment after the head.

        Another thread would have to lead while this one blocks on the client, which costs more than serving the request. So
        the poller waits, once for each request; a client that is slower than that blocks a thread of its own.

        :param again: whether the poller may wait.
        :raises Parked: the body is not there.
        """
        client = self._socket
        client.receive_now(plan - len(client.buffer))
        if again and len(client.buffer) < plan:
            self._awaited = head
            client.enter(State.BODY)
            raise Parked

    # --- the response -----------------------------------------------------------------------------------

    def _respond(self, head: RequestHead, asked: RequestBody, response: HTTPResponse) -> bool:
        """Send a response; return whether the connection can be used for another request."""
        status, streaming, server = response.status, response.streaming, self.server
        chunked = streaming and head.version == (1, 1)
        # An unread body would be parsed as the next request.
        again = (head.keep_alive and not asked.unread and not server.closing and self.sender not in server.crowded
                 and (chunked or not streaming) and ("Connection", "close") not in response.headers)
        made_of = (status, tuple(response.headers), head.version, again, streaming, int(time.time()))
        if made_of != self._made_of:
            self._top = self._make_top(*made_of)
            self._made_of = made_of
        if streaming or status in _BODILESS:
            body, data = b"", self._top + b"\r\n"
        else:
            body = b"".join(response.body)
            data = b"%bContent-Length: %d\r\n\r\n" % (self._top, len(body))
        if head.method == "HEAD":
            self._socket.send_all(data)
        elif streaming:
            self._stream(response, data, chunked, again, asked)
        elif len(body) > SMALL_BYTES:
            for part in parts_of(data, body, b""):
                self._socket.send_all(part, functools.partial(asked.count_answer, len(body)))
        else:
            self._socket.send_all(data + body)
        return again

    # --- an event stream ----------------------------------------------------------------------------------

    def _stream(self, response: HTTPResponse, head: bytes, chunked: bool, again: bool, asked: RequestBody) -> None:
        """Send the pieces of a body that are there; the poller sends those that come later."""
        stream = StreamedResponse(self._socket, asked, response, head, chunked, again, self._failed)
        if self.server.poller.may_own() and stream.body.immediate:
            if not stream.begin():
                self._socket.enter(State.STREAMING)
                self.stream = stream
        else:
            stream.send_here()

    def _failed(self) -> None:
        self.server.handle_error(self.request, self.client_address)

    def end_stream(self) -> None:
        """Note the end of a stream; ``close_connection`` says whether it was the last response."""
        stream, body = self.stream, self._body
        assert stream is not None and body is not None
        try:
            stream.close()
        except BaseException:
            # A subclass, or the end of a session, may raise anything. SystemExit is caught as well: the thread also serves
            # other connections.
            stream.broken = True
            self._failed()
        self.stream, self.lingers = None, not stream.broken
        self.close_connection = stream.broken or not stream.again
        self._end_body(body)
        self._end_request()
        if self._logs or _access_log_enabled():
            self.log_request(stream.status)

    def _linger(self) -> None:
        """Shut down our side, and read what the client still sends."""
        self.request.shutdown(socket.SHUT_WR)
        end = time.monotonic() + (_SHORT_LINGER_SECONDS if self.sender in self.server.crowded else _LINGER_SECONDS)
        left = _LINGER_BYTES
        while left > 0 and time.monotonic() < end and not self.server.closing:
            data = self._socket.recv(_PIECE, max(end - time.monotonic(), 0.01))
            if not data:
                return
            left -= len(data)

    def _date_at(self, now: int) -> str:
        second, date = self._date
        if second != now:
            date = self.date_time_string(now)
            type(self)._date = now, date
        return date

    def _make_top(self, status: int, headers: Tuple[Tuple[str, str], ...], version: Tuple[int, int], again: bool,
                  streaming: bool, now: int) -> bytes:
        """Return the head of a response up to the length of its body.

        :param again: whether the connection can be used for another request.
        :param now: the time in seconds.
        :raises ValueError: a header contains a line break or NUL.
        """
        lines = [f"HTTP/1.1 {status} {self.responses.get(status, ('Status',))[0]}", f"Date: {self._date_at(now)}",
                 *(f"{name}: {value}" for name, value in headers if name != "Connection")]
        if streaming and version == (1, 1):
            lines.append("Transfer-Encoding: chunked")
        if not again:
            lines.append("Connection: close")
        elif version == (1, 0):
            lines.append("Connection: keep-alive")
        joined = "\r\n".join(lines)
        if joined.count("\n") >= len(lines) or joined.count("\r") >= len(lines) or "\0" in joined:
            raise ValueError("a header of the response contains a line break or NUL")
        return joined.encode("latin-1") + b"\r\n"


class _ConnectionRequest(HTTPRequest):
    """A request of a connection. Defaults that most requests never read are in the class: the constructor runs for each."""

    def __init__(self, connection: Connection, client: ClientSocket, head: RequestHead, body: RequestBody, remote: str) -> None:
        self.method, self.path, self.query, self.headers = head.method, head.path, head.query, head.headers
        self.read, self.reserve, self.disconnected = body.read, body.reserve, client.disconnected
        self.remote, self.network, self.port = remote, body.sender, connection.server.server_port
        self.handler, self.inline, self.host_checked = connection, True, False
        self.principal, self.around, self.response_headers = None, None, ()
        self.variables = contextvars.copy_context()


class _ResponseFile(io.BufferedIOBase):
    """The file to which a handler writes its response.

    :param send: sends bytes.
    """

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        whole = bytes(data)
        self._send(whole)
        return len(whole)

"""One connection of an HTTP client to our own server: reads requests from the socket and writes responses to it.

Between requests a connection is parked in the poller, without a thread. The poller's leader reads, handles and answers a
request without blocking. Before it has to block on the client, it gives up the leader role and serves only this
connection until the response is sent. A strict parser checks every request, and the connection is closed whenever the
end of a request is in doubt.
"""

import functools
import logging
import socket
import time
from http import HTTPStatus
from typing import Any, Callable, Container, Dict, Optional, Tuple

from ...protocol.http.http1 import BadRequest, HeadLimits, RequestHead, body_plan, find_head, parse_head
from ...rpc.tracing import FaultLog, get_logger
from ..eviction import sender_at
from ..handling.http_request import HTTPRequest
from ..http.messages import HTTPResponse, StreamingBody, do_nothing
from ..limits import Limits
from .client_socket import SMALL_BYTES, ClientGone, ClientSocket, TrustedProxies
from .request_body import SMALL_BODY, BodyBudget, RequestBody

__all__ = ["Connection"]

_log = get_logger(__name__)
#: The access log: one line for each request, at INFO. Asked for each of them, so it is the library's own.
_access = logging.getLogger(__name__.rpartition(".server.")[0] + ".access")
_PIECE = 65_536
#: Lingering close: what the client still sends is read for so long, since the kernel would otherwise reset the
#: connection and drop our last response.
_LINGER_SECONDS = 2.0
#: The same while others of the sender wait for its place; clients close at once after "Connection: close".
_SHORT_LINGER_SECONDS = 0.2
_LINGER_BYTES = 1 << 20
_REASONS: Dict[int, str] = {status.value: status.phrase for status in HTTPStatus}
_BODILESS = frozenset({204, 304})
#: Seconds that a thread of its own waits for the client at once: then the connection may be parked, or was hung up.
_WAIT_SECONDS = 1.0
#: Bytes of a piece of an event stream that counts like an answer while it is sent: one message may have any size.
_LARGE_PIECE = 65_536
#: Bytes of a head that has not arrived whole and counts to no budget; ordinary ones arrive whole.
_SMALL_HEAD = 2048
#: Seconds for which a client may owe its first request, or the rest of one, before the connection counts as idle.
_OWED_SECONDS = 2.0
#: Seconds after a response in which its client may be sending the next request; httpx uses idle connections for so long.
_SETTLED_SECONDS = 5.0
#: Seconds after a response was noted in which further ones are not.
_NOTE_SECONDS = 0.1
Watch = Callable[[socket.socket, Callable[[], object]], Callable[[], object]]


class Parked(Exception):
    """No request has arrived for a moment, or not its body: the connection can be parked instead of waiting on a thread."""


def _never() -> bool:
    return False


def _ignore(connection: "Connection") -> None:
    """The default of ``on_served``."""


def _do_not_watch(sock: socket.socket, on_disconnect: Callable[[], object]) -> Callable[[], object]:
    return do_nothing


class Connection:
    """One connection.

    :param sock: connected; this object closes it.
    :param address: the peer's address and port.
    :param handle: answers a request; never raises.
    :param closing: returns whether the server is stopping, so that the current response is the last.
    :param watch: calls a function when the client closes a socket; returns a function that stops watching.
    :param port: that the connection arrived at, if it is known.
    :param budget: of the request bodies of all connections; by default one of its own.
    """

    def __init__(self, sock: socket.socket, address: Tuple[str, int], handle: Callable[[HTTPRequest], HTTPResponse],
                 limits: Limits, closing: Callable[[], bool], watch: Watch = _do_not_watch,
                 port: Optional[int] = None, budget: Optional[BodyBudget] = None) -> None:
        #: The socket, for the poller.
        self.sock = sock
        #: Whose share the connection counts to.
        self.sender = sender_at(address[0])
        self._address, self._remote = address[0], f"{address[0]}:{address[1]}"
        self._client = ClientSocket(sock, self._remote, limits.write_seconds)
        self._handle = handle
        self._limits = limits
        self._closing = closing
        self._watch = watch
        self._port = port
        self._budget = budget or BodyBudget(limits)
        self._head_limits = HeadLimits(limits.header_line_bytes, limits.header_bytes, limits.headers)
        #: Whether the connection may be parked between requests.
        self._may_park: Callable[[], bool] = _never
        #: Whether it waits for a request, so that closing it loses nothing.
        self.idle = True
        #: Those that tell the address of a client; None believes none. The server's, which sets it.
        self.proxies: Optional[TrustedProxies] = None
        #: The senders who wait for another place: a connection of theirs ends with its response. The server's, which sets it.
        self.crowded: Container[str] = frozenset()
        #: Takes what fails here and is no client's fault; the server's, whose connections share it.
        self.faults = FaultLog(_log)
        #: Whether the response that is being sent lasts until one side ends it.
        self.lasting = False
        #: Called with this connection after a response, unless it was called a moment ago.
        self.on_served: Callable[[Connection], object] = _ignore
        self._noted = float("-inf")
        #: When it was parked, or last served by the leader.
        self.since = 0.0
        #: Whether it was hung up, so that there is nothing left to wait for.
        self.hung_up = False
        #: A cache, since clients repeat their headers: the last head as bytes, and parsed, with the length of its body.
        self._block = b""
        self._head: Optional[RequestHead] = None
        self._plan: Optional[int] = 0
        #: The head of a request whose body the poller waits for.
        self._awaited: Optional[RequestHead] = None
        #: A cache, since responses repeat theirs: what the last head of a whole response was made of, and the head up to the
        #: length of the body.
        self._made_of: Tuple[Any, ...] = ()
        self._top = b""

    @property
    def busy(self) -> bool:
        """Whether a whole request is being served; false while the connection waits for a head or a body."""
        return self._client.busy

    @property
    def has_input(self) -> bool:
        """Whether the client has sent something that was not read yet, or has left."""
        return self._client.has_input()

    def due(self, parked: bool) -> bool:
        """Whether closing the connection may lose a request of a client that is not slow; asked while it is not ``busy``.

        :param parked: whether no thread serves it.
        """
        since = self._client.owes_since if self._awaited is None else self.since
        if since is None:
            if not parked:
                return True  # the thread may have received the next request, without having noted it
            return time.monotonic() - self.since < _SETTLED_SECONDS or self.has_input
        return time.monotonic() - since < _OWED_SECONDS or self.has_input

    def admit(self) -> None:
        """Note that its requests are read from now on: while it waited for that, its client was not slow."""
        self._client.owes_since = time.monotonic()

    @property
    def owed_for_long(self) -> bool:
        """Whether its client has owed, or this side not read, a request for longer than it takes an ordinary client."""
        since = self._client.owes_since
        return since is not None and time.monotonic() - since >= _OWED_SECONDS

    @property
    def silent(self) -> bool:
        """Whether nothing has come yet on which the client could have waited for an answer: it may be about to send."""
        return self._noted == float("-inf") and not self._client.buffer and self._awaited is None

    @property
    def awaits_body(self) -> bool:
        """Whether the poller waits for the body of a request, whose head has been read."""
        return self._awaited is not None

    def serve(self) -> bool:
        """Serve requests on this thread, which may block, until the connection can be parked (True) or is closed (False)."""
        self._client.may_block = True
        again = self._guarded(self._serve_blocking)
        if not again:
            self.close()
        return again

    def _serve_blocking(self) -> bool:
        while self._client.buffer or self._awaited is not None or not self._may_park():
            if not self._serve_one():
                self._linger()
                return False
        return True

    def park(self, before_blocking: Callable[[], object], may_park: Callable[[], bool]) -> None:
        """Note that the connection is parked in the poller; the thread that serves it from there must not block on it.

        :param before_blocking: called before that thread has to block all the same; it serves only this connection
            from then on.
        :param may_park: returns whether the connection may be parked again between two requests.
        """
        self._client.before_blocking, self._may_park = before_blocking, may_park
        self.idle, self.since = True, time.monotonic()

    def serve_ready(self) -> bool:
        """Serve the requests that have arrived, without blocking; False if the connection has ended and must be closed."""
        self._client.may_block = False
        again = self._guarded(self._serve_ready)
        self.since = time.monotonic()
        return again

    def _serve_ready(self) -> bool:
        while self._serve_one():
            if self._client.may_block or not self._client.buffer:
                return True
        self._linger()
        return False

    def _guarded(self, serve: Callable[[], bool]) -> bool:
        try:
            if serve():
                return True
        except Parked:
            return True
        except (ClientGone, OSError) as error:
            _log.debug("the connection of %s ended: %s", self._remote, error)
        except Exception:
            # A response that cannot be sent, or a stream that fails. Part of it may be sent already, so only closing is left.
            self.faults.note("a response to %s failed", self._remote)
        return False

    def receive_pending(self) -> None:
        """Read what has arrived already, so that it is still served although the server stops."""
        self._client.receive_pending(_PIECE)

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._client.close()
        self._budget.heads.remove(self)

    def hang_up(self) -> None:
        """End the connection from another thread: a blocked read or write returns, and the poller closes a parked one."""
        self.hung_up = True
        self._client.shut(socket.SHUT_RDWR)

    def stop_reading(self) -> None:
        """End an idle connection; a request that has arrived already is still served."""
        self._client.shut(socket.SHUT_RD)

    # --- one request ------------------------------------------------------------------------------------

    def _serve_one(self) -> bool:
        """Serve the next request; False if it was the last."""
        try:
            head = self._awaited or self._read_head()
            if head is None:
                return False
        except BadRequest as error:
            # Without the request line, whose query may hold secrets (SEC-13).
            _access.info("%s - %d", self._remote, error.status)
            self._client.send_all(_plain(error.status, str(error)))
            return False
        self._wait_for_body(head)
        started = time.monotonic()
        self._client.busy = True
        if self._client.owes_since is not None:
            self._client.owes_since = None
            self._budget.heads.remove(self)
        remote, sender = self._remote, self.sender
        if self.proxies is not None:
            client = self.proxies.client(self._address, head.headers)
            if client != self._address:
                remote, sender = client, sender_at(client)
        body = RequestBody(self._client, head, self._plan, self._limits, self._budget, sender)
        request = HTTPRequest(head.method, head.path, head.headers, head.query, read=body.read, remote=remote, network=sender,
                              port=self._port, disconnected=self._client.disconnected, reserve=body.reserve, inline=True)
        response = self._handle(request)
        try:
            again = self._respond(head, body, response)
        finally:
            body.over = True
            if body.counted or body.planned is not None:
                body.close()
            if response.streaming:
                response.close()
        if _access.isEnabledFor(logging.INFO):
            # Without the query, which may hold secrets.
            _access.info("%s %s %.200r %d %.1f ms", remote, head.method, head.path, response.status,
                         (time.monotonic() - started) * 1000)
        self._client.busy = False
        if started - self._noted >= _NOTE_SECONDS:
            self._noted = started
            self.on_served(self)
        return again and not self._closing()

    def _read_head(self) -> Optional[RequestHead]:
        """Return the head of the next request; None if none comes in time, or the server is stopping.

        :raises BadRequest: it is malformed or too slow.
        :raises ClientGone: the client has closed the connection.
        :raises Parked: no request has arrived, and the connection can be parked.
        """
        limits, buffer = self._limits, self._client.buffer
        deadline: Optional[float] = None
        waited = 0.0
        while True:
            if buffer:
                while buffer[:2] == b"\r\n":
                    del buffer[:2]  # some clients send an extra line end after a body
                end = find_head(buffer, self._head_limits)
                if end is not None:
                    break
                if deadline is None:
                    self._client.owes_since = time.monotonic()
                    deadline = self._client.owes_since + limits.header_seconds
                if len(buffer) > _SMALL_HEAD:
                    self._count_head(2 * len(buffer))
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise BadRequest(408, f"the headers did not arrive within {limits.header_seconds:g} s")
            else:
                seconds = limits.idle_seconds - waited
                self.idle = True
                if self._closing():
                    return None
            seconds = min(seconds, _WAIT_SECONDS)
            try:
                data = self._client.recv(_PIECE, seconds)
            except socket.timeout:
                if buffer:
                    continue
                waited += seconds
                if self._may_park():
                    raise Parked from None
                if waited >= limits.idle_seconds or self.sender in self.crowded:
                    return None  # also after empty lines
                continue
            self.idle = False
            if not data:
                raise ClientGone("it closed in the middle of a request" if buffer else "it closed")
            buffer += data
        return self._take_head(end)

    def _count_head(self, size: int) -> None:
        """Count a head that has not arrived whole.

        :raises BadRequest: there is no room for it.
        """
        heads = self._budget.heads
        going = heads.resize(self, size) if self in heads else heads.add(self, self.sender, size)
        for other in going or ():
            if isinstance(other, Connection) and other is not self:
                other.hang_up()
        if going is None or self in going:
            raise BadRequest(503, "the unfinished heads of all clients together are too large; try again later")

    def _take_head(self, end: int) -> RequestHead:
        """Remove the head from the buffer and return it parsed; ``_plan`` is the length of its body."""
        buffer = self._client.buffer
        block = bytes(buffer[:end])
        del buffer[:end]
        if self._head is None or block != self._block:
            head = parse_head(block, self._head_limits)
            self._plan = body_plan(head)
            self._head, self._block = head, block
        return self._head

    def _wait_for_body(self, head: RequestHead) -> None:
        """Leave a small body that is not there yet to the poller: many clients send it apart, a moment after the head.

        Another thread would have to lead while this one blocks on the client, which costs more than serving the request. So
        the poller waits, once for each request; a client that is slower than that blocks a thread of its own.

        :raises Parked: the body is not there.
        """
        client, plan = self._client, self._plan
        awaited, self._awaited = self._awaited, None
        if client.may_block or not plan or plan > SMALL_BODY or len(client.buffer) >= plan or "expect" in head.headers:
            return
        client.receive_now(plan - len(client.buffer))
        if awaited is None and len(client.buffer) < plan:
            self._awaited = head
            raise Parked

    # --- the response -----------------------------------------------------------------------------------

    def _respond(self, head: RequestHead, asked: RequestBody, response: HTTPResponse) -> bool:
        """Send a response; return whether the connection can be used for another request."""
        status = response.status
        chunked = response.streaming and head.version == (1, 1)
        # An unread body would be parsed as the next request.
        again = (head.keep_alive and not asked.unread and not self._closing() and self.sender not in self.crowded
                 and (chunked or not response.streaming) and ("Connection", "close") not in response.headers)
        made_of = (status, tuple(response.headers), head.version, again, response.streaming, int(time.time()))
        if made_of != self._made_of:
            self._top = _top(*made_of)
            self._made_of = made_of
        body = b""
        if response.streaming or status in _BODILESS:
            data = self._top + b"\r\n"
        else:
            body = response.content
            data = b"%bContent-Length: %d\r\n\r\n" % (self._top, len(body))
        if head.method == "HEAD":
            self._client.send_all(data)
        elif len(body) > SMALL_BYTES:
            self._client.send_answer(data, body, functools.partial(asked.count_answer, len(body)))
        else:
            self._client.send_parts(data, body)
            if response.streaming:
                self._stream(response, chunked, asked)
        return again

    def _stream(self, response: HTTPResponse, chunked: bool, asked: RequestBody) -> None:
        body = response.body
        assert isinstance(body, StreamingBody)
        if body.complete:
            unwatch: Callable[[], object] = do_nothing  # all pieces are there, so this does not wait for more
        else:
            self._client.allow_blocking_send()
            self.lasting = body.lasting
            unwatch = self._watch(self._client.sock, body.stop)
        try:
            for piece in body:
                # In one segment: a client that reads up to its answer has received the end, too.
                head, tail = (b"%x\r\n" % len(piece), b"\r\n0\r\n\r\n" if body.last else b"\r\n") if chunked else (b"", b"")
                if len(piece) > _LARGE_PIECE:
                    self._client.send_answer(head, piece, functools.partial(asked.count_answer, len(piece)), tail)
                    asked.answer_read()
                else:
                    self._client.send_parts(head, piece, tail)
                if not chunked:
                    continue
                if body.last:
                    return
            if chunked:
                self._client.send_all(b"0\r\n\r\n")
        finally:
            self.lasting = False
            unwatch()

    def _linger(self) -> None:
        """Shut down our side, and read what the client still sends."""
        self._client.sock.shutdown(socket.SHUT_WR)
        end = time.monotonic() + (_SHORT_LINGER_SECONDS if self.sender in self.crowded else _LINGER_SECONDS)
        left = _LINGER_BYTES
        while left > 0 and time.monotonic() < end and not self._closing():
            data = self._client.recv(_PIECE, max(end - time.monotonic(), 0.01))
            if not data:
                return
            left -= len(data)


def _top(status: int, headers: Tuple[Tuple[str, str], ...], version: Tuple[int, int], again: bool, streaming: bool,
         now: int) -> bytes:
    """Return the head of a response up to the length of its body.

    :param again: whether the connection can be used for another request.
    :param now: the time in seconds.
    :raises ValueError: a header contains a line break or NUL (SEC-18).
    """
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", f"Date: {_date(now)}",
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


def _plain(status: int, message: str) -> bytes:
    """Return a whole response to a malformed request."""
    body = message.encode("utf-8") + b"\n"
    head = (f"HTTP/1.1 {status} {_REASONS[status]}\r\nDate: {_date(int(time.time()))}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n")
    return head.encode("latin-1") + body


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _date(now: int) -> str:
    """Return a time in the format of HTTP. Not by strftime, which uses the names of the locale."""
    at: Any = time.gmtime(now)
    return (f"{_DAYS[at.tm_wday]}, {at.tm_mday:02d} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
            f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT")

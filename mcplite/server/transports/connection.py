"""One connection of an HTTP client to our own server: requests off the socket, responses onto it.

Between requests a connection waits in the lobby, without a thread. What has come is read, answered and sent
by whoever leads there, as long as nothing of that has to wait for the client; before it has to, the leader
steps down and is the connection's own thread until the response is out. Nothing of a request is believed before
the strict parser has seen it, and whatever cannot be told apart from the next request ends the connection.
"""

import logging
import socket
import time
from http import HTTPStatus
from typing import Any, Callable, Dict, Optional

from ...protocol.http.http1 import BadRequest, HeadLimits, RequestHead, body_plan, find_head, parse_head
from ..http.messages import HTTPRequest, HTTPResponse
from ..limits import Limits
from .client_socket import ClientSocket, Gone
from .request_body import RequestBody

__all__ = ["Connection"]

_log = logging.getLogger(__name__)
#: One line a request, at INFO.
_access = logging.getLogger(__name__.rpartition(".server.")[0] + ".access")
_PIECE = 65_536
#: What a client still sends is read for so long before the connection is closed, so that the kernel does
#: not throw our last answer away.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 1 << 20
_REASONS: Dict[int, str] = {status.value: status.phrase for status in HTTPStatus}
_BODILESS = frozenset({204, 304})
#: How long a thread of one's own waits for the next request before the connection may rest.
_REST_SECONDS = 1.0
Watch = Callable[[socket.socket, Callable[[], object]], Callable[[], object]]


class Resting(Exception):
    """No request has come for a moment, and none need be waited for on a thread."""


def _never() -> bool:
    return False


def _unwatched(sock: socket.socket, gone: Callable[[], object]) -> Callable[[], object]:
    return bool


class Connection:
    """One connection.

    :param sock: connected; this object closes it.
    :param handle: answers a request; never raises.
    :param closing: tells whether the server stops, so that this response is the last.
    :param watch: calls a function when a socket is closed by its client; returns what ends that.
    """

    def __init__(self, sock: socket.socket, remote: str, handle: Callable[[HTTPRequest], HTTPResponse],
                 limits: Limits, closing: Callable[[], bool], watch: Watch = _unwatched) -> None:
        self._client = ClientSocket(sock, remote, limits.write_seconds)
        self._remote = remote
        self._handle = handle
        self._limits = limits
        self._closing = closing
        self._watch = watch
        self._head_limits = HeadLimits(limits.header_line_bytes, limits.header_bytes, limits.headers)
        #: Tells whether the connection may rest between requests.
        self._may_rest: Callable[[], bool] = _never
        #: Whether it waits for a request, and may be closed without a loss.
        self.idle = True
        #: Since when it has waited in the lobby.
        self.since = 0.0
        #: Clients repeat themselves: the last head, as bytes and parsed.
        self._block = b""
        self._head: Optional[RequestHead] = None
        #: The time of the last response, and the same as text.
        self._second, self._time = 0, ""

    @property
    def sock(self) -> socket.socket:
        """For whoever waits until it is readable."""
        return self._client.sock

    def serve(self) -> bool:
        """Serve requests on this thread until the connection rests between two of them, which is True, or is closed."""
        self._client.patient = True
        again = self._guarded(self._serve_on)
        if not again:
            self.close()
        return again

    def _serve_on(self) -> bool:
        while self._client.buffer or not self._may_rest():
            if not self._serve_one():
                self._linger()
                return False
        return True

    def enter_lobby(self, step_down: Callable[[], object], may_rest: Callable[[], bool]) -> None:
        """Note that the connection waits among others, and that whoever serves it there may not wait for its client.

        :param step_down: called when that has to wait all the same; the thread is the connection's own from then on.
        :param may_rest: tells whether the connection may come back between two requests.
        """
        self._client.step_down, self._may_rest = step_down, may_rest
        self.idle, self.since = True, time.monotonic()

    def serve_ready(self) -> bool:
        """Serve what has come, as far as that needs no waiting; False when the connection is over, and to be closed."""
        self._client.patient = False
        again = self._guarded(self._serve_ready)
        self.since = time.monotonic()
        return again

    def _serve_ready(self) -> bool:
        while self._serve_one():
            if self._client.patient or not self._client.buffer:
                return True
        self._linger()
        return False

    def _guarded(self, serve: Callable[[], bool]) -> bool:
        try:
            if serve():
                return True
        except Resting:
            return True
        except (Gone, OSError) as error:
            _log.debug("the connection of %s ended: %s", self._remote, error)
        except Exception:
            # A response that cannot be sent, or a stream that fails: what has gone out is all that can be said.
            _log.exception("a response to %s failed", self._remote)
        return False

    def hasten(self) -> None:
        """Take in what has come already, so that it is served although the server stops."""
        self._client.hasten(_PIECE)

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._client.close()

    def hang_up(self) -> None:
        """End the connection from another thread: a read or a write that blocks returns."""
        self._client.shut(socket.SHUT_RDWR)

    def stop_reading(self) -> None:
        """Have an idle connection end; what was sent already is still served."""
        self._client.shut(socket.SHUT_RD)

    # --- one request ------------------------------------------------------------------------------------

    def _serve_one(self) -> bool:
        """Serve the next request; False when it was the last."""
        try:
            head = self._read_head()
            if head is None:
                return False
            plan = body_plan(head)
        except BadRequest as error:
            # Not what it was, which may hold a query (SEC-13).
            _access.info("%s - %d", self._remote, error.status)
            self._client.send_all(_plain(error.status, str(error)))
            return False
        started = time.monotonic()
        body = RequestBody(self._client, head, plan, self._limits)
        request = HTTPRequest(head.method, head.path, head.headers, head.query, read=body.read, remote=self._remote,
                              departed=self._client.departed, inline=True)
        response = self._handle(request)
        try:
            again = self._respond(head, body, response)
        finally:
            response.close()
        if _access.isEnabledFor(logging.INFO):
            # Without the query, which may hold what nobody else should see.
            _access.info("%s %s %.200r %d %.1f ms", self._remote, head.method, head.path, response.status,
                         (time.monotonic() - started) * 1000)
        return again and not self._closing()

    def _read_head(self) -> Optional[RequestHead]:
        limits, buffer = self._limits, self._client.buffer
        deadline: Optional[float] = None
        waited = 0.0
        while True:
            if buffer:
                while buffer[:2] == b"\r\n":
                    del buffer[:2]  # some clients end a body with a line end too many
                end = find_head(buffer, self._head_limits)
                if end is not None:
                    break
                if deadline is None:
                    deadline = time.monotonic() + limits.header_seconds
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise BadRequest(408, f"the headers did not come within {limits.header_seconds:g} s")
            else:
                seconds = limits.idle_seconds - waited
                if self._may_rest is not _never:
                    seconds = min(seconds, _REST_SECONDS)
                self.idle = True
                if self._closing():
                    return None
            try:
                data = self._client.recv(_PIECE, seconds)
            except socket.timeout:
                if buffer:
                    continue
                waited += seconds
                if self._may_rest():
                    raise Resting from None
                if waited >= limits.idle_seconds:
                    return None  # idle, also behind empty lines
                continue
            self.idle = False
            if not data:
                raise Gone("it closed in the middle of a request" if buffer else "it closed")
            buffer += data
        block = bytes(buffer[:end])
        del buffer[:end]
        if self._head is None or block != self._block:
            self._head, self._block = parse_head(block, self._head_limits), block
        return self._head

    # --- the response -----------------------------------------------------------------------------------

    def _respond(self, head: RequestHead, asked: RequestBody, response: HTTPResponse) -> bool:
        """Send a response; return whether the connection can go on."""
        status = response.status
        chunked = response.streaming and head.version == (1, 1)
        # A body that nobody has read would be taken for the next request.
        again = (head.keep_alive and not asked.unread and not self._closing()
                 and (chunked or not response.streaming))
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", f"Date: {self._date()}"]
        for name, value in response.headers:
            if name == "Connection":
                again = again and value != "close"
            else:
                lines.append(f"{name}: {value}")
        body = b""
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        elif not response.streaming and status not in _BODILESS:
            body = response.content
            lines.append(f"Content-Length: {len(body)}")
        if not again:
            lines.append("Connection: close")
        elif head.version == (1, 0):
            lines.append("Connection: keep-alive")
        joined = "\r\n".join(lines)
        if joined.count("\n") >= len(lines) or joined.count("\r") >= len(lines) or "\0" in joined:
            raise ValueError("a header of the response has a line break or NUL in it")  # SEC-18
        top = joined.encode("latin-1") + b"\r\n\r\n"
        if head.method == "HEAD":
            body = b""
        self._client.send_all(top + body)
        if response.streaming and head.method != "HEAD":
            self._stream(response, chunked)
        return again

    def _stream(self, response: HTTPResponse, chunked: bool) -> None:
        body: Any = response.body
        if getattr(body, "complete", False):
            unwatch: Callable[[], object] = bool  # all of it is there, so that nobody waits for more
        else:
            self._client.wait_to_send()
            unwatch = self._watch(self._client.sock, getattr(body, "leave", bool))
        try:
            for piece in body:
                if chunked:
                    piece = b"%x\r\n%b\r\n" % (len(piece), piece)
                    if getattr(body, "last", False):
                        # Together: a client that reads as far as its answer finds the end there too.
                        self._client.send_all(piece + b"0\r\n\r\n")
                        return
                self._client.send_all(piece)
            if chunked:
                self._client.send_all(b"0\r\n\r\n")
        finally:
            unwatch()

    def _linger(self) -> None:
        """Close our side, and read what is still on its way."""
        self._client.sock.shutdown(socket.SHUT_WR)
        end = time.monotonic() + _LINGER_SECONDS
        left = _LINGER_BYTES
        while left > 0 and time.monotonic() < end and not self._closing():
            data = self._client.recv(_PIECE, max(end - time.monotonic(), 0.01))
            if not data:
                return
            left -= len(data)

    def _date(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second, self._time = now, _date(now)
        return self._time

def _plain(status: int, message: str) -> bytes:
    """Return a whole response to what was no request."""
    body = message.encode("utf-8") + b"\n"
    head = (f"HTTP/1.1 {status} {_REASONS[status]}\r\nDate: {_date(int(time.time()))}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
    return head.encode("latin-1") + body


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _date(now: int) -> str:
    """Return a time as HTTP writes it; strftime would write the names of the user's language."""
    at: Any = time.gmtime(now)
    return (f"{_DAYS[at.tm_wday]}, {at.tm_mday:02d} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
            f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT")

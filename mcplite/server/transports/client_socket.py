"""A client's socket, for threads that may block and for threads that may not, and the request bodies that are read from it.

:mod:`.connection` reads heads from the socket, writes responses to it, and makes a :class:`RequestBody` for each request. The
endpoint reads the body only when the headers were accepted, within limits of size and time. The bodies of all connections
share one budget, since unfinished ones would otherwise fill the memory.

The socket also knows the state of its connection, which its own thread, the poller and the server look at::

    new ───┬── part of a head ──> head ──┬── a head ──> serving <── part of a body ──> body
    idle ──┘                             │                │  └── an event stream ──> streaming (:mod:`.streamed_response`)
     ^                                   └── 408          │                             │
     └──────────────────── the response is sent ──────────┴─────────────────────────────┘

    each of them ── hang_up(), from any thread ──> hung up ── close() ──> closed
"""

import contextlib
import enum
import io
import select
import socket
import sys
import threading
import time
from typing import Callable, Hashable, List, Optional, Union

from ...protocol.http.http1 import BadRequest, ChunkedDecoder, RequestHead
from ...protocol.jsonrpc import count_elements
from ...rpc.forks import close_socket
from ...rpc.tracing import get_logger
from ..eviction import Shares
from ..http.messages import UnreadableBody
from ..limits import Limits
from ..state.response_bodies import do_nothing

__all__ = ["BodyBudget", "ClientGone", "ClientSocket", "PlannedAnswer", "RequestBody", "SMALL_BODY", "SMALL_BYTES",
           "State", "at_end", "is_ready", "parts_of"]

_log = get_logger(__name__)
#: Bytes that every socket takes at once when its send buffer is empty.
SMALL_BYTES = 4096
#: Bytes at each end of a large body that are joined with the head and with the tail for one send(). A body of twice as many, or
#: fewer, is joined with both.
_JOINED_BYTES = 65_536


class ClientGone(Exception):
    """The client has closed the connection, or is too slow; there is no client to answer."""


class State(enum.Enum):
    """The states of a connection, which the docstring of the module draws."""

    #: Its client has sent nothing yet.
    NEW = "new"
    #: A request has arrived in part.
    HEAD = "head"
    BODY = "body"
    #: A whole request is being served; the response of ``STREAMING`` is an event stream, which is sent without a thread.
    SERVING = "serving"
    STREAMING = "streaming"
    #: Its client may send another request, so that closing it loses nothing.
    IDLE = "idle"
    #: It was shut down, so that there is nothing left to wait for.
    HUNG_UP = "hung up"
    CLOSED = "closed"


class ClientSocket:
    """One connected socket.

    While ``may_block`` is False, the socket is read and written without blocking. Before an operation has to block
    all the same, *before_blocking* is called, and ``may_block`` is True from then on.

    :param sock: connected; this object closes it.
    :param remote: the peer's address, for the log.
    :param write_seconds: the timeout of each step of sending.
    """

    def __init__(self, sock: socket.socket, remote: str, write_seconds: float,
                 before_blocking: Callable[[], object] = do_nothing) -> None:
        self.sock = sock
        self.remote = remote
        self.write_seconds = write_seconds
        self._before_blocking = before_blocking
        #: Guards ``_ended``. It is also held while any thread shuts the socket down, and while the socket is closed: a socket
        #: that was just closed must not be shut down, since its number may belong to another by then.
        self._lock = threading.Lock()
        #: ``HUNG_UP`` or ``CLOSED``, which any thread may set; until then the state is what the serving thread has entered.
        self._ended: Optional[State] = None
        self._entered = State.NEW
        #: Since when it is in that state.
        self.since = time.monotonic()
        self._timeout: Optional[float] = -1.0
        #: Whether this side has shut down reading.
        self._shut = False
        #: Bytes that were received and not used yet.
        self.buffer = bytearray()
        #: Whether the serving thread may block.
        self.may_block = True

    @property
    def state(self) -> State:
        """What the connection waits for, or how it has ended."""
        return self._ended or self._entered

    def enter(self, state: State) -> None:
        """Change the state, unless the connection has ended; on the thread that serves it."""
        self._entered, self.since = state, time.monotonic()

    def recv(self, size: int, seconds: float) -> bytes:
        """Return received bytes; empty at the end of the stream.

        :raises socket.timeout: nothing was received within *seconds*.
        :raises OSError: the connection is broken.
        """
        if not self.may_block:
            self._set_timeout(0.0)
            try:
                return self.sock.recv(size)
            except BlockingIOError:
                self.allow_blocking(seconds)
        self._set_timeout(seconds)
        try:
            return self.sock.recv(size)
        except socket.timeout:
            if self._shut:
                return b""
            raise

    def send_now(self, data: "Union[bytes, memoryview]") -> int:
        """Send what the socket takes without blocking; return how many bytes that were.

        :raises OSError: the connection is broken.
        """
        if self._timeout != 0.0:
            self._set_timeout(0.0)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def wait_writable(self) -> bool:
        """Wait for the time of one step of sending; return whether the socket takes bytes within it, or is broken."""
        try:
            return is_ready(self.sock, self.write_seconds, writable=True)
        except (OSError, ValueError):  # closed on this side
            return True

    def send_all(self, data: "Union[bytes, memoryview]", before_waiting: Callable[[], object] = do_nothing) -> None:
        """Send *data*.

        :param before_waiting: called before it blocks.
        :raises ClientGone: the client takes no bytes.
        :raises OSError: the connection is broken.
        """
        # One send() for everything, so that a small response is one segment. Data that fits into the kernel's buffer
        # does not block, so that the timeout need not be set, and reset for the next request.
        sent = 0
        if not self.may_block:
            self._set_timeout(0.0)
            try:
                sent = self.sock.send(data)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            self.allow_blocking()
            before_waiting()
        elif len(data) > SMALL_BYTES:
            self.allow_blocking()
            before_waiting()
        try:
            sent = sent or self.sock.send(data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[self.sock.send(rest):]
        except socket.timeout:
            raise ClientGone(f"it took no byte of a response for {self.write_seconds:g} s") from None

    def allow_blocking(self, seconds: Optional[float] = None) -> None:
        """Let reads and writes block from here on, each for *seconds* at most; by default for the time of a step of sending."""
        if not self.may_block:
            self.may_block = True
            self._before_blocking()
        self._set_timeout(self.write_seconds if seconds is None else seconds)

    def _set_timeout(self, seconds: float) -> None:
        if seconds != self._timeout:
            self._timeout = seconds
            self.sock.settimeout(seconds)

    def receive_now(self, size: int) -> None:
        """Move bytes that have already arrived into the buffer, if there are any.

        :raises OSError: the connection is broken.
        """
        self._set_timeout(0.0)
        with contextlib.suppress(BlockingIOError):
            self.buffer += self.sock.recv(size)

    def receive_pending(self, size: int) -> None:
        """Move bytes that have already arrived into the buffer, at the end of the server: a broken connection is no error."""
        try:
            self.receive_now(size)
        except OSError as error:
            _log.debug("the connection of %s ended: %s", self.remote, error)

    def disconnected(self) -> bool:
        """Whether the client has closed its side, as far as that can be seen."""
        if self.buffer:
            return False  # a pipelined request is pending; an end behind it cannot be seen
        try:
            return at_end(self.sock)
        except (OSError, ValueError):  # reset by the client, or closed on this side
            return True

    def has_input(self) -> bool:
        """Whether the client has sent something that was not read yet; from any thread, without blocking."""
        try:
            return is_ready(self.sock)
        except (OSError, ValueError):  # closed on this side
            return False

    def shut(self, how: int) -> None:
        """Shut down one direction or both, from any thread: a blocked read or write returns.

        If the system does not end a read for that, as Windows need not, the read ends with its timeout.
        """
        self._shut = self._shut or how != socket.SHUT_WR
        try:
            with self._lock:
                self.sock.shutdown(how)
        except OSError as error:
            _log.debug("the connection of %s was closed already: %s", self.remote, error)

    def hang_up(self) -> None:
        """End the connection from another thread: a blocked read or write returns."""
        with self._lock:
            self._ended = self._ended or State.HUNG_UP
        self.shut(socket.SHUT_RDWR)

    def close(self) -> bool:
        """Close the socket; idempotent. Return whether it was open."""
        with self._lock:
            was_open = self._ended is not State.CLOSED
            self._ended = State.CLOSED
            close_socket(self.sock)
        return was_open


def at_end(sock: socket.socket) -> bool:
    """Return whether the other side has closed a connection and all of its bytes are read; never blocks.

    :raises OSError: the connection broke, or was closed here.
    """
    return is_ready(sock) and not sock.recv(1, socket.MSG_PEEK)


def is_ready(sock: socket.socket, seconds: float = 0.0, writable: bool = False) -> bool:
    """Return whether bytes have come, or the end of the stream.

    :param seconds: for which it waits; by default it never blocks.
    :param writable: returns whether the system takes bytes instead.
    :raises OSError, ValueError: the connection was closed here.
    """
    if sys.platform != "win32" and hasattr(select, "poll"):
        poll = select.poll()  # select() does not support descriptors above 1023
        poll.register(sock, select.POLLOUT if writable else select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    some, none = [sock], ()
    readable, writing, _ = select.select(none if writable else some, some if writable else none, none, seconds)
    return bool(readable or writing)


def parts_of(head: bytes, body: bytes, tail: bytes) -> "List[Union[bytes, memoryview]]":
    """Return three parts of a response as few pieces to send, so that a large body is not copied for it."""
    if len(body) <= 2 * _JOINED_BYTES:
        return [head + body + tail if tail else head + body]
    rest = memoryview(body)
    first = head + rest[:_JOINED_BYTES]
    if not tail:
        return [first, rest[_JOINED_BYTES:]]
    return [first, rest[_JOINED_BYTES:-_JOINED_BYTES], bytes(rest[-_JOINED_BYTES:]) + tail]


_PIECE = 1 << 18
#: Seconds after which the rate of a body is checked.
_RATE_AFTER_SECONDS = 5.0
#: A body of at most so many bytes that has arrived whole does not count to the budget: on all connections together such bodies
#: take little.
SMALL_BODY = 4096
#: Bytes that an object, an array or one of their members takes when it is decoded, roughly.
_ELEMENT_BYTES = 64
#: Seconds that an answer waits for room, and between two looks for it. One answer waits at a time: it has a turn.
_ROOM_SECONDS = 0.5
_LOOK_SECONDS = 0.01
_REFUSED = "the request bodies of all clients together are too large; try again later"


class BodyBudget:
    """Bounds the bytes of the bodies that are read and served at once, and those of heads that have not arrived whole.

    At the limit, the client with the most bytes has its oldest unfinished body refused. If a client does not read an answer as
    fast as it is sent, the answer counts like an unfinished body; a large answer counts from before it is made.

    :param limits: of the server.
    """

    def __init__(self, limits: Limits) -> None:
        self.shares: Shares[Union[RequestBody, PlannedAnswer]] = Shares(sys.maxsize, limits.body_bytes_at_once,
                                                                        busy=lambda counted: counted.complete)
        #: The connections on which a head has arrived in part.
        self.heads: Shares[Hashable] = Shares(sys.maxsize, limits.head_bytes_at_once)


class PlannedAnswer:
    """A large answer that is being made, and then sent, as it counts to the budget.

    :param body: of its request.
    """

    __slots__ = ("_body",)

    #: False, as for an unfinished body: the answer can be cut off.
    complete = False

    def __init__(self, body: "RequestBody") -> None:
        self._body = body

    def refuse(self) -> None:
        """Cut the answer off for another body or answer, from any thread: the connection ends."""
        self._body.refuse()


class RequestBody:
    """The unread body of a request.

    :param plan: its length in bytes; None if it is chunked.
    :param budget: of all connections.
    :param sender: the key under which the budget counts the body.
    """

    #: Whether the body counts to the budget, until :meth:`close`.
    counted = False
    #: Whether the body was refused, since the budget was used up.
    _refused = False
    #: The time from which the body was awaited, and the bytes of it that have come since.
    _started, _bytes = 0.0, 0
    #: Whether the answer counts, since the client has not read it yet.
    _answered = False
    #: Whether the body was read, and its request is being served.
    complete = False
    #: The large answer that :meth:`reserve` counts.
    planned: Optional[PlannedAnswer] = None
    #: Whether the request was answered, or its client has left; set before :meth:`close`.
    over = False

    def __init__(self, client: ClientSocket, head: RequestHead, plan: Optional[int], limits: Limits, budget: BodyBudget,
                 sender: str) -> None:
        self._client = client
        self._head = head
        self._plan = plan
        self._limits = limits
        self._shares = budget.shares
        #: The key under which the budget counts the body.
        self.sender = sender
        #: Whether part of the body may still follow on the socket, so that it cannot be reused.
        self.unread = plan != 0

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises UnreadableBody: it has more than *limit* bytes, comes too slowly, or does not match the headers.
        """
        plan, client, head = self._plan, self._client, self._head
        if plan is not None and plan > limit:
            raise UnreadableBody(413, "send less in one message, or raise Limits.message_bytes of the server: the body has"
                                      f" {plan} bytes, and the limit is {limit}")
        buffer = client.buffer
        whole = plan is not None and len(buffer) >= plan
        if plan is not None and whole and plan <= SMALL_BODY:
            body = bytes(buffer[:plan])
            del buffer[:plan]
            self.unread = False
            return body
        try:
            if not whole:
                self._count(0)
                if (head.version == (1, 1) and (head.headers.get("expect") or "").lower() == "100-continue"
                        and not buffer):
                    client.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                client.enter(State.BODY)
                self._started = client.since
            body = self._read_chunks(limit) if plan is None else self._read_length(plan)
            if not whole:
                client.enter(State.SERVING)
            self.complete = True
            self._count(2 * len(body) + _ELEMENT_BYTES * min(count_elements(body), self._limits.json_elements))
        except (OSError, ClientGone) as error:
            raise UnreadableBody(400, f"the client left in the middle of the body: {error}") from error
        self.unread = False
        return body

    def close(self) -> None:
        """Note that the request was answered."""
        if self.counted:
            self._shares.remove(self)
        if self.planned is not None:
            self._shares.remove(self.planned)

    def refuse(self) -> None:
        """Stop reading this body, for another one, from any thread. If its request is in progress, the connection ends."""
        self._refused = True
        self._client.shut(socket.SHUT_RDWR if self.complete or self._answered else socket.SHUT_RD)

    def reserve(self, size: int) -> bool:
        """Count an answer that is about to be made, until :meth:`close`; return whether there is room for it.

        Another answer may be cut off for it, but not before its client had a moment to read it. This is called on the thread of
        the handler; meanwhile the thread of the connection may send messages that come before the answer.

        :param size: its bytes.
        """
        most = self._limits.body_bytes_at_once
        size = min(size, most)
        if self._shares.bytes + size > most:
            end = time.monotonic() + _ROOM_SECONDS
            while self._shares.bytes + size > most and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
        planned = PlannedAnswer(self)
        going = self._shares.add(planned, self.sender, size)
        if going is None:
            return False
        self.planned, self._answered, self.complete = planned, True, False
        for other in going:
            other.refuse()
        if self.over:
            self._shares.remove(planned)  # close() was called before there was something to remove
        return True

    def count_answer(self, size: int) -> None:
        """Note that the client has not read the answer yet; it counts until the client has read it, or until :meth:`close`.

        :param size: its bytes.
        :raises ClientGone: there is no room for it.
        """
        if self._answered:
            return
        self._answered, self.complete = True, False
        try:
            self._count(min(size, self._limits.body_bytes_at_once))
        except UnreadableBody:
            raise ClientGone("there was no room for an answer that it did not read") from None

    def answer_read(self) -> None:
        """Note that the client has read the answer that counted."""
        if self._answered:
            self._answered = self.counted = False
            self._shares.remove(self)

    def _count(self, size: int) -> None:
        """Set the bytes that count to the budget.

        :raises UnreadableBody: there is no room for them.
        """
        going: Optional[List[Union[RequestBody, PlannedAnswer]]]
        if self.counted:
            going = self._shares.resize(self, size)
        else:
            going = self._shares.add(self, self.sender, size)
            self.counted = True
        for body in going or ():
            if body is not self:
                body.refuse()
        if going is None or self in going:
            raise UnreadableBody(503, _REFUSED)

    def _read_length(self, plan: int) -> bytes:
        buffer = self._client.buffer
        if len(buffer) > plan:
            body = bytes(buffer[:plan])
            del buffer[:plan]
            return body
        self._client.buffer = bytearray()
        whole = io.BytesIO()  # which returns its bytes without another copy
        whole.write(buffer)
        received = len(buffer)
        while received < plan:
            received += whole.write(self._receive(min(plan - received, _PIECE)))
            self._count(received)
        return whole.getvalue()

    def _read_chunks(self, limit: int) -> bytes:
        decoder = ChunkedDecoder(limit)
        body = io.BytesIO()
        data = bytes(self._client.buffer)
        try:
            while True:
                body.write(decoder.feed(data))
                if decoder.done:
                    break
                self._count(body.tell())
                data = self._receive(_PIECE)
        except BadRequest as error:
            raise UnreadableBody(error.status, str(error)) from error
        self._client.buffer = bytearray(decoder.rest)
        return body.getvalue()

    def _receive(self, size: int) -> bytes:
        try:
            data = self._client.recv(size, self._left())
        except socket.timeout:
            return b""  # the next call of _left() checks the time
        if self._refused:
            raise UnreadableBody(503, _REFUSED)
        if not data:
            raise UnreadableBody(400, "the body ended early")
        self._bytes += len(data)
        return data

    def _left(self) -> float:
        """Return the seconds until the time and the rate must be checked again.

        :raises UnreadableBody: the body is too slow.
        """
        limits = self._limits
        passed = time.monotonic() - self._started
        if passed >= limits.body_seconds:
            raise UnreadableBody(408, f"the body did not arrive within {limits.body_seconds:g} s")
        if passed > _RATE_AFTER_SECONDS and self._bytes < limits.body_rate * passed:
            raise UnreadableBody(408, f"the body arrives at less than {limits.body_rate} bytes a second")
        return min(limits.body_seconds - passed, 1.0)

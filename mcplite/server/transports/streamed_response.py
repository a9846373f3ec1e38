"""A response that is an event stream: it is sent piece by piece, by the thread that has the next piece, and by the poller.

No thread belongs to it. The thread that serves the request sends what there is, and gives the connection to the poller. From
then on a handler, or a thread that reports a change, sends its message itself, without blocking. The poller sends what the
socket did not take, has the comments of a quiet stream sent, and notices that the client has left::

    begun ──owned by the poller──> waiting ──ready(), or its time has come──> sending <──ready()──> more
                                      ^                                        │    │
                                      └────────── nothing is left ─────────────┘    │ the socket is full
                                                                                    v
    each of them ──the end, the client is gone, or cancel()──> over    sending <── full, until it is writable

If a stream is cancelled while a thread sends, its state is *gone* until that thread notices. So no socket is closed during a
``send``.
"""

import enum
import threading
import time
from collections import deque
from typing import Callable, Deque, Optional, Union

from ...rpc.deadline import undo
from ...rpc.tracing import get_logger
from ..http.messages import HTTPResponse
from ..state.response_bodies import StreamingBody, do_nothing
from .client_socket import ClientGone, ClientSocket, RequestBody, parts_of

__all__ = ["StreamedResponse"]

_log = get_logger(__name__)
#: If a piece has more bytes than this, and the socket does not take it at once, it counts as an unread answer until the socket
#: has taken all of it: one message may have any size.
_LARGE_PIECE = 65_536


class _Sending(enum.Enum):
    """The states of a stream, which the docstring of the module draws."""

    BEGUN = "begun"
    WAITING = "waiting"
    SENDING = "sending"
    MORE = "more"
    FULL = "full"
    GONE = "gone"
    OVER = "over"


#: Pieces that a thread sends before the poller sends the next ones. Without the limit, a thread could send the messages of
#: other threads for ever.
_MOST_PIECES = 16
#: The states in which a thread is sending.
_BUSY = (_Sending.BEGUN, _Sending.SENDING, _Sending.MORE, _Sending.GONE)


class StreamedResponse:
    """One response, from its head to its end.

    :param client: to which it is sent.
    :param asked: the body of the request: large pieces are counted with it.
    :param response: with a :class:`StreamingBody`; it is closed by :meth:`close`.
    :param head: the bytes of the response before its body.
    :param chunked: whether the body is sent in chunks, so that its end can be told from the end of the connection.
    :param again: whether the connection can be used for another request after it.
    :param failed: called in the ``except`` block of an exception that has ended the response.
    """

    __slots__ = ("body", "again", "broken", "since", "_client", "_asked", "_response", "_head", "_chunked", "_failed", "_lock",
                 "_state", "_parts", "_size", "_last", "_on_full", "_on_over")

    def __init__(self, client: ClientSocket, asked: RequestBody, response: HTTPResponse, head: bytes, chunked: bool,
                 again: bool, failed: Callable[[], object]) -> None:
        assert isinstance(response.body, StreamingBody)
        self.body: StreamingBody = response.body
        self.again = again
        #: Whether the response ended before all of it was sent.
        self.broken = False
        #: Since when the socket takes nothing; 0 while it does.
        self.since = 0.0
        self._client = client
        self._asked = asked
        self._response = response
        self._head = head
        self._chunked = chunked
        self._failed = failed
        #: Guards the state; held for assignments. The fields below belong to the thread that sends.
        self._lock = threading.Lock()
        self._state = _Sending.BEGUN
        #: What the socket did not take yet, and the size of the piece that it belongs to.
        self._parts: "Optional[Deque[Union[bytes, memoryview]]]" = None
        self._size = 0
        #: Whether ``_parts`` is the last piece of the response.
        self._last = False
        #: What the poller does when the socket takes no more, and when the response has ended; on the thread that sends.
        self._on_full: Callable[[], object] = do_nothing
        self._on_over: Callable[[], object] = do_nothing

    # --- the thread that serves the request ---------------------------------------------------------------

    def begin(self) -> bool:
        """Send what there is; return whether that was the whole response.

        :raises ClientGone, OSError: the client takes nothing.
        """
        self.body.watched = True
        done = self._send()
        with self._lock:
            if done is None:
                self._state = _Sending.OVER
        return done is None

    def pass_on(self, on_full: Callable[[], object], on_over: Callable[[], object]) -> None:
        """Let all threads send from now on.

        :param on_full: called when the socket takes no more: call :meth:`writable` when it does.
        :param on_over: called when the response has ended; nothing is sent any more.
        """
        self._on_full, self._on_over = on_full, on_over
        self.body.on_ready = self.ready
        with self._lock:
            gone = self._state is _Sending.GONE
            self._state = state = _Sending.OVER if gone else _Sending.FULL if self.since else _Sending.WAITING
        if state is _Sending.OVER:
            self.broken = True
            on_over()
        elif state is _Sending.FULL:
            on_full()
        else:
            self.ready()  # what came since the serving thread has looked

    def send_here(self) -> None:
        """Send the whole response on this thread, which waits for its pieces and for its client.

        :raises ClientGone, OSError: the client takes nothing.
        """
        self._client.allow_blocking()
        while True:
            done = self._send()
            if done is None:
                return
            if done:
                self.body.wait()
            elif not self._client.wait_writable():
                raise ClientGone(f"it took no byte of a stream for {self._client.write_seconds:g} s")

    def close(self) -> None:
        """Release the body."""
        self._response.close()

    @property
    def status(self) -> int:
        """The status of the response."""
        return self._response.status

    # --- any thread -----------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Send what the body has, unless another thread is sending, or the socket is full."""
        with self._lock:
            if self._state is not _Sending.WAITING:
                if self._state is _Sending.SENDING:
                    self._state = _Sending.MORE
                return
            self._state = _Sending.SENDING
        self._run()

    def writable(self) -> None:
        """Go on, since the socket may take more."""
        with self._lock:
            if self._state is not _Sending.FULL:
                return
            self._state = _Sending.SENDING
        self._run()

    def cancel(self) -> None:
        """End the response without sending the rest: the connection is shut down, or its client has left or reads nothing."""
        with self._lock:
            if self._state in _BUSY:
                self._state = _Sending.GONE
                return  # that thread ends the response
            over, self._state = self._state is _Sending.OVER, _Sending.OVER
        if not over:
            self.broken = True
            self._on_over()

    @property
    def full(self) -> bool:
        """Whether the socket takes no more at present."""
        return self._state is _Sending.FULL

    @property
    def look_at(self) -> float:
        """When to call :meth:`look`, by the monotonic clock."""
        return self.since + self._client.write_seconds if self._state is _Sending.FULL else self.body.look_at

    def look(self, now: float) -> None:
        """Do what is due: send a comment or the end, or end the response of a client that takes nothing."""
        if now < self.look_at:
            return
        if self._state is not _Sending.FULL:
            self.ready()
        elif self.since:
            _log.debug("the connection of %s ended: it took no byte of a stream for %g s", self._client.remote,
                       self._client.write_seconds)
            self.cancel()

    def wait_writable(self) -> None:
        """Wait until the socket takes more, and go on; on a thread of its own, while no poller watches the socket."""
        if self._client.wait_writable():
            self.writable()
        else:
            self.cancel()

    # --- the thread that sends ------------------------------------------------------------------------------

    def _run(self) -> None:
        with undo(self._interrupted):
            state, rounds = _Sending.MORE, 0
            while state is _Sending.MORE:
                done, rounds = self._try(), rounds + 1
                with self._lock:
                    state = self._state
                    if done is None or state is _Sending.GONE:
                        self.broken = self.broken or state is _Sending.GONE
                        self._state = state = _Sending.OVER
                    elif not done:
                        self._state = state = _Sending.FULL
                    elif state is not _Sending.MORE:
                        self._state = _Sending.WAITING
                    elif rounds < _MOST_PIECES:
                        self._state = _Sending.SENDING
                    else:
                        self._state, self.since = _Sending.FULL, time.monotonic()
                        state = _Sending.FULL
        if state is _Sending.OVER:
            self._on_over()
        elif state is _Sending.FULL:
            self._on_full()

    def _try(self) -> Optional[bool]:
        try:
            return self._send()
        except (ClientGone, OSError) as error:
            _log.debug("the connection of %s ended: %s", self._client.remote, error)
        except Exception:
            self._failed()
        self.broken = True
        return None

    def _interrupted(self) -> None:
        # Called when an exception ends the sending, such as one that a signal handler raises while a thread of the user reports
        # a change.
        with self._lock:
            over, self._state = self._state is _Sending.OVER, _Sending.OVER
        if not over:
            self.broken = True
            self._on_over()

    def _send(self) -> Optional[bool]:
        """Send what there is; return whether that was all, and None at the end of the response.

        :raises ClientGone, OSError: the client takes nothing.
        """
        for _ in range(_MOST_PIECES):
            if self._parts is not None and not self._flush():
                return False
            if self._last:
                return None
            body = self.body
            piece = body.take()
            if piece is None:
                self._last = True
                self._parts = deque((self._head + (b"0\r\n\r\n" if self._chunked else b""),))
            elif piece:
                self._last = last = body.last
                if self._chunked:
                    # The end goes in one segment with the last piece: if a client stops reading after its answer, it has
                    # received the end, too.
                    tail = b"\r\n0\r\n\r\n" if last else b"\r\n"
                    parts = parts_of(b"%b%x\r\n" % (self._head, len(piece)), piece, tail)
                else:
                    parts = parts_of(self._head, piece, b"")
                self._parts, self._size = deque(parts), len(piece)
                if body.drained and not last and body.look_at and not self._head:
                    return self._flush()
            elif self._head:
                self._parts = deque((self._head,))
            else:
                return True
            self._head = b""
        self.since = self.since or time.monotonic()
        return False

    def _flush(self) -> bool:
        """Send the rest of a piece; return whether the socket has taken it."""
        parts, moved = self._parts, not self.since
        assert parts is not None
        while parts:
            part = parts[0]
            sent = self._client.send_now(part)
            moved = moved or sent > 0
            if sent < len(part):
                parts[0] = memoryview(part)[sent:]
                if moved:
                    self.since = time.monotonic()
                if self._size > _LARGE_PIECE:
                    self._asked.count_answer(self._size)
                return False
            parts.popleft()
        if self._size > _LARGE_PIECE:
            self._asked.answer_read()
        self._parts, self._size, self.since = None, 0, 0.0
        return True

"""The transport interface: a channel carries whole messages as bytes; also over memory and over streams.
A custom transport is one subclass of :class:`Channel` with four methods: ``read``, ``write``, ``wake``
and ``close``. The engine promises that at most one thread is inside ``read`` at a time and that nobody is
inside it any more when ``close`` is called, unless ``interruptible`` is false.
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Mapping, Optional, Tuple

from ..errors import ConnectionClosed, ProtocolError, RequestTimeout
from ..protocol.framing import LineBuffer
from .deadline import Deadline

if TYPE_CHECKING:
    from .pending import Pending
    from .reading import Reading
    from .threads import Workers

__all__ = ["Channel", "MemoryChannel", "StreamChannel"]


#: How long a cancel notice may wait for a peer that does not read, behind a caller that has given up.
_SOON_SECONDS = 0.1


class Channel:
    """One connection to one peer."""

    #: How errors and logs call the peer.
    name = "the peer"
    #: Whether ``read`` honours its timeout and ``wake``. If not, one thread reads for everybody.
    interruptible = False
    #: Whether a message travels with headers of its own, and hanging up calls it off.
    carries_headers = False
    #: Whether another one like it can be made when the other side has gone.
    restartable = False
    #: Called with the session that the other side does not know any more, when nobody is in a call that could
    #: be told; whoever opens sessions sets it.
    on_lost: Callable[[str], object] = str

    def open(self) -> None:
        """Connect, where that takes so long that somebody may close the channel meanwhile; called once or more.

        :raises TransportError: the other side cannot be reached.
        """

    @property
    def buffered(self) -> bool:
        """Whether the next ``read`` would return a message without waiting."""
        return False

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        """Return the next message, or None when *timeout* seconds passed or ``wake`` was called.

        :raises ConnectionClosed: nothing will come any more.
        :raises ProtocolError: what came cannot be a message (too large); it was discarded, and the
            next ``read`` goes on behind it.
        """
        raise NotImplementedError

    def consume(self) -> None:
        """Called when the message that ``read`` returned has been dealt with.

        A channel that keeps the message until then loses nothing when an exception from a signal
        handler strikes the reader; most need not care.
        """

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        """Send one whole message; callable from any thread.

        :param timeout: seconds to wait for a peer that does not read; None waits for ever.
        :raises ConnectionClosed: the peer is gone.
        :raises RequestTimeout: the peer did not take the message in time.
        """
        raise NotImplementedError

    def write_beside(self, data: bytes, headers: Mapping[str, str], timeout: Optional[float] = None) -> None:
        """Write a message with headers beside it, on a channel that :attr:`carries_headers`; see :meth:`write`."""
        self.write(data, timeout)

    def write_call(self, data: bytes, pending: "Pending", timeout: Optional[float] = None) -> None:
        """Write the request that *pending* waits for, for as long as it does; see :meth:`write`."""
        self.write(data, timeout)

    def write_soon(self, data: bytes) -> None:
        """Send a message that nobody waits for; must not take longer than a moment.

        :raises RequestTimeout, TransportError: it was not sent; nothing will be done about it.
        """
        self.write(data, _SOON_SECONDS)

    def wake(self) -> None:
        """Have the present or the next ``read`` return None; callable from any thread."""

    def reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                workers: "Workers") -> "Optional[Reading]":
        """Return how this channel is read when that is not by ``read``: over HTTP each caller reads its own answer.

        :param receive: takes each message.
        :param failed: takes the error that ends the conversation.
        :param workers: of the side that reads.
        """
        return None

    def agreed(self, version: Optional[str]) -> None:
        """Called when the revision is agreed on.

        :param version: its name, when the transport has to repeat it.
        """

    def listen(self) -> None:
        """Called when a handshake is complete: from now on the other side may say what belongs to no call."""

    @property
    def session(self) -> str:
        """What the server calls the conversation; empty where the connection itself is the conversation."""
        return ""

    def alternative(self, error: Exception) -> "Optional[Channel]":
        """Return another way to reach the same peer, after the handshake failed with *error*; None for none."""
        return None

    def close(self) -> None:
        """End the connection and free what it holds; idempotent, callable from any thread."""
        raise NotImplementedError


class _Queue:
    """One direction of a memory channel: a bounded queue of messages."""

    def __init__(self, limit: int) -> None:
        #: Guards all fields below; waiters wait on it for messages, for room, or for the end.
        self.changed = threading.Condition()
        self.messages: Deque[bytes] = deque()
        self.limit = limit
        self.closed = False
        self.woken = False

    def get(self, timeout: Optional[float]) -> Optional[bytes]:
        with self.changed:
            self.changed.wait_for(lambda: self.messages or self.closed or self.woken, timeout)
            if self.messages:
                message = self.messages.popleft()
                self.changed.notify_all()
                return message
            self.woken = False
            if self.closed:
                raise ConnectionClosed("the other side of the memory channel was closed")
            return None

    def put(self, data: bytes, timeout: Optional[float]) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.messages) < self.limit or self.closed, timeout):
                raise RequestTimeout(f"the peer did not read for {timeout:g} s")
            if self.closed:
                raise ConnectionClosed("the memory channel is closed")
            self.messages.append(data)
            self.changed.notify_all()

    def set(self, flag: str) -> None:
        with self.changed:
            setattr(self, flag, True)
            self.changed.notify_all()


class MemoryChannel(Channel):
    """One end of a connection inside this process; make both with :meth:`pair`."""

    interruptible = True

    def __init__(self, inbound: _Queue, outbound: _Queue, name: str) -> None:
        self._inbound, self._outbound = inbound, outbound
        self.name = name

    @classmethod
    def pair(cls, names: Tuple[str, str] = ("the client", "the server"), limit: int = 1024
             ) -> "Tuple[MemoryChannel, MemoryChannel]":
        """Return two connected ends.

        :param names: how each end calls the *other* side.
        :param limit: messages that may wait in one direction before ``write`` waits.
        """
        left, right = _Queue(limit), _Queue(limit)
        return cls(left, right, names[1]), cls(right, left, names[0])

    @property
    def buffered(self) -> bool:
        return bool(self._inbound.messages)

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        return self._inbound.get(timeout)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        self._outbound.put(data, timeout)

    def wake(self) -> None:
        self._inbound.set("woken")

    def close(self) -> None:
        self._outbound.set("closed")
        self._inbound.set("closed")


class StreamChannel(Channel):
    """Newline framing over two binary streams that the caller already has (CUST-04).

    :param reader: has ``readline``-free ``read1(n)`` or ``recv(n)`` or ``read(n)``, returning bytes.
    :param writer: has ``write`` and ``flush``, or ``sendall``.
    :param name: how errors call the peer.
    :param line_limit: bytes that one message may have; default 16 MiB.

    Closing closes both streams; a socket is shut down first, since that alone ends a blocked read.
    """

    def __init__(self, reader: Any, writer: Any, *, name: str = "the peer", line_limit: int = 16 << 20) -> None:
        self._reader, self._writer = reader, writer
        self._receive = getattr(reader, "read1", None) or getattr(reader, "recv", None) or reader.read
        self._lines = LineBuffer(line_limit)
        self.name = name
        self._closed = False
        #: Keeps one message whole on the stream; held while it is written.
        self._write_lock = threading.Lock()

    @property
    def buffered(self) -> bool:
        return self._lines.ready

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        while True:
            if self._lines.ready and not self._lines.oversize:
                return self._lines.next()
            if self._lines.take_oversize():
                raise ProtocolError(f"{self.name} sent a line of more than {self._lines.limit} bytes; it was dropped")
            try:
                chunk = self._receive(65536)
            except (OSError, ValueError) as error:
                raise ConnectionClosed(f"reading from {self.name} failed: {error}") from error
            if not chunk:
                raise ConnectionClosed(f"{self.name} closed the connection")
            self._lines.feed(chunk)

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        deadline = Deadline(timeout)
        if not self._write_lock.acquire(timeout=-1 if timeout is None else timeout):
            raise RequestTimeout(f"{self.name} did not read for {timeout:g} s")
        try:
            if self._closed or deadline.expired:
                raise ConnectionClosed(f"the connection to {self.name} is closed")
            if hasattr(self._writer, "sendall"):
                self._writer.sendall(data + b"\n")
            else:
                self._writer.write(data + b"\n")
                self._writer.flush()
        except (OSError, ValueError) as error:
            raise ConnectionClosed(f"writing to {self.name} failed: {error}") from error
        finally:
            self._write_lock.release()

    def close(self) -> None:
        self._closed = True
        for stream in (self._writer, self._reader):
            sock = stream if hasattr(stream, "shutdown") else getattr(getattr(stream, "raw", None), "_sock", None)
            if sock is not None:
                try:
                    sock.shutdown(2)
                except OSError:
                    continue  # the peer closed first; there is nothing left to wake
        for stream in (self._writer, self._reader):
            try:
                stream.close()
            except (OSError, ValueError):
                continue  # a flush into a closed pipe: the end is what was wanted

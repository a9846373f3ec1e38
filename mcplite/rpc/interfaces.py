"""The interfaces of the engine: what a channel, a way of reading and an outlet have to offer."""

import contextlib
from typing import TYPE_CHECKING, Callable, ContextManager, Mapping, Optional

from .pending import Pending
from .threads import Workers

if TYPE_CHECKING:
    from .pending import Pending
    from .threads import Workers


if TYPE_CHECKING:
    from .threads import Workers


__all__ = ["Channel", "Outlet", "Reading"]


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


class Outlet:
    """Where the messages of one request go when that is not the channel: its own HTTP response."""

    def send(self, data: bytes) -> bool:
        """Send a message that comes before the answer; False when nothing can come any more.

        It may wait for a peer that reads slowly; callable from any thread.
        """
        raise NotImplementedError

    def offer(self, data: bytes) -> bool:
        """Send a message if that is possible without waiting; False if it is not."""
        raise NotImplementedError

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        """Send the answer, or None when there will be none; the last call.

        :param code: of the JSON-RPC error, when the answer is one.
        """
        raise NotImplementedError

    def begin(self) -> None:
        """Called when the handler starts to run; until then the request waits for a place."""

    def pause(self, retry: Optional[float]) -> bool:
        """Close the connection that carries this, for the peer to come back; False where that cannot be."""
        return False


class Reading:
    """How one conversation gets what the other side says."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def start(self) -> None:
        """Begin to read."""

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        """Send the request that *pending* waits for; see :meth:`Channel.write`."""
        self._channel.write_call(data, pending, timeout)

    def wait(self, pending: Pending) -> None:
        """Return when *pending* is settled or interrupted, has progress to deliver, or is past its time."""
        raise NotImplementedError

    def interrupt(self, pending: Pending) -> None:
        """Have :meth:`wait` look up; *pending* was marked and nudged already."""
        self._channel.wake()

    def aside(self) -> ContextManager[None]:
        """Return a block in which the current thread waits for something else than an answer; see :meth:`Peer.aside`."""
        return contextlib.nullcontext()

    def done(self, pending: Pending) -> None:
        """Called when nobody waits for *pending* any more, however that came."""

    def stop(self, timeout: float) -> bool:
        """End reading for good; return whether nobody reads any more."""
        raise NotImplementedError

"""The interfaces of the engine: channel, reading, outlet, message sink.

A transport implements :class:`Channel`, and :class:`Reading` if callers read their answers themselves. The HTTP
server implements :class:`Outlet`. :class:`MessageSink` is what an incoming request sees of the peer.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Collection, ContextManager, Optional

from ..errors import TransportError
from .pending import Pending
from .threads import Workers

__all__ = ["DIRECT", "Channel", "Delivery", "MessageSink", "Network", "Outlet", "Reading", "too_long"]

#: How long sending a cancel notice may block; the caller has given up already.
_SOON_SECONDS = 0.1


class Network:
    """What carries the messages of a channel, for telemetry; an empty text is something that is not known.

    :param transport: "pipe", "tcp" or "unix".
    :param protocol: on top of it, in lower case; with its version.
    :param address: where the other side listens, if this side has connected to it.
    """

    def __init__(self, transport: str = "", protocol: str = "", version: str = "", address: str = "",
                 port: Optional[int] = None) -> None:
        self.transport = transport
        self.protocol = protocol
        self.version = version
        self.address = address
        self.port = port


_UNKNOWN = Network()


class Channel:
    """One connection to one peer, which carries whole messages as bytes.

    Subclass it for a transport of your own: ``read``, ``write``, ``wake`` and ``close`` are enough. All else has defaults,
    which suit a plain stream of messages. At most one thread is inside ``read`` at a time. Unless ``interruptible`` is false,
    no thread is inside ``read`` when ``close`` is called.
    """

    #: How errors and logs name the peer.
    name = "the peer"
    #: Whether ``read`` honours its timeout and ``wake``. If not, one thread reads for all callers.
    interruptible = False
    #: Whether each message travels by an HTTP request of its own: a value may go beside it, as headers (see
    #: :meth:`write_beside`), and giving up a call closes that request, so that no cancel notice is needed. False over HTTP+SSE.
    carries_headers = False
    #: Whether another channel like this one can be made once the other side has ended.
    restartable = False
    #: Whether its input is the stdout of a program, which may print there what is no message.
    from_stdout = False
    #: How many bytes a message may have in either direction; None for no limit.
    most_bytes: Optional[int] = None
    #: How many bytes of the messages written were left unread by the other side when it ended; None if that is not known.
    unread: Optional[int] = None
    #: Whether a client that is used in a forked process opens another channel like this one there.
    reopens_after_fork = False
    #: How many seconds ``open`` may take, set before it is called; None leaves that to the channel.
    open_timeout: Optional[float] = None
    #: How many of them ``open`` took to wait for the other side, without the time in which a user logged in.
    open_seconds = 0.0
    #: After how many seconds the other side wants to be asked again, as it said on the lasting call that it ended last; None
    #: if it did not say.
    ask_again_seconds: Optional[float] = None

    def read(self, timeout: Optional[float] = None) -> Optional[bytes]:
        """Return the next message; None if *timeout* seconds have passed or ``wake`` was called.

        :raises ConnectionClosed: no more messages will come.
        :raises ProtocolError: the input cannot be a message (it is too large). It was discarded, and the next
            ``read`` continues behind it.
        """
        raise NotImplementedError

    def write(self, data: bytes, timeout: Optional[float] = None) -> None:
        """Send one whole message; callable from any thread.

        :param timeout: seconds to wait for a peer that does not read; None waits without a limit.
        :raises ConnectionClosed: the peer is gone.
        :raises RequestTimeout: the peer did not take the message in time.
        """
        raise NotImplementedError

    def wake(self) -> None:
        """Make the present or the next ``read`` return None; callable from any thread."""

    def close(self) -> None:
        """End the connection and free its resources; idempotent, callable from any thread."""
        raise NotImplementedError

    # --- what a channel may do besides -----------------------------------------------------------------------

    def let_go(self, owner: int) -> None:
        """Free what a forked process has inherited of the channel, without notifying the other side.

        :param owner: the id of the process that has the channel.
        """

    def open(self) -> None:
        """Connect, if that may take so long that another thread closes the channel meanwhile.

        It may be called more than once.

        :raises TransportError: the other side cannot be reached.
        """

    @property
    def buffered(self) -> bool:
        """Whether the next ``read`` would return a message without waiting."""
        return False

    def consume(self) -> None:
        """Called when the message that ``read`` returned has been processed.

        A channel that keeps the message until then loses nothing if an exception from a signal handler interrupts
        the reading thread. Most channels need not care.
        """

    def write_beside(self, data: bytes, beside: Any, timeout: Optional[float] = None) -> None:
        """Write a message with a value beside it, if the channel :attr:`carries_headers`.

        :param beside: a value that only the session, which gives it, and the channel understand.
        """
        self.write(data, timeout)

    def write_request(self, data: bytes, timeout: Optional[float], call: Pending) -> None:
        """Write the request of a call. A channel that waits for a peer which does not read may end the wait with the call.

        :raises RequestTimeout: the peer did not take the message in time, or before the call was interrupted.
        """
        self.write(data, timeout)

    def write_soon(self, data: bytes) -> None:
        """Send a message that no caller waits for; must not block for more than a moment.

        :raises RequestTimeout, TransportError: it was not sent; the error is only logged.
        """
        self.write(data, _SOON_SECONDS)

    def create_reading(self, receive: Callable[[bytes], None], failed: Callable[[Exception], None],
                       workers: Workers) -> "Optional[Reading]":
        """Return the channel's own reading strategy; None if it is read by ``read``.

        :param receive: takes each message; it is ``Peer.receive``.
        :param failed: takes the error that ends the connection.
        :param workers: the pool of the side that reads.
        """
        return None

    def still_read(self) -> bool:
        """Whether the other side may still read what is written, now that it sends nothing more.

        A server's side answers the requests in progress then.
        """
        return False

    def set_version(self, version: Optional[str]) -> None:
        """Called when the revision has been agreed on.

        :param version: its name if the transport has to repeat it, else None.
        """

    def listen(self, on_session_lost: Callable[[str], object], timeout: float) -> None:
        """Called when a handshake is complete: the other side may now send messages that belong to no call.

        :param on_session_lost: called with the session id if the other side no longer knows the session, and no
            call is there to raise the error.
        :param timeout: seconds that it may take.
        """

    @property
    def network(self) -> Network:
        """What carries the messages, for telemetry."""
        return _UNKNOWN

    def accompany(self, values: Callable[[], Any]) -> None:
        """Have what *values* returns go beside each message, if the channel :attr:`carries_headers`.

        :param values: called for each message, on the thread that sends it.
        """

    @property
    def session_id(self) -> str:
        """The server's id of the session; empty if the connection itself is the session."""
        return ""

    def restore_session_id(self, lost: str) -> None:
        """End a session that has begun but was not completed, and use the id of the one that it was to replace.

        The other side does not know that id, so that the next message begins a session again.
        """

    def alternative(self, error: Exception) -> "Optional[Channel]":
        """Return another channel to the same peer, after the handshake failed with *error*; None if there is none."""
        return None


class Outlet:
    """Where the messages of one incoming request go, if not to the channel: its own HTTP response.

    For our HTTP endpoint that is an ``EventStream`` of ``server.state.streams``.
    """

    #: Whether only the response can be sent, and what would come before it is left out.
    plain = False

    def send(self, data: bytes) -> bool:
        """Send a message that precedes the response; False if no more messages can be sent.

        It may block on a peer that reads slowly; callable from any thread.
        """
        raise NotImplementedError

    def offer(self, data: bytes) -> bool:
        """Send a message if that is possible without blocking; False if it is not."""
        raise NotImplementedError

    def finish(self, data: Optional[bytes], code: Optional[int] = None) -> None:
        """Send the response, or None if there will be none. This is the last call.

        :param code: the code of the JSON-RPC error, if the response is one.
        """
        raise NotImplementedError

    def handler_started(self) -> None:
        """Called when the handler starts to run; until then the request waits for a slot."""

    def awaits_answer(self, waits: bool) -> None:
        """Called before the handler waits for the peer's answer to a question on this outlet, and with False after."""

    def close_connection(self, retry: Optional[float]) -> bool:
        """Close the response's connection and have the peer reconnect; False if that is not possible."""
        return False


class Delivery:
    """How a request of this side travels, and how the peer learns that it was given up.

    :param outlet: of the incoming request that this one belongs to; None is the channel (HTTP-12).
    :param beside: the value beside the message, on a channel that :attr:`~Channel.carries_headers`.
    :param cancel_notice: whether the peer is sent a cancel notice.
    :param lasting: whether the response comes at the end of something that goes on for long, such as a subscription, so that
        its caller does not read for the others meanwhile.
    :param spent: seconds of the call's limits that are gone: on an earlier attempt, or on opening a session.
    """

    __slots__ = ("outlet", "beside", "cancel_notice", "lasting", "spent")

    def __init__(self, outlet: Optional[Outlet] = None, beside: Any = None, cancel_notice: bool = True, lasting: bool = False,
                 spent: float = 0.0) -> None:
        self.outlet = outlet
        self.beside = beside
        self.cancel_notice = cancel_notice
        self.lasting = lasting
        self.spent = spent


#: How most requests travel.
DIRECT = Delivery()


class MessageSink:
    """The part of a peer that an incoming request uses: sending its notifications and its response.

    ``Peer`` implements it; a request that has become a task has a stand-in without a connection.
    """

    #: Bytes that a message may have which is sent.
    most_bytes = sys.maxsize

    #: Whether this process was forked from the one that has the connection.
    foreign = False
    #: Whether it speaks for many clients, each of which has request ids of its own.
    shared = False

    def send_message(self, data: bytes, outlet: Optional[Outlet] = None, wait: bool = True) -> bool:
        """Send one message; False if it was not sent.

        :param outlet: where it goes; None is the channel.
        :param wait: whether sending may block on a slow peer.
        """
        raise NotImplementedError

    def send_response(self, key: Any, data: Optional[bytes], code: Optional[int], outlet: Optional[Outlet]) -> None:
        """Remove a request from those in progress and send its response.

        :param key: of the request.
        :param data: the response; None if there is none to send now.
        :param code: of the JSON-RPC error, if it is one.
        :param outlet: where it goes; None is the channel.
        """
        raise NotImplementedError


def too_long(what: str, size: int, limit: int) -> TransportError:
    """Return the error of a message that is not sent, since it has more bytes than it may have."""
    error = TransportError(f"send less in one message: {what} has {size} bytes, and the limit is {limit}; it was not sent")
    error.temporary = False
    return error


class Reading:
    """How one connection gets the messages of the other side: a strategy, of which each channel has one.

    ``CallerReading`` is that of a client's pipe, ``LeaderFollowerReading`` that of a server's, both in :mod:`.reading`.
    ``PushedReading`` is that of a server over HTTP, and ``HTTPReading`` that of a client (``client.http.http_channel``).
    """

    #: The threads that have handed over the reading, and still process a message which may become a request in progress.
    behind: Collection[int] = ()
    #: Whether the message that is processed now has to be known before the next one may be processed.
    in_order = False
    #: The message at which an exception of a signal handler has interrupted the thread that read: it is read once more.
    unconsumed: Optional[bytes] = None

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def start(self) -> None:
        """Start to read: a daemon of ``CallerReading``, the first leader of ``LeaderFollowerReading``; over HTTP nothing."""

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        """Send the request that *pending* stands for; see :meth:`Channel.write`.

        ``HTTPReading`` also takes the head of the response, and an answer in JSON.
        """
        self._channel.write(data, timeout)

    def wait(self, pending: Pending) -> None:
        """Return when *pending* is complete or interrupted, has progress to deliver, or has timed out."""
        raise NotImplementedError

    def interrupt(self, pending: Pending) -> None:
        """Make :meth:`wait` return; *pending* was marked as interrupted and woken before."""
        self._channel.wake()

    def suspended(self) -> ContextManager[None]:
        """Return a block in which the current thread waits for something other than a response; see
        :meth:`Peer.without_slot`.
        """
        return contextlib.nullcontext()

    def done(self, pending: Pending) -> None:
        """Called when the call is over, with or without a response."""

    def let_go(self) -> None:
        """Called in a forked process: the connection belongs to another one, and no thread reads here."""

    def stop(self, timeout: float) -> bool:
        """Stop reading for good; return whether no thread reads any more, within *timeout* seconds."""
        raise NotImplementedError

    def join(self, timeout: float) -> None:
        """Wait until the threads that :meth:`start` has started have ended, but for the current one; called at the end."""

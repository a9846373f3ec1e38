"""A client socket for threads that may block and for threads that may not.

:mod:`.connection` writes responses to it, and :mod:`.request_body` reads from it.

The reverse proxies that a server believes: behind them, the client's address is in ``X-Forwarded-For``.
"""

import contextlib
import select
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Union

from ...protocol.error_text import Option, OptionText
from ...protocol.http.headers import Headers
from ...rpc.forks import close_socket
from ...rpc.tracing import get_logger
from ..http.messages import do_nothing

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = ["ClientGone", "ClientSocket", "SMALL_BYTES", "TrustedProxies"]

_log = get_logger(__name__)
#: Bytes that every socket takes at once when its send buffer is empty.
SMALL_BYTES = 4096
#: Bytes that are joined for one send(); of a larger body, as many at each of its ends.
_JOINED_BYTES = 65_536


class ClientGone(Exception):
    """The client has closed the connection, or is too slow; there is no client to answer."""


class ClientSocket:
    """One connected socket.

    While ``may_block`` is False, the socket is read and written without blocking. Before an operation has to block
    all the same, ``before_blocking`` is called, and ``may_block`` is True from then on.

    :param sock: connected; this object closes it.
    :param remote: the peer's address, for the log.
    :param write_seconds: the timeout of each step of sending.
    """

    def __init__(self, sock: socket.socket, remote: str, write_seconds: float) -> None:
        self.sock = sock
        self.remote = remote
        self._write_seconds = write_seconds
        #: Held by what another thread may do to the socket, and while it is closed: a socket that was just closed must
        #: not be shut down, since its number may belong to another by then.
        self._lock = threading.Lock()
        self._timeout: Optional[float] = -1.0
        #: Whether this side has shut down reading.
        self._shut = False
        #: Bytes that were received and not used yet.
        self.buffer = bytearray()
        #: Whether the serving thread may block.
        self.may_block = True
        #: Whether a whole request is being served, so that the connection is not idle; false while its body is awaited.
        self.busy = False
        #: Since when the client owes this side the rest of a request, or its first one; None if it owes nothing.
        self.owes_since: Optional[float] = time.monotonic()
        #: Called before sending a whole response blocks.
        self._before_waiting: Callable[[], object] = do_nothing
        #: Called before the first operation that blocks while ``may_block`` is False.
        self.before_blocking: Callable[[], object] = do_nothing

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

    def send_answer(self, head: bytes, body: bytes, before_waiting: Callable[[], object], tail: bytes = b"") -> None:
        """Send a whole response of more than a few bytes, or a large piece of one.

        :param before_waiting: called before it blocks, once or more.
        """
        self._before_waiting = before_waiting
        try:
            self.send_parts(head, body, tail)
        finally:
            self._before_waiting = do_nothing

    def send_parts(self, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send three parts as :meth:`send_all` sends one; a large body is not copied for it."""
        if len(body) <= 2 * _JOINED_BYTES:
            self.send_all(head + body + tail if tail else head + body)
            return
        rest = memoryview(body)
        self.send_all(head + rest[:_JOINED_BYTES])
        if tail:
            self.send_all(rest[_JOINED_BYTES:-_JOINED_BYTES])
            self.send_all(bytes(rest[-_JOINED_BYTES:]) + tail)
        else:
            self.send_all(rest[_JOINED_BYTES:])

    def send_all(self, data: "Union[bytes, memoryview]") -> None:
        """Send *data*.

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
            self.allow_blocking_send()
            self._before_waiting()
        elif len(data) > SMALL_BYTES:
            self.allow_blocking_send()
            self._before_waiting()
        try:
            sent = sent or self.sock.send(data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[self.sock.send(rest):]
        except socket.timeout:
            raise ClientGone(f"it took no byte of a response for {self._write_seconds:g} s") from None

    def allow_blocking(self, seconds: float) -> None:
        """Let reads and writes block from here on, each for *seconds* at most."""
        if not self.may_block:
            self.may_block = True
            self.before_blocking()
        self._set_timeout(seconds)

    def allow_blocking_send(self) -> None:
        """Let writes block from here on."""
        self.allow_blocking(self._write_seconds)

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
            return _readable(self.sock)
        except (OSError, ValueError):  # closed on this side
            return False

    def shut(self, how: int) -> None:
        """Shut down one direction or both, from any thread: a blocked read or write returns.

        Where the system does not end a read for that, as Windows need not, the read ends with its timeout.
        """
        self._shut = self._shut or how != socket.SHUT_WR
        try:
            with self._lock:
                self.sock.shutdown(how)
        except OSError as error:
            _log.debug("the connection of %s was closed already: %s", self.remote, error)

    def close(self) -> bool:
        """Close the socket; idempotent. Return whether it was open."""
        with self._lock:
            was_open = self.sock.fileno() >= 0
            close_socket(self.sock)
        return was_open


def at_end(sock: socket.socket) -> bool:
    """Return whether the other side has closed a connection and all of its bytes are read; never blocks.

    :raises OSError: the connection broke, or was closed here.
    """
    return _readable(sock) and not sock.recv(1, socket.MSG_PEEK)


def _readable(sock: socket.socket) -> bool:
    if sys.platform != "win32" and hasattr(select, "poll"):
        poll = select.poll()  # select() does not support descriptors above 1023
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


#: The name of all proxies that reach the server over a Unix socket, where a connection has no address.
_UNIX = "unix"


class TrustedProxies:
    """Tells the address of a request's client.

    :param networks: addresses and networks, such as ``"127.0.0.1"`` and ``"10.0.0.0/8"``, and ``"unix"`` for Unix sockets.
    :raises ValueError: one of them is neither.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        from ipaddress import ip_network  # for servers behind a proxy

        if isinstance(networks, str):
            networks = (networks,)
        self._unix = _UNIX in networks
        self._networks: "List[Union[IPv4Network, IPv6Network]]" = []
        for network in networks:
            if network == _UNIX:
                continue
            try:
                self._networks.append(ip_network(network))
            except ValueError:
                raise ValueError(OptionText(
                    f"{network!r} in ", Option("trusted_proxies", "trusted_proxies"),
                    " is not an address, a network such as '10.0.0.0/8', or 'unix'")) from None

    def client(self, address: str, headers: Headers) -> str:
        """Return the address that sent a request.

        Each proxy adds the address that it was reached from, so the addresses count from the last one on: the first that is
        not a proxy's is the client's. What the client itself wrote into the header stands before it, and is not looked at.

        :param address: of the connection; empty for a Unix socket.
        """
        forwarded = headers.get("x-forwarded-for")
        if forwarded is None or not self._trusts(address):
            return address
        for text in reversed(forwarded.split(",")):
            found = _parse(text)
            if found is None:
                break  # such as "unknown"
            address = str(found)
            if not self._trusts(address):
                break
        return address

    def _trusts(self, address: str) -> bool:
        if not address:
            return self._unix
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def _parse(text: str) -> "Union[None, IPv4Address, IPv6Address]":
    """Return an address, with or without a port; None if it is none."""
    from ipaddress import ip_address

    text = text.strip(" \t\"")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found

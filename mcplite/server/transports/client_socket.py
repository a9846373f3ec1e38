"""The socket of one client: bytes in and out, by a thread that may wait for them or by one that may not."""

import logging
import select
import socket
from typing import Callable, Optional

__all__ = ["ClientSocket", "Gone"]

_log = logging.getLogger(__name__)
#: Bytes that any socket takes at once when nothing waits to be sent.
_SMALL = 4096


class Gone(Exception):
    """The client has closed the connection, or takes too long; there is nobody to answer."""


class ClientSocket:
    """One connected socket.

    A thread that may not wait reads and sends what goes at once; before it has to wait all the same it steps
    down, and may from then on.

    :param sock: connected; this object closes it.
    :param remote: the other end, for the log.
    :param write_seconds: for each step of sending; a client may be slow, but not stand still.
    """

    def __init__(self, sock: socket.socket, remote: str, write_seconds: float) -> None:
        self.sock = sock
        self.remote = remote
        self._write_seconds = write_seconds
        self._timeout: Optional[float] = -1.0
        #: What has come and was not used yet.
        self.buffer = bytearray()
        #: Whether the thread that serves may wait.
        self.patient = True
        #: What to call before it waits although it may not.
        self.step_down: Callable[[], object] = bool

    def recv(self, size: int, seconds: float) -> bytes:
        """Return what comes; nothing at the end.

        :raises socket.timeout: nothing came within so many seconds.
        :raises OSError: the connection is broken.
        """
        if not self.patient:
            self._set_timeout(0.0)
            try:
                return self.sock.recv(size)
            except BlockingIOError:
                self.wait(seconds)
        self._set_timeout(seconds)
        return self.sock.recv(size)

    def send_all(self, data: bytes) -> None:
        """Send *data*.

        :raises Gone: the client takes nothing.
        :raises OSError: the connection is broken.
        """
        # One call for all of it, so that small responses are one segment. What fits into the kernel's buffer does not
        # wait, so that the time is not set, and reset for the next request, for nothing.
        sent = 0
        if not self.patient:
            sent = self._send_now(data)
            if sent == len(data):
                return
            self.wait_to_send()
        elif len(data) > _SMALL:
            self.wait_to_send()
        try:
            sent = sent or self.sock.send(data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[self.sock.send(rest):]
        except socket.timeout:
            raise Gone(f"it took no byte of a response for {self._write_seconds:g} s") from None

    def _send_now(self, data: bytes) -> int:
        self._set_timeout(0.0)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def wait(self, seconds: float) -> None:
        """From here on reading and writing may wait, each so many seconds."""
        if not self.patient:
            self.patient = True
            self.step_down()
        self._set_timeout(seconds)

    def wait_to_send(self) -> None:
        """From here on sending may wait."""
        self.wait(self._write_seconds)

    def _set_timeout(self, seconds: float) -> None:
        if seconds != self._timeout:
            self._timeout = seconds
            self.sock.settimeout(seconds)

    def hasten(self, size: int) -> None:
        """Take in what has come already."""
        try:
            self._set_timeout(0.0)
            self.buffer += self.sock.recv(size)
        except OSError as error:
            _log.debug("the connection of %s ended: %s", self.remote, error)

    def departed(self) -> bool:
        """Whether the client has closed its side, as far as that can be seen."""
        if self.buffer:
            return False  # there is another request; what is behind it cannot be seen yet
        try:
            if not _readable(self.sock):
                return False
            return not self.sock.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):  # reset by the client, or closed on this side
            return True

    def shut(self, how: int) -> None:
        """Close one direction or both, from any thread: a read or a write that blocks returns."""
        try:
            self.sock.shutdown(how)
        except OSError as error:
            _log.debug("the connection of %s was closed already: %s", self.remote, error)

    def close(self) -> None:
        """Close the socket; idempotent."""
        self.sock.close()


def _readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()  # select() cannot look at descriptors above 1023
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])

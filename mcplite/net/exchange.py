"""One HTTP request and its response: its deadline, and how another thread interrupts it.

Channels and OAuth requests create one for each request; connections ask it before each read and write.
"""

import contextlib
import socket
import threading
from typing import Any, Callable, Iterator, Optional

__all__ = ["Exchange", "Stopped"]


class Stopped(Exception):
    """The caller no longer waits for this response."""


def _unbounded() -> Optional[float]:
    return None


class Exchange:
    """One request and its response.

    :param next_timeout: returns the seconds that the next read or write may block, after which it is called again; raises
        :class:`Stopped` when the caller no longer waits.
    :param remaining: returns the seconds until all of it has to be over; None when there is no such bound.
    :param clock: measures the deadline, if it is one that can be paused.
    """

    def __init__(self, next_timeout: Callable[[], float], remaining: Callable[[], Optional[float]] = _unbounded,
                 clock: Any = None) -> None:
        self._next_timeout = next_timeout
        self._clock = clock
        #: Returns the seconds until the deadline; None without one.
        self.remaining = remaining
        #: Whether a user may be asked to log in on its behalf.
        self.may_log_in = True
        #: Whether :meth:`interrupt` was called, after which the socket is not usable.
        self.interrupted = False
        #: Whether its connection has served another request before.
        self.reused = False
        #: Whether a response has begun.
        self.answered = False
        #: Whether :attr:`address` is wanted: the peer's address, None until there is a connection, and where the socket is
        #: not of the internet.
        self.records_address = False
        self.address: Optional[str] = None
        #: Whether the request may have reached the server although its socket is not known here.
        self.may_have_been_sent = False
        #: Guards ``_sock``: an interrupt must not strike a connection that serves another exchange by now.
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None
        self._on_interrupt: Optional[Callable[[], object]] = None

    def next_timeout(self) -> float:
        """Return the seconds that the next read or write may block.

        :raises Stopped: the caller no longer waits.
        """
        if self.interrupted:
            raise Stopped
        return self._next_timeout()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause its clock for the block, if it has one that can be paused: a person may be asked to log in."""
        if self._clock is not None:
            self._clock.pause()
        try:
            yield
        finally:
            if self._clock is not None:
                self._clock.resume()

    def failure(self, url: str, reason: str) -> str:
        """Return what has happened to a request that has failed with an error of the system, for the caller.

        :param url: of the request, as it may be shown.
        :param reason: what the system said.
        """
        if self._sock is None and not self.may_have_been_sent:
            return f"cannot reach {url}: {reason}"
        kept = " that was kept open since an earlier request" if self.reused else ""
        return (f"the connection to {url}{kept} broke before the request was answered ({reason}); the server may or may not"
                " have done what was asked")

    def attach(self, sock: socket.socket) -> None:
        """Note the socket that the exchange uses from here on."""
        if self.records_address:
            # Now: once the server has closed, getpeername() fails, and a second lookup of its name may differ.
            with contextlib.suppress(OSError):
                self.address = str(sock.getpeername()[0])
        with self._lock:
            self._sock = sock

    def detach(self) -> None:
        """Note that the exchange is done with its socket, which another one may use."""
        with self._lock:
            self._sock = None

    def watch(self, on_interrupt: Optional[Callable[[], object]]) -> None:
        """Call a function when the exchange is interrupted, besides ending its socket; None for no function."""
        self._on_interrupt = on_interrupt

    def interrupt(self) -> None:
        """End the exchange from another thread: a blocked read or write returns at once."""
        self.interrupted = True
        on_interrupt = self._on_interrupt
        if on_interrupt is not None:
            on_interrupt()
        with self._lock:
            if self._sock is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # Past TLS, which would drop its state under the reading thread.
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

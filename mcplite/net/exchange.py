"""One HTTP exchange that another thread can stop, with its deadline."""

import contextlib
import socket
import threading
from typing import Any, Callable, Iterator, Optional

__all__ = ["Exchange", "Stopped"]


class Stopped(Exception):
    """Nobody waits for this response any more."""


class Exchange:
    """One request and its response.

    :param left: returns the seconds after which it wants to be asked again; raises :class:`Stopped` when nobody waits.
    :param clock: by which the time for it is measured, if that is one that can be stopped.
    """

    def __init__(self, left: Callable[[], float], in_all: Callable[[], Optional[float]] = lambda: None,
                 clock: Any = None) -> None:
        self._left = left
        self._clock = clock
        #: Returns the seconds until all of it has to be over; None when there is no such bound.
        self.left_in_all = in_all
        #: Whether a user may be asked to log in on its behalf.
        self.may_ask = True
        #: Whether it was interrupted, which is why its socket is not usable.
        self.cut = False
        #: Whether its connection has served another request before.
        self.used = False
        #: Whether a response has begun.
        self.answered = False
        #: Whether somebody has to know the address that it talks to; and that address, None before, and for what is no
        #: socket of the internet.
        self.notes_address = False
        self.address: Optional[str] = None
        #: Guards ``_sock``: an interrupt must not strike a connection that serves somebody else by now.
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None

    def left(self) -> float:
        """Return the seconds that the next read or write may take.

        :raises Stopped: nobody waits any more.
        """
        if self.cut:
            raise Stopped
        return self._left()

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """Let no time pass for it, as far as its clock can be stopped: a person may be asked to log in."""
        if self._clock is not None:
            self._clock.stop()
        try:
            yield
        finally:
            if self._clock is not None:
                self._clock.go()

    def hold(self, sock: Optional[socket.socket]) -> None:
        """Note the socket that the exchange uses; None when it is done with it."""
        if sock is not None and self.notes_address:
            # Now: who breaks it off behind the answer would not be known any more, and could have itself looked up anew.
            with contextlib.suppress(OSError):
                self.address = str(sock.getpeername()[0])
        with self._lock:
            self._sock = sock

    def interrupt(self) -> None:
        """End it from another thread: a read that waits returns at once."""
        self.cut = True
        with self._lock:
            if self._sock is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # Past TLS, which would drop its state under the thread that reads.
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

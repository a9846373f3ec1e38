"""One HTTP exchange: the deadline of a request and how another thread interrupts it, and the response.

Channels and OAuth requests create an :class:`Exchange` for each request; connections ask it before each read and write. A
:class:`Reply` is what an :class:`~.origin_client.OriginClient` returns; its body is read in pieces.
"""

import contextlib
import io
import socket
import threading
from typing import Any, Callable, Iterator, Mapping, Optional

from ..errors import AuthError, ProtocolError, TransportError
from ..protocol.error_text import shown

__all__ = ["Exchange", "Reply", "Stopped", "shut_down"]


class Stopped(Exception):
    """The caller no longer waits for this response."""


def shut_down(sock: socket.socket) -> None:
    """End a connection, from any thread: a blocked read returns, and the server sees the end although a fork has a copy."""
    with contextlib.suppress(OSError):  # the server has closed it, or it is closed already
        # The method of the plain socket: that of TLS would drop the TLS state while another thread reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _unbounded() -> Optional[float]:
    return None


class Exchange:
    """One request and its response.

    :param next_timeout: returns the seconds that the next read or write may block, after which it is called again; raises
        :class:`Stopped` when the caller no longer waits.
    :param remaining: returns the seconds until all of it has to be over; None when there is no such bound.
    :param clock: measures the deadline, if it can be paused; None if it cannot.
    """

    #: Whether a user may be asked to log in for this request.
    may_log_in = True
    #: Whether :meth:`interrupt` was called, after which the socket is not usable.
    interrupted = False
    #: Whether its connection has served another request before.
    reused = False
    #: Whether a response has begun.
    answered = False
    #: Whether :attr:`address` is recorded: the peer's address, None until there is a connection.
    records_address = False
    address: Optional[str] = None
    #: Whether the request may have reached the server although its socket is not known here.
    may_have_been_sent = False
    _sock: Optional[socket.socket] = None
    _on_interrupt: Optional[Callable[[], object]] = None

    def __init__(self, next_timeout: Callable[[], float], remaining: Callable[[], Optional[float]] = _unbounded,
                 clock: Any = None) -> None:
        self._next_timeout = next_timeout
        self._clock = clock
        #: Returns the seconds until the deadline; None without one.
        self.remaining = remaining
        #: Guards ``_sock``: an interrupt must not end a connection that already serves another exchange.
        self._lock = threading.Lock()

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

    @property
    def unsent(self) -> bool:
        """Whether it is certain that nothing of the request was sent: there was no connection."""
        return self._sock is None and not self.may_have_been_sent

    def failure(self, url: str, reason: str) -> str:
        """Return the text of the error for a request that has failed with an error of the system.

        :param url: of the request, as it may be shown.
        :param reason: what the system said.
        """
        if self.unsent:
            return f"cannot reach {url}: {reason}"
        kept = " that was kept open since an earlier request" if self.reused else ""
        return (f"the connection to {url}{kept} broke before the request was answered ({reason}); the server may or may not"
                " have done what was asked")

    def attach(self, sock: socket.socket) -> None:
        """Note the socket that the exchange uses from here on."""
        if self.records_address:
            # Now: once the server has closed, getpeername() fails, and a second lookup of its name may differ.
            with contextlib.suppress(OSError):
                peer = sock.getpeername()
                self.address = str(peer[0]) if isinstance(peer, tuple) else None  # a socket of a file has a path, or no name
        with self._lock:
            self._sock = sock

    def detach(self) -> None:
        """Note that the exchange no longer uses its socket, which another exchange may use."""
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
                shut_down(self._sock)


#: How many bytes of an error's body are read and shown.
_EXCERPT = 2000


class Reply:
    """One response; its body is not read yet. There is a subclass for each kind of sender, which reads the body.

    :param headers: by name in lower case.
    :param kind: the media type, without parameters and in lower case.
    """

    # Fields that most responses do not set have their values in the class only.
    #: The token that the request was sent with, if a :class:`TokenSource` gave one.
    token: Optional[str] = None
    #: The session of the server that the request named; empty for none.
    session = ""
    #: The address that it came from; None if it was not recorded, or if there is a proxy in between.
    address: Optional[str] = None
    #: Bytes of the body that have not come yet; None if only its end will show its length.
    _missing: Optional[int] = None
    _over = False

    def __init__(self, status: int, headers: Mapping[str, str], kind: str, exchange: Exchange, url: str) -> None:
        self._exchange, self._url = exchange, url
        self.status, self.headers, self.kind = status, headers, kind
        exchange.answered = True

    # --- what a subclass defines ----------------------------------------------------------------------

    def _receive(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end.

        :raises Stopped: the caller no longer waits.
        :raises Exception: the connection broke, or what came is malformed.
        """
        raise NotImplementedError

    def _release(self) -> None:
        """Give the connection back: the body was read to its end."""
        raise NotImplementedError

    def _abort(self) -> None:
        """Close the connection."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------------

    def read1(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end of the body.

        :raises TransportError: the connection broke in the middle.
        :raises Stopped: the caller no longer waits.
        """
        data: Optional[bytes] = None
        try:
            data = self._receive()
        except (Stopped, AuthError):  # raised by the exchange, and meant for the caller
            raise
        except Exception as error:  # raised by the parser, the socket or TLS: the body did not come whole
            if self._exchange.interrupted:
                raise Stopped from error
            raise self._broken((str(error) or type(error).__name__)[:300]) from error
        finally:
            if data is None:  # also after KeyboardInterrupt
                self.close()
        if not data and not self._over:
            if self._exchange.interrupted:
                self.close()
                raise Stopped
            if self._missing:
                missing = self._missing
                self.close()
                raise self._broken(f"{missing} bytes are missing")
            self._end()
        return data

    def _end(self) -> None:
        """Note that the body was read to its end."""
        self._over = True
        self._exchange.detach()
        self._release()

    def _broken(self, reason: str) -> TransportError:
        return TransportError(f"the connection to {shown(self._url)} broke in the middle of an answer: {reason}")

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises ProtocolError: it has more than *limit* bytes, or is compressed although that was not asked for.
        :raises TransportError, Stopped: as for :meth:`read1`.
        """
        self.check_plain()
        data = self.read1()
        size = len(data)
        whole: Optional[io.BytesIO] = None  # for a body of several pieces: getvalue() does not copy them again
        while True:
            if size > limit:
                self.close()
                raise ProtocolError(f"{shown(self._url)} answered with more than {limit} bytes (line_limit=)")
            more = self.read1() if data else b""
            if not more:
                return data if whole is None else whole.getvalue()
            if whole is None:
                whole = io.BytesIO()
                whole.write(data)
            size += whole.write(more)

    def check_plain(self) -> None:
        """Refuse a compressed body, whose size is not known before it is decompressed (SEC-10)."""
        coding = self.headers.get("content-encoding")
        if coding and coding.lower() != "identity":
            self.close()
            raise ProtocolError(f"{shown(self._url)} answered with a body that is compressed ({coding[:40]}), although"
                                " 'Accept-Encoding: identity' was sent")

    def excerpt(self) -> str:
        """Return the beginning of the body as text, for an error, and end the response."""
        data = b""
        try:
            while len(data) < _EXCERPT:
                piece = self.read1()
                if not piece:
                    break
                data += piece
        except (TransportError, Stopped):
            pass  # what has come until then is shown
        finally:
            self.close()
        return data[:_EXCERPT].decode("utf-8", "replace")

    def close(self) -> None:
        """End the response; its connection is closed if the body was not read to its end. Idempotent."""
        if not self._over:
            self._over = True
            self._exchange.detach()  # an interrupt must not end a socket that is closed
            self._abort()

"""One HTTP response whose body is read in pieces, each within the deadline of its exchange.

An :class:`~.origin_client.OriginClient` returns one for each request.
"""

import io
from typing import Mapping, Optional

from ..errors import AuthError, ProtocolError, TransportError
from ..protocol.error_text import shown
from .exchange import Exchange, Stopped

__all__ = ["Body", "Reply"]

#: How much of an error's body is read and shown.
_EXCERPT = 2000


class Body:
    """The body of one response, as the way that sent the request reads it."""

    __slots__ = ()

    @property
    def missing(self) -> Optional[int]:
        """Bytes that have not come yet, where that is known."""
        raise NotImplementedError

    def read1(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end.

        :raises Stopped: the caller no longer waits.
        :raises Exception: the connection broke, or what came is malformed.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Give the connection back: the body was read to its end."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        raise NotImplementedError


class Reply:
    """One response; its body is not read yet.

    :param headers: by name in lower case.
    """

    __slots__ = ("_body", "_exchange", "_url", "status", "headers", "token", "session", "address", "_over")

    def __init__(self, status: int, headers: Mapping[str, str], body: Body, exchange: Exchange, url: str) -> None:
        self._body = body
        self._exchange = exchange
        self._url = url
        self.status = status
        self.headers = headers
        #: The token that the request was sent with, if a :class:`TokenSource` gave one.
        self.token: Optional[str] = None
        #: The session of the server that the request named; empty for none.
        self.session = ""
        #: The address that it came from; None when there is a proxy in between.
        self.address: Optional[str] = None
        exchange.answered = True
        self._over = False

    @property
    def kind(self) -> str:
        """The media type, without parameters and in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def read1(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end of the body.

        :raises TransportError: the connection broke in the middle.
        :raises Stopped: the caller no longer waits.
        """
        try:
            data = self._body.read1()
        except (Stopped, AuthError):  # of the exchange
            self.close()
            raise
        except Exception as error:  # of the parser, of the socket, of TLS: in each case the body has no end
            self.close()
            if self._exchange.interrupted:
                raise Stopped from error
            reason = (str(error) or type(error).__name__)[:300]
            raise TransportError(f"the connection to {shown(self._url)} broke in the middle of an answer: {reason}") from error
        except BaseException:  # such as KeyboardInterrupt
            self.close()
            raise
        if not data:
            self._check_whole()
        return data

    def _check_whole(self) -> None:
        missing = self._body.missing
        if self._exchange.interrupted:
            self.close()
            raise Stopped
        if missing:
            self.close()
            raise TransportError(f"the connection to {shown(self._url)} broke in the middle of an answer: {missing} bytes are"
                                 " missing")
        self.release()

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises ProtocolError: it has more than *limit* bytes, or is compressed although that was not asked for.
        :raises TransportError, Stopped: as for :meth:`read1`.
        """
        self.check_plain()
        data = self.read1()
        size = len(data)
        whole: Optional[io.BytesIO] = None  # of more than one piece; it returns its bytes without another copy
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
        coding = self.headers.get("content-encoding", "identity").lower()
        if coding not in ("identity", ""):
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

    def release(self) -> None:
        """Give the connection back: the body was read to its end."""
        if not self._over:
            self._over = True
            self._exchange.detach()
            self._body.release()

    def close(self) -> None:
        """End the response; its connection is closed if the body was not read to its end. Idempotent."""
        if not self._over:
            self._over = True
            self._exchange.detach()  # an interrupt must not strike a socket that is closed
            self._body.close()

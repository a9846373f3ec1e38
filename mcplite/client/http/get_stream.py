"""The GET stream of a session: what the server says that belongs to no call."""

import logging
import threading
import time
from typing import TYPE_CHECKING, Callable, Optional

from ...errors import AuthError, MCPError, SessionLost, TransportError
from ...net.link import Exchange, Reply, Stopped
from .resumption import Following

if TYPE_CHECKING:
    from .channel import HTTPChannel

__all__ = ["Listener"]

_log = logging.getLogger(__name__)
_SLICE = 1.0
#: Seconds without a byte, not even a comment, after which the other end is taken for gone; servers say something far
#: more often to keep a stream alive.
_SILENT_SECONDS = 300.0
#: Seconds that the beginning of a session waits for the stream.
_PATIENCE = 1.0
#: What is said of a token that is as good as it can be.
_REFUSED = frozenset({"invalid_token", "insufficient_scope"})


class Listener:
    """Listens to one session on a daemon thread, and comes back when the stream breaks (HTTP-28, RES-04).

    The thread is started with the session, ended by :meth:`stop`, by a server that offers no such stream
    or by the end of the session, and blocks on the stream and on its own pauses.

    :param receive: takes each message.
    :param lost: called when the server does not know the session any more.
    """

    def __init__(self, channel: "HTTPChannel", receive: Callable[[bytes], None],
                 lost: Callable[[SessionLost], object]) -> None:
        self._channel = channel
        self._following = Following(channel.line_limit, receive)
        self._lost = lost
        self._stop = threading.Event()
        self._exchange: Optional[Exchange] = None
        #: Whether a user may be asked to log in for the stream: until that has failed once (AUTH-46).
        self._may_ask = True
        #: When the stream has said something; None while there is none.
        self._heard: Optional[float] = None
        #: Whether there has been a stream.
        self._offered = False
        #: Set when the server has answered for the first time, in whatever way.
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcplite listener", daemon=True)

    def start(self) -> None:
        """Start to listen; returns when the stream is there, or the server takes long to answer.

        What the server says from then on is not missed. Some servers begin their response with the first event only.
        """
        self._thread.start()
        self._answered.wait(_PATIENCE)

    def stop(self) -> None:
        """End the thread; callable from any thread, itself included."""
        self._stop.set()
        exchange = self._exchange
        if exchange is not None:
            exchange.interrupt()
        if self._thread is not threading.current_thread():
            self._thread.join(2 * _SLICE)

    def _left(self) -> float:
        if self._stop.is_set():
            raise Stopped
        if self._heard is not None and time.monotonic() - self._heard > _SILENT_SECONDS:
            raise TimeoutError(f"nothing came for {_SILENT_SECONDS:g} s")
        return _SLICE

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._listen():
                    return
            except Stopped:
                continue
            except SessionLost as error:
                if not self._stop.is_set():
                    self._renew(error)
                return
            except AuthError as error:
                if error.error in _REFUSED:
                    _log.warning("the GET stream of %s is not for us: %s", self._channel.name, error)
                    return
                self._may_ask = False
                self._following.failures += 1
                _log.debug("no token for the GET stream of %s: %s", self._channel.name, error)
            except MCPError as error:
                self._following.failures += 1
                _log.debug("the GET stream of %s broke: %s", self._channel.name, error)
            except Exception:
                _log.exception("listening to %s failed", self._channel.name)
                return
            self._stop.wait(self._following.delay())

    def _renew(self, error: SessionLost) -> None:
        try:
            self._lost(error)
        except MCPError as failure:
            # The next call will meet it as well, and has somebody to tell.
            _log.warning("%s lost our session, and a new one could not be opened: %s", self._channel.name, failure)

    def _listen(self) -> bool:
        """Listen until the stream ends; False when there is none."""
        exchange = self._exchange = Exchange(self._left)
        exchange.may_ask = self._may_ask
        try:
            reply = self._channel.get(exchange, self._following.last_id)
        except SessionLost:
            if self._offered:
                raise
            # There is no such stream at all: the session is as young as it can be.
            _log.debug("%s offers no GET stream (404)", self._channel.name)
            return False
        finally:
            self._answered.set()
        if reply.status != 200 or reply.kind != "text/event-stream":
            return self._refused(reply)
        self._following.begin()
        self._offered = self._may_ask = True
        try:
            reply.check_plain()
            while True:
                self._heard = time.monotonic()
                data = reply.read1()
                self._following.failures = 0
                if not data:
                    return True
                self._following.take(data)
        finally:
            self._heard = None
            reply.close()

    def _refused(self, reply: Reply) -> bool:
        status = reply.status
        reply.close()
        if status == 400 and self._following.last_id is not None:
            self._following.last_id = None  # those events are gone; go on with what comes from now on
            return True
        if status >= 500 or status in (408, 409, 429):
            raise TransportError(f"{self._channel.name} answered GET with {status}")
        # 405 is how a server says that it has no such stream (HTTP-24); others say so in other ways.
        _log.debug("%s offers no GET stream (%d)", self._channel.name, status)
        return False

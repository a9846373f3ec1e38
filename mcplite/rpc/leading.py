"""Who reads, on the serving side: the thread that read a request runs it, and a watchdog relieves it.
Handing a request to another thread costs more than most handlers do. So the reader runs the handler
itself; when that has not come back within two milliseconds, the watchdog gives the reading role to
another thread, and the first one only finishes its handler. A ping, a cancellation or an answer is
never behind user code for longer than that.
"""

import logging
import threading
from typing import Callable, ContextManager, Optional

from ..errors import ConnectionClosed, ProtocolError
from .channels import Channel
from .fed import sleep_until_settled
from .pending import Pending
from .reading import Reading
from .watchdog import Watchdog
from .threads import Workers

__all__ = ["LeaderReading"]

_log = logging.getLogger(__name__)
#: Seconds that a handler may take before somebody else reads on.
_TICK = 0.002


class LeaderReading(Reading):
    """The reading role of a server's channel.

    :param channel: what is read.
    :param receive: called with each message on the leader's thread; it may run a handler there.
    :param refused: called with the error for input that was no message; reading goes on.
    :param failed: called once with the error that ended reading.
    :param workers: lends the threads.
    """

    def __init__(self, channel: Channel, receive: Callable[[bytes], None],
                 refused: Callable[[ProtocolError], None], failed: Callable[[Exception], None],
                 workers: Workers) -> None:
        super().__init__(channel)
        self._receive = receive
        self._refused = refused
        self._failed = failed
        self._workers = workers
        #: Guards ``_leader`` and the watchdog's fields; its ticket stands for the right to go on reading.
        self._lock = threading.Lock()
        self._leader: Optional[int] = None
        self._watchdog = Watchdog(self._lock, _TICK, self._relieve)
        self._stop = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the first leader and the watchdog; both end with :meth:`stop` or with the channel."""
        self._watchdog.start()
        self._workers.spawn(self._lead)

    def wait(self, pending: Pending) -> None:
        """Return when *pending* is settled or interrupted, has progress to deliver, or is past its time.

        A handler that asks the peer stops leading at once and gives its place back while it waits.
        """
        with self.aside():
            sleep_until_settled(pending)

    def aside(self) -> ContextManager[None]:
        with self._lock:
            ticket = self._watchdog.ticket if self._leader == threading.get_ident() else 0
        if ticket:
            self._relieve(ticket)
        return self._workers.suspended()

    def _lead(self) -> None:
        # A leader: blocks on the channel, then on what receive() runs; ends when it was relieved.
        channel, receive, lock, watchdog = self._channel, self._receive, self._lock, self._watchdog
        ident = threading.get_ident()
        with lock:
            self._leader = ident
        while not self._stop.is_set():
            try:
                message = channel.read(None)
            except ProtocolError as error:
                self._refused(error)
                continue
            except ConnectionClosed as error:
                self._finish(error)
                return
            except Exception as error:
                _log.exception("reading from %s failed", channel.name)
                self._finish(error)
                return
            if message is None:
                continue
            channel.consume()
            with lock:
                ticket = watchdog.begin()
            receive(message)
            with lock:
                if not watchdog.end(ticket):
                    return
        self._end()

    def _end(self) -> None:
        self._ended.set()
        self._watchdog.stop()

    def _finish(self, error: Exception) -> None:
        self._end()
        if not self._stop.is_set():
            try:
                self._failed(error)
            finally:
                self._channel.close()  # nobody reads any more, and nobody else may come to close it

    def _relieve(self, ticket: int) -> None:
        """Have another thread lead in the place of who is at *ticket*."""
        if not self._stop.is_set():
            self._workers.spawn(lambda: self._succeed(ticket))

    def _succeed(self, ticket: int) -> None:
        # The role changes hands here, and not before: when the system gives no thread, it stays where it is.
        with self._lock:
            if not self._watchdog.end(ticket):
                return
            self._leader = None
        self._lead()

    def stop(self, timeout: float) -> bool:
        """End reading for good; return whether nobody reads any more."""
        self._stop.set()
        self._watchdog.stop()
        self._channel.wake()
        with self._lock:
            if self._leader == threading.get_ident():
                return True
        return self._ended.wait(timeout)

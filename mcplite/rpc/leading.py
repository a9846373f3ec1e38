"""Who reads, on the serving side: the thread that read a request runs it, and a watchdog relieves it.

May import: errors, rpc.channel, rpc.fed, rpc.pending, rpc.reading, rpc.workers

Handing a request to another thread costs more than most handlers do. So the reader runs the handler
itself; when that has not come back within two milliseconds, the watchdog gives the reading role to
another thread, and the first one only finishes its handler. A ping, a cancellation or an answer is
never behind user code for longer than that.
"""

import logging
import threading
import time
from typing import Callable, Optional

from ..errors import ConnectionClosed, ProtocolError
from .channel import Channel
from .fed import sleep_until_settled
from .pending import Pending
from .reading import Reading
from .workers import Workers

__all__ = ["LeaderReading"]

_log = logging.getLogger(__name__)
_TICK = 0.002
#: After this many ticks without a message the watchdog sleeps until the next one.
_QUIET_TICKS = 50


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
        #: Guards the three fields below.
        self._lock = threading.Lock()
        #: The number of the message in work, which stands for the right to go on reading; 0 between messages.
        self._ticket = 0
        self._leader: Optional[int] = None
        self._dozing = False
        self._count = 0
        self._stop = threading.Event()
        self._awake = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the first leader and the watchdog; both end with :meth:`stop` or with the channel."""
        threading.Thread(target=self._watch, name="mcplite watchdog", daemon=True).start()
        self._workers.spawn(self._lead)

    def wait(self, pending: Pending) -> None:
        """Return when *pending* is settled or interrupted, has progress to deliver, or is past its time.

        A handler that asks the peer stops leading at once and gives its place back while it waits.
        """
        self._relieve(threading.get_ident())
        with self._workers.suspended():
            sleep_until_settled(pending)

    def _lead(self) -> None:
        # A leader: blocks on the channel, then on what receive() runs; ends when it was relieved.
        channel, receive, lock = self._channel, self._receive, self._lock
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
                self._count += 1
                ticket = self._ticket = self._count
                dozing = self._dozing
            if dozing:
                self._awake.set()
            receive(message)
            with lock:
                if self._ticket != ticket:
                    return
                self._ticket = 0
        self._ended.set()

    def _finish(self, error: Exception) -> None:
        self._ended.set()
        self._awake.set()
        if not self._stop.is_set():
            try:
                self._failed(error)
            finally:
                self._channel.close()  # nobody reads any more, and nobody else may come to close it

    def _relieve(self, ident: Optional[int] = None, ticket: Optional[int] = None) -> None:
        """Take the role from the thread *ident*, or from whoever works on *ticket*, and give it to another."""
        with self._lock:
            if not self._ticket or (ident is not None and self._leader != ident):
                return
            if ticket is not None and self._ticket != ticket:
                return
            self._ticket = 0
            self._leader = None
        if not self._stop.is_set():
            self._workers.spawn(self._lead)

    def _watch(self) -> None:
        # The watchdog: started by start(), ended by stop() or by the end of the channel; it blocks on
        # its tick, or on _awake when nothing has come for a while, so that an idle server costs nothing.
        quiet = 0
        count = 0
        while not self._stop.is_set() and not self._ended.is_set():
            ticket = self._ticket
            time.sleep(_TICK)
            if ticket and self._ticket == ticket:
                self._relieve(ticket=ticket)
            if self._count != count:
                quiet, count = 0, self._count
                continue
            quiet += 1
            if quiet < _QUIET_TICKS:
                continue
            with self._lock:
                self._dozing = self._count == count and not self._ticket
                self._awake.clear()
            if self._dozing and not self._stop.is_set() and not self._ended.is_set():
                self._awake.wait()
            with self._lock:
                self._dozing = False
            quiet = 0

    def stop(self, timeout: float) -> bool:
        """End reading for good; return whether nobody reads any more."""
        self._stop.set()
        self._awake.set()
        self._channel.wake()
        with self._lock:
            if self._leader == threading.get_ident():
                return True
        return self._ended.wait(timeout)

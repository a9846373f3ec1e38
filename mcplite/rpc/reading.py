"""Who reads, on the calling side: callers read their own answers, a daemon reads when nobody calls.

Reading is a role that one thread holds at a time. A caller that waits takes it when it is free and
reads until its own answer is there, which costs no hand-over at all; a caller that finds it taken
sleeps on its own event. The daemon takes the role when nobody has called for 20 ms.
"""

import logging
import threading
from typing import TYPE_CHECKING, Callable, ContextManager, Dict, List, Optional

from ..errors import ConnectionClosed, ProtocolError
from .interfaces import Channel, Reading
from .pending import Pending
from .threads import Workers
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .threads import Workers


__all__ = ["CallerReading", "FedReading", "LeaderReading", "sleep_until_settled"]

_log = logging.getLogger(__name__)
#: How long the role must have been unused before the daemon takes it.
_PAUSE = 0.02
#: Progress that a caller lets gather, while more of it is buffered, before it runs the callbacks.
_BATCH = 256


class CallerReading(Reading):
    """The reading role of a client's channel.

    :param channel: what is read.
    :param receive: called with each message on the reader's thread; it must not block.
    :param failed: called once with the error that ended reading.
    :param name: the daemon thread's name.
    """

    def __init__(self, channel: Channel, receive: Callable[[bytes], None],
                 failed: Callable[[Exception], None], name: str) -> None:
        super().__init__(channel)
        self._receive = receive
        self._failed = failed
        self._name = name
        #: The role: who is under the one key holds it. setdefault is one step, so that a signal handler
        #: that raises can never leave the role taken by nobody.
        self._role: Dict[str, object] = {}
        #: Guards ``_waiting``; held for list work only.
        self._lock = threading.Lock()
        self._waiting: List[Pending] = []
        self._turns = 0
        self._stop = threading.Event()
        self._free = threading.Event()

    def start(self) -> None:
        """Start the daemon; :meth:`stop` ends it; it blocks on the channel or on its 20 ms tick."""
        threading.Thread(target=self._stand_in, name=self._name, daemon=True).start()

    def wait(self, pending: Pending) -> None:
        """Return when *pending* is settled or interrupted, has progress to deliver, or is past its time."""
        self._turns += 1
        sleeping = False
        try:
            while pending.outcome is None and not pending.interrupted and not pending.progress:
                if self._channel.interruptible and self._role.setdefault("holder", pending) is pending:
                    if not self._read_for(pending):
                        return
                    continue
                if not sleeping:
                    sleeping = True
                    with self._lock:
                        self._waiting.append(pending)
                event = pending.prepare_sleep()
                # Again, now that whoever gives up the role can see this waiter.
                if pending.outcome is not None or pending.interrupted or pending.progress:
                    return
                if self._channel.interruptible and not self._role and not self._stop.is_set():
                    continue
                remaining = pending.remaining()
                if remaining is not None and remaining <= 0:
                    return
                event.wait(remaining)
        finally:
            if sleeping:
                with self._lock:
                    self._waiting.remove(pending)
            if self._role.get("holder") is pending:
                self._leave()
            elif self._waiting:
                self._offer()

    def _read_for(self, pending: Pending) -> bool:
        """Read until *pending* needs its thread; False when its time is over or reading is."""
        channel, receive = self._channel, self._receive
        while pending.outcome is None and not pending.interrupted:
            if pending.progress and (len(pending.progress) >= _BATCH or not channel.buffered):
                return True
            remaining = pending.remaining()
            if remaining is not None and remaining <= 0:
                return False
            if self._stop.is_set():
                return False
            try:
                message = channel.read(remaining)
            except ProtocolError as error:
                self._end(error)
                return True
            except ConnectionClosed as error:
                self._end(error)
                return True
            if message is not None:
                receive(message)
                channel.consume()
        return True

    def _leave(self) -> None:
        self._role.pop("holder", None)
        if self._stop.is_set():
            self._free.set()
        if self._waiting:
            self._offer()

    def _offer(self) -> None:
        """Wake one waiter, so that somebody reads."""
        if self._waiting and not self._role:
            with self._lock:
                waiter = self._waiting[0] if self._waiting else None
            if waiter is not None:
                waiter.nudge()

    def _end(self, error: Exception) -> None:
        if not self._stop.is_set():
            self._failed(error)

    def _stand_in(self) -> None:
        # The daemon: it holds the role while nobody calls, so that notifications, pings and the end of
        # the connection are noticed, and steps back as soon as somebody does.
        while not self._stop.is_set():
            if self._channel.interruptible:
                turns = self._turns
                self._stop.wait(_PAUSE)
                if self._turns != turns or self._stop.is_set():
                    continue
            if self._role.setdefault("holder", self) is not self:
                continue
            try:
                self._read_on(self._turns)
            except Exception as error:
                _log.exception("reading from %s failed", self._channel.name)
                self._end(error)
                return
            finally:
                self._leave()

    def _read_on(self, turns: int) -> None:
        while not self._stop.is_set():
            try:
                message = self._channel.read(None)
            except (ProtocolError, ConnectionClosed) as error:
                self._end(error)
                self._stop.set()
                return
            if message is not None:
                self._receive(message)
                self._channel.consume()
            if self._channel.interruptible and self._turns != turns:
                return

    def stop(self, timeout: float) -> bool:
        """End reading for good; return whether the role is free, that is, whether nobody reads any more."""
        self._stop.set()
        with self._lock:
            waiting = list(self._waiting)
        for pending in waiting:
            pending.nudge()
        self._channel.wake()
        holder = self._role.get("holder")
        if isinstance(holder, Pending):
            holder.interrupted = True
        while self._role:
            self._free.clear()
            if not self._role:
                break
            self._channel.wake()
            if not self._free.wait(timeout):
                return False
        return True


def sleep_until_settled(pending: Pending) -> None:
    """Sleep until *pending* is settled or interrupted, has progress to deliver, or is past its time."""
    while True:
        event: threading.Event = pending.prepare_sleep()
        if pending.outcome is not None or pending.interrupted or pending.progress:
            return
        remaining = pending.remaining()
        if remaining is not None and remaining <= 0:
            return
        event.wait(remaining)


class FedReading(Reading):
    """The place of a reader on a channel that cannot be read.

    :param workers: a handler that waits for an answer gives its place back to them.
    """

    def __init__(self, channel: Channel, workers: "Workers") -> None:
        super().__init__(channel)
        self._workers = workers

    def wait(self, pending: Pending) -> None:
        with self.aside():
            sleep_until_settled(pending)

    def aside(self) -> ContextManager[None]:
        return self._workers.suspended()

    def interrupt(self, pending: Pending) -> None:
        return  # the nudge was enough: nobody is in a read

    def stop(self, timeout: float) -> bool:
        return True


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

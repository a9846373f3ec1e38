"""Three reading strategies: the calling threads read, or the pool's threads read, or messages are handed in.

A client's callers read their own responses (:class:`CallerReading`). On a server's pipe one thread of the pool
reads and runs handlers itself, and another takes its place if that takes long (:class:`LeaderFollowerReading`).
A transport that hands each message to the peer, as the HTTP server does, needs no reading thread
(:class:`PushedReading`). The HTTP client has a strategy of its own.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, ContextManager, Dict, Optional, Set, Tuple

from ..errors import ConnectionClosed, ProtocolError, RequestTimeout, TransportError, nested_call
from .deadline import WAKE_SECONDS, Deadline, Sleepers, WakeSignal, undo
from .fair_queue import QueuedJob
from .forks import renew
from .interfaces import Channel, Reading
from .pending import Pending
from .threads import Loop, Watchdog, Workers

__all__ = ["TICK_SECONDS", "CallerReading", "LeaderFollowerReading", "PushedReading"]

#: If no call was made for this many seconds, the daemon reads.
_PAUSE_SECONDS = 0.02
#: Seconds that a handler may run on the leader's thread before another thread leads.
TICK_SECONDS = 0.002
#: While a leader runs no handler, and its message is an ``initialize`` or is not yet known as a request, it is not replaced for
#: this many seconds, so that no later message is processed before that one. After that it is replaced all the same: it may be
#: blocked in sending to a client that does not read, and that client may wait until this side reads.
_ORDER_SECONDS = 10.0
#: The key of the holder of a role.
_HOLDER = "holder"


def _end_of(channel: Channel, error: BaseException) -> Exception:
    """Return the error for calls whose channel cannot be read any more."""
    if isinstance(error, TransportError):
        return error
    ended = ConnectionClosed(f"reading from {channel.name} failed: {error or type(error).__name__}")
    ended.__cause__ = error
    return ended


def _sleep(pending: Pending) -> None:
    """Wait until a call needs its thread, or has no time left."""
    while True:
        event = pending.prepare_sleep()
        if pending.outcome is not None or pending.interrupted or pending.progress or not event.sleep(pending.remaining()):
            return


class CallerReading(Reading):
    """A client's strategy: callers read their own responses, a daemon thread reads when no call waits.

    Reading is a role that one thread holds at a time. A caller that waits takes the role if it is free, and reads
    until its own response is there: no hand-over between threads. A caller that finds the role taken sleeps on its
    own event. The daemon takes the role when no call was made for 20 ms. The caller of a lasting call, such as a subscription,
    never takes the role. If it did, its thread would read the responses to all other calls, and would have to hand each of them
    over.

    :param receive: ``Peer.receive``, called with each message on the reading thread; it must not block.
    :param failed: called once with the error that ended reading.
    """

    def __init__(self, channel: Channel, receive: Callable[[bytes], None],
                 failed: Callable[[Exception], None]) -> None:
        super().__init__(channel)
        self._receive = receive
        self._failed = failed
        #: The role. Its only key maps to the holder, a tuple with the id of the thread; without the key the role is free.
        #: ``setdefault`` is one step in C, so taking the role needs no lock, and the role is never taken without a holder.
        self._role: Dict[str, Tuple[int]] = {}
        #: Wakes :meth:`stop`, when the role is released.
        self._released = Sleepers()
        #: The callers that wait for the role or for their response, oldest first. Each change is one step in C.
        self._waiting: Dict[Pending, None] = {}
        #: Changes with each call that is sent, and with each that begins to wait.
        self._calls = 0
        #: Set when reading has been stopped. ``_stopped`` is then True as well: each call looks at it, and asking an event
        #: takes longer.
        self._stop = threading.Event()
        self._stopped = False
        # After a fault of the system the loop goes on: the message was not consumed, so it is read again.
        self._loop = Loop(f"reader of {channel.name}", self._run_daemon, self._stop.wait,
                          lambda error: self._end(_end_of(channel, error)))

    def start(self) -> None:
        """Start the daemon thread. :meth:`stop` ends it; it blocks on the channel, or on its 20 ms tick."""
        self._loop.start()

    def send(self, pending: Pending, data: bytes, timeout: Optional[float]) -> None:
        if self._role and self._reads_here():
            raise nested_call(self._channel.name)
        # The call is counted before it is written. If the daemon is inside a read, it then returns after the next message, and
        # the caller reads those that follow.
        if not pending.lasting:
            self._calls += 1
        try:
            self._channel.write_request(data, timeout, pending)
        except RequestTimeout:
            if not pending.interrupted:
                raise  # if the call was interrupted, the interrupting thread has stored the reason in it
        except ConnectionClosed:
            # Reading notices the end of the connection, so what is there is read now. Otherwise the daemon might never read:
            # calls that fail one after another would each make it wait again.
            if self._channel.interruptible:
                self._read_on(None)
            raise

    def wait(self, pending: Pending) -> None:
        if pending.lasting:
            _sleep(pending)  # while other threads read
            return
        self._calls += 1
        interruptible = self._channel.interruptible
        event: Optional[WakeSignal] = None
        try:
            while pending.outcome is None and not pending.interrupted and not pending.progress:
                if interruptible:
                    done = self._read_for(pending)
                    if done is not None:
                        if not done:
                            return
                        continue
                if event is None:
                    # From now on a thread that releases the role sees this waiter. So the role is tried once more before this
                    # thread sleeps: it may have been released just before.
                    self._waiting[pending] = None
                    event = pending.prepare_sleep()
                    continue
                if not event.sleep(pending.remaining()):
                    return
        finally:
            if event is not None:
                self._waiting.pop(pending, None)
                self._wake_waiter()

    def _read_for(self, pending: Pending) -> Optional[bool]:
        """Take the role and read until *pending* needs its thread.

        :returns: False if it has timed out or reading has been stopped; None if another thread has the role.
        """
        channel, receive = self._channel, self._receive
        role, holder, message = self._role, (threading.get_ident(),), None
        try:
            if role.setdefault(_HOLDER, holder) is not holder:
                return None
            pending.reads = True
            while pending.outcome is None and not pending.interrupted:
                if self._stopped:
                    return False
                if not pending.progress:
                    remaining = pending.remaining()
                    if remaining is not None and remaining <= 0:
                        return False
                    seconds = WAKE_SECONDS if remaining is None or remaining > WAKE_SECONDS else remaining
                elif pending.crowded or not channel.buffered:
                    return True
                else:
                    seconds = 0  # for what is there already
                try:
                    message = channel.read(seconds)
                except (ProtocolError, ConnectionClosed) as error:
                    self._end(error)
                    return True
                if message is not None:
                    receive(message)
                    channel.consume()
                    message = None
            return True
        finally:
            try:
                held = role[_HOLDER] is holder
            except KeyError:
                held = False
            if held:
                pending.reads = False
                if message is not None:
                    self.unconsumed = message
                del role[_HOLDER]
                if self._waiting or self._stopped:
                    self._wake_next()

    def _reads_here(self) -> bool:
        """Whether the current thread has the role; a signal handler may have interrupted it there."""
        return self._role.get(_HOLDER) == (threading.get_ident(),)

    def _wake_next(self) -> None:
        """Wake those that wait for the role, which was released."""
        self._wake_waiter()
        if self._stopped:
            self._released.notify()

    def _wake_waiter(self) -> None:
        """Wake one waiting caller to take the role, unless it is taken."""
        if self._waiting and not self._role:
            for waiter in list(self._waiting)[:1]:
                waiter.wake()

    def _end(self, error: Exception) -> None:
        if not self._stopped:
            self._failed(error)

    def _run_daemon(self) -> None:
        # The daemon reads while no call waits, so that notifications, pings and the end of the connection are
        # noticed, and releases the role as soon as a call waits.
        while not self._stopped:
            calls = self._calls
            if self._channel.interruptible:
                self._stop.wait(_PAUSE_SECONDS)
                if self._calls != calls or self._stopped:
                    continue
            self._read_on(calls)

    def _read_on(self, calls: Optional[int]) -> None:
        """Take the role, unless another thread has it, and read until ``_calls`` differs from *calls*.

        :param calls: their number before; None reads what is there already.
        """
        channel, role, holder = self._channel, self._role, (threading.get_ident(),)
        try:
            if role.setdefault(_HOLDER, holder) is not holder:
                return
            while not self._stopped:
                try:
                    message = channel.read(0 if calls is None else None)
                except (ProtocolError, ConnectionClosed) as error:
                    self._end(error)
                    self._set_stopped()
                    return
                if message is not None:
                    self._receive(message)
                    channel.consume()
                    self.unconsumed = None
                if calls is None:
                    if message is None:
                        return
                elif channel.interruptible and self._calls != calls:
                    return
        finally:
            # A signal handler can raise when a function is called, so no function is called here before the role is released.
            try:
                held = role[_HOLDER] is holder
            except KeyError:
                held = False
            if held:
                del role[_HOLDER]
                self._wake_next()

    def _set_stopped(self) -> None:
        self._stopped = True
        self._stop.set()

    def stop(self, timeout: float) -> bool:
        self._set_stopped()
        for pending in list(self._waiting):
            pending.wake()
        self._channel.wake()
        return self._reads_here() or self._released.wait_for(lambda: not self._role, timeout)

    def join(self, timeout: float) -> None:
        self._loop.join(Deadline(timeout))

    def let_go(self) -> None:
        renew(self)
        self._set_stopped()
        self._role.clear()
        self._waiting.clear()


class PushedReading(Reading):
    """The strategy for a channel that is not read: the transport hands each message to the peer.

    A thread that waits gives its slot in the pool back.

    :param workers: the pool that runs handlers.
    """

    def __init__(self, channel: Channel, workers: Workers) -> None:
        super().__init__(channel)
        self._workers = workers

    def wait(self, pending: Pending) -> None:
        with self.suspended():
            _sleep(pending)

    def suspended(self) -> ContextManager[None]:
        return self._workers.suspended()

    def interrupt(self, pending: Pending) -> None:
        return  # waking the waiting thread was enough: it is not inside a read

    def stop(self, timeout: float) -> bool:
        return True


class LeaderFollowerReading(PushedReading):
    """A server's strategy: one thread of the pool leads, that is, it reads and runs handlers itself.

    Handing each request to another thread would cost more than most handlers do. If a handler is still running
    after the tick, or is about to wait for the peer, another thread becomes the leader. While the leader processes a message
    that is not yet known as a request, or an ``initialize``, it keeps its role for up to ten seconds. A cancellation that comes
    next has to find the request, and a request that a client sends before the answer to its ``initialize`` has to be processed
    after it.

    :param receive: ``Peer.receive``, called with each message on the leader's thread; it may run a handler there.
    :param refused: called with the error for input that was not a message; reading continues.
    :param failed: called once with the error that ended reading.
    :param workers: provides the threads.
    :param late: called on another thread with the job of the pool that has kept the leader for longer than a tick.
    """

    def __init__(self, channel: Channel, receive: Callable[[bytes], None],
                 refused: Callable[[ProtocolError], None], failed: Callable[[Exception], None],
                 workers: Workers, late: Optional[Callable[[QueuedJob], object]] = None) -> None:
        super().__init__(channel, workers)
        self._late = late
        self._receive = receive
        self._refused = refused
        self._failed = failed
        #: Guards ``_leader`` and ``behind``; held for assignments only.
        self._lock = threading.Lock()
        self._leader: Optional[int] = None
        self.behind: Set[int] = set()
        #: The number of the leader's job that was last found without a handler, and when it was first found so. Only the thread
        #: of the watchdog uses it.
        self._held = (0, 0.0)
        self._watchdog = Watchdog(TICK_SECONDS, self._on_late)
        self._stopped = False
        self._ended = threading.Event()
        self._loop = Loop(f"reader of {channel.name}", self._lead_on,
                          failed=lambda error: self._finish(_end_of(channel, error)))

    def start(self) -> None:
        """Start the first leader and the watchdog; both end with :meth:`stop` or with the channel."""
        with undo(self._end):
            self._watchdog.start()
            self._workers.spawn(self._lead)

    def suspended(self) -> ContextManager[None]:
        with self._lock:
            job = self._watchdog.job if self._leader == threading.get_ident() else 0
            self.behind.discard(threading.get_ident())
        if job:
            self._replace_leader(job, True)
        return self._workers.suspended()

    def _lead(self) -> None:
        # A leader's thread: it blocks on the channel and on the handlers that receive() runs, and ends when it
        # finds that it was replaced, or when reading ends.
        with self._lock:
            self._leader = threading.get_ident()
        self._loop.run()

    def _lead_on(self) -> None:
        channel, receive, watchdog = self._channel, self._receive, self._watchdog
        with self._lock:
            leads, job = self._leader == threading.get_ident(), watchdog.job
            self.behind.discard(threading.get_ident())
        if not leads or (job and not watchdog.end(job)):
            return  # a fault struck during a job, and another thread has taken over since
        while not self._stopped:
            try:
                message = channel.read(None)
            except ProtocolError as error:
                self._refused(error)
                continue
            except ConnectionClosed as error:
                self._finish(error)
                return
            if message is None:
                continue
            channel.consume()
            self.in_order = True
            job = watchdog.begin()
            receive(message)  # after a fault here the message is lost, but not those behind it
            message = None  # not kept while the next one is awaited
            if not watchdog.end(job):
                with self._lock:
                    self.behind.discard(threading.get_ident())
                return
        self._end()

    def _end(self) -> None:
        self._ended.set()
        self._watchdog.stop()

    def _finish(self, error: Exception) -> None:
        self._end()
        if not self._stopped:
            try:
                self._failed(error)
            finally:
                self._channel.close()  # no thread reads any more, and perhaps no other thread will close it

    def _on_late(self, job: int) -> bool:
        """Replace the leader, unless it has to stay for now; return whether this is to be asked again."""
        running = self._workers.running_on(self._leader)
        if running is None and self.in_order:
            now = time.monotonic()
            if self._held[0] != job:
                self._held = (job, now)
            if now < self._held[1] + _ORDER_SECONDS:
                return True
        if running is not None and self._late is not None:
            self._late(running)
        self._replace_leader(job, running is not None)
        return False

    def _replace_leader(self, job: int, handles: bool) -> None:
        """Make another thread the leader, in place of the one that runs the job with this number.

        :param handles: whether that one runs a handler already, so that its request is in progress.
        """
        if not self._stopped:
            self._workers.spawn(lambda: self._take_lead(job, handles))

    def _take_lead(self, job: int, handles: bool) -> None:
        # The role changes hands on the new thread, and not before: if the system gives no thread, it stays.
        with self._lock:
            if not self._watchdog.end(job):
                return
            if self._leader is not None and not handles:
                self.behind.add(self._leader)
            self._leader = None
        self._lead()

    def stop(self, timeout: float) -> bool:
        self._stopped = True
        self._watchdog.stop()
        self._channel.wake()
        with self._lock:
            if self._leader == threading.get_ident():
                return True
        return self._ended.wait(timeout)

    def let_go(self) -> None:
        renew(self, self._watchdog)
        self._stopped = True
        self._end()

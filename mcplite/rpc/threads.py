"""Daemon threads: loops that serve others, a bounded pool for handlers, and queues that are worked off in order.

A loop (:class:`Loop`) outlives a fault. The pool (:class:`Workers`) runs handlers. A :class:`CallQueue` tells hooks of changes
in order, and a :class:`Mailbox`, which is one with bounds, runs a client's notification callbacks. All their threads are
daemons, so a handler that hangs never delays the end of the process.

A thread that reads and also runs handlers is the leader of its connections: the leader-follower reading of pipes has one, and
so has the HTTP server's poller. A :class:`Watchdog` notices if the leader spends longer than a tick on one message or request.
Then another thread reads on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Hashable, Iterator, List, Optional, Set, TypeVar

from ..errors import TransportError
from .deadline import Deadline, Sleepers, poll_until
from .fair_queue import EVERYONE, IDLE_CONNECTIONS, IDLE_SENDERS, FairQueue, QueuedJob
from .tracing import get_logger

if TYPE_CHECKING:
    import logging

__all__ = ["CallQueue", "Loop", "Mailbox", "Watchdog", "Workers", "start_thread", "wait_for_end"]

_Run = Callable[[], object]
_Argument = TypeVar("_Argument")
_log = get_logger(__name__)
#: There is one spare slot for so many slots. While all slots are taken, the spare slots serve senders of whom no job runs.
_PER_SPARE_SLOT = 8
#: Seconds for which an idle thread of a pool is kept.
_IDLE_SECONDS = 30.0
#: Seconds of the pause after the first fault of a loop; doubled while faults follow one another, up to the longest.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
#: If a loop had no fault for ``_CALM_SECONDS`` after the longest pause, its next fault counts as the first. If a loop has a
#: callback *failed*, it ends with ``_MOST_FAULTS`` faults in a row.
_CALM_SECONDS = 5.0
_MOST_FAULTS = 10
#: Seconds between two looks at a thread that is ending.
_END_POLL_SECONDS = 0.001


class _PlainJob(QueuedJob):
    __slots__ = ("execute", "size")

    def __init__(self, run: _Run) -> None:
        self.execute = run  # type: ignore[method-assign]
        self.size = 0


def start_thread(run: _Run, name: str) -> threading.Thread:
    """Start a daemon thread for a connection, and return it.

    If this function raises, also because of a Ctrl-C, the thread never calls *run*. The caller then frees what *run* would have
    used.

    :raises TransportError: the system has no thread for it.
    """
    # The thread calls *run* only after this queue has passed it True. start() may be interrupted when the thread is there
    # already.
    go: "SimpleQueue[bool]" = SimpleQueue()
    thread = threading.Thread(target=lambda: go.get() and run(), name=name, daemon=True)
    started = False
    try:
        thread.start()
        started = True
    except RuntimeError as error:
        raise TransportError(f"the thread {name!r} cannot be started: {error}") from error
    finally:
        go.put(started)
    return thread


def wait_for_end(thread: threading.Thread, deadline: Deadline) -> bool:
    """Wait until a thread has ended; return whether it has. The current one is not waited for, and counts as ended."""
    # join() is not used here: if a thread that was not started by threading calls it, threading keeps a record of that thread
    # for ever.
    return poll_until(lambda: not thread.is_alive() or thread.ident == threading.get_ident(), deadline, _END_POLL_SECONDS)


class Loop:
    """A background thread that others depend on, and that outlives a fault.

    It reads, accepts, listens or watches as long as its connection or its server is open. One failed system call, one moment
    without memory, a defect, or SystemExit of a user's hook must not end it, and a fault that stays must cost neither the
    processor nor the disk: the fault is logged, at a bounded rate, and after a pause the body is called again. No other code
    of the package survives a fault: elsewhere it costs the call, the connection or the session that it strikes.

    :param name: of the thread, and of what it does, for the log: "reading from shop".
    :param body: runs on the thread until it returns. It checks first whether it has to end. After a fault it is called again,
        so it must keep what it has to remember outside of its local variables.
    :param pause: waits for the given seconds. If it is the ``wait`` of the event that ends the body, the event ends the pause
        as well.
    :param failed: called with the last exception after ten in a row, and the loop ends then; None for a loop that goes on.
    """

    def __init__(self, name: str, body: Callable[[], object], pause: Callable[[float], object] = time.sleep,
                 failed: Optional[Callable[[BaseException], object]] = None) -> None:
        self._name = name
        self._body = body
        self._pause = pause
        self._failed = failed
        self._thread: Optional[threading.Thread] = None
        self._last_fault = float("-inf")
        self._in_a_row = 0

    def start(self) -> None:
        """Start the thread, a daemon, which ends when the body returns.

        :raises TransportError: the system has no thread for it.
        """
        self._thread = start_thread(self.run, f"mcplite {self._name}")

    def run(self) -> None:
        """Run the loop on the current thread, until the body returns."""
        while True:
            try:
                self._body()
                return
            except BaseException as error:
                if self._fault() >= _MOST_FAULTS and self._failed is not None:
                    self._failed(error)
                    return
            self._pause(min(_PAUSE_SECONDS * 2 ** min(self._in_a_row - 1, 10), _LONGEST_PAUSE_SECONDS))

    def _fault(self) -> int:
        """Log the exception that is being handled; return how many came in a row."""
        now = time.monotonic()
        self._in_a_row = 1 if now - self._last_fault > _CALM_SECONDS + _LONGEST_PAUSE_SECONDS else self._in_a_row + 1
        self._last_fault = now
        _log.error("%s failed, and is tried again", self._name, exc_info=True)
        return self._in_a_row

    def join(self, deadline: Deadline) -> bool:
        """Wait until the thread has ended, unless it is the current one or was not started; return whether it has."""
        return self._thread is None or wait_for_end(self._thread, deadline)

    @property
    def runs_here(self) -> bool:
        """Whether the current thread is that of the loop."""
        return self._thread is not None and self._thread.ident == threading.get_ident()


class CallQueue:
    """Calls a function for one item after another, on a thread of its own; the thread is started for the first one.

    :param name: of the thread, and of what it does, for the log.
    :param call: is called with each item. It may block, which delays only the items behind; what it raises is logged.
    :param lasts: whether the thread waits for more items, until :meth:`stop`; else it ends when there are none.
    """

    def __init__(self, name: str, call: Callable[[Any], object], lasts: bool = False) -> None:
        self._name = name
        self._call = call
        self._lasts = lasts
        #: Guards the fields below, and is notified of new items and of the end; held for list work, and while the thread is
        #: started. A signal handler may add an item, so it can be nested.
        self._changed = threading.Condition()
        #: Notified when no item is left, for :meth:`wait`.
        self._emptied = Sleepers()
        self._items: Deque[Any] = deque()
        self._loop: Optional[Loop] = None
        self._calling = self._stopped = False
        #: The process that has its thread.
        self._process = os.getpid()

    def put(self, item: Any, once: bool = False) -> None:
        """Add an item; :meth:`begin` has to be called after it.

        :param once: leaves the item out if an equal one waits already.
        """
        with self._changed:
            if not (once and item in self._items):
                self._items.append(item)
                self._changed.notify()

    def begin(self) -> None:
        """Start the thread, if there are items and it does not run.

        :raises TransportError: the system has no thread for it; the next call tries again.
        """
        with self._changed:
            if self._loop is None and self._items:
                # It ends as the class says, and blocks on the condition and on what the function does.
                loop = Loop(self._name, self._run)
                loop.start()
                self._loop = loop

    def wait(self, seconds: float) -> bool:
        """Wait until the function was called for all items; return whether it was. False at once on the thread of the calls."""
        return not self.owns_current_thread() and self._emptied.wait_for(
            lambda: not self._items and not self._calling, seconds)

    def stop(self) -> int:
        """Drop the items that wait, and let the thread end after the one that it is called for; return how many they were."""
        with self._changed:
            self._stopped, waiting = True, len(self._items)
            self._items.clear()
            self._changed.notify_all()
        self._emptied.notify()
        return waiting

    def join(self, deadline: Deadline) -> bool:
        """Wait until the thread has ended after :meth:`stop`, unless it is the current one; return whether it has."""
        with self._changed:
            loop = self._loop
        return loop is None or loop.join(deadline)

    def owns_current_thread(self) -> bool:
        """Whether the current thread is that of the calls."""
        loop = self._loop
        return loop is not None and loop.runs_here

    def _take(self) -> Any:
        """Remove and return the oldest item, with the lock held."""
        return self._items.popleft()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._calling = False
                if not self._items:
                    self._emptied.notify()
                    if not self._lasts:
                        self._loop = None
                        return
                self._changed.wait_for(lambda: self._items or self._stopped)
                if self._stopped:
                    return
                self._calling, item = True, self._take()
            try:
                self._call(item)
            except BaseException:  # what code of the user raises, too
                _log.exception("%s failed for %.200r", self._name, item)
            if os.getpid() != self._process:
                return  # the call has forked: in the forked process this thread has nothing else to do
            del item  # so that the waiting thread keeps nothing of it alive


class Workers:
    """A pool of daemon threads with a bounded number of slots.

    *Slots* bound the jobs that run at once; there are as many *threads* as that takes. A job that waits for a
    response releases its slot meanwhile (:meth:`suspended`), so waiting jobs never keep others from running, and
    a pool of one slot cannot deadlock on nested questions.

    While jobs wait, a slot goes to the sender with the fewest running jobs. Besides the slots there is an eighth as many spare
    slots, which are used only while all slots are taken. The first half of the spare slots is for connections of which no job
    runs, the second half for senders of whom no job runs. So a sender may have all slots, and others are served all the same.

    :param slots: how many jobs run at once.
    :param queue_limit: how many more may wait for a slot.
    :param name: the threads' name, for debuggers and for :meth:`log_stuck`.
    :param keep: how many idle threads are kept for a while; None for all.
    :param running_bytes: bytes of memory that running jobs may keep; further jobs wait. If a job keeps more than that, it
        begins only when no running job keeps memory.
    :param queued_bytes: of memory that waiting jobs may keep.
    """

    def __init__(self, slots: int, queue_limit: int, name: str, keep: Optional[int] = None,
                 running_bytes: Optional[int] = None, queued_bytes: Optional[int] = None) -> None:
        if slots < 1 or queue_limit < 0:
            raise ValueError("slots must be at least 1 and queue_limit at least 0")
        self._slots = slots
        self._spare = slots // _PER_SPARE_SLOT
        self._name = name
        self._keep = keep
        #: Guards every field below; held for list and dictionary work, and while a thread is started.
        self._lock = threading.RLock()
        #: Waited on by ``suspended`` (for a slot) and by ``drain`` (for the end of all jobs).
        self._changed = threading.Condition(self._lock)
        self._running = 0
        #: Jobs that wait for something, without a slot.
        self._suspended = 0
        #: Jobs that have waited and now need a slot again.
        self._returning = 0
        self._queue = FairQueue(queue_limit, queued_bytes)
        self._most_bytes = running_bytes
        self._bytes = 0
        self._idle = 0
        self._stopped = False
        self._draining = False
        #: The running jobs by the id of their thread. Until its thread has begun, a job is its own key.
        self._busy: Dict[Hashable, QueuedJob] = {}
        #: What idle threads sleep on: each item is a job to run; None ends a thread.
        self._handoff: "SimpleQueue[Optional[_Run]]" = SimpleQueue()
        #: The threads that have not ended.
        self._threads: Set[threading.Thread] = set()
        #: The id of the process that has the threads of the pool. In a forked process the owner makes another pool.
        self._process = os.getpid()

    def run_here(self, job: QueuedJob, run: Callable[[_Argument], object], argument: _Argument) -> bool:
        """Run ``run(argument)`` on the current thread; False if no slot is free for it, or other jobs wait for one.

        :param job: the job that *run* runs; it occupies the slot.
        """
        size, thread = job.size, threading.get_ident()
        with self._lock:
            if self._running >= self._slots or self._queue.count or self._returning or self._stopped or (
                    size and not self._fits(job)):
                return False
            self._running += 1
            if size:
                self._bytes += size
            self._busy[thread] = job
        try:
            run(argument)
        finally:
            self.release_slot(thread)
        return True

    def running_on(self, thread: Optional[int]) -> Optional[QueuedJob]:
        """Return the job for which a thread has a slot; None if it has none."""
        return self._busy.get(thread)

    def release_slot(self, thread: int) -> None:
        """Release the slot of the current thread, which is given; the next queued job gets it."""
        with self._lock:
            size = self._busy.pop(thread).size
            if size:
                self._bytes -= size
            self._running -= 1
            if self._queue.count or self._returning or self._draining:
                self._pass_on()

    def submit(self, run: _Run) -> bool:
        """Run a function on a thread of the pool as soon as there is a slot; see :meth:`enqueue`."""
        return self.enqueue(_PlainJob(run))

    def enqueue(self, job: QueuedJob) -> bool:
        """Execute *job* on a thread of the pool as soon as there is a slot.

        If the queue is full, the sender with the most waiting jobs loses one: its latest, which is refused.

        :returns: False if that is this job, the pool is stopped, or the system has no thread for it.
        """
        with self._lock:
            if self._stopped:
                return False
            at_once = not self._queue.count and not self._returning and self._running < self._slots and self._fits(job)
            if at_once and self._begin(job):
                return True
            if at_once and not self._running:
                return False  # there is no thread for it, and no running job that would pass a slot on
            self._queue.add(job)
            if not at_once:
                self._pass_on()
            refused = self._queue.excess(job) if self._queue.count else []
        for other in refused:
            if other is not job:
                other.refuse()
        return job not in refused

    def discard(self, job: QueuedJob) -> bool:
        """Remove a job that waits for a slot; False if it does not, or not any more."""
        with self._lock:
            return self._queue.discard(job)

    def spawn(self, job: _Run) -> None:
        """Run *job* on a thread of the pool at once, without a slot.

        :raises TransportError: the system has no thread for it.
        """
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._handoff.put(job)
                return
            first = [job]  # from which the thread takes it, so that it keeps nothing of the job alive afterwards
            # The thread cannot remove itself from the set before it is added: it needs the lock for that.
            self._threads.add(start_thread(lambda: self._work(first), self._name))

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Release the current thread's slot while the block waits, and get one back ahead of new jobs."""
        thread = threading.get_ident()
        if thread not in self._busy:
            yield
            return
        with self._lock:
            self._suspended += 1
            job = self._busy[thread]
        self.release_slot(thread)
        try:
            yield
        finally:
            with self._lock:
                self._suspended -= 1
                self._returning += 1
                try:
                    self._changed.wait_for(lambda: self._running < self._slots or self._stopped)
                finally:
                    self._returning -= 1
                    self._running += 1
                    self._bytes += job.size
                    self._busy[thread] = job
                    self._pass_on()  # there may be a slot for a new job as well

    def drain(self, deadline: Deadline, waiting: bool = False) -> bool:
        """Wait until no job runs or is queued; return whether that came before the deadline.

        :param waiting: whether suspended jobs count as well.
        """
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running and not self._queue.count
                                          and not (waiting and (self._suspended or self._returning)), deadline.remaining())

    def stop(self) -> None:
        """Accept no more jobs, drop the queued ones and let idle threads end."""
        with self._lock:
            self._stopped = True
            self._queue.clear()
            idle, self._idle = self._idle, 0
            self._changed.notify_all()
        for _ in range(idle):
            self._handoff.put(None)

    def log_stuck(self, logger: "logging.Logger") -> None:
        """Log a warning for each job that still runs, with its thread's name and stack: the server ends without it."""
        import traceback  # for the few servers that end with jobs

        with self._lock:
            busy = set(self._busy)
        frames = sys._current_frames()
        for thread in threading.enumerate():
            if thread.ident in busy and thread.ident in frames:
                logger.warning("a handler is still running at the end, in %s:\n%s", thread.name,
                               "".join(traceback.format_stack(frames[thread.ident])))

    def _pass_on(self) -> None:
        # Called with the lock held. Suspended jobs that return go first, but not on spare slots.
        if self._returning:
            self._changed.notify_all()
        while self._queue.count:
            job = self._next()
            if job is None:
                break
            if not self._begin(job):
                self._queue.add(job, first=True)
                break
        if not self._running and self._draining:
            self._changed.notify_all()

    def _begin(self, job: QueuedJob) -> bool:
        """Start a job; False if the system has no thread for it. Called with the lock held."""
        self._running += 1
        self._bytes += job.size
        self._busy[job] = job
        try:
            self.spawn(functools.partial(self._run_in_slot, job))
            return True
        except TransportError:
            # The next thread that releases a slot tries again (REL-39).
            _log.exception("a job of %s waits for a thread", self._name)
            self._running -= 1
            self._bytes -= self._busy.pop(job).size
            return False

    def _next(self) -> Optional[QueuedJob]:
        """Take the next job that may run from the queue, if any; called with the lock held."""
        open_to = EVERYONE
        if self._running >= self._slots:
            left = self._slots + self._spare - self._running
            if left <= 0:
                return None
            open_to = IDLE_CONNECTIONS if 2 * left > self._spare + 1 else IDLE_SENDERS
        elif self._returning:
            return None
        return self._queue.take(self._busy.values(), open_to, self._fits)

    def _fits(self, job: QueuedJob) -> bool:
        """Whether the job's memory may be in use besides that of the running ones; called with the lock held."""
        size, most = job.size, self._most_bytes
        if not size or most is None or not self._bytes or self._bytes + size <= most:
            return True
        # A quarter more is for senders who keep none.
        return self._bytes + size <= most + most // 4 and not any(
            other.size and other.sender == job.sender for other in self._busy.values())

    def _run_in_slot(self, job: QueuedJob) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._busy[thread] = self._busy.pop(job)
        try:
            job.execute()
        finally:
            if os.getpid() == self._process:
                self.release_slot(thread)

    def join(self, deadline: Deadline) -> bool:
        """Wait until all threads of a stopped pool have ended, but for the current one; return whether they have."""
        with self._lock:
            threads = list(self._threads)
        return all([wait_for_end(thread, deadline) for thread in threads])

    def owns_current_thread(self) -> bool:
        """Whether the current thread is one of the pool."""
        with self._lock:
            return any(thread.ident == threading.get_ident() for thread in self._threads)

    def _work(self, first: List[_Run]) -> None:
        # The life of a pool thread: started by spawn or with a job; ended by stop or by half a minute without
        # a job. It blocks on the handoff queue and on whatever the job blocks on.
        job: Optional[_Run] = first.pop()
        try:
            while job is not None:
                try:
                    job()
                except Exception:
                    _log.exception("a job of %s failed", self._name)
                job = None  # so that the sleeping thread keeps nothing of the job alive
                if os.getpid() != self._process:
                    return  # the job has forked: in the forked process this thread has nothing else to do
                with self._lock:
                    if self._stopped or self._idle == self._keep:
                        return
                    self._idle += 1
                try:
                    job = self._handoff.get(timeout=_IDLE_SECONDS)
                except Empty:
                    with self._lock:
                        if self._idle > 0:
                            self._idle -= 1
                            return
                    # This thread was reserved in the last moment: its job is on the way.
                    job = self._handoff.get()
        finally:
            if os.getpid() == self._process:
                with self._lock:
                    self._threads.discard(threading.current_thread())


class Mailbox(CallQueue):
    """Runs posted callbacks one after another, in order, on a thread of its own.

    The thread starts with the first post. If callbacks are slower than what arrives, the oldest
    waiting ones are dropped and counted, so that a flood costs bounded memory.

    :param name: the thread's name.
    :param limit: how many callbacks may wait; default 10,000.
    :param byte_limit: how many bytes they may hold together, unless one alone holds more; default 16 MiB.
    :param why: the reason why callbacks wait, for the warning when some are dropped.
    """

    def __init__(self, name: str, limit: int = 10_000, byte_limit: int = 16 << 20, why: str = "") -> None:
        super().__init__(name, _run_callback, lasts=True)
        self._limit = limit
        self.byte_limit = byte_limit
        self._why = why or f"the callbacks of {name} are slower than what arrives"
        #: The bytes that the callbacks hold which wait.
        self._bytes = 0
        #: How many callbacks were dropped because the queue was full.
        self.dropped = 0

    def post(self, job: _Run, size: int = 0) -> None:
        """Run *job* after everything posted before it; ignored once stopped.

        :param size: the bytes that it holds.
        """
        with self._changed:
            if self._stopped:
                return
            while self._items and (len(self._items) >= self._limit or self._bytes + size > self.byte_limit):
                self._take()
                self.dropped += 1
                if self.dropped == 1:
                    _log.warning("%s, and more than %d messages or %d bytes wait; the oldest are dropped",
                                 self._why, self._limit, self.byte_limit)
            self._bytes += size
            self.put((job, size))
            try:
                self.begin()
            except TransportError:
                _log.exception("the callbacks of %s wait for a thread, until the next one", self._name)

    def stop(self) -> int:
        waiting = super().stop()
        if waiting:
            _log.warning("%s; the %d messages that wait at the end are dropped", self._why, waiting)
        return waiting

    def _take(self) -> Any:
        job, size = self._items.popleft()
        self._bytes -= size
        return job


def _run_callback(job: _Run) -> None:
    try:
        job()
    except BaseException:  # of the user's
        _log.exception("a notification handler failed")


#: Seconds without a job after which the watchdog sleeps until the next one.
_QUIET_SECONDS = 0.1
#: Seconds after which a job that is still current is reported once more: the system may have had no thread, or the
#: thread that was to take over may have failed.
_AGAIN_SECONDS = 1.0


class Watchdog:
    """Watches a leader's jobs, each of which has a number.

    The leader holds its role as long as the number of its job is current. If :meth:`end` does not find the number any more, the
    leader has been replaced. There is no lock, since a leader calls :meth:`begin` and :meth:`end` for each message.

    :param tick: seconds that a job may take; one that takes longer is noticed after two ticks at the latest.
    :param late: called with the number of such a job on the watchdog's thread, and again as long as the job is current: after a
        second, or after the next tick if it returned True.
    """

    def __init__(self, tick: float, late: Callable[[int], Optional[bool]]) -> None:
        self._tick = tick
        self._late = late
        #: The number of the current job, as the one key; no key between jobs. Of two threads that remove it, one succeeds.
        self._current: Dict[int, bool] = {}
        #: The number of the latest job. Only the leader changes it.
        self._count = 0
        self._asleep = False
        self._stopped = False
        self._awake = threading.Event()

    def start(self) -> None:
        """Start the thread. :meth:`stop` ends it; it blocks on its tick, or sleeps until the next job.

        :raises TransportError: the system has no thread for it.
        """
        Loop("watchdog", self._watch).start()

    def stop(self) -> None:
        """End the thread, within one tick."""
        self._stopped = True
        self._awake.set()

    @property
    def job(self) -> int:
        """The number of the current job; 0 between jobs."""
        job = self._count
        return job if job in self._current else 0

    def begin(self) -> int:
        """Note that a job of the leader begins, and return its number."""
        job = self._count = self._count + 1
        self._current[job] = True
        if self._asleep:
            self._awake.set()
        return job

    def end(self, job: int) -> bool:
        """Note that a job ends; False if another thread has taken over meanwhile."""
        return self._current.pop(job, False)

    def _watch(self) -> None:
        count = late = 0
        quiet = again = 0.0
        while not self._stopped:
            job = self.job
            time.sleep(self._tick)
            if job and self.job == job and (job != late or time.monotonic() > again):
                if not self._late(job):
                    late, again = job, time.monotonic() + _AGAIN_SECONDS
            if self._count != count:
                quiet, count = 0.0, self._count
                continue
            quiet += self._tick
            if quiet < _QUIET_SECONDS:
                continue
            # An idle process must not cost CPU time: sleep until begin() sets the event. begin() adds its job and then reads
            # ``_asleep``; this thread sets ``_asleep`` and then looks for a job. So at least one of them sees what the other
            # has set.
            self._awake.clear()
            self._asleep = True
            if self._count == count and not self._current and not self._stopped:
                self._awake.wait()
            self._asleep = False
            quiet = 0.0

"""Daemon threads that run tasks: a bounded pool, and a mailbox that runs callbacks in order.

The pool (:class:`Workers`) runs handlers; the mailbox (:class:`Mailbox`) runs a client's notification callbacks.
All their threads are daemons, so a handler that hangs never delays the end of the process (REL-66).
"""

import contextlib
import logging
import sys
import threading
import traceback
from collections import deque
from queue import Empty, SimpleQueue
from typing import Callable, Deque, Iterator, List, Optional, Set

from .deadline import Deadline

__all__ = ["Mailbox", "Workers"]

Task = Callable[[], object]
_log = logging.getLogger(__name__)
#: Seconds for which an idle thread of a pool is kept.
_IDLE_SECONDS = 30.0


class Workers:
    """A pool of daemon threads with a bounded number of places.

    *Places* bound the tasks that run at once; there are as many *threads* as that takes. A task that waits for a
    response releases its place meanwhile (:meth:`suspended`), so waiting tasks never keep others from running, and
    a pool of one place cannot deadlock on nested questions.

    :param places: how many tasks run at once.
    :param queue_limit: how many more may wait for a place.
    :param name: the threads' name, for debuggers and for :meth:`stuck`.
    :param keep: how many idle threads are kept for a while; None for all.
    """

    def __init__(self, places: int, queue_limit: int, name: str, keep: Optional[int] = None) -> None:
        if places < 1 or queue_limit < 0:
            raise ValueError("places must be at least 1 and queue_limit at least 0")
        self._places = places
        self._queue_limit = queue_limit
        self._name = name
        self._keep = keep
        #: Guards every field below; held for list and dictionary work, and while a thread is started.
        self._lock = threading.Lock()
        #: Waited on by ``suspended`` (for a place) and by ``drain`` (for the end of all tasks).
        self._changed = threading.Condition(self._lock)
        self._running = 0
        #: Tasks that wait for something, without a place.
        self._suspended = 0
        #: Tasks that have waited and now need a place again.
        self._returning = 0
        self._queue: Deque[Task] = deque()
        self._idle = 0
        self._stopped = False
        self._draining = False
        self._busy: Set[int] = set()
        #: What idle threads sleep on: each item is a task to run; None ends a thread.
        self._handoff: "SimpleQueue[Optional[Task]]" = SimpleQueue()
        #: Whether the current thread holds a place.
        self._mine = threading.local()

    def reserve_place(self) -> bool:
        """Reserve a place for the current thread; False if none is free or other tasks wait for it."""
        with self._lock:
            if self._running >= self._places or self._queue or self._returning or self._stopped:
                return False
            self._running += 1
            self._busy.add(threading.get_ident())
        self._mine.place = True
        return True

    def release_place(self) -> None:
        """Release the current thread's place; the next queued task gets it."""
        self._mine.place = False
        with self._lock:
            self._busy.discard(threading.get_ident())
            self._running -= 1
            self._pass_on()

    def submit(self, task: Task) -> bool:
        """Run *task* on a thread of the pool as soon as there is a place.

        :returns: False if the queue is full, the pool is stopped, or the system has no thread for it.
        """
        with self._lock:
            if self._stopped or len(self._queue) >= self._queue_limit + self._places - self._running:
                return False
            self._queue.append(task)
            self._pass_on()
            if not self._running and self._queue and self._queue[-1] is task:
                self._queue.pop()  # there is no thread for it, and no running task that would pass a place on
                return False
        return True

    def spawn(self, task: Task) -> None:
        """Run *task* on a thread of the pool at once, without a place."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._handoff.put(task)
                return
        threading.Thread(target=self._work, args=(task,), name=self._name, daemon=True).start()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Release the current thread's place while the block waits, and get one back ahead of new tasks."""
        if not getattr(self._mine, "place", False):
            yield
            return
        with self._lock:
            self._suspended += 1
        self.release_place()
        try:
            yield
        finally:
            with self._lock:
                self._suspended -= 1
                self._returning += 1
                try:
                    self._changed.wait_for(lambda: self._running < self._places or self._stopped)
                finally:
                    self._returning -= 1
                    self._running += 1
                    self._busy.add(threading.get_ident())
                    self._pass_on()  # there may be a place for a new task as well
            self._mine.place = True

    def drain(self, deadline: Deadline, waiting: bool = False) -> bool:
        """Wait until no task runs or is queued; return whether that came before the deadline.

        :param waiting: whether suspended tasks count as well.
        """
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running and not self._queue
                                          and not (waiting and (self._suspended or self._returning)), deadline.remaining())

    def stop(self) -> None:
        """Accept no more tasks, drop the queued ones and let idle threads end."""
        with self._lock:
            self._stopped = True
            self._queue.clear()
            idle, self._idle = self._idle, 0
            self._changed.notify_all()
        for _ in range(idle):
            self._handoff.put(None)

    def stuck(self) -> List[str]:
        """Return, for each task that still runs, its thread's name and stack."""
        with self._lock:
            busy = set(self._busy)
        frames = sys._current_frames()
        return [f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
                for thread in threading.enumerate() if thread.ident in busy and thread.ident in frames]

    def log_stuck(self, logger: logging.Logger) -> None:
        """Log a warning for each task that still runs, with its stack: the server ends without it."""
        for where in self.stuck():
            logger.warning("a handler is still running at the end, in %s", where)

    def _pass_on(self) -> None:
        # Called with the lock held. Suspended tasks that return go first.
        if self._returning:
            self._changed.notify_all()
        elif self._queue and self._running < self._places:
            task = self._queue.popleft()
            self._running += 1
            try:
                self._start(task)
            except RuntimeError as error:
                # The system gives no more threads: the next thread that releases a place tries again (REL-39).
                _log.warning("a task of %s waits: %s", self._name, error)
                self._running -= 1
                self._queue.appendleft(task)
        elif not self._running and self._draining:
            self._changed.notify_all()

    def _start(self, task: Task) -> None:
        # Called with the lock held; the task's place is reserved already.
        def placed() -> None:
            self._mine.place = True
            with self._lock:
                self._busy.add(threading.get_ident())
            try:
                self._run_logged(task)
            finally:
                self.release_place()

        if self._idle > 0:
            self._idle -= 1
            self._handoff.put(placed)
        else:
            threading.Thread(target=self._work, args=(placed,), name=self._name, daemon=True).start()

    def _run_logged(self, task: Task) -> None:
        try:
            task()
        except BaseException:
            # SystemExit and KeyboardInterrupt too: a task must not end the thread (REL-58).
            _log.exception("a task of %s failed", self._name)

    def _work(self, task: Optional[Task]) -> None:
        # The life of a pool thread: started by spawn or with a task; ended by stop or by half a minute without
        # a task. It blocks on the handoff queue and on whatever the task blocks on.
        while task is not None:
            self._run_logged(task)
            task = None  # so that the sleeping thread keeps nothing of the task alive
            with self._lock:
                if self._stopped or self._idle == self._keep:
                    return
                self._idle += 1
            try:
                task = self._handoff.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                # This thread was reserved in the last moment: its task is on the way.
                task = self._handoff.get()


class Mailbox:
    """Runs posted callbacks one after another, in order, on a thread of its own.

    The thread starts with the first post. If callbacks are slower than what arrives, the oldest
    waiting ones are dropped and counted, so that a flood costs bounded memory.

    :param name: the thread's name.
    :param limit: how many callbacks may wait; default 10,000.
    """

    def __init__(self, name: str, limit: int = 10_000) -> None:
        self._name = name
        self._limit = limit
        #: Guards the fields below; the thread waits on it for callbacks or for the end.
        self._changed = threading.Condition()
        self._queue: Deque[Task] = deque()
        self._thread: Optional[threading.Thread] = None
        self._stopped = False
        self._running = False
        #: How many callbacks were dropped because the queue was full.
        self.dropped = 0

    def post(self, task: Task) -> None:
        """Run *task* after everything posted before it; ignored once stopped."""
        with self._changed:
            if self._stopped:
                return
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self.dropped += 1
                if self.dropped == 1:
                    _log.warning("%s: handlers are slower than what arrives; the oldest are dropped", self._name)
            self._queue.append(task)
            if self._thread is None:
                # Ended by stop(); blocks on the condition and on the callbacks themselves.
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until everything posted so far has run; False at once on the mailbox's own thread."""
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._running, timeout)

    def stop(self) -> None:
        """Drop the waiting callbacks and let the thread end after the one that it runs."""
        with self._changed:
            self._stopped = True
            self._queue.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._running = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._stopped)
                if self._stopped:
                    return
                task = self._queue.popleft()
                self._running = True
            try:
                task()
            except BaseException:
                _log.exception("a notification handler failed")
            del task  # so that the waiting thread keeps nothing of the callback alive

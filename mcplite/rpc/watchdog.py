"""Notices when a leader spends longer than one tick on a task, so that another thread can read on.

The leader-follower reading of pipes and the HTTP server's poller each have one: a module of its own, so that this race
is solved once.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from .forks import new_event
from .threads import start_thread
from .tracing import FaultLog, get_logger

__all__ = ["Watchdog"]

_log = get_logger(__name__)

#: Seconds without a task after which the watchdog sleeps until the next one.
_QUIET_SECONDS = 0.1
#: Seconds after which a task that is still current is reported once more: the system may have had no thread, or the
#: thread that was to take over may have failed.
_AGAIN_SECONDS = 1.0


class Watchdog:
    """Watches a leader's tasks, each of which has a number.

    The leader holds its role as long as the number of its task is current. If :meth:`end` finds another one, the
    leader has been replaced.

    :param lock: the owner's, which guards the fields here as well; held for assignments only.
    :param tick: seconds that a task may take; one that takes longer is noticed after two ticks at the latest.
    :param late: called with the number of such a task on the watchdog's thread, and again every second as long as the task
        is current.
    """

    def __init__(self, lock: threading.Lock, tick: float, late: Callable[[int], object]) -> None:
        self._lock = lock
        self._tick = tick
        self._late = late
        #: The number of the current task; 0 between tasks.
        self.task = 0
        self._count = 0
        self._asleep = False
        self._stopped = False
        self._awake = new_event()
        self._faults = FaultLog(_log)

    def start(self) -> None:
        """Start the thread. :meth:`stop` ends it; it blocks on its tick, or sleeps until the next task.

        :raises TransportError: the system has no thread for it.
        """
        start_thread(self._watch, "mcplite watchdog")

    def stop(self) -> None:
        """End the thread, within one tick."""
        self._stopped = True
        self._awake.set()

    def begin(self) -> int:
        """Note that a task begins, and return its number; call it with the lock held."""
        self._count += 1
        self.task = self._count
        if self._asleep:
            self._awake.set()
        return self.task

    def end(self, task: int) -> bool:
        """Note that a task ends; False if another thread has taken over meanwhile. Call it with the lock held."""
        if self.task != task:
            return False
        self.task = 0
        return True

    def _watch(self) -> None:
        while not self._stopped:
            try:
                self._watch_tasks()
            except Exception:
                self._faults.survive("watching for tasks that take long failed")

    def _watch_tasks(self) -> None:
        count = late = 0
        quiet = again = 0.0
        while not self._stopped:
            task = self.task
            time.sleep(self._tick)
            if task and self.task == task and (task != late or time.monotonic() > again):
                late, again = task, time.monotonic() + _AGAIN_SECONDS
                try:
                    self._late(task)
                except Exception:
                    self._faults.note("no thread could take over from one whose task takes long")
            if self._count != count:
                quiet, count = 0.0, self._count
                continue
            quiet += self._tick
            if quiet < _QUIET_SECONDS:
                continue
            # An idle process must not cost CPU time: sleep until begin() sets the event.
            with self._lock:
                self._asleep = self._count == count and not self.task
                self._awake.clear()
            if self._asleep and not self._stopped:
                self._awake.wait()
            with self._lock:
                self._asleep = False
            quiet = 0.0

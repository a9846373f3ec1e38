"""Notices when a leader spends longer than one tick on a task, so that another thread can read on.

The leader-follower reading of pipes and the HTTP server's poller each have one: a module of its own, so that this race
is solved once.
"""

from __future__ import annotations

import time
from typing import Callable, Dict

from .forks import new_event
from .threads import Loop

__all__ = ["Watchdog"]

#: Seconds without a task after which the watchdog sleeps until the next one.
_QUIET_SECONDS = 0.1
#: Seconds after which a task that is still current is reported once more: the system may have had no thread, or the
#: thread that was to take over may have failed.
_AGAIN_SECONDS = 1.0


class Watchdog:
    """Watches a leader's tasks, each of which has a number.

    The leader holds its role as long as the number of its task is current. If :meth:`end` finds another one, the
    leader has been replaced. There is no lock, since a leader calls :meth:`begin` and :meth:`end` for each message.

    :param tick: seconds that a task may take; one that takes longer is noticed after two ticks at the latest.
    :param late: called with the number of such a task on the watchdog's thread, and again every second as long as the task
        is current.
    """

    def __init__(self, tick: float, late: Callable[[int], object]) -> None:
        self._tick = tick
        self._late = late
        #: The number of the current task, as the one key; no key between tasks. Of two threads that remove it, one succeeds.
        self._current: Dict[int, bool] = {}
        #: The number of the latest task. Only the leader changes it.
        self._count = 0
        self._asleep = False
        self._stopped = False
        self._awake = new_event()

    def start(self) -> None:
        """Start the thread. :meth:`stop` ends it; it blocks on its tick, or sleeps until the next task.

        :raises TransportError: the system has no thread for it.
        """
        Loop("watchdog", self._watch).start()

    def stop(self) -> None:
        """End the thread, within one tick."""
        self._stopped = True
        self._awake.set()

    @property
    def task(self) -> int:
        """The number of the current task; 0 between tasks."""
        task = self._count
        return task if task in self._current else 0

    def begin(self) -> int:
        """Note that a task of the leader begins, and return its number."""
        task = self._count = self._count + 1
        self._current[task] = True
        if self._asleep:
            self._awake.set()
        return task

    def end(self, task: int) -> bool:
        """Note that a task ends; False if another thread has taken over meanwhile."""
        return self._current.pop(task, False)

    def _watch(self) -> None:
        count = late = 0
        quiet = again = 0.0
        while not self._stopped:
            task = self.task
            time.sleep(self._tick)
            if task and self.task == task and (task != late or time.monotonic() > again):
                late, again = task, time.monotonic() + _AGAIN_SECONDS
                self._late(task)
            if self._count != count:
                quiet, count = 0.0, self._count
                continue
            quiet += self._tick
            if quiet < _QUIET_SECONDS:
                continue
            # An idle process must not cost CPU time: sleep until begin() sets the event. Either begin() sees the mark, or
            # its task is seen here, since both are set before the other side's is read.
            self._awake.clear()
            self._asleep = True
            if self._count == count and not self._current and not self._stopped:
                self._awake.wait()
            self._asleep = False
            quiet = 0.0

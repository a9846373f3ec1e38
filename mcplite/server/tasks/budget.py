"""Bounds the bytes of memory that tasks take in one process, with a share for each client.

A run holds its arguments; what is stored of a task counts as well, where the store is the memory of this process. A shared
store is bounded for each client by the lists of :mod:`.listing`.
"""

import sys
import time
from typing import Callable, Dict, List

from ...rpc.forks import new_lock, on_fork
from ..shares import Shares
from .record import TaskRecord

__all__ = ["TaskBudget"]

#: Bytes that the entries of a task take besides what is stored: its keys, its place in a list and here.
_ENTRY_BYTES = 1024
#: Seconds between two searches for tasks whose time is over.
_SWEEP_SECONDS = 1.0


class _CountedTask:
    __slots__ = ("expires", "finished", "held", "stored")

    def __init__(self, held: int, stored: int, finished: bool, expires: float) -> None:
        self.held = held
        self.stored = stored
        self.finished = finished
        self.expires = expires

    @property
    def size(self) -> int:
        return self.held + self.stored + _ENTRY_BYTES


class TaskBudget:
    """The tasks that take memory in this process.

    A finished task is idle, so the oldest of them goes first, of the client with the most. One that is not finished goes
    only for another client, from one that has a quarter of all bytes or more.

    :param most: bytes of all tasks together.
    :param in_memory: whether what is stored lies in the memory of this process.
    :param evict: ends a task that has to go; called with its id, without a lock held.
    :param clock: returns seconds since 1970.
    """

    def __init__(self, most: int, in_memory: bool, evict: Callable[[str], object],
                 clock: Callable[[], float] = time.time) -> None:
        self._most = most
        self._in_memory = in_memory
        self._evict = evict
        self._clock = clock
        #: Guards ``_counted``; held for dictionary operations only.
        self._lock = new_lock()
        self._begin()
        on_fork(self, TaskBudget._begin)

    def _begin(self, owner: int = 0) -> None:
        self._counted: Dict[str, _CountedTask] = {}
        self._shares: "Shares[str]" = Shares(sys.maxsize, self._most, busy=self._unfinished)
        self._swept = self._clock()

    @property
    def bytes(self) -> int:
        """The bytes of all tasks."""
        return self._shares.bytes

    def add(self, task: TaskRecord, held: int, stored: int) -> bool:
        """Count a task; False if there is no room for it.

        :param held: bytes that its run holds.
        :param stored: bytes that are stored of it.
        """
        self._sweep()
        self.remove(task.id)
        counted = _CountedTask(held, stored if self._in_memory else 0, task.finished, task.expires)
        with self._lock:
            self._counted[task.id] = counted
        going = self._shares.add(task.id, task.client, counted.size)
        if going is None:
            self._forget(task.id)
            return False
        self._let_go(going)
        return True

    def count(self, task: TaskRecord, stored: int) -> bool:
        """Set the bytes that are stored of a task; False if there is no room for them: then it is not counted any more."""
        if not self._in_memory:
            return True
        counted = self._counted.get(task.id)
        if counted is None:
            return self.add(task, 0, stored)
        counted.stored, counted.finished = stored, task.finished
        going = [task.id] if counted.size > self._most else self._shares.resize(task.id, counted.size)
        self._let_go([other for other in going if other != task.id])
        if task.id in going:
            self.remove(task.id)
        return task.id not in going

    def release(self, task_id: str) -> None:
        """Note that the run of a task has ended: it holds nothing any more."""
        counted = self._counted.get(task_id)
        if counted is None:
            return
        counted.held = 0
        if self._in_memory:
            self._shares.resize(task_id, counted.size)
        else:
            self.remove(task_id)

    def remove(self, task_id: str) -> None:
        """Note that a task is gone."""
        self._shares.remove(task_id)
        self._forget(task_id)

    def _unfinished(self, task_id: str) -> bool:
        counted = self._counted.get(task_id)
        return counted is not None and not counted.finished

    def _forget(self, task_id: str) -> None:
        with self._lock:
            self._counted.pop(task_id, None)

    def _let_go(self, going: List[str]) -> None:
        for task_id in going:
            self._forget(task_id)
            self._evict(task_id)

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        with self._lock:
            over = [task_id for task_id, counted in self._counted.items() if counted.expires <= now and not counted.held]
        for task_id in over:
            self.remove(task_id)

"""Which process runs which tasks, so that those of a process that has ended are found."""

import json
from typing import Callable, List, Optional, Set

from ...backend.interface import Backend
from ...protocol.opaque import digest
from ...rpc.forks import new_lock, on_fork
from ..runtime.leases import Leases

__all__ = ["TaskRoster"]

#: Seconds for which the lists are kept without a change: longer than any task.
_SECONDS = 30 * 86_400.0


class TaskRoster:
    """The processes of a server that run tasks, in a backend that they share.

    :param lost: called with the id of a task and the number of the process that ran it, which has ended.
    """

    def __init__(self, backend: Backend, leases: Leases, server: str, lost: Callable[[str, int], object]) -> None:
        self._backend = backend
        self._leases = leases
        self._group = f"tasks-{digest(server)}"
        self._lost = lost
        #: Guards the fields below, and the order in which they are stored; held for operations of the backend.
        self._lock = new_lock()
        self._begin()
        on_fork(self, TaskRoster._begin)

    def _begin(self, owner: int = 0) -> None:
        self._running: Set[str] = set()
        #: The number under which this process is listed.
        self._listed: Optional[int] = None

    def add(self, task_id: str) -> int:
        """Note that this process runs a task; return its number."""
        number = self._leases.number
        with self._lock:
            if self._listed != number:
                self._change(lambda numbers: numbers if number in numbers else [*numbers, number])
                self._listed = number
            self._running.add(task_id)
            self._store(number)
        return number

    def remove(self, task_id: str) -> None:
        """Note that a task is finished."""
        with self._lock:
            self._running.discard(task_id)
            if self._listed is not None:
                self._store(self._listed)

    def look(self) -> None:
        """Find the processes that have ended, and tell of the tasks that they ran."""
        for number in self._read():
            if number == self._listed or self._leases.alive(number):
                continue
            # One process gets the list. If it ends here, its tasks are found by those who ask for them.
            data = self._backend.take(self._key(number))
            for task_id in [] if data is None else json.loads(data):
                self._lost(task_id, number)
            self._change(lambda numbers: [other for other in numbers if other != number])

    def _key(self, number: int) -> str:
        return f"{self._group}/running-{number}"

    def _store(self, number: int) -> None:
        self._backend.put(self._key(number), json.dumps(sorted(self._running)).encode("ascii"), _SECONDS)

    def _read(self) -> List[int]:
        data = self._backend.get(f"{self._group}/processes")
        return [] if data is None else json.loads(data)

    def _change(self, change: Callable[[List[int]], List[int]]) -> None:
        while True:
            data = self._backend.get(f"{self._group}/processes")
            before: List[int] = [] if data is None else json.loads(data)
            after = change(before)
            text = json.dumps(after).encode("ascii")
            if after == before or self._backend.swap(f"{self._group}/processes", data, text, _SECONDS):
                return

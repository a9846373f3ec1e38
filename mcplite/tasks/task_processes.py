"""The tasks of a server in several processes: which process runs which of them, and who is told of their changes.

The backend has a list of the running tasks of each process, so that the tasks of a process that has ended are found. If a task
changes, the threads that wait for it are woken in this process directly, and in the other processes by messages.
"""

import contextlib
import json
import threading
from collections import deque
from typing import Callable, Deque, Dict, Iterator, List, Optional, Set, Tuple

from ..errors import BackendError
from ..protocol.opaque import digest
from ..rpc.forks import renew
from ..rpc.tracing import get_logger
from ..server.runtime.processes import Processes

__all__ = ["TaskChanges", "TaskRoster"]

_log = get_logger(__name__)
#: Seconds for which a list is kept after its last change: 30 days, longer than tasks are usually kept.
_SECONDS = 30 * 86_400.0


class TaskRoster:
    """The processes of a server that run tasks, in a backend that they share.

    :param lost: called with the id of a task and the number of the process that ran it, which has ended; it is
        ``ServerTasks._recover``.
    """

    def __init__(self, processes: Processes, server: str, lost: Callable[[str, int], object]) -> None:
        self._backend = processes.backend
        self._processes = processes
        self._group = f"tasks-{digest(server)}"
        self._lost = lost
        #: Guards the fields below, and the order in which they are stored; held for operations of the backend.
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._running: Set[str] = set()
        #: The number under which this process is listed.
        self._listed: Optional[int] = None
        #: The tasks of processes that have ended, which :meth:`look` has still to tell of, and the numbers of those processes.
        self._orphaned: Deque[Tuple[str, int]] = deque()

    def let_go(self) -> None:
        """Forget, in a forked process, the tasks that the parent process runs."""
        renew(self)
        self._begin()

    def add(self, task_id: str) -> int:
        """Note that this process runs a task; return the number of this process."""
        number = self._processes.number
        with self._lock:
            if self._listed != number:
                self._change(lambda numbers: numbers if number in numbers else [*numbers, number])
                self._listed = number
            running = {*self._running, task_id}
            self._store(number, running)
            self._running = running
        return number

    def remove(self, task_id: str) -> None:
        """Note that this process does not run a task any more."""
        with self._lock:
            self._running.discard(task_id)
            if self._listed is not None:
                self._store(self._listed, self._running)

    def look(self) -> None:
        """Find the processes that have ended, and call ``lost`` for each task that they ran."""
        for number in self._read():
            if number == self._listed or self._processes.alive(number):
                continue
            # Only one process gets the list. If that process ends before it has handled all tasks, each of the others is found
            # when a client asks for it (ServerTasks.look_after).
            data = self._backend.take(self._key(number))
            self._orphaned.extend((task_id, number) for task_id in ([] if data is None else json.loads(data)))
            self._change(lambda numbers: [other for other in numbers if other != number])
        while self._orphaned:
            self._lost(*self._orphaned[0])  # after an error the next look goes on here
            self._orphaned.popleft()

    def _key(self, number: int) -> str:
        return f"{self._group}/running-{number}"

    def _store(self, number: int, running: Set[str]) -> None:
        self._backend.put(self._key(number), json.dumps(sorted(running)).encode("ascii"), _SECONDS)

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


_KIND = "task"


class TaskChanges:
    """Announces the changes of tasks to the threads that wait for them, in this process and in the others.

    :param processes: passes on the messages to and from the other processes.
    :param on_change: called with the id of a task that was changed in this process: ``ServerTasks._changed_here``.
    :param on_foreign_change: called with the id of a task that was changed in another process, on the thread that reads
        messages; it must not block. It is ``ServerTasks._changed_elsewhere``.
    """

    def __init__(self, processes: Processes, on_change: Callable[[str], object],
                 on_foreign_change: Callable[[str], object]) -> None:
        self._processes = processes
        self._on_change = on_change
        self._on_foreign_change = on_foreign_change
        #: Guards the field below; held for dictionary operations only.
        self._lock = threading.Lock()
        self._waiting: Dict[str, List[Callable[[], object]]] = {}
        processes.on(_KIND, self._receive)

    def let_go(self) -> None:
        """Forget, in a forked process, the threads that wait in the parent process."""
        renew(self)
        self._waiting = {}

    @contextlib.contextmanager
    def watch(self, task_id: str) -> Iterator[threading.Event]:
        """Return a block with an event that is set by each change of a task, in this process or another."""
        event = threading.Event()
        with self.calling(task_id, event.set):
            yield event

    @contextlib.contextmanager
    def calling(self, task_id: str, callback: Callable[[], object]) -> Iterator[None]:
        """Return a block in which each change of a task calls a function, which must not block."""
        with self._lock:
            self._waiting.setdefault(task_id, []).append(callback)
        try:
            yield
        finally:
            with self._lock:
                callbacks = self._waiting[task_id]
                callbacks.remove(callback)
                if not callbacks:
                    del self._waiting[task_id]

    def tell(self, task_id: str) -> None:
        """Announce a change of a task that was made in this process.

        If the store fails, that is only logged: threads that wait in other processes read the record regularly.
        """
        self._wake(task_id)
        self._on_change(task_id)
        try:
            self._processes.broadcast(_KIND, task_id)
        except BackendError as error:
            _log.warning("other processes were not told of a task's change: %s", error)

    def _receive(self, task_id: str) -> None:
        self._wake(task_id)
        self._on_foreign_change(task_id)

    def _wake(self, task_id: str) -> None:
        with self._lock:
            callbacks = list(self._waiting.get(task_id, ()))
        for callback in callbacks:
            callback()

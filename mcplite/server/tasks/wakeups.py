"""Wakes the threads that wait for a change of a task: in this process, and by letters in the others."""

import contextlib
import threading
from typing import Callable, Dict, Iterator, List, Optional

from ...errors import BackendError
from ...rpc.forks import new_lock, on_fork
from ...rpc.tracing import WARNING, PeerLog, get_logger
from ..runtime.letters import Letters

__all__ = ["TaskChanges"]

_log = get_logger(__name__)
_KIND = "task"


class TaskChanges:
    """The changes of tasks: told here, and learnt from other processes if there are any.

    :param letters: between the processes; None for a server in one process.
    :param on_change: called with the id of a task that was changed here.
    :param on_foreign_change: called on the thread of the letters with the id of one that was changed elsewhere; it must
        not block.
    """

    def __init__(self, letters: Optional[Letters], on_change: Callable[[str], object],
                 on_foreign_change: Callable[[str], object], log: PeerLog) -> None:
        self._letters = letters
        self._on_change = on_change
        self._on_foreign_change = on_foreign_change
        self._peer_log = log
        #: Guards the field below; held for dictionary operations only.
        self._lock = new_lock()
        self._begin()
        on_fork(self, TaskChanges._begin)
        if letters is not None:
            letters.on(_KIND, self._receive)

    def _begin(self, owner: int = 0) -> None:
        self._waiting: Dict[str, List[Callable[[], object]]] = {}

    @contextlib.contextmanager
    def watch(self, task_id: str) -> Iterator[threading.Event]:
        """Return a block with an event that is set with each change of a task."""
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
        """Tell of a change that was made here. A store that fails is logged: waiting processes read it regularly."""
        self._wake(task_id)
        self._on_change(task_id)
        if self._letters is None:
            return
        try:
            self._letters.broadcast(_KIND, task_id)
        except BackendError as error:
            self._peer_log.log(_log, WARNING, "other processes were not told of a task's change: %s", error)

    def _receive(self, task_id: str) -> None:
        self._wake(task_id)
        self._on_foreign_change(task_id)

    def _wake(self, task_id: str) -> None:
        with self._lock:
            callbacks = list(self._waiting.get(task_id, ()))
        for callback in callbacks:
            callback()

"""What runs the tasks of a server: a pool of threads in this process, or a queue of jobs that the user has already."""

from typing import Callable, Optional

from ..rpc.forks import new_lock, on_fork
from ..rpc.threads import Workers
from ..server.limits import Limits
from ..server.server_options import TaskRunner
from .task_run import TaskRun

__all__ = ["QueueRunner", "TaskPool"]


class QueueRunner(TaskRunner):
    """The base of the runners that are shipped: the server tells them what to run."""

    def submit(self, name: str, payload: str) -> object:
        raise NotImplementedError

    def attach(self, run: Callable[[str], None], shared: bool) -> None:
        """Called once by the server.

        :param run: runs the task of a payload; it is :meth:`Server.run_task`.
        :param shared: whether other processes can reach the server's backend.
        """


class TaskPool:
    """The threads that run tasks in this process; apart from those of the requests, which stay short.

    :param limits: how many tasks run and are queued at once.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Guards the field below; held while a task is queued.
        self._lock = new_lock()
        #: Created with the first task, and again after :meth:`stop` and in a forked process.
        self._workers: Optional[Workers] = None
        on_fork(self, TaskPool._let_go)

    def _let_go(self, owner: int) -> None:
        self._workers = None

    def submit(self, run: TaskRun) -> bool:
        """Run a task as soon as there is a place; False if too many wait for one."""
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self._limits.tasks_running, self._limits.tasks_queued, "mcplite task")
            run.release_place = self._workers.suspended
            return self._workers.enqueue(run)

    def discard(self, run: TaskRun) -> bool:
        """Remove a run that waits for a place; False if it does not."""
        with self._lock:
            return self._workers is not None and self._workers.discard(run)

    def stop(self) -> None:
        """End the threads that are idle, and the others after their tasks."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.stop()

"""TaskView: what this client knows of one task: its latest state, and progress that was not reported yet.

The thread that reads the connection adds to it, and the threads that wait for the task sleep on it. :class:`TaskSupport` is
which of the listed tools run as tasks, in November 2025, where the client decides on it.
"""

from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from ..client.output_schemas import Listed, sizes_of
from ..rpc.deadline import Sleepers
from ..rpc.forks import new_lock, new_rlock
from ..types import Tool
from ..types.tasks import DetailedTask

__all__ = ["TaskSupport", "TaskView"]

#: Progress notifications, and their bytes, that are kept until a thread waits for the task; beyond it the newest takes the
#: place of the one before it.
_MOST_PROGRESS = 1000
_MOST_PROGRESS_BYTES = 1 << 20


class TaskView:
    """The latest that is known of one task.

    :param state: the task as the server described it; None while its call is not answered.
    """

    def __init__(self, state: Optional[DetailedTask] = None) -> None:
        #: Guards the fields below; held for work in memory only.
        self._lock = new_rlock()
        self._changed = Sleepers()
        self._state = state
        self._progress: Deque[Tuple[Dict[str, Any], int]] = deque()
        self._progress_bytes = 0
        self._version = 0
        #: The streams over which the server sends each change: one may end after the next, of another connection, has begun.
        self._streams: Set[object] = set()

    @property
    def known(self) -> bool:
        """Whether the server has described the task."""
        return self._state is not None

    @property
    def state(self) -> DetailedTask:
        """The latest description of the task."""
        assert self._state is not None, "the server has not created the task"
        return self._state

    @property
    def version(self) -> int:
        """How often the view has changed; to be read before the state, and given to :meth:`wait`."""
        return self._version

    @property
    def pushed(self) -> bool:
        """Whether the server sends each change of the task, so that it need not be asked often."""
        return bool(self._streams)

    def put(self, state: DetailedTask) -> None:
        """Take a description of the task, unless it is older than the one that is known, or that one is final (TSK-17)."""
        with self._lock:
            known = self._state
            if known is not None and (known.finished or _is_older(state, known)):
                return
            self._state = state
            self._touch()

    def put_progress(self, params: Dict[str, Any], size: int) -> None:
        """Keep a progress notification of the task.

        :param size: of the message, in bytes.
        """
        with self._lock:
            if len(self._progress) >= _MOST_PROGRESS or self._progress_bytes + size > _MOST_PROGRESS_BYTES:
                if self._progress:
                    self._progress_bytes -= self._progress.pop()[1]
            self._progress.append((params, size))
            self._progress_bytes += size
            self._touch()

    def take_progress(self) -> List[Dict[str, Any]]:
        """Return the progress notifications that were not taken yet, oldest first."""
        with self._lock:
            taken = [params for params, _ in self._progress]
            self._progress.clear()
            self._progress_bytes = 0
            return taken

    def set_pushed(self, stream: object, pushed: bool) -> None:
        """Note whether the server sends each change over a stream from now on."""
        with self._lock:
            if pushed:
                self._streams.add(stream)
            else:
                self._streams.discard(stream)
            self._touch()

    def wake(self) -> None:
        """Wake the waiting threads, so that they look at what has happened besides."""
        with self._lock:
            self._touch()

    def _touch(self) -> None:
        self._version += 1
        self._changed.notify()

    def wait(self, version: int, seconds: float) -> None:
        """Sleep until the view is newer than *version*, for so many seconds at most."""
        self._changed.wait_for(lambda: self._version != version, seconds)


def _is_older(state: DetailedTask, known: DetailedTask) -> bool:
    # Timestamps of one server have one form, so that their order is that of the text. Final states are always taken.
    return (not state.finished and len(state.last_updated_at) == len(known.last_updated_at)
            and state.last_updated_at < known.last_updated_at)


class TaskSupport:
    """What the tools of one server say about tasks; listing the tools fills it."""

    def __init__(self) -> None:
        #: Guards the fields below; readers of the support of a tool need none.
        self._lock = new_lock()
        self._listed: Listed[str] = Listed()
        self._epoch = -1

    def of(self, tool: str, epoch: int) -> Optional[str]:
        """Return "required", "optional" or "forbidden"; None while the whole list was not read.

        :param epoch: the number of changes of the server's list so far.
        """
        found = self._listed.found.get(tool)
        return found if found is not None else "forbidden" if self._epoch == epoch else None

    def learn(self, tools: List[Tool]) -> None:
        """Remember a page of listed tools."""
        found = {tool.name: tool.task_support for tool in tools if tool.task_support != "forbidden"}
        sizes = sizes_of(found)
        with self._lock:
            self._listed.learn([tool.name for tool in tools], found, sizes)

    def complete(self, epoch: int) -> None:
        """Note that the whole list was read, as it was after so many changes: all other tools do not run as tasks."""
        with self._lock:
            self._epoch = epoch

    def forget(self) -> None:
        """Forget all: the server's list has changed."""
        with self._lock:
            self._listed.forget()
            self._epoch = -1

"""TaskSupport: which of the listed tools run as tasks, in November 2025, where the client decides on it."""

from typing import List, Optional

from ...rpc.forks import new_lock
from ...types import Tool
from ..output_schemas import Listed, sizes_of

__all__ = ["TaskSupport"]


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

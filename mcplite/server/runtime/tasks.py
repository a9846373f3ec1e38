"""The interface of a server's tasks, for the code of requests and listeners; ``server.tasks`` implements it.

A module of its own so that servers without tasks do not load them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from ...revisions import Revision
from ..catalog.provider import ProvidedEntry
from ..catalog.registry import ToolEntry

__all__ = ["TaskService"]


class TaskService:
    """The tasks of a server, as the code of requests and listeners sees them."""

    def allows(self, context: Any) -> bool:
        """Whether the client of a call asks for a task, or, from July 2026 on, can have one."""
        raise NotImplementedError

    def takes(self, context: Any, entry: Union[ToolEntry, ProvidedEntry]) -> bool:
        """Whether a call of a tool becomes a task.

        :raises RemoteError: it must, and the client cannot have tasks; or it cannot, and the client asks for one.
        """
        raise NotImplementedError

    def create(self, context: Any, entry: Union[ToolEntry, ProvidedEntry], arguments: Dict[str, Any],
               kwargs: Optional[Dict[str, Any]] = None) -> Any:
        """Make a call a task, and return the encoded result that says so.

        :param arguments: as the client gave them; *kwargs* are those of the function, None for a tool of a provider.
        """
        raise NotImplementedError

    def adopt(self, context: Any, once: Dict[str, Any], meta: Optional[Dict[str, Any]] = None) -> Any:
        """Make a call of a provider's tool a task after it has begun, and return the encoded result that says so.

        The provider runs the call again in this process, as the task.

        :param once: the results of ``ctx.once`` that this run finds.
        :param meta: the ``_meta`` of the result.
        """
        raise NotImplementedError

    def answer(self, context: Any) -> Any:
        """Return the encoded result of a request about tasks."""
        raise NotImplementedError

    def listenable(self, wanted: Dict[str, Any], extensions: Dict[str, Any], owner: Optional[str]) -> Dict[str, List[str]]:
        """Return the member of a filter that names tasks, with the ids of those that the client may hear of.

        :param wanted: the filter of a ``subscriptions/listen``; nothing is returned if it names no tasks.
        :raises RemoteError: the client did not declare the extension, or the member is no list of ids.
        """
        raise NotImplementedError

    def describe(self, task_id: str, revision: Revision) -> Optional[Dict[str, Any]]:
        """Return a task, encoded, as it is now; None if it is gone."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to look after the tasks of other processes; until :meth:`stop`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Look after them no more."""
        raise NotImplementedError

    def close(self) -> None:
        """End the tasks that run here: the server is stopped."""
        raise NotImplementedError

    def run_task(self, payload: str) -> None:
        """Run a task that was handed to another process, which is this one, and return when it is finished."""
        raise NotImplementedError

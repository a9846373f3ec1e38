"""FeatureSession: the part of an open session that the calls of a client use; the sessions of both eras implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ...revisions import Revision
from ...rpc.cancel import CancelToken
from ...types import ServerCapabilities, Tool
from ..call import Call

if TYPE_CHECKING:
    from ..tasks.task_state import TaskView

__all__ = ["FeatureSession"]


class FeatureSession:
    """The part of an open session that the calls of :class:`~.methods.Features` use."""

    #: The server's name in errors.
    name: str
    #: Declared by the server.
    capabilities: ServerCapabilities
    #: Whether the server runs tools as tasks.
    has_tasks = False
    #: Whether it does so when a call says so; else the server decides (TSK-05).
    asks_for_tasks = False
    #: Whether the server notifies changes only on streams that the client opens, one for each subscription.
    change_streams = False

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""
        raise NotImplementedError

    def request(self, call: Call) -> Dict[str, Any]:
        """Send a request and return its result; see :meth:`Peer.call`."""
        raise NotImplementedError

    def notify(self, method: str, params: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None) -> None:
        """Send a notification; see :meth:`Peer.notify`."""
        raise NotImplementedError

    def usable_tools(self, tools: List[Tool]) -> List[Tool]:
        """Return the listed tools that can be called over this session."""
        return tools

    def set_level(self, level: str) -> bool:
        """Make each later request ask for log messages of a level; False where the level needs a request of its own."""
        return False

    # --- tasks ----------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the seconds that count for time limits; they stand still while a question of the server is answered."""
        raise NotImplementedError

    def answer_inputs(self, requests: Dict[str, Any], cancel: Optional[CancelToken]) -> Dict[str, Any]:
        """Return the answers of the client's handlers to questions of a task, by their keys; see :class:`InputRounds`."""
        raise NotImplementedError

    def expect_progress(self, view: "TaskView") -> Any:
        """Return a progress token whose notifications go to *view*, as long as there is one, also after the response."""
        raise NotImplementedError

    def watch_task(self, id: str, view: "TaskView", lasting: bool) -> Callable[[], None]:
        """Give *view* what the server says of a task besides its responses; return a function that ends this.

        :param lasting: whether the task has lasted for a while, so that a stream of its own is worth its price.
        """
        return lambda: None

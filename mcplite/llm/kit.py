"""Kit: a toolset for the loop of a program that talks to a model's API itself.

Each API has a subclass, which knows the API's objects.
"""

from abc import abstractmethod
from typing import Any, Callable, List, Optional, Tuple

from ..client.call import OnProgress
from ..protocol.error_text import abridged
from ..rpc.cancel import CancelToken
from .result_content import Part, never
from .toolset import DEFAULT, CallOptions, Outcome, Toolset, ToolUse

__all__ = ["Kit", "field"]


class Kit(Toolset):
    """The tools of a client for one API, and the calls that a model asks for; may be used from any thread."""

    def call(self, tool_use: Any, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
             cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None) -> Any:
        """Run the call that a model asks for, and return the result in the API's form.

        What goes wrong is told to the model: a name that it was not told, arguments that are no object or that the server
        refuses, a tool that fails or takes too long, and a server that cannot be reached (which is logged, too). A
        middleware of the client may raise ``ToolError`` to stop a call; its text is what the model reads.

        :param tool_use: the object of the API's SDK, or the same as a dict.
        :param timeout, max_timeout, cancel, on_progress: as for ``client.call_tool``. By default the timeout of the kit,
            or else that of the client.
        :raises Cancelled: by *cancel*.
        :raises TypeError: *tool_use* is something else.
        """
        use = self._checked(tool_use)
        return self._answer(tool_use, use, self._run(use, CallOptions(timeout, max_timeout, cancel, on_progress)), never)[0]

    def answers(self, reply: Any, *, timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None) -> List[Any]:
        """Run all calls that a reply asks for, one after another, and return what to append to the conversation.

        The list is empty if the reply asks for no call: the conversation waits for the user then. Content that the API
        does not take inside a tool's result follows behind the results, if it takes it at all.

        :param reply: the reply of the API's SDK, or the same as a dict.
        :param timeout, max_timeout, cancel, on_progress: for each call, as for :meth:`call`.
        :raises Cancelled: by *cancel*.
        """
        options = CallOptions(timeout, max_timeout, cancel, on_progress)
        done = []
        for given in self._uses(reply):
            use = self._checked(given)
            done.append(self._answer(given, use, self._run(use, options), self._follows))
        return self._messages([answer for answer, _ in done], [part for _, rest in done for part in rest]) if done else []

    def _checked(self, given: Any) -> ToolUse:
        use = self._read(given)
        if not isinstance(use.name, str):
            raise TypeError(f"a call without the name of a tool: {abridged(given)}")
        return use

    # --- the objects of the API ----------------------------------------------------------------------------

    @abstractmethod
    def _uses(self, reply: Any) -> List[Any]:
        """Return the objects of a reply that ask for calls."""

    @abstractmethod
    def _read(self, tool_use: Any) -> ToolUse:
        """Read the API's object.

        :raises TypeError: it is something else.
        """

    @abstractmethod
    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        """Return the API's result of a call, and the parts that it cannot hold, but which *follow*."""

    def _follows(self, part: Part) -> bool:
        """Tell whether a part that a result cannot hold can be put behind the results."""
        return False

    @abstractmethod
    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        """Return what to append to a conversation: the results, and what follows them."""


def field(value: Any, name: str, default: Any = None) -> Any:
    """Return a member of an SDK's object, or of a dict of the same shape."""
    return value.get(name, default) if isinstance(value, dict) else getattr(value, name, default)

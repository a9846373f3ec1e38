"""The other processes of a server: which of them run, and messages to them. For one process there are none.

What a client sends may concern a call, a session or a stream of another process. The modules that find that out ask the one
object of this interface, so none of them differs between one process and several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ...backend.interface import Backend
    from ...errors import BackendError

__all__ = ["NUMBERS", "Processes"]

#: A number of a process has 20 bits, so that it fits beside a counter into an integer that JSON carries exactly.
NUMBERS = 1 << 20


class Processes:
    """The processes of a server that runs in this one alone.

    :param backend: in the memory of this process.
    """

    #: Whether there may be other processes.
    shared = False
    #: The number that this process has, or will have when it first needs one.
    candidate = 1

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def number(self) -> int:
        """The number of this process, by which the others know it; see :class:`.leases.Leases`.

        :raises BackendError: there is no number yet, and the store failed.
        """
        return self.candidate

    def alive(self, number: int) -> bool:
        """Whether the process with a number runs.

        :raises BackendError: the store failed.
        """
        return number == self.candidate

    def on_lost(self, callback: Callable[[int], object]) -> None:
        """Call *callback* with the old number when the others have taken this process for ended."""

    def send(self, number: int, kind: str, body: Any) -> None:
        """Send a message to one process.

        :raises BackendError: the store failed.
        """

    def broadcast(self, kind: str, body: Any) -> None:
        """Send a message to all others.

        :raises BackendError: the store failed.
        """

    def on(self, kind: str, receive: Callable[[Any], object]) -> None:
        """Call *receive* with the body of each message of a kind, on the reading thread."""

    @property
    def away(self) -> bool:
        """Whether the store has failed when it was used last."""
        return False

    def failed(self, error: BackendError) -> None:
        """Note that the store has failed."""

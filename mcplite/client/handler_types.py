"""What a server asks a client, as the handlers get it, and the types of the handlers.

A module of its own, so that a client loads the classes of questions with the first question.
"""

import os
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Union

from ..rpc.cancel import CancelToken
from ..types import (
    Content,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    Implementation,
    PromptMessage,
    Root,
    SamplingMessage,
)

__all__ = ["AskedElicitation", "AskedSampling", "Elicitation", "Roots", "Sampling"]

Roots = Union[Sequence[Union[str, "os.PathLike[str]", Root]], Callable[[], Sequence[Union[str, "os.PathLike[str]", Root]]]]


class _ServerRequest:
    """The members of a handler's argument that are not part of the protocol.

    ``server`` is the name and version of the asking server, for the user to see (ELIC-18); ``token`` is cancelled when
    the server withdraws the question (CANC-13).
    """

    server: Implementation
    token: CancelToken
    #: Sends a progress notification for this question; None if the server has not asked for progress, as always from July 2026
    #: on.
    notify_progress: Optional[Callable[[Dict[str, Any]], object]] = None

    def report_progress(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """Tell the server how far the answer is, if it has asked for that (PROG-15).

        It does nothing for a server that has not asked, and from July 2026 on, where an answer has no progress.

        :param progress: a number that rises; any unit.
        :param total: the final value, if it is known.
        :param message: a text for the user, from March 2025 on.
        :raises TypeError, ValueError: a value is not JSON.
        :raises ConnectionClosed: the server is gone.
        """
        if self.notify_progress is not None:
            values = {"progress": progress, "total": total, "message": message}
            self.notify_progress({name: value for name, value in values.items() if value is not None})


class AskedElicitation(_ServerRequest, ElicitRequest):
    """The argument of an elicitation handler: the server's ``ElicitRequest``, with ``server``, ``token``,
    ``report_progress``, and the three answers as methods.
    """

    def accept(self, content: Any = None) -> ElicitResult:
        """Return the answer of a user who accepts.

        :param content: the values of the form's fields, as a dict or a dataclass; a field that is left out gets its default.
            None for a page.
        """
        return ElicitResult("accept", content)

    def decline(self) -> ElicitResult:
        """Return the answer of a user who says no."""
        return ElicitResult("decline")

    def cancel(self) -> ElicitResult:
        """Return the answer of a user who closed the question without choosing."""
        return ElicitResult("cancel")


class AskedSampling(_ServerRequest, CreateMessageRequest):
    """The argument of a sampling handler: the server's ``CreateMessageRequest``, with ``server``, ``token`` and
    ``report_progress``.
    """


Elicitation = Callable[[AskedElicitation], Union[ElicitResult, Mapping[str, Any], bool, None]]
Sampling = Callable[[AskedSampling], Union[
    CreateMessageResult, PromptMessage, SamplingMessage, str, Content, List[Content], Literal[False], None]]

"""What a server asks a client, as the handlers get it, and the types of the handlers.

A module of its own, so that a client loads the classes of questions with the first question.
"""

import os
from typing import Any, Callable, List, Mapping, Sequence, Union

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


class AskedElicitation(_ServerRequest, ElicitRequest):
    """The argument of an elicitation handler: the server's ``ElicitRequest``, with ``server`` and ``token``."""


class AskedSampling(_ServerRequest, CreateMessageRequest):
    """The argument of a sampling handler: the server's ``CreateMessageRequest``, with ``server`` and ``token``."""


Elicitation = Callable[[AskedElicitation], Union[ElicitResult, Mapping[str, Any], None]]
Sampling = Callable[[AskedSampling], Union[
    CreateMessageResult, PromptMessage, SamplingMessage, str, Content, List[Content], ElicitResult, None]]

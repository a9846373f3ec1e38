"""Questions of servers to clients: elicitation, sampling, roots."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from ..revisions import JUNE_2025, NOVEMBER_2025
from .base import Model, wire
from .content import Content, TextContent
from .tools import Tool

__all__ = [
    "CreateMessageRequest", "CreateMessageResult", "ElicitRequest", "ElicitResult", "ListRootsResult", "ModelHint",
    "ModelPreferences", "Root", "SamplingMessage", "ToolChoice", "accept", "cancel", "decline",
]


@dataclass(eq=False, repr=False)
class ElicitRequest(Model):
    """A question to the user: a form to fill in (``mode`` "form") or a page to visit ("url").

    A form has ``requested_schema``, a flat object; a page has ``url`` and, in November 2025 alone,
    ``elicitation_id`` (ELIC-04, URLE-01, URLE-02).
    """

    message: str
    mode: str = wire(since=NOVEMBER_2025, default="form")
    requested_schema: Optional[Dict[str, Any]] = None
    url: Optional[str] = wire(since=NOVEMBER_2025)
    elicitation_id: Optional[str] = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)

    @property
    def host(self) -> str:
        """The host of the URL, which the user checks before agreeing (URLE-22); empty for a form."""
        # Parsed as browsers do, not by RFC 3986: they drop tabs and line ends, take a backslash for a slash and
        # need no slash at all. Otherwise https://evil.example\@good.example would show a host that is not visited.
        url = "".join(character for character in self.url or "" if character not in "\t\r\n")
        rest = url.replace("\\", "/").partition(":")[2].lstrip("/")
        return rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0].rsplit("@", 1)[-1]


@dataclass(eq=False, repr=False)
class ElicitResult(Model):
    """The user's answer: ``action`` is "accept", "decline" or "cancel"."""

    action: str
    #: The values of the form: text, numbers, booleans and (from November 2025 on) lists of text.
    content: Optional[Dict[str, Any]] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)


def accept(content: Optional[Dict[str, Any]] = None) -> ElicitResult:
    """Return the answer of a user who accepts, with the values of the form."""
    return ElicitResult("accept", content)


def decline() -> ElicitResult:
    """Return the answer of a user who declines."""
    return ElicitResult("decline")


def cancel() -> ElicitResult:
    """Return the answer of a user who closed the question without choosing."""
    return ElicitResult("cancel")


@dataclass(eq=False, repr=False)
class ModelHint(Model):
    """A part of the name of a model that the server prefers."""

    name: Optional[str] = None


@dataclass(eq=False, repr=False)
class ModelPreferences(Model):
    """The server's preferences for a model: hints in order, then priorities from 0 to 1."""

    hints: Optional[List[ModelHint]] = None
    cost_priority: Optional[float] = None
    speed_priority: Optional[float] = None
    intelligence_priority: Optional[float] = None


@dataclass(eq=False, repr=False)
class ToolChoice(Model):
    """Whether the model may ("auto"), must ("required") or must not ("none") use tools."""

    mode: Optional[str] = None


class _Blocks(Model):
    """Base of two classes whose content is one block or several, and kept as a list."""

    content: List[Content]

    def __post_init__(self) -> None:
        if not isinstance(self.content, list):
            self.content = list(self.content) if isinstance(self.content, tuple) else [self.content]

    @property
    def text(self) -> str:
        """All text blocks, joined by line ends."""
        return "\n".join(item.text for item in self.content if isinstance(item, TextContent))


@dataclass(eq=False, repr=False)
class SamplingMessage(_Blocks):
    """One message of a sampling conversation.

    :param content: one block or a list of blocks; the attribute is always a list. On the wire a single
        block stands alone, and several need November 2025 or later (SAMP-05).
    """

    role: str
    content: List[Content]
    meta: Optional[Dict[str, Any]] = wire("_meta", since=NOVEMBER_2025)

    if TYPE_CHECKING:
        def __init__(self, role: str, content: Union[Content, List[Content]],
                     meta: Optional[Dict[str, Any]] = None) -> None: ...


@dataclass(eq=False, repr=False)
class CreateMessageRequest(Model):
    """A request to the client's language model."""

    messages: List[SamplingMessage]
    max_tokens: int
    system_prompt: Optional[str] = None
    include_context: Optional[str] = None
    temperature: Optional[float] = None
    stop_sequences: Optional[List[str]] = None
    metadata: Optional[Dict[str, Any]] = None
    model_preferences: Optional[ModelPreferences] = None
    tools: Optional[List[Tool]] = wire(since=NOVEMBER_2025)
    tool_choice: Optional[ToolChoice] = wire(since=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)


@dataclass(eq=False, repr=False)
class CreateMessageResult(_Blocks):
    """The answer of the client's language model.

    :param content: one block or a list of blocks, as in :class:`SamplingMessage`.
    :param stop_reason: "endTurn", "stopSequence", "maxTokens", "toolUse" or the model's own word.
    """

    role: str
    content: List[Content]
    model: str
    stop_reason: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")

    if TYPE_CHECKING:
        def __init__(self, role: str, content: Union[Content, List[Content]], model: str,
                     stop_reason: Optional[str] = None, meta: Optional[Dict[str, Any]] = None) -> None: ...


@dataclass(eq=False, repr=False)
class Root(Model):
    """A directory or file that a server may work in; the URI is always a ``file://`` one (ROOT-04)."""

    uri: str
    name: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@dataclass(eq=False, repr=False)
class ListRootsResult(Model):
    """The client's roots."""

    roots: List[Root]
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)

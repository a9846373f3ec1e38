"""Questions of servers to clients: elicitation, sampling, roots."""

import functools
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Optional, Union

from ..revisions import JUNE_2025, NOVEMBER_2025, Revision
from .codec import Model
from .content import Content, TextContent
from .lazy_dataclass import record, wire
from .tools import Tool


def _finish_elicitation(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    if state["mode"] != "form" and not revision.elicitation_modes:
        raise ValueError(f"a client of {revision} can be asked by form only, not by {state['mode']!r}")


@record
class ElicitRequest(Model):
    """A question to the user: a form to fill in (``mode`` "form") or a page to visit ("url").

    A form has ``requested_schema``, a flat object; a page has ``url`` and, in November 2025 alone,
    ``elicitation_id`` (ELIC-04, URLE-01, URLE-02).
    """

    _finish = staticmethod(_finish_elicitation)
    message: str
    mode: str = wire(since=NOVEMBER_2025, default="form")
    requested_schema: Optional[Dict[str, Any]] = None
    url: Optional[str] = wire(since=NOVEMBER_2025)
    elicitation_id: Optional[str] = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    #: Asks for a task: ``{"ttl": milliseconds}``, or an empty object.
    task: Optional[Dict[str, Any]] = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)

    @property
    def host(self) -> str:
        """The host of the URL, which the user checks before agreeing (URLE-22); empty for a form."""
        # Parsed as browsers do, not by RFC 3986: they drop tabs and line ends, take a backslash for a slash and
        # need no slash at all. Otherwise https://evil.example\@good.example would show a host that is not visited.
        url = "".join(character for character in self.url or "" if character not in "\t\r\n")
        rest = url.replace("\\", "/").partition(":")[2].lstrip("/")
        return rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0].rsplit("@", 1)[-1]


@record
class ElicitResult(Model):
    """The user's answer: ``action`` is "accept", "decline" or "cancel"."""

    action: str
    #: The values of the form: text, numbers, booleans and (from November 2025 on) lists of text.
    content: Optional[Dict[str, Any]] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)


@record
class ModelHint(Model):
    """A part of the name of a model that the server prefers."""

    name: Optional[str] = None


@record
class ModelPreferences(Model):
    """The server's preferences for a model: hints in order, then priorities from 0 to 1."""

    hints: Optional[List[ModelHint]] = None
    cost_priority: Optional[float] = None
    speed_priority: Optional[float] = None
    intelligence_priority: Optional[float] = None


@record
class ToolChoice(Model):
    """Whether the model may ("auto"), must ("required") or must not ("none") use tools."""

    mode: Optional[str] = None


def _finish_sampling(revision: Revision, state: Dict[str, Any], out: Dict[str, Any]) -> None:
    content = out.get("content")
    blocks = content if isinstance(content, list) else [content]
    kinds = _sampling_kinds(revision)
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        if kind not in kinds:
            raise ValueError(f"a sampling message cannot hold {kind!r} content in {revision};"
                             f" possible are {', '.join(sorted(kinds))}")
    if len(blocks) == 1:
        out["content"] = blocks[0]
    elif not revision.sampling_tools:
        raise ValueError(f"a sampling message has exactly one content block in {revision}, not {len(blocks)};"
                         f" send several messages, or join the text into one block")


@functools.lru_cache(maxsize=None)
def _sampling_kinds(revision: Revision) -> FrozenSet[str]:
    tools = {"tool_use", "tool_result"} if revision.sampling_tools else set()
    return revision.content_kinds & {"text", "image", "audio"} | tools


def _adapt_sampling(wire: Dict[str, Any]) -> Dict[str, Any]:
    content = wire.get("content")
    return {**wire, "content": [content]} if isinstance(content, dict) else wire


class _Blocks(Model):
    """Base of two classes whose content is one block or several, and kept as a list."""

    _finish = staticmethod(_finish_sampling)
    _adapt = staticmethod(_adapt_sampling)
    content: List[Content]

    def __post_init__(self) -> None:
        if not isinstance(self.content, list):
            self.content = list(self.content) if isinstance(self.content, tuple) else [self.content]

    @property
    def text(self) -> str:
        """All text blocks, joined by line ends."""
        return "\n".join(item.text for item in self.content if isinstance(item, TextContent))


@record
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


@record
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
    #: Asks for a task: ``{"ttl": milliseconds}``, or an empty object.
    task: Optional[Dict[str, Any]] = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)


@record
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


@record
class Root(Model):
    """A directory or file that a server may work in; the URI is always a ``file://`` one (ROOT-04)."""

    uri: str
    name: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@record
class ListRootsResult(Model):
    """The client's roots."""

    roots: List[Root]
    meta: Optional[Dict[str, Any]] = wire("_meta", until=NOVEMBER_2025)

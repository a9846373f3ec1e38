"""Prompts, their messages, and completion."""

from typing import Any, Dict, List, Optional, Protocol, Sequence, Union

from ..revisions import JULY_2026, JUNE_2025, NOVEMBER_2025
from .codec import Icon, Model, Titled
from .content import AudioContent, Content, Displayed, ImageContent, as_block, plain_text
from .lazy_dataclass import record, wire


@record
class PromptArgument(Model):
    """One argument of a prompt; its value is always a string."""

    name: str
    description: Optional[str] = None
    required: Optional[bool] = None
    title: Optional[str] = wire(since=JUNE_2025)


@record
class Prompt(Titled, Model):
    """A prompt's definition."""

    name: str
    description: Optional[str] = None
    arguments: Optional[List[PromptArgument]] = None
    title: Optional[str] = wire(since=JUNE_2025)
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class PromptMessage(Model):
    """One message of a prompt: a role and one content."""

    role: str
    content: Content


@record
class GetPromptResult(Displayed, Model):
    """The messages of a prompt with its arguments filled in."""

    messages: List[PromptMessage]
    description: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)

    def _bundle(self) -> Dict[str, Any]:
        return {"text/plain": "\n".join(f"{item.role}: {plain_text(item.content)}" for item in self.messages)}


@record
class ListPromptsResult(Model):
    """One page of prompts."""

    prompts: List[Prompt]
    next_cursor: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)


@record
class Completion(Model):
    """Values that complete an argument, best first; at most a hundred."""

    values: List[str]
    total: Optional[int] = None
    has_more: Optional[bool] = None


@record
class CompleteResult(Model):
    """The answer to a completion request."""

    completion: Completion
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)

    @property
    def values(self) -> List[str]:
        """The completion's values."""
        return self.completion.values


class Media(Protocol):
    """Bytes that become a content block, such as ``mcplite.Image`` and ``mcplite.Audio``."""

    def content(self) -> Union[ImageContent, AudioContent]:
        """Return the content block."""


def user(content: "Union[str, Content, Media, Dict[str, Any], Sequence[Union[str, Content, Media, Dict[str, Any]]]]"
         ) -> PromptMessage:
    """Return a message of the user, for prompts and for sampling.

    :param content: a text, a content block or its JSON object, or an ``mcplite.Image`` or ``mcplite.Audio``; or a list of
        those, which becomes one message for each in a prompt.
    :raises ProtocolError: a JSON object is of a kind of content, and not valid.
    """
    return PromptMessage("user", _block(content))


def assistant(content: "Union[str, Content, Media, Dict[str, Any], Sequence[Union[str, Content, Media, Dict[str, Any]]]]"
              ) -> PromptMessage:
    """Return a message of the assistant, for prompts and for sampling; see :func:`user`.

    :raises ProtocolError: as for :func:`user`.
    """
    return PromptMessage("assistant", _block(content))


def _block(content: Any) -> Any:
    if isinstance(content, (list, tuple)):
        return [_block(item) for item in content]
    block = as_block(content)
    return content if block is None else block

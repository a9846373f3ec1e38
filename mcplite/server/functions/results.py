"""From what a handler returned to a result: content, structured content, resource contents, messages."""

import base64
import copy
from typing import Any, Dict, List, Optional, Sequence

from ...errors import ProtocolError
from ...protocol.jsonio import encode_json
from ...types import (
    NULL,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    Resource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from .function import Function
from .jsonable import jsonable
from .media import Audio, Image

__all__ = ["BadOutput", "content_items", "prompt_messages", "resource_contents", "tool_result"]

_CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent, ToolResultContent,
            UnknownContent)
_BYTES = (bytes, bytearray, memoryview)
_CONTENTS = (TextResourceContents, BlobResourceContents)


class BadOutput(ValueError):
    """A tool returned what its declared output schema does not allow."""


def tool_result(value: Any, function: Function) -> CallToolResult:
    """Return the result for what a tool returned.

    Text becomes a text block and None no block at all. Images, sounds, resources and links become
    their blocks, also in lists. Any other data becomes JSON text and, unless it is switched off and
    where it is an object or a schema is declared, structured content.

    :raises BadOutput: it does not fit the declared output schema (TOOL-37).
    :raises TypeError, ValueError: it cannot be sent.
    """
    output = function.output
    if output.schema is None:
        kind = type(value)
        if kind is str:
            return CallToolResult(content=[TextContent(text=value)])
        if value is None:
            return CallToolResult()
        if isinstance(value, CallToolResult):
            return _copied(value)
        content = _as_content(value)
        if content is not None:
            return CallToolResult(content=content)
        data = jsonable(value)
        structured = data if type(data) is dict and not output.off else None
        return CallToolResult(content=[_json_text(data)], structured_content=structured)
    if isinstance(value, CallToolResult):
        result = _copied(value)
        if not result.is_error:  # TOOL-43
            if result.structured_content is None:
                raise BadOutput("an output schema is declared, but the result has no structured_content")
            _check(result.structured_content, function)
        return result
    data = jsonable(value)
    if type(value) is output.exact:
        return CallToolResult(content=[_json_text(data)], structured_content={"result": data})
    structured = {"result": data} if output.wrapped else data
    _check(structured, function)
    return CallToolResult(content=[_json_text(data)], structured_content=structured)


def _copied(result: CallToolResult) -> CallToolResult:
    # A handler may keep one result and return it again; encoding for an older client must not change it.
    result = copy.copy(result)
    result.content = content_items(result.content)
    structured = result.structured_content
    if structured is not None and structured is not NULL:
        result.structured_content = jsonable(structured)
        if not result.content:
            result.content.append(_json_text(result.structured_content))  # TOOL-39, for clients that know text alone
    return result


def content_items(items: Sequence[Any]) -> List[Any]:
    """Return texts, images, content and data as content blocks, one after another.

    :raises TypeError, ValueError: one of them cannot be sent.
    """
    flat: List[Any] = []
    for item in items:
        content = [TextContent(text=item)] if isinstance(item, str) else _as_content(item)
        flat.extend([_json_text(jsonable(item))] if content is None else content)
    return flat


def _check(structured: Any, function: Function) -> None:
    problems = function.output.problems(structured)
    if problems:
        raise BadOutput("; ".join(problems[:3]))


def _json_text(data: Any) -> TextContent:
    return TextContent(text=data if type(data) is str else encode_json(data))


def _as_content(value: Any) -> Optional[List[Any]]:
    """Return a value as content blocks, or None when it is plain data."""
    if isinstance(value, _CONTENT):
        return [value]
    if isinstance(value, (Image, Audio)):
        return [value.content()]
    if isinstance(value, Resource):
        return [ResourceLink(uri=value.uri, name=value.name, title=value.title, description=value.description,
                             mime_type=value.mime_type, size=value.size, annotations=value.annotations,
                             icons=value.icons, meta=value.meta)]
    if isinstance(value, _CONTENTS):
        return [EmbeddedResource(resource=value)]
    if isinstance(value, _BYTES):
        # No other block can hold bytes of an unknown kind.
        blob = base64.b64encode(value).decode("ascii")
        return [EmbeddedResource(resource=BlobResourceContents(uri="data:application/octet-stream", blob=blob,
                                                               mime_type="application/octet-stream"))]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and \
            any(isinstance(item, (*_CONTENT, *_CONTENTS, Image, Audio, Resource, *_BYTES)) for item in value):
        return content_items(value)
    return None


def resource_contents(value: Any, uri: str, mime_type: Optional[str]) -> List[Any]:
    """Return the contents for what a resource's reader returned.

    Text stays text, bytes become base64, data becomes JSON; contents that are ready are passed on,
    also in a list. None is no contents at all.

    :raises TypeError, ValueError: it cannot be sent.
    """
    if value is None:
        return []
    if isinstance(value, _CONTENTS):
        return [value]
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (*_CONTENTS, EmbeddedResource)) for item in value):
        return [item.resource if isinstance(item, EmbeddedResource) else item for item in value]
    if isinstance(value, EmbeddedResource):
        return [value.resource]
    if isinstance(value, str):
        return [TextResourceContents(uri=uri, text=value, mime_type=mime_type or "text/plain")]
    if isinstance(value, (Image, Audio)):
        return [BlobResourceContents(uri=uri, blob=value.content().data, mime_type=mime_type or value.mime_type)]
    if isinstance(value, _BYTES):
        return [BlobResourceContents(uri=uri, blob=base64.b64encode(value).decode("ascii"),
                                     mime_type=mime_type or "application/octet-stream")]
    return [TextResourceContents(uri=uri, text=encode_json(jsonable(value)), mime_type=mime_type or "application/json")]


def prompt_messages(value: Any) -> List[PromptMessage]:
    """Return the messages for what a prompt returned: a text, a message, content, or a list of those.

    A message may also be written as ``{"role": ..., "content": ...}``. Text and content without a role
    are the user's; a message with a list of content becomes one message for each.

    :raises TypeError, ValueError: it is none of these.
    """
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, PromptMessage):
        return _messages(value.role, value.content)
    if isinstance(value, dict) and set(value) == {"role", "content"}:
        return _messages(value["role"], value["content"])
    if isinstance(value, (str, *_CONTENT, *_CONTENTS, *_BYTES, Image, Audio, Resource)):
        return _messages("user", value)
    raise TypeError(f"a prompt returns texts, messages and content, not {type(value).__name__}")


def _messages(role: Any, content: Any) -> List[PromptMessage]:
    if role not in ("user", "assistant"):
        raise ValueError(f"a message's role is 'user' or 'assistant', not {repr(role)[:80]}")
    if isinstance(content, dict):
        content = _decoded(content)
    return [PromptMessage(role, item) for item in content_items(content if isinstance(content, (list, tuple)) else [content])]


def _decoded(wire: Dict[str, Any]) -> Any:
    """Return content that is written as in the protocol, such as ``{"type": "text", "text": ...}``."""
    from ...protocol import codec

    try:
        return codec.decode(PromptMessage, {"role": "user", "content": wire}).content
    except ProtocolError as error:
        raise ValueError(f"a message's content is not content of the protocol: {error}") from error

"""Converts a handler's return value to a result: content, structured content, resource contents, messages."""

from __future__ import annotations

import base64
import copy
from typing import Any, Callable, Dict, List, Optional, Sequence

from ...errors import ProtocolError
from ...protocol.jsonio import LONG, encode_json, encode_string
from ...protocol.jsonrpc import Encoded
from ...protocol.show import quoted
from ...revisions import Revision
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
from .jsonable import SCALARS, jsonable
from .media import Audio, Image
from .returns import Output

__all__ = ["BadOutput", "Write", "content_items", "prompt_messages", "resource_contents", "result_writer", "tool_result"]

#: Takes what a tool returned; see :func:`result_writer`.
Write = Callable[[Any, str], Optional[Encoded]]

_CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent, ToolResultContent,
            UnknownContent)
_BYTES = (bytes, bytearray, memoryview)
_CONTENTS = (TextResourceContents, BlobResourceContents)


class BadOutput(ValueError):
    """A tool's return value does not fit its declared output schema."""


def tool_result(value: Any, function: Function) -> CallToolResult:
    """Return the result of a tool call.

    A string becomes a text block, None becomes no block. Images, audio, resources and links become their content
    blocks, also in lists. Any other data becomes JSON text. It also becomes structured content if it is an object or
    an output schema is declared, unless structured content is switched off.

    :param value: what the tool returned.
    :raises BadOutput: the value does not fit the declared output schema (TOOL-37).
    :raises TypeError, ValueError: the value cannot be sent.
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
            _check(result.structured_content, output)
        return result
    kind = type(value)
    data = value if kind in SCALARS else jsonable(value)
    if kind is output.exact:
        return CallToolResult(content=[_json_text(data)], structured_content={"result": data})
    structured = {"result": data} if output.wrapped else data
    _check(structured, output)
    return CallToolResult(content=[_json_text(data)], structured_content=structured)


def result_writer(output: Output, revision: Revision) -> Write:
    """Return the function that writes the result of a tool as JSON, straight from the plain data that the tool returned.

    It takes the data and the end of the text: the members that all results of an era have, and the brace. It writes what
    :func:`tool_result`, and the codec after it, write for the same value, and raises the same errors. It returns None for a
    value that is left to those two: content, a ``CallToolResult``, and what is rare.

    :param output: of the tool.
    """
    structured, wrapped, exact = revision.structured_output and not output.off, output.wrapped, output.exact
    before, after = '"structuredContent":', ""
    if wrapped and (output.bare is None or revision.object_output_only):
        before, after = before + '{"result":', "}"

    def write_undeclared(value: Any, end: str) -> Optional[Encoded]:
        kind = type(value)
        if kind is str:
            if len(value) > LONG:
                return Encoded(None, parts=('{"content":[{"type":"text","text":', value, "}]" + end))
            return Encoded(None, f'{{"content":[{{"type":"text","text":{encode_string(value)}}}]{end}')
        if kind is not dict:
            return None
        text = encode_json(jsonable(value))
        members = "," + before + text if structured else ""
        return Encoded(None, f'{{"content":[{{"type":"text","text":{encode_string(text)}}}]{members}{end}')

    # The general writer takes longer for one number than for its digits.
    write = int.__repr__ if exact is int else encode_json

    def write_declared(value: Any, end: str) -> Optional[Encoded]:
        kind = type(value)
        if kind in SCALARS:
            data = value
        elif isinstance(value, CallToolResult):
            return None
        else:
            data = jsonable(value)
        if kind is exact:
            text = write(data)
        else:
            _check({"result": data} if wrapped else data, output)
            text = encode_json(data)
        shown = text if type(data) is str else encode_string(text)
        if not structured:
            return Encoded(None, f'{{"content":[{{"type":"text","text":{shown}}}]{end}')
        if not wrapped and type(data) is not dict:
            return None
        return Encoded(None, f'{{"content":[{{"type":"text","text":{shown}}}],{before}{text}{after}{end}')

    return write_undeclared if output.schema is None else write_declared


def _copied(result: CallToolResult) -> CallToolResult:
    # The handler may return the same object again, so encoding it for an older client must not change it.
    result = copy.copy(result)
    result.content = content_items(result.content)
    structured = result.structured_content
    if structured is not None and structured is not NULL:
        result.structured_content = jsonable(structured)
        if not result.content:
            result.content.append(_json_text(result.structured_content))  # TOOL-39, for clients that only read text
    return result


def content_items(items: Sequence[Any]) -> List[Any]:
    """Return the content blocks of a list of strings, images, content and data.

    :raises TypeError, ValueError: an item cannot be sent.
    """
    flat: List[Any] = []
    for item in items:
        content = [TextContent(text=item)] if isinstance(item, str) else _as_content(item)
        flat.extend([_json_text(jsonable(item))] if content is None else content)
    return flat


def _check(structured: Any, output: Output) -> None:
    problems = output.problems(structured)
    if problems:
        raise BadOutput("; ".join(problems[:3]))


def _json_text(data: Any) -> TextContent:
    return TextContent(text=data if type(data) is str else encode_json(data))


def _as_content(value: Any) -> Optional[List[Any]]:
    """Return the content blocks of a value; None if it is plain data."""
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
        # The only block that can hold bytes of an unknown type.
        blob = base64.b64encode(value).decode("ascii")
        return [EmbeddedResource(resource=BlobResourceContents(uri="data:application/octet-stream", blob=blob,
                                                               mime_type="application/octet-stream"))]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and \
            any(isinstance(item, (*_CONTENT, *_CONTENTS, Image, Audio, Resource, *_BYTES)) for item in value):
        return content_items(value)
    return None


def resource_contents(value: Any, uri: str, mime_type: Optional[str]) -> List[Any]:
    """Return the contents of a resource.

    A string becomes text, bytes become base64, data becomes JSON. Contents objects are passed on, also in a list.
    None becomes an empty list.

    :param value: what the resource's function returned.
    :raises TypeError, ValueError: the value cannot be sent.
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
    """Return the messages of a prompt.

    A message may also be written as ``{"role": ..., "content": ...}``. Strings and content without a role get the
    role "user". A message with a list of content becomes one message for each item.

    :param value: what the prompt returned: a string, a message, content, or a list of those.
    :raises TypeError, ValueError: the value has another type, or cannot be sent.
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
    raise TypeError(f"a prompt returns strings, messages and content, not {type(value).__name__}")


def _messages(role: Any, content: Any) -> List[PromptMessage]:
    if role not in ("user", "assistant"):
        raise ValueError(f"a message's role is 'user' or 'assistant', not {quoted(role)}")
    if isinstance(content, dict):
        content = _decoded(content)
    return [PromptMessage(role, item) for item in content_items(content if isinstance(content, (list, tuple)) else [content])]


def _decoded(wire: Dict[str, Any]) -> Any:
    """Return the content block for its wire form, such as ``{"type": "text", "text": ...}``."""
    from ...protocol import codec

    try:
        return codec.decode_own(PromptMessage, {"role": "user", "content": wire}).content
    except ProtocolError as error:
        raise ValueError(f"a message's content is not valid: {error}") from error

"""From what a handler returned to a result: content, structured content, resource contents, messages.

May import: protocol.codec, server.functions, server.media, types
"""

import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import os
import uuid
from typing import Any, Dict, List, Optional, Sequence

from ..types import (
    BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, AudioContent, PromptMessage, Resource,
    ResourceLink, TextContent, TextResourceContents, ToolResultContent, ToolUseContent, UnknownContent,
)
from .functions import Function
from .media import Audio, Image

__all__ = ["BadOutput", "jsonable", "prompt_messages", "resource_contents", "tool_result"]

_CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent, ToolResultContent,
            UnknownContent)
_CONTENTS = (TextResourceContents, BlobResourceContents)
_SCALARS = (str, int, float, bool, type(None))
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_MAX_DEPTH = 200


class BadOutput(ValueError):
    """A tool returned what its declared output schema does not allow."""


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data: the mirror of how arguments are converted.

    :raises TypeError: JSON has no form of it.
    :raises ValueError: it contains itself, or is nested too deeply.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth > _MAX_DEPTH:
        raise ValueError("the value is nested too deeply, or contains itself")
    if kind is dict or isinstance(value, dict):
        return {_key(key): jsonable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(item, depth + 1) for name, item in zip(value._fields, value)}
    if isinstance(value, (list, tuple)):
        return [jsonable(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [jsonable(item, depth + 1) for item in sorted(value, key=lambda item: (type(item).__name__, str(item)))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return jsonable(value.value, depth + 1)
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if inspect.isgenerator(value):
        raise TypeError("a generator cannot be sent: return a list, or report progress for partial results")
    raise TypeError(f"a value of the class {kind.__name__} cannot be sent as JSON; return a dict, a dataclass or text")


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is not a string, which JSON requires; convert it")
    return key


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
        if kind is CallToolResult:
            return _copied(value)
        content = _as_content(value)
        if content is not None:
            return CallToolResult(content=content)
        data = jsonable(value)
        structured = data if type(data) is dict and not output.off else None
        return CallToolResult(content=[_json_text(data)], structured_content=structured)
    if type(value) is CallToolResult:
        if not value.is_error:
            _check(value.structured_content, function)
        return _copied(value)
    data = jsonable(value)
    structured = {"result": data} if output.wrapped else data
    _check(structured, function)
    return CallToolResult(content=[_json_text(data)], structured_content=structured)


def _copied(result: CallToolResult) -> CallToolResult:
    # A handler may keep one result and return it again; encoding for an older client must not change it.
    return CallToolResult(content=_flat(result.content), structured_content=result.structured_content,
                          is_error=result.is_error, meta=result.meta)


def _flat(items: Sequence[Any]) -> List[Any]:
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
    return TextContent(text=data if type(data) is str else _encode(data))


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
    if isinstance(value, (bytes, bytearray)):
        # No other block can hold bytes of an unknown kind.
        blob = base64.b64encode(value).decode("ascii")
        return [EmbeddedResource(resource=BlobResourceContents(uri="data:application/octet-stream", blob=blob,
                                                               mime_type="application/octet-stream"))]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and \
            any(isinstance(item, (*_CONTENT, *_CONTENTS, Image, Audio, Resource, bytes)) for item in value):
        return _flat(value)
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
    if isinstance(value, (bytes, bytearray)):
        return [BlobResourceContents(uri=uri, blob=base64.b64encode(value).decode("ascii"),
                                     mime_type=mime_type or "application/octet-stream")]
    return [TextResourceContents(uri=uri, text=_encode(jsonable(value)), mime_type=mime_type or "application/json")]


def prompt_messages(value: Any) -> List[PromptMessage]:
    """Return the messages for what a prompt returned: a text, a message, content, or a list of those.

    :raises TypeError: it is none of these.
    """
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, PromptMessage):
        return [value]
    if isinstance(value, str):
        return [PromptMessage("user", TextContent(text=value))]
    if isinstance(value, dict) and set(value) == {"role", "content"}:
        return [_from_dict(value)]
    content = _as_content(value)
    if content is None:
        raise TypeError(f"a prompt returns texts and messages, not {type(value).__name__}")
    return [PromptMessage("user", item) for item in content]


def _from_dict(value: Dict[str, Any]) -> PromptMessage:
    from ..protocol import codec

    content = value["content"]
    if isinstance(content, str):
        return PromptMessage(str(value["role"]), TextContent(text=content))
    if isinstance(content, dict):
        return codec.decode(PromptMessage, value)
    return PromptMessage(str(value["role"]), content)

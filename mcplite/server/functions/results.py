"""Converts a handler's return value to a result: content, structured content, resource contents, messages."""

from __future__ import annotations

import base64
import collections.abc
import copy
from typing import Any, Callable, Dict, List, Optional

from ... import types
from ...errors import ProtocolError
from ...protocol.error_text import quoted
from ...protocol.jsonable import SCALARS, as_text, jsonable, string_of
from ...protocol.jsonrpc import LONG, Encoded, encode_json, encode_string
from ...revisions import Revision
from ...types import NULL, CallToolResult, TextContent
from ...types.content import as_block
from ...types.lazy_dataclass import fields_of
from ...types.media import Audio, Image
from .function import Function
from .signature import Output

#: Takes what a tool returned; see :func:`result_writer`.
Write = Callable[[Any, str], Optional[Encoded]]

_CONTENT = (TextContent, types.ImageContent, types.AudioContent, types.ResourceLink, types.EmbeddedResource,
            types.ToolUseContent, types.ToolResultContent, types.UnknownContent)
_BYTES = (bytes, bytearray, memoryview)
_CONTENTS = (types.TextResourceContents, types.BlobResourceContents)
_MEDIA = (Image, Audio)
#: If an item of a list is of one of these classes, the list is content, and not data.
_PARTS = (*_CONTENT, *_CONTENTS, *_MEDIA, types.Resource, types.PromptMessage, types.SamplingMessage, *_BYTES)
#: If an item of a list is of one of these classes, the list is contents of a resource, and not data.
_RESOURCE_PARTS = (*_CONTENT, *_CONTENTS, *_MEDIA)


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
    output, kind = function.output, type(value)
    if isinstance(value, CallToolResult):
        result = _copied(value)
        if output.schema is not None and not result.is_error:  # TOOL-43
            if result.structured_content is None:
                raise BadOutput("an output schema is declared, but the result has no structured_content")
            _check(result.structured_content, output)
        return result
    if output.schema is not None:
        data = value if kind in SCALARS else jsonable(value)
        structured = {"result": data} if output.wrapped else data
        if kind is not output.exact:
            _check(structured, output)
    elif kind is str:
        return CallToolResult(content=[TextContent(text=value)])
    elif value is None:
        return CallToolResult()
    else:
        content = _as_content(value)
        if content is not None:
            return CallToolResult(content=content)
        data = jsonable(value)
        structured = data if type(data) is dict and not output.off else None
    return CallToolResult(content=[_json_text(data)], structured_content=structured)


def result_writer(output: Output, revision: Revision) -> Write:
    """Return the function that writes the result of a tool as JSON, straight from the plain data that the tool returned.

    It takes the data and the end of the text: the members that all results of an era have, and the brace. It writes what
    :func:`tool_result`, and the codec after it, write for the same value, and raises the same errors. It returns None for a
    value that it leaves to those two: content, a ``CallToolResult``, and rare values.

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

    # For an int, the general writer takes longer than ``repr`` does.
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
    if not isinstance(result.is_error, bool):
        raise TypeError(f"is_error of a CallToolResult is True or False, not {quoted(result.is_error)}")
    if result.meta is not None:
        result.meta = _meta(result.meta, "CallToolResult")
    structured = result.structured_content
    if structured is not None and structured is not NULL:
        result.structured_content = jsonable(structured)
        if not result.content:
            result.content.append(_json_text(result.structured_content))  # TOOL-39, for clients that only read text
    return result


def _meta(meta: Any, owner: str) -> Dict[str, Any]:
    if not isinstance(meta, collections.abc.Mapping):
        raise TypeError(f"meta of a {owner} is a dict, not {quoted(meta)}")
    return jsonable(meta)  # type: ignore[no-any-return]


def content_items(given: Any, data: bool = True) -> List[Any]:
    """Return the content blocks of a list of strings, images, content, JSON objects of content, and data; or of one of those.

    :param data: whether other objects become the text of their JSON; otherwise they are refused.
    :raises TypeError, ValueError: an item cannot be sent.
    """
    if given is None and data:
        return []
    if isinstance(given, collections.abc.Iterator):
        given = list(given)
    flat: List[Any] = []
    for item in given if isinstance(given, (list, tuple)) and not hasattr(given, "_fields") else [given]:
        content = _as_content(item)
        if content is None:
            where = "the content" if data else "a message's content"
            try:
                block = as_block(item)
            except ProtocolError as error:
                raise ValueError(f"{where} is not valid: {error}") from error
            if block is None and isinstance(item, dict) and not data:
                raise ValueError(f"{where} is not valid: {quoted(item)} is of no kind that the protocol has; write"
                                 ' {"type": "text", "text": ...}, or another kind with its members')
            text = None if data else as_text(item)
            if item is None and not data:
                raise TypeError("a message needs content: a text, content, or a list of them, not None")
            content = [block or (_json_text(jsonable(item)) if text is None else TextContent(text=text))]
        for block in content:
            if type(block) is TextContent and type(block.text) is not str:
                content = [_with_text(block) for block in content]
        flat.extend(content)
    return flat


def _with_text(block: Any) -> Any:
    if type(block) is not TextContent or type(block.text) is str:
        return block
    text = as_text(block.text)
    if text is None:
        raise TypeError(f"TextContent takes a text, not {quoted(block.text)}; return data itself, without a block around it")
    block = copy.copy(block)
    block.text = text
    return block


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
    if isinstance(value, _MEDIA):
        return [value.content()]
    if isinstance(value, types.Resource):
        return [types.ResourceLink(**{field.name: getattr(value, field.name) for field in fields_of(types.ResourceLink)})]
    if isinstance(value, _CONTENTS):
        return [types.EmbeddedResource(resource=value)]
    if isinstance(value, _BYTES):
        # An embedded resource is the only block that can hold bytes of an unknown type.
        blob = base64.b64encode(value).decode("ascii")
        return [types.EmbeddedResource(resource=types.BlobResourceContents(uri="data:application/octet-stream", blob=blob,
                                                               mime_type="application/octet-stream"))]
    if isinstance(value, (types.CreateMessageResult, types.SamplingMessage, types.PromptMessage)):
        return content_items(value.content)
    if isinstance(value, types.ReadResourceResult):
        return [types.EmbeddedResource(resource=item) for item in value.contents]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and any(isinstance(item, _PARTS) for item in value):
        return content_items(value)
    return None


def resource_result(value: Any, uri: str, mime_type: Optional[str]) -> types.ReadResourceResult:
    """Return the result of reading a resource, with the contents of :func:`resource_contents`.

    :param value: what the resource's function returned; a whole result is copied.
    :raises TypeError, ValueError: the value cannot be sent.
    """
    if not isinstance(value, types.ReadResourceResult):
        return types.ReadResourceResult(contents=resource_contents(value, uri, mime_type))
    result = copy.copy(value)
    given = value.contents if isinstance(value.contents, (list, tuple)) else [value.contents]
    result.contents = [one for item in given for one in resource_contents(_read(item), uri, mime_type)]
    if result.meta is not None:
        result.meta = _meta(result.meta, "ReadResourceResult")
    return result


def _read(item: Any) -> Any:
    """Return contents for their JSON object, and any other item itself."""
    if not isinstance(item, dict) or not item.keys() & {"text", "blob"}:
        return item
    from ...types import codec

    try:
        return codec.decode_own(types.ReadResourceResult, {"contents": [item]}).contents[0]
    except ProtocolError as error:
        raise ValueError(f"the contents of the resource are not valid: {error}") from error


def resource_contents(value: Any, uri: str, mime_type: Optional[str]) -> List[Any]:
    """Return the contents of a resource.

    A string becomes text, bytes become base64, data becomes JSON. Contents objects are passed on, and content becomes
    contents, also in a list. None becomes an empty list.

    :param value: what the resource's function returned.
    :raises TypeError, ValueError: the value cannot be sent.
    """
    if value is None:
        return []
    if isinstance(value, _CONTENTS):
        return [value]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and \
            any(isinstance(item, _RESOURCE_PARTS) for item in value):
        return [one for item in value for one in resource_contents(item, uri, mime_type)]
    if isinstance(value, types.EmbeddedResource):
        return resource_contents(value.resource, uri, mime_type)
    if isinstance(value, TextContent):
        value = _with_text(value).text
    text = value if type(value) is str else string_of(value)
    if text is not None:
        return [types.TextResourceContents(uri=uri, text=text, mime_type=mime_type or "text/plain")]
    if isinstance(value, _MEDIA):
        value = value.content()
    if isinstance(value, (types.ImageContent, types.AudioContent)):
        return [types.BlobResourceContents(uri=uri, blob=value.data, mime_type=mime_type or value.mime_type)]
    if isinstance(value, _BYTES):
        return [types.BlobResourceContents(uri=uri, blob=base64.b64encode(value).decode("ascii"),
                                     mime_type=mime_type or "application/octet-stream")]
    return [types.TextResourceContents(uri=uri, text=encode_json(jsonable(value)), mime_type=mime_type or "application/json")]


def prompt_messages(value: Any) -> List[types.PromptMessage]:
    """Return the messages of a prompt.

    A message may also be written as ``{"role": ..., "content": ...}``, and content as its JSON object. Strings and content
    without a role get the role "user". A message with a list of content becomes one message for each item.

    :param value: what the prompt returned: a string, a message, content, or a list of those.
    :raises TypeError, ValueError: the value has another type, or cannot be sent.
    """
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, (types.PromptMessage, types.SamplingMessage)):
        return _messages(value.role, value.content)
    if isinstance(value, dict):
        if value.keys() == {"role", "content"}:
            return _messages(value["role"], value["content"])
        if "type" in value:
            return _messages("user", value)
        raise TypeError(f"a prompt returns strings, messages and content, not dict; a message has the members role and"
                        f" content alone, and this has {', '.join(map(quoted, value)) or 'none'}")
    text = as_text(value)
    if text is not None or isinstance(value, _PARTS):
        return _messages("user", value if text is None else text)
    raise TypeError(f"a prompt returns strings, messages and content, not {type(value).__name__}")


def _messages(role: Any, content: Any) -> List[types.PromptMessage]:
    if role not in ("user", "assistant"):
        raise ValueError(f"a message's role is 'user' or 'assistant', not {quoted(role)}")
    return [types.PromptMessage(role, item) for item in content_items(content, data=False)]


def completion_of(value: Any) -> types.Completion:
    """Return the completion that a completer returned: a list of texts, one text, or a whole result.

    :raises TypeError: the value is of another type.
    """
    if isinstance(value, types.CompleteResult):
        value = value.completion
    if isinstance(value, collections.abc.Mapping):
        wire = value.get("completion", value)
        if not isinstance(wire, collections.abc.Mapping) or "values" not in wire:
            raise TypeError(f"a completer returns a list of texts, not the dict {quoted(value)}; return list(...) of its keys")
        value = types.Completion(values=wire["values"], total=wire.get("total"), has_more=wire.get("hasMore"))
    if not isinstance(value, types.Completion):
        value = types.Completion(values=value)
    if value.total is not None and (not isinstance(value.total, int) or isinstance(value.total, bool)):
        raise TypeError(f"total of a Completion is a whole number, not {quoted(value.total)}")
    return types.Completion(_choices(value.values), value.total, None if value.has_more is None else bool(value.has_more))


def _choices(given: Any) -> List[str]:
    if given is None:
        return []
    text = as_text(given)
    if text is not None:
        return [text]
    if isinstance(given, (collections.abc.Mapping, *_BYTES, types.PromptMessage, *_CONTENT)) or \
            not isinstance(given, collections.abc.Iterable):
        raise TypeError(f"a completer returns a list of texts, not {quoted(given)}")
    return [_choice(item) for item in given]


def _choice(item: Any) -> str:
    text = as_text(item)
    if text is None and not isinstance(item, _BYTES):
        data = jsonable(item)
        text = data if isinstance(data, str) else encode_json(data) if type(data) in (int, float, bool) else None
    if text is None:
        raise TypeError(f"a completer returns a list of texts, and {quoted(item)} is none")
    return text

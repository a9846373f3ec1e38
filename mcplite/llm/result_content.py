"""The content of a tool's result as parts that an API can be given: text, images, audio, files.

Each API takes some of them in a tool's result; other parts are named in words, so that a model knows what it does not see.
"""

import base64
import json
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type
from urllib.parse import unquote

from ..protocol.error_text import well_formed
from ..types import (
    NULL,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

__all__ = ["FAILED", "Part", "file_name", "never", "parts_of", "split", "text_of"]

#: The text of a failed result that has none: APIs refuse an error without a text.
FAILED = "The tool failed without a message."
#: The types of pictures and documents by their first bytes. An API refuses a picture or document that is declared as another
#: type, and every later request that has it.
_SIGNATURES = (
    ("image/png", rb"\x89PNG"), ("image/jpeg", rb"\xff\xd8\xff"), ("image/gif", rb"GIF8[79]a"),
    ("image/webp", rb"RIFF....WEBP"), ("image/heic", rb"....ftyp(?:hei|hev)[cxms]"), ("image/heif", rb"....ftypm[is]f1"),
    ("application/pdf", rb"(?:\xef\xbb\xbf)?\s*%PDF"))
_RECOGNIZED = {mime_type for mime_type, _ in _SIGNATURES}
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "image/x-webp": "image/webp",
            "application/x-pdf": "application/pdf"}
_CHARACTERS = re.compile("[A-Za-z0-9+/]*")
#: Translates the alphabet of base64 for URLs into the standard one.
_STANDARD = str.maketrans("-_", "+/")
#: Characters of base64 in which the signatures are searched.
_BEGIN = 64


class Part(NamedTuple):
    """One part of a result."""

    #: "text", "image", "audio" or "file".
    kind: str
    text: str = ""
    #: Base64 without line breaks.
    data: str = ""
    mime_type: str = ""
    name: str = ""

    @property
    def data_url(self) -> str:
        """The part as a ``data:`` URL."""
        return f"data:{self.mime_type};base64,{self.data}"

    def replaced(self, follows: bool) -> "Part":
        """Return the text that stands for a part which the API does not take here, but perhaps after the results."""
        size = len(self.data) * 3 // 4 - self.data.count("=", -2)
        named = f" {self.name}" if self.name else ""
        reason = "follows after the results" if follows else "is left out: this API takes no such content here"
        return Part("text", f"[{self.kind}{named} ({self.mime_type}, {size} bytes) {reason}]")


def parts_of(result: CallToolResult) -> List[Part]:
    """Return the parts of a result, without empty texts; structured content is added if no text repeats it."""
    parts = [part for item in result.content for part in _CONVERTERS.get(type(item), _unknown)(item)]
    structured = result.structured_content
    if structured is not None and not _said(structured, [part.text for part in parts if part.kind == "text"]):
        parts.append(Part("text", json.dumps(None if structured is NULL else structured, ensure_ascii=False)))
    # Anthropic's API refuses texts of white space, and every API refuses texts that are not UTF-8.
    return [part._replace(text=well_formed(part.text), name=well_formed(part.name)) for part in parts
            if part.kind != "text" or part.text.strip()]


def never(part: Part) -> bool:
    """Return False for each part: the API takes none of them."""
    return False


def split(parts: List[Part], taken: Callable[[Part], bool], follows: Callable[[Part], bool] = never
          ) -> Tuple[List[Part], List[Part]]:
    """Return the parts, with a text in place of each that is not *taken*, and the replaced parts that *follows* accepts."""
    rest = [part for part in parts if part.kind != "text" and not taken(part)]
    kept = [part.replaced(follows(part)) if part in rest else part for part in parts]
    return kept, [part for part in rest if follows(part)]


def text_of(parts: List[Part], is_error: bool) -> str:
    """Return all texts as one, for an API whose results have no flag for errors."""
    text = "\n".join(part.text for part in parts if part.kind == "text")
    return "Error: " + (text or FAILED) if is_error else text


def file_name(part: Part) -> str:
    """Return the name of a file for an API that wants one."""
    last = part.name.partition("?")[0].rpartition("/")[2]
    return last or "file"


def _said(structured: Any, texts: List[str]) -> bool:
    # A server should repeat structured content as JSON text, and many wrap what is no object in "result". Some write one
    # text for each item of a list, and a string as it is.
    values = [structured]
    if isinstance(structured, dict) and list(structured) == ["result"]:
        values.append(structured["result"])
    read = [_json_or_text(text) for text in texts]
    said = [*texts, *read, *([texts, read] if texts else [])]
    return any(value == found for value in values for found in said)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(item: TextContent) -> List[Part]:
    return [Part("text", item.text)]


def _image(item: ImageContent) -> List[Part]:
    return [_media("image", item.data, item.mime_type)]


def _audio(item: AudioContent) -> List[Part]:
    return [_media("audio", item.data, item.mime_type)]


def _resource(item: EmbeddedResource) -> List[Part]:
    contents = item.resource
    mime_type = contents.mime_type or ""
    if isinstance(contents, BlobResourceContents):
        family = mime_type.partition("/")[0]
        text = _decoded(contents) if family == "text" or mime_type == "application/json" else None
        if text is not None:
            return [_labelled(contents.uri, mime_type, text)]
        kind = family if family in ("image", "audio") else "file"
        return [_media(kind, contents.blob, mime_type or "application/octet-stream", contents.uri)]
    return [_labelled(contents.uri, mime_type, contents.text)]


def _decoded(contents: BlobResourceContents) -> Optional[str]:
    try:
        return base64.b64decode(_base64(contents.blob) or "?").decode("utf-8")
    except ValueError:
        return None  # not base64, empty, or another encoding: a file like any other


def _labelled(uri: str, mime_type: str, text: str) -> Part:
    return Part("text", f"Resource {uri}{f' ({mime_type})' if mime_type else ''}:\n{text}")


def _link(item: ResourceLink) -> List[Part]:
    title = item.title or item.name
    size = "" if item.size is None else f"{item.size} bytes"
    details = ", ".join(detail for detail in (item.mime_type, size) if detail)
    description = f": {item.description}" if item.description else ""
    return [Part("text", f"Link to the resource {title}, {item.uri}{f' ({details})' if details else ''}{description}")]


def _unknown(item: Any) -> List[Part]:
    return [Part("text", f"[content of the type {item.wire_type!r} is left out]")]


def _media(kind: str, data: str, mime_type: str, name: str = "") -> Part:
    said = well_formed(mime_type).partition(";")[0].strip().lower()
    said = _ALIASES.get(said, said)
    encoded = _base64(data)
    found = None
    if not encoded:
        fault = "its data is not base64" if encoded is None else "it is empty"
    elif kind == "audio":
        return Part(kind, "", encoded, said, name)
    else:
        begin = base64.b64decode(encoded[:_BEGIN])
        found = next((one for one, signature in _SIGNATURES if re.match(signature, begin, re.DOTALL)), None)
        fault = "" if found or said not in _RECOGNIZED else "its data is of another type"
    if fault:
        return Part("text", f"[{kind}{f' {name}' if name else ''} ({mime_type}) is left out: {fault}]")
    if found:
        kind = "image" if found.startswith("image/") else "file"
    return Part(kind, "", encoded or "", found or said, name)


def _base64(data: str) -> Optional[str]:
    """Return data as APIs take it: without line breaks, in the standard alphabet, padded; None if it is not base64."""
    if data[:5].lower() == "data:":
        head, _, data = data.partition(",")
        if not head.lower().endswith(";base64"):
            return None
        data = unquote(data)
    data = "".join(data.split()).translate(_STANDARD).rstrip("=")
    if len(data) % 4 == 1 or not _CHARACTERS.fullmatch(data):
        return None
    return data + "=" * (-len(data) % 4)


_CONVERTERS: Dict[Type[Any], Callable[[Any], List[Part]]] = {
    TextContent: _text, ImageContent: _image, AudioContent: _audio, EmbeddedResource: _resource, ResourceLink: _link}

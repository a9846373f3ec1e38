"""Content: text, images, audio, resources and links to them, tool uses and their results; and the result of a tool.

The value that a tool returned is taken from its result: from the structured content, or from the text if there is none. Servers
send a value that is no object in three ways: as ``{"result": value}``, as the value itself (from July 2026 on), and as text
alone (before June 2025). Python servers made with other packages wrap a value as this package does, so a program need not know
the server.

A server is not trusted with the page of a notebook that shows content: its text is never Markdown or HTML there, its images
have a type that cannot carry scripts, and what is written as HTML here is escaped.
"""

import json
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Sequence, Type, Union

from ..errors import ToolError
from ..revisions import JULY_2026, JUNE_2025, NOVEMBER_2025, Revision
from .codec import Icon, Model, decoder, missing, wrong
from .lazy_dataclass import NULL, record, wire

#: The types of images that a notebook shows as they are; the others can carry scripts or are not shown by browsers.
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm", "audio/flac")


class Displayed:
    """The base of classes that a notebook shows as what they hold: text, images, sounds, JSON."""

    def _bundle(self) -> Dict[str, Any]:
        return bundle_of([self])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        # IPython itself leaves out the types that these arguments exclude.
        return self._bundle()


def bundle_of(blocks: Sequence[Any], data: Any = None, error: bool = False) -> Dict[str, Any]:
    """Return content by media type, as ``_repr_mimebundle_`` of IPython and Jupyter does.

    :param blocks: content, or the contents of resources.
    :param data: the value that the blocks stand for; an object or a list is shown as JSON too.
    :param error: whether the content says why a tool failed.
    """
    plain = "\n".join(map(plain_text, blocks)) if blocks or data is None else json.dumps(data, indent=2, ensure_ascii=False)
    bundle: Dict[str, Any] = {"text/plain": f"the tool failed: {plain}" if error else plain}
    media = [_media(item) for item in blocks]
    if len(media) == 1 and media[0] is not None and media[0][0] in _IMAGES:
        bundle[media[0][0]] = media[0][1]
    elif any(media):
        bundle["text/html"] = "\n".join(map(_html, blocks))
    elif isinstance(data, (dict, list)) and not error:
        bundle["application/json"] = data
    return bundle


def _inner(item: Any) -> Any:
    """Return the contents of an embedded resource, and any other content itself."""
    return getattr(item, "resource", item)


def plain_text(item: Any) -> str:
    """Return the text of a block, or the repr of one that has none."""
    text = getattr(_inner(item), "text", None)
    return text if isinstance(text, str) else repr(item)


def _media(item: Any) -> "Optional[tuple[str, str]]":
    """Return the media type and the base64 of an image or a sound that a notebook can show."""
    item = _inner(item)
    data = getattr(item, "data", None) or getattr(item, "blob", None)
    kind = str(getattr(item, "mime_type", None)).lower()
    if not isinstance(data, str) or kind not in (*_IMAGES, *_SOUNDS):
        return None
    try:
        item.bytes  # noqa: B018
    except ValueError:
        return None  # not base64, so nothing that could be shown
    return kind, "".join(data.split())


def _html(item: Any) -> str:
    from html import escape  # for the few that have images beside text

    media = _media(item)
    if media is None:
        return f'<pre style="white-space: pre-wrap">{escape(plain_text(item))}</pre>'
    kind, data = media
    if kind in _IMAGES:
        return f'<img src="data:{kind};base64,{data}">'
    return f'<audio controls src="data:{kind};base64,{data}"></audio>'


def _read_content(wire: Any, read: Callable[[Any], Callable[[Any], Any]] = decoder) -> Any:
    """Read content of any kind; an unknown one becomes :class:`UnknownContent` (TOOL-24).

    :param read: returns the function that reads one class.
    """
    if type(wire) is not dict:
        raise wrong("content", "an object", wire)
    kind = wire.get("type")
    if type(kind) is not str:
        raise wrong("content.type", "a string", kind)
    cls = _KINDS.get(kind)
    return UnknownContent(wire) if cls is None else read(cls)(wire)


def _read_contents(wire: Any, read: Callable[[Any], Callable[[Any], Any]] = decoder) -> Any:
    if type(wire) is not dict:
        raise wrong("resource contents", "an object", wire)
    if wire.get("text") is not None:
        return read(TextResourceContents)(wire)
    if wire.get("blob") is not None:
        return read(BlobResourceContents)(wire)
    raise missing("resource contents", "'text' or 'blob'", wire)


class Binary(Displayed):
    """The base of content with data as base64."""

    #: The attribute with the data, and the advice in the error for raw bytes.
    _held_in: ClassVar[str] = "data"
    _remedy: ClassVar[str]

    def __post_init__(self) -> None:
        data = getattr(self, self._held_in)
        if isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"{type(self).__name__} takes base64 as text, not {type(data).__name__}: {self._remedy}; for base64"
                            " in bytes, call decode('ascii')")

    @property
    def bytes(self) -> bytes:
        """The decoded data.

        :raises ValueError: it is not base64.
        """
        import base64  # with the first image or sound

        # Line breaks are common and harmless. Without ``validate``, any other character that is not base64 would be dropped,
        # and the data would be wrong.
        return base64.b64decode("".join(getattr(self, self._held_in).split()), validate=True)


@record
class Annotations(Model):
    """Hints about content: for whom (``"user"``, ``"assistant"``), how important (0 to 1), how old."""

    audience: Optional[List[str]] = None
    priority: Optional[float] = None
    #: ISO 8601.
    last_modified: Optional[str] = wire(since=JUNE_2025)


@record
class TextResourceContents(Displayed, Model):
    """A resource's contents, as text."""

    _read_any = staticmethod(_read_contents)

    uri: str
    text: str
    mime_type: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class BlobResourceContents(Binary, Model):
    """A resource's contents, as base64."""

    _held_in, _remedy = "blob", "return the bytes themselves from a resource"
    uri: str
    blob: str
    mime_type: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")


ResourceContents = Union[TextResourceContents, BlobResourceContents]


@record
class TextContent(Displayed, Model):
    """Text."""

    _read_any = staticmethod(_read_content)
    wire_type = "text"
    text: str
    annotations: Optional[Annotations] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@record
class ImageContent(Binary, Model):
    """An image, as base64."""

    _remedy = "for raw bytes use mcplite.Image(data)"
    wire_type = "image"
    data: str
    mime_type: str
    annotations: Optional[Annotations] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@record
class AudioContent(Binary, Model):
    """Sound, as base64 (from March 2025 on)."""

    _remedy = "for raw bytes use mcplite.Audio(data)"
    wire_type = "audio"
    data: str
    mime_type: str
    annotations: Optional[Annotations] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@record
class ResourceLink(Model):
    """A link to a resource, which need not be listed (from June 2025 on)."""

    wire_type = "resource_link"
    uri: str
    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    mime_type: Optional[str] = None
    size: Optional[int] = None
    annotations: Optional[Annotations] = None
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class EmbeddedResource(Displayed, Model):
    """A resource's contents within other content."""

    wire_type = "resource"
    resource: ResourceContents
    annotations: Optional[Annotations] = None
    meta: Optional[Dict[str, Any]] = wire("_meta", since=JUNE_2025)


@record
class ToolUseContent(Model):
    """A model's request to use a tool, in sampling (from November 2025 on)."""

    wire_type = "tool_use"
    id: str
    name: str
    input: Dict[str, Any]
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class ToolResultContent(Model):
    """The result of a :class:`ToolUseContent`, in sampling (from November 2025 on)."""

    wire_type = "tool_result"
    tool_use_id: str
    content: "List[Content]" = wire(factory=list)
    #: As in a tool's result; null is :data:`NULL`.
    structured_content: Any = None
    is_error: Optional[bool] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")


@record
class UnknownContent(Model):
    """Content of an unknown kind, kept unchanged (TOOL-24)."""

    _kept_in = "raw"
    _read_any = staticmethod(_read_content)
    raw: Dict[str, Any]

    @property
    def wire_type(self) -> str:
        """The kind, as the peer names it."""
        return str(self.raw.get("type"))


Content = Union[TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent,
                ToolResultContent, UnknownContent]
_KINDS: Dict[str, Type[Model]] = {
    cls.wire_type: cls
    for cls in (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, ToolUseContent,
                ToolResultContent)
}


def as_block(value: Any) -> Any:
    """Return the content block that *value* is or stands for: a text, an Image or Audio, or the JSON object of a block.

    :returns: None if it stands for none, such as an object whose ``type`` is of no kind of content.
    :raises ProtocolError: it is the JSON object of a kind of content, and not valid.
    """
    if isinstance(value, Model):
        return value if isinstance(value, _BLOCKS) else None
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, dict):
        kind = value.get("type")
        cls = _KINDS.get(kind) if isinstance(kind, str) else None
        return None if cls is None else decoder(cls)(value)
    make = getattr(type(value), "content", None)
    made = make(value) if callable(make) else None
    return made if isinstance(made, _BLOCKS) else None


_BLOCKS = (*_KINDS.values(), UnknownContent)


def downgrade(content: List[Content], revision: Revision) -> List[Content]:
    """Return *content* with text in place of the kinds that the revision lacks (TOOL-23).

    For the content of tools and prompts. The list is never changed; it is returned itself if nothing is replaced.
    """
    kinds = revision.content_kinds
    if all(item.wire_type in kinds for item in content):
        return content
    return [item if item.wire_type in kinds else TextContent(text=_as_text(item)) for item in content]


def _as_text(item: Any) -> str:
    if isinstance(item, AudioContent):
        size = len(item.data) * 3 // 4 - item.data[-2:].count("=")
        return f"[audio, {item.mime_type}, {size} bytes: this client cannot receive audio]"
    if isinstance(item, ResourceLink):
        about = f": {item.description}" if item.description else ""
        return f"[resource {item.title or item.name}: {item.uri}{about}]"
    return f"[content of the kind {item.wire_type!r}, which this client cannot receive]"


# --- the result of a tool -----------------------------------------------------------------------------


def value_of(structured: Any, content: Sequence[Any], meta: Optional[Mapping[str, Any]], texts_are_json: bool) -> Any:
    """Return the value that a result without an error stands for.

    :param structured: the structured content; None for none.
    :param content: the blocks beside it.
    :param meta: the ``_meta`` of the result.
    :param texts_are_json: whether the revision has no structured content, so that data comes as JSON in texts.
    :returns: the structured content, or the value in it if it wraps one. Without structured content: the text of the only
        block, a list of the texts of several blocks, or None for no block. A block that is no text stands for itself.
    """
    if structured is not None:
        return structured["result"] if _wraps(structured, content, meta) else structured
    values = [getattr(item, "text", item) for item in content]
    if texts_are_json:
        values = [_parsed(value) if isinstance(value, str) else value for value in values]
    if len(values) == 1:
        return values[0]
    return values or None


def _wraps(structured: Any, content: Sequence[Any], meta: Optional[Mapping[str, Any]]) -> bool:
    """Return whether structured content is ``{"result": value}`` for a value, and not an object of the tool's own.

    FastMCP says so in ``_meta``. For all other servers the text decides: it is the text of the value, or that of the whole
    object.
    """
    if type(structured) is not dict or len(structured) != 1 or "result" not in structured:
        return False
    mark = (meta or {}).get("fastmcp")
    if isinstance(mark, dict) and mark.get("wrap_result") is True:
        return True
    value = structured["result"]
    texts = [getattr(item, "text", None) for item in content]
    if not texts:
        return value is None or value == []
    if len(texts) == 1 and _says(texts[0], value):
        return True
    # The official SDKs write one block for each item of a list.
    items = _flat(value) if isinstance(value, list) else []
    return len(items) == len(texts) and all(map(_says, texts, items))


def _says(text: Optional[str], value: Any) -> bool:
    """Return whether a text is that of a value: the string itself, or its JSON."""
    return text is not None and (text == value or _parsed(text) == value)


def _flat(items: List[Any]) -> List[Any]:
    flat: List[Any] = []
    waiting = items[::-1]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            flat.append(item)
    return flat


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, and any other text itself."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


@record
class CallToolResult(Displayed, Model):
    """The result of a tool: content for people and models, and structured content for programs."""

    content: "List[Content]" = wire(factory=list)
    #: An object; from July 2026 on any JSON value, null being :data:`NULL`. None when there is none.
    structured_content: Any = wire(since=JUNE_2025)
    is_error: bool = False
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)

    @property
    def data(self) -> Any:
        """The value that the tool returned, whatever the revision and the way in which it travelled.

        It is the structured content, without the ``{"result": ...}`` around a value that is not an object. Without
        structured content it is the text, a list of the texts of several blocks, or None; a block that is not text, such
        as an image, stands for itself. Before June 2025 there is no structured content at all, and a text that is JSON is
        parsed; so the text ``"3"`` of a tool that returns text is the number 3 there.

        :raises ToolError: the tool failed.
        """
        self.raise_for_error()
        if self.structured_content is NULL:
            return None
        return value_of(self.structured_content, self.content, self.meta, "_texts_are_json" in self.__dict__)

    def take_texts_as_json(self) -> None:
        """Note that the result came in a revision without structured content, for :attr:`data`."""
        self.__dict__["_texts_are_json"] = True

    def _bundle(self) -> Dict[str, Any]:
        return bundle_of(self.content, self.data if not self.is_error and self.structured_content else None, self.is_error)

    @property
    def text(self) -> str:
        """All text blocks, joined by line ends."""
        return "\n".join(item.text for item in self.content if isinstance(item, TextContent))

    def raise_for_error(self) -> "CallToolResult":
        """Return the result itself if the tool succeeded.

        :raises ToolError: it failed. The error has all text of the result as its message and the other blocks as its content,
            so that a tool which lets the error pass answers with this text and content again.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed without a message",
                            [item for item in self.content if not isinstance(item, TextContent)])
        return self


def read_tool_result(wire: Any) -> CallToolResult:
    """Return the result of a tool that *wire* describes, just as ``decode(CallToolResult, wire)`` does.

    A result with one block of plain text, as of most calls, is read here, with a third of the codec's steps. Those were a
    seventh of all that a client does for a call over stdio. All other results go to the codec.

    :raises ProtocolError: as for :func:`~.codec.decode`.
    """
    if type(wire) is dict:
        others = wire.copy()
        take = others.pop
        content, is_error = take("content", None), take("isError", False)
        meta, result_type = take("_meta", None), take("resultType", None)
        if (type(content) is list and len(content) == 1 and type(is_error) is bool and (meta is None or type(meta) is dict)
                and (result_type is None or type(result_type) is str)):
            block = content[0]
            if type(block) is dict and len(block) == 2 and block.get("type") == "text":
                text = block.get("text")
                if type(text) is str:
                    item: TextContent = object.__new__(TextContent)
                    item.text, item.annotations, item.meta = text, None, None
                    result: CallToolResult = object.__new__(CallToolResult)
                    result.content, result.is_error, result.meta, result.result_type = [item], is_error, meta, result_type
                    result.structured_content = take("structuredContent", None)
                    if others:
                        result.__dict__["_extra"] = others
                    return result
    return decoder(CallToolResult)(wire)  # type: ignore[no-any-return]

"""Content: text, images, audio, resources and links to them, tool uses and their results; annotations, icons."""

from typing import Any, Callable, ClassVar, Dict, List, Optional, Type, Union

from ..revisions import JUNE_2025, NOVEMBER_2025, Revision
from .base import Displayed, Model
from .codec import decoder, missing, wrong
from .lazy_dataclass import record, wire

__all__ = [
    "Annotations", "AudioContent", "BlobResourceContents", "Content", "EmbeddedResource", "Icon", "ImageContent",
    "ResourceContents", "ResourceLink", "TextContent", "TextResourceContents", "ToolResultContent",
    "ToolUseContent", "UnknownContent",
]


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
    """The base of what has data as base64."""

    #: The attribute with the data, and what to do with raw bytes instead.
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

        # Line breaks are common and harmless; anything else that is not base64 is dropped by the plain
        # call, and the data is another one then.
        return base64.b64decode("".join(getattr(self, self._held_in).split()), validate=True)


@record
class Annotations(Model):
    """Hints about content: for whom (``"user"``, ``"assistant"``), how important (0 to 1), how old."""

    audience: Optional[List[str]] = None
    priority: Optional[float] = None
    #: ISO 8601.
    last_modified: Optional[str] = wire(since=JUNE_2025)


@record
class Icon(Model):
    """An icon; ``src`` is an https or data URI, which this library never fetches (ICON-05)."""

    src: str
    mime_type: Optional[str] = None
    sizes: Optional[List[str]] = None
    theme: Optional[str] = None

    @property
    def is_safe(self) -> bool:
        """Whether a program may show it: an https or data URI, and no SVG, which may run scripts (ICON-05)."""
        src = self.src.lower()
        kinds = (self.mime_type or "").lower(), src[5:].partition(",")[0] if src.startswith("data:") else ""
        path = src.partition("#")[0].partition("?")[0]
        if any(kind.strip().startswith("image/svg") for kind in kinds) or path.endswith((".svg", ".svgz")):
            return False
        return src.startswith(("https://", "data:"))


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

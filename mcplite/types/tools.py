"""Tools, their hints and their results.

The value that a tool returned, taken from a result: from its structured content, else from its text.

Servers send a value that is no object in three ways: as ``{"result": value}``, as the value itself (from July 2026 on), and
as text alone (before June 2025). Python servers of others wrap as this package does, so a program need not know the server.
"""

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import ToolError
from ..revisions import JULY_2026, JUNE_2025, MARCH_2025, NOVEMBER_2025
from .base import Displayed, Model, bundle_of
from .content import Content, Icon, TextContent
from .lazy_dataclass import NULL, record, wire

__all__ = ["CallToolResult", "ListToolsResult", "Tool", "ToolAnnotations"]


def value_of(structured: Any, content: Sequence[Any], meta: Optional[Mapping[str, Any]], texts_are_json: bool) -> Any:
    """Return the value that a result without an error stands for.

    :param structured: the structured content; None for none.
    :param content: the blocks beside it.
    :param meta: the ``_meta`` of the result.
    :param texts_are_json: whether the revision has no structured content, so that texts are all that data travels in.
    :returns: the structured content, or the value in it if it wraps one; else the text of the only block, a list of the
        texts of several, and None for no block. A block that is no text stands for itself.
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

    FastMCP says so. Of all others the text decides, which is that of the value, or else that of the object.
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


#: Parameters that the repr of a tool names.
_SHOWN = 10


@record
class ToolAnnotations(Model):
    """A server's hints about a tool; those of an untrusted server prove nothing (TOOL-19)."""

    title: Optional[str] = None
    read_only_hint: Optional[bool] = None
    destructive_hint: Optional[bool] = None
    idempotent_hint: Optional[bool] = None
    open_world_hint: Optional[bool] = None

    @property
    def is_read_only(self) -> bool:
        """The hint, or its default: false (TOOL-18)."""
        return bool(self.read_only_hint)

    @property
    def is_destructive(self) -> bool:
        """The hint, or its default: true."""
        return self.destructive_hint is not False

    @property
    def is_idempotent(self) -> bool:
        """The hint, or its default: false."""
        return bool(self.idempotent_hint)

    @property
    def is_open_world(self) -> bool:
        """The hint, or its default: true."""
        return self.open_world_hint is not False


@record
class Tool(Model):
    """A tool's definition."""

    name: str
    input_schema: Dict[str, Any]
    description: Optional[str] = None
    title: Optional[str] = wire(since=JUNE_2025)
    annotations: Optional[ToolAnnotations] = wire(since=MARCH_2025)
    output_schema: Optional[Dict[str, Any]] = wire(since=JUNE_2025)
    icons: Optional[List[Icon]] = wire(since=NOVEMBER_2025)
    #: Whether it may be called as a task: ``{"taskSupport": "forbidden" | "optional" | "required"}``.
    execution: Optional[Dict[str, Any]] = wire(since=NOVEMBER_2025, until=NOVEMBER_2025)
    meta: Optional[Dict[str, Any]] = wire("_meta")

    def __repr__(self) -> str:
        schema = self.input_schema if isinstance(self.input_schema, dict) else {}
        properties, required = schema.get("properties"), schema.get("required")
        needed = required if isinstance(required, list) else ()
        names = [name if name in needed else f"{name}=..." for name in properties] if isinstance(properties, dict) else []
        text = repr(f"{self.name}({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})")
        return f"<Tool {text[1:-1]}>"

    @property
    def display_name(self) -> str:
        """The name to display: the title, the annotations' title, or the name (TOOL-17)."""
        return self.title or (self.annotations.title if self.annotations else None) or self.name

    @property
    def task_support(self) -> str:
        """Whether it may be called as a task, in November 2025: "forbidden", "optional" or "required" (TSK-06)."""
        support = (self.execution or {}).get("taskSupport")
        return support if support in ("optional", "required") else "forbidden"


@record
class ListToolsResult(Model):
    """One page of tools."""

    tools: List[Tool]
    next_cursor: Optional[str] = None
    meta: Optional[Dict[str, Any]] = wire("_meta")
    result_type: Optional[str] = wire(since=JULY_2026)
    ttl_ms: Optional[int] = wire(since=JULY_2026)
    cache_scope: Optional[str] = wire(since=JULY_2026)


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

        :raises ToolError: it failed; with all its text as the message and what is not text as the content,
            so that a tool which lets it pass answers with the same once more.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed without a message",
                            [item for item in self.content if not isinstance(item, TextContent)])
        return self

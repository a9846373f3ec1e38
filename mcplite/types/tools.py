"""Tools and their hints; the results of tools are content, and stand beside it."""

from typing import Any, Dict, List, Optional

from ..revisions import JULY_2026, JUNE_2025, MARCH_2025, NOVEMBER_2025
from .codec import Icon, Model, Titled
from .lazy_dataclass import record, wire

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
class Tool(Titled, Model):
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

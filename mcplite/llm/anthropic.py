"""Anthropic's Messages API: tools, ``tool_use`` blocks and their results, and tools for the SDK's tool runner."""

from typing import Any, Callable, Dict, List, Tuple

from .result_content import FAILED, Part, split
from .toolset import CallOptions, Entry, Kit, Outcome, ToolUse, field

__all__ = ["AnthropicKit", "blocks_of"]

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class AnthropicKit(Kit):
    """The tools of a client for Anthropic's Messages API; :func:`mcplite.llm.anthropic_tools` makes one."""

    def runnable_tools(self) -> List[Any]:
        """Return the tools as objects that run themselves, for ``client.beta.messages.tool_runner(tools=...)``.

        They need no event loop: the runner calls them on its own thread.

        :raises ImportError: ``anthropic`` is not installed, or is too old to have a tool runner.
        """
        from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

        kit = self

        class Runnable(BetaBuiltinFunctionTool):  # type: ignore[misc]
            """One tool, as the runner wants it."""

            def __init__(self, entry: Entry) -> None:
                self._entry = entry

            def to_dict(self) -> Any:
                return kit._declare(self._entry)

            def call(self, input: object) -> Any:
                outcome = kit._run(ToolUse(None, self._entry.name, input), CallOptions())
                blocks = blocks_of(outcome)
                if outcome.is_error:
                    raise ToolError(blocks)
                return blocks

        return [Runnable(entry) for entry in self._list()]

    def _declare(self, entry: Entry) -> Dict[str, Any]:
        return {"name": entry.name, "description": entry.description,
                "input_schema": entry.schema}

    def _uses(self, reply: Any) -> List[Any]:
        blocks = reply if isinstance(reply, list) else field(reply, "content")
        if not isinstance(blocks, list):
            if isinstance(blocks, str):
                return []
            raise TypeError(f"a message of Anthropic's API, or its content, was expected, not {type(reply).__name__}")
        return [block for block in blocks if field(block, "type") == "tool_use"]

    def _read(self, tool_use: Any) -> ToolUse:
        if field(tool_use, "type") != "tool_use":
            raise TypeError(f"a block of the type 'tool_use' was expected, not {field(tool_use, 'type')!r}")
        return ToolUse(field(tool_use, "id"), field(tool_use, "name"), field(tool_use, "input"))

    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        answer = {"type": "tool_result", "tool_use_id": use.id, "content": blocks_of(outcome)}
        return {**answer, "is_error": True} if outcome.is_error else answer, []

    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        return [{"role": "user", "content": answers}]


def blocks_of(outcome: Outcome) -> List[Dict[str, Any]]:
    """Return the blocks of a call's result, or of a message of the user."""
    # The API refuses errors with anything but text.
    parts, _ = split(outcome.parts, lambda part: not outcome.is_error and _is_taken(part))
    blocks = [_block(part) for part in parts]
    return blocks or ([{"type": "text", "text": FAILED}] if outcome.is_error else [])


def _is_taken(part: Part) -> bool:
    return part.mime_type in _IMAGES if part.kind == "image" else part.mime_type == "application/pdf"


def _block(part: Part) -> Dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    return {"type": "image" if part.kind == "image" else "document", "source": source}

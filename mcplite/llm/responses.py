"""OpenAI's Responses API: tools, ``function_call`` items and their outputs, and functions for the SDK's tool runner."""

from typing import Any, Callable, Dict, List, Tuple

from .kit import field
from .openai import IMAGES, StrictKit
from .result_content import Part, file_name, split, text_of
from .toolset import CallOptions, Entry, Outcome, ToolUse

__all__ = ["ResponsesKit"]


class ResponsesKit(StrictKit):
    """The tools of a client for the Responses API; :func:`mcplite.llm.openai_responses_tools` makes one."""

    def runnable_tools(self) -> List[Any]:
        """Return the tools as ``RegisteredFunction`` objects, for the SDK's ``ResponsesToolRunner(functions=...)``.

        :raises ImportError: ``openai`` is not installed, or is too old to have a tool runner.
        """
        from openai.lib.responses_tool_runner import RegisteredFunction

        return [RegisteredFunction(self._declare(entry), self._runner(entry)) for entry in self._list()]

    def _runner(self, entry: Entry) -> Any:
        def execute(arguments: Dict[str, object]) -> Any:
            return _output(self._run(ToolUse(None, entry.name, arguments), CallOptions()))

        return execute

    def _declare(self, entry: Entry) -> Dict[str, Any]:
        schema, strict = self._parameters(entry)
        # The API takes a missing "strict" for true.
        return {"type": "function", "name": entry.name, "description": entry.description,
                "parameters": schema, "strict": strict}

    def _uses(self, reply: Any) -> List[Any]:
        items = reply if isinstance(reply, list) else field(reply, "output")
        if not isinstance(items, list):
            raise TypeError(f"a response, or its output, was expected, not {type(reply).__name__}")
        return [item for item in items if field(item, "type") == "function_call"]

    def _read(self, tool_use: Any) -> ToolUse:
        if field(tool_use, "type") != "function_call":
            raise TypeError(f"an item of the type 'function_call' was expected, not {field(tool_use, 'type')!r}")
        return ToolUse(field(tool_use, "call_id"), field(tool_use, "name"), field(tool_use, "arguments"))

    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        return {"type": "function_call_output", "call_id": use.id, "output": _output(outcome)}, []

    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        return answers


def _output(outcome: Outcome) -> Any:
    """Return the output of a call: a text, or a list of inputs if there are images or files."""
    parts, _ = split(outcome.parts, lambda part: part.mime_type in IMAGES if part.kind == "image"
                        else part.mime_type == "application/pdf")
    if all(part.kind == "text" for part in parts):
        return text_of(parts, outcome.is_error)
    inputs = [_input(part) for part in parts]
    return [{"type": "input_text", "text": "Error:"}, *inputs] if outcome.is_error else inputs


def _input(part: Part) -> Dict[str, Any]:
    if part.kind == "text":
        return {"type": "input_text", "text": part.text}
    if part.kind == "image":
        return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
    return {"type": "input_file", "filename": file_name(part), "file_data": part.data_url}

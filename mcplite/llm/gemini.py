"""Gemini's API: function declarations, function calls and their responses."""

import json
from typing import Any, Callable, Dict, List, Optional, Pattern, Tuple

from .gemini_schemas import gemini_schema
from .kit import Kit, field
from .result_content import FAILED, Part, split
from .tool_names import PARAMETERS_OF_GEMINI, TOOLS_OF_GEMINI
from .toolset import Choice, Entry, Outcome, Source, ToolUse

__all__ = ["GeminiKit"]

#: What a function's response may hold; other media go beside it.
_INSIDE = ("image/png", "image/jpeg", "image/webp", "application/pdf")
_BESIDE = (*_INSIDE, "image/heic", "image/heif")


class GeminiKit(Kit):
    """The tools of a client for Gemini's API; :func:`mcplite.llm.gemini_tools` makes one.

    It takes the SDK's objects, and then returns such, or the dicts of the REST API, and then returns dicts.
    """

    _tool_names: Pattern[str] = TOOLS_OF_GEMINI
    _parameter_names: Pattern[str] = PARAMETERS_OF_GEMINI

    def __init__(self, client: Source, only: Choice, exclude: Choice, timeout: Optional[float], media_inside: bool) -> None:
        super().__init__(client, only, exclude, timeout)
        self._inside = _INSIDE if media_inside else ()

    @property
    def tools(self) -> List[Any]:
        """The tools in the API's form: a list of one tool, which has all functions; of none if there are none.

        :raises MCPError: the tools cannot be listed, as with ``client.list_tools()``.
        """
        functions = super().tools
        return [{"functionDeclarations": functions}] if functions else []

    def _declare(self, entry: Entry) -> Dict[str, Any]:
        declared = {"name": entry.name, "description": entry.description}
        # An object without members is refused.
        return {**declared, "parameters": gemini_schema(entry.schema)} if entry.schema["properties"] else declared

    def _uses(self, reply: Any) -> List[Any]:
        candidates = field(reply, "candidates")
        # A response to a refused prompt has no candidate.
        is_response = any(field(reply, name, self) is not self for name in ("candidates", "promptFeedback"))
        content = field(candidates[0], "content") if candidates else None if is_response else reply
        if content is not None and field(content, "parts", self) is self and field(content, "role", self) is self:
            raise TypeError(f"a response, or its content, was expected, not {type(reply).__name__}")
        return [part for part in field(content, "parts") or [] if _function_call(part) is not None]

    def _read(self, tool_use: Any) -> ToolUse:
        call = _function_call(tool_use) or tool_use
        name = field(call, "name")
        if not isinstance(name, str) or not (isinstance(call, dict) or hasattr(call, "args")):
            raise TypeError(f"a function call, or a part with one, was expected, not {type(tool_use).__name__}")
        return ToolUse(field(call, "id"), name, field(call, "args"))

    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        parts, rest = split(outcome.parts, lambda part: part.mime_type in self._inside, follows)
        text = "\n".join(part.text for part in parts if part.kind == "text")
        response: Dict[str, Any] = {"name": use.name, "response": {"error": text or FAILED} if outcome.is_error
                                    else {"output": text}}
        if use.id is not None:
            response["id"] = use.id
        media = [_inline(part) for part in parts if part.kind != "text"]
        if media:
            response["parts"] = media
        return _like(given, {"functionResponse": response}), rest

    def _follows(self, part: Part) -> bool:
        return part.kind == "audio" or part.mime_type in _BESIDE

    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        media = [_like(answers[0], _inline(part)) for part in rest]
        content = {"role": "user", "parts": [*answers, *media]}
        if isinstance(answers[0], dict):
            return [content]
        from google.genai import types

        return [types.Content(**content)]


def _function_call(part: Any) -> Any:
    return field(part, "functionCall", field(part, "function_call")) if isinstance(part, dict) else field(part, "function_call")


def _inline(part: Part) -> Dict[str, Any]:
    return {"inlineData": {"mimeType": part.mime_type, "data": part.data}}


def _like(given: Any, part: Dict[str, Any]) -> Any:
    """Return *part* as it is if *given* is a dict, else as an object of the SDK, which keeps media as bytes."""
    if isinstance(given, dict):
        return part
    from google.genai import types

    return types.Part.model_validate_json(json.dumps(part))

"""OpenAI's Chat Completions, and the many APIs of the same form: tools, ``tool_calls`` and their messages."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from .kit import Kit, field
from .result_content import Part, file_name, never, split, text_of
from .strict import strict_schema, without_nulls
from .tool_schemas import Schema
from .toolset import Choice, Entry, Outcome, Source, ToolUse

__all__ = ["IMAGES", "OpenAIKit", "StrictKit"]

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
#: Characters of a description; the API refuses more.
_MOST_DESCRIBED = 1024


class StrictKit(Kit):
    """What both APIs of OpenAI share: the strict mode."""

    def __init__(self, client: Source, only: Choice, exclude: Choice, timeout: Optional[float],
                 strict: bool) -> None:
        super().__init__(client, only, exclude, timeout)
        self._strict = strict

    def _parameters(self, entry: Entry) -> Tuple[Schema, bool]:
        """Return the schema of a tool's parameters, and whether it is strict."""
        strict = strict_schema(entry.schema) if self._strict else None
        return (entry.schema, False) if strict is None else (strict, True)

    def _arguments(self, given: Any, entry: Entry) -> Dict[str, Any]:
        arguments = super()._arguments(given, entry)
        if not self._parameters(entry)[1]:
            return arguments
        # The names of parameters are the server's by now.
        own = entry.own_parameters
        schema = {**entry.schema, "properties": {own.get(name, name): one for name, one in entry.schema["properties"].items()},
                  "required": [own.get(name, name) for name in entry.schema.get("required", ())]}
        cleaned: Dict[str, Any] = without_nulls(arguments, schema, schema)
        return cleaned


class OpenAIKit(StrictKit):
    """The tools of a client for Chat Completions; :func:`mcplite.llm.openai_tools` makes one.

    The API takes text only in the message of a tool. What else a tool returns follows in a message of the user, which
    :meth:`answers` adds behind all results; :meth:`call` can only name it.
    """

    def __init__(self, client: Source, only: Choice, exclude: Choice, timeout: Optional[float], strict: bool,
                 media: bool) -> None:
        super().__init__(client, only, exclude, timeout, strict)
        self._takes_media = media

    def _declare(self, entry: Entry) -> Dict[str, Any]:
        schema, strict = self._parameters(entry)
        description = entry.description
        if len(description) > _MOST_DESCRIBED:
            description = description[:_MOST_DESCRIBED - 1] + "…"
        function = {"name": entry.name, "description": description, "parameters": schema}
        return {"type": "function", "function": {**function, "strict": True} if strict else function}

    def _uses(self, reply: Any) -> List[Any]:
        choices = field(reply, "choices")
        if choices is not None and not choices:
            return []
        message = field(choices[0], "message") if choices else reply
        if field(message, "role") != "assistant":
            raise TypeError(f"a completion, or a message of the role 'assistant', was expected, not {type(reply).__name__}")
        return list(field(message, "tool_calls") or [])

    def _read(self, tool_use: Any) -> ToolUse:
        function = field(tool_use, "function")
        if function is None:
            # A custom tool, which no kit declares: its input is a text.
            custom = field(tool_use, "custom")
            if custom is None:
                raise TypeError(f"an item of 'tool_calls' was expected, not {type(tool_use).__name__}")
            return ToolUse(field(tool_use, "id"), field(custom, "name"), None)
        return ToolUse(field(tool_use, "id"), field(function, "name"), field(function, "arguments"))

    def _answer(self, given: Any, use: ToolUse, outcome: Outcome, follows: Callable[[Part], bool]
                ) -> Tuple[Any, List[Part]]:
        parts, rest = split(outcome.parts, never, follows)
        return {"role": "tool", "tool_call_id": use.id, "content": text_of(parts, outcome.is_error)}, rest

    def _follows(self, part: Part) -> bool:
        return self._takes_media and _media(part) is not None

    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        media = [_media(part) for part in rest]
        if not media:
            return answers
        note = {"type": "text", "text": "Content that the tools returned, in the order of their results:"}
        return [*answers, {"role": "user", "content": [note, *media]}]


def _media(part: Part) -> Optional[Dict[str, Any]]:
    """Return a part as the content of a user's message; None if the API does not take it."""
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.data_url}} if part.mime_type in IMAGES else None
    if part.kind == "audio":
        sound = _SOUNDS.get(part.mime_type)
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}} if sound else None
    if part.mime_type == "application/pdf":
        return {"type": "file", "file": {"filename": file_name(part), "file_data": part.data_url}}
    return None

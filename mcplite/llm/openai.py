"""OpenAI's APIs: Chat Completions, which many others have too, and Responses; tools, calls and their messages.

In strict mode a model keeps to a schema exactly, where the schema can be brought into its subset: every member is required and
nothing else is allowed, so that an optional parameter becomes one that may be null; :func:`without_nulls` takes these nulls out
of the arguments again.
"""

import json
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .result_content import Part, file_name, never, split, text_of
from .tool_names import Choice
from .tool_schemas import Schema, nullable, resolve, types_of
from .toolset import CallOptions, Entry, Kit, Outcome, Source, ToolUse, field

__all__ = ["IMAGES", "OpenAIKit", "ResponsesKit", "StrictKit", "media_of", "strict_schema", "without_nulls"]

_KEPT = {"type", "description", "title", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
         "multipleOf", "minItems", "maxItems"}
#: Keywords without which a schema would mean something else.
_IMPOSSIBLE = ("allOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties", "propertyNames", "prefixItems",
               "contains")
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_MOST_PROPERTIES = 5000
_MOST_VALUES = 1000
_DEEPEST = 10


class _NotStrict(Exception):
    """A schema has what the strict mode does not take."""


def strict_schema(schema: Schema) -> Optional[Schema]:
    """Return the strict form of a portable schema; None if it has none, as with free-form objects."""
    counts = {"properties": 0, "values": 0}
    try:
        top = {key: value for key, value in schema.items() if key != "$defs"}
        found = _strict(top, counts, 0) if top["properties"] else _empty(top)
        definitions = {name: _strict(one, counts, 1) for name, one in schema.get("$defs", {}).items()}
    except _NotStrict:
        return None
    return {**found, "$defs": definitions} if definitions else found


def without_nulls(value: Any, schema: Schema, root: Schema) -> Any:
    """Return arguments without the nulls of optional members that may not be null.

    :param schema: the portable schema of *value*, before it was made strict.
    :param root: the portable schema of the arguments as a whole, for references.
    """
    if isinstance(value, list):
        items = [form["items"] for form in _forms(schema, root) if isinstance(form.get("items"), dict)]
        return [without_nulls(item, items[0], root) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    fitting = [form for form in _forms(schema, root) if set(value) <= set(form.get("properties", {}))]
    if not fitting:
        return value
    properties, required = fitting[0].get("properties", {}), fitting[0].get("required", [])
    return {name: without_nulls(item, properties[name], root) for name, item in value.items()
            if item is not None or name in required or _may_be_null(properties[name], root)}


def _empty(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key in ("description", "title")}
    return {**kept, "type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _strict(schema: Schema, counts: Dict[str, int], depth: int) -> Schema:
    if depth > _DEEPEST or any(key in schema for key in _IMPOSSIBLE):
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # a reference stands alone
    found: Schema = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        found["format"] = schema["format"]
    if "const" in schema:
        found["enum"] = [schema["const"]]
    counts["values"] += len(found.get("enum", ()))
    variants = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if variants:
        if "anyOf" in schema and "oneOf" in schema or "properties" in schema or "items" in schema:
            raise _NotStrict  # what stands beside alternatives would be lost
        found["anyOf"] = [_strict(variant, counts, depth) for variant in variants]
        found.pop("type", None)
        return found
    types = types_of(found)
    if not types and "enum" not in found:
        raise _NotStrict
    if "object" in types:
        _close(schema, found, counts, depth)
    if "array" in types:
        found["items"] = _strict(schema["items"], counts, depth + 1)
    if counts["properties"] > _MOST_PROPERTIES or counts["values"] > _MOST_VALUES:
        raise _NotStrict
    return found


def _close(schema: Schema, found: Schema, counts: Dict[str, int], depth: int) -> None:
    """Allow the declared members of an object only, and require each."""
    properties: Dict[str, Schema] = schema.get("properties", {})
    if schema.get("additionalProperties", False) is not False or not properties:
        raise _NotStrict  # an object of any members
    counts["properties"] += len(properties)
    found["properties"] = {}
    for name, one in properties.items():
        strict = _strict(one, counts, depth + 1)
        found["properties"][name] = strict if name in schema.get("required", ()) else nullable(strict)
    found["required"] = list(properties)
    found["additionalProperties"] = False


def _forms(schema: Schema, root: Schema) -> List[Schema]:
    """Return a schema without references, and each of its alternatives; each definition once."""
    forms: List[Schema] = []
    seen: Set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        reference = one.get("$ref")
        variants = [*one.get("anyOf", ()), *one.get("oneOf", ())]
        if reference is None:
            # The last one is taken next, and the alternatives have to keep their order.
            waiting += reversed(variants)
            forms += [] if variants else [one]
        elif reference not in seen:
            seen.add(reference)
            target = resolve(root, reference)
            waiting += [] if target is None else [target]
    return forms


def _may_be_null(schema: Schema, root: Schema) -> bool:
    for form in _forms(schema, root):
        types = types_of(form)
        if "null" in types or (not types and None in form.get("enum", [form.get("const", None)])):
            return True
    return False


IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
#: Characters of a description; the API refuses more.
_MOST_DESCRIBED = 1024


class StrictKit(Kit):
    """The strict mode, which both APIs of OpenAI have."""

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

    The API takes text only in the message of a tool. Other content of a result follows in a message of the user, which
    :meth:`answers` adds behind all results; :meth:`call` can only name such content.
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

    @staticmethod
    def use(id: str, name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
        """Return an item of ``tool_calls``."""
        return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}

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
        return self._takes_media and media_of(part) is not None

    def _messages(self, answers: List[Any], rest: List[Part]) -> List[Any]:
        media = [media_of(part) for part in rest]
        if not media:
            return answers
        note = {"type": "text", "text": "Content that the tools returned, in the order of their results:"}
        return [*answers, {"role": "user", "content": [note, *media]}]


def media_of(part: Part) -> Optional[Dict[str, Any]]:
    """Return a part as the content of a user's message; None if the API does not take it."""
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.data_url}} if part.mime_type in IMAGES else None
    if part.kind == "audio":
        sound = _SOUNDS.get(part.mime_type)
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}} if sound else None
    if part.mime_type == "application/pdf":
        return {"type": "file", "file": {"filename": file_name(part), "file_data": part.data_url}}
    return None


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

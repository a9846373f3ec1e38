"""Gemini's API: function declarations, function calls and their responses.

Its ``parameters`` take a subset of OpenAPI 3.0, without references and type lists. The description tells the model what the
subset cannot say; the server checks that in any case.
"""

import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Pattern, Tuple

from ..protocol.schema.references import Extent
from .result_content import FAILED, Part, split
from .tool_names import PARAMETERS_OF_GEMINI, TOOLS_OF_GEMINI, Choice
from .tool_schemas import Schema, described, kind_of, resolve
from .toolset import Entry, Kit, Outcome, Source, ToolUse, field

__all__ = ["GeminiKit", "gemini_schema"]

#: The most references within each other that are replaced by the schemas they refer to; recursive schemas end there.
_DEEPEST = 6
#: The most alternatives of one subschema.
_MOST_FORMS = 100
_FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
#: The keywords of each type that Gemini knows by the same name.
_KEPT = {"string": ("minLength", "maxLength", "pattern"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum"),
         "array": ("minItems", "maxItems"), "object": ("minProperties", "maxProperties"), "boolean": ()}
_TOLD = ("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "default")
_ANY = ("string", "number", "boolean", "object")


def gemini_schema(schema: Schema) -> Schema:
    """Return the Gemini form of a portable schema, whose types are written in upper case."""
    return _Writer(schema).write(schema, 0)


class _Form(NamedTuple):
    """One alternative of a schema: a schema of one type, without references."""

    kind: str
    schema: Schema
    #: How many references lie above it.
    depth: int


class _Writer:
    """Writes one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._extent = Extent()

    def write(self, schema: Schema, depth: int) -> Schema:
        """Return the Gemini form of a subschema that lies below *depth* references."""
        self._extent.take()
        forms, nullable = self._forms(schema, depth)
        forms = forms or [_Form("string", {}, depth)]  # null and nothing else
        found: Schema = self._form(forms[0]) if len(forms) == 1 else {"anyOf": [self._form(form) for form in forms]}
        if schema.get("description"):
            found["description"] = self._noted(schema["description"])
        if len(forms) == 1:
            self._tell({**forms[0].schema, **{key: schema[key] for key in _TOLD if key in schema}}, found)
        if nullable:
            found["nullable"] = True
        return found

    def _forms(self, schema: Schema, depth: int) -> Tuple[List[_Form], bool]:
        """Return the alternatives of a schema, and whether null is one of them."""
        schema = self._merged(schema)
        if "$ref" in schema:
            target = resolve(self._root, schema["$ref"]) or {}
            if depth == _DEEPEST or not self._extent.take(1, 1):
                kind = target.get("type")
                return [_Form(kind if isinstance(kind, str) and kind in _KEPT else "object", {}, depth)], False
            return self._forms({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, depth + 1)
        variants = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        if "properties" in schema and not any("properties" in one or "$ref" in one for one in variants):
            variants = []  # they say only which members are needed together
        if variants:
            found = [self._forms(variant, depth) for variant in variants]
            forms = [form for forms, _ in found for form in forms]
            return forms[:_MOST_FORMS], any(nullable for _, nullable in found)
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        values = _values(schema)
        if not types and values:
            types = list(dict.fromkeys(kind_of(value) for value in values))
        kinds = [kind for kind in types if kind != "null"]
        # A schema of null alone has no form of its own: it is an alternative beside other schemas.
        return [_Form(kind, schema, depth) for kind in kinds or ([] if types else _guessed(schema))], (
            "null" in types or None in values)

    def _merged(self, schema: Schema) -> Schema:
        """Return a schema with the members of ``allOf`` in it, one level deep."""
        parts = schema.get("allOf")
        if not parts:
            return dict(schema)
        merged: Dict[str, Any] = {}
        properties: Dict[str, Any] = {}
        required: List[str] = []
        for part in [*parts, {key: value for key, value in schema.items() if key != "allOf"}]:
            target = resolve(self._root, part["$ref"]) or {} if "$ref" in part else {}
            whole = {**target, **{key: value for key, value in part.items() if key != "$ref"}}
            if not self._extent.take(1 + len(whole.get("properties", ())) + len(whole.get("required", ()))):
                break
            properties.update(whole.get("properties", {}))
            required += whole.get("required", [])
            merged.update(whole)
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
        return merged

    def _form(self, form: _Form) -> Schema:
        kind, schema, depth = form
        found: Schema = {"type": kind.upper()}
        if schema.get("description"):
            found["description"] = self._noted(schema["description"])
        found.update({key: schema[key] for key in _KEPT[kind] if key in schema})
        if kind == "string" and _are_names(_values(schema)):
            found["enum"] = [value for value in _values(schema) if value is not None]
            self._extent.take(len(found["enum"]), sum(map(len, found["enum"])))
        if schema.get("format") in _FORMATS.get(kind, ()):
            found["format"] = schema["format"]
        if kind == "array":
            items: List[Schema] = []
            for one in (*schema.get("prefixItems", ()), schema.get("items")):
                # The rest of a tuple may be any of its forms, see portable().
                items += [form for form in (one or {}).get("anyOf", [one] if one else []) if form not in items]
            found["items"] = self.write(items[0] if len(items) == 1 else {"anyOf": items} if items else {}, depth)
        if kind == "object" and schema.get("properties"):
            self._extent.take(0, sum(map(len, schema["properties"])))
            found["properties"] = {name: self.write(one, depth) for name, one in schema["properties"].items()}
            required = [name for name in schema.get("required", ()) if name in found["properties"]]
            if required:
                found["required"] = required
        return found

    def _noted(self, text: str) -> str:
        # The text is counted, but not cut: only references multiply texts, and no more are replaced beyond the extent.
        self._extent.take(0, len(text))
        return text

    def _tell(self, schema: Schema, found: Schema) -> None:
        """Put into the description what the subset has no keyword for."""
        notes = []
        values = [value for value in _values(schema) if value is not None]
        if values and "enum" not in found:
            notes.append(f"One of: {', '.join(json.dumps(value, ensure_ascii=False) for value in values)}.")
        if schema.get("format") and "format" not in found:
            notes.append(f"Format: {schema['format']}.")
        notes += [f"{key}: {json.dumps(schema[key], ensure_ascii=False)}." for key in _TOLD
                  if schema.get(key) is not None and schema[key] is not False]
        for note in notes:
            described(found, self._noted(note))


def _guessed(schema: Schema) -> List[str]:
    """Return the types that a schema without a type may mean."""
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else list(_ANY)


def _are_names(values: List[Any]) -> bool:
    # An empty string is refused in a list of values.
    return any(values) and all(value is None or (isinstance(value, str) and value) for value in values)


def _values(schema: Schema) -> List[Any]:
    values: List[Any] = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return values


#: The media types that a function's response may hold, and those that may follow beside it.
_INSIDE = ("image/png", "image/jpeg", "image/webp", "application/pdf")
_BESIDE = (*_INSIDE, "image/heic", "image/heif")


class GeminiKit(Kit):
    """The tools of a client for Gemini's API; :func:`mcplite.llm.gemini_tools` makes one.

    For objects of the SDK it returns objects of the SDK; for dicts of the REST API it returns dicts.
    """

    _tool_names: Pattern[str] = TOOLS_OF_GEMINI
    _parameter_names: Pattern[str] = PARAMETERS_OF_GEMINI

    def __init__(self, client: Source, only: Choice, exclude: Choice, timeout: Optional[float], media_inside: bool) -> None:
        super().__init__(client, only, exclude, timeout)
        self._inside = _INSIDE if media_inside else ()

    @property
    def tools(self) -> List[Any]:
        """The tools in the API's form: a list of one tool, which has all functions; empty if there are none.

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
    """Return *part* as it is if *given* is a dict; if not, as an object of the SDK, which keeps media as bytes."""
    if isinstance(given, dict):
        return part
    from google.genai import types

    return types.Part.model_validate_json(json.dumps(part))

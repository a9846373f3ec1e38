"""A JSON Schema in a few words, as the signature of a tool shows it: ``int``, ``list[str]``, ``'a' | 'b'``.

It is for people who read signatures and complete calls; the schema itself says more, and is not checked here.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple

_TYPES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None", "array": "list",
          "object": "dict"}
#: The most levels of a schema that are described, alternatives of a union, and characters of the whole text.
_DEPTH = 3
_ALTERNATIVES = 8
_MOST = 80
#: The most alternatives that are read; equal ones are described once.
_READ = 100


class Argument(NamedTuple):
    """One argument of a tool."""

    name: str
    #: Its type in words.
    words: str
    required: bool
    #: Its default, as Python or JSON write it; empty if the schema gives none.
    default: str

    def __str__(self) -> str:
        if self.default:
            return f"{self.name}: {self.words} = {self.default}"
        return f"{self.name}: {self.words}" if self.required else f"{self.name}?: {self.words}"


def words_of(schema: Any) -> str:
    """Return the type that a schema describes."""
    words = _words(schema, _DEPTH)
    return words if len(words) <= _MOST else words[:_MOST - 3] + "..."


def arguments_of(schema: Any) -> List[Argument]:
    """Return the arguments that the input schema of a tool describes, in its order."""
    properties, required = _members(schema)
    return [Argument(name, words_of(one), name in required, _default(one)) for name, one in properties.items()]


def result_of(schema: Any) -> str:
    """Return the type of a tool's value by its output schema, without the ``{"result": ...}`` around a value."""
    properties, required = _members(schema)
    if list(properties) == ["result"] and "result" in required:
        return words_of(properties["result"])
    return words_of(schema)


def _members(schema: Any) -> "tuple[Dict[str, Any], List[Any]]":
    found = schema if isinstance(schema, Mapping) else {}
    properties, required = found.get("properties"), found.get("required")
    return (properties if isinstance(properties, dict) else {}), (required if isinstance(required, list) else [])


def _default(schema: Any) -> str:
    if not isinstance(schema, Mapping) or "default" not in schema:
        return ""
    text = _literal(schema["default"])
    return text if len(text) <= _MOST else "..."


def _words(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or not depth:
        return "any"
    if isinstance(schema.get("enum"), list):
        return _union([_literal(value) for value in schema["enum"][:_READ]])
    if "const" in schema:
        return _literal(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return _union([_words(one, depth - 1) for one in schema[key][:_READ]])
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"]).rpartition("/")[2] or "any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_TYPES.get(str(one), "any") for one in kind])
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list[{_words(schema['items'], depth - 1)}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"dict[str, {_words(schema['additionalProperties'], depth - 1)}]"
    return _TYPES.get(str(kind), "any")


def _literal(value: Any) -> str:
    # None, True and False are written as in Python, as the types beside them are.
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _union(alternatives: List[str]) -> str:
    found = list(dict.fromkeys(alternatives))
    if len(found) > _ALTERNATIVES:
        found[_ALTERNATIVES:] = ["..."]
    return " | ".join(found) or "any"

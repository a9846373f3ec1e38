"""Brings a schema that another library made into the form of ours: parts in place of references, no invented titles."""

import re
from typing import Any, Callable, Dict, List, Mapping, Set

__all__ = ["Inliner", "without_patterns"]

#: Keywords whose values are data, and not schemas.
_DATA = frozenset({"const", "default", "enum", "examples"})
#: Keywords with an object of schemas.
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
#: Keywords that may stand beside a part that is put in place of a reference.
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_PREFIX = "#/$defs/"
#: How many references are replaced in one schema; parts that share parts would else double with each level.
_MOST = 200


class Inliner:
    """Puts the parts of ``$defs`` where they are referred to; what contains itself stays in ``definitions``.

    Form builders and older clients do not follow references (NS-38). Of a schema with very many references, the last
    ones stay.

    :param parts: by name, as in ``$defs``.
    :param label: returns the name of a definition that is not taken.
    """

    def __init__(self, parts: Mapping[str, Any], label: Callable[[str], str]) -> None:
        self._parts = parts
        self._label = label
        self._labels: Dict[str, str] = {}
        self._recursive = frozenset(name for name in parts if name in _reachable(name, parts))
        self._count = 0
        #: The parts that are still referred to, by their new names.
        self.definitions: Dict[str, Any] = {}

    def expand(self, schema: Any) -> Any:
        """Return a copy of *schema* with its references replaced."""
        if isinstance(schema, list):
            return [self.expand(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        # What a value is comes first, as in our own schemas: people read them.
        result: Dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
        for keyword, value in schema.items():
            if keyword in _DATA:
                result[keyword] = value
            elif keyword in _MAPS and isinstance(value, dict):
                result[keyword] = {name: _untitled(name, self.expand(item)) for name, item in value.items()}
            elif keyword not in ("$ref", "$defs", "discriminator"):  # OpenAPI's discriminator has references of its own
                result[keyword] = self.expand(value)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            part = self._part(reference)
            if result.keys() <= _NOTES:
                result = {**part, **result}
            else:
                result["allOf"] = [*result.get("allOf", ()), part]
        return result

    def _part(self, reference: str) -> Dict[str, Any]:
        name = reference[len(_PREFIX):]
        if not reference.startswith(_PREFIX) or name not in self._parts:
            return {"$ref": reference}
        part = self._parts[name]
        self._count += 1
        if name not in self._recursive and self._count <= _MOST:
            return _named(name, self.expand(part))
        if name not in self._labels:
            label = self._labels[name] = self._label(name)
            self.definitions[label] = {}  # the name is taken from here on
            self.definitions[label] = _named(name, self.expand(part))
        found = {"type": part["type"]} if isinstance(part.get("type"), str) else {}
        return {**found, "$ref": _PREFIX + self._labels[name]}


def _reachable(start: str, parts: Mapping[str, Any]) -> Set[str]:
    found: Set[str] = set()
    waiting = [start]
    while waiting:
        for name in _references(parts.get(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _references(schema: Any) -> List[str]:
    found: List[str] = []
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            reference = item.get("$ref")
            if isinstance(reference, str) and reference.startswith(_PREFIX):
                found.append(reference[len(_PREFIX):])
            waiting.extend(value for keyword, value in item.items() if keyword not in _DATA and keyword != "discriminator")
    return found


def _untitled(name: str, schema: Any) -> Any:
    """Return the schema of a property without the title that pydantic makes of its name."""
    if isinstance(schema, dict) and schema.get("title") == name.title().replace("_", " ").strip():
        return {keyword: value for keyword, value in schema.items() if keyword != "title"}
    return schema


def _named(name: str, schema: Any) -> Dict[str, Any]:
    """Return a part without the title that is only its name."""
    title = schema.get("title")
    if isinstance(title, str) and re.sub(r"[^a-zA-Z0-9.\-_]", "_", title) == name.rpartition("__")[2]:
        return {keyword: value for keyword, value in schema.items() if keyword != "title"}
    return schema  # type: ignore[no-any-return]


def without_patterns(schema: Any, drop: Callable[[str], bool]) -> Any:
    """Return a copy of *schema* without the patterns for which *drop* returns True."""
    if isinstance(schema, list):
        return [without_patterns(item, drop) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: Dict[str, Any] = {}
    open_names = False
    for keyword, value in schema.items():
        if keyword in _DATA:
            result[keyword] = value
        elif keyword == "patternProperties" and isinstance(value, dict):
            kept = {pattern: without_patterns(item, drop) for pattern, item in value.items() if not drop(pattern)}
            if kept:
                result[keyword] = kept
            if len(kept) < len(value):
                open_names = True
        elif keyword in ("properties", "$defs", "dependentSchemas") and isinstance(value, dict):
            result[keyword] = {name: without_patterns(item, drop) for name, item in value.items()}
        elif keyword != "pattern" or not isinstance(value, str) or not drop(value):
            result[keyword] = without_patterns(value, drop)
    if open_names:
        result.pop("additionalProperties", None)  # it would refuse the names that the patterns allowed
    return result

"""Output schemas of values that are no objects: the schema of ``{"result": value}``, whose references stay right."""

from __future__ import annotations

from typing import Any, Dict, Optional
from urllib.parse import unquote

from ...errors import RegistrationError
from .references import MAPS
from .rules import is_draft7, target_of

__all__ = ["as_object", "in_result"]

_PLACE = "#/properties/result"
#: What stays at the top level, where most references look for it.
_SHARED = ("$defs", "definitions")
#: Keywords with data, in which nothing is a reference.
_DATA = frozenset({"const", "default", "enum", "examples"})
#: What may stand beside a reference without a meaning of its own.
_NOTES = frozenset({"$comment", "$defs", "$id", "$schema", "definitions", "description", "title"})


def as_object(schema: Dict[str, Any], steps: int = 20) -> Optional[Dict[str, Any]]:
    """Return *schema* with ``"type": "object"`` at its top; None if it does not say that its values are objects.

    One that is a reference to such a schema says so. The reference is replaced by what it refers to, if that means the same.

    :param steps: from reference to reference, at most.
    """
    kind = schema.get("type")
    if "$ref" not in schema or kind == "object":
        return schema if kind == "object" else {**schema, "type": "object"} if kind == ["object"] else None
    try:
        target, same_base = target_of(schema, schema["$ref"])
        found = as_object({**_shared(schema), **target}, steps - 1) if isinstance(target, dict) and steps else None
    except RegistrationError:
        return None  # it refers to nothing
    if found is None:
        return None
    if not same_base or "$id" in target or "$anchor" in target or "$dynamicAnchor" in target or (
            schema.keys() - _NOTES - {"$ref"} and not is_draft7(schema)):
        return {**schema, "type": "object"}
    return {**found, **{key: value for key, value in schema.items() if key in _NOTES}}


def in_result(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return the schema of ``{"result": value}``, where *schema* is that of the value.

    A schema with an id is put there whole, since its references are relative to the id. Otherwise its definitions stay at the
    top level, and references to other places are changed to the new ones.
    """
    outer: Dict[str, Any] = {"type": "object", "properties": {}, "required": ["result"]}
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    if "$schema" in schema:
        outer["$schema"] = schema["$schema"]
    if not _has_id(schema):
        inner = _moved(inner)
        for key in _SHARED:
            if key in inner:
                outer[key] = inner.pop(key)
    outer["properties"]["result"] = inner
    return outer


def _shared(schema: Dict[str, Any]) -> Dict[str, Any]:
    return {key: schema[key] for key in (*_SHARED, "$schema") if key in schema}


def _has_id(schema: Dict[str, Any]) -> bool:
    """Whether references within a schema are relative to an id of its own, and not to that of the whole."""
    own = schema.get("$id")
    return isinstance(own, str) and not own.startswith("#")


def _moved(node: Any) -> Any:
    """Return a part with the references that it has from its new place."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict) or _has_id(node):
        return node
    made: Dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword in ("$ref", "$dynamicRef") and isinstance(value, str):
            value = _reference(value)
        elif keyword in MAPS and isinstance(value, dict):
            value = {name: _moved(item) for name, item in value.items()}
        elif keyword not in _DATA:
            value = _moved(value)
        made[keyword] = value
    return made


def _reference(text: str) -> str:
    if text in ("", "#"):
        return _PLACE
    if not text.startswith("#/") or unquote(text[2:].partition("/")[0]) in _SHARED:
        return text  # of an anchor, of a part with an id, or of what stays where it was
    return _PLACE + text[1:]

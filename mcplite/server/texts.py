"""Arguments that arrive as text: those of prompts, and the variables of URI templates (PRMT-17)."""

from typing import Any, Mapping, Set

from ..protocol.jsonio import load
from .functions.scalars import Node

__all__ = ["textual"]

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def textual(node: Node) -> Node:
    """Return the node that also takes the text of a number, of true or false, or of JSON.

    Where text is among what is annotated, text stays what it is.
    """
    schema, convert = node
    if _kinds(schema) <= {"string"}:
        return node
    return Node(schema, lambda value: convert(_parsed(value, schema)))


def _parsed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return what a text stands for, or the text itself when it stands for nothing that is wanted."""
    if type(value) is list and isinstance(schema.get("items"), dict):
        return [_parsed(item, schema["items"]) for item in value]
    if type(value) is not str:
        return value
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return value
    text = value.strip()
    if "boolean" in kinds and kinds <= {"boolean", "null"} and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return load(text.encode("utf-8"))
    except ValueError:
        return value  # the converter says what is wrong with it


def _kinds(schema: Mapping[str, Any]) -> Set[str]:
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind} if isinstance(kind, str) else set()
    for branch in schema.get("anyOf", ()):
        kinds |= _kinds(branch)
    return kinds

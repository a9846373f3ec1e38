"""Nodes of the annotations that map to one JSON scalar.

The converters guess nothing: a string is not a number, true is not a number, but 1.0 is an integer, as in JSON Schema
(SEC-85, NS-43).
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from .converters import Mismatch, Node, expect, from_text, summary

__all__ = ["OTHERS", "SIMPLE", "simple"]


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch(f"{summary(value)} is not an integer")


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("the number is too large") from None
    raise Mismatch(f"{summary(value)} is not a number")


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{summary(value)} is not null")


def _to_bytes(text: str) -> bytes:
    import base64  # for the few handlers that take bytes

    return base64.b64decode(text, validate=True)


#: The nodes of builtin classes.
SIMPLE: Dict[Any, Node] = {
    str: Node({"type": "string"}, expect(str, "a string")),
    int: Node({"type": "integer"}, _to_int),
    float: Node({"type": "number"}, _to_float),
    bool: Node({"type": "boolean"}, expect(bool, "true or false")),
    type(None): Node({"type": "null"}, _to_none),
    None: Node({"type": "null"}, _to_none),
    Any: Node({}, lambda value: value),
    object: Node({}, lambda value: value),
    bytes: Node({"type": "string", "contentEncoding": "base64"},
                from_text(_to_bytes, "base64")),
}
#: Modules whose classes have nodes too, in :mod:`.datetimes`. A handler that uses one has imported its module already.
OTHERS = frozenset({"datetime", "decimal", "pathlib", "pathlib._local", "uuid"})


def simple(annotation: Any) -> Optional[Node]:
    """Return the node of an annotation that is a scalar class; None for any other.

    :raises TypeError: the annotation is not hashable.
    """
    node = SIMPLE.get(annotation)
    if node is None and getattr(annotation, "__module__", None) in OTHERS:
        from .datetimes import nodes

        return nodes().get(annotation)
    return node

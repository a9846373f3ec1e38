"""The annotations that are one JSON scalar each: their schemas and the converters that check by the same rules.
A converter takes a JSON value and returns the Python value or raises :class:`Mismatch`. Nothing is guessed:
text is no number, true is no number, but 1.0 is an integer, as JSON Schema has it (SEC-85, NS-43).
"""

import base64
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

__all__ = ["Convert", "Mismatch", "Node", "OTHERS", "SIMPLE", "expect", "from_text", "shown", "simple"]

Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value does not fit; ``path`` leads to the place inside of it."""

    def __init__(self, message: str, path: Tuple[Union[str, int], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def below(self, step: Union[str, int]) -> "Mismatch":
        """Return the same for the value that contains this one under *step*."""
        return Mismatch(self.message, (step, *self.path))

    def sentence(self, name: str = "") -> str:
        """Return one sentence with the whole path."""
        text = name
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else (f".{step[:100]}" if text else step[:100])
        return f"{text}: {self.message}" if text else self.message


class Node(NamedTuple):
    """A compiled annotation."""

    schema: Dict[str, Any]
    convert: Convert


def shown(value: Any) -> str:
    """Return a value as errors quote it."""
    if type(value) in (list, dict) and len(value) > 20:
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    text = repr(value[:100] if type(value) is str else value)
    return text if len(text) <= 80 else text[:77] + "..."


def expect(kind: type, what: str) -> Convert:
    """Return the converter that accepts one type and changes nothing."""

    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(f"{shown(value)} is not {what}")
        return value

    return convert


def from_text(parse: Callable[[str], Any], what: str) -> Convert:
    """Return the converter for what is written as text."""

    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise Mismatch(f"{shown(value)} is not a string")
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise Mismatch(f"{shown(value)} is not {what}") from None

    return convert


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise Mismatch(f"{shown(value)} is not an integer")


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("the number is too large") from None
    raise Mismatch(f"{shown(value)} is not a number")


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{shown(value)} is not null")


#: Annotations that need no building.
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
                from_text(lambda text: base64.b64decode(text, validate=True), "base64")),
}
#: The modules whose classes have nodes too. A handler that is annotated with one of them has loaded it already.
OTHERS = frozenset({"datetime", "decimal", "pathlib", "pathlib._local", "uuid"})


def simple(annotation: Any) -> Optional[Node]:
    """Return the node of an annotation that needs no building; None for any other.

    :raises TypeError: the annotation is not hashable.
    """
    node = SIMPLE.get(annotation)
    if node is None and getattr(annotation, "__module__", None) in OTHERS:
        from .datetimes import nodes

        return nodes().get(annotation)
    return node

"""The compiled form of an annotation, :class:`Node`, the error of a failed conversion, and the nodes of JSON's scalars.

The converters guess nothing: a string is not a number, true is not a number, but 1.0 is an integer, as in JSON Schema
(SEC-85, NS-43).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ...errors import RegistrationError
from ...protocol.error_text import json_words, quoted

if TYPE_CHECKING:
    from ...protocol.schema.validation import Validator

#: Takes a JSON value and returns the Python value; raises :class:`Mismatch`.
Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value does not fit its annotation; ``path`` leads from the argument to the value.

    :param more: further problems of the same argument.
    """

    def __init__(self, message: str, path: Tuple[Union[str, int], ...] = (), more: "Sequence[Mismatch]" = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.more = more

    def below(self, step: Union[str, int]) -> "Mismatch":
        """Return this error as seen from the container that holds the value at *step*."""
        return Mismatch(self.message, (step, *self.path), [other.below(step) for other in self.more])

    def sentence(self, name: str = "") -> str:
        """Return one sentence, or several with semicolons: the path, beginning with *name*, and the message."""
        text = name
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else (f".{step[:100]}" if text else step[:100])
        own = f"{text}: {self.message}" if text else self.message
        return "; ".join([own, *(other.sentence(name) for other in self.more)])


class Node:
    """A compiled annotation: its JSON Schema, and the converter that checks by the same rules.

    :param exact: a class whose values the converter returns as they are; None if no class is known.
    """

    __slots__ = ("schema", "convert", "exact")

    def __init__(self, schema: Dict[str, Any], convert: Convert, exact: Optional[type] = None) -> None:
        self.schema = schema
        self.convert = convert
        self.exact = exact


class Compiler:
    """Compiles the annotations of one function; the schemas of recursive classes are in ``definitions``.

    :param where: names the function in errors, such as "tool 'add'".
    :param returned: whether the annotations describe a return value. Objects then allow additional members.
    """

    def __init__(self, where: str, returned: bool) -> None:
        self.where = where
        self.returned = returned
        self.definitions: Dict[str, Any] = {}
        #: The validators of the function's schemas, such as of keywords in ``Annotated``; their patterns are judged at the end.
        self.validators: List[Validator] = []

    def compile(self, annotation: Any, name: str) -> Node:
        """Return the node of *annotation*.

        :param name: of the parameter, for errors.
        :raises RegistrationError: it has no form in JSON; the text names the parameter, the reason and the fix.
        """
        raise NotImplementedError

    def free_label(self, wanted: str) -> str:
        """Return a name for ``definitions`` that is not taken, *wanted* if possible."""
        raise NotImplementedError

    def place(self, name: str) -> str:
        """Return what errors call the parameter *name*."""
        return f"{self.where}: the returned value{name}" if self.returned else f"{self.where}: parameter {name!r}"

    def refuse(self, name: str, reason: str) -> RegistrationError:
        """Return the error for the parameter *name*, which cannot be served."""
        return RegistrationError(f"{self.place(name)} {reason}")


def summary(value: Any) -> str:
    """Return a JSON value as errors for models quote it; of a large list or object the size alone."""
    if type(value) in (list, dict) and len(value) > 20:
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    return json_words(quoted(value))


def expect(kind: type, what: str) -> Convert:
    """Return the converter that accepts values of *kind* and returns them unchanged.

    :param what: names the type in errors, such as "a string".
    """

    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(f"{summary(value)} is not {what}")
        return value

    return convert


def from_text(parse: Callable[[str], Any], what: str) -> Convert:
    """Return the converter that parses a JSON string.

    :param parse: raises ValueError or ArithmeticError for text that it cannot parse.
    :param what: names the type in errors, such as "a date".
    """

    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise Mismatch(f"{summary(value)} is not a string")
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise Mismatch(f"{summary(value)} is not {what}") from None

    return convert


def kinds_of(schema: Mapping[str, Any]) -> Set[str]:
    """Return the JSON types that a schema names; none if it allows any."""
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind} if isinstance(kind, str) else set()
    for keyword in ("anyOf", "oneOf"):
        for branch in schema.get(keyword, ()):
            kinds |= kinds_of(branch)
    return kinds


def reason_of(error: Exception) -> str:
    """Return the text of an exception that a class raised for its values; attrs puts objects behind the text."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, str) else str(error) or type(error).__name__


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
    str: Node({"type": "string"}, expect(str, "a string"), str),
    int: Node({"type": "integer"}, _to_int, int),
    float: Node({"type": "number"}, _to_float, float),
    bool: Node({"type": "boolean"}, expect(bool, "true or false"), bool),
    type(None): Node({"type": "null"}, _to_none),
    None: Node({"type": "null"}, _to_none),
    Any: Node({}, lambda value: value),
    object: Node({}, lambda value: value),
    bytes: Node({"type": "string", "contentEncoding": "base64"},
                from_text(_to_bytes, "base64")),
}

"""A quick verdict on simple JSON Schemas, compiled to Python; jsonschema decides the rest.

A check returns True for a value that is certainly valid, and False where jsonschema has to be asked: the value is invalid, or
the schema says more than the keywords of ordinary arguments. So a call with valid arguments never loads jsonschema.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from .ecma import python_pattern

#: The check of a value by a part of a schema. The list has one item, the number of steps that may still be taken; if that is
#: below zero, the check returns False.
Part = Callable[[Any, List[int]], bool]
#: Longer texts are not matched against patterns here: :mod:`.validation` does that, and counts the steps (SEC-78).
_MATCHED_SUBJECT = 256
#: Larger integers can be made to have the same hash, so they are not put into sets.
_SMALL = 1 << 60
#: The classes of parsed JSON. Values of other classes, such as subclasses of these, are left to jsonschema.
_TYPES: Dict[str, FrozenSet[Any]] = {
    "string": frozenset({str}), "number": frozenset({int, float}), "integer": frozenset({int}),
    "boolean": frozenset({bool}), "null": frozenset({type(None)}), "array": frozenset({list}), "object": frozenset({dict}),
}
_JSON: FrozenSet[Any] = frozenset().union(*_TYPES.values())
_SCALARS = _JSON - {list, dict}


def _anything(value: Any, left: List[int]) -> bool:
    return True


def _ask(value: Any, left: List[int]) -> bool:
    return False


def _type(argument: Any) -> Part:
    names = argument if isinstance(argument, list) else [argument]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return _ask
    allowed = frozenset().union(*(_TYPES[name] for name in names))
    # 1.0 is an integer (SEC-84).
    whole = "integer" in names and float not in allowed

    def check(value: Any, left: List[int]) -> bool:
        kind = type(value)
        return kind in allowed or whole and kind is float and value.is_integer()

    return check


def _enum(argument: Any) -> Part:
    if not isinstance(argument, list) or not all(type(item) in _SCALARS for item in argument):
        return _ask
    texts = frozenset(item for item in argument if type(item) is str)
    others = tuple(item for item in argument if type(item) is not str)

    def check(value: Any, left: List[int]) -> bool:
        if type(value) is str:
            return value in texts
        left[0] -= len(others)
        # JSON's true is not 1.
        return type(value) in _SCALARS and left[0] >= 0 and any(
            value == item and (type(value) is bool) == (type(item) is bool) for item in others)

    return check


def _bound(test: Callable[[Any, Any], bool]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) not in (int, float):
            return _ask

        def check(value: Any, left: List[int]) -> bool:
            kind = type(value)
            return test(value, argument) if kind is int or kind is float else kind in _JSON

        return check

    return make


def _length(kind: Any, test: Callable[[Any, Any], bool]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) is not int:
            return _ask
        return lambda value, left: test(len(value), argument) if type(value) is kind else type(value) in _JSON

    return make


def is_multiple(value: Any, divisor: Any) -> bool:
    """Whether a number is a multiple of another one, by the decimal values that both have in JSON: 19.99 is one of 0.01.

    A value that is not a finite number is no multiple.
    """
    if type(value) is int and type(divisor) is int:
        return bool(value % divisor == 0)
    try:
        above, below = _ratio(value)
        own_above, own_below = _ratio(divisor)
    except (OverflowError, ValueError):  # infinite, or no number
        return False
    return own_above != 0 and above * own_below % (below * own_above) == 0


def _ratio(number: Any) -> Tuple[int, int]:
    from decimal import Decimal  # for fractions

    return Decimal(repr(number) if isinstance(number, float) else number).as_integer_ratio()


def _multiple(argument: Any) -> Part:
    return _bound(is_multiple)(argument if type(argument) in (int, float) and argument > 0 else None)


def _unique(argument: Any) -> Part:
    if not isinstance(argument, bool):
        return _ask

    def check(value: Any, left: List[int]) -> bool:
        if not argument or type(value) is not list:
            return type(value) in _JSON
        left[0] -= len(value)
        if left[0] < 0:
            return False
        for item in value:
            if type(item) not in _SCALARS or type(item) is int and not -_SMALL < item < _SMALL:
                return False
        return len({(type(item) is bool, item) for item in value}) == len(value)

    return check


def _pattern(argument: Any) -> Part:
    try:
        search = re.compile(python_pattern(argument)).search
    except (TypeError, re.error, RecursionError, OverflowError):
        return _ask

    def check(value: Any, left: List[int]) -> bool:
        if type(value) is not str:
            return type(value) in _JSON
        return len(value) <= _MATCHED_SUBJECT and search(value) is not None

    return check


#: By keyword: makes the check from the keyword's argument.
_KEYWORDS: Dict[str, Callable[[Any], Part]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda argument: _enum([argument]),
    "minimum": _bound(operator.ge), "maximum": _bound(operator.le),
    "exclusiveMinimum": _bound(operator.gt), "exclusiveMaximum": _bound(operator.lt),
    "minLength": _length(str, operator.ge), "maxLength": _length(str, operator.le),
    "minItems": _length(list, operator.ge), "maxItems": _length(list, operator.le),
    "minProperties": _length(dict, operator.ge), "maxProperties": _length(dict, operator.le),
    "pattern": _pattern,
    "multipleOf": _multiple,
    "uniqueItems": _unique,
}


Check = Callable[[Any], bool]
#: Keywords without influence on validity.
_NOTES = frozenset({"title", "description", "default", "examples", "$comment", "deprecated", "readOnly",
                    "writeOnly", "format", "$defs", "definitions", "contentEncoding", "contentMediaType"})
#: Keywords that matter for the whole schema only.
_TOP_NOTES = frozenset({"$schema", "$id"})
_MEMBERS = frozenset({"properties", "required", "additionalProperties"})
_REFERENCE = r"#/(\$defs|definitions)/([^/~%]+)"
_MAX_DEPTH = 64
#: Steps of one verdict: far more than any message needs, and far fewer than nested alternatives could
#: take (SEC-76).
_MAX_STEPS = 3_000_000


def compile_check(schema: Any, *, draft7: bool = False, longest: Optional[Callable[[str], int]] = None) -> Check:
    """Return the check of a schema.

    :param draft7: whether keywords beside a ``$ref`` are ignored.
    :param longest: returns how many characters a text may have to be matched against a pattern. If these are fewer than 256,
        the pattern is left to jsonschema. None leaves no pattern to it.
    """
    try:
        part = _Compiler(schema, draft7, longest).part(schema, 0)
    except RecursionError:
        return lambda value: False

    def check(value: Any) -> bool:
        try:
            return part(value, [_MAX_STEPS])
        except RecursionError:
            return False

    return check


# Each check below has its own loop: a shared one, in a generator, takes more than twice as long for a list of numbers.


class _Compiler:
    """The state that the parts of one schema share while they are compiled."""

    def __init__(self, root: Any, draft7: bool, longest: Optional[Callable[[str], int]]) -> None:
        self.root = root
        self.draft7 = draft7
        self.longest = longest
        #: The parts that references name, by the reference. The value is None while a part is compiled, since it may refer to
        #: itself.
        self.named: Dict[str, Optional[Part]] = {}

    def part(self, schema: Any, depth: int) -> Part:
        if schema is True or schema == {} and isinstance(schema, dict):
            return _anything
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return _ask
        if self.draft7 and "$ref" in schema:
            return self._reference(schema["$ref"])
        members = not _MEMBERS.isdisjoint(schema)
        only = members and schema.get("type") == "object"
        parts: List[Part] = []
        for keyword, argument in schema.items():
            if not (keyword in _NOTES or keyword in _MEMBERS or keyword.startswith("x-") or only and keyword == "type"
                    or schema is self.root and keyword in _TOP_NOTES):
                parts.append(self._keyword(keyword, argument, depth))
        if members:
            parts.append(self._members(schema, depth, not only))
        return _ask if _ask in parts else parts[0] if len(parts) == 1 else _every(parts)

    def _keyword(self, keyword: str, argument: Any, depth: int) -> Part:
        if keyword == "$ref":
            return self._reference(argument)
        if keyword == "items":
            return self._items(argument, depth)
        if keyword == "anyOf":
            return self._any_of(argument, depth)
        if keyword == "pattern" and self.longest is not None and isinstance(argument, str) and (
                self.longest(argument) < _MATCHED_SUBJECT):
            return _ask
        make = _KEYWORDS.get(keyword)
        return _ask if make is None else make(argument)

    def _reference(self, argument: Any) -> Part:
        found = re.fullmatch(_REFERENCE, argument) if isinstance(argument, str) else None
        place = self.root.get(found.group(1)) if found is not None else None
        if found is None or not isinstance(place, Mapping) or found.group(2) not in place:
            return _ask
        name = found.group(0)
        named = self.named
        if name not in named:
            named[name] = None
            # The depth begins at 0 again: a part that is referred to may be as deep as the whole schema.
            named[name] = self.part(place[found.group(2)], 0) if len(named) <= 200 else _ask
        known = named[name]
        if known is not None:
            return known

        def check(value: Any, left: List[int]) -> bool:
            part = named[name]
            left[0] -= 1
            return part is not None and left[0] >= 0 and part(value, left)

        return check

    def _members(self, schema: Mapping[str, Any], depth: int, others: bool) -> Part:
        """Return the check of an object's members.

        :param others: whether values that are not objects are valid.
        """
        properties, required = schema.get("properties", {}), schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not (isinstance(properties, Mapping) and isinstance(required, list) and isinstance(more, (bool, Mapping))
                and all(isinstance(name, str) for name in required)):
            return _ask
        parts = {name: self.part(item, depth + 1) for name, item in properties.items()}
        rest: Optional[Part] = self.part(more, depth + 1)
        if rest is _anything:
            rest = None
        cost = 1 + len(required)

        def check(value: Any, left: List[int]) -> bool:
            if type(value) is not dict:
                return others and type(value) in _JSON
            left[0] -= cost + len(value)
            if left[0] < 0:
                return False
            for name in required:
                if name not in value:
                    return False
            for name, item in value.items():
                part = parts.get(name, rest)
                if part is not None and not part(item, left):
                    return False
            return True

        return check

    def _items(self, argument: Any, depth: int) -> Part:
        if not isinstance(argument, (Mapping, bool)):
            return _ask
        part = self.part(argument, depth + 1)

        def check(value: Any, left: List[int]) -> bool:
            if type(value) is not list:
                return type(value) in _JSON
            left[0] -= 1 + len(value)
            if left[0] < 0:
                return False
            for item in value:
                if not part(item, left):
                    return False
            return True

        return check

    def _any_of(self, argument: Any, depth: int) -> Part:
        if not isinstance(argument, list) or not argument:
            return _ask
        branches = [self.part(item, depth + 1) for item in argument]

        def check(value: Any, left: List[int]) -> bool:
            for branch in branches:
                left[0] -= 1
                if left[0] < 0:
                    return False
                if branch(value, left):
                    return True
            return False

        return check


def _every(parts: List[Part]) -> Part:
    def check(value: Any, left: List[int]) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        for part in parts:
            if not part(value, left):
                return False
        return True

    return check

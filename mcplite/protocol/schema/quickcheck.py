"""A quick verdict on simple JSON Schemas, compiled to Python; jsonschema decides the rest.

A check answers True (certainly valid), False (certainly invalid) or None (ask jsonschema). It knows
the keywords of ordinary argument schemas and says None whenever a schema says more.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from .ecma import python_pattern

__all__ = [
    "Check", "JSON", "KEYWORDS", "MATCHED_SUBJECT", "Part", "TooMuch", "anything", "ask", "compile_check", "is_multiple",
]

#: The check of a part of a schema: True (valid), False (invalid) or None (ask jsonschema). The list's only
#: item is how many steps may still be taken.
Part = Callable[[Any, List[int]], Optional[bool]]
#: Longer texts are not matched here: jsonschema's side counts what that costs (SEC-78).
MATCHED_SUBJECT = 256
#: Larger integers can be made to have the same hash, so they are not put into sets.
_SMALL = 1 << 60


class TooMuch(Exception):
    """The verdict takes too many steps."""


def anything(value: Any, left: List[int]) -> Optional[bool]:
    return True


def ask(value: Any, left: List[int]) -> Optional[bool]:
    return None


#: The classes of parsed JSON. For others, such as their subclasses, the result is uncertain.
JSON: FrozenSet[Any] = frozenset({str, int, float, bool, type(None), list, dict})
_TYPES: Dict[str, FrozenSet[Any]] = {
    "string": frozenset({str}), "number": frozenset({int, float}), "integer": frozenset({int}),
    "boolean": frozenset({bool}), "null": frozenset({type(None)}), "array": frozenset({list}), "object": frozenset({dict}),
}


def _type(argument: Any) -> Part:
    names = argument if isinstance(argument, list) else [argument]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return ask
    allowed = frozenset().union(*(_TYPES[name] for name in names))
    # 1.0 is an integer (SEC-84).
    whole = "integer" in names and float not in allowed

    def check(value: Any, left: List[int]) -> Optional[bool]:
        kind = type(value)
        if kind in allowed:
            return True
        if whole and kind is float:
            return bool(value.is_integer())
        return False if kind in JSON else None

    return check


def _scalar(value: Any) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def _same(left: Any, right: Any) -> bool:
    # JSON's true is not 1.
    return bool(left == right) and (type(left) is bool) == (type(right) is bool)


def _enum(argument: Any) -> Part:
    if not isinstance(argument, list) or not all(_scalar(item) for item in argument):
        return ask
    texts = frozenset(item for item in argument if type(item) is str)
    others = tuple(item for item in argument if type(item) is not str)

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if type(value) is str:
            return value in texts
        if not _scalar(value):
            return False if type(value) in JSON else None
        left[0] -= len(others)
        if left[0] < 0:
            raise TooMuch
        return any(_same(value, item) for item in others)

    return check


def _bound(test: Callable[[Any, Any], Any]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) not in (int, float):
            return ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            kind = type(value)
            if kind is int or kind is float:
                return test(value, argument)  # type: ignore[no-any-return]
            return True if kind in JSON else None

        return check

    return make


def _length(kind: Any, test: Callable[[Any, Any], Any]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) is not int:
            return ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is kind:
                return test(len(value), argument)  # type: ignore[no-any-return]
            return True if type(value) in JSON else None

        return check

    return make


def is_multiple(value: Any, divisor: Any) -> bool:
    """Whether a number is a multiple of another one, by the decimal values that both have in JSON: 19.99 is one of 0.01.

    No multiple is a value that is no finite number.
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
    if type(argument) not in (int, float) or not argument > 0:
        return ask

    def check(value: Any, left: List[int]) -> Optional[bool]:
        kind = type(value)
        if kind is int or kind is float:
            return is_multiple(value, argument)
        return True if kind in JSON else None

    return check


def _unique(argument: Any) -> Part:
    if not isinstance(argument, bool):
        return ask

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if not argument or type(value) is not list:
            return True if type(value) in JSON else None
        left[0] -= len(value)
        if left[0] < 0:
            raise TooMuch
        for item in value:
            if not _scalar(item) or type(item) is int and not -_SMALL < item < _SMALL:
                return None
        return len({(type(item) is bool, item) for item in value}) == len(value)

    return check


def _pattern(argument: Any) -> Part:
    try:
        search = re.compile(python_pattern(argument)).search
    except (TypeError, re.error, RecursionError, OverflowError):
        return ask

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if type(value) is not str:
            return True if type(value) in JSON else None
        return search(value) is not None if len(value) <= MATCHED_SUBJECT else None

    return check


#: By keyword: makes the check from the keyword's argument.
KEYWORDS: Dict[str, Callable[[Any], Part]] = {
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


Check = Callable[[Any], Optional[bool]]
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
    :param longest: returns the characters of a text that a pattern may be matched against. A pattern for shorter texts than
        are matched here is left to jsonschema's side; None leaves none.
    """
    try:
        part = _Compiler(schema, draft7, longest).part(schema, 0)
    except RecursionError:
        return lambda value: None

    def check(value: Any) -> Optional[bool]:
        try:
            return part(value, [_MAX_STEPS])
        except (TooMuch, RecursionError):
            return None

    return check


# The loop over answers of three values stands in each check below: shared, by way of a generator, it takes
# more than twice as long for a list of numbers.


class _Compiler:
    """The state that the parts of one schema share while they are compiled."""

    def __init__(self, root: Any, draft7: bool, longest: Optional[Callable[[str], int]]) -> None:
        self.root = root
        self.draft7 = draft7
        self.longest = longest
        #: The parts that references name; None while one of them is compiled, which may refer to itself.
        self.named: Dict[str, Optional[Part]] = {}

    def part(self, schema: Any, depth: int) -> Part:
        if schema is True or schema == {} and isinstance(schema, dict):
            return anything
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return ask
        parts: List[Part] = []
        if self.draft7 and "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        members = not _MEMBERS.isdisjoint(schema)
        only = members and schema.get("type") == "object"
        for keyword, argument in schema.items():
            if keyword in _NOTES or keyword in _MEMBERS or keyword.startswith("x-") or only and keyword == "type":
                continue
            if schema is self.root and keyword in _TOP_NOTES:
                continue
            part = self._keyword(keyword, argument, depth)
            if part is ask:
                return ask
            parts.append(part)
        if members:
            parts.append(self._members(schema, depth, not only))
        return parts[0] if len(parts) == 1 else _every(parts)

    def _keyword(self, keyword: str, argument: Any, depth: int) -> Part:
        if keyword == "$ref":
            return self._reference(argument, depth)
        if keyword == "items":
            return self._items(argument, depth)
        if keyword == "anyOf":
            return self._any_of(argument, depth)
        if keyword == "pattern" and self.longest is not None and isinstance(argument, str) and (
                self.longest(argument) < MATCHED_SUBJECT):
            return ask
        make = KEYWORDS.get(keyword)
        return ask if make is None else make(argument)

    def _reference(self, argument: Any, depth: int) -> Part:
        found = re.fullmatch(_REFERENCE, argument) if isinstance(argument, str) else None
        place = self.root.get(found.group(1)) if found is not None else None
        if found is None or not isinstance(place, Mapping) or found.group(2) not in place:
            return ask
        name = found.group(0)
        named = self.named
        if name not in named:
            named[name] = None
            # A part of its own, so it may be as deep as the whole.
            named[name] = self.part(place[found.group(2)], 0) if len(named) <= 200 else ask
        known = named[name]
        if known is not None:
            return known

        def check(value: Any, left: List[int]) -> Optional[bool]:
            part = named[name]
            left[0] -= 1
            if left[0] < 0:
                raise TooMuch
            return None if part is None else part(value, left)

        return check

    def _members(self, schema: Mapping[str, Any], depth: int, others: bool) -> Part:
        """Return the check of an object's members.

        :param others: whether values that are not objects are valid.
        """
        properties, required = schema.get("properties", {}), schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not isinstance(more, (bool, Mapping)):
            return ask
        parts = {name: self.part(item, depth + 1) for name, item in properties.items()}
        rest = None if isinstance(more, bool) else self.part(more, depth + 1)
        closed = more is False
        needed = tuple(name for name in required if isinstance(name, str))
        if len(needed) < len(required):
            return ask
        cost = 1 + len(needed)

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is not dict:
                return others if type(value) in JSON else None
            left[0] -= cost + len(value)
            if left[0] < 0:
                raise TooMuch
            for name in needed:
                if name not in value:
                    return False
            verdict: Optional[bool] = True
            for name, item in value.items():
                part = parts.get(name, rest)
                if part is None:
                    if closed:
                        return False
                    continue
                answer = part(item, left)
                if answer is False:
                    return False
                if answer is None:
                    verdict = None
            return verdict

        return check

    def _items(self, argument: Any, depth: int) -> Part:
        if not isinstance(argument, (Mapping, bool)):
            return ask
        part = self.part(argument, depth + 1)

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is not list:
                return True if type(value) in JSON else None
            left[0] -= 1 + len(value)
            if left[0] < 0:
                raise TooMuch
            verdict: Optional[bool] = True
            for item in value:
                answer = part(item, left)
                if answer is False:
                    return False
                if answer is None:
                    verdict = None
            return verdict

        return check

    def _any_of(self, argument: Any, depth: int) -> Part:
        if not isinstance(argument, list) or not argument:
            return ask
        branches = [self.part(item, depth + 1) for item in argument]

        def check(value: Any, left: List[int]) -> Optional[bool]:
            verdict: Optional[bool] = False
            for branch in branches:
                left[0] -= 1
                if left[0] < 0:
                    raise TooMuch
                answer = branch(value, left)
                if answer:
                    return True
                if answer is None:
                    verdict = None
            return verdict

        return check


def _every(parts: List[Part]) -> Part:
    def check(value: Any, left: List[int]) -> Optional[bool]:
        left[0] -= 1
        if left[0] < 0:
            raise TooMuch
        verdict: Optional[bool] = True
        for part in parts:
            answer = part(value, left)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    return check

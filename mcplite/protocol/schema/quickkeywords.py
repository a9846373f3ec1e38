"""Quick checks for the JSON Schema keywords that look at one value and not into it."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from .ecma import python_pattern

__all__ = ["JSON", "KEYWORDS", "MATCHED_SUBJECT", "Part", "TooMuch", "anything", "ask", "is_multiple"]

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


def _const(argument: Any) -> Part:
    return _enum([argument])


def _bound(test: Callable[[Any, Any], bool]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) not in (int, float):
            return ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            kind = type(value)
            if kind is int or kind is float:
                return test(value, argument)
            return True if kind in JSON else None

        return check

    return make


def _length(kind: Any, test: Callable[[int, int], bool]) -> Callable[[Any], Part]:
    def make(argument: Any) -> Part:
        if type(argument) is not int:
            return ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is kind:
                return test(len(value), argument)
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
    "const": _const,
    "minimum": _bound(lambda value, bound: bool(value >= bound)),
    "maximum": _bound(lambda value, bound: bool(value <= bound)),
    "exclusiveMinimum": _bound(lambda value, bound: bool(value > bound)),
    "exclusiveMaximum": _bound(lambda value, bound: bool(value < bound)),
    "minLength": _length(str, lambda length, bound: length >= bound),
    "maxLength": _length(str, lambda length, bound: length <= bound),
    "minItems": _length(list, lambda length, bound: length >= bound),
    "maxItems": _length(list, lambda length, bound: length <= bound),
    "minProperties": _length(dict, lambda length, bound: length >= bound),
    "maxProperties": _length(dict, lambda length, bound: length <= bound),
    "pattern": _pattern,
    "multipleOf": _multiple,
    "uniqueItems": _unique,
}

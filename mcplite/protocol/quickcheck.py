"""A quick verdict on simple JSON Schemas, compiled to Python; jsonschema decides the rest.

May import: nothing of ours.

A check answers True (certainly valid), False (certainly invalid) or None (ask jsonschema). It knows
the keywords of ordinary argument schemas and says None whenever a schema says more.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, Optional

__all__ = ["Check", "compile_check"]

Check = Callable[[Any], Optional[bool]]
#: Keywords that say nothing about validity.
_NOTES = frozenset({"title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly",
                    "writeOnly", "format", "$defs", "definitions", "contentEncoding", "contentMediaType"})
_MAX_DEPTH = 20
#: Longer texts are not matched here: jsonschema's side says why not (SEC-78).
_MAX_SUBJECT = 8 << 10


def compile_check(schema: Any, root: Optional[Mapping[str, Any]] = None, depth: int = 0) -> Check:
    """Return the check of one schema."""
    if schema is True or schema == {}:
        return lambda value: True
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return _ask
    root = schema if root is None else root
    parts: List[Check] = []
    for keyword, argument in schema.items():
        if keyword in _NOTES or keyword.startswith("x-") or keyword in ("properties", "required", "additionalProperties"):
            continue
        make = _KEYWORDS.get(keyword)
        if make is None:
            return _ask
        parts.append(make(argument, root, depth))
    if "properties" in schema or "required" in schema or "additionalProperties" in schema:
        parts.append(_members(schema, root, depth))
    if len(parts) == 1:
        return parts[0]
    return _every(parts)


def _ask(value: Any) -> Optional[bool]:
    return None


def _every(parts: List[Check]) -> Check:
    def check(value: Any) -> Optional[bool]:
        verdict: Optional[bool] = True
        for part in parts:
            answer = part(value)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    return check


def _is_integer(value: Any) -> bool:
    kind = type(value)
    return kind is int or (kind is float and value.is_integer())


_TYPES: Dict[str, Callable[[Any], bool]] = {
    "string": lambda value: type(value) is str,
    "number": lambda value: type(value) in (int, float),
    "integer": _is_integer,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}


def _type(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    names = argument if isinstance(argument, list) else [argument]
    tests = [_TYPES.get(name) for name in names if isinstance(name, str)]
    if len(tests) != len(names) or None in tests:
        return _ask
    if len(tests) == 1:
        return tests[0] or _ask
    return lambda value: any(test(value) for test in tests if test is not None)


def _scalar(value: Any) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def _same(left: Any, right: Any) -> bool:
    # JSON's true is not 1.
    return bool(left == right) and (type(left) is bool) == (type(right) is bool)


def _enum(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    if not isinstance(argument, list) or not all(_scalar(item) for item in argument):
        return _ask
    return lambda value: any(_same(value, item) for item in argument) if _scalar(value) else False


def _const(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    return _enum([argument], root, depth)


def _bound(test: Callable[[Any, Any], bool]) -> Callable[[Any, Mapping[str, Any], int], Check]:
    def make(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
        if type(argument) not in (int, float):
            return _ask
        return lambda value: test(value, argument) if type(value) in (int, float) else True

    return make


def _length(kind: Any, test: Callable[[int, int], bool]) -> Callable[[Any, Mapping[str, Any], int], Check]:
    def make(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
        if type(argument) is not int:
            return _ask
        return lambda value: test(len(value), argument) if type(value) is kind else True

    return make


def _items(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    if not isinstance(argument, (Mapping, bool)):
        return _ask
    each = compile_check(argument, root, depth + 1)

    def check(value: Any) -> Optional[bool]:
        if type(value) is not list:
            return True
        verdict: Optional[bool] = True
        for item in value:
            answer = each(item)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    return check


def _pattern(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    try:
        search = re.compile(argument).search
    except (TypeError, re.error, RecursionError, OverflowError):
        return _ask

    def check(value: Any) -> Optional[bool]:
        if type(value) is not str:
            return True
        return search(value) is not None if len(value) <= _MAX_SUBJECT else None

    return check


def _multiple(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    if type(argument) is not int or argument <= 0:
        return _ask
    # With fractions the answer depends on how the division is done.
    return lambda value: value % argument == 0 if type(value) is int else None if type(value) is float else True


def _unique(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    if not isinstance(argument, bool):
        return _ask

    def check(value: Any) -> Optional[bool]:
        if not argument or type(value) is not list:
            return True
        if not all(_scalar(item) for item in value):
            return None
        return len({(type(item) is bool, item) for item in value}) == len(value)

    return check


def _any_of(argument: Any, root: Mapping[str, Any], depth: int) -> Check:
    if not isinstance(argument, list) or not argument:
        return _ask
    branches = [compile_check(item, root, depth + 1) for item in argument]

    def check(value: Any) -> Optional[bool]:
        verdict: Optional[bool] = False
        for branch in branches:
            answer = branch(value)
            if answer:
                return True
            if answer is None:
                verdict = None
        return verdict

    return check


def _members(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Check:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    more = schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return _ask
    checks = {name: compile_check(item, root, depth + 1) for name, item in properties.items()}
    rest = compile_check(more, root, depth + 1) if isinstance(more, Mapping) else None
    closed = more is False

    def check(value: Any) -> Optional[bool]:
        if type(value) is not dict:
            return True
        for name in required:
            if name not in value:
                return False
        verdict: Optional[bool] = True
        for name, item in value.items():
            test = checks.get(name, rest)
            if test is None:
                if closed:
                    return False
                continue
            answer = test(item)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    return check


_KEYWORDS: Dict[str, Callable[[Any, Mapping[str, Any], int], Check]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _bound(lambda value, bound: value >= bound),
    "maximum": _bound(lambda value, bound: value <= bound),
    "exclusiveMinimum": _bound(lambda value, bound: value > bound),
    "exclusiveMaximum": _bound(lambda value, bound: value < bound),
    "minLength": _length(str, lambda length, bound: length >= bound),
    "maxLength": _length(str, lambda length, bound: length <= bound),
    "minItems": _length(list, lambda length, bound: length >= bound),
    "maxItems": _length(list, lambda length, bound: length <= bound),
    "minProperties": _length(dict, lambda length, bound: length >= bound),
    "maxProperties": _length(dict, lambda length, bound: length <= bound),
    "pattern": _pattern,
    "multipleOf": _multiple,
    "uniqueItems": _unique,
    "items": _items,
    "anyOf": _any_of,
}

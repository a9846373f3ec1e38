"""A quick verdict on simple JSON Schemas, compiled to Python; jsonschema decides the rest.

May import: nothing of ours.

A check answers True (certainly valid), False (certainly invalid) or None (ask jsonschema). It knows
the keywords of ordinary argument schemas and says None whenever a schema says more.
"""

import re
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional

__all__ = ["Check", "compile_check"]

Check = Callable[[Any], Optional[bool]]
#: The same for a part of a schema; the list's only item is how many steps may still be taken.
_Part = Callable[[Any, List[int]], Optional[bool]]

#: Keywords that say nothing about validity.
_NOTES = frozenset({"title", "description", "default", "examples", "$comment", "deprecated", "readOnly",
                    "writeOnly", "format", "$defs", "definitions", "contentEncoding", "contentMediaType"})
#: Those that say something about the whole schema only.
_TOP_NOTES = frozenset({"$schema", "$id"})
_MEMBERS = frozenset({"properties", "required", "additionalProperties"})
_REFERENCE = re.compile(r"#/(\$defs|definitions)/([^/~%]+)")
_MAX_DEPTH = 20
#: Steps of one verdict; well over what any message needs, and far below what alternatives within
#: alternatives could take (SEC-76).
_MAX_STEPS = 3_000_000
#: Longer texts are not matched here: jsonschema's side counts what that costs (SEC-78).
_MAX_SUBJECT = 256
#: Larger integers can be made to have the same hash, so they are not put into sets.
_SMALL = 1 << 60


class _TooMuch(Exception):
    """The verdict takes more steps than it may."""


def compile_check(schema: Any, *, draft7: bool = False, patterns: bool = True) -> Check:
    """Return the check of a schema.

    :param draft7: whether what stands beside a ``$ref`` is ignored.
    :param patterns: False when patterns are somebody else's, and so left to jsonschema's side.
    """
    try:
        part = _Compiler(schema, draft7, patterns).part(schema, 0)
    except RecursionError:
        return lambda value: None

    def check(value: Any) -> Optional[bool]:
        try:
            return part(value, [_MAX_STEPS])
        except (_TooMuch, RecursionError):
            return None

    return check


class _Compiler:
    """What the parts of one schema share while they are compiled."""

    def __init__(self, root: Any, draft7: bool, patterns: bool) -> None:
        self.root = root
        self.draft7 = draft7
        self.patterns = patterns
        #: The parts that references name; None while one of them is compiled, which may refer to itself.
        self.named: Dict[str, Optional[_Part]] = {}

    def part(self, schema: Any, depth: int) -> _Part:
        if schema is True or schema == {} and isinstance(schema, dict):
            return _anything
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return _ask
        parts: List[_Part] = []
        if self.draft7 and "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        for keyword, argument in schema.items():
            if keyword in _NOTES or keyword in _MEMBERS or keyword.startswith("x-"):
                continue
            if schema is self.root and keyword in _TOP_NOTES:
                continue
            make = _KEYWORDS.get(keyword)
            if make is None:
                return _ask
            parts.append(make(self, argument, depth))
        if not _MEMBERS.isdisjoint(schema):
            parts.append(self._members(schema, depth))
        return parts[0] if len(parts) == 1 else _every(parts)

    def _reference(self, argument: Any, depth: int) -> _Part:
        found = _REFERENCE.fullmatch(argument) if isinstance(argument, str) else None
        place = self.root.get(found.group(1)) if found is not None else None
        if found is None or not isinstance(place, Mapping) or found.group(2) not in place:
            return _ask
        name = found.group(0)
        named = self.named
        if name not in named:
            named[name] = None
            # A part of its own, so it may be as deep as the whole.
            named[name] = self.part(place[found.group(2)], 0) if len(named) <= 200 else _ask
        known = named[name]
        if known is not None:
            return known

        def check(value: Any, left: List[int]) -> Optional[bool]:
            part = named[name]
            left[0] -= 1
            if left[0] < 0:
                raise _TooMuch
            return None if part is None else part(value, left)

        return check

    def _members(self, schema: Mapping[str, Any], depth: int) -> _Part:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not isinstance(more, (bool, Mapping)):
            return _ask
        parts = {name: self.part(item, depth + 1) for name, item in properties.items()}
        rest = None if isinstance(more, bool) else self.part(more, depth + 1)
        closed = more is False
        needed = tuple(name for name in required if isinstance(name, str))
        if len(needed) < len(required):
            return _ask
        cost = 1 + len(needed)

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is not dict:
                return True if type(value) in _JSON else None
            left[0] -= cost + len(value)
            if left[0] < 0:
                raise _TooMuch
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

    def _items(self, argument: Any, depth: int) -> _Part:
        if not isinstance(argument, (Mapping, bool)):
            return _ask
        part = self.part(argument, depth + 1)

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is not list:
                return True if type(value) in _JSON else None
            left[0] -= 1 + len(value)
            if left[0] < 0:
                raise _TooMuch
            verdict: Optional[bool] = True
            for item in value:
                answer = part(item, left)
                if answer is False:
                    return False
                if answer is None:
                    verdict = None
            return verdict

        return check

    def _any_of(self, argument: Any, depth: int) -> _Part:
        if not isinstance(argument, list) or not argument:
            return _ask
        branches = [self.part(item, depth + 1) for item in argument]

        def check(value: Any, left: List[int]) -> Optional[bool]:
            verdict: Optional[bool] = False
            for branch in branches:
                left[0] -= 1
                if left[0] < 0:
                    raise _TooMuch
                answer = branch(value, left)
                if answer:
                    return True
                if answer is None:
                    verdict = None
            return verdict

        return check

    def _pattern(self, argument: Any, depth: int) -> _Part:
        if not self.patterns:
            return _ask
        try:
            search = re.compile(argument).search
        except (TypeError, re.error, RecursionError, OverflowError):
            return _ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is not str:
                return True if type(value) in _JSON else None
            return search(value) is not None if len(value) <= _MAX_SUBJECT else None

        return check


def _anything(value: Any, left: List[int]) -> Optional[bool]:
    return True


def _ask(value: Any, left: List[int]) -> Optional[bool]:
    return None


def _every(parts: List[_Part]) -> _Part:
    def check(value: Any, left: List[int]) -> Optional[bool]:
        left[0] -= 1
        if left[0] < 0:
            raise _TooMuch
        verdict: Optional[bool] = True
        for part in parts:
            answer = part(value, left)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    return check


#: The classes that JSON is read into. Of others, such as their subclasses, nothing is certain.
_JSON: FrozenSet[Any] = frozenset({str, int, float, bool, type(None), list, dict})
_TYPES: Dict[str, FrozenSet[Any]] = {
    "string": frozenset({str}), "number": frozenset({int, float}), "integer": frozenset({int}),
    "boolean": frozenset({bool}), "null": frozenset({type(None)}), "array": frozenset({list}), "object": frozenset({dict}),
}


def _type(compiler: _Compiler, argument: Any, depth: int) -> _Part:
    names = argument if isinstance(argument, list) else [argument]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return _ask
    allowed = frozenset().union(*(_TYPES[name] for name in names))
    # 1.0 is an integer (SEC-84).
    whole = "integer" in names and float not in allowed

    def check(value: Any, left: List[int]) -> Optional[bool]:
        kind = type(value)
        if kind in allowed:
            return True
        if whole and kind is float:
            return bool(value.is_integer())
        return False if kind in _JSON else None

    return check


def _scalar(value: Any) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def _same(left: Any, right: Any) -> bool:
    # JSON's true is not 1.
    return bool(left == right) and (type(left) is bool) == (type(right) is bool)


def _enum(compiler: _Compiler, argument: Any, depth: int) -> _Part:
    if not isinstance(argument, list) or not all(_scalar(item) for item in argument):
        return _ask
    texts = frozenset(item for item in argument if type(item) is str)
    others = tuple(item for item in argument if type(item) is not str)

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if type(value) is str:
            return value in texts
        if not _scalar(value):
            return False if type(value) in _JSON else None
        left[0] -= len(others)
        if left[0] < 0:
            raise _TooMuch
        return any(_same(value, item) for item in others)

    return check


def _const(compiler: _Compiler, argument: Any, depth: int) -> _Part:
    return _enum(compiler, [argument], depth)


def _bound(test: Callable[[Any, Any], bool]) -> Callable[[_Compiler, Any, int], _Part]:
    def make(compiler: _Compiler, argument: Any, depth: int) -> _Part:
        if type(argument) not in (int, float):
            return _ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            kind = type(value)
            if kind is int or kind is float:
                return test(value, argument)
            return True if kind in _JSON else None

        return check

    return make


def _length(kind: Any, test: Callable[[int, int], bool]) -> Callable[[_Compiler, Any, int], _Part]:
    def make(compiler: _Compiler, argument: Any, depth: int) -> _Part:
        if type(argument) is not int:
            return _ask

        def check(value: Any, left: List[int]) -> Optional[bool]:
            if type(value) is kind:
                return test(len(value), argument)
            return True if type(value) in _JSON else None

        return check

    return make


def _multiple(compiler: _Compiler, argument: Any, depth: int) -> _Part:
    if type(argument) is not int or argument <= 0:
        return _ask

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if type(value) is int:
            return bool(value % argument == 0)
        # With fractions the answer depends on how the division is done.
        return True if type(value) in _JSON and type(value) is not float else None

    return check


def _unique(compiler: _Compiler, argument: Any, depth: int) -> _Part:
    if not isinstance(argument, bool):
        return _ask

    def check(value: Any, left: List[int]) -> Optional[bool]:
        if not argument or type(value) is not list:
            return True if type(value) in _JSON else None
        left[0] -= len(value)
        if left[0] < 0:
            raise _TooMuch
        for item in value:
            if not _scalar(item) or type(item) is int and not -_SMALL < item < _SMALL:
                return None
        return len({(type(item) is bool, item) for item in value}) == len(value)

    return check


_KEYWORDS: Dict[str, Callable[[_Compiler, Any, int], _Part]] = {
    "$ref": _Compiler._reference,
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
    "pattern": _Compiler._pattern,
    "multipleOf": _multiple,
    "uniqueItems": _unique,
    "items": _Compiler._items,
    "anyOf": _Compiler._any_of,
}

"""A quick verdict on simple JSON Schemas, compiled to Python; jsonschema decides the rest.

A check answers True (certainly valid), False (certainly invalid) or None (ask jsonschema). It knows
the keywords of ordinary argument schemas and says None whenever a schema says more.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional

from .quickkeywords import JSON, KEYWORDS, MATCHED_SUBJECT, Part, TooMuch, anything, ask

__all__ = ["Check", "compile_check"]

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



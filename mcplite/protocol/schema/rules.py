"""Checks of a JSON Schema before its first use: its size, its dialect and its references; and the forms of an output schema.

Its validity under the dialect's own schema is checked in :mod:`.validation`. The output schema of a value that is no object
is the schema of ``{"result": value}``; the references in it are changed to the new places.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ...errors import RegistrationError
from .ecma import problem_of, python_pattern
from .patterns import MAX_PATTERN, longest_subject
from .references import MAPS, BadURI, Outside, References, below, rebuilt

_MAX_BYTES = 256 << 10
_MAX_DEPTH = 64
_MAX_PARTS = 10_000
#: Properties of Unicode in a peer's patterns, each a set of hundreds of ranges.
_MAX_PROPERTIES = 20
_NEWEST = "https://json-schema.org/draft/2020-12/schema"
_DRAFT7 = "http://json-schema.org/draft-07/schema"
#: Keywords whose schemas are applied to the value that the schema itself is applied to.
_IN_PLACE = frozenset({"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
_DIALECT = r"https?://json-schema\.org/(?:draft/2020-12|(draft-07))/schema#?"


def is_draft7(schema: Mapping[str, Any], what: str = "schema") -> bool:
    """Whether a schema is of draft-07; otherwise, or without ``$schema``, it is of 2020-12 (JSCH-01).

    :raises RegistrationError: it names another dialect (JSCH-04).
    """
    named = schema.get("$schema")
    if named is None:
        return False
    found = re.fullmatch(_DIALECT, named) if isinstance(named, str) else None
    if found is None:
        raise RegistrationError(f"{what}: the JSON Schema dialect {str(named)[:200]!r} is not supported;"
                                f" use 2020-12 (or leave $schema out) or draft-07")
    return found.group(1) is not None


def check_rules(schema: Any, what: str, trusted: bool) -> None:
    """Check that *schema* is within the limits, of a supported dialect, and refers only to itself.

    :param what: its name in errors.
    :param trusted: False refuses patterns that could run for hours (SEC-78); True refuses patterns that are not ECMA-262.
    :raises RegistrationError: a check fails.
    """
    if not isinstance(schema, dict):
        raise RegistrationError(f"{what}: a JSON Schema is an object, not {type(schema).__name__}")
    draft7 = is_draft7(schema, what)
    _check_size(schema, what)
    _Rules(schema, what, draft7, trusted).check()


def _check_size(schema: Dict[str, Any], what: str) -> None:
    parts = 0
    level: List[Any] = [schema]
    for _ in range(_MAX_DEPTH):
        below: List[Any] = []
        for item in level:
            if isinstance(item, dict):
                parts += 1
                below.extend(item.values())
                if not all(isinstance(key, str) for key in item):
                    raise RegistrationError(f"{what}: it is not JSON: the names of members must be strings")
            elif isinstance(item, list):
                below.extend(item)
        # Lists are counted too: one that contains itself twice would double with each level.
        if parts > _MAX_PARTS or len(below) > _MAX_BYTES:
            raise RegistrationError(f"{what}: it has more than {_MAX_PARTS} parts; describe less, or share parts"
                                    f" under $defs")
        level = below
        if not level:
            break
    if any(isinstance(item, (dict, list)) for item in level):
        raise RegistrationError(f"{what}: it is nested more than {_MAX_DEPTH} levels deep, or contains itself;"
                                f" put parts under $defs and refer to them")
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        raise RegistrationError(f"{what}: it is not JSON: {error}") from error
    if size > _MAX_BYTES:
        raise RegistrationError(f"{what}: it has {size} bytes; at most {_MAX_BYTES} are possible")


class _Rules:
    """One walk through a schema and all that its references reach."""

    def __init__(self, schema: Dict[str, Any], what: str, draft7: bool, trusted: bool) -> None:
        self._root = schema
        self._what = what
        self._draft7 = draft7
        self._trusted = trusted
        self._references: References
        self._seen: Dict[int, Any] = {}
        #: Schemas that are not checked yet, each with the base URI of its references.
        self._waiting: List[Tuple[Any, str]] = []
        #: By the identity of a schema: the parts that its references refer to.
        self._targets: Dict[int, List[Any]] = {}
        self._properties = 0

    def check(self) -> None:
        try:
            self._references = References(self._root, self._draft7, self._draft7)
            self._waiting = [(self._root, "")]
            while self._waiting:
                node, base = self._waiting.pop()
                if isinstance(node, dict) and id(node) not in self._seen:
                    self._seen[id(node)] = node
                    base = self._references.base(node, base)
                    self._check_node(node, base)
                    self._waiting.extend((child, base) for child in below(node))
        except BadURI as error:
            raise self._refuse(str(error)) from error
        self._check_ends()

    def _check_ends(self) -> None:
        """Refuse a schema that applies itself again to the value that it is applied to: the check would never end."""
        done: Dict[int, bool] = {}  # False while the parts of a schema are followed
        path: List[Tuple[int, Iterator[Any]]] = []
        for start in [self._seen[key] for key in self._targets]:
            node = start
            while True:
                if isinstance(node, dict) and id(node) not in done:
                    done[id(node)] = False
                    path.append((id(node), self._applied(node)))
                elif not done.get(id(node), True):
                    raise self._refuse("it refers to itself without going down into the value, so that no check would end;"
                                       " put the reference under properties or items")
                while path and (node := next(path[-1][1], None)) is None:
                    done[path.pop()[0]] = True
                if not path:
                    break

    def _applied(self, node: Dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that *node* applies to the value that it is applied to itself."""
        yield from self._targets.get(id(node), ())
        if self._draft7 and "$ref" in node:
            return  # in draft-07 a reference hides the keywords beside it
        for keyword in _IN_PLACE.intersection(node):
            parts = node[keyword]
            yield from parts if isinstance(parts, list) else parts.values() if keyword == "dependentSchemas" else (parts,)

    def _refuse(self, reason: str) -> RegistrationError:
        return RegistrationError(f"{self._what}: {reason}")

    def _check_node(self, node: Dict[str, Any], base: str) -> None:
        if "$schema" in node and is_draft7(node, self._what) != self._draft7:
            raise self._refuse("parts of it name another JSON Schema dialect than the whole")
        for keyword in ("$ref",) if self._draft7 else ("$ref", "$dynamicRef"):
            if isinstance(node.get(keyword), str):
                self._targets.setdefault(id(node), []).append(self._resolve(node[keyword], base))
        for pattern in _own_patterns(node):
            self._check_pattern(pattern)

    def target(self, reference: str) -> Tuple[Any, bool]:
        """Return the part that a reference at the top refers to, and whether the references of both have one base URI.

        The part is None if the reference is to a dialect's own schema.

        :raises RegistrationError: it refers to nothing here.
        """
        try:
            self._references = References(self._root, self._draft7, self._draft7)
            base = self._references.base(self._root, "")
            self._resolve(reference, base)
        except BadURI as error:
            raise self._refuse(str(error)) from error
        if not self._waiting:
            return None, False
        target, found = self._waiting.pop()
        return target, found in ("", base)

    def _resolve(self, reference: str, base: str) -> Any:
        """Return the part that a reference refers to, and queue it for its check; True for a dialect's own schema."""
        try:
            target, base = self._references.find(reference, base)
        except Outside as error:
            if error.uri in (_NEWEST, _DRAFT7) and not error.fragment:
                return True  # the validator brings this schema
            raise RegistrationError(f"{self._what}: {reference[:200]!r} refers to something outside the schema, which is"
                                    f" never fetched; put it under $defs") from None
        if not isinstance(target, (dict, bool)):
            raise RegistrationError(f"{self._what}: {reference[:200]!r} refers to no part of the schema")
        self._waiting.append((target, base))
        return target

    def _check_pattern(self, pattern: str) -> None:
        if self._trusted:
            problem = problem_of(pattern)
            if problem:
                raise self._refuse(f"{pattern[:100]!r} is not a regular expression of JSON Schema (ECMA-262) that can be"
                                   f" matched here: {problem}")
            return
        self._properties += pattern.lower().count(r"\p")
        safe = len(pattern) <= MAX_PATTERN and self._properties <= _MAX_PROPERTIES
        try:
            if safe:
                re.compile(python_pattern(pattern))
        except (re.error, RecursionError, OverflowError, Warning) as error:
            raise self._refuse(f"{pattern[:100]!r} is not a pattern that Python's re can match: {error}") from error
        if not (safe and longest_subject(pattern)):
            raise self._refuse(f"the pattern {pattern[:100]!r} is too long, or could be matched for hours: something that"
                               f" repeats overlaps with what it contains or what follows")


def patterns_in(schema: Any) -> List[str]:
    """Return the patterns in a schema and its subschemas, for texts and for names."""
    found: List[str] = []
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.extend(_own_patterns(node))
            waiting.extend(below(node))
    return found


def _own_patterns(node: Dict[str, Any]) -> Iterator[str]:
    if isinstance(node.get("pattern"), str):
        yield node["pattern"]
    if isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"]


def target_of(schema: Dict[str, Any], reference: Any) -> Tuple[Any, bool]:
    """Return the part of a schema that a reference at its top refers to; None for a dialect's own schema, or if it is no text.

    The second value is whether references in that part have the base URI of those at the top.

    :raises RegistrationError: it refers to no part of the schema.
    """
    if not isinstance(reference, str):
        return None, False
    return _Rules(schema, "schema", is_draft7(schema), True).target(reference)


def with_names(schema: Any, translate: Callable[[str], str]) -> Any:
    """Return a copy of *schema* with the patterns of ``patternProperties`` as *translate* returns them.

    Parts that only references reach keep their patterns.
    """
    def renamed(node: Dict[str, Any]) -> Dict[str, Any]:
        named = node.get("patternProperties")
        if isinstance(named, dict):
            node["patternProperties"] = {translate(name): part for name, part in named.items()}
        return node

    return rebuilt(schema, renamed)


_PLACE = "#/properties/result"
#: The keywords that stay at the top level, where most references point.
_SHARED = ("$defs", "definitions")
#: Keywords with data, in which nothing is a reference.
_DATA = frozenset({"const", "default", "enum", "examples"})
#: The keywords that may stand beside a reference without changing what is valid.
_NOTES = frozenset({"$comment", "$defs", "$id", "$schema", "definitions", "description", "title"})


def as_object(schema: Dict[str, Any], steps: int = 20) -> Optional[Dict[str, Any]]:
    """Return *schema* with ``"type": "object"`` at its top; None if it does not say that its values are objects.

    A schema that is a reference to such a schema says so, too. If the meaning stays, the reference is replaced by the schema
    that it refers to.

    :param steps: how many references are followed at most, from one to the next.
    """
    kind = schema.get("type")
    if "$ref" not in schema or kind == "object":
        return schema if kind == "object" else {**schema, "type": "object"} if kind == ["object"] else None
    try:
        target, same_base = target_of(schema, schema["$ref"])
        shared = {key: schema[key] for key in (*_SHARED, "$schema") if key in schema}
        found = as_object({**shared, **target}, steps - 1) if isinstance(target, dict) and steps else None
    except RegistrationError:
        return None  # it refers to nothing
    if found is None:
        return None
    if not same_base or "$id" in target or "$anchor" in target or "$dynamicAnchor" in target or (
            schema.keys() - _NOTES - {"$ref"} and not is_draft7(schema)):
        return {**schema, "type": "object"}
    return {**found, **{key: value for key, value in schema.items() if key in _NOTES}}


def in_result(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return the schema of ``{"result": value}``, where *schema* is that of the value.

    A schema with an id is put there as it is, since its references are relative to the id. Otherwise its definitions stay at
    the top level, and references to other places are changed to the new places.
    """
    outer: Dict[str, Any] = {"type": "object", "properties": {}, "required": ["result"]}
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    if "$schema" in schema:
        outer["$schema"] = schema["$schema"]
    if not _has_id(schema):
        inner = _moved(inner)
        for key in _SHARED:
            if key in inner:
                outer[key] = inner.pop(key)
    outer["properties"]["result"] = inner
    return outer


def _has_id(schema: Dict[str, Any]) -> bool:
    """Whether references within a schema are relative to an id of its own, and not to that of the whole."""
    own = schema.get("$id")
    return isinstance(own, str) and not own.startswith("#")


def _moved(node: Any) -> Any:
    """Return a part with its references changed for its new place."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict) or _has_id(node):
        return node
    made: Dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword in ("$ref", "$dynamicRef") and isinstance(value, str):
            value = _reference(value)
        elif keyword in MAPS and isinstance(value, dict):
            value = {name: _moved(item) for name, item in value.items()}
        elif keyword not in _DATA:
            value = _moved(value)
        made[keyword] = value
    return made


def _reference(text: str) -> str:
    from urllib.parse import unquote  # few schemas have references

    if text in ("", "#"):
        return _PLACE
    if not text.startswith("#/") or unquote(text[2:].partition("/")[0]) in _SHARED:
        return text  # to an anchor, to a part with an id, or to a definition, which stays where it was
    return _PLACE + text[1:]

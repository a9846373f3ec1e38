"""Validation against JSON Schemas of untrusted authors: bounded, and without any network access.

This module alone uses ``jsonschema``, which it imports on first use: ordinary schemas and values are accepted without it.
Dialects: 2020-12, also when a schema names none (JSCH-01), and draft-07; any other is refused (JSCH-04). ``format`` is an
annotation.

A schema of a few hundred bytes can double the work with each level, and an ordinary one can meet a value that was made to be
slow. So one validation has a budget of steps, of about 15 microseconds each (SEC-76).
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ...errors import RegistrationError
from ..error_text import json_words, missing_library
from .ecma import python_pattern
from .patterns import MAX_SUBJECT, longest_own_subject, longest_subject, unsafe_repeat
from .quickcheck import Check, compile_check, is_multiple
from .rules import check_rules, is_draft7, patterns_in, with_names

_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def is_wellformed(schema: Any) -> bool:
    """Whether a schema is certainly valid, in 2020-12 as well as in draft-07; False if jsonschema has to say.

    :param schema: within the limits of :func:`~.rules.check_rules`, which bound the recursion.
    """
    if type(schema) is not dict:
        return type(schema) is bool
    for keyword, argument in schema.items():
        holds = _KEYWORDS.get(keyword)
        if not (keyword.startswith("x-") if holds is None else holds(argument)):
            return False
    return True


def _anything(argument: Any) -> bool:
    return True


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda argument: type(argument) in kinds


def _count(argument: Any) -> bool:
    return type(argument) is int and argument >= 0


def _texts(argument: Any) -> bool:
    return type(argument) is list and all(type(item) is str for item in argument) and len(set(argument)) == len(argument)


def _type(argument: Any) -> bool:
    if type(argument) is list:
        return bool(argument) and _texts(argument) and _TYPES.issuperset(argument)
    return type(argument) is str and argument in _TYPES


def _schemas(argument: Any) -> bool:
    return type(argument) is list and bool(argument) and all(map(is_wellformed, argument))


def _named_schemas(argument: Any) -> bool:
    return type(argument) is dict and all(map(is_wellformed, argument.values()))


_text, _flag, _list, _number = _of(str), _of(bool), _of(list), _of(int, float)
#: By keyword: a test that both dialects allow its argument. A keyword that means something else in each of them
#: (``dependencies``), or that has rules for its text (``$id``, ``patternProperties``), is not here.
_KEYWORDS: Dict[str, Callable[[Any], bool]] = {
    "$schema": _text, "$ref": _text, "$comment": _text, "title": _text, "description": _text, "format": _text,
    "pattern": _text, "contentEncoding": _text, "contentMediaType": _text,
    "default": _anything, "const": _anything, "enum": _list, "examples": _list,
    "deprecated": _flag, "readOnly": _flag, "writeOnly": _flag, "uniqueItems": _flag,
    "minimum": _number, "maximum": _number, "exclusiveMinimum": _number, "exclusiveMaximum": _number,
    "multipleOf": lambda argument: _number(argument) and argument > 0,
    "minLength": _count, "maxLength": _count, "minItems": _count, "maxItems": _count, "minProperties": _count,
    "maxProperties": _count,
    "type": _type, "required": _texts,
    "items": is_wellformed, "additionalProperties": is_wellformed, "propertyNames": is_wellformed, "contains": is_wellformed,
    "not": is_wellformed, "if": is_wellformed, "then": is_wellformed, "else": is_wellformed,
    "anyOf": _schemas, "allOf": _schemas, "oneOf": _schemas,
    "properties": _named_schemas, "$defs": _named_schemas, "definitions": _named_schemas,
}


_MAX_PROBLEMS = 10
_MAX_STEPS = 50_000
_MAX_LEVELS = 200
#: Characters of the longest name of a member that is matched against patterns.
_MAX_NAME = 256
#: The steps that count for a match of the longest text that a pattern may get; it takes about a tenth of a second.
_PATTERN_STEPS = 6_000


def check_schema(schema: Any, *, what: str, trusted: bool = True) -> None:
    """Check that *schema* can be used (JSCH-04, JSCH-06, JSCH-08).

    :param what: its name in errors, such as "tool 'add': input_schema".
    :param trusted: False for a peer's schema, whose patterns could run for hours: those are refused.
    :raises RegistrationError: it is not a schema, too large, too deep, of another dialect, invalid, or refers
        to something outside of itself.
    """
    check_rules(schema, what, trusted)
    if is_wellformed(schema):
        return
    draft7 = is_draft7(schema)
    try:
        for error in _Engine(_dialect(draft7).META_SCHEMA, draft7, _unformatted).errors(schema):
            place = "/".join(str(step) for step in error.absolute_path)
            raise RegistrationError(f"{what}: it is not valid JSON Schema at {place[:200] or 'its top'}:"
                                    f" {_cut(error.message)}")
    except (RecursionError, OverflowError) as error:
        raise RegistrationError(f"{what}: it cannot be checked: {error}") from error


class Validator:
    """One schema, compiled on first use; any number of threads may use it at once.

    :param schema: a JSON Schema that :func:`check_schema` has accepted.
    :param trusted: False for a peer's schema. Patterns are matched only against texts so short that each takes a fraction of
        a second (SEC-78). If an author of this side has an unsafe pattern, its texts may have twenty characters.
    """

    def __init__(self, schema: Dict[str, Any], *, trusted: bool = True) -> None:
        self._schema = schema
        self._longest: Callable[[str], int] = longest_own_subject if trusted else longest_subject
        # Both are made on first use, perhaps by two threads at once; either result may stay.
        self._quick: Optional[Check] = None
        self._full: Optional[_Engine] = None
        self._names: List[str] = []

    def unsafe_patterns(self) -> List[Tuple[str, str]]:
        """Return the patterns that a text of some thirty characters could occupy for minutes, each with the reason."""
        judged = ((pattern, unsafe_repeat(pattern)) for pattern in patterns_in(self._schema))
        return [(pattern, reason) for pattern, reason in judged if reason]

    def trust_patterns(self) -> None:
        """Match all patterns, unsafe ones too, against texts of up to 8,192 characters; to be called before the first use."""
        self._longest = lambda pattern: MAX_SUBJECT

    def is_valid(self, instance: Any) -> bool:
        """Whether *instance* is valid; False if its validation was stopped."""
        return not self.problems(instance)

    def problems(self, instance: Any, name: str = "") -> List[str]:
        """Return at most ten problems as sentences; none if *instance* is valid.

        A validation that reaches one of its limits is stopped, as the last of the sentences then says: 50,000 steps, 200
        levels, or the length of a member's name for patterns. A text that is too long for its pattern is a problem itself.

        :param name: stands before each path, such as "arguments".
        """
        quick = self._quick or self._compile()
        return [] if quick(instance) else self._slow(instance, name)

    def _compile(self) -> Check:
        quick = self._quick = compile_check(self._schema, draft7=is_draft7(self._schema), longest=self._longest)
        return quick

    def _slow(self, instance: Any, name: str) -> List[str]:
        if self._full is None:
            schema = self._schema
            named = (part.get("patternProperties") for part in _objects(schema))
            self._names = [pattern for patterns in named if isinstance(patterns, dict) for pattern in patterns]
            # jsonschema matches names itself, with Python's re, so the patterns are translated for it. A reference to a part
            # under ``patternProperties`` needs the pattern as it is.
            if any(python_pattern(name) != name for name in self._names) and "/patternProperties/" not in json.dumps(schema):
                schema = with_names(schema, python_pattern)
            self._full = _Engine(schema, is_draft7(self._schema), _bounded(self._longest))
        found: List[str] = []
        try:
            most = min([_MAX_NAME, *map(self._longest, self._names)])
            if self._names and any(isinstance(key, str) and len(key) > most for part in _objects(instance) for key in part):
                raise BudgetExceeded(f"names of more than {most} characters are not matched against patterns")
            for error in self._full.errors(instance, Budget(len(self._names))):
                found.append(_sentence(error, name))
                if len(found) == _MAX_PROBLEMS:
                    break
        except BudgetExceeded as error:
            found.append(str(error))
        except RecursionError:
            found.append("the value or its schema is nested too deeply to be validated")
        except Exception as error:
            # jsonschema raises more than ValidationError (SEC-80): OverflowError, re.error, TypeError,
            # an unresolvable reference. With a schema that cannot be used nothing is valid (JSCH-11).
            found.append(f"the value cannot be validated: {type(error).__name__}: {str(error)[:200]}")
        return found


def _sentence(error: Any, name: str) -> str:
    path = name
    for step in error.absolute_path:
        if isinstance(step, str) and step.isidentifier():
            path += f".{step[:100]}" if path else step[:100]
        else:
            path += f"[{step!r:.100}]"
    text = _cut(json_words(error.message))
    if error.context:
        # "Not valid under any of the given schemas" alone does not say what to do.
        text += f" ({'; or '.join(_cut(json_words(inner.message), 100) for inner in error.context[:3])})"
    return f"{path}: {text}" if path else text


def _cut(text: str, size: int = 300) -> str:
    return text if len(text) <= size else f"{text[:size * 2 // 3]} ... {text[-size // 4:]}"


class _Engine:
    """A validator of jsonschema that never fetches, and that validates all subschemas itself.

    :param change: takes the dialect's functions by keyword, and returns the functions to use.
    """

    def __init__(self, schema: Any, draft7: bool, change: Callable[[Dict[str, Any]], Dict[str, Any]]) -> None:
        base: Any = _dialect(draft7)
        import jsonschema

        # extend() of older versions forgets that draft-07 ignores what stands beside a $ref.
        create: Callable[..., Any] = jsonschema.validators.create
        cls = create(base.META_SCHEMA, change({**base.VALIDATORS, "uniqueItems": _unique_items,
                                                      "multipleOf": _multiple_of}),
                     type_checker=base.TYPE_CHECKER, id_of=base.ID_OF, **{"applicable_validators": _alone} if draft7 else {})
        fields = [(field.name, getattr(field, "alias", None) or field.name.lstrip("_"))
                  for field in cls.__attrs_attrs__ if field.init]

        def evolve(self: Any, **changes: Any) -> Any:
            # The original takes another class for a subschema with a $schema, which would not count steps.
            for field, argument in fields:
                if argument not in changes:
                    changes[argument] = getattr(self, field)
            return cls(**changes)

        cls.evolve = evolve
        self._resolver: Optional[Callable[[], Any]] = None
        if any(field == "_registry" for field, _ in fields):
            from referencing import Registry

            self._validator = cls(schema, registry=Registry())
        else:
            # jsonschema before 4.18: the resolver remembers where it is, so each validation has its own.
            class Refusing(jsonschema.RefResolver):
                def resolve_remote(self, uri: str) -> Any:
                    raise jsonschema.RefResolutionError(f"{uri[:200]!r} is not fetched")

            self._resolver = lambda: Refusing.from_schema(schema, id_of=base.ID_OF)
            self._validator = cls(schema, resolver=self._resolver())

    def errors(self, instance: Any, budget: Optional[Budget] = None) -> Iterator[Any]:
        """Yield the errors that jsonschema finds in a value."""
        # The budget takes the field of the format checker, the one member that all versions hand down to
        # subschemas; formats are not checked.
        changes: Dict[str, Any] = {"format_checker": budget}
        if self._resolver is not None:
            changes["resolver"] = self._resolver()
        yield from self._validator.evolve(**changes).iter_errors(instance)


def _dialect(draft7: bool) -> Any:
    try:
        import jsonschema
    except ModuleNotFoundError as error:
        raise missing_library(error) or error from None

    return jsonschema.Draft7Validator if draft7 else jsonschema.Draft202012Validator


def _alone(schema: Mapping[str, Any]) -> Any:
    return [("$ref", schema["$ref"])] if "$ref" in schema else schema.items()


def _unformatted(keywords: Dict[str, Any]) -> Dict[str, Any]:
    return {keyword: check for keyword, check in keywords.items() if keyword != "format"}


def _bounded(longest: Callable[[str], int]) -> Callable[[Dict[str, Any]], Dict[str, Any]]:
    """Return a function that takes functions by keyword, and returns ones that count steps and limit texts for patterns."""

    def change(keywords: Dict[str, Any]) -> Dict[str, Any]:
        keywords = {**_unformatted(keywords), "pattern": _pattern(longest)}
        return {keyword: counted(keyword, check) for keyword, check in keywords.items()}

    return change


def _unique_items(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
    # The original compares all pairs of items, which takes seconds for a few thousand objects (SEC-77).
    if not argument or not isinstance(instance, list):
        return
    size = 0
    seen = set()
    for item in instance:
        key = json.dumps(_normal(item), sort_keys=True)
        size += len(key)
        if key in seen:
            yield _error(f"{_cut(repr(item), 100)} comes more than once")
            break
        seen.add(key)
    if validator.format_checker is not None:
        validator.format_checker.spend(size >> 10)


def _multiple_of(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, (int, float)) and not isinstance(instance, bool) and not is_multiple(instance, argument):
        yield _error(f"{_cut(repr(instance), 100)} is not a multiple of {argument!r}")


def _normal(value: Any) -> Any:
    """Return a key of a JSON value: equal values have equal keys, and other values have other keys."""
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Texts, since numbers can be chosen to have the same hash; hexadecimal is quick for long integers.
        return f"n{int(value):x}" if value == value // 1 else f"n{value!r}"
    return value


def _pattern(longest: Callable[[str], int]) -> Callable[..., Any]:
    known: Dict[str, Tuple[int, str]] = {}

    def check(validator: Any, argument: str, instance: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(instance, str):
            return
        found = known.get(argument)
        if found is None:
            found = known[argument] = longest(argument), python_pattern(argument)
        size, pattern = found
        if len(instance) > size:
            yield _error(f"a text of {len(instance)} characters is not matched against {_cut(repr(argument), 100)};"
                         f" at most {size} are")
            return
        validator.format_checker.spend(len(instance) ** 2 * _PATTERN_STEPS // (size * size or 1))
        if not re.search(pattern, instance):
            yield _error(f"{_cut(repr(instance), 200)} does not match {_cut(repr(argument), 100)}")

    return check


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


class BudgetExceeded(Exception):
    """A validation reached one of its limits; the text is for the user."""


class Budget:
    """The remaining steps of one validation.

    :param patterns: how many patterns for names the schema has; each may be tried with each name.
    """

    __slots__ = ("left", "levels", "patterns")

    def __init__(self, patterns: int) -> None:
        self.left = _MAX_STEPS
        self.levels = 0
        self.patterns = patterns

    def spend(self, steps: int) -> None:
        """Count steps.

        :raises BudgetExceeded: no steps are left.
        """
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"validation was stopped after {_MAX_STEPS} steps: the schema or the value is too complex")


def counted(keyword: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap jsonschema's function for a keyword, so that it spends steps of the budget.

    The budget travels as the validator's ``format_checker``, the only member that jsonschema hands down.
    """
    names = keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties")
    square = keyword in ("unevaluatedItems", "unevaluatedProperties")

    def run(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget: Budget = validator.format_checker
        steps = 1
        # A keyword walks a long list or object within one step.
        if isinstance(argument, (list, dict)):
            steps += len(argument) >> 4
        if isinstance(instance, (list, dict)):
            size = len(instance)
            steps += size >> 8
            if names:
                steps += size * budget.patterns >> 4
            if square:
                steps += size * size >> 10
        budget.spend(steps)
        budget.levels += 1
        try:
            if budget.levels > _MAX_LEVELS:
                raise BudgetExceeded(f"validation was stopped at {_MAX_LEVELS} levels: the schema or the value is too complex")
            for error in check(validator, argument, instance, schema) or ():
                # The message quotes the value, which takes time for a large one.
                budget.spend(len(error.message) >> 10)
                yield error
        finally:
            budget.levels -= 1

    return run


def _objects(value: Any) -> Iterator[Dict[Any, Any]]:
    """Yield all objects in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)

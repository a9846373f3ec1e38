"""Validation against JSON Schemas that somebody else may have written: bounded, and never fetching.

May import: errors, protocol.quickcheck

The only user of ``jsonschema``, which is imported on first use. Dialects: 2020-12, also when a schema
names none (JSCH-01), and draft-07; any other is refused (JSCH-04). ``format`` is an annotation.
"""

import json
import re
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ..errors import RegistrationError
from .quickcheck import Check, compile_check

__all__ = ["Validator", "check_schema"]

_MAX_BYTES = 256 << 10
_MAX_DEPTH = 64
_MAX_SUBSCHEMAS = 10_000
_MAX_STEPS = 50_000
_MAX_LEVELS = 200
_MAX_PATTERN = 512
_MAX_SUBJECT = 8 << 10
_MAX_PROBLEMS = 10
_DIALECTS = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
}


class _Exhausted(Exception):
    """A validation took more steps than it may."""


def _dialect(schema: Mapping[str, Any], what: str) -> str:
    named = schema.get("$schema")
    if named is None:
        return "Draft202012Validator"
    if isinstance(named, str):
        found = _DIALECTS.get(named.partition("://")[2].rstrip("#"))
        if found is not None:
            return found
    raise RegistrationError(f"{what}: the JSON Schema dialect {str(named)[:200]!r} is not supported;"
                            f" use 2020-12 (or leave $schema out) or draft-07")


def check_schema(schema: Any, *, what: str, trusted: bool = True) -> None:
    """Return when *schema* can be used (JSCH-04, JSCH-06, JSCH-08).

    :param what: how errors call it, such as "tool 'add': input_schema".
    :param trusted: False for a peer's schema, whose patterns could run for hours: those are refused.
    :raises RegistrationError: it is no schema, too large, too deep, of another dialect, invalid, or refers
        to something outside of itself.
    """
    if not isinstance(schema, dict):
        raise RegistrationError(f"{what}: a JSON Schema is an object, not {type(schema).__name__}")
    dialect = _dialect(schema, what)
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RegistrationError(f"{what}: it is not JSON: {error}") from error
    if len(text) > _MAX_BYTES:
        raise RegistrationError(f"{what}: it has {len(text)} bytes; at most {_MAX_BYTES} are possible")
    count = 0
    for depth, keyword, value in _walk(schema, 0):
        count += isinstance(value, dict)
        if depth > _MAX_DEPTH or count > _MAX_SUBSCHEMAS:
            raise RegistrationError(f"{what}: it is nested too deeply or has too many parts")
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
            _check_reference(schema, value, what)
        if not trusted and keyword == "pattern" and isinstance(value, str):
            _check_pattern(value, what)
        if not trusted and keyword == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _check_pattern(pattern, what)
    import jsonschema

    try:
        getattr(jsonschema, dialect).check_schema(schema)
    except jsonschema.SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise RegistrationError(f"{what}: it is not valid JSON Schema at {place or 'its top'}: {error.message[:300]}") from error
    except (RecursionError, re.error, OverflowError) as error:
        raise RegistrationError(f"{what}: it cannot be checked: {error}") from error


def _walk(value: Any, depth: int) -> Iterator[Tuple[int, str, Any]]:
    stack: List[Tuple[int, str, Any]] = [(depth, "", value)]
    while stack:
        level, keyword, item = stack.pop()
        yield level, keyword, item
        if isinstance(item, dict):
            stack.extend((level + 1, key, child) for key, child in item.items())
        elif isinstance(item, list):
            stack.extend((level + 1, "", child) for child in item)


def _check_reference(schema: Mapping[str, Any], reference: str, what: str) -> None:
    if not reference.startswith("#"):
        own = schema.get("$id")
        if not (isinstance(own, str) and reference.startswith(own)) and not _has_id(schema, reference):
            raise RegistrationError(f"{what}: {reference[:200]!r} refers to something outside of the schema, which is"
                                    f" never fetched; put it under $defs")
        return
    if reference == "#" or not reference.startswith("#/"):
        if reference != "#" and not _has_anchor(schema, reference[1:]):
            raise RegistrationError(f"{what}: {reference[:200]!r} refers to nothing in the schema")
        return
    target: Any = schema
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~").replace("%25", "%").replace("%22", '"')
        if isinstance(target, dict) and step in target:
            target = target[step]
        elif isinstance(target, list) and step.isdigit() and int(step) < len(target):
            target = target[int(step)]
        else:
            raise RegistrationError(f"{what}: {reference[:200]!r} refers to nothing in the schema")


def _has_anchor(schema: Any, name: str) -> bool:
    return any(keyword in ("$anchor", "$dynamicAnchor") and value == name for _, keyword, value in _walk(schema, 0)) \
        or _has_id(schema, "#" + name)


def _has_id(schema: Any, reference: str) -> bool:
    return any(keyword == "$id" and value == reference.partition("#")[0] for _, keyword, value in _walk(schema, 0)) \
        or any(keyword == "$id" and value == reference for _, keyword, value in _walk(schema, 0))


#: A group that repeats without bound and is repeated without bound itself, or two unbounded repeats
#: side by side of things that overlap: the shapes behind catastrophic backtracking (SEC-78).
_NESTED_REPEAT = re.compile(r"\([^()]*(?:[*+]|\{\d+,\d*\})[^()]*\)\s*(?:[*+]|\{\d+,\})")
_ALTERNATING_REPEAT = re.compile(r"\([^()]*\|[^()]*\)\s*(?:[*+]|\{\d+,\})")
_ADJACENT_REPEAT = re.compile(r"(\.|\\w|\\d|\\s|\[[^\]]*\]|[A-Za-z0-9])[*+](?:\??)(?:\1|\.|\\w)[*+]")


def _check_pattern(pattern: str, what: str) -> None:
    if len(pattern) > _MAX_PATTERN:
        raise RegistrationError(f"{what}: a pattern has more than {_MAX_PATTERN} characters")
    for shape in (_NESTED_REPEAT, _ALTERNATING_REPEAT, _ADJACENT_REPEAT):
        if shape.search(pattern):
            raise RegistrationError(f"{what}: the pattern {pattern[:100]!r} could take exponential time")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise RegistrationError(f"{what}: {pattern[:100]!r} is not a pattern: {error}") from error


class Validator:
    """One schema, compiled on first use; any number of threads may use it at once.

    :param schema: a JSON Schema that :func:`check_schema` has accepted.
    """

    def __init__(self, schema: Dict[str, Any]) -> None:
        self._schema = schema
        self._quick: Optional[Check] = None
        self._full: Any = None
        #: The steps and the depth of the validation that runs on this thread.
        self._state = threading.local()

    def is_valid(self, instance: Any) -> bool:
        """Whether *instance* fits; one whose validation had to be stopped does not."""
        return not self.problems(instance)

    def problems(self, instance: Any, name: str = "") -> List[str]:
        """Return what is wrong as sentences, at most ten; none when *instance* fits.

        :param name: stands before each path, such as "arguments".
        """
        if self._quick is None:
            self._quick = compile_check(self._schema)
        if self._quick(instance):
            return []
        return self._slow(instance, name)

    def _slow(self, instance: Any, name: str) -> List[str]:
        if self._full is None:
            self._full = _build(self._schema, self._state)
        state = self._state
        state.steps, state.depth = 0, 0
        found: List[str] = []
        try:
            for error in self._full.iter_errors(instance):
                found.append(_sentence(error, name))
                if len(found) == _MAX_PROBLEMS:
                    break
        except _Exhausted as error:
            found.append(str(error))
        except RecursionError:
            found.append("the value or its schema is nested too deeply to be validated")
        except Exception as error:
            # Not only ValidationError comes out of jsonschema (SEC-80): OverflowError, re.error, TypeError,
            # an unresolvable reference. A schema that cannot be used makes nothing valid (JSCH-11).
            found.append(f"the value cannot be validated: {type(error).__name__}: {str(error)[:200]}")
        return found


def _sentence(error: Any, name: str) -> str:
    path = name
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else (f".{step}" if path else str(step))
    message = error.message
    if len(message) > 300:
        message = message[:200] + " … " + message[-80:]
    return f"{path}: {message}" if path else message


def _build(schema: Dict[str, Any], state: threading.local) -> Any:
    import jsonschema

    base = getattr(jsonschema, _dialect(schema, "schema"))
    keywords = dict(base.VALIDATORS)
    keywords["uniqueItems"] = _unique_items
    keywords["pattern"] = _pattern
    counted = {keyword: _counted(check, state) for keyword, check in keywords.items()}
    extend: Callable[..., Any] = jsonschema.validators.extend
    cls = extend(base, counted)
    try:
        from referencing import Registry
    except ImportError:
        # jsonschema before 4.18: a resolver that refuses whatever is not in the schema itself.
        class Refusing(jsonschema.RefResolver):
            def resolve_remote(self, uri: str) -> Any:
                raise jsonschema.RefResolutionError(f"{uri[:200]!r} is not fetched")

        return cls(schema, resolver=Refusing.from_schema(schema, id_of=base.ID_OF))
    return cls(schema, registry=Registry())


def _counted(check: Callable[..., Any], state: threading.local) -> Callable[..., Any]:
    def run(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
        state.steps += 1
        state.depth += 1
        if state.steps > _MAX_STEPS or state.depth > _MAX_LEVELS:
            raise _Exhausted(f"validation was stopped after {state.steps} steps: the schema or the value is too complex")
        try:
            yield from check(validator, argument, instance, schema) or ()
        finally:
            state.depth -= 1

    return run


def _canonical(value: Any) -> Any:
    """Return a hashable form in which JSON-equal values are equal, and true is not 1."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if isinstance(value, list):
        return ("array", tuple(_canonical(item) for item in value))
    return ("object", frozenset((key, _canonical(item)) for key, item in value.items()))


def _unique_items(validator: Any, argument: Any, instance: Any, schema: Any) -> Iterator[Any]:
    # The original compares each item with each other one: seconds for a few thousand objects (SEC-77).
    if argument and isinstance(instance, list):
        seen = set()
        for item in instance:
            key = _canonical(item)
            if key in seen:
                yield _error(f"{str(item)[:100]} comes more than once")
                return
            seen.add(key)


def _pattern(validator: Any, argument: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str):
        if len(instance) > _MAX_SUBJECT:
            yield _error(f"a text of more than {_MAX_SUBJECT} characters is not matched against a pattern")
        elif not re.search(argument, instance):
            yield _error(f"{instance!r} does not match {argument!r}")


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)

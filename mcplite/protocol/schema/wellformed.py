"""A quick "yes" to whether a JSON Schema is valid under its dialect's own schema; jsonschema decides the rest.

:mod:`.validation` asks here first, so that ordinary schemas are accepted without loading ``jsonschema``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

__all__ = ["is_wellformed"]

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


def _text(argument: Any) -> bool:
    return type(argument) is str


def _flag(argument: Any) -> bool:
    return type(argument) is bool


def _list(argument: Any) -> bool:
    return type(argument) is list


def _number(argument: Any) -> bool:
    return type(argument) in (int, float)


def _positive(argument: Any) -> bool:
    return type(argument) in (int, float) and bool(argument > 0)


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


#: By keyword: whether its argument is one that both dialects allow. A keyword of which they say different things
#: (``dependencies``), or with rules for its text (``$id``, ``patternProperties``), is not here.
_KEYWORDS: Dict[str, Callable[[Any], bool]] = {
    "$schema": _text, "$ref": _text, "$comment": _text, "title": _text, "description": _text, "format": _text,
    "pattern": _text, "contentEncoding": _text, "contentMediaType": _text,
    "default": _anything, "const": _anything, "enum": _list, "examples": _list,
    "deprecated": _flag, "readOnly": _flag, "writeOnly": _flag, "uniqueItems": _flag,
    "minimum": _number, "maximum": _number, "exclusiveMinimum": _number, "exclusiveMaximum": _number,
    "multipleOf": _positive,
    "minLength": _count, "maxLength": _count, "minItems": _count, "maxItems": _count, "minProperties": _count,
    "maxProperties": _count,
    "type": _type, "required": _texts,
    "items": is_wellformed, "additionalProperties": is_wellformed, "propertyNames": is_wellformed, "contains": is_wellformed,
    "not": is_wellformed, "if": is_wellformed, "then": is_wellformed, "else": is_wellformed,
    "anyOf": _schemas, "allOf": _schemas, "oneOf": _schemas,
    "properties": _named_schemas, "$defs": _named_schemas, "definitions": _named_schemas,
}

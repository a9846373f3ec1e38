"""JSON Schema keywords in ``Annotated``: checked when the function is registered, enforced when arguments are bound."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

from ...errors import RegistrationError
from ...protocol.jsonrpc import encode_json
from ...protocol.schema.ecma import problem_of
from ...protocol.schema.validation import Validator, check_schema, is_wellformed
from .converters import Mismatch, Node
from .definitions import definition_json

#: Keywords that do not affect validity.
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "format", "readOnly", "writeOnly",
                    "contentEncoding", "contentMediaType", "$comment"})
#: Keywords that refer to or name schemas, and change their meaning inside a larger schema.
_ANCHORED = ("$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "$defs", "$schema", "$vocabulary")


#: What the value of each common keyword is. These keywords are independent of each other, so that they can be merged with any
#: others.
_COMMON = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "a number"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
                    "a count (0, 1, ...)"),
    "multipleOf": "a number above 0", "pattern": "a regular expression of JSON Schema (ECMA-262)", "enum": "a list of values",
    "const": "a value", "uniqueItems": "true or false",
}


def add_keywords(node: Node, given: Mapping[str, Any], what: str, validators: List[Validator]) -> Node:
    """Return *node* with the keywords of one dict in ``Annotated`` added.

    :param what: how errors call the annotation, such as "tool 'add': parameter 'a'".
    :param validators: gets the validator of the keywords, if they need one.
    :raises RegistrationError: the keywords are not JSON, not valid JSON Schema, or refer to other schemas.
    """
    try:
        given = definition_json(given)
        text = encode_json(given)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what} has keywords in Annotated that are not JSON: {error}") from error
    found = [name for name in _ANCHORED if f'"{name}":' in text]
    if found:
        raise RegistrationError(f"{what} has {found[0]!r} in Annotated, which cannot stand inside the generated"
                                f" schema; write it out, or give the whole schema as input_schema=")
    limits = {key: value for key, value in given.items() if key not in _NOTES and not key.startswith("x-")}
    notes = {key: value for key, value in given.items() if key not in limits}
    if not limits:
        return Node({**node.schema, **notes}, node.convert, node.exact)
    _check(limits, what)
    validator = Validator(limits)
    validators.append(validator)
    return Node({**_joined(node.schema, limits), **notes}, enforced(node.convert, validator))


def _check(limits: Dict[str, Any], what: str) -> None:
    for keyword, value in limits.items():
        reason = problem_of(value) if keyword == "pattern" else ""
        if keyword in _COMMON and (reason or not is_wellformed({keyword: value}) or keyword == "enum" and not value):
            raise RegistrationError(f"{what} has {keyword!r} in Annotated with {value!r}, which is not {_COMMON[keyword]};"
                                    " correct it" + (f": {reason}" if reason else ""))
    if not limits.keys() <= _COMMON.keys():
        check_schema(limits, what=f"{what}: its keywords in Annotated")


def _joined(schema: Dict[str, Any], limits: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema that requires both: merged if that does not change the meaning, otherwise with ``allOf``."""
    alone = not schema.keys() - _COMMON.keys() - _NOTES - {"type"}
    if not schema.keys() & limits.keys() and (alone or limits.keys() <= _COMMON.keys()):
        return {**schema, **limits}
    return {**schema, "allOf": [*schema.get("allOf", ()), limits]}


def enforced(convert: Callable[[Any], Any], validator: Validator) -> Callable[[Any], Any]:
    """Return *convert* with a check of the JSON value."""
    def checked(value: Any) -> Any:
        result = convert(value)
        problems = validator.problems(value)
        if problems:
            raise Mismatch(problems[0])
        return result

    return checked

"""The strict mode of OpenAI: schemas that a model keeps to exactly, where a schema can be brought into its subset.

Every member is required and nothing else is allowed, so that an optional parameter becomes one that may be null;
:func:`without_nulls` takes these nulls out of the arguments again.
"""

from typing import Any, Dict, List, Optional, Set

from .tool_schemas import Schema, nullable, resolve, types_of

__all__ = ["strict_schema", "without_nulls"]

_KEPT = {"type", "description", "title", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
         "multipleOf", "minItems", "maxItems"}
#: Keywords without which a schema would mean something else.
_IMPOSSIBLE = ("allOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties", "propertyNames", "prefixItems",
               "contains")
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_MOST_PROPERTIES = 5000
_MOST_VALUES = 1000
_DEEPEST = 10


class _NotStrict(Exception):
    """A schema has what the strict mode does not take."""


def strict_schema(schema: Schema) -> Optional[Schema]:
    """Return the strict form of a portable schema; None if it has none, as with free-form objects."""
    counts = {"properties": 0, "values": 0}
    try:
        top = {key: value for key, value in schema.items() if key != "$defs"}
        found = _strict(top, counts, 0) if top["properties"] else _empty(top)
        definitions = {name: _strict(one, counts, 1) for name, one in schema.get("$defs", {}).items()}
    except _NotStrict:
        return None
    return {**found, "$defs": definitions} if definitions else found


def without_nulls(value: Any, schema: Schema, root: Schema) -> Any:
    """Return arguments without the nulls of optional members that may not be null.

    :param schema: the portable schema of *value*, before it was made strict.
    :param root: the portable schema of the arguments as a whole, for references.
    """
    if isinstance(value, list):
        items = [form["items"] for form in _forms(schema, root) if isinstance(form.get("items"), dict)]
        return [without_nulls(item, items[0], root) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    fitting = [form for form in _forms(schema, root) if set(value) <= set(form.get("properties", {}))]
    if not fitting:
        return value
    properties, required = fitting[0].get("properties", {}), fitting[0].get("required", [])
    return {name: without_nulls(item, properties[name], root) for name, item in value.items()
            if item is not None or name in required or _may_be_null(properties[name], root)}


def _empty(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key in ("description", "title")}
    return {**kept, "type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _strict(schema: Schema, counts: Dict[str, int], depth: int) -> Schema:
    if depth > _DEEPEST or any(key in schema for key in _IMPOSSIBLE):
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # which stands alone
    found: Schema = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        found["format"] = schema["format"]
    if "const" in schema:
        found["enum"] = [schema["const"]]
    counts["values"] += len(found.get("enum", ()))
    variants = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if variants:
        if "anyOf" in schema and "oneOf" in schema or "properties" in schema or "items" in schema:
            raise _NotStrict  # what stands beside alternatives would be lost
        found["anyOf"] = [_strict(variant, counts, depth) for variant in variants]
        found.pop("type", None)
        return found
    types = types_of(found)
    if not types and "enum" not in found:
        raise _NotStrict
    if "object" in types:
        _close(schema, found, counts, depth)
    if "array" in types:
        found["items"] = _strict(schema["items"], counts, depth + 1)
    if counts["properties"] > _MOST_PROPERTIES or counts["values"] > _MOST_VALUES:
        raise _NotStrict
    return found


def _close(schema: Schema, found: Schema, counts: Dict[str, int], depth: int) -> None:
    """Allow the declared members of an object only, and require each."""
    properties: Dict[str, Schema] = schema.get("properties", {})
    if schema.get("additionalProperties", False) is not False or not properties:
        raise _NotStrict  # an object of any members
    counts["properties"] += len(properties)
    found["properties"] = {}
    for name, one in properties.items():
        strict = _strict(one, counts, depth + 1)
        found["properties"][name] = strict if name in schema.get("required", ()) else nullable(strict)
    found["required"] = list(properties)
    found["additionalProperties"] = False


def _forms(schema: Schema, root: Schema) -> List[Schema]:
    """Return a schema without references, and each of its alternatives; each definition once."""
    forms: List[Schema] = []
    seen: Set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        reference = one.get("$ref")
        variants = [*one.get("anyOf", ()), *one.get("oneOf", ())]
        if reference is None:
            # The last is taken next, and the order decides.
            waiting += reversed(variants)
            forms += [] if variants else [one]
        elif reference not in seen:
            seen.add(reference)
            target = resolve(root, reference)
            waiting += [] if target is None else [target]
    return forms


def _may_be_null(schema: Schema, root: Schema) -> bool:
    for form in _forms(schema, root):
        types = types_of(form)
        if "null" in types or (not types and None in form.get("enum", [form.get("const", None)])):
            return True
    return False

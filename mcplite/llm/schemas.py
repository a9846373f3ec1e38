"""Input schemas of tools, brought into a form that every API of a model takes.

An API refuses the whole request if the schema of one tool breaks a rule of its own: the top level must be a plain object,
malformed keywords and those of older drafts are errors, and lists need ``items``. What a schema loses here the server
still checks.
"""

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

__all__ = ["Schema", "described", "portable", "resolve"]

Schema = Dict[str, Any]
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
#: Levels of nesting; what is deeper is left open.
_DEEPEST = 40
#: References that are replaced by what they refer to, one inside the other.
_MOST_INLINED = 8


def portable(schema: Any) -> Schema:
    """Return a schema of JSON Schema 2020-12 whose top level is a plain object; the given one is not changed.

    References point into ``$defs`` at the top, all others are replaced by what they refer to.
    """
    root = schema if isinstance(schema, dict) else {}
    definitions = {name: _clean(found, root, _DEEPEST) for key in ("definitions", "$defs")
                   for name, found in _dict(root.get(key)).items() if isinstance(found, dict)}
    top = _clean({key: value for key, value in root.items() if key not in ("definitions", "$defs")}, root, _DEEPEST)
    flat = _flat(top, {"$defs": definitions}, _MOST_INLINED)
    flat = {"type": "object", "properties": {}, **flat}
    if "required" in flat:
        flat["required"] = [name for name in flat["required"] if name in flat["properties"]]
    if definitions and _refers(flat):
        flat["$defs"] = definitions
    return flat


def resolve(root: Schema, reference: str) -> Optional[Schema]:
    """Return the schema that a reference inside *root* points to; None if there is none."""
    found: Any = root
    if not reference.startswith("#"):
        return None
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            return None
    return found if isinstance(found, dict) else None


def described(schema: Schema, note: str) -> None:
    """Add a sentence to a schema's description."""
    schema["description"] = " ".join(text for text in (schema.get("description"), note) if text)


# --- one keyword at a time ---------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_anything(value: Any) -> bool:
    return True


#: The keywords that are kept, if their value has the right form. Others say nothing to a model.
_PLAIN: Dict[str, Callable[[Any], bool]] = {
    "title": _is_text, "description": _is_text, "format": _is_text, "pattern": _is_text, "contentEncoding": _is_text,
    "contentMediaType": _is_text, "default": _is_anything, "const": _is_anything, "enum": _is_list, "examples": _is_list,
    "minimum": _is_number, "maximum": _is_number, "exclusiveMinimum": _is_number, "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0, "minLength": _is_count, "maxLength": _is_count,
    "minItems": _is_count, "maxItems": _is_count, "minProperties": _is_count, "maxProperties": _is_count,
    "uniqueItems": _is_bool, "required": _is_names, "deprecated": _is_bool,
}
_SCHEMA = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "unevaluatedProperties")
_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")


def _clean(schema: Any, root: Schema, left: int, inlined: int = 0) -> Schema:
    """Return a copy with known keywords in the forms of 2020-12.

    :param left: how many levels of nesting may follow.
    :param inlined: how many references above it were replaced.
    """
    if not isinstance(schema, dict) or not left:
        return {"not": {}} if schema is False else {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        return {**_reference(reference, root, left, inlined), **_clean(siblings, root, left, inlined)}

    def clean(value: Any) -> Schema:
        return _clean(value, root, left - 1, inlined)

    found: Schema = {}
    for key, value in _renewed(schema):
        if key == "type":
            names = [name for name in (value if isinstance(value, list) else [value]) if name in TYPES]
            if names:
                found[key] = names[0] if len(names) == 1 else list(dict.fromkeys(names))
        elif key in _PLAIN:
            if _PLAIN[key](value):
                found[key] = value
        elif key in _SCHEMA:
            if isinstance(value, (dict, bool)):
                found[key] = value if isinstance(value, bool) and key.endswith("Properties") else clean(value)
        elif key in _SCHEMAS:
            if _is_list(value):
                found[key] = [clean(item) for item in value]
        elif key in _NAMED and isinstance(value, dict):
            found[key] = {name: clean(item) for name, item in value.items() if item is not False}
    if "array" in _types(found) and "items" not in found and "prefixItems" not in found:
        found["items"] = {}
    if isinstance(found.get("required"), list) and "properties" in found:
        found["required"] = [name for name in dict.fromkeys(found["required"]) if name in found["properties"]]
    return found


def _renewed(schema: Schema) -> Iterator[Tuple[str, Any]]:
    """Yield the members of a schema with those of older drafts and of OpenAPI in their form of 2020-12."""
    for key, value in schema.items():
        if key == "items" and isinstance(value, list):
            if value:
                yield "prefixItems", value
            rest = schema.get("additionalItems")
            yield "items", rest if isinstance(rest, dict) else {}
        elif key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
            bound = schema.get("minimum" if key == "exclusiveMinimum" else "maximum")
            if value and _is_number(bound):
                yield key, bound
        elif key == "nullable" and value is True:
            types = schema.get("type")
            if isinstance(types, str):
                yield "type", [types, "null"]
        elif key != "type" or schema.get("nullable") is not True:
            yield key, value


def _reference(reference: str, root: Schema, left: int, inlined: int) -> Schema:
    parts = reference.split("/")
    if len(parts) == 3 and parts[:2] in (["#", "definitions"], ["#", "$defs"]) and resolve(root, reference) is not None:
        return {"$ref": f"#/$defs/{parts[2]}"}
    found = resolve(root, reference)
    if found is None or found is root or inlined == _MOST_INLINED:
        # Recursion of the whole, a reference to somewhere else, or none at all.
        return {"type": "object"} if found is root else {}
    return _clean(found, root, left - 1, inlined + 1)


# --- the top level -----------------------------------------------------------------------------------


def _flat(schema: Schema, root: Schema, left: int) -> Schema:
    """Return an object schema without a combination of schemas at its top: their properties in one."""
    if isinstance(schema.get("$ref"), str):
        target = resolve(root, schema["$ref"]) if left else None
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _flat({**(target or {}), **rest}, root, left - 1) if left else rest
    apart = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "type", "dependentSchemas")
    flat = {key: value for key, value in schema.items() if key not in apart}
    if not left or not any(key in schema for key in ("allOf", "anyOf", "oneOf")):
        return flat
    flat["properties"] = dict(flat.get("properties", {}))
    required = list(flat.get("required", []))
    for one in schema.get("allOf", []):
        part = _flat(one, root, left - 1)
        _merge(flat["properties"], [part])
        required += part.get("required", [])
    for key in ("anyOf", "oneOf"):
        parts = [_flat(one, root, left - 1) for one in schema.get(key, []) if _types(one) != ["null"]]
        if parts:
            _merge(flat["properties"], parts)
            required += [name for name in parts[0].get("required", [])
                         if all(name in part.get("required", []) for part in parts)]
            groups = [", ".join(part.get("required") or part.get("properties", {})) for part in parts]
            if len(groups) > 1 and all(groups):
                described(flat, f"Needs the parameters of one of these groups: {'; '.join(groups)}.")
    # What one of them forbids, another may have.
    flat.pop("additionalProperties", None)
    flat.pop("unevaluatedProperties", None)
    if required:
        flat["required"] = list(dict.fromkeys(required))
    return flat


def _merge(properties: Dict[str, Any], parts: List[Schema]) -> None:
    """Add the properties of alternatives; one that differs between them may be any of its forms."""
    forms: Dict[str, List[Schema]] = {}
    for part in parts:
        for name, schema in part.get("properties", {}).items():
            known = forms.setdefault(name, [])
            if schema not in known:
                known.append(schema)
    for name, found in forms.items():
        properties.setdefault(name, found[0] if len(found) == 1 else {"anyOf": found})


def _types(schema: Schema) -> List[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("$ref"), str) or any(_refers(item) for item in value.values())
    return isinstance(value, list) and any(_refers(item) for item in value)

"""Elicitation forms: flat objects of primitive fields, in three generations.

May import: revisions
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..revisions import Revision

__all__ = ["adapt_form", "check_answer", "check_form", "fill_defaults", "sensitive_names"]

_PRIMITIVES = ("string", "number", "integer", "boolean")
_BOUNDS: Dict[str, Tuple[type, ...]] = {
    "minimum": (int, float), "maximum": (int, float), "minLength": (int,), "maxLength": (int,), "minItems": (int,),
    "maxItems": (int,),
}
_FORMATS = ("email", "uri", "date", "date-time")
_SECRET = re.compile(r"pass(word|phrase|wd)|secret|api_?key|token|credential|private_?key|\bpin\b|cvv|ssn", re.IGNORECASE)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)*\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_DATE_TIME = re.compile(r"([0-9-]{10})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})\Z")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+\Z")


def check_form(schema: Any) -> None:
    """Return when *schema* can be a form (ELIC-06).

    :raises ValueError: it is no flat object of primitive fields; with the field, the reason and the fix.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValueError("a form is a JSON Schema with \"type\": \"object\"")
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        raise ValueError("a form needs \"properties\", an object with its fields")
    for name, field in properties.items():
        problem = _field_problem(field)
        if problem is not None:
            raise ValueError(f"the form field {name!r} {problem}")
    required = schema.get("required", [])
    if not isinstance(required, list) or any(not isinstance(name, str) or name not in properties for name in required):
        raise ValueError("\"required\" must list fields of the form")


def _field_problem(field: Any) -> Optional[str]:
    if not isinstance(field, Mapping):
        return "must be an object"
    kind = field.get("type")
    if kind == "array":
        if _options(field.get("items")) is None:
            return "is a list: only a choice of several, with items.enum or items.anyOf, can be asked for"
        return _bound_problem(field)
    if kind == "object" or "properties" in field:
        return "is an object: forms are flat, so ask for its members one by one"
    if kind not in _PRIMITIVES and _options(field) is None:
        return f"has the type {kind!r}; possible are {', '.join(_PRIMITIVES)}, enums, and lists of choices"
    if "format" in field and field["format"] not in _FORMATS:
        return f"has the format {field['format']!r}; possible are {', '.join(_FORMATS)}"
    return _bound_problem(field)


def _bound_problem(field: Mapping[str, Any]) -> Optional[str]:
    for keyword, kinds in _BOUNDS.items():
        value = field.get(keyword)
        if keyword in field and (isinstance(value, bool) or not isinstance(value, kinds)):
            return f"has {keyword} {value!r}, which is no number of that kind"
    return None


def _options(field: Any) -> Optional[List[Tuple[Any, Optional[str]]]]:
    """Return the choices of a field as (value, title), in whichever generation they are written."""
    if not isinstance(field, Mapping):
        return None
    for key in ("oneOf", "anyOf"):
        listed = field.get(key)
        if isinstance(listed, list) and listed and all(isinstance(item, Mapping) and "const" in item for item in listed):
            return [(item["const"], item.get("title")) for item in listed]
    enum = field.get("enum")
    if isinstance(enum, list):
        names = field.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(enum) else [None] * len(enum)
        return list(zip(enum, titles))
    return None


def sensitive_names(schema: Mapping[str, Any]) -> List[str]:
    """Return the fields whose names say that they ask for a secret, which belongs in a URL question (ELIC-16)."""
    return [name for name in schema.get("properties", {}) if _SECRET.search(name)]


def adapt_form(schema: Mapping[str, Any], revision: Revision) -> Dict[str, Any]:
    """Return the form as *revision* can read it; the original is left alone.

    Where titled choices do not exist they become ``enum`` with ``enumNames``, and only booleans keep
    their defaults (2.5 item 18).

    :raises ValueError: it asks for a choice of several, which has no form in this revision.
    """
    form = {key: value for key, value in schema.items() if key in ("type", "properties", "required", "$schema")}
    properties: Dict[str, Any] = {}
    for name, field in schema["properties"].items():
        field = dict(field)
        if revision.elicitation_enums != "titled":
            if field.get("type") == "array":
                raise ValueError(f"the form field {name!r} is a choice of several, which {revision} cannot ask for;"
                                 f" ask for one, or for text")
            choices = _options(field)
            if choices is not None:
                field.pop("oneOf", None)
                field.pop("anyOf", None)
                field["type"] = "string"
                field["enum"] = [value for value, _ in choices]
                if any(title is not None for _, title in choices):
                    field["enumNames"] = [str(value) if title is None else title for value, title in choices]
            if field.get("type") != "boolean":
                field.pop("default", None)
            form.pop("$schema", None)
        properties[name] = field
    form["properties"] = properties
    return form


def fill_defaults(schema: Mapping[str, Any], content: Mapping[str, Any]) -> Dict[str, Any]:
    """Return *content* with the defaults of the fields that it leaves out (ELIC-10)."""
    filled = dict(content)
    for name, field in schema.get("properties", {}).items():
        if name not in filled and isinstance(field, Mapping) and "default" in field:
            filled[name] = field["default"]
    return filled


def check_answer(schema: Mapping[str, Any], content: Any) -> List[str]:
    """Return what is wrong with an answer, as sentences; both sides check (ELIC-14, ELIC-15).

    Members that the form does not have are ignored.
    """
    if not isinstance(content, Mapping):
        return ["the answer must be an object"]
    properties = schema.get("properties", {})
    problems = [f"{name}: is required" for name in schema.get("required", []) if name not in content]
    for name, value in content.items():
        field = properties.get(name)
        if isinstance(field, Mapping):
            problem = _value_problem(field, value)
            if problem is not None:
                problems.append(f"{name}: {problem}")
    return problems


def _value_problem(field: Mapping[str, Any], value: Any) -> Optional[str]:
    kind = field.get("type")
    if kind == "array":
        return _choices_problem(field, value)
    choices = _options(field)
    if choices is not None:
        values = [item for item, _ in choices]
        return None if _is_among(value, values) else f"{value!r} is none of {values}"
    if kind == "boolean":
        return None if isinstance(value, bool) else f"{value!r} is not true or false"
    if kind in ("integer", "number"):
        return _number_problem(field, value, kind)
    if not isinstance(value, str):
        return f"{value!r} is not a string"
    return _text_problem(field, value)


def _is_among(value: Any, values: List[Any]) -> bool:
    # JSON's true is not 1.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in values)


def _choices_problem(field: Mapping[str, Any], value: Any) -> Optional[str]:
    if not isinstance(value, list):
        return f"{value!r} is not a list"
    values = [item for item, _ in _options(field.get("items")) or []]
    for item in value:
        if not _is_among(item, values):
            return f"{item!r} is none of {values}"
    if len(value) < field.get("minItems", 0):
        return f"choose at least {field['minItems']}"
    if "maxItems" in field and len(value) > field["maxItems"]:
        return f"choose at most {field['maxItems']}"
    return None


def _number_problem(field: Mapping[str, Any], value: Any, kind: str) -> Optional[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{value!r} is not a number"
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return f"{value!r} is not a whole number"
    if "minimum" in field and value < field["minimum"]:
        return f"{value!r} is less than the minimum of {field['minimum']!r}"
    if "maximum" in field and value > field["maximum"]:
        return f"{value!r} is greater than the maximum of {field['maximum']!r}"
    return None


def _text_problem(field: Mapping[str, Any], value: str) -> Optional[str]:
    if len(value) < field.get("minLength", 0):
        return f"needs at least {field['minLength']} characters"
    if "maxLength" in field and len(value) > field["maxLength"]:
        return f"has more than {field['maxLength']} characters"
    wanted = field.get("format")
    if wanted == "email" and not _EMAIL.match(value):
        return f"{value!r} is not an email address"
    if wanted == "uri" and not _URI.match(value):
        return f"{value!r} is not a URI"
    if wanted in ("date", "date-time") and not _is_time(value, wanted):
        return f"{value!r} is not a {wanted} of RFC 3339"
    return None


def _is_time(value: str, wanted: str) -> bool:
    import datetime  # for forms with dates only

    try:
        if wanted == "date":
            return _DATE.match(value) is not None and bool(datetime.date.fromisoformat(value))
        # Before 3.11 fromisoformat knows neither Z nor fractions of any length, and since then much that
        # RFC 3339 does not have.
        parts = _DATE_TIME.match(value)
        if parts is None:
            return False
        zone = parts.group(3).upper().replace("Z", "+00:00")
        return bool(datetime.datetime.fromisoformat(f"{parts.group(1)}T{parts.group(2)}{zone}"))
    except ValueError:
        return False

"""The content of questions to a client: elicitation forms in three generations, and sampling conversations.

Both sides check forms and conversations by the same rules, so the rules are here.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..revisions import Revision
from .error_text import quoted

#: Characters that the URL of a URL question may have.
MAX_URL = 8192
_PRIMITIVES = ("string", "number", "integer", "boolean")
_BOUNDS: Dict[str, Tuple[type, ...]] = {
    "minimum": (int, float), "maximum": (int, float), "minLength": (int,), "maxLength": (int,), "minItems": (int,),
    "maxItems": (int,),
}
_FORMATS = ("email", "uri", "date", "date-time")
# As text: re compiles and keeps each on its first use, and most programs never use one.
_SECRET = (r"pass(word|phrase|wd|code)|secret(?!ar)|(api|access|private)[_-]?key|token(?!s)|credential|"
           r"(?<![a-z])pin(?![a-z])|cv[vc]|ssn")
_EMAIL = r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)*\Z"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z"
_DATE_TIME = r"([0-9-]{10})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
#: The characters of RFC 3986; other ones are written as %XX.
_URI = r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+\Z"


def check_form(schema: Any) -> None:
    """Check that *schema* is a form (ELIC-06).

    :raises ValueError: it is not a flat object of primitive fields; the text has the field, the reason and the fix.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValueError("a form is a JSON Schema with \"type\": \"object\"")
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        raise ValueError("a form needs \"properties\", an object with its fields")
    for name, field in properties.items():
        problem = _field_problem(field) or _default_problem(field)
        if problem is not None:
            raise ValueError(f"the form field {name!r:.100} {problem}")
    required = schema.get("required", [])
    if not isinstance(required, list) or any(not isinstance(name, str) or name not in properties for name in required):
        raise ValueError("\"required\" must list fields of the form")


def _field_problem(field: Any) -> Optional[str]:
    if not isinstance(field, Mapping):
        return "must be an object"
    kind = field.get("type")
    if kind == "array":
        several = options(field.get("items"))
        if several is None:
            return "is a list: only a choice of several, with items.enum or items.anyOf, can be asked for"
        return _choice_problem(several) or _bound_problem(field)
    if kind == "object" or "properties" in field:
        return "is an object: forms are flat, so ask for its members one by one"
    choices = options(field)
    if choices is not None and kind not in ("integer", "number") and _choice_problem(choices):
        return _choice_problem(choices)
    if kind not in _PRIMITIVES and (choices is None or kind is not None):
        return f"has the type {kind!r}; possible are {', '.join(_PRIMITIVES)}, enums, and lists of choices"
    if "format" in field and field["format"] not in _FORMATS:
        return f"has the format {field['format']!r}; possible are {', '.join(_FORMATS)}"
    return _bound_problem(field)


def _choice_problem(choices: List[Tuple[Any, Optional[str]]]) -> Optional[str]:
    if all(isinstance(value, str) for value, _ in choices):
        return None
    return "offers choices that are not texts; list texts, and say what they mean in titles"


def _default_problem(field: Mapping[str, Any]) -> Optional[str]:
    problem = _value_problem(field, field["default"]) if "default" in field else None
    return None if problem is None else f"has a default that does not fit: {problem}"


def _bound_problem(field: Mapping[str, Any]) -> Optional[str]:
    for keyword, kinds in _BOUNDS.items():
        value = field.get(keyword)
        if keyword in field and (isinstance(value, bool) or not isinstance(value, kinds)):
            return f"has {keyword} {quoted(value)}, which is not a number of that kind"
    return None


def _outside(field: Mapping[str, Any], what: str, size: Any, too_little: str, too_much: str) -> Optional[str]:
    """Return what is wrong with a size by the field's bounds; in a form that was not checked, some may be no numbers."""
    for keyword, problem in ((f"min{what}", too_little), (f"max{what}", too_much)):
        bound = field.get(keyword)
        if isinstance(bound, _BOUNDS[keyword]) and not isinstance(bound, bool) and (
                size < bound if problem is too_little else size > bound):
            return problem.format(bound)
    return None


def options(field: Any) -> Optional[List[Tuple[Any, Optional[str]]]]:
    """Return the choices of a field as (value, title), from any generation of forms."""
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
    """Return the fields whose names ask for a secret, which belongs into an elicitation by URL (ELIC-16)."""
    return [name for name in schema.get("properties", {}) if re.search(_SECRET, name, re.IGNORECASE)]


def adapt_form(schema: Mapping[str, Any], revision: Revision) -> Dict[str, Any]:
    """Return a copy of the form that *revision* can read.

    For revisions without titled choices these become ``enum`` with ``enumNames``, and only booleans keep their
    defaults (ELIC-10).

    :raises ValueError: it has a choice of several, which this revision cannot express.
    """
    titled = revision.elicitation_enums == "titled"
    kept = ("type", "properties", "required", "$schema") if titled else ("type", "properties", "required")
    form = {key: value for key, value in schema.items() if key in kept}
    form["properties"] = {name: _adapt_field(name, field, titled, revision) for name, field in schema["properties"].items()}
    return form


def _adapt_field(name: str, field: Mapping[str, Any], titled: bool, revision: Revision) -> Dict[str, Any]:
    field = dict(field)
    choices = options(field)
    if choices is not None:
        field.setdefault("type", "string")
    if titled:
        return field
    if field.get("type") == "array":
        raise ValueError(f"the form field {name!r} is a choice of several, which {revision} cannot ask for;"
                         f" ask for one, or for text")
    if choices is not None:
        field.pop("oneOf", None)
        field.pop("anyOf", None)
        field["enum"] = [value for value, _ in choices]
        if any(title is not None for _, title in choices):
            field["enumNames"] = [str(value) if title is None else title for value, title in choices]
    if field.get("type") != "boolean":
        field.pop("default", None)
    return field


def fill_defaults(schema: Mapping[str, Any], content: Mapping[str, Any]) -> Dict[str, Any]:
    """Return *content* with the defaults of the fields that it lacks (ELIC-10)."""
    filled = dict(content)
    for name, field in schema.get("properties", {}).items():
        if name not in filled and isinstance(field, Mapping) and "default" in field:
            default = field["default"]
            filled[name] = list(default) if isinstance(default, list) else default
    return filled


def check_answer(schema: Mapping[str, Any], content: Any) -> List[str]:
    """Return the problems of an answer, as sentences; both sides check (ELIC-14, ELIC-15).

    Members that the form does not have are ignored, and so are keywords that forms do not have, such as
    ``pattern``.
    """
    if not isinstance(content, Mapping):
        return ["the answer must be an object"]
    properties = schema.get("properties", {})
    problems = [f"{name:.100}: is required" for name in schema.get("required", []) if name not in content]
    for name, value in content.items():
        field = properties.get(name)
        if isinstance(field, Mapping):
            problem = _value_problem(field, value)
            if problem is not None:
                problems.append(f"{name:.100}: {problem}")
    return problems


def _value_problem(field: Mapping[str, Any], value: Any) -> Optional[str]:
    kind = field.get("type")
    if kind == "array":
        return _choices_problem(field, value)
    choices = options(field)
    if choices is not None:
        values = [item for item, _ in choices]
        return None if _is_among(value, values) else f"{quoted(value)} is not one of {quoted(values)}"
    if kind == "boolean":
        return None if isinstance(value, bool) else f"{quoted(value)} is not true or false"
    if kind in ("integer", "number"):
        return _number_problem(field, value, kind)
    if not isinstance(value, str):
        return f"{quoted(value)} is not a string"
    return _text_problem(field, value)


def _is_among(value: Any, values: List[Any]) -> bool:
    # JSON's true is not 1.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in values)


def _choices_problem(field: Mapping[str, Any], value: Any) -> Optional[str]:
    if not isinstance(value, list):
        return f"{quoted(value)} is not a list"
    values = [item for item, _ in options(field.get("items")) or []]
    for item in value:
        if not _is_among(item, values):
            return f"{quoted(item)} is not one of {quoted(values)}"
    return _outside(field, "Items", len(value), "choose at least {}", "choose at most {}")


def _number_problem(field: Mapping[str, Any], value: Any, kind: str) -> Optional[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{quoted(value)} is not a number"
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return f"{quoted(value)} is not a whole number"
    problem = _outside(field, "imum", value, "is less than the minimum of {!r}", "is greater than the maximum of {!r}")
    return None if problem is None else f"{quoted(value)} {problem}"


def _text_problem(field: Mapping[str, Any], value: str) -> Optional[str]:
    problem = _outside(field, "Length", len(value), "needs at least {} characters", "has more than {} characters")
    if problem is not None:
        return problem
    wanted = field.get("format")
    if wanted == "email" and not re.match(_EMAIL, value):
        return f"{quoted(value)} is not an email address"
    if wanted == "uri" and not re.match(_URI, value):
        return f"{quoted(value)} is not a URI"
    if wanted in ("date", "date-time") and not _is_time(value, wanted):
        return f"{quoted(value)} is not a {wanted} of RFC 3339"
    return None


def _is_time(value: str, wanted: str) -> bool:
    import datetime  # for forms with dates only

    try:
        if wanted == "date":
            return re.match(_DATE, value) is not None and bool(datetime.date.fromisoformat(value))
        # Before Python 3.11 fromisoformat accepts neither Z nor fractions of any length; since then it accepts forms
        # that RFC 3339 does not have.
        parts = re.match(_DATE_TIME, value)
        if parts is None:
            return False
        zone = parts.group(3).upper().replace("Z", "+00:00")
        return bool(datetime.datetime.fromisoformat(f"{parts.group(1)}T{parts.group(2)}{zone}"))
    except ValueError:
        return False


def check_messages(messages: Sequence[Any]) -> Optional[str]:
    """Return the first problem of a conversation's tool uses and results; None if there is none.

    A user message with tool results has only those (SAMP-11), and the next user message answers every tool use, id
    for id (SAMP-12).

    :param messages: the messages as on the wire.
    """
    waiting: List[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            return f"messages[{index}] needs a role, 'user' or 'assistant'"
        content = message.get("content")
        items = content if isinstance(content, list) else [content]
        blocks = [item for item in items if isinstance(item, dict)]
        if len(blocks) < len(items):
            return f"messages[{index}] needs content: a block, or a list of blocks"
        results = [str(block.get("toolUseId")) for block in blocks if block.get("type") == "tool_result"]
        if results and (message["role"] != "user" or len(results) != len(blocks)):
            return f"messages[{index}]: tool results stand alone in a user message"
        if waiting:
            if sorted(results) != sorted(waiting):
                return (f"messages[{index}] must answer the tool uses {', '.join(sorted(waiting))}"
                        f" and nothing else; it answers {', '.join(sorted(results)) or 'none'}")
            waiting = []
        elif results:
            return f"messages[{index}] answers tool uses that are not in the message before: {', '.join(results)}"
        uses = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if uses and message["role"] != "assistant":
            return f"messages[{index}]: only an assistant message can use tools"
        waiting = uses
    if waiting:
        return f"the tool uses {', '.join(waiting)} have no results"
    return None

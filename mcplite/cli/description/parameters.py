"""The members of a JSON Schema in words, for people who are about to call a tool: type, default, limits, description.

``describe`` prints them. For one line per tool, :mod:`~...protocol.schema.words` is enough.
"""

import json
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ...protocol.schema.budget import Extent
from ...protocol.schema.references import LenientReferences, References
from ...protocol.schema.type_signature import arguments_of

__all__ = ["limits_of", "members_of", "resolved"]

#: Levels of objects whose members are shown.
_DEPTH = 4
#: Characters of a pattern and of an example.
_LONGEST = 60


def members_of(schema: Any) -> List[Tuple[str, str]]:
    """Return a row for each member of an object's schema: its name and type, and what else the schema says about it.

    Members of inner objects follow their object, as ``filter.city``, and those of a list's items as ``points[].x``.
    """
    extent = Extent()
    rows = list(_members(schema, LenientReferences(schema), "", _DEPTH, extent))
    return rows if extent.take(1, 1) else [*rows, ("...", "this schema has more than fits here; see list --json")]


def _members(schema: Any, root: References, place: str, depth: int, extent: Extent) -> Iterator[Tuple[str, str]]:
    found = resolved(schema, root)
    properties = found.get("properties")
    if not isinstance(properties, Mapping) or not extent.take(len(properties), 1):
        return
    for argument in arguments_of(found):
        one = properties[argument.name]
        inner = resolved(one, root)
        label = f"{place}{argument.name}: {argument.words}"
        parts = [] if argument.required else [f"default {argument.default}" if argument.default else "optional"]
        # A member that refers to a definition may have words of its own beside the reference.
        own = one if isinstance(one, Mapping) else {}
        parts += limits_of({**inner, **own})
        text = own.get("description") or inner.get("description") or own.get("title") or ""
        row = "; ".join(filter(None, [str(text).strip().rstrip("."), *parts]))
        extent.take(0, len(label) + len(row))
        yield label, row
        if depth > 1:
            items = resolved(inner.get("items"), root)
            yield from _members(inner, root, f"{place}{argument.name}.", depth - 1, extent)
            yield from _members(items, root, f"{place}{argument.name}[].", depth - 1, extent)


def resolved(schema: Any, root: References) -> Dict[str, Any]:
    """Return the schema that counts: that of a local reference, or the first alternative that is not null.

    :param root: finds what a reference refers to.
    """
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(reference, str):
            schema, _ = root.find(reference, "")
        elif isinstance(options, list):
            schema = next((one for one in options if not (isinstance(one, Mapping) and one.get("type") == "null")), {})
        else:
            return dict(schema)
    return {}


def limits_of(schema: Mapping[str, Any]) -> List[str]:
    """Return what a schema demands of a value besides its type, in words."""
    found = []
    if _number(schema.get("minimum")) and _number(schema.get("maximum")):
        found.append(f"{schema['minimum']} to {schema['maximum']}")
    else:
        found += [f"{words} {schema[key]}" for key, words in (("minimum", "at least"), ("maximum", "at most"))
                  if _number(schema.get(key))]
    found += [f"{words} {schema[key]}" for key, words in (
        ("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"), ("multipleOf", "a multiple of"))
        if _number(schema.get(key))]
    for least, most, unit in (("minLength", "maxLength", "character"), ("minItems", "maxItems", "item"),
                              ("minProperties", "maxProperties", "member")):
        found += _count(schema.get(least), schema.get(most), unit)
    if schema.get("uniqueItems") is True:
        found.append("all different")
    if isinstance(schema.get("format"), str):
        found.append(f"format {schema['format']}")
    if isinstance(schema.get("pattern"), str):
        found.append(f"matches {_cut(schema['pattern'])}")
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        found.append(f"for example {_cut(json.dumps(examples[0], ensure_ascii=False))}")
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(least: Any, most: Any, unit: str) -> List[str]:
    if _number(least) and _number(most):
        return [f"{least} {unit}{'' if least == 1 else 's'}" if least == most else f"{least} to {most} {unit}s"]
    for number, words in ((least, "at least"), (most, "at most")):
        if _number(number) and number:
            return [f"{words} {number} {unit}{'' if number == 1 else 's'}"]
    return []

"""Example commands that can be pasted: a call of a tool with its required arguments, the reading of a resource."""

import json
import shlex
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ...protocol.schema.budget import Extent
from ...protocol.schema.references import LenientReferences, References
from ...protocol.uritemplate import Template
from .parameters import resolved

__all__ = ["argument_words", "example_of", "example_uri", "pasted", "prompt_words"]

#: Texts of the formats that schemas name.
_FORMATS = {"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H",
            "email": "user@example.com", "uri": "https://example.com/", "hostname": "example.com", "ipv4": "192.0.2.1",
            "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000"}
#: Levels of lists and objects, and items or characters that a schema may demand.
_DEPTH = 5
_MOST = 20


def pasted(own: Sequence[str], *words: str) -> str:
    """Return a command of this package that a shell takes.

    :param own: the command, and the words by which its user named the server.
    :param words: what the server named; ``--`` stands before them if one could be taken for an option.
    """
    end = ["--"] if any(word.startswith("-") for word in words) else []
    return f"python -m {__name__.rpartition('.cli.')[0]} {shlex.join([*own, *end, *words])}"


def argument_words(schema: Mapping[str, Any]) -> List[str]:
    """Return an example of a tool's required arguments, as they are written on the command line."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return []
    root, extent = LenientReferences(schema), Extent()
    values = {name: _example(properties[name], root, _DEPTH, extent) for name in required
              if isinstance(name, str) and name in properties}
    return _written(values, lambda name: resolved(properties[name], root).get("type", "string") == "string")


def prompt_words(names: Sequence[str]) -> List[str]:
    """Return an example of a prompt's arguments, whose values are all text."""
    return _written(dict.fromkeys(names, "text"), lambda name: True)


def _written(values: Mapping[str, Any], is_text: Callable[[str], bool]) -> List[str]:
    """Return arguments as they are written on the command line.

    :param is_text: whether ``name=value`` gives a text; other values are JSON.
    """
    if any(not name or name[0] in "-{" or "=" in name or name.endswith(":") for name in values):
        return [json.dumps(values, ensure_ascii=False)]
    # A leading @ would name a file.
    return [f"{name}={value}" if isinstance(value, str) and not value.startswith("@") and is_text(name)
            else f"{name}:={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def example_of(schema: Any, root: Any) -> Any:
    """Return a value that the schema takes, as far as one can be made up: a pattern is not followed.

    :param root: the whole schema, in which references are looked up.
    """
    return _example(schema, LenientReferences(root), _DEPTH, Extent())


def _example(schema: Any, root: References, depth: int, extent: Extent) -> Any:
    if not extent.take(1, 1):
        return None
    found = resolved(schema, root)
    own = schema if isinstance(schema, Mapping) else {}
    for one in (own, found):
        for key in ("examples", "enum"):
            if isinstance(one.get(key), list) and one[key]:
                return one[key][0]
        for key in ("default", "const"):
            if one.get(key) is not None:
                return one[key]
    kind = found.get("type")
    kind = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return _number(found)
    if kind == "boolean":
        return True
    if kind == "array":
        count = max(1, min(_MOST, _whole(found.get("minItems")))) if depth else 0
        item = _example(found.get("items"), root, depth - 1, extent)
        # A list in each item of a list is soon a text that no command line takes.
        return [item] * (count if extent.take(0, len(json.dumps(item)) * count) else min(1, count))
    if kind == "object" or "properties" in found:
        return _object(found, root, depth, extent)
    text = _FORMATS.get(str(found.get("format")), "text")
    return text + "t" * (min(_MOST, _whole(found.get("minLength"))) - len(text))


def _object(schema: Mapping[str, Any], root: References, depth: int, extent: Extent) -> Dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not depth or not isinstance(properties, Mapping):
        return {}
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return {name: _example(one, root, depth - 1, extent) for name, one in properties.items()
            if name in names and extent.take(1, len(name))}


def _number(schema: Mapping[str, Any]) -> Any:
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1), ("multipleOf", 0), ("maximum", 0), ("exclusiveMaximum", -1)):
        value = schema.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value + step
    return 1


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def example_uri(uri_template: str) -> str:
    """Return a URI of a template, with the name of each variable as its value."""
    try:
        template = Template(uri_template)
        return template.fill({name: name for name in template.names})
    except ValueError:
        return uri_template  # a template that this package cannot read is shown as it is

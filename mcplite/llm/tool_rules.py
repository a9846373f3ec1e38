"""What APIs of models refuse of a tool, for those who look at one: the command ``check``, and the inspector's comparison.

The kits of this package change a tool until an API takes it. Other programs send it as it is, and a request with one such tool
is refused as a whole.
"""

from typing import Any, FrozenSet, Iterator, List, Mapping, NamedTuple, Tuple

from ..protocol.error_text import one_line
from ..protocol.schema.references import Extent
from ..types import Tool
from .tool_names import PARAMETERS, PARAMETERS_OF_GEMINI, TOOLS, TOOLS_OF_GEMINI
from .tool_schemas import is_portable

__all__ = ["CHARACTERS_PER_TOKEN", "LONGEST_DESCRIPTION", "MOST_TOOLS", "Refusal", "refusals", "schemas_in", "some_of"]

#: Characters of the description of a function that OpenAI takes, and tools of one request.
LONGEST_DESCRIPTION, MOST_TOOLS = 1024, 128
#: Characters of JSON for one token, as an estimate: each model counts in its own way.
CHARACTERS_PER_TOKEN = 4
#: Names that are shown of a list.
_MOST_SHOWN = 10
_GEMINI = frozenset({"gemini"})
_OTHERS = frozenset({"openai", "anthropic"})
_ALL = _OTHERS | _GEMINI


class Refusal(NamedTuple):
    """What an API would refuse, or a model could not use."""

    #: The id of the rule, as ``mcplite check`` names it.
    id: str
    #: "openai", "anthropic" and "gemini", as far as it concerns them.
    apis: FrozenSet[str]
    text: str


def refusals(tool: Tool) -> Iterator[Refusal]:
    """Return what APIs of models would refuse of a tool, were it sent as it is."""
    description = tool.description or ""
    if not TOOLS.fullmatch(tool.name):
        yield Refusal("tool-name", _ALL, f"the name {one_line(tool.name, 80)!r} would be refused")
    elif not TOOLS_OF_GEMINI.fullmatch(tool.name):
        yield Refusal("name-gemini", _GEMINI, f"the name {tool.name!r} would be refused")
    if not description.strip():
        yield Refusal("tool-description", _ALL, "it has no description, by which a model would choose it")
    elif len(description) > LONGEST_DESCRIPTION:
        yield Refusal("tool-description-long", frozenset({"openai"}), f"its description has {len(description)} characters")
    schema = tool.input_schema
    if not isinstance(schema, Mapping):
        return
    yield from _of_names(schema)
    for key in ("anyOf", "oneOf", "allOf", "enum", "not"):
        if key in schema:
            yield Refusal("schema-top", _ALL, f"the top level of its schema has {key}")
    for place, one in schemas_in(schema):
        if one.get("type") == "array" and not {"items", "prefixItems"} & set(one):
            yield Refusal("schema-items", frozenset({"openai", "gemini"}), f"{place or 'the whole'} is a list without items")
        if isinstance(one.get("pattern"), str) and not is_portable(one["pattern"]):
            yield Refusal("schema-pattern", _ALL, f"{place or 'the top level'} has the pattern {one_line(one['pattern'], 80)}")


def _of_names(schema: Mapping[str, Any]) -> Iterator[Refusal]:
    properties = schema.get("properties")
    names = [str(name) for name in properties] if isinstance(properties, Mapping) else []
    wrong = [name for name in names if not PARAMETERS.fullmatch(name)]
    wrong_there = [name for name in names if PARAMETERS.fullmatch(name) and not PARAMETERS_OF_GEMINI.fullmatch(name)]
    for id, apis, some in (("argument-name", _ALL, wrong), ("name-gemini", _GEMINI, wrong_there)):
        if some:
            quoted = some_of([repr(one_line(name, 80)) for name in some])
            yield Refusal(id, apis, f"these names of arguments would be refused: {quoted}")


def schemas_in(schema: Any) -> "List[Tuple[str, Mapping[str, Any]]]":
    """Return each schema inside a schema with its place, such as ``"size.width"``, within limits."""
    return list(_parts(schema, "", Extent(), 20))


def _parts(schema: Any, place: str, extent: Extent, depth: int) -> Iterator[Tuple[str, Mapping[str, Any]]]:
    if not isinstance(schema, Mapping) or depth == 0 or not extent.take(1, 1):
        return
    yield place, schema
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        inner = schema.get(key)
        for name, one in inner.items() if isinstance(inner, Mapping) else ():
            yield from _parts(one, f"{place}.{name}".lstrip("."), extent, depth - 1)
    for key in ("items", "additionalProperties", "not"):
        yield from _parts(schema.get(key), f"{place}[]" if key == "items" else place, extent, depth - 1)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = schema.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _parts(one, place, extent, depth - 1)


def some_of(names: List[str]) -> str:
    """Return names as a text: the first ten, and how many more there are."""
    return ", ".join(names[:_MOST_SHOWN]) + (f", and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else "")

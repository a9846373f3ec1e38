"""Output schemas of return annotations: declared, wrapped, or none."""

import collections.abc
import dataclasses
import datetime
import enum
import uuid
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Generator,
    Iterable,
    List,
    Literal,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypedDict,
    Union,
)

import jsonschema
import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.schema.validation import check_schema
from mcplite.revisions import NEWEST, NEWEST_LEGACY, find_revision
from mcplite.server import Audio, Image, InputRequired
from mcplite.server.functions.signature import MISSING, compile_output
from mcplite.types import NULL, CallToolResult, EmbeddedResource, ResourceLink, TextContent
from tests.support.names import named


@dataclasses.dataclass
class Day:
    """One day.

    :param high: in degrees
    """

    date: datetime.date
    high: float
    note: Optional[str] = None


class Forecast(TypedDict):
    city: str
    days: List[Day]


class Pair(NamedTuple):
    left: int
    right: str = ""


@dataclasses.dataclass
class Tree:
    children: "List[Tree]" = dataclasses.field(default_factory=list)


class Plain:
    pass


def output(annotation, schema=None, structured=None):
    return compile_output(annotation, schema, structured, "tool 'it'")


def refusal(annotation, schema=None, structured=None):
    with pytest.raises(RegistrationError) as caught:
        output(annotation, schema, structured)
    return str(caught.value)


def wrapped(schema):
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


DAY = {"type": "object", "properties": {"date": {"type": "string", "format": "date"},
                                        "high": {"type": "number", "description": "in degrees"},
                                        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
       "required": ["date", "high"]}
INTEGER = {"type": "integer"}

OBJECTS = [
    (Day, DAY),
    (Forecast, {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": DAY}},
                "required": ["city", "days"]}),
    (Pair, {"type": "object", "properties": {"left": INTEGER, "right": {"type": "string", "default": ""}},
            "required": ["left"]}),
    (Dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (Dict[str, Any], {"type": "object"}),
    (collections.abc.Mapping, {"type": "object"}),
    (Annotated[Day, "A day"], {**DAY, "description": "A day"}),
]


@pytest.mark.parametrize("annotation, schema", OBJECTS, ids=lambda value: str(value)[:30])
def test_objects_are_declared_unwrapped(annotation, schema):
    compiled = output(annotation)
    assert (compiled.schema, compiled.wrapped, compiled.off) == (schema, False, False)
    check_schema(compiled.schema, what="it")


VALUES = [
    (int, INTEGER), (float, {"type": "number"}), (bool, {"type": "boolean"}), (List[int], {"type": "array", "items": INTEGER}),
    (Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}), (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (Tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, {"type": "string"}]}),
    (List[Day], {"type": "array", "items": DAY}), (datetime.date, {"type": "string", "format": "date"}),
    (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
    (Iterable[int], {"type": "array", "items": INTEGER}), (Optional[Day], {"anyOf": [DAY, {"type": "null"}]}),
    (Union[int, str], {"anyOf": [INTEGER, {"type": "string"}]}),
    (List[List[Any]], {"type": "array", "items": {"type": "array"}}),
]


@pytest.mark.parametrize("annotation, schema", VALUES, ids=lambda value: str(value)[:30])
def test_other_data_is_wrapped(annotation, schema):
    compiled = output(annotation)
    assert (compiled.schema, compiled.wrapped, compiled.off) == (wrapped(schema), True, False)
    check_schema(compiled.schema, what="it")


@pytest.mark.parametrize("annotation", [
    MISSING, None, type(None), str, bytes, Any, object, list, dict, tuple, set, List, Dict, Tuple, List[Any], Sequence[Any],
    Tuple[Any, ...], Iterable[object], Annotated[str, "text"], Image, Audio, List[Image], Optional[Image], Union[str, Audio],
    Annotated[Image, "a chart"], CallToolResult, TextContent, List[TextContent], List[Union[str, ResourceLink]],
    Dict[str, EmbeddedResource], Tuple[Image, ...], InputRequired, Union[Day, InputRequired], Optional[bytes], List[bytes],
    Optional[list], Optional[Any], Union[str, List[Any]], Plain, Callable[[], int], Generator[int, None, None],
    List[Plain]], ids=named(40))
def test_text_content_and_other_types_declare_no_schema(annotation):
    compiled = output(annotation)
    assert (compiled.schema, compiled.wrapped, compiled.off) == (None, False, False)
    assert compiled.problems({"anything": 1}) == []


def test_a_recursive_class_has_its_members_at_the_top_level():
    compiled = output(Tree)
    assert list(compiled.schema) == ["type", "properties", "$defs"] and not compiled.wrapped
    assert compiled.problems({"children": [{"children": []}]}) == []
    assert compiled.problems({"children": [{"children": 1}]}) == ["children[0].children: 1 is not of type 'array'"]
    check_schema(compiled.schema, what="it")


def test_keywords_in_annotated_are_added_to_a_recursive_class():
    compiled = output(Annotated[Tree, "A tree", {"minProperties": 1}])
    assert compiled.schema["description"] == "A tree" and "$ref" not in compiled.schema
    assert compiled.problems({}) and not compiled.problems({"children": []})


@pytest.mark.parametrize("annotation, schema", [
    (str, {"type": "string"}), (None, {"type": "null"}), (list, {"type": "array"}), (List[Any], {"type": "array"}), (Any, {}),
    (int, INTEGER), (Annotated[str, "text"], {"type": "string", "description": "text"})], ids=str)
def test_structured_content_can_be_required(annotation, schema):
    compiled = output(annotation, structured=True)
    assert (compiled.schema, compiled.wrapped) == (wrapped(schema), True)


@pytest.mark.parametrize("annotation, schema", [
    (str, {"type": "string"}), (list, {"type": "array"}), (int, INTEGER), (List[int], {"type": "array", "items": INTEGER}),
    (Optional[Day], None)], ids=str)
def test_bare_output_requires_structured_content_and_does_not_wrap_it(annotation, schema):
    compiled = output(annotation, structured="bare")
    assert compiled.wrapped and compiled.schema_for(NEWEST) == compiled.bare
    assert schema is None or compiled.bare == schema
    assert compiled.schema_for(NEWEST_LEGACY)["required"] == ["result"]


@pytest.mark.parametrize("structured", [True, "bare"])
@pytest.mark.parametrize("annotation, schema", [(dict, {"type": "object"}), (Day, DAY)])
def test_a_required_object_is_not_wrapped(annotation, schema, structured):
    compiled = output(annotation, structured=structured)
    assert (compiled.schema, compiled.wrapped, compiled.bare) == (schema, False, None)


@pytest.mark.parametrize("structured", ["wrapped", "", 2, []])
def test_an_unknown_choice_of_structured_content_is_refused(structured):
    assert refusal(int, structured=structured) == (
        f"tool 'it': structured_output is True, False, 'bare' or None, not {structured!r}")


@pytest.mark.parametrize("structured", [True, "bare"])
@pytest.mark.parametrize("annotation", [MISSING, Image, List[TextContent], CallToolResult, bytes])
def test_required_structured_content_needs_a_suitable_annotation(annotation, structured):
    assert refusal(annotation, structured=structured) == (
        f"tool 'it': structured_output={structured!r} needs a return annotation of plain data, such as a dataclass,"
        " or output_schema=")


def test_structured_output_true_reports_the_reason():
    assert refusal(Plain, structured=True).startswith("tool 'it': the returned value is of the class Plain, which has no form")


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize("structured", [None, True, "bare"])
@pytest.mark.parametrize("annotation", [
    Dict[Tuple[int, int], str], List[Dict[FrozenSet[int], str]], Optional[Dict[Day, int]], Dict[List[int], int]], ids=str)
def test_keys_that_have_no_text_are_refused_at_once(annotation, structured):
    assert "is a mapping with keys of" in refusal(annotation, structured=structured)


@pytest.mark.parametrize("annotation, names", [
    (Dict[int, str], {"pattern": "^-?[0-9]+$"}), (Dict[float, str], None), (Dict[bool, str], None), (Dict[Any, str], None),
    (Dict[uuid.UUID, str], {"type": "string", "format": "uuid"}), (Dict[Literal[1, "b"], str], {"enum": ["1", "b"]}),
    (Dict[Level, str], {"enum": ["1"]}),
])
def test_keys_have_the_schema_of_their_texts(annotation, names):
    expected = {"type": "object", "additionalProperties": {"type": "string"}}
    assert output(annotation).schema == (expected if names is None else {**expected, "propertyNames": names})


OWN = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}


@pytest.mark.parametrize("annotation", [MISSING, int, Plain, Image])
@pytest.mark.parametrize("structured", [None, True])
def test_a_given_schema_replaces_the_annotation(annotation, structured):
    compiled = output(annotation, OWN, structured)
    assert (compiled.schema, compiled.wrapped, compiled.exact) == (OWN, False, None)
    assert compiled.problems({"n": 1}) == [] and compiled.problems({"n": "1"}) == ["n: '1' is not of type 'integer'"]


@pytest.mark.parametrize("schema, structured, message", [
    (OWN, False, "tool 'it': structured_output=False and output_schema contradict each other"),
    ([], None, "tool 'it': output_schema: a JSON Schema is an object, not list"),
    ({"type": "object", "properties": 5}, None, "tool 'it': output_schema: it is not valid JSON Schema at properties"),
    ({"type": "object", "$ref": "https://example.com/"}, None, "tool 'it': output_schema: 'https://example.com/' refers to"),
])
def test_a_schema_that_cannot_be_used_is_refused(schema, structured, message):
    assert refusal(MISSING, schema, structured).startswith(message)


@pytest.mark.parametrize("schema",
                         [{"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, {},
                          {"type": "string"}])
def test_other_values_are_wrapped_in_every_revision(schema):
    # TOOL-40
    compiled = output(MISSING, schema)
    assert compiled.schema_for(NEWEST) == compiled.schema_for(NEWEST_LEGACY) == compiled.schema
    assert compiled.schema["required"] == ["result"]
    check_schema(compiled.schema, what="it")
    for value in ({"result": [1]}, {"result": None}):
        assert compiled.value_for(value, NEWEST) == compiled.value_for(value, NEWEST_LEGACY) == value
        assert compiled.value_for(value, find_revision("2025-03-26")) is None


@pytest.mark.parametrize("schema",
                         [{"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, {},
                          {"type": "string"}])
def test_bare_values_are_wrapped_for_older_clients(schema):
    # TOOL-40, TOOL-41
    compiled = output(MISSING, schema, "bare")
    assert compiled.schema_for(NEWEST) == schema
    wrapped = compiled.schema_for(NEWEST_LEGACY)
    assert wrapped["type"] == "object" and wrapped["required"] == ["result"]
    check_schema(wrapped, what="it")
    value = {"result": [1]}
    assert compiled.value_for(value, NEWEST) == [1] and compiled.value_for(value, NEWEST_LEGACY) == value
    assert compiled.value_for({"result": None}, NEWEST) is NULL
    assert compiled.value_for(value, find_revision("2025-03-26")) is None


@pytest.mark.parametrize("annotation, good, bad", [
    (Day, {"date": "x", "high": 1, "more": 1}, {"date": "x"}), (List[int], {"result": [1]}, {"result": ["1"]}),
    (Optional[int], {"result": None}, {}), (Dict[str, int], {"a": 1}, {"a": "1"})])
def test_results_are_checked_as_jsonschema_checks_them(annotation, good, bad):
    compiled = output(annotation)
    validator = jsonschema.Draft202012Validator(compiled.schema)
    assert compiled.problems(good) == [] and validator.is_valid(good)
    assert compiled.problems(bad) and not validator.is_valid(bad)

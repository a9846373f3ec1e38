"""The types of a written client, schema by schema."""

import ast

import pytest

from mcplite.cli.stub_types import Identifiers, SchemaTypes, literal, object_parts
from mcplite.protocol.schema.references import LenientReferences

POINT = {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}, "label": {"type": "string"}}}
TREE = {"$ref": "#/$defs/Tree", "$defs": {"Tree": {
    "type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}}}


def kind(schema):
    return SchemaTypes(Identifiers()).of(schema, schema, "thing")


@pytest.mark.parametrize("schema, expected", [
    ({"type": "string"}, "str"), ({"type": "integer"}, "int"), ({"type": "number"}, "float"), ({"type": "boolean"}, "bool"),
    ({"type": "null"}, "None"), ({"type": ["string", "null"]}, "Optional[str]"),
    ({"type": ["string", "integer"]}, "Union[str, int]"),
    ({"type": "array", "items": {"type": "string"}}, "List[str]"), ({"type": "array"}, "List[Any]"),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, "List[Any]"),
    ({"type": "object"}, "Dict[str, Any]"), ({"type": "object", "additionalProperties": {"type": "integer"}}, "Dict[str, int]"),
    ({"enum": ["a", "b'", 3, True, None]}, "Literal['a', \"b'\", 3, True, None]"), ({"const": "\u202e"}, "Literal['\\u202e']"),
    ({"type": "number", "enum": [1.5]}, "float"), ({"enum": [[1]]}, "Any"), ({"enum": []}, "Any"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "Optional[str]"), ({"anyOf": [{"type": "string"}, {}]}, "Any"),
    ({"oneOf": [{"const": "a"}, {"type": "integer"}]}, "Union[Literal['a'], int]"), ({"allOf": [{"type": "string"}]}, "str"),
    ({}, "Any"), (True, "Any"), ({"type": "strin"}, "Any"), ({"$ref": "#"}, "Any"), ({"$ref": "https://example.com/x"}, "Any"),
    ({"type": "array", "items": POINT}, "List[ThingItem]"), (TREE, "Tree")])
def test_the_type_of_a_schema(schema, expected):
    assert kind(schema) == expected


def test_a_class_has_the_members_that_have_to_be_there_in_one_that_it_inherits_from():
    types = SchemaTypes(Identifiers())
    assert types.of(POINT, POINT, "a point") == types.of(POINT, POINT, "another") == "APoint"
    assert types.lines == ["class APointRequired(TypedDict):", "    x: float", "", "",
                           "class APoint(APointRequired, total=False):", "    label: str", "", ""]


def test_a_class_may_refer_to_itself():
    types = SchemaTypes(Identifiers())
    types.of(TREE, TREE, "thing")
    assert types.lines[:2] == ["class Tree(TypedDict, total=False):", "    children: List[Tree]"]


def test_members_that_are_no_identifiers_or_would_hide_a_type_are_written_as_texts():
    schema = {"type": "object", "properties": dict.fromkeys(["a b", "str", "class"], {"type": "string"})}
    types = SchemaTypes(Identifiers())
    types.of(schema, schema, "thing")
    assert types.lines[0] == 'Thing = TypedDict("Thing", {' and "    'a b': 'str'," in types.lines


def test_two_definitions_of_one_name_are_two_classes():
    types = SchemaTypes(Identifiers())
    roots = [{"$defs": {"P": {"type": "object", "properties": {name: {}}}}} for name in "ab"]
    kinds = [types.of({"$ref": "#/$defs/P"}, root, "p") for root in roots]
    assert kinds == ["P", "P2"]


def test_members_of_a_reference_and_of_all_parts_belong_to_an_object():
    schema = {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}, "required": ["a"]}],
              "$defs": {"A": {"properties": {"a": {}}}}}
    fields, is_open = object_parts(schema, LenientReferences(schema))
    assert {(one.name, one.required) for one in fields} == {("a", True), ("b", False)} and not is_open


def test_identifiers_are_of_ascii_no_keywords_and_differ():
    names = Identifiers(["taken"])
    given = ["a b", "a-b", "a_b", "class", "__init__", "", "1st", "\u0438\u043c\u044f", "taken"]
    found = [names.take(name, "argument") for name in given]
    assert found == ["a_b", "a_b_", "a_b3", "class_", "init", "argument", "argument_1st", "argument_", "taken_"]
    assert all(one.isidentifier() and one.isascii() for one in found)


@pytest.mark.parametrize("value", ["'\"\"\"\\\n\u2028\u202e", 3, -2.5, True, None])
def test_a_literal_is_the_value_in_ascii(value):
    assert ast.literal_eval(literal(value)) == value and literal(value).isascii()


@pytest.mark.parametrize("value", [[1], {"a": 1}, "x" * 1000])
def test_what_is_long_or_has_parts_is_no_literal(value):
    assert literal(value) is None

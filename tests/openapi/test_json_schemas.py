"""Schemas as tools list them, and which values they take: what OpenAPI says in its own words, in ten ways each."""

import json

import jsonschema
import pytest

import mcplite
from mcplite.openapi import from_openapi
from mcplite.openapi.document import Document
from mcplite.openapi.json_schemas import SchemaBuilder
from mcplite.openapi.operations import operations_of
from mcplite.openapi.responses import output_of

from .conftest import document

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
CAT = {"type": "object", "required": ["kind", "lives"], "properties": {"kind": {"type": "string", "enum": ["cat"]},
                                                                       "lives": {"type": "integer"}}}
DOG = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string", "enum": ["dog"]},
                                                              "barks": {"type": "boolean"}}}
SCHEMAS = {
    "Cat": CAT, "Dog": DOG, "Name": {"type": "string", "minLength": 2}, "Open": {"type": "object"},
    "Pet": {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
            "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}}},
    "Base": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}, "additionalProperties": False},
    "Heir": {"allOf": [{"$ref": "#/components/schemas/Base"}], "type": "object", "additionalProperties": False,
             "properties": {"name": TEXT}},
    "Heiress": {"allOf": [{"$ref": "#/components/schemas/Heir"}, {"properties": {"title": TEXT}}]},
    "Tree": {"type": "object", "properties": {"label": TEXT, "children": {
        "type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}, "required": ["label"]},
    "Left": {"type": "object", "properties": {"right": {"$ref": "#/components/schemas/Right"}, "n": NUMBER}},
    "Right": {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Left"}}},
    "Map": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Map"}},
    "List": {"type": "array", "items": {"$ref": "#/components/schemas/List"}},
    "Own": {"allOf": [{"$ref": "#/components/schemas/Own"}]},
    "Kind": {"type": "object", "properties": {"kind": TEXT}, "required": ["kind"],
             "oneOf": [{"$ref": "#/components/schemas/One"}, {"$ref": "#/components/schemas/Two"}]},
    "One": {"allOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "object", "properties": {"one": NUMBER}}]},
    "Two": {"allOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "object", "properties": {"two": NUMBER}, "required":
                                                             ["two"]}]},
    "Either": {"anyOf": [TEXT, {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Either"}}}]},
    "Stamp": {"type": "string", "readOnly": True}, "Secret": {"type": "string", "writeOnly": True},
}


def ref(name, **more):
    return {"$ref": f"#/components/schemas/{name}", **more}


def built(node, version="3.0.3", **options):
    """Return the schema of one part of a document, as a tool has it."""
    builder = SchemaBuilder(Document(document({}, version, components={"schemas": SCHEMAS})), **options)
    schema = builder.finish(builder.build(node, ""))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


def allows(node, value, version="3.0.3", **options):
    return jsonschema.Draft202012Validator(built(node, version, **options)).is_valid(value)


@pytest.mark.parametrize("node, right, wrong", [
    (ref("Pet"), {"kind": "cat", "lives": 9}, {"kind": "cow"}),
    (ref("Pet"), {"kind": "dog"}, {"kind": "cat"}),
    ({"type": "array", "items": ref("Pet")}, [{"kind": "dog", "barks": True}], [{"kind": "dog", "barks": "loud"}]),
    ({"anyOf": [ref("Cat"), TEXT]}, "x", 5),
    ({"anyOf": [TEXT], "oneOf": [{"type": "string", "maxLength": 1}, {"type": "string", "minLength": 3}]}, "abc", "ab"),
    # Kinds that overlap under oneOf are meant as one of several.
    ({"oneOf": [NUMBER, {"type": "integer"}]}, 1, "1"),
    ({"allOf": [ref("Cat"), {"type": "object", "required": ["name"], "properties": {"name": ref("Name")}}]},
     {"kind": "cat", "lives": 1, "name": "Tom"}, {"kind": "cat", "lives": 1, "name": "T"}),
    ({"allOf": [{"type": "object", "properties": {"a": TEXT}}], "required": ["a"]}, {"a": ""}, {}),
    ({"not": TEXT}, 1, "x"),
    ({"allOf": [ref("Pet"), {"type": "object", "required": ["name"]}]}, {"kind": "dog", "name": "x"}, {"kind": "dog"}),
    # Closed parts that inherit from each other: each would refuse the members of the others.
    (ref("Heir"), {"id": 1, "name": "x"}, {"id": 1, "other": 2}),
    (ref("Heiress"), {"id": 1, "name": "x", "title": "y"}, {"name": "x"}),
    ({"type": "object", "properties": {"heirs": {"type": "array", "items": ref("Heir")}}}, {"heirs": [{"id": 1, "name": "x"}]},
     {"heirs": [{"id": 1, "name": 2}]}),
    ({"allOf": [ref("Base"), {"type": "object", "properties": {"id": {"type": "integer"}, "more": TEXT}}]},
     {"id": 1, "more": "x"}, {"id": 1, "less": "x"}),
    ({"allOf": [ref("Heir"), ref("Open")]}, {"id": 1, "name": "x"}, {"name": "x"}),
])
def test_unions_and_inheritance(node, right, wrong):
    assert allows(node, right) and not allows(node, wrong)


@pytest.mark.parametrize("node, version", [
    ({"type": "string", "nullable": True}, "3.0.3"), ({"type": "string", "nullable": True, "enum": ["a"]}, "3.0.3"),
    ({"type": "array", "items": TEXT, "nullable": True}, "3.0.3"), (ref("Name", nullable=True), "3.0.3"),
    (ref("Cat", nullable=True, description="The cat"), "3.0.3"), ({"allOf": [ref("Cat")], "nullable": True}, "3.0.3"),
    ({"anyOf": [TEXT, NUMBER], "nullable": True}, "3.0.3"), ({"oneOf": [ref("Cat"), ref("Dog")], "nullable": True}, "3.0.3"),
    ({"type": "string", "x-nullable": True}, "2.0"), ({"type": ["string", "null"]}, "3.1.0"),
    ({"anyOf": [ref("Cat"), {"type": "null"}]}, "3.1.0"), ({"type": ["string", "null"], "enum": ["a", None]}, "3.1.0"),
    ({"const": None}, "3.1.0"), ({"nullable": True, "type": "object", "properties": {"a": TEXT}}, "3.0.3"),
])
def test_what_may_be_null(node, version):
    assert allows(node, None, version)


@pytest.mark.parametrize("node, version", [
    (TEXT, "3.0.3"), (ref("Name"), "3.0.3"), (ref("Cat"), "3.1.0"), ({"type": "string", "nullable": False}, "3.0.3"),
    ({"type": ["string", "integer"]}, "3.1.0"), ({"enum": ["a"]}, "3.0.3")])
def test_what_may_not_be_null(node, version):
    assert not allows(node, None, version)


@pytest.mark.parametrize("node, right, wrong", [
    ({"minimum": 1, "exclusiveMinimum": True}, 2, 1), ({"minimum": 1, "exclusiveMinimum": False}, 1, 0),
    ({"maximum": 9, "exclusiveMaximum": True}, 8, 9), ({"maximum": 9, "exclusiveMaximum": False}, 9, 10),
    ({"exclusiveMinimum": 1}, 2, 1), ({"exclusiveMaximum": 9}, 8, 9), ({"minimum": 0, "exclusiveMinimum": 1}, 2, 1),
    ({"minimum": 1, "maximum": 3, "exclusiveMinimum": True, "exclusiveMaximum": True}, 2, 3),
    ({"multipleOf": 5}, 10, 11), ({"minimum": 1, "exclusiveMinimum": "yes"}, 1, 0)])
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_bounds(node, right, wrong, version):
    node = {"type": "number", **node}
    assert allows(node, right, version) and not allows(node, wrong, version)


@pytest.mark.parametrize("node, version, found", [
    ({"type": ["string", "integer"]}, "3.1.0", ["string", "integer"]), ({"type": ["string"]}, "3.1.0", "string"),
    ({"type": ["string", "string"]}, "3.1.0", "string"), ({"type": ["string", "date"]}, "3.1.0", "string"),
    ({"type": []}, "3.1.0", None), ({"type": "any"}, "3.0.3", None), ({"type": "file"}, "2.0", "string"),
    ({"properties": {}}, "3.0.3", "object"), ({"items": {}}, "3.0.3", "array"), ({"type": ["array", "null"]}, "3.1.0",
                                                                                 ["array", "null"])])
def test_types(node, version, found):
    assert built(node, version).get("type") == found


@pytest.mark.parametrize("node, left", [
    ({"type": "integer", "default": 5}, 5), ({"type": "string", "default": ""}, ""), ({"type": "boolean", "default": False},
                                                                                     False),
    ({"type": "array", "items": TEXT, "default": ["a"]}, ["a"]), ({"default": {"a": 1}}, {"a": 1}),
    ({"type": "number", "default": 1}, 1), ({"type": ["string", "integer"], "default": 3}, 3),
    (ref("Name", default="ab"), "ab"),
    # A default that its own schema refuses is none that a model could give.
    ({"type": "integer", "default": "inf"}, None), ({"type": "integer", "default": "10"}, None),
    ({"type": "string", "default": 0}, None), ({"type": "array", "items": TEXT, "default": "a"}, None)])
def test_defaults(node, left):
    assert built(node).get("default") == left


@pytest.mark.parametrize("node, right, wrong", [
    (ref("Tree"), {"label": "a", "children": [{"label": "b", "children": []}]}, {"label": "a", "children": [{}]}),
    (ref("Left"), {"right": {"left": {"right": {"left": {"n": 1}}}}}, {"right": {"left": {"n": "one"}}}),
    (ref("Map"), {"a": {"b": {}}}, {"a": {"b": 1}}), (ref("List"), [[], [[]]], [[1]]),
    (ref("Either"), {"next": {"next": "end"}}, {"next": {"next": 5}}),
    ({"type": "array", "items": ref("Tree")}, [{"label": "a"}], [{"label": 1}]),
    ({"anyOf": [ref("Tree"), ref("Map")]}, {"label": "a"}, {"label": 5}),
    ({"type": "object", "properties": {"tree": ref("Tree"), "again": ref("Tree")}}, {"again": {"label": "x"}}, {"again": {}}),
    ({"type": "object", "additionalProperties": ref("Tree")}, {"any": {"label": "x"}}, {"any": {}}),
    ({"allOf": [ref("Tree"), {"type": "object", "required": ["children"]}]}, {"label": "a", "children": []}, {"label": "a"}),
])
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_schemas_that_refer_to_themselves(node, right, wrong, version):
    assert allows(node, right, version) and not allows(node, wrong, version)


@pytest.mark.parametrize("node, right, wrong", [
    # A kind lists its heirs, each of which has it among its parts.
    (ref("Kind"), {"kind": "one", "one": 1}, {"one": 1}), (ref("Two"), {"kind": "two", "two": 2}, {"kind": "two"}),
    ({"type": "array", "items": ref("Kind")}, [{"kind": "two", "two": 2}], [{"two": 2}]),
    ({"anyOf": [ref("One"), TEXT]}, {"kind": "x", "one": 1}, 5), (ref("One", nullable=True), None, {"one": "x", "kind": "y"}),
    ({"type": "object", "required": ["own"], "properties": {"own": ref("Own")}}, {"own": 5}, {})])
def test_circles_that_do_not_go_down_into_the_value_are_cut(node, right, wrong):
    spec = document({"/a": {"post": {"operationId": "send", "requestBody": {"required": True, "content": {
        "application/json": {"schema": {"type": "object", "required": ["it"], "properties": {"it": node}}}}}}}},
        components={"schemas": SCHEMAS})
    with mcplite.connect(from_openapi(spec, base_url="http://127.0.0.1:9")) as client:
        assert [tool.name for tool in client.list_tools()] == ["send"]  # a tool with such a circle is in no list
        assert "Invalid arguments" in client.call_tool("send", {"it": wrong}).text
        assert "cannot reach" in client.call_tool("send", {"it": right}).text


ANIMAL = {"type": "object", "required": ["kind"], "properties": {"kind": TEXT}, "discriminator": {"propertyName": "kind"}}
HEIRS = {
    "Animal": ANIMAL,
    "Bird": {"allOf": [{"$ref": "#/components/schemas/Animal"}], "properties": {"wings": {"type": "integer"}, "size": TEXT}},
    "Fish": {"allOf": [{"$ref": "#/components/schemas/Animal"},
                       {"type": "object", "properties": {"fins": NUMBER, "size": NUMBER}}]},
    "Eagle": {"allOf": [{"$ref": "#/components/schemas/Bird"}, {"type": "object", "properties": {"range": NUMBER}}]},
    "Stone": {"type": "object", "properties": {"weight": NUMBER}},
}


@pytest.mark.parametrize("version", ["2.0", "3.0.3", "3.1.0"])
@pytest.mark.parametrize("wrap, given", [
    (lambda node: node, lambda value: value), (lambda node: {"type": "array", "items": node}, lambda value: {"body": [value]}),
    (lambda node: {"type": "object", "properties": {"it": node}}, lambda value: {"it": value})])
def test_the_members_of_heirs_are_listed_with_a_kind(wrap, given, version):
    """A kind with a discriminator names no heirs; each heir names the kind, in the whole document."""
    old = version == "2.0"
    schemas = json.loads(json.dumps(HEIRS).replace("#/components/schemas/", "#/definitions/") if old else json.dumps(HEIRS))
    node = wrap({"$ref": "#/definitions/Animal" if old else "#/components/schemas/Animal"})
    operation = {"parameters": [{"in": "body", "name": "it", "required": True, "schema": node}]} if old else {
        "requestBody": {"required": True, "content": {"application/json": {"schema": node}}}}
    spec = document({"/a": {"post": operation}}, version, **({"definitions": schemas} if old else {"components": {
        "schemas": schemas}}))
    (found,) = operations_of(Document(spec), None)
    schema = found.shape.input_schema
    listed = json.dumps(schema)
    assert all(f'"{name}"' in listed for name in ("kind", "wings", "fins", "range", "size")) and '"weight"' not in listed
    check = jsonschema.Draft202012Validator(schema)
    for value in ({"kind": "Eagle", "range": 5, "wings": 2, "size": "large"}, {"kind": "Fish", "size": 3}):
        assert check.is_valid(given(value))
    assert not check.is_valid(given({"kind": "Fish", "fins": "many"}))


def shapes(node):
    """Return the schema of the arguments of an operation with this body, and that of its output with this response."""
    content = {"application/json": {"schema": node}}
    spec = document({"/a": {"post": {"requestBody": {"required": True, "content": content}, "responses": {
        "200": {"description": "", "content": content}}}}}, components={"schemas": SCHEMAS})
    (operation,) = operations_of(Document(spec), None)
    return operation.shape.input_schema, output_of(operation, "strict").schema


@pytest.mark.parametrize("id_schema", [
    {"type": "string", "readOnly": True}, ref("Stamp"), {"allOf": [ref("Stamp")], "readOnly": True},
    ref("Name", readOnly=True)])
@pytest.mark.parametrize("wrap", [
    lambda node: node, lambda node: {"type": "object", "required": ["in"], "properties": {"in": node}},
    lambda node: {"allOf": [node, {"type": "object", "properties": {"more": TEXT}}]}])
def test_members_that_are_read_only_are_in_responses_alone(id_schema, wrap):
    node = {"type": "object", "required": ["id", "name"], "properties": {"id": id_schema, "name": TEXT}}
    given, answered = map(json.dumps, shapes(wrap(node)))
    assert '"id"' not in given and '"name"' in given and '"id"' in answered


@pytest.mark.parametrize("schema", [{"type": "string", "writeOnly": True}, ref("Secret"), ref("Name", writeOnly=True),
                                    {"allOf": [ref("Secret")], "writeOnly": True}])
def test_members_that_are_write_only_are_in_requests_alone(schema):
    given, answered = shapes({"type": "object", "required": ["password"], "properties": {"password": schema, "name": TEXT}})
    assert given["required"] == ["password"] and "password" not in answered["properties"]
    assert "required" not in answered


def test_what_is_beside_a_reference_stays():
    """Before 3.1 it has no meaning, but generators write it for readers."""
    made = built({"type": "object", "properties": {"cat": ref("Cat", description="The first cat", nullable=True)}})
    assert made["properties"]["cat"]["description"] == "The first cat"
    assert built({"type": "object", "properties": {"cat": ref("Cat", type="string")}})["properties"]["cat"] == {
        "$ref": "#/$defs/Cat"}


def test_the_responses_of_a_thousand_tools_fit_into_a_message():
    members = {f"member_{at}": {"type": "string", "description": "A text of the thing."} for at in range(400)}
    node = {"type": "object", "properties": members}
    one, many = (repr(built(node, response=True, lenient=True, tools=tools)) for tools in (1, 1000))
    assert many.count("type") < one.count("type") and len(many) * 1000 < 30_000_000

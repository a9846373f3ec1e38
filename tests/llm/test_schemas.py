import copy

import jsonschema
import pytest
from hypothesis import given, strategies as st

from mcplite.llm.schemas import portable, resolve

EMPTY = {"type": "object", "properties": {}}


def nested(schema):
    """Return what the schema of one parameter becomes."""
    return portable({"type": "object", "properties": {"x": schema}})["properties"]["x"]


@pytest.mark.parametrize("schema", [{}, None, [], True, "object", {"type": "object"}, {"type": "string"},
                                    {"type": "object", "properties": None, "required": "all"}])
def test_the_top_is_an_object_with_properties(schema):
    assert portable(schema) == EMPTY


def test_a_plain_schema_stays_as_it_is():
    schema = {"type": "object", "properties": {
        "city": {"type": "string", "description": "Where", "minLength": 1, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "exclusiveMaximum": 15, "default": 3},
        "unit": {"enum": ["c", "f"]}, "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "more": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
    }, "required": ["city"], "additionalProperties": False}
    before = copy.deepcopy(schema)
    assert portable(schema) == before and schema == before


def test_older_drafts_and_openapi():
    assert nested({"type": "array", "items": [{"type": "string"}, {}], "additionalItems": {"type": "number"}}) == {
        "type": "array", "prefixItems": [{"type": "string"}, {}], "items": {"type": "number"}}
    assert nested({"type": "array", "items": []}) == {"type": "array", "items": {}}
    assert nested({"type": "number", "minimum": 1, "exclusiveMinimum": True, "exclusiveMaximum": True}) == {
        "type": "number", "minimum": 1, "exclusiveMinimum": 1}
    assert nested({"type": "string", "nullable": True}) == {"type": ["string", "null"]}
    assert nested({"type": "string", "required": True, "id": "x", "$schema": "y", "example": 1}) == {"type": "string"}


@pytest.mark.parametrize("bad", [
    {"type": "any"}, {"type": 3}, {"enum": []}, {"enum": "a"}, {"minimum": "1"}, {"minimum": True}, {"minLength": -1},
    {"properties": []}, {"anyOf": []}, {"anyOf": {}}, {"items": 3}, {"pattern": 1}, {"multipleOf": 0}, {"x-mine": 1},
    {"description": None}, {"$ref": "#/nowhere"}, {"$ref": "https://example.com/s.json"}, {"$ref": 3}, {"$dynamicRef": "#a"},
])
def test_malformed_keywords_are_left_out(bad):
    assert nested(bad) == {}


def test_schemas_that_are_booleans():
    assert nested(True) == {}
    assert "x" not in portable({"properties": {"x": False}, "required": ["x"]})["properties"]
    assert portable({"properties": {"x": False}, "required": ["x"]})["required"] == []
    assert nested({"type": "object", "additionalProperties": False}) == {"type": "object", "additionalProperties": False}


def test_arrays_have_items():
    assert nested({"type": "array"}) == {"type": "array", "items": {}}


def test_definitions_are_kept_in_one_place():
    schema = {"properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/$defs/B", "description": "B"}},
              "definitions": {"A": {"type": "string"}}, "$defs": {"B": {"items": {"$ref": "#/$defs/B"}, "type": "array"}}}
    assert portable(schema) == {
        "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B", "description": "B"}},
        "$defs": {"A": {"type": "string"}, "B": {"items": {"$ref": "#/$defs/B"}, "type": "array"}}}
    assert portable({"$defs": {"A": {}}, "properties": {"a": {}}}) == {"type": "object", "properties": {"a": {}}}


def test_other_references_are_replaced():
    schema = {"properties": {"a": {"properties": {"b": {"type": "string"}}}, "c": {"$ref": "#/properties/a/properties/b"},
                             "again": {"$ref": "#"}}}
    assert portable(schema)["properties"]["c"] == {"type": "string"}
    assert portable(schema)["properties"]["again"] == {"type": "object"}
    loop = {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]}}}
    assert "$ref" not in str(portable(loop))


def test_the_top_may_be_a_reference():
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"a": {"type": "string"}},
                                                         "required": ["a"]}}}
    assert portable(schema) == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert portable({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})["type"] == "object"


def test_combinations_at_the_top_become_one_object():
    by_id = {"properties": {"id": {"type": "integer"}, "full": {"type": "boolean"}}, "required": ["id", "full"]}
    by_name = {"properties": {"name": {"type": "string"}, "full": {"type": "string"}}, "required": ["name", "full"],
               "additionalProperties": False}
    for key in ("anyOf", "oneOf"):
        assert portable({"type": "object", key: [by_id, by_name], "description": "Finds."}) == {
            "type": "object", "required": ["full"], "properties": {
                "id": {"type": "integer"}, "name": {"type": "string"},
                "full": {"anyOf": [{"type": "boolean"}, {"type": "string"}]}},
            "description": "Finds. Needs the parameters of one of these groups: id, full; name, full."}
    both = portable({"allOf": [by_id, by_name], "properties": {"x": {}}, "required": ["x"]})
    assert both["required"] == ["x", "id", "full", "name"] and set(both["properties"]) == {"x", "id", "full", "name"}
    assert portable({"anyOf": [{"type": "null"}, by_id]})["required"] == ["id", "full"]
    either = portable({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a", "z"]}, {"required": ["b", "z"]}]})
    assert either == {"type": "object", "properties": {"a": {}, "b": {}}, "required": [],
                      "description": "Needs the parameters of one of these groups: a, z; b, z."}
    assert "not" not in portable({"not": {"required": ["a"]}, "if": {}, "enum": [{}]})


def test_a_deep_schema_ends():
    schema = {}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    assert str(nested(schema)).count("items") < 60


def test_resolving():
    root = {"$defs": {"a/b": {"x~y": [{"type": "string"}]}}}
    assert resolve(root, "#/$defs/a~1b/x~0y/0") == {"type": "string"}
    assert resolve(root, "#") is root
    assert resolve(root, "#/$defs/a~1b/x~0y/7") is None and resolve(root, "other") is None


JSON = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(alphabet="ab#/$", max_size=4)),
                    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([
                        "type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "enum",
                        "const", "required", "minimum", "exclusiveMinimum", "nullable", "additionalProperties", "a", "b",
                        "not", "prefixItems", "pattern"]), inner, max_size=5)), max_leaves=30)
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/definitions/b", "#/properties/a", "#/anyOf/0"])
TYPES = st.sampled_from(["object", "array", "string", ["string", "null"]])
SCHEMAS = JSON.map(lambda value: value if isinstance(value, dict) else {"anyOf": [value]})


@given(SCHEMAS, REFERENCES, TYPES)
def test_whatever_comes_becomes_a_valid_schema(schema, reference, type):
    schema = {"properties": {"a": {**schema, "$ref": reference}, "b": {**schema, "type": type}}, "$defs": {"a": schema},
              **schema}
    before = copy.deepcopy(schema)
    found = portable(schema)
    jsonschema.Draft202012Validator.check_schema(found)
    assert schema == before
    assert set(found.get("required", ())) <= set(found["properties"])
    assert found["type"] == "object" and not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & set(found)
    for ref in references(found):
        assert resolve(found, ref) is not None


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)

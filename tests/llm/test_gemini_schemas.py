import pytest
from hypothesis import given

from mcplite.llm.gemini_schemas import gemini_schema
from mcplite.llm.tool_schemas import portable
from tests.llm.test_tool_schemas import REFERENCES, SCHEMAS, TYPES

KEYWORDS = {"type", "format", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
            "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum", "maximum"}


def written(schema, **more):
    """Return what the schema of one parameter becomes."""
    return gemini_schema(portable({"properties": {"x": schema}, **more}))["properties"]["x"]


@pytest.mark.parametrize("schema, expected", [
    ({"type": "string"}, {"type": "STRING"}),
    ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
    ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
    ({"type": "null"}, {"type": "STRING", "nullable": True}),
    ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "Days"},
     {"type": "INTEGER", "minimum": 1, "nullable": True, "description": "Days"}),
    ({"oneOf": [{"type": "string", "description": "A"}, {"type": "boolean"}]},
     {"anyOf": [{"type": "STRING", "description": "A"}, {"type": "BOOLEAN"}]}),
    ({"allOf": [{"type": "string"}, {"minLength": 1}], "description": "D"},
     {"type": "STRING", "minLength": 1, "description": "D"}),
    ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
    ({"enum": ["a", "b", None]}, {"type": "STRING", "enum": ["a", "b"], "nullable": True}),
    ({"type": "integer", "enum": [1, 2], "description": "How."}, {"type": "INTEGER", "description": "How. One of: 1, 2."}),
    ({"enum": ["", "a"]}, {"type": "STRING", "description": 'One of: "", "a".'}),
    ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    ({"type": "string", "format": "uri"}, {"type": "STRING", "description": "Format: uri."}),
    ({"type": "integer", "exclusiveMinimum": 0, "default": 3},
     {"type": "INTEGER", "description": "exclusiveMinimum: 0. default: 3."}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
     {"type": "INTEGER", "nullable": True, "description": "default: 3."}),
    ({"type": "array"}, {"type": "ARRAY", "items": {"anyOf": [
        {"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"}]}}),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 3},
     {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 3}),
    ({"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
     {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}}),
    ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]},
     {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
    ({"items": {"type": "string"}}, {"type": "ARRAY", "items": {"type": "STRING"}}),
    ({}, {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"}]}),
])
def test_schemas(schema, expected):
    assert written(schema) == expected


def test_references_are_replaced():
    assert written({"$ref": "#/$defs/City", "description": "Where"}, **{"$defs": {"City": {"type": "string"}}}) == {
        "type": "STRING", "description": "Where"}
    assert written({"allOf": [{"$ref": "#/$defs/City"}]}, **{"$defs": {"City": {"type": "string"}}}) == {"type": "STRING"}


def test_a_recursive_schema_ends():
    found = written({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": {"type": "object", "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}}})
    assert str(found).count("children") == 6
    assert written({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}) == {"type": "OBJECT"}
    lists = {"$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/L"}}}}
    assert str(written({"$ref": "#/$defs/L"}, **lists)).count("ARRAY") == 7


def test_references_that_multiply_are_bounded():
    definitions = {f"D{n}": {"type": "object", "properties": {
        name: {"$ref": f"#/$defs/D{n + 1}"} for name in "abcdefghij"}} for n in range(5)}
    found = written({"$ref": "#/$defs/D0"}, **{"$defs": {**definitions, "D5": {"type": "string"}}})
    assert str(found).count("type") < 20_000


def check(schema):
    """Fail unless each rule of the API holds for a schema and those in it."""
    assert set(schema) <= KEYWORDS
    assert ("type" in schema) != ("anyOf" in schema)
    assert schema.get("anyOf", [1])
    kind = schema.get("type")
    assert kind in (None, "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT")
    assert "enum" not in schema or (kind == "STRING" and all(isinstance(value, str) and value for value in schema["enum"]))
    assert (kind == "ARRAY") == ("items" in schema)
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    assert schema.get("properties", [1])
    items = [schema["items"]] if "items" in schema else []
    for inner in (*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *items):
        check(inner)


@given(SCHEMAS, REFERENCES, TYPES)
def test_whatever_comes_keeps_the_rules(schema, reference, type):
    found = gemini_schema(portable({"properties": {"a": {**schema, "$ref": reference}, "b": {**schema, "type": type}},
                                    "$defs": {"a": schema}, **schema}))
    assert found["type"] == "OBJECT"
    check({**found, "properties": found.get("properties") or {"x": {"type": "STRING"}}})

"""Which schemas are accepted at a glance: only ones that jsonschema accepts, and those that ordinary tools have."""

import subprocess
import sys

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from mcplite.protocol.schema.validation import is_wellformed

#: Arguments that are right for some keywords and wrong for others.
ARGUMENTS = [
    None, True, False, 0, 1, -1, 1.0, 0.5, -0.5, "", "a", "string", "object", [], {}, [{}], [True], ["a"], ["a", "a"],
    ["string"], ["string", "null"], ["string", "string"], [1], [None], {"a": {}}, {"a": True}, {"a": 1}, {"a": ["b"]}, 10**30]
KEYWORDS = [
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "additionalItems",
    "additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "contentSchema",
    "default", "definitions", "dependencies", "dependentRequired", "dependentSchemas", "deprecated", "description", "else",
    "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength",
    "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not",
    "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "readOnly", "required", "then",
    "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly", "x-mine", "unknown"]
KEYWORD, ARGUMENT = st.sampled_from(KEYWORDS), st.sampled_from(ARGUMENTS)


def nested(inner):
    return st.dictionaries(KEYWORD, ARGUMENT | inner | st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["a", "b"]), inner, max_size=2), max_size=2)


SCHEMAS = st.recursive(st.dictionaries(KEYWORD, ARGUMENT, max_size=2), nested, max_leaves=4)


@settings(max_examples=1000, deadline=None)
@given(SCHEMAS)
@pytest.mark.slow
def test_what_is_accepted_is_valid_in_both_dialects(schema):
    if is_wellformed(schema):
        for dialect in (jsonschema.Draft202012Validator, jsonschema.Draft7Validator):
            assert dialect(dialect.META_SCHEMA).is_valid(schema)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_argument_of_every_keyword(keyword):
    for argument in ARGUMENTS:
        for schema in ({keyword: argument}, {"properties": {"a": {keyword: argument}}}):
            if is_wellformed(schema):
                for dialect in (jsonschema.Draft202012Validator, jsonschema.Draft7Validator):
                    assert dialect(dialect.META_SCHEMA).is_valid(schema), argument


@pytest.mark.parametrize("schema", [
    {}, {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Order", "type": "object", "$defs": {
        "Size": {"enum": ["small", "large"], "type": "string"}}, "properties": {
            "size": {"$ref": "#/$defs/Size"}, "note": {"anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}],
                                                       "default": None},
            "prices": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1}},
     "additionalProperties": False}])
def test_schemas_of_ordinary_tools_are_accepted(schema):
    assert is_wellformed(schema)


@pytest.mark.parametrize("schema", [
    {"type": "objekt"}, {"required": "a"}, {"required": ["a", "a"]}, {"properties": {"a": {"minimum": "x"}}},
    {"minLength": -1}, {"minLength": True}, {"anyOf": []}, {"items": [{}]}, {"multipleOf": 0}, {"enum": "a"},
    {"additionalProperties": {"not": 1}}, {"unknown": 1}, [], None, 1])
def test_others_are_left_to_jsonschema(schema):
    assert not is_wellformed(schema)


def test_the_first_result_of_an_ordinary_tool_does_not_load_jsonschema():
    code = """
import sys, mcplite
mcp = mcplite.Server("shop")
@mcp.tool
def add(a: int, b: int) -> int:
    return a + b
with mcplite.connect(mcp) as client:
    client.list_tools()
    assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"result": 3}
    assert "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

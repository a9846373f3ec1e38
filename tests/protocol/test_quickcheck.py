"""Quick verdicts: never another one than jsonschema's, and on ordinary schemas always one."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcplite.protocol.quickcheck import compile_check


def fits(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


DECIDED = [
    ({}, [1, None, "x"], []),
    (True, [1, None], []),
    ({"type": "string", "title": "T", "description": "d", "default": 5, "format": "date", "x-more": 1}, ["x"], [1, None]),
    ({"type": "integer"}, [1, 1.0, 10 ** 30], [True, 1.5, "1"]),
    ({"type": "number"}, [1, 1.5], [True, "1"]),
    ({"type": ["string", "null"]}, ["x", None], [1, False]),
    ({"type": "boolean"}, [True], [1, 0]),
    ({"enum": ["a", 1, None]}, ["a", 1, 1.0, None], ["b", True, [], {}]),
    ({"const": True}, [True], [1, "true"]),
    ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9, "x", True, None], [0, 3]),
    ({"exclusiveMinimum": 1, "maximum": 3}, [1.1, 3], [1, 3.1]),
    ({"multipleOf": 3}, [3, -6, 0, "x", True], [4, -1]),
    ({"minLength": 1, "maxLength": 2}, ["a", "ab", 5, []], ["", "abc"]),
    ({"pattern": "^a+$"}, ["a", "aa", 5, None], ["", "b", "ab"]),
    ({"pattern": "b"}, ["abc"], ["ac"]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x", {}], [[], [1, 2, 3]]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}, []], [{}, {"a": 1, "b": 2}]),
    ({"uniqueItems": True}, [[], [1, "1", None], [1, True, 0, False], "xx"], [[1, 1], [1, 1.0], ["a", "b", "a"], [None, None]]),
    ({"uniqueItems": False}, [[1, 1]], []),
    ({"type": "array", "items": {"type": "integer"}}, [[], [1, 2.0]], [["1"], [1, None], {}]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["1", 1.5]),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
     [{"a": 1}], [{}, {"a": "1"}, {"a": 1, "b": 2}, []]),
    ({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}, [{}, {"a": 1, "b": "x"}, 5],
     [{"a": "1"}, {"b": 1}]),
]


@pytest.mark.parametrize("schema, good, bad", DECIDED, ids=lambda value: json.dumps(value)[:40])
def test_ordinary_schemas_are_decided_at_once(schema, good, bad):
    check = compile_check(schema)
    for value in good:
        assert check(value) is True and fits(schema, value), value
    for value in bad:
        assert check(value) is False and not fits(schema, value), value


@pytest.mark.parametrize("schema, value", [
    ({"not": {}}, 1), ({"$ref": "#"}, 1), (False, 1), ({"type": 5}, 1), ({"type": "other"}, 1), ({"enum": [[1]]}, [1]), ({"enum": "a"}, "a"),
    ({"minimum": "1"}, 1), ({"maxLength": 1.0}, "x"), ({"multipleOf": 0.1}, 1), ({"multipleOf": 2}, 1.5), ({"multipleOf": 0}, 1),
    ({"pattern": "("}, "x"), ({"pattern": 5}, "x"), ({"pattern": "a"}, "a" * 9000), ({"uniqueItems": True}, [[1], [1]]),
    ({"uniqueItems": 1}, [1]), ({"items": [{}]}, [1]), ({"items": {"not": {}}}, [1]), ({"anyOf": []}, 1), ({"anyOf": [{"not": {}}]}, 1),
    ({"properties": []}, {}), ({"properties": {"a": {"not": {}}}}, {"a": 1}), ({"patternProperties": {}}, {}),
], ids=lambda value: json.dumps(value)[:40])
def test_what_it_does_not_know_is_left_to_jsonschema(schema, value):
    assert compile_check(schema)(value) is None


def test_a_part_that_is_certainly_wrong_decides():
    check = compile_check({"type": "object", "properties": {"a": {"not": {}}, "b": {"type": "integer"}}})
    assert check({"a": 1, "b": 1}) is None and check({"a": 1, "b": "x"}) is False
    assert compile_check({"items": {"anyOf": [{"type": "null"}, {"not": {}}]}})([None, 1]) is None
    assert compile_check({"anyOf": [{"not": {}}, {"type": "null"}]})(None) is True


def test_a_schema_that_never_ends_is_left_to_jsonschema():
    schema = {"type": "integer"}
    for _ in range(30):
        schema = {"items": schema}
    value = 1
    for _ in range(30):
        value = [value]
    assert compile_check(schema)(value) is None


names = st.sampled_from(["a", "b"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, -2.5, "", "a", "ab", "abc", "1"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2), max_leaves=6)
kinds = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
schemas = st.recursive(
    st.fixed_dictionaries({}, optional={
        "type": kinds | st.lists(kinds, min_size=1, max_size=2, unique=True), "enum": st.lists(scalars, min_size=1, max_size=3),
        "const": scalars, "minimum": st.integers(-2, 2), "maximum": st.integers(-2, 2), "exclusiveMinimum": st.integers(-2, 2),
        "exclusiveMaximum": st.sampled_from([0.5, 1, 1.5]), "multipleOf": st.sampled_from([1, 2, 3, 0.5]), "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2), "pattern": st.sampled_from(["^a", "b$", "c", "^$", "[0-9]"]), "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2), "uniqueItems": st.booleans(), "minProperties": st.integers(0, 2)}),
    lambda inner: st.fixed_dictionaries({}, optional={
        "items": inner, "anyOf": st.lists(inner, min_size=1, max_size=2), "properties": st.dictionaries(names, inner, max_size=2),
        "required": st.lists(names, unique=True, max_size=2), "additionalProperties": st.booleans() | inner, "not": inner}),
    max_leaves=4)


@given(schemas, values)
@settings(max_examples=500, deadline=None)
def test_the_verdict_is_jsonschemas(schema, value):
    verdict = compile_check(schema)(value)
    assert verdict is None or verdict == fits(schema, value)

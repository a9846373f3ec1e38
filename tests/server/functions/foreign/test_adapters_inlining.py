"""Schemas of other libraries in the form of ours: parts in place, no invented titles."""

import jsonschema

from mcplite.server.functions.foreign.adapters import Inliner, without_patterns


def inliner(parts, taken=()):
    return Inliner(parts, lambda wanted: wanted + "2" if wanted in taken else wanted)


def test_keywords_beside_a_reference_are_kept():
    made = inliner({"A": {"type": "integer", "minimum": 1}})
    assert made.expand({"$ref": "#/$defs/A", "maximum": 3}) == {"maximum": 3, "allOf": [{"type": "integer", "minimum": 1}]}


def test_data_is_left_as_it_is():
    data = {"default": {"$ref": "#/$defs/A", "title": "X"}, "enum": [{"$ref": "x"}], "examples": [{"discriminator": 1}]}
    assert inliner({}).expand({"properties": {"x": data}}) == {"properties": {"x": data}}


def test_properties_may_have_the_names_of_keywords():
    schema = {"properties": {"$ref": {"type": "string"}, "default": {"title": "Default", "type": "integer"},
                             "discriminator": {"type": "string"}}}
    assert inliner({}).expand(schema) == {"properties": {"$ref": {"type": "string"}, "default": {"type": "integer"},
                                                        "discriminator": {"type": "string"}}}


def test_parts_that_share_parts_do_not_double_for_ever():
    parts = {f"P{level}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/P{level + 1}"} for side in "ab"}}
             for level in range(30)}
    parts["P30"] = {"type": "integer"}
    made = inliner(parts)
    schema = {**made.expand({"$ref": "#/$defs/P0"}), "$defs": made.definitions}
    assert len(str(schema)) < 100_000
    value = 5
    for _ in range(30):
        value = {"a": value}
    assert jsonschema.Draft202012Validator(schema).is_valid(value)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"a": 5})


def test_patterns_are_left_out_but_not_properties_of_that_name():
    schema = {"properties": {"pattern": {"type": "string", "pattern": "a"}, "b": {"patternProperties": {"x": {}, "y": {}},
                                                                                 "additionalProperties": False}},
              "default": {"pattern": "a"}}
    assert without_patterns(schema, lambda pattern: pattern in ("a", "x")) == {
        "properties": {"pattern": {"type": "string"}, "b": {"patternProperties": {"y": {}}}}, "default": {"pattern": "a"}}

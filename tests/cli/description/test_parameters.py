"""Members of a schema in words."""

import pytest

from mcplite.cli.description.parameters import limits_of, members_of, resolved
from mcplite.protocol.schema.references import LenientReferences


@pytest.mark.parametrize("schema, words", [
    ({}, []),
    ({"minimum": 1, "maximum": 14}, ["1 to 14"]),
    ({"minimum": 1}, ["at least 1"]),
    ({"maximum": 2.5}, ["at most 2.5"]),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.1}, ["more than 0", "less than 1", "a multiple of 0.1"]),
    ({"minimum": True, "exclusiveMaximum": True, "minLength": "x", "pattern": 5, "examples": "x"}, []),
    ({"minLength": 1, "maxLength": 20}, ["1 to 20 characters"]),
    ({"minLength": 2, "maxLength": 2}, ["2 characters"]),
    ({"minItems": 1, "uniqueItems": True}, ["at least 1 item", "all different"]),
    ({"maxProperties": 3}, ["at most 3 members"]),
    ({"format": "date", "pattern": "^2"}, ["format date", "matches ^2"]),
    ({"pattern": "x" * 100}, ["matches " + "x" * 60 + "..."]),
    ({"examples": [["a"]]}, ['for example ["a"]']),
])
def test_limits_in_words(schema, words):
    assert limits_of(schema) == words


def test_members_with_types_defaults_and_descriptions():
    schema = {"required": ["city", "points"], "$defs": {"Point": {"properties": {"x": {"type": "number", "minimum": 0}}}},
              "properties": {"city": {"type": "string", "description": "The city.", "minLength": 1},
                             "days": {"anyOf": [{"type": "integer", "maximum": 7}, {"type": "null"}], "default": 3},
                             "points": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
                             "filter": {"type": "object", "title": "Filter",
                                        "properties": {"tag": {"enum": ["a", "b"]}}, "required": ["tag"]}}}
    assert members_of(schema) == [
        ("city: str", "The city; at least 1 character"), ("days: int | None", "default 3; at most 7"),
        ("points: list[Point]", ""), ("points[].x: float", "optional; at least 0"),
        ("filter: dict", "Filter; optional"), ('filter.tag: "a" | "b"', "")]


def test_schemas_that_refer_to_themselves_end():
    schema = {"$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
              "properties": {"node": {"$ref": "#/$defs/Node"}}}
    assert [row[0] for row in members_of(schema)] == [
        "node: Node", "node.next: Node", "node.next.next: Node", "node.next.next.next: Node"]
    circle = {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert resolved({"$ref": "#/$defs/a"}, LenientReferences(circle)) == {}


@pytest.mark.parametrize("reference, name", [("#/$defs/A%20B", "A B"), ("#a", "x"), ("#/properties/o", "x")])
def test_references_of_all_kinds(reference, name):
    schema = {"$defs": {name: {"$anchor": "a", "type": "string", "minLength": 2}}, "properties": {
        "p": {"$ref": reference}, "o": {"minLength": 2}}}
    assert members_of(schema)[0][1] == "optional; at least 2 characters"


def test_references_that_multiply_are_bounded():
    members = {f"p{number}": {"$ref": "#/$defs/a"} for number in range(300)}
    rows = members_of({"$defs": {"a": {"properties": members}}, "properties": members})
    assert 300 < len(rows) < 10_000 and rows[-1][0] == "..."


@pytest.mark.parametrize("schema", [None, True, [], {"properties": []}, {"properties": {"a": 5}}, {"$ref": "#/nowhere"}])
def test_strange_schemas_are_no_error(schema):
    assert all(len(row) == 2 for row in members_of(schema))

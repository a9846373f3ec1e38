import copy
import json
import re

import jsonschema
import pytest
from hypothesis import given, strategies as st

from mcplite.llm.gemini import gemini_schema
from mcplite.llm.openai import strict_schema, without_nulls
from mcplite.llm.tool_schemas import is_portable, portable, resolve
from mcplite.protocol.schema.references import below

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
        "unit": {"type": "string", "enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
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


def test_definitions_are_kept_in_one_place():
    schema = {"properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/$defs/B", "description": "B"}},
              "definitions": {"A": {"type": "string"}}, "$defs": {"B": {"items": {"$ref": "#/$defs/B"}, "type": "array"}}}
    assert portable(schema) == {
        "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B", "description": "B"}},
        "$defs": {"A": {"type": "string"}, "B": {"items": {"$ref": "#/$defs/B"}, "type": "array"}}}
    assert portable({"$defs": {"A": {}}, "properties": {"a": {}}}) == {"type": "object", "properties": {"a": {}}}


UNIT = {"type": "string", "enum": ["C", "F"]}


@pytest.mark.parametrize("reference, more", [
    ("#/definitions/Unit%3Cstring%3E", {"definitions": {"Unit<string>": UNIT}}),
    ("#/$defs/My%20Unit", {"$defs": {"My Unit": UNIT}}), ("#/$defs/My%20Unit", {"$defs": {"My%20Unit": UNIT}}),
    ("#/$defs/Gr%C3%B6%C3%9Fe", {"$defs": {"Größe": UNIT}}),
    ("#/%24defs/U", {"$defs": {"U": UNIT}}), ("#/$defs/a~1b", {"$defs": {"a/b": UNIT}}), ("#/x/y/0", {"x": {"y": [UNIT]}}),
    ("#unit", {"$defs": {"U": {"$anchor": "unit", **UNIT}}}), ("#unit", {"definitions": {"U": {"$id": "#unit", **UNIT}}}),
    ("https://x/s.json#/$defs/U", {"$id": "https://x/s.json", "$defs": {"U": UNIT}}),
    ("s.json#u", {"$id": "https://x/s.json", "$defs": {"U": {"$anchor": "u", **UNIT}}}),
    ("unit.json", {"$defs": {"U": {"$id": "unit.json", **UNIT}}}), ("urn:u", {"$defs": {"U": {"$id": "urn:u", **UNIT}}}),
    ("d/u.json", {"$id": "https://x/s.json", "$defs": {"U": {"$id": "d/u.json", "$ref": "#/$defs/V", "$defs": {"V": UNIT}}}}),
    ("#/properties/other", {}), ("#/$defs/A", {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/properties/other"}}}),
])
def test_references_of_all_kinds(reference, more):
    found = portable({"type": "object", "properties": {"p": {"$ref": reference}, "other": UNIT}, **more})
    one = found["properties"]["p"]
    while "$ref" in one:
        assert re.fullmatch("#/[$]defs/[A-Za-z0-9_.-]+", one["$ref"])
        one = resolve(found, one["$ref"])
    assert one == UNIT


def test_parts_of_one_name_stay_apart():
    found = portable({"properties": {"x": {"$ref": "#/$defs/A"}, "y": {"$ref": "#/definitions/A"},
                                     "z": {"$ref": "#/$defs/A%21"}},
                      "$defs": {"A": {"type": "string"}, "A!": {"type": "null"}}, "definitions": {"A": {"type": "number"}}})
    assert [resolve(found, found["properties"][name]["$ref"])["type"] for name in "xyz"] == ["string", "number", "null"]


@pytest.mark.parametrize("beside, expected", [
    ({"type": "string"}, {"$ref": "#/$defs/U"}), ({"description": "d", "default": "C", "title": "T", "type": "string"},
                                                  {"$ref": "#/$defs/U", "description": "d", "default": "C"}),
    ({"nullable": True}, {"anyOf": [{"$ref": "#/$defs/U"}, {"type": "null"}]}), ({"maxLength": 3}, {**UNIT, "maxLength": 3}),
    ({"enum": ["C"], "description": "d"}, {**UNIT, "enum": ["C"], "description": "d"}),
])
def test_what_stands_beside_a_reference(beside, expected):
    assert portable({"properties": {"p": {"$ref": "#/$defs/U", **beside}}, "$defs": {"U": UNIT}})["properties"]["p"] == expected


@pytest.mark.parametrize("untyped, types", [
    ({"enum": ["a", 1, None]}, ["string", "integer", "null"]), ({"const": 1.5}, "number"), ({"const": True}, "boolean"),
    ({"properties": {"a": {"type": "string"}}}, "object"), ({"required": ["a"]}, "object"), ({"minItems": 1}, "array"),
    ({"additionalProperties": False}, "object"), ({"items": {}}, "array"), ({"pattern": "^a"}, "string"),
    ({"maximum": 3}, "number"), ({"format": "int64"}, "integer"), ({"format": "date"}, "string"),
])
def test_a_schema_says_its_type(untyped, types):
    assert nested(untyped)["type"] == types
    assert nested({"anyOf": [untyped, {"type": "null"}]})["anyOf"][0]["type"] == types


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_a_type_beside_alternatives_is_that_of_each(key):
    assert nested({"type": "string", key: [{"pattern": "^a"}, {"enum": ["b"]}, {"type": "null"}, {}], "title": "T"}) == {
        "title": "T", key: [{"type": "string", "pattern": "^a"}, {"type": "string", "enum": ["b"]}, {"type": "null"},
                            {"type": "string"}]}
    assert nested({"type": "object", "properties": {"a": {}}, key: [{"required": ["a"]}, False, True]}) == {
        "properties": {"a": {}}, key: [{"type": "object", "required": ["a"]}, {"type": "object"}]}
    assert nested({"type": ["string", "array"], key: [{"maxLength": 3}, {key: [{}]}]})[key][1] == {
        key: [{"type": ["string", "array"], "items": {}}]}


PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]}


@pytest.mark.parametrize("more, added", [
    ({}, {"items": {}}), ({"maxItems": 2}, {"items": {"type": "integer"}}), ({"items": False}, {"items": {"type": "integer"},
                                                                                              "maxItems": 2}),
    ({"prefixItems": [{"type": "string"}, {}], "maxItems": 2}, {"items": {"anyOf": [{"type": "string"}, {}]}}),
    ({"maxItems": 5}, {"items": {}}), ({"items": {"type": "null"}}, {}), ({"items": True}, {"items": {}}),
])
def test_tuples_have_items(more, added):
    assert nested({**PAIR, **more}) == {**PAIR, **more, **added}


BAD = "^(?!a).*$"


@pytest.mark.parametrize("schema, expected", [
    ({"type": "string", "pattern": BAD}, {"type": "string"}), ({"not": {"pattern": BAD}}, {}),
    ({"type": "object", "patternProperties": {BAD: {}, "^x": {}}, "additionalProperties": False},
     {"type": "object", "patternProperties": {"^x": {"type": "string"}}}),
    ({"oneOf": [{"pattern": BAD}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"if": {"pattern": BAD}, "then": {"minLength": 3}, "else": {"minLength": 2}}, {}),
    ({"type": "object", "propertyNames": {"pattern": BAD}}, {"type": "object", "propertyNames": {"type": "string"}}),
    ({"type": "object", "properties": {"pattern": {"const": BAD}}}, {"type": "object", "properties": {
        "pattern": {"type": "string", "const": BAD}}}),
])
def test_patterns_that_no_api_compiles_are_left_out(schema, expected):
    found = nested(schema)
    if "patternProperties" in found:
        found["patternProperties"]["^x"] = {"type": "string"}
    assert found == expected


@pytest.mark.parametrize("text", ["a\ud800", "\udfffb"])
def test_lone_surrogates_are_replaced(text):
    found = portable({"title": text, "properties": {text: {"description": text, "enum": [text], "default": {text: [text]}}},
                      "required": [text], "$defs": {text: {}}})
    assert json.dumps(found, ensure_ascii=False).encode()
    assert len(found["properties"]) == len(found["required"]) == 1


def wide(step, last, width=20, levels=9):
    """Return a definition whose references multiply."""
    return {f"a{level}": step([{"$ref": f"#/$defs/a{level + 1}"}] * width) for level in range(levels)} | {f"a{levels}": last}


@pytest.mark.parametrize("step", [
    lambda refs: {"anyOf": refs}, lambda refs: {"allOf": refs}, lambda refs: {"oneOf": refs, "title": "x" * 100},
    lambda refs: {"type": "array", "prefixItems": refs, "maxItems": len(refs)},
    lambda refs: {"type": "object", "properties": {f"p{n}": ref for n, ref in enumerate(refs)}},
    lambda refs: {"type": "object", "properties": {f"p{n}": {**ref, "minProperties": 1} for n, ref in enumerate(refs)}},
    lambda refs: {"type": "object", "anyOf": [{**ref, "required": ["a"]} for ref in refs]},
    lambda refs: {"type": "array", "maxItems": 1, "prefixItems": [{"type": "array", "maxItems": 1, "prefixItems": refs[:1]}]},
])
@pytest.mark.slow
def test_references_that_multiply_are_bounded(step):
    last = {"type": "object", "properties": {"z": {"type": "string"}}}
    first = {"$ref": "#/$defs/a0"}
    for schema in ({"properties": {"p": first}}, first, {"anyOf": [first] * 20}):
        found = portable({"type": "object", **schema, "$defs": wide(step, last)})
        assert len(json.dumps(found)) < 500_000
        assert without_nulls({"p": {"z": None}}, found, found) is not None
        assert strict_schema(found) is None or found
        assert len(json.dumps(gemini_schema(found))) < 2_000_000


def test_what_is_too_large_is_left_open():
    found = portable({"properties": {f"p{number}": {"description": "x" * 100} for number in range(20_000)}})
    assert found["properties"]["p0"] == {"description": "x" * 100} and len(json.dumps(found)) < 1_000_000
    deep = {"maxItems": 1, "prefixItems": [{}]}
    for _ in range(35):
        deep = {"maxItems": 1, "prefixItems": [deep]}
    assert len(json.dumps(nested(deep))) < 1_000_000


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


JSON = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(alphabet="ab#/$", max_size=4)),
                    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([
                        "type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "enum",
                        "const", "required", "minimum", "exclusiveMinimum", "nullable", "additionalProperties", "a", "b",
                        "not", "prefixItems", "pattern", "patternProperties", "$id", "$anchor", "minItems", "maxItems",
                        "default", "if", "then", "title"]), inner, max_size=5)), max_leaves=30)
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
    check(found)
    assert found["type"] == "object" and not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & set(found)
    for ref in references(found):
        assert resolve(found, ref) is not None


def check(schema):
    """Fail unless each rule of the APIs holds for a schema and those in it."""
    assert schema.get("type") != "array" or isinstance(schema["items"], dict)
    assert not {"anyOf", "oneOf"} & set(schema) or "type" not in schema
    assert "$ref" not in schema or set(schema) <= {"$ref", "description", "default"}
    assert len(set(schema.get("required", ()))) == len(schema.get("required", ()))
    for pattern in (schema.get("pattern", ""), *schema.get("patternProperties", ())):
        assert is_portable(pattern)
    for one in below(schema):
        if isinstance(one, dict):
            check(one)


def references(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for one in below(schema):
            yield from references(one)


@pytest.mark.parametrize("pattern", [
    "", "a|b", "^[a-z]{2,3}(?:-[A-Z]+)?$", r"\d{4}-\d{2}", "(a|b)*?", "[-a]", "[a-]", "[^a-z0-9_]", r"[\w.+-]+@[\w-]+\.[a-z]+",
    "ä+", r"^\/api\/.*$", r"\x41", "()", r"[\]\[]", "a{0}", "a{3,}", "a{1000}", r"[+\-*/]", "[.]", r"[\t\n]", "^$|^a$", "a b",
])
def test_patterns_that_every_api_compiles(pattern):
    assert is_portable(pattern)


@pytest.mark.parametrize("pattern", [
    "(?=x)", "(?!x)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"^[a-z@#+\-=[\]{}|]*$", "(?>a)", "a++", "a*+", "a?+", "a{2}+", "a**",
    r"\u{1F600}", r"\u0041", r"(?<n>a)\k<n>", "(?P<n>a)", "(?i)a", "(?i:a)", "(?#x)", "(?(1)a|b)", "[[:alpha:]]", "[]",
    "[]a]", "[^]", "*a", "(*a)", "|*", "^*", "a{1001}", "(a{100}){100}", "a{3,2}", "a{,3}", "[z-a]", r"[\w-z]", r"[a-\d]",
    "[a", "(a", "a)", "a\\", r"\cA", r"\p{L}", r"\Z", r"\A", r"\0", "{", "}", "a{", "]", "[a--b]", "[a&&b]",
    "\ud800", "[\ud800]", "a" * 2001,
])
def test_patterns_that_some_api_refuses(pattern):
    assert not is_portable(pattern)


@given(st.lists(st.sampled_from([*r"ab()[]{}*+?|^$.\-,:=!<>dw123", "(?:", "[^", "{2,3}", r"\d", "[a-z]"]),
                max_size=10).map("".join))
def test_what_is_portable_can_be_compiled(pattern):
    if is_portable(pattern):
        re.compile(pattern)

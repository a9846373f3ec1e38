import jsonschema
import pytest
from hypothesis import given, strategies as st

from mcplite.llm.strict import strict_schema, without_nulls
from mcplite.llm.tool_schemas import portable
from tests.llm.test_tool_schemas import REFERENCES, SCHEMAS, TYPES


def strict(properties, **more):
    return strict_schema(portable({"type": "object", "properties": properties, **more}))


def test_every_member_is_required_and_optional_ones_may_be_null():
    assert strict({"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "unit": {"enum": ["c", "f"]},
                   "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
                   "kind": {"const": "a"}}, required=["city", "kind"]) == {
        "type": "object", "additionalProperties": False, "required": ["city", "days", "unit", "tags", "kind"], "properties": {
            "city": {"type": "string"}, "days": {"type": ["integer", "null"]},
            "unit": {"type": ["string", "null"], "enum": ["c", "f", None]},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": "null"}]},
            "kind": {"type": "string", "enum": ["a"]}}}


def test_no_parameters():
    assert strict({}) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_definitions():
    found = strict({"one": {"$ref": "#/$defs/Node", "description": "x"}, "two": {"$ref": "#/$defs/Node"}}, required=["one"],
                   **{"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}})
    assert found["properties"] == {"one": {"$ref": "#/$defs/Node"},
                                   "two": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}
    assert found["$defs"]["Node"]["additionalProperties"] is False


def test_keywords_beyond_the_subset_are_left_to_the_server():
    assert strict({"a": {"type": "string", "minLength": 1, "format": "uri", "pattern": "(?=x)"},
                   "b": {"type": "string", "format": "date", "pattern": "^x$"},
                   "c": {"type": "integer", "minimum": 1, "multipleOf": 2}}, required=["a", "b", "c"])["properties"] == {
        "a": {"type": "string"}, "b": {"type": "string", "format": "date", "pattern": "^x$"},
        "c": {"type": "integer", "minimum": 1, "multipleOf": 2}}


@pytest.mark.parametrize("schema", [
    {}, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, {"type": "array"},
    {"allOf": [{"type": "string"}]}, {"type": "string", "not": {"enum": ["a"]}}, {"type": "array", "prefixItems": [{}]},
    {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]}, {"type": "string", "enum": [str(n) for n in range(1001)]},
    {"$ref": "#/$defs/Free"},
])
def test_what_has_no_strict_form(schema):
    assert strict({"x": schema}, **{"$defs": {"Free": {"type": "object"}}}) is None


def test_too_deep():
    schema = {"type": "string"}
    for _ in range(12):
        schema = {"type": "object", "properties": {"a": schema}}
    assert strict({"a": schema}) is None


def test_nulls_of_optional_members_are_taken_out():
    schema = portable({"properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "zone": {"type": ["string", "null"]},
        "free": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "where": {"$ref": "#/$defs/Where"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Where"}}, "unit": {"enum": ["c", None]}},
        "required": ["city"], "$defs": {"Where": {"type": "object", "properties": {
            "x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}}})

    def cleaned(value):
        return without_nulls(value, schema, schema)

    assert cleaned({"city": None, "days": None, "zone": None, "free": None, "unit": None, "where": None}) == {
        "city": None, "zone": None, "free": None, "unit": None}
    assert cleaned({"city": "a", "where": {"x": 1, "y": None}, "list": [{"x": None, "y": None}, None]}) == {
        "city": "a", "where": {"x": 1}, "list": [{"x": None}, None]}
    assert cleaned({"other": None}) == {"other": None}
    loop = portable({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}})
    assert without_nulls({"a": {"b": None}}, loop, loop) == {"a": {"b": None}}


@st.composite
def schemas(draw, depth=2):
    """Schemas that can be strict."""
    kinds = [st.just({"type": "string"}), st.just({"type": "integer", "minimum": 0}), st.just({"type": ["boolean", "null"]}),
             st.just({"enum": ["a", "b"]})]
    if depth:
        inner = schemas(depth - 1)
        kinds += [inner.map(lambda one: {"type": "array", "items": one, "maxItems": 2}),
                  st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).flatmap(
                      lambda found: st.sets(st.sampled_from(sorted(found))).map(lambda required: {
                          "type": "object", "properties": found, "required": sorted(required), "additionalProperties": False}))]
    return draw(st.one_of(kinds))


def instance(draw, schema):
    """Return a value that fits a strict schema."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        return {name: instance(draw, one) for name, one in schema["properties"].items()}
    if kind == "array":
        return [instance(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
    return {"string": "x", "integer": 1, "boolean": True, "null": None}[kind]


@given(st.data())
def test_what_fits_the_strict_form_fits_the_tool_without_its_nulls(data):
    schema = portable({"type": "object", "additionalProperties": False, "properties": {
        name: data.draw(schemas()) for name in "xy"}, "required": data.draw(st.sampled_from([[], ["x"], ["x", "y"]]))})
    found = strict_schema(schema)
    value = instance(data.draw, found)
    jsonschema.validate(value, found)
    jsonschema.validate(without_nulls(value, schema, schema), schema)


def check(schema):
    """Fail unless each rule of the API holds for a schema and those in it."""
    if "$ref" in schema:
        assert set(schema) == {"$ref"}
        return
    assert "type" in schema or "enum" in schema or "anyOf" in schema
    assert not {"allOf", "oneOf", "not", "const", "default", "patternProperties", "prefixItems"} & set(schema)
    if "object" in schema.get("type", ()):
        assert schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
    if "array" in schema.get("type", ()):
        assert "items" in schema
    inner = [*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for one in [*inner, *([schema["items"]] if "items" in schema else [])]:
        check(one)


@given(SCHEMAS, REFERENCES, TYPES)
def test_whatever_comes_keeps_the_rules_or_is_not_strict(schema, reference, type):
    found = strict_schema(portable({"properties": {"a": {**schema, "$ref": reference}, "b": {**schema, "type": type}},
                                    "$defs": {"a": schema}, **schema}))
    if found is not None:
        check(found)


@given(SCHEMAS, st.recursive(st.none() | st.text(max_size=2), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
    st.sampled_from("ab"), inner, max_size=2), max_leaves=6))
def test_nulls_are_taken_out_of_whatever_comes(schema, value):
    found = portable({"properties": {"a": schema, "b": {"$ref": "#/$defs/a"}}, "$defs": {"a": schema}})
    cleaned = without_nulls({"a": value, "b": value}, found, found)
    assert set(cleaned) <= {"a", "b"}

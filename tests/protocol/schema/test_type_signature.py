import pytest

from mcplite.protocol.schema.type_signature import arguments_of, result_of, words_of


@pytest.mark.parametrize("schema, words", [
    ({"type": "integer"}, "int"), ({"type": "number"}, "float"), ({"type": "string", "format": "date"}, "str"),
    ({"type": "boolean"}, "bool"), ({"type": "null"}, "None"), ({"type": "array"}, "list"), ({"type": "object"}, "dict"),
    ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "list[list[str]]"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
    ({"type": ["string", "null"]}, "str | None"), ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "int | None"),
    ({"enum": ["a", "b", 3]}, '"a" | "b" | 3'), ({"const": "x"}, '"x"'), ({"$ref": "#/$defs/Point"}, "Point"),
    ({}, "any"), (True, "any"), (None, "any"), ({"type": "strange"}, "any"), ({"type": [["x"]]}, "any"),
    ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | ..."),
])
def test_words_for_a_schema(schema, words):
    assert words_of(schema) == words


def test_words_are_short_and_shallow():
    deep = {"type": "string"}
    for _ in range(1000):
        deep = {"type": "array", "items": deep}
    assert words_of(deep) == "list[list[list[any]]]"
    assert len(words_of({"enum": ["x" * 1000]})) == 80


def test_arguments_and_results():
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}, "unit": {}},
              "required": ["city"]}
    assert list(map(str, arguments_of(schema))) == ["city: str", "days: int = 3", "unit?: any"]
    assert arguments_of(None) == arguments_of({"properties": [], "required": "x"}) == []
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert result_of(wrapped) == "int" and result_of({"type": "object"}) == "dict"

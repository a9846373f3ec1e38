import pytest

from mcplite.protocol.schema.rules import as_object, in_result
from mcplite.protocol.schema.validation import Validator, check_schema

DRAFT7 = "http://json-schema.org/draft-07/schema#"
LIST, PART = "https://example.com/list", "https://example.com/part"
WHOLE = {"type": "integer"}
RECORD = {"type": "object", "properties": {"a": WHOLE}, "required": ["a"]}


def tree(reference):
    return {"type": "array", "items": {"anyOf": [reference, WHOLE]}}


@pytest.mark.parametrize("schema, good, bad", [
    (tree({"$ref": "#"}), [1, [2]], [["x"]]), (tree({"$ref": ""}), [1, [2]], [["x"]]),
    ({"type": "array", "prefixItems": [WHOLE], "items": {"$ref": "#/prefixItems/0"}}, [1, 2], [1, "x"]),
    ({"type": "array", "prefixItems": [WHOLE], "items": {"$dynamicRef": "#/prefixItems/0"}}, [1, 2], [1, "x"]),
    ({"type": "array", "items": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/items"}}}}},
     [{"kids": [{"kids": []}]}], [{"kids": [1]}]),
    ({"type": "array", "items": {"$ref": "#/$defs/X"}, "$defs": {"X": WHOLE}}, [1], ["x"]),
    ({"type": "array", "items": {"$ref": "#/definitions/X"}, "definitions": {"X": WHOLE}}, [1], ["x"]),
    ({"type": "array", "items": {"$ref": "#/%24defs/a%20b"}, "$defs": {"a b": WHOLE}}, [1], ["x"]),
    ({"prefixItems": [WHOLE], "items": {"$ref": "#/$defs/X"}, "$defs": {"X": {"$ref": "#/prefixItems/0"}}}, [1, 2], [1, "x"]),
    ({"items": {"$ref": "#/x-parts/A"}, "x-parts": {"A": {"items": {"$ref": "#/x-parts/B"}}, "B": WHOLE}}, [[1]], [["x"]]),
    ({"$anchor": "me", **tree({"$ref": "#me"})}, [1, [2]], ["x"]),
    ({"$dynamicAnchor": "me", **tree({"$dynamicRef": "#me"})}, [[2]], ["x"]),
    ({"items": {"$ref": "#it"}, "$defs": {"X": {"$anchor": "it", **WHOLE}}}, [1], ["x"]),
    ({"$id": LIST, **tree({"$ref": "#"})}, [1, [2]], ["x"]), ({"$id": LIST, **tree({"$ref": LIST})}, [1, [2]], ["x"]),
    ({"$id": "list.json", "items": {"$ref": "#/$defs/X"}, "$defs": {"X": WHOLE}}, [1], ["x"]),
    ({"items": {"$ref": PART}, "$defs": {"X": {"$id": PART, "$ref": "#/$defs/Y", "$defs": {"Y": WHOLE}}}}, [1], ["x"]),
    ({"items": {"properties": {"$ref": {"type": "string"}, "x": {"$ref": "#/items/properties/$ref"}}}},
     [{"$ref": "#/a", "x": "s"}], [{"x": 1}]),
    ({"enum": [[{"$ref": "#/a"}]]}, [{"$ref": "#/a"}], [{"$ref": "#/properties/result/a"}]),
    ({"anyOf": [{"type": "null"}, {"$ref": "#/anyOf/0"}, WHOLE]}, None, "x"),
    ({"$ref": "#/$defs/X", "$defs": {"X": tree(WHOLE)}}, [1], 1),
    ({"$schema": DRAFT7, "items": {"$ref": "#/definitions/X"}, "definitions": {"X": WHOLE}}, [1], ["x"]),
    ({"$schema": DRAFT7, "items": {"$ref": "#it"}, "definitions": {"X": {"$id": "#it", **WHOLE}}}, [1], ["x"]),
    ({"$schema": DRAFT7, "$id": LIST, "items": {"$ref": "#/definitions/X"}, "definitions": {"X": WHOLE}}, [1], ["x"]),
    ({"$schema": DRAFT7, "$ref": "#/definitions/X", "definitions": {"X": {"items": {"$ref": "#/definitions/X"}}}}, [[]], None),
    ({"type": ["object", "null"], "$comment": "not always one"}, {}, 1),
])
def test_references_refer_to_what_they_did(schema, good, bad):
    kept = repr(schema)
    check_schema(schema, what="it")
    assert as_object(schema) is None
    wrapped = in_result(schema)
    check_schema(wrapped, what="it")
    assert wrapped["type"] == "object" and repr(schema) == kept
    assert Validator(wrapped).problems({"result": good}) == [] and Validator(schema).problems(good) == []
    for refused in ({}, {"result": bad} if bad is not None else {"results": 1}):
        assert Validator(wrapped).problems(refused)


@pytest.mark.parametrize("schema, good, bad", [
    (RECORD, {"a": 1}, {}), ({**RECORD, "type": ["object"]}, {"a": 1}, {}),
    ({"$ref": "#/$defs/X", "$defs": {"X": RECORD}}, {"a": 1}, {}),
    ({"$ref": "#/$defs/Y", "$defs": {"X": RECORD, "Y": {"$ref": "#/$defs/X"}}, "title": "T"}, {"a": 1}, {}),
    ({"$ref": "#/$defs/X", "required": ["b"], "$defs": {"X": RECORD}}, {"a": 1, "b": 1}, {"a": 1}),
    ({"$ref": "#X", "$defs": {"X": {**RECORD, "$anchor": "X"}}}, {"a": 1}, {}),
    ({"$id": LIST, "$ref": "#/$defs/X", "$defs": {"X": RECORD}}, {"a": 1}, {}),
    ({"$ref": PART, "$defs": {"X": {**RECORD, "$id": PART}}}, {"a": 1}, {}),
    ({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}}}, {"next": {}},
    {"next": 1}),
    ({"$schema": DRAFT7, "$ref": "#/definitions/X", "required": ["ignored"], "definitions": {"X": RECORD}}, {"a": 1}, {}),
])
def test_what_refers_to_an_object_is_one(schema, good, bad):
    whole = as_object(schema)
    assert whole is not None and whole["type"] == "object"
    check_schema(whole, what="it")
    for each in (schema, whole):
        assert Validator(each).problems(good) == [] and Validator(each).problems(bad)


@pytest.mark.parametrize("schema", [
    {}, {"type": "array"}, {"$ref": "#"}, {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"},
    "B": {"$ref": "#/$defs/A"}}},
    {"$ref": "#/$defs/A", "$defs": {"A": True}}, {"$ref": "#/nowhere"}, {"$ref": 5}, {"$ref": "https://example.com/other"},
    {"type": ["object", "string"]}, {"type": 5},
])
def test_others_are_none(schema):
    assert as_object(schema) is None

import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.schema.rules import as_object, check_rules, in_result, is_draft7
from mcplite.protocol.schema.validation import Validator, check_schema

DRAFT7 = "http://json-schema.org/draft-07/schema#"
BASE = "https://example.com/schemas/main.json"


def refusal(schema, trusted=True):
    with pytest.raises(RegistrationError) as caught:
        check_rules(schema, "it", trusted)
    assert str(caught.value).startswith("it: ")
    return str(caught.value)


# ---- ends ----

@pytest.mark.parametrize("schema", [
    {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, {"if": {"$ref": "#"}, "then": {}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    {"properties": {"x": {"$ref": "#/properties/x"}}}, {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
    {"$defs": {"u": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/u"}]}}, "properties": {"a": {"$ref": "#/$defs/u"}}},
    {"$schema": DRAFT7, "definitions": {"a": {"oneOf": [{"$ref": "#/definitions/a"}]}}, "items": {"$ref": "#/definitions/a"}},
])
def test_a_schema_that_never_ends_is_refused(schema):
    assert "put the reference under properties or items" in refusal(schema)


@pytest.mark.parametrize("schema", [
    {"properties": {"x": {"$ref": "#"}}}, {"items": {"$ref": "#"}},
    {"prefixItems": [{"$ref": "#"}]}, {"contains": {"$ref": "#"}},
    {"additionalProperties": {"$ref": "#"}}, {"propertyNames": {"$ref": "#"}},
    {"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}},
    {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"l": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}}}},
    {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}},
    {"$schema": DRAFT7, "definitions": {"a": {}}, "$ref": "#/definitions/a", "allOf": [{"$ref": "#"}]},
    {"allOf": [{"$ref": "https://json-schema.org/draft/2020-12/schema"}]}, {"$defs": {"a": True}, "$ref": "#/$defs/a"},
])
def test_a_schema_that_goes_down_into_the_value_is_served(schema):
    check_rules(schema, "it", True)


# ---- dialects ----

@pytest.mark.parametrize("name, draft7", [
    (None, False), ("https://json-schema.org/draft/2020-12/schema", False),
    ("http://json-schema.org/draft/2020-12/schema#", False), (DRAFT7, True), ("https://json-schema.org/draft-07/schema", True),
])
def test_served_dialects(name, draft7):
    # JSCH-01, JSCH-03
    assert is_draft7({} if name is None else {"$schema": name}) is draft7


@pytest.mark.parametrize("name", [
    "", "2020-12", "http://json-schema.org/schema#", "http://json-schema.org/draft-04/schema#",
    "https://json-schema.org/draft/2019-09/schema", "ftp://json-schema.org/draft-07/schema", DRAFT7 + "#", DRAFT7 + "\n", 5,
    ["x"], {},
])
def test_other_dialects_are_refused(name):
    # JSCH-04
    with pytest.raises(RegistrationError, match=r"^tool: the JSON Schema dialect .* is not supported; use 2020-12"):
        is_draft7({"$schema": name}, "tool")


def test_parts_keep_to_the_dialect_of_the_whole():
    check_rules({"$schema": DRAFT7, "items": {"$schema": DRAFT7}}, "it", True)
    assert "another JSON Schema dialect" in refusal({"items": {"$schema": DRAFT7}})
    assert "is not supported" in refusal({"items": {"$schema": "http://example.com/"}})
    assert "another" in refusal({"x-other": {"$schema": DRAFT7}, "$ref": "#/x-other"})
    check_rules({"default": {"$schema": DRAFT7}, "x-other": {"$schema": 5}}, "it", True)  # these are no parts


# ---- references ----

@pytest.mark.parametrize("schema", [
    {"items": {"$ref": "#"}}, {"items": {"$ref": ""}}, {"$defs": {"a": True}, "$ref": "#/$defs/a"},
    {"$defs": {"a b/c~d%": {}}, "$ref": "#/$defs/a%20b~1c~0d%25"}, {"allOf": [{}, {"$ref": "#/allOf/0"}]},
    {"x-own": {"deep": [{"type": "string"}]}, "$ref": "#/x-own/deep/0"}, {"items": {"$anchor": "a"}, "$ref": "#a"},
    {"items": {"$dynamicAnchor": "a"}, "$dynamicRef": "#a"},
    # $id: the base for references, and a name for parts
    {"$id": BASE, "$ref": "#/$defs/a", "$defs": {"a": {}}}, {"$id": BASE, "$ref": "main.json#/$defs/a", "$defs": {"a": {}}},
    {"$id": BASE, "$ref": "other.json", "$defs": {"a": {"$id": "other.json"}}},
    {"$id": BASE, "$ref": "https://example.com/schemas/other.json#b",
     "$defs": {"a": {"$id": "other.json", "items": {"$anchor": "b"}}}},
    {"$id": BASE, "$defs": {"a": {"$id": "other.json", "$ref": "#/$defs/b", "$defs": {"b": {}}}}},
    {"$id": BASE, "$defs": {"a": {"$id": "/x/", "items": {"$id": "y", "$ref": "../main2"}}, "m": {"$id": "/main2"}}},
    {"$id": BASE, "$ref": "#/$defs/a/items", "$defs": {"a": {"$id": "other.json", "items": {"$ref": "#/x"}, "x": {}}}},
    {"$id": "urn:example:a", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "urn:example:a#/$defs/b"}, "b": {}}},
    {"$schema": DRAFT7, "definitions": {"a": {"$id": "#b"}}, "$ref": "#b"},
    {"$schema": DRAFT7, "$id": BASE, "$ref": "#/definitions/a",
     "definitions": {"a": {"$id": "http://x/", "$ref": "#/definitions/b"}, "b": {}}},
    # the dialects' own schemas, which come with the validator
    {"$ref": DRAFT7}, {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    # no references
    {"enum": [{"$ref": "http://127.0.0.1/"}]}, {"const": {"$ref": "#/x"}}, {"default": {"$ref": "x"}},
    {"examples": [{"$ref": "x"}]}, {"properties": {"$ref": {"type": "string"}}}, {"x-own": {"$ref": "http://127.0.0.1/"}},
    {"$ref": 5}, {"$schema": DRAFT7, "$dynamicRef": "x"},
])
def test_references_within(schema):
    check_rules(schema, "it", False)


@pytest.mark.parametrize("schema, reason", [
    # JSCH-08, SEC-75
    ({"$ref": "http://127.0.0.1/x"}, "never fetched"), ({"$dynamicRef": "http://127.0.0.1/x#a"}, "never fetched"),
    ({"$ref": "file:///etc/passwd"}, "never fetched"), ({"$ref": "other.json"}, "never fetched"),
    ({"$ref": "//127.0.0.1/"}, "never fetched"), ({"$ref": DRAFT7 + "/definitions/x"}, "never fetched"),
    ({"$ref": "http://json-schema.org/draft-04/schema#"}, "never fetched"),
    ({"$id": BASE, "$ref": BASE + "x"}, "never fetched"), ({"$id": BASE, "$ref": "other.json"}, "never fetched"),
    ({"$id": "http://127.0.0.1/", "$ref": "x"}, "never fetched"),
    ({"$id": BASE, "$ref": "https://example.com/schemas/"}, "never fetched"),
    ({"items": {"$id": BASE, "$ref": "other.json"}}, "never fetched"), ({"$id": BASE, "$ref": "http://["}, "is not a URI"),
    ({"$id": BASE, "items": {"$id": "http://["}}, "is not a URI"), ({"$ref": "http://["}, "never fetched"),
    ({"x-own": {"items": {"$ref": "http://127.0.0.1/"}}, "$ref": "#/x-own"}, "never fetched"),
    ({"default": {"$ref": "http://127.0.0.1/"}, "$ref": "#/default"}, "never fetched"),
    *(({keyword: {"$ref": "http://127.0.0.1/"}}, "never fetched") for keyword in (
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
        "unevaluatedItems", "unevaluatedProperties", "additionalItems")),
    *(({keyword: [True, {"$ref": "http://127.0.0.1/"}]}, "never fetched") for keyword in ("allOf", "anyOf", "oneOf", "items",
                                                                                          "prefixItems")),
    *(({keyword: {"a": {"$ref": "http://127.0.0.1/"}}}, "never fetched") for keyword in (
        "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")),
    # JSCH-11
    ({"$ref": "#/$defs/a"}, "refers to no part"), ({"$ref": "#/$defs/a", "$defs": {}}, "refers to no part"),
    ({"$ref": "#a"}, "refers to no part"), ({"$ref": "#/allOf/1", "allOf": [{}]}, "refers to no part"),
    ({"$ref": "#/allOf/-1", "allOf": [{}]}, "refers to no part"), ({"$ref": "#/title", "title": "x"}, "refers to no part"),
    ({"$ref": "#/required", "required": ["a"]}, "refers to no part"),
    ({"$ref": "#/allOf/" + "9" * 5000, "allOf": [{}]}, "refers to no part"),
    ({"$ref": "#/allOf/²", "allOf": [{}]}, "refers to no part"),
    ({"$id": BASE, "$ref": "#b", "$defs": {"a": {"$id": "other.json", "$anchor": "b"}}}, "refers to no part"),
    ({"$defs": {"a": {"$id": BASE, "$ref": "#/$defs/b"}, "b": {}}}, "refers to no part"),
])
def test_references_to_other_documents(schema, reason):
    assert reason in refusal(schema)


# ---- limits ----

def test_limits():
    assert "is an object, not list" in refusal([])
    assert "has 300019 bytes; at most 262144" in refusal({"description": "x" * 300_000})
    check_rules({"description": "é" * 130_000}, "it", True)
    deep = {}
    for _ in range(60):
        deep = {"x": [deep]} if _ % 2 else {"x": deep}
    assert "nested more than 64 levels deep" in refusal(deep)
    check_rules({"enum": [[[[[]]]]]}, "it", True)
    check_rules({"properties": {str(number): {} for number in range(9990)}}, "it", True)
    assert "more than 10000 parts" in refusal({"properties": {str(number): {} for number in range(10_000)}})
    assert "more than 10000 parts" in refusal({"enum": [0] * 300_000})


def test_exactly_as_deep_as_possible():
    deep = 1
    for _ in range(63):
        deep = [deep]
    check_rules({"enum": deep}, "it", True)
    assert "levels deep" in refusal({"enum": [deep]})


def test_schemas_that_contain_themselves():
    one = {}
    one["not"] = one
    two = {}
    two.update({"not": two, "if": two})
    lists = []
    lists.extend([lists, lists])
    for schema in (one, two, {"enum": lists}):
        assert "it: it " in refusal(schema)


@pytest.mark.parametrize("schema",
                         [{5: {}}, {"properties": {None: {}}}, {"const": {1, 2}}, {"const": b"x"}, {"const": float("nan")},
                          {"minimum": float("inf")}])
def test_schemas_that_are_not_json(schema):
    assert "it is not JSON: " in refusal(schema)


# ---- patterns ----

def test_patterns_must_be_patterns():
    for pattern in ("(", "a**", "(?<=a*)b"):
        for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
            assert "is not a regular expression" in refusal(schema)
            assert "is not a pattern that Python's re can match" in refusal(schema, trusted=False)
    for pattern, remedy in (("[", "is not closed"), (r"a\Z", "write $"), ("(?i)a", "[Aa]"), ("a++", "write +"),
                            ("(?P<x>a)", "write (?<name>...)"), (r"\p{Script=Greek}", "general categories")):
        for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
            assert "ECMA-262" in refusal(schema) and remedy in refusal(schema)
    for pattern in (r"\p{L}", "(?<x>a)", r"[\w-.]", "[^]", r"\cJ\/"):
        check_rules({"pattern": pattern, "patternProperties": {pattern: {}}}, "it", True)
    # A peer's pattern may be Python's.
    for pattern in ("(?P<x>a)", r"a\Z", r"\p{L}"):
        check_rules({"pattern": pattern}, "it", False)
    assert "too long" in refusal({"anyOf": [{"pattern": r"\p{L}\p{M}" * 10}] * 3 + [{"pattern": r"\P{L}"}]}, trusted=False)
    check_rules({"pattern": 5}, "it", True)  # not valid, which is not asked here
    check_rules({"default": {"pattern": "("}, "properties": {"pattern": {"type": "string"}}}, "it", False)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*$", r"(a)\1", "x" * 513])
def test_a_stranger_s_patterns_must_be_quick(pattern):
    # SEC-78
    for schema in ({"pattern": pattern}, {"properties": {"a": {"patternProperties": {pattern: True}}}},
                   {"x-own": {"pattern": pattern}, "not": {"$ref": "#/x-own"}}):
        check_rules(schema, "it", True)
        assert "could be matched for hours" in refusal(schema, trusted=False)


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

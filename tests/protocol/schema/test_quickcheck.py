import random

import jsonschema
import pytest

from mcplite.protocol.schema.quickcheck import compile_check
from mcplite.protocol.schema.validation import Validator

DRAFT7 = "http://json-schema.org/draft-07/schema#"
NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
NODE = {"$defs": {"node": {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value"]}}, "$ref": "#/$defs/node"}


@pytest.mark.parametrize("schema, value, verdict", [
    ({}, object(), True), (True, 1, True), (NUMBERS, {"a": 1, "b": 2.5}, True), (NUMBERS, {"a": 1, "b": True}, False),
    (NUMBERS, {"a": 1}, False), (NUMBERS, [], False), (NUMBERS, {"a": 1, "b": 2, "c": "more"}, True),
    ({**NUMBERS, "additionalProperties": False}, {"a": 1, "b": 2, "c": 3}, False),
    ({**NUMBERS, "additionalProperties": {"type": "string"}}, {"a": 1, "b": 2, "c": 3}, False),
    ({"required": ["a"]}, {}, False), ({"required": ["a"]}, 5, True), ({"properties": {"a": {"type": "null"}}}, "x", True),
    ({"type": ["object", "null"], "required": ["a"]}, None, True), ({"type": ["object", "null"], "required": ["a"]}, {}, False),
    ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, [[1], [2, "x"]], False),
    ({"items": {"type": "integer"}}, {"a": "x"}, True), ({"items": {"not": {}}}, [1], False),
    ({"items": {"not": {}}}, [], True), ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, True),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", False), ({"anyOf": [{"not": {}}, {"type": "null"}]}, "x", False),
    ({"anyOf": [{"not": {}}, {"type": "string"}]}, "x", True), (NODE, {"value": 1, "next": {"value": 2, "next": None}}, True),
    (NODE, {"value": 1, "next": {"value": "x"}}, False),
    ({"$defs": {"s": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/s", "maxLength": 2}}}, {"a": "xyz"}, False),
    ({"definitions": {"s": {"type": "string"}}, "$ref": "#/definitions/s"}, "x", True),
    # Whatever else a schema says is for jsonschema.
    ({"allOf": [{}]}, 1, False), ({"oneOf": [{}]}, 1, False), ({"not": False}, 1, False),
    ({"patternProperties": {}}, {}, False), ({"prefixItems": [{}]}, [], False), ({"items": [{}]}, [], False),
    ({"contains": {}}, [1], False), ({"dependentRequired": {}}, {}, False), ({"if": {}}, 1, False),
    ({"unevaluatedProperties": False}, {}, False), ({"propertyNames": {}}, {}, False), (False, 1, False),
    ({"$ref": "#"}, 1, False), ({"$ref": "#/$defs/a"}, 1, False), ({"$ref": "#/$defs/a", "$defs": {}}, 1, False),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}}, 1, False),
    ({"$ref": "#/$defs/a/items", "$defs": {"a": {"items": {}}}}, 1, False), ({"$ref": "#x", "$anchor": "x"}, 1, False),
    ({"$ref": 5}, 1, False), ({"$dynamicRef": "#x"}, 1, False), ({"$ref": "#/$defs/a", "$defs": 5}, 1, False),
    ({"$id": "https://example.com/", "$schema": "s", "type": "integer"}, 1, True),
    # Within a schema these change what references and keywords mean.
    ({"items": {"$id": "https://example.com/", "type": "integer"}}, [1], False), ({"items": {"$schema": DRAFT7}}, [1], False),
    # What is no schema.
    ({"properties": 5}, {}, False), ({"required": "a"}, {}, False), ({"required": [5]}, {}, False),
    ({"additionalProperties": 5}, {}, False), ({"anyOf": 5}, 1, False), ({"anyOf": []}, 1, False), ({"items": 5}, [1], False),
    ([], 1, False), (None, 1, False),
])
def test_verdicts(schema, value, verdict):
    assert compile_check(schema)(value) is verdict


@pytest.mark.parametrize("keyword, argument, good, bad", [
    ("type", "integer", [1, 0, -1, 1.0, 1e25], [1.5, True, "1", None, [], {}]), ("type", "number", [1, 1.5], [False, "1"]),
    ("type", ["string", "null"], ["", None], [0, False, []]), ("type", ["integer", "number"], [1, 1.5], ["x"]),
    ("type", ["integer", "boolean"], [1.0, True], [1.5]), ("type", [], [], [1, None]),
    ("enum", ["a", 1, None, True], ["a", 1, 1.0, None, True], ["b", 2, False, [], {}, 0]),
    ("enum", [0], [0, 0.0, -0.0], [False, "0"]), ("enum", ["x"] * 3, ["x"], [1]), ("enum", [], [], ["x", 1]),
    ("const", "a", ["a"], ["b", 1]), ("const", True, [True], [1, 1.0]),
    ("minimum", 1, [1, 1.0, 2, "x", None, True, [], {}], [0, 0.99]), ("maximum", 1.5, [1, 1.5, "x", True], [2, 10**400]),
    ("exclusiveMinimum", 1, [1.01, 2, "x"], [1, 0]), ("exclusiveMaximum", 1, [0.99, False], [1, 1.0]),
    ("minLength", 2, ["ab", "éé", 5, []], ["a", ""]), ("maxLength", 1, ["", "é", {"a": 1, "b": 2}], ["ab"]),
    ("minItems", 1, [[1], "", {}], [[]]), ("maxItems", 1, [[], [1], "abc"], [[1, 2]]),
    ("minProperties", 1, [{"a": 1}, [], ""], [{}]), ("maxProperties", 0, [{}, [1]], [{"a": 1}]),
    ("multipleOf", 3, [3, 0, -6, 6.0, "x", True, None, []], [1, 4, 4.0, 3.5, float("inf"), float("nan")]),
    ("multipleOf", 0.01, [0.07, 0.29, 1.11, 4.35, -19.99, 600.03, 1070468.14, 5, 0, 0.0, -0.0, 1e300, "x", True],
     [0.015, 19.991, 1e-9, -0.001]),
    ("multipleOf", 0.1, [0.3, 0.7, 92.6, 10**400], [0.35, 0.31]), ("multipleOf", 1e-300, [1e300, 1, 3e-300], [1.5e-300]),
    ("multipleOf", 2.5, [5, 7.5, 10**30], [6, 7.4]), ("multipleOf", 1e23, [1e23, 10**23, 3e23], [10**22]),
    ("uniqueItems", True, [[], [1, True], [0, False], ["1", 1], "aa", {}, [None, False]],
     [[1, 1], [1, 1.0], ["a", "a"], [None, None], [True, True]]), ("uniqueItems", False, [[1, 1]], []),
    ("pattern", "b", ["abc", 5, None, [], {}], ["", "ac", "B"]), ("pattern", "^a$", ["a"], ["ab", "a\n"]),
    ("pattern", r"^\d\w\S$", ["1a\x1c"], ["\u0663aa", "1\u00e9a", "1a\ufeff"]),
])
def test_keywords(keyword, argument, good, bad):
    check, validator = compile_check({keyword: argument}), Validator({keyword: argument})
    for value in good:
        assert check(value) is True, value
    for value in bad:
        assert check(value) is False and not validator.is_valid(value), value


@pytest.mark.parametrize("keyword, argument, value", [
    ("type", "any", 1), ("type", 5, 1), ("type", ["string", 5], 1), ("type", [["string"]], 1), ("enum", "abc", "a"),
    ("enum", [[1]], [1]), ("const", {}, {}), ("minimum", "1", 1), ("minimum", True, 1), ("maxLength", 1.0, "x"),
    ("minItems", None, []), ("multipleOf", "1", 1), ("multipleOf", 0, 1), ("multipleOf", -1, 1), ("multipleOf", True, 1),
    ("uniqueItems", 1, []), ("uniqueItems", True, [[1], [1]]), ("uniqueItems", True, [{}]),
    ("pattern", "(", "x"), ("pattern", 5, "x"), ("pattern", "a", "a" * 257),
    # SEC-77: numbers that are made to have the same hash
    ("uniqueItems", True, [2**61 - 1]), ("uniqueItems", True, [-(2**61 - 1)]),
])
def test_keywords_left_to_jsonschema(keyword, argument, value):
    assert compile_check({keyword: argument})(value) is False


def test_notes_say_nothing():
    notes = {"title": "t", "description": "d", "default": 1, "examples": [], "format": "email", "deprecated": True,
             "x-mine": {"not": {}}, "$comment": "c", "readOnly": True, "writeOnly": True, "$defs": {"a": {"not": {}}}}
    check = compile_check({**notes, "items": {**notes, "type": "integer"}})
    assert check([1]) is True and check(["x"]) is False


def test_in_the_older_dialect_nothing_stands_beside_a_reference():
    schema = {"definitions": {"a": {"type": "string"}}, "items": {"$ref": "#/definitions/a", "maxLength": 1, "not": {}}}
    assert compile_check(schema, draft7=True)(["long"]) is True
    assert compile_check(schema)(["long"]) is False


def test_a_stranger_s_patterns_are_left_alone():
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"type": "integer"}}}
    check = compile_check(schema, longest=lambda pattern: 0)
    assert check({"a": "aa"}) is False and check({"b": 1}) is True
    assert compile_check(schema)({"a": "aa"}) is True


class Text(str):
    pass


@pytest.mark.parametrize("schema", [
    {"type": "string"}, {"type": "integer"}, NUMBERS, {"maxLength": 1}, {"minimum": 3}, {"items": {}}, {"enum": ["x"]},
    {"const": 1}, {"multipleOf": 2}, {"uniqueItems": True}, {"pattern": "x"}, {"required": []},
])
def test_nothing_is_certain_about_other_classes(schema):
    for value in (Text("x"), (1, 2), object(), b"x", type("Number", (int,), {})(1), type("Many", (list,), {})([1])):
        assert compile_check(schema)(value) is False


def test_references_that_only_lead_to_each_other():
    for definitions in ({"a": {"$ref": "#/$defs/a"}}, {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}):
        assert compile_check({"$defs": definitions, "$ref": "#/$defs/a"})(1) is False


def test_alternatives_within_alternatives_are_given_up():
    # SEC-76: two to the power of thirty ways to say no.
    definitions = {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(30)}
    definitions["d30"] = {"type": "string"}
    check = compile_check({"$defs": definitions, "$ref": "#/$defs/d0"})
    assert check("x") is True and check(5) is False
    assert check("x") is True


@pytest.mark.parametrize("schema, value", [
    ({"items": {"type": "integer"}}, [1] * 10), ({"additionalProperties": {}}, dict.fromkeys(range(10))),
    ({"required": ["a"] * 10}, {"a": 1}), ({"anyOf": [{"type": "string"}] * 10 + [{}]}, 1),
    ({"items": {"type": "integer", "minimum": 0}}, [1] * 5), ({"enum": list(range(10))}, 1),
    ({"uniqueItems": True}, list(range(10))),
])
def test_each_kind_of_work_is_counted(schema, value, monkeypatch):
    assert compile_check(schema)(value) is True
    monkeypatch.setattr("mcplite.protocol.schema.quickcheck._MAX_STEPS", 9)
    assert compile_check(schema)(value) is False


@pytest.mark.parametrize("keyword", ["items", "properties"])
def test_schemas_are_decided_to_the_depth_that_they_may_have(keyword):
    def at(depth, innermost):
        for _ in range(depth):
            innermost = [innermost] if keyword == "items" else {"a": innermost}
        return innermost

    def nested(depth):
        schema = {"type": "integer"}
        for _ in range(depth):
            schema = {"items": schema} if keyword == "items" else {"properties": {"a": schema}}
        return schema

    for depth in (20, 24, 31, 63):
        assert compile_check(nested(depth))(at(depth, 1)) is True and compile_check(nested(depth))(at(depth, "x")) is False
    assert compile_check(nested(70))(at(70, 1)) is False


def test_long_chains_of_references():
    definitions = {f"d{number}": {"items": {"$ref": f"#/$defs/d{number + 1}"}} for number in range(2000)}
    definitions["d2000"] = {}
    assert compile_check({"$defs": definitions, "$ref": "#/$defs/d0"})([[]]) in (True, False)
    assert compile_check({"$defs": definitions, "$ref": "#/$defs/d1900"})([[]]) is True


def test_deep_values_of_recursive_schemas():
    value = None
    for _ in range(50):
        value = {"value": 1, "next": value}
    assert compile_check(NODE)(value) is True
    for _ in range(5000):
        value = {"value": 1, "next": value}
    assert compile_check(NODE)(value) is False


def test_large_values_are_checked():
    check = compile_check({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}})
    assert check(list(range(200_000))) is True


# ---- the same verdicts as jsonschema ----

NAMES = ["a", "b", "c"]
SCALARS = [None, True, False, *range(-4, 5), 1.0, 0.0, -0.0, 0.5, 2.5, 1e300, 10**25, 1e25, "", "a", "ab", "1", "é"]
TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"]


class Inventor:
    """Invents schemas and values, which are the same in each run."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def some(self, make, least=0, most=3):
        return [make() for _ in range(self.chance.randint(least, most))]

    def names(self, most=3):
        return self.chance.sample(NAMES, self.chance.randint(0, most))

    def value(self, depth=2):
        kind = self.chance.random()
        if depth == 0 or kind < 0.5:
            return self.chance.choice(SCALARS)
        if kind < 0.75:
            return self.some(lambda: self.value(depth - 1)) * self.chance.randint(1, 2)
        return {name: self.value(depth - 1) for name in self.names()}

    def schema(self, depth=2):
        kind = self.chance.random()
        if kind < 0.2:
            return [True, False, {"$ref": "#/$defs/one"}][int(kind * 15)]
        return self.keywords(depth)

    def keywords(self, depth=2):
        chance, inner = self.chance, lambda: self.schema(depth - 1)
        bound, count = lambda: chance.choice([-3, -1, 0, 0.5, 1, 1.0, 2, 2.5, 3]), lambda: chance.randint(0, 3)
        makers = {
            "type": lambda: chance.choice([chance.choice(TYPES), chance.sample(TYPES, chance.randint(1, 3))]),
            "enum": lambda: self.some(self.value, 1), "const": self.value, "default": self.value,
            **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], bound),
            **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], count),
            # Of these jsonschema finds the same multiples, although it looks at the binary values of numbers.
            "multipleOf": lambda: chance.choice([1, 2, 4, 0.5]), "pattern": lambda: chance.choice(["a", "^a?$", "[0-9]"]),
            "uniqueItems": lambda: chance.random() < 0.5, "format": lambda: chance.choice(["email", "date"]),
            "title": lambda: "t"}
        if depth:
            makers.update({
                "properties": lambda: {name: inner() for name in self.names()}, "required": lambda: self.names(2),
                **dict.fromkeys(["additionalProperties", "items", "not", "contains"], inner),
                "anyOf": lambda: self.some(inner, 1), **dict.fromkeys(["allOf", "oneOf"], lambda: self.some(inner, 1, 2)),
                "patternProperties": lambda: {"^a": inner()}})
        return {keyword: makers[keyword]() for keyword in chance.sample(list(makers), chance.randint(0, 4))}


@pytest.mark.one_python
def test_the_verdict_is_jsonschema_s():
    for seed in range(300):
        invent = Inventor(seed)
        whole, draft7 = {**invent.keywords(), "$defs": {"one": {"items": invent.schema()}}}, seed % 2 == 0
        if draft7:
            whole["$schema"] = DRAFT7
        reference = (jsonschema.Draft7Validator if draft7 else jsonschema.Draft202012Validator)(whole)
        quick, validator, cautious = compile_check(whole, draft7=draft7), Validator(whole), Validator(whole, trusted=False)
        for value in invent.some(invent.value, 4, 4):
            try:
                expected = reference.is_valid(value)
            except RecursionError:
                expected = False
            assert expected or not quick(value)
            assert validator.is_valid(value) is cautious.is_valid(value) is expected
            assert (validator.problems(value) == []) is expected

"""Schemas from anywhere: bounded, never fetching, and with the verdicts of jsonschema.

Which schemas are accepted at a glance: only ones that jsonschema accepts, and those that ordinary tools have.
"""

import copy
import json
import re
import socket
import subprocess
import sys
import threading

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from mcplite.errors import RegistrationError
from mcplite.protocol.schema import validation as stepcount
from mcplite.protocol.schema.validation import Validator, check_schema, is_wellformed

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


def refusal(schema, trusted=True):
    with pytest.raises(RegistrationError) as caught:
        check_schema(schema, what="tool 'x': input_schema", trusted=trusted)
    text = str(caught.value)
    assert text.startswith("tool 'x': input_schema: ") and len(text) < 700
    return text


def problems(schema, value, name=""):
    """Return what the full validation says, also where the quick one has a verdict."""
    return Validator({**schema, "allOf": [{}]}).problems(value, name)


# ---- which schemas can be used ----

@pytest.mark.parametrize("schema", [
    {}, {"type": "object"}, {"$schema": NEWEST, "type": "object"}, {"$schema": DRAFT_7}, {"$schema": DRAFT_7.rstrip("#")},
    {"$schema": DRAFT_7.replace("http:", "https:")}, {"$defs": {"a": {}}, "$ref": "#/$defs/a"}, {"items": {"$ref": "#"}},
    {"definitions": {"a~/b%c\"": {}}, "$ref": "#/definitions/a~0~1b%25c%22"}, {"allOf": [{}, {}], "$ref": "#/allOf/1"},
    {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
    {"$defs": {"a": {"$dynamicAnchor": "here"}}, "$dynamicRef": "#here"},
    {"$id": "https://example.com/a", "$ref": "https://example.com/a#/$defs/b", "$defs": {"b": {}}},
    {"$defs": {"a": {"$id": "https://example.com/b"}}, "$ref": "https://example.com/b"},
    {"$schema": DRAFT_7, "definitions": {"a": {"$id": "#b"}}, "$ref": "#b"}, {"pattern": "^(a+)+$"},
    {"format": "no-such-format"}, {"x-unknown": {"$ref": 5}},
])
def test_usable_schemas(schema):
    # JSCH-01, JSCH-04, SEC-81
    before = copy.deepcopy(schema)
    check_schema(schema, what="it")
    assert schema == before


@pytest.mark.parametrize("schema, reason", [
    (None, "not NoneType"), (True, "not bool"), ([], "not list"), ("x", "not str"),
    ({"a": object()}, "is not JSON"), ({"a": float("nan")}, "is not JSON"), ({"a": {1, 2}}, "is not JSON"),
    ({"description": "x" * 300_000}, "bytes; at most"), ({"type": "objekt"}, "not valid JSON Schema at type"),
    ({"properties": {"a": {"minimum": "x"}}}, "not valid JSON Schema at properties/a/minimum"),
    ({"required": "a"}, "at required"),
    # SEC-81
    ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect.*draft-04.*not supported"),
    ({"$schema": "http://json-schema.org/draft-06/schema#"}, "draft-06"),
    ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "2019-09"), ({"$schema": 5}, "dialect '5'"),
    ({"$schema": "http://127.0.0.1/own"}, "dialect"), ({"$schema": NEWEST + "x"}, "dialect"), ({"$schema": ""}, "dialect"),
    # references
    ({"$ref": "#/$defs/a"}, "refers to no"), ({"$ref": "#/allOf/5", "allOf": [{}]}, "refers to no"),
    ({"$ref": "#/allOf/x", "allOf": [{}]}, "refers to no"), ({"$ref": "#nowhere"}, "refers to no"),
    ({"$ref": "http://127.0.0.1/x"}, "never fetched"), ({"$ref": "file:///etc/passwd"}, "never fetched"),
    ({"$ref": "other.json"}, "never fetched"), ({"$dynamicRef": "http://127.0.0.1/x"}, "never fetched"),
    ({"properties": {"a": {"items": {"$ref": "//127.0.0.1/x"}}}}, "never fetched"),
])
def test_unusable_schemas(schema, reason):
    assert re.search(reason, refusal(schema))


def test_depth_and_number_are_bounded():
    deep = {}
    for _ in range(40):
        deep = {"items": deep}
    check_schema(deep, what="it")
    for _ in range(40):
        deep = {"items": deep}
    assert "nested" in refusal(deep)
    assert "10000 parts" in refusal({"properties": {str(number): {} for number in range(10_001)}})
    check_schema({"properties": {str(number): {} for number in range(2000)}}, what="it")
    for _ in range(100_000):
        deep = {"items": deep}
    assert refusal(deep)
    cyclic = {}
    cyclic["items"] = cyclic
    assert refusal(cyclic)


# ---- SEC-75: nothing is ever fetched ----

@pytest.fixture
def trap():
    """A listening socket that no connection may reach."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("make", [
    lambda url: {"$ref": url + "/x"}, lambda url: {"$ref": url + "/x#/a"}, lambda url: {"$dynamicRef": url + "/x"},
    lambda url: {"$recursiveRef": url + "/x"}, lambda url: {"$schema": url + "/schema", "type": "object"},
    lambda url: {"$id": url + "/base", "$ref": "other"}, lambda url: {"$id": url + "/base", "$ref": url + "/base/other"},
    lambda url: {"$id": url + "/base", "$ref": url + "/base2"}, lambda url: {"$id": url, "$ref": "/other"},
    lambda url: {"$defs": {"a": {"$id": url + "/a", "$ref": "b"}}, "$ref": "#/$defs/a"},
    lambda url: {"$schema": DRAFT_7, "$ref": url + "/x"},
    lambda url: {"$schema": DRAFT_7, "$id": url + "/", "items": {"$ref": "x"}},
    lambda url: {"properties": {"a": {"$ref": url[5:] + "/x"}}}, lambda url: {"$ref": url.replace("http", "HTTP") + "/x"},
    lambda url: {"$vocabulary": {url + "/v": True}, "type": "integer"},
    lambda url: {"$id": url + "/a#", "$ref": url + "/a#/$defs/x"},
])
@pytest.mark.parametrize("checked", [True, False])
def test_nothing_is_fetched(trap, make, checked):
    schema = make(trap)
    if checked:
        try:
            check_schema(schema, what="it", trusted=False)
        except RegistrationError:
            return
    for value in (1, {}, {"a": 1}, [1], None):
        try:
            Validator(schema).problems(value)
        except RegistrationError:
            assert "$schema" in schema  # a dialect that check_schema would have refused


def test_a_reference_that_leads_nowhere_makes_nothing_valid(trap):
    # JSCH-11
    for reference in (trap + "/x", "file:///etc/hostname", "urn:x:y"):
        [problem] = Validator({"$ref": reference}).problems({})
        assert problem.startswith("the value cannot be validated: ")
        assert not Validator({"$ref": reference}).is_valid({})


# ---- SEC-76, SEC-79: work is bounded ----

def test_exponential_composition_is_stopped():
    schema = {"$defs": {"d0": {"type": "string"}}, "$ref": "#/$defs/d30"}
    for level in range(1, 31):
        part = {"$ref": f"#/$defs/d{level - 1}"}
        schema["$defs"][f"d{level}"] = {"allOf": [part, part]}
    check_schema(schema, what="it", trusted=False)
    assert "was stopped after" in Validator(schema).problems("x")[-1]


@pytest.mark.parametrize("schema", [
    {"$ref": "#"}, {"allOf": [{"$ref": "#"}]},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"$schema": DRAFT_7, "allOf": [{"$ref": "#"}]}, {"$dynamicRef": "#a", "$dynamicAnchor": "a"}, {"not": {"$ref": "#"}},
])
def test_schemas_that_refer_to_themselves_end(schema):
    with pytest.raises(RegistrationError, match="refers to itself"):
        check_schema(schema, what="it", trusted=False)
    [problem] = Validator(schema).problems({})
    assert "was stopped" in problem or "too deeply" in problem or "cannot be validated" in problem


def test_a_recursive_schema_and_a_deep_value():
    schema = {"type": "array", "items": {"$ref": "#"}}
    value = []
    for _ in range(50):
        value = [value]
    assert Validator(schema).problems(value) == []
    for _ in range(400):
        value = [value]
    [problem] = Validator(schema).problems(value)
    assert "was stopped" in problem or "too deeply" in problem


def test_large_values_of_ordinary_schemas_are_within_the_budget():
    schema = {"type": "array", "items": {"type": "integer", "not": {"type": "string"}}}
    assert Validator(schema).problems(list(range(10_000))) == []
    assert Validator({"enum": [str(number) for number in range(20_000)], "not": {}}).problems("x")


def test_one_exhausted_validation_leaves_the_next_its_steps():
    schema = {"items": {"not": {"type": "string"}}}
    validator = Validator(schema)
    assert "was stopped" in validator.problems([0] * 60_000)[0]
    assert validator.problems([0] * 10_000) == []
    assert validator.problems(["x"]) != []


# ---- SEC-77: uniqueItems in linear time, with JSON's idea of equality ----

@pytest.mark.parametrize("value, unique", [
    ([], True), ([1, 2], True), ([1, 1.0], False), ([1, True], True), ([0, False], True), ([None, None], False),
    (["a", "a"], False), ([[1], [1]], False), ([[1], [True]], True), ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
    ([{"a": 1}, {"a": True}], True), ([{"a": [{}]}, {"a": [[]]}], True), (["1", 1], True), ([[], {}], True),
    ([[["a"]], ["a"]], True), ("aa", True), ({"a": 1}, True), ([2**70, float(2**70)], False), ([10**30, 10**30 + 1], True),
    ([0.1, 0.1], False), ([0, -0.0], False), ([{"a": None}, {}], True),
])
def test_unique_items(value, unique):
    for schema in ({"uniqueItems": True}, {"uniqueItems": True, "$schema": DRAFT_7}):
        assert (problems(schema, value) == []) is unique
        assert Validator(schema).is_valid(value) is unique
    assert problems({"uniqueItems": False}, value) == []


def test_thousands_of_objects_are_compared_at_once():
    value = [{"id": number, "tags": ["a", {"b": number}]} for number in range(3000)]
    schema = {"uniqueItems": True}
    assert Validator(schema).problems(value) == []
    [problem] = Validator(schema).problems([*value, dict(value[0])])
    assert problem.endswith("comes more than once")


# ---- SEC-78: patterns ----

@pytest.mark.parametrize("pattern", [
    "^(a+)+$", "(a*)*b", "((a+))+$", "(x+x+)+y", "(.*a){20}", r"(\w+\s?)*$", "(a|aa)+$", "(a|ab|b)*c", "(?:(?:a+)?)+$",
    "x" * 600, r"(a+b?)*c", "(.*)*$", "(a{1,50}){1,50}b",
])
def test_a_stranger_s_patterns_that_could_take_for_ever(pattern):
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}},
                   {"properties": {"a": {"items": {"pattern": pattern}}}}):
        assert "pattern" in refusal(schema, trusted=False)
        check_schema(schema, what="it")


def test_broken_patterns():
    for pattern in ("(", "[a", "*", "a{5,1}"):
        assert "pattern" in refusal({"pattern": pattern}, trusted=False)
        [problem] = Validator({"pattern": pattern}).problems("x")
        assert problem.startswith("the value cannot be validated: ")


@pytest.mark.parametrize("pattern", [
    "", "^a+$", r"^\d{4}-\d{2}-\d{2}$", "^[a-z0-9]+(?:-[a-z0-9]+)*$", "^(foo|bar)+$", r"^[^@\s]+@[^@\s]+\.[a-z]+$",
    "^#[0-9a-f]{6}$", r"^(\d{1,3}\.){3}\d{1,3}$", r"^https?://\S+$", "^x-",
])
def test_ordinary_patterns_of_a_stranger(pattern):
    check_schema({"pattern": pattern, "patternProperties": {pattern: {}}}, what="it", trusted=False)


def test_long_texts_are_not_matched():
    assert problems({"pattern": "^a*$"}, "a" * 8192) == []
    [problem] = Validator({"pattern": "^a*$"}).problems("a" * 8193)
    assert "not matched" in problem and len(problem) < 200


def test_a_stranger_s_patterns_get_shorter_texts():
    schema = {"pattern": ".*foo.*"}
    check_schema(schema, what="it", trusted=False)
    for validator in (Validator(schema, trusted=False), Validator(schema)):
        assert validator.problems("x" * 100 + "foo") == []
        [problem] = validator.problems("x" * 1000 + "foo")
        assert "a text of 1003 characters is not matched against '.*foo.*'; at most 158 are" in problem
    trusting = Validator(schema)
    trusting.trust_patterns()
    assert trusting.problems("x" * 1000 + "foo") == []


def test_a_pattern_of_our_own_that_is_not_safe_gets_short_texts():
    schema = {"properties": {"a": {"items": {"pattern": "^(a+)+$"}}, "pattern": {"pattern": "^b+$"}},
              "patternProperties": {"^(x|xx)+y": {}}}
    own = Validator(schema)
    assert [pattern for pattern, _ in own.unsafe_patterns()] == ["^(x|xx)+y", "^(a+)+$"]
    assert all("repeats" in reason for _, reason in own.unsafe_patterns())
    assert own.problems({"a": ["aaa"]}) == []
    assert "at most 20 are" in own.problems({"a": ["a" * 40 + "b"]})[0]
    assert own.problems({"x" * 40: 1}) == ["names of more than 20 characters are not matched against patterns"]


@pytest.mark.parametrize("pattern, reason", [
    ("^(a+)+$", "within something that repeats, a repeat of {1,} times overlaps"),
    ("(ab|[a-c]c)*d", "2 alternatives begin alike"), ("(a?)*", "what repeats {0,} times may be empty"), ("(?i)a", "flags"),
    (r"(.)\1", "cannot be judged"), ("x" * 600, "more than 512 bytes"), ("a*a*a*a*", "overlap too often")])
def test_the_author_of_an_unsafe_pattern_reads_why(pattern, reason):
    [(found, why)] = Validator({"pattern": pattern}).unsafe_patterns()
    assert found == pattern and reason in why


def test_matching_many_long_texts_is_stopped():
    validator = Validator({"items": {"pattern": "a+b|a"}})
    validator.trust_patterns()
    found = validator.problems(["a" * 8000] * 100)
    assert found == ["validation was stopped after 50000 steps: the schema or the value is too complex"]


def test_long_names_are_not_matched():
    schema = {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    assert Validator(schema).problems({"x-" + "a" * 200: "y"}) == []
    assert Validator(schema).problems({"x-" + "a" * 300: "y"}) == [
        "names of more than 256 characters are not matched against patterns"]
    assert "was stopped" in Validator({"patternProperties": {f"^{number}x": {} for number in range(100)}}).problems(
        {f"{number}y": 1 for number in range(10_000)})[0]


def test_alternatives_say_what_each_of_them_wants():
    schema = {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    [problem] = Validator(schema).problems({"a": "x"}, "arguments")
    assert problem.startswith("arguments.a: 'x' is not valid under any of")
    assert problem.endswith("('x' is not of type 'integer'; or 'x' is not of type 'null')")


def test_names_in_paths_cannot_pass_for_something_else():
    schema = {"additionalProperties": {"type": "string"}}
    assert Validator(schema).problems({"a\nb": 1}, "it") == ["it['a\\nb']: 1 is not of type 'string'"]
    [problem] = Validator(schema).problems({"x" * 10_000: 1})
    assert len(problem) < 200


def test_numbers_that_are_made_to_have_one_hash_are_compared_at_once():
    # SEC-77
    value = [number * (2**61 - 1) for number in range(20_000)]
    assert Validator({"uniqueItems": True}).is_valid(value)
    assert not Validator({"uniqueItems": True}).is_valid([*value, 0])


def test_patterns_are_searched_and_no_format_is_checked():
    # SEC-83
    assert problems({"pattern": "b"}, "abc") == [] and problems({"pattern": "b"}, 5) == []
    assert problems({"pattern": "x"}, "abc") == ["'abc' does not match 'x'"]
    for name in ("uri", "email", "hostname", "date-time", "regex", "ipv4"):
        assert problems({"format": name, "type": "string"}, "(no such thing") == []


# ---- SEC-80, SEC-84: odd values ----

@pytest.mark.parametrize("schema, value", [
    ({"minItems": "x"}, []), ({"multipleOf": 3}, float("inf")), ({"multipleOf": 0.1}, float("nan")), ({"pattern": "("}, "x"),
    ({"patternProperties": {"(": {}}}, {"x": 1}), ({"type": "no-such"}, 1), ({"minLength": "x"}, "x"),
    ({"properties": 5}, {"a": 1}), ({"required": 5}, {}), ({"items": 5}, [1]), ({"$ref": 5}, 1), ({"enum": 5}, 1),
])
def test_whatever_jsonschema_raises_makes_a_value_invalid(schema, value):
    found = Validator(schema).problems(value)
    assert found and all(isinstance(problem, str) and len(problem) < 600 for problem in found)
    assert not Validator(schema).is_valid(value)


def test_enums_of_unhashable_values():
    schema = {"enum": [[1], {"a": 1}, True]}
    for value in ([1], {"a": 1}, True):
        assert Validator(schema).is_valid(value)
    for value in ([2], {}, 1, "x"):
        assert not Validator(schema).is_valid(value)


def test_the_two_dialects_differ():
    tuple_of = [{"type": "integer"}, {"type": "string"}]
    assert problems({"$schema": DRAFT_7, "items": tuple_of}, [1, 2])
    assert problems({"prefixItems": tuple_of}, [1, 2])
    assert problems({"$schema": DRAFT_7, "prefixItems": tuple_of}, [1, 2]) == []


# ---- sentences ----

def test_problems_say_where():
    schema = {"type": "object",
              "properties": {"list": {"items": {"properties": {"n": {"type": "integer"}}}}, "s": {"type": "string"}},
              "required": ["gone"]}
    value = {"list": [{}, {"n": "x"}], "s": 5}
    assert sorted(Validator(schema).problems(value, "arguments")) == [
        "arguments.list[1].n: 'x' is not of type 'integer'", "arguments.s: 5 is not of type 'string'",
        "arguments: 'gone' is a required property"]
    assert "list[1].n: 'x' is not of type 'integer'" in Validator(schema).problems(value)
    assert "'gone' is a required property" in Validator(schema).problems(value)
    assert Validator({"items": {"type": "string"}}).problems([1]) == ["[0]: 1 is not of type 'string'"]


def test_problems_are_few_and_short():
    found = Validator({"items": {"type": "string"}}).problems(list(range(1000)))
    assert len(found) == 10
    [problem] = Validator({"type": "integer"}).problems("x" * 100_000)
    assert len(problem) < 300 and " ... " in problem and problem.endswith("is not of type 'integer'")


# ---- SEC-82: one validator for all threads ----

def test_many_threads_share_one_validator(monkeypatch):
    monkeypatch.setattr(stepcount, "_MAX_STEPS", 5_000)
    validator = Validator({"items": {"not": {"type": "string"}}})
    count = 6  # whose steps together, and those of each in three rounds, are more than one validation may take
    ready = threading.Barrier(count)
    outcomes = {}

    def work(number):
        ready.wait(30)
        value = [0] * 900 + (["x"] if number % 2 else [])
        outcomes[number] = [len(validator.problems(value)) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    # No thread uses up the steps of another one.
    assert outcomes == {number: [number % 2] * 3 for number in range(count)}


def test_a_validation_within_a_validation_counts_for_itself():
    class Nosy(list):
        """A list that validates something else while it is validated."""

        def __iter__(self):
            assert "was stopped" in exhausted.problems([0] * 60_000)[0]
            return super().__iter__()

    exhausted = Validator({"items": {"not": {"type": "string"}}})
    assert Validator({"items": {"not": {"type": "integer"}}}).problems(Nosy(["x", "y"])) == []


# ---- the verdict is that of jsonschema ----

VALUES = st.recursive(st.sampled_from([0, 1, 2, -1, 1.0, 0.5, True, False, None, "", "a", "ab", "b"]),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner,
                                                                                  max_size=3),
                      max_leaves=6)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(["type", "$ref", "$id", "items", "pattern", "$schema", "#", "properties",
                                                       "allOf"])
                                      | st.text(max_size=3), inner, max_size=4), max_leaves=8), VALUES)
def test_any_schema_is_accepted_or_refused(schema, value):
    try:
        check_schema(schema, what="it", trusted=False)
    except RegistrationError:
        return
    assert all(json.dumps(problem) for problem in Validator(schema).problems(value))


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


@pytest.mark.one_python
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

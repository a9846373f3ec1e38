import copy

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.elicitation_forms import (
    adapt_form,
    check_answer,
    check_form,
    check_messages,
    fill_defaults,
    sensitive_names,
)
from mcplite.revisions import JULY_2026, JUNE_2025, NOVEMBER_2025

TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}}


def form(*, required=None, **fields):
    schema = {"type": "object", "properties": fields}
    if required is not None:
        schema["required"] = required
    return schema


@pytest.mark.parametrize("field", [
    # ELIC-06
    {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}, {"type": "string", "format": "email"},
    {"type": "string", "format": "uri"}, {"type": "string", "format": "date"}, {"type": "string", "format": "date-time"},
    {"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"], "enumNames": ["A"]}, {"enum": ["a"]},
    TITLED, SEVERAL, {"type": "integer", "enum": [1, 2]}, dict(SEVERAL, default=["r"]), {"type": "integer", "default": 3},
    {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    {"type": "string", "title": "T", "description": "D", "default": "x", "minLength": 1, "maxLength": 5},
])
def test_good_fields(field):
    check_form(form(name=field))


@pytest.mark.parametrize("field, problem", [
    ("x", "must be an object"), (None, "must be an object"), ({"type": "object"}, "flat"),
    ({"type": "string", "properties": {}}, "flat"), ({"type": "array"}, "choice of several"),
    ({"type": "array", "items": {"type": "string"}}, "choice of several"),
    ({"type": "array", "items": {"anyOf": []}}, "choice of several"),
    ({"type": "array", "items": {"anyOf": [{"title": "x"}]}}, "choice of several"), ({"type": "null"}, "has the type 'null'"),
    ({}, "has the type None"), ({"type": ["string", "null"]}, "has the type"),
    ({"type": "string", "format": "hostname"}, "format 'hostname'"), ({"type": "string", "format": []}, "format"),
    ({"type": "string", "minLength": "5"}, "minLength '5'"), ({"type": "string", "maxLength": None}, "maxLength None"),
    ({"type": "string", "enum": ["a", 1]}, "choices that are not texts"), ({"enum": [1, 2]}, "choices that are not texts"),
    ({"type": "array", "items": {"enum": [1]}}, "choices that are not texts"),
    ({"type": "null", "enum": ["a"]}, "has the type 'null'"),
    ({"type": "string", "default": 5}, "a default that does not fit: 5 is not a string"),
    (dict(TITLED, default="Red"), "a default that does not fit"),
    ({"type": "boolean", "default": None}, "a default that does not fit"),
    (dict(SEVERAL, default=["x"]), "a default that does not fit"), ({"type": "number", "minimum": True}, "minimum True"),
    ({"type": "integer", "maximum": []}, "maximum"), (dict(SEVERAL, minItems=1.5), "minItems 1.5"),
])
def test_bad_fields(field, problem):
    with pytest.raises(ValueError, match=f"form field 'name'.*{problem}"):
        check_form(form(name=field))


@pytest.mark.parametrize("schema, problem", [
    (None, '"type": "object"'), ([], '"type": "object"'), ({}, '"type": "object"'), ({"type": "string"}, '"type": "object"'),
    ({"type": "object"}, "properties"), ({"type": "object", "properties": []}, "properties"),
    (form(required="a", a={"type": "string"}), "required"), (form(required=["b"], a={"type": "string"}), "required"),
    (form(required=[["a"]], a={"type": "string"}), "required"),
])
def test_schemas_that_are_not_forms(schema, problem):
    with pytest.raises(ValueError, match=problem):
        check_form(schema)


def test_an_empty_form_and_required_fields():
    check_form(form())
    check_form(form(required=["a"], a={"type": "string"}))


def test_names_that_ask_for_secrets():
    # ELIC-16
    names = ["password", "Passphrase", "api_key", "APIKEY", "accessToken", "my_secret", "pin", "cvv", "private_key", "ssn",
             "user_pin", "passcode", "cvc", "AccessKey"]
    fine = ["name", "pinned", "opinion", "keyboard", "compass", "max_tokens", "secretary", "access"]
    assert sensitive_names(form(**{name: {"type": "string"} for name in names + fine})) == names
    assert sensitive_names({}) == []


# ---- generations ----

def test_newer_revisions_get_the_form_as_it_is():
    schema = {**form(a=TITLED, b=SEVERAL, c={"type": "string", "default": "x"}), "title": "left out", "$schema": "s"}
    for revision in (NOVEMBER_2025, JULY_2026):
        assert adapt_form(schema, revision) == {key: schema[key] for key in ("type", "properties", "$schema")}


def test_choices_are_texts_unless_they_say_otherwise():
    schema = form(a={"enum": ["x"]}, b={"type": "integer", "enum": [1, 2]})
    for revision in (JUNE_2025, NOVEMBER_2025):
        assert adapt_form(schema, revision) == form(a={"type": "string", "enum": ["x"]}, b={"type": "integer", "enum": [1, 2]})


def test_the_dialect_of_a_form_is_not_told_to_older_revisions():
    assert adapt_form({**form(), "$schema": "s"}, JUNE_2025) == form()


def test_older_revisions_get_enum_names_and_few_defaults():
    schema = {**form(
        required=["a"], a=dict(TITLED, default="r"), b={"type": "boolean", "default": False},
        c={"type": "integer", "default": 5}, d={"type": "string", "enum": ["x", "y"], "enumNames": ["X", "Y"]},
        e={"enum": ["x"]}, f={"anyOf": [{"const": "x", "title": "X"}, {"const": "y"}]}), "$schema": "s"}
    before = copy.deepcopy(schema)
    assert adapt_form(schema, JUNE_2025) == form(
        required=["a"], a={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        b={"type": "boolean", "default": False}, c={"type": "integer"},
        d={"type": "string", "enum": ["x", "y"], "enumNames": ["X", "Y"]}, e={"type": "string", "enum": ["x"]},
        f={"type": "string", "enum": ["x", "y"], "enumNames": ["X", "y"]})
    assert schema == before


def test_older_revisions_have_no_choice_of_several():
    with pytest.raises(ValueError, match="'b' is a choice of several"):
        adapt_form(form(b=SEVERAL), JUNE_2025)


def test_defaults_fill_what_is_missing():
    # ELIC-10
    schema = form(a={"type": "string", "default": "x"}, b={"type": "boolean", "default": False}, c={"type": "string"}, d=5)
    content = {"a": "y", "z": 1}
    assert fill_defaults(schema, content) == {"a": "y", "z": 1, "b": False}
    assert content == {"a": "y", "z": 1}
    assert fill_defaults({}, content) == content
    several = form(a=dict(SEVERAL, default=["r"]))
    fill_defaults(several, {})["a"].append("g")
    assert several["properties"]["a"]["default"] == ["r"]


# ---- answers ----

@pytest.mark.parametrize("field, good, bad", [
    ({"type": "string"}, ["", "x", "é"], [5, None, True, [], {}]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd", ""]),
    ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
    ({"type": "integer"}, [0, -5, 1.0, 10**30], [1.5, True, "1", None, float("inf"), float("nan")]),
    ({"type": "number"}, [0, 1.5], [True, "1", None]),
    ({"type": "integer", "minimum": 1, "maximum": 5}, [1, 5], [0, 6]),
    ({"type": "number", "minimum": 0.5}, [0.5, 1], [0.4, -1]),
    ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", "A", 5, None, True, ["a"], {"a": 1}]),
    ({"type": "string", "enum": ["1"]}, ["1"], [1, True]),
    ({"enum": [1, 0]}, [1, 0, 1.0], [True, False, "1"]),
    ({"enum": [True]}, [True], [1]),
    (TITLED, ["r", "g"], ["Red", "b", None]),
    (SEVERAL, [[], ["r"], ["r", "g"]], ["r", [5], ["Red"], [None], None, {}, [["r"]], [True]]),
    (dict(SEVERAL, minItems=1, maxItems=1), [["r"]], [[], ["r", "g"]]),
    ({"type": "array", "items": {"enum": [1]}}, [[1]], [[True]]),
    ({"type": "array"}, [[]], [["x"]]),
    ({"type": "string", "format": "email"}, ["a@b", "first.last+tag@sub.example.org"],
     ["", "a", "@b", "a@", "a b@c", "a@b@c", "a@b..c", "a@b\n", "x" * 65 + "@b"]),
    ({"type": "string", "format": "uri"}, ["http://x", "urn:a:b", "mailto:a@b", "http://[::1]:80/a%20b?c=d#e"],
     ["", "x", "//x", "/x", "http: //x", "1x:y", "a:b\n", "http://x/<y>", "http://x/%zz", "http://x/é"]),
    ({"type": "string", "format": "date"}, ["2025-11-25", "2024-02-29"],
     ["2025-13-01", "2025-02-30", "20251125", "2025-1-1", "x", "2025-11-25T00:00:00Z", "2025-W01-1"]),
    ({"type": "string", "format": "date-time"},
     ["2025-11-25T10:00:00Z", "2025-11-25t10:00:00z", "2025-11-25T10:00:00.123456789+02:00", "2025-11-25T10:00:00.1Z",
      "2025-11-25T10:00:00-05:30"],
     ["2025-11-25", "2025-11-25T10:00:00", "2025-11-25 10:00:00Z", "2025-11-25T25:00:00Z", "2025-11-25T10:00:00.Z", "x", "",
      "2025-11-25T10:00Z", "20251125T100000Z", "2025-11-25T10:00:00+0200", "2025-11-25T10Z", "2025-11-25T10:00:00,5Z",
      "2025-11-25T10:00:00ZZ", "2025-11-25T10:00:00Z\n", "T", "2025-11-25T10:00:00+02:00:30"]),
])
def test_answers(field, good, bad):
    # ELIC-14, ELIC-15
    schema = form(name=field)
    for value in good:
        assert check_answer(schema, {"name": value}) == [], value
    for value in bad:
        problems = check_answer(schema, {"name": value})
        assert len(problems) == 1 and problems[0].startswith("name: "), value


@pytest.mark.parametrize("field, value", [
    ({"type": "string", "minLength": "x", "maxLength": True}, "abc"), ({"type": "integer", "minimum": "x", "maximum": None}, 5),
    (dict(SEVERAL, minItems=[], maxItems="x"), ["r"]),
])
def test_bounds_of_another_type_are_ignored(field, value):
    assert check_answer(form(name=field), {"name": value}) == []


def test_problems_are_short():
    field = {"type": "string", "enum": [str(number) * 50 for number in range(1000)]}
    [problem] = check_answer(form(**{"n" * 1000: field}), {"n" * 1000: "x" * 10_000})
    assert len(problem) < 400


def test_required_and_unknown_members():
    schema = form(required=["a", "b"], a={"type": "string"}, b={"type": "string"}, c={"type": "integer"})
    assert check_answer(schema, {"a": "x", "more": object()}) == ["b: is required"]
    assert check_answer(schema, {}) == ["a: is required", "b: is required"]
    assert check_answer(schema, {"a": "x", "b": 1, "c": "x"}) == ["b: 1 is not a string", "c: 'x' is not a number"]
    assert check_answer({}, {"x": 1}) == []


@pytest.mark.parametrize("content", [None, [], "x", 5])
def test_an_answer_is_an_object(content):
    assert check_answer(form(), content) == ["the answer must be an object"]


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
                      max_leaves=5)
FIELDS = st.sampled_from([
    {"type": "string"}, {"type": "number", "minimum": 0}, {"type": "integer", "maximum": 9}, {"type": "boolean"},
    {"type": "string", "enum": ["a"]}, TITLED, SEVERAL, {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date"}, {"type": "string", "format": "uri"}, {"type": "string", "format": "email"}])


@given(FIELDS, VALUES)
def test_any_answer_gets_a_verdict(field, value):
    assert len(check_answer(form(name=field), {"name": value})) < 2


@given(VALUES | st.dictionaries(st.sampled_from(["type", "properties", "required"]), VALUES | st.just("object")),
       st.dictionaries(st.text(max_size=3), VALUES))
def test_any_schema_gets_a_verdict(schema, fields):
    for candidate in (schema, {"type": "object", "properties": fields}):
        try:
            check_form(candidate)
        except ValueError:
            continue
        adapt_form(candidate, NOVEMBER_2025)
        for value in ("x", 5, None, []):
            assert check_answer(candidate, dict.fromkeys(candidate["properties"], value)) is not None


def text(role="user"):
    return {"role": role, "content": {"type": "text", "text": "x"}}


def uses(*ids, also=()):
    return {"role": "assistant", "content": [*also, *({"type": "tool_use", "id": id, "name": "t", "input": {}} for id in ids)]}


def results(*ids, role="user", also=()):
    return {"role": role, "content": [*({"type": "tool_result", "toolUseId": id, "content": []} for id in ids), *also]}


WORDS = {"type": "text", "text": "x"}


@pytest.mark.parametrize("messages", [
    [], [text()], [text(), text("assistant"), text()], [text(), uses("a"), results("a")],
    [text(), uses("a", "b", also=[WORDS]), results("b", "a"), text("assistant")],
    [uses("a"), results("a"), uses("a"), results("a")],
    [{"role": "user", "content": []}], [{"role": "user", "content": [WORDS, WORDS]}],
    [{"role": "assistant", "content": uses("a")["content"][0]}, {"role": "user", "content": results("a")["content"][0]}],
])
def test_good_conversations(messages):
    assert check_messages(messages) is None


@pytest.mark.parametrize("messages, problem", [
    ([5], r"messages[0] needs a role"), ([{"content": WORDS}], "messages[0] needs a role"),
    ([text(), {"role": "system", "content": WORDS}], "messages[1] needs a role"),
    ([{"role": ["user"], "content": WORDS}], "messages[0] needs a role"),
    ([{"role": "user"}], "messages[0] needs content"), ([{"role": "user", "content": "x"}], "messages[0] needs content"),
    ([{"role": "user", "content": None}], "messages[0] needs content"),
    ([{"role": "user", "content": [WORDS, "x"]}], "messages[0] needs content: a block, or a list of blocks"),
    # SAMP-11
    ([uses("a"), results("a", also=[WORDS])], "messages[1]: tool results stand alone"),
    ([uses("a"), results("a", role="assistant")], "messages[1]: tool results stand alone"),
    # SAMP-12
    ([uses("a"), text()], "messages[1] must answer the tool uses a and nothing else; it answers none"),
    ([uses("a", "b"), results("a")], "must answer the tool uses a, b and nothing else; it answers a"),
    ([uses("a"), results("a", "b")], "it answers a, b"), ([uses("a"), results("a", "a")], "it answers a, a"),
    ([uses("a"), text("assistant"), results("a")], "messages[1] must answer"),
    ([uses("a")], "the tool uses a have no results"), ([uses("a"), results("a"), uses("b")], "tool uses b have no results"),
    ([results("a")], "messages[0] answers tool uses that are not in the message before: a"),
    ([uses("a"), results("a"), results("a")], "messages[2] answers tool uses that are not in the message before"),
    ([{**uses("a"), "role": "user"}], "messages[0]: only an assistant message can use tools"),
])
def test_broken_conversations(messages, problem):
    assert problem in check_messages(messages)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["role", "content", "type", "id", "toolUseId"]), inner, max_size=4), max_leaves=10)
BLOCKS = st.one_of(JSON, st.just({"type": "tool_use", "id": "a"}), st.just({"type": "tool_result", "toolUseId": "a"}),
                   st.fixed_dictionaries({"type": JSON, "id": JSON}))


@given(st.lists(JSON | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]),
                                              "content": BLOCKS | st.lists(BLOCKS, max_size=3)}), max_size=4))
def test_any_messages_get_a_verdict(messages):
    verdict = check_messages(messages)
    assert verdict is None or verdict.strip()

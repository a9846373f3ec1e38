"""Arguments as typed: text, JSON, files, stdin, and what a schema says they are."""

import io
import json

import pytest
from hypothesis import given, strategies as st

from mcplite.cli.parser import UsageError, parse, parse_arguments, parse_strings


def schema(**properties):
    return {"type": "object", "properties": properties}


def test_text_is_text_without_a_schema():
    assert parse_arguments(["city=Rome", "days=3", "empty=", "formula=a=b", "two=a b"]) == {
        "city": "Rome", "days": "3", "empty": "", "formula": "a=b", "two": "a b"}


def test_json_has_its_own_sign():
    assert parse_arguments(["days:=3", 'names:=["a", "b"]', "on:=true", "none:=null", 'at:="@x"']) == {
        "days": 3, "names": ["a", "b"], "on": True, "none": None, "at": "@x"}


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True),
                       st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5),
                       max_size=5))
def test_any_json_value_can_be_typed(values):
    assert parse_arguments([f"{key}:={json.dumps(value)}" for key, value in values.items()]) == values


@pytest.mark.parametrize("kind, text, value", [
    ({"type": "integer"}, "3", 3), ({"type": "number"}, "2.5", 2.5), ({"type": "boolean"}, "true", True),
    ({"type": "array"}, "[1, 2]", [1, 2]), ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ({"type": ["integer", "null"]}, "null", None), ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "4", 4),
    ({"type": "string"}, "3", "3"), ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "3", "3"),
    ({"enum": ["a", "b"]}, "a", "a"), ({}, "3", "3"), (True, "3", "3"), ({"type": 7, "anyOf": 7}, "3", "3"),
    ({"type": [{}, "integer"]}, "3", 3),
])
def test_text_is_read_by_the_schema(kind, text, value):
    assert parse_arguments([f"key={text}"], schema(key=kind)) == {"key": value}


@pytest.mark.parametrize("strange", [None, {}, {"properties": None}, {"properties": ["key"]}])
def test_a_schema_that_says_nothing_leaves_text(strange):
    assert parse_arguments(["key=3"], strange) == {"key": "3"}


@pytest.mark.parametrize("text", ["three", '"3"', "[" * 100_000])
def test_values_of_another_type_than_the_schemas_are_refused(text):
    with pytest.raises(UsageError, match="days must be of the type integer or number, not "):
        parse_arguments([f"days={text}"], schema(days={"type": ["integer", "number", "null"]}))


@pytest.mark.parametrize("kind, text, spelling", [
    ("array", "1,2,3", "write key:='[1, 2, 3]'"), ("array", "a, b", """write key:='["a", "b"]'"""),
    ("object", "x", "write key:='{"),
])
def test_values_with_parts_are_refused_with_their_spelling(kind, text, spelling):
    with pytest.raises(UsageError) as caught:
        parse_arguments([f"key={text}"], schema(key={"type": kind}))
    assert spelling in str(caught.value)


def test_an_object_is_all_its_arguments():
    assert parse_arguments(["a=1", '{"b": 2, "c": [3]}']) == {"a": "1", "b": 2, "c": [3]}
    with pytest.raises(UsageError, match="is not JSON"):
        parse_arguments(["{b: 2}"])


@pytest.mark.parametrize("item", ["city", "=Rome", ":=3", ""])
def test_malformed_arguments_are_refused_with_the_ways_to_write_one(item):
    with pytest.raises(UsageError, match="write key=value for text, key:=json for any other value"):
        parse_arguments([item])


@pytest.mark.parametrize("text", ["Rome", "{", "[" * 100_000])
def test_bad_json_is_refused(text):
    with pytest.raises(UsageError, match="city: .* is not JSON .*; a string needs quotes in JSON"):
        parse_arguments([f"city:={text}"])


def test_a_files_text(tmp_path):
    (tmp_path / "question.txt").write_text("Ça va?\n", "utf-8")
    (tmp_path / "list.json").write_text("[1, 2]", "utf-8")
    assert parse_arguments([f"q=@{tmp_path / 'question.txt'}", f"items=@{tmp_path / 'list.json'}"],
                           schema(items={"type": "array"})) == {"q": "Ça va?\n", "items": [1, 2]}


def test_a_byte_order_mark_is_no_text(tmp_path, monkeypatch):
    (tmp_path / "question.txt").write_text("Ça va?", "utf-8-sig")
    (tmp_path / "list.json").write_text("[1, 2]", "utf-8-sig")
    monkeypatch.setattr("sys.stdin", io.StringIO('\ufeff{"days": 3}'))
    assert parse_arguments([f"q=@{tmp_path / 'question.txt'}", f"items=@{tmp_path / 'list.json'}", "-"],
                           schema(items={"type": "array"})) == {"q": "Ça va?", "items": [1, 2], "days": 3}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    for name in ("missing", "binary"):
        with pytest.raises(UsageError, match=f"cannot read .*{name}: "):
            parse_arguments([f"q=@{tmp_path / name}"])


def test_a_dash_is_a_json_object_on_stdin(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"city": "Rome", "days": 3}'))
    assert parse_arguments(["city=Paris", "-", "days:=4"]) == {"city": "Rome", "days": 4}


@pytest.mark.parametrize("text, problem", [
    ("[1]", "stdin must hold a JSON object"), ("", "stdin: '' is not JSON"), (None, "stdin: '' is not JSON")])
def test_stdin_must_hold_an_object(monkeypatch, text, problem):
    monkeypatch.setattr("sys.stdin", None if text is None else io.StringIO(text))
    with pytest.raises(UsageError, match=problem):
        parse_arguments(["-"])


def test_prompts_take_text_only():
    assert parse_strings(["a=1", "b:=2", 'c:={"é": [1]}', 'd:="x"']) == {"a": "1", "b": "2", "c": '{"é": [1]}', "d": "x"}


@pytest.mark.parametrize("items", [["a=1", "a=2"], ["a:=1", "b=2", "a=3"]])
def test_an_argument_that_is_given_twice(items):
    with pytest.raises(UsageError, match=r"^the argument a is given twice; write a list as a:='\[...\]'$"):
        parse_arguments(items)


def test_an_argument_takes_the_place_of_a_member_of_an_object():
    assert parse_arguments(['{"a": 1}', "a=2"]) == {"a": "2"}


@pytest.mark.parametrize("words, said", [
    (["call", "x.py", "add", "--city", "Rome"], "unrecognized arguments: --city; an argument has no dashes: city=VALUE"),
    (["call", "x.py", "add", "--timeot=3"], "did you mean '--timeout'?; an argument has no dashes: timeot=VALUE"),
    (["list", "x.py", "--timeot=3"], "did you mean '--timeout'?\n")])
def test_an_option_that_no_command_has(words, said, capsys):
    with pytest.raises(SystemExit):
        parse(words, "mcplite", "0")
    assert said in capsys.readouterr().err

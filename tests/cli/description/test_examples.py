"""Example commands: what they spell is what the schema takes."""

import shlex

import jsonschema
import pytest

from mcplite.cli.arguments import parse_arguments
from mcplite.cli.description.examples import argument_words, example_of, example_uri, pasted, prompt_words
from mcplite.cli.parser import parse

POINT = {"type": "object", "properties": {"x": {"type": "number", "exclusiveMinimum": 0}}, "required": ["x"]}


def test_references_that_multiply_are_bounded():
    names = [f"p{number}" for number in range(100)]
    members = {"properties": {name: {"$ref": "#/$defs/a"} for name in names}, "required": names}
    lists = {"type": "array", "minItems": 20}
    for _ in range(4):
        lists = {"type": "array", "minItems": 20, "items": lists}
    for schema in ({**members, "$defs": {"a": members}}, {"properties": {"a": lists}, "required": ["a"]}):
        assert sum(map(len, argument_words(schema))) < 1_000_000


@pytest.mark.parametrize("schema", [
    {"type": "string"}, {"type": "string", "minLength": 9}, {"enum": ["a b", "c"]}, {"const": 5}, {"type": "boolean"},
    {"type": "integer", "minimum": 7}, {"type": "integer", "maximum": -3}, {"type": "number", "exclusiveMaximum": 0},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2}, POINT, {"type": ["null", "integer"]},
    {"anyOf": [{"type": "null"}, {"type": "array", "items": POINT}]}, {"type": "string", "examples": ["it's"]},
    {"type": "string", "default": "@home"}, {"type": "integer", "multipleOf": 5}, {"type": "string", "format": "date"}, {},
])
def test_an_example_has_the_type_of_the_schema_and_is_read_back(schema):
    whole = {"type": "object", "properties": {"it": schema, "other": {"type": "string"}}, "required": ["it"]}
    words = argument_words(whole)
    read = parse_arguments(shlex.split(shlex.join(words)), whole)
    assert read == {"it": example_of(schema, whole)}
    jsonschema.Draft202012Validator(whole).validate(read)


def test_names_that_cannot_stand_before_an_equals_sign_are_in_one_object():
    for name in ("-x", "a=b", "{", "c:"):
        (word,) = argument_words({"properties": {name: {"type": "integer"}}, "required": [name]})
        assert parse_arguments([word]) == {name: 1}


def test_schemas_that_refer_to_themselves_end():
    schema = {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert argument_words(schema)[0].startswith('a:={"a": {"a": ')


@pytest.mark.parametrize("schema", [{}, {"properties": [], "required": ["a"]}, {"properties": {}, "required": "a"},
                                    {"properties": {"a": {}}, "required": [5, "b"]}])
def test_without_required_arguments_there_are_no_words(schema):
    assert argument_words(schema) == []


def test_templates_and_quotes():
    assert example_uri("city://{name}/history{?year}") == "city://name/history?year=year"
    assert example_uri("city://{") == "city://{"
    assert pasted(["call", "npx -y it"], "a b") == "python -m mcplite call 'npx -y it' 'a b'"


@pytest.mark.parametrize("words", [
    ["--output=pwned.txt"], ["--env=HOME", "q=text"], ["-h"], ["--"], ["tool", "--config=x"], ["-"], ["ordinary", "a=-1"],
    ["--root=/", "--debug"], ["uri://x", "--json"],
])
def test_what_a_server_names_is_no_option(words):
    command = shlex.split(pasted(["call", "x.py"], *words))[3:]
    options = parse(command, "mcplite", "1")
    assert options.words == ["x.py", *words]
    assert (options.json, options.env, options.root, options.output, options.config) == (False, [], [], None, None)


@pytest.mark.parametrize("names", [["a"], ["a", "b c"], ["-x"], ["a=b"], ["{}"], ["c:"], [""], ["--env"]])
def test_the_arguments_of_a_prompt_are_read_back(names):
    assert parse_arguments(prompt_words(names)) == dict.fromkeys(names, "text")

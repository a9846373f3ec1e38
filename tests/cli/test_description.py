"""Descriptions: every line of the server's is indented, hints in words, names of all kinds.

Example commands: what they spell is what the schema takes.

Members of a schema in words.
"""

import shlex
import sys
import types
from typing import Annotated, List

import jsonschema
import pytest

import mcplite
from mcplite.cli import description
from mcplite.cli.description import (
    argument_words,
    described,
    example_of,
    example_uri,
    limits_of,
    members_of,
    pasted,
    prompt_words,
    resolved,
)
from mcplite.cli.listing import offered_by
from mcplite.cli.parser import parse, parse_arguments
from mcplite.protocol.schema.references import LenientReferences
from mcplite.types import Prompt, PromptArgument, Resource, Tool, ToolAnnotations


def text_of(*items, kind="tools"):
    return described(types.SimpleNamespace(), {kind: list(items)}, ["x.py"], False)


def test_lines_of_a_server_cannot_pass_for_headings():
    members = {"c\nd": {"description": "e\nf", "enum": ["g\x1b\nh"]}}
    text = text_of(Tool("a\ntool b", {"properties": members, "required": ["c\nd"]},
                        description="one\ntool two\n  example: three\x1b[2J"))
    lines = text.split("\n")
    assert lines[0] == "tool a tool b"
    assert all(line.startswith("  ") for line in lines[1:])
    assert "\x1b" not in text and "\\x1b[2J" in text


@pytest.mark.parametrize("annotations, words", [
    (ToolAnnotations(read_only_hint=True, destructive_hint=True, open_world_hint=False), "only reads, stays inside the server"),
    (ToolAnnotations(destructive_hint=True, idempotent_hint=True),
     "may delete or overwrite, a repeated call changes nothing more"),
    (ToolAnnotations(), None), (None, None),
])
def test_hints_in_words(annotations, words):
    text = text_of(Tool("t", {}, annotations=annotations))
    assert ("hints:" in text) == (words is not None)
    assert words is None or f"\n  hints: {words} (as the server says)\n" in text


@pytest.mark.parametrize("schema, shown", [
    (None, "returns: content without a declared type\n"),
    ({"properties": {"result": {"type": "integer"}}, "required": ["result"]}, "returns: int\n"),
    ({"type": "object", "properties": {"a": {"type": "string", "description": "A."}}, "required": ["a"]},
     "returns: dict\n    a: str  A\n"),
])
def test_what_a_tool_returns(schema, shown):
    assert f"  arguments: none\n  {shown}" in text_of(Tool("t", {}, output_schema=schema))


def test_prompts_and_resources():
    text = text_of(Prompt("p", arguments=[PromptArgument("a", "First.", True), PromptArgument("b")]), kind="prompts")
    assert text == ("prompt p\n  arguments:\n    a  First\n    b  optional\n"
                    "  example: python -m mcplite prompt x.py p a=text")
    text = text_of(Resource("n://1", "one", mime_type="text/plain", size=3), kind="resources")
    assert text == ("resource n://1 (one)\n  type: text/plain\n  size: 3 bytes\n"
                    "  example: python -m mcplite read x.py n://1")


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


def test_templates_and_quotes(monkeypatch):
    assert example_uri("city://{name}/history{?year}") == "city://name/history?year=year"
    assert example_uri("city://{") == "city://{"
    assert pasted(["call", "npx -y it"], "a b") == "python -m mcplite call 'npx -y it' 'a b'"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/mcplite", "call"])
    assert pasted(["call", "npx -y it"], "a b") == "mcplite call 'npx -y it' 'a b'"


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


@pytest.mark.parametrize("schema, words", [
    ({}, []),
    ({"minimum": 1, "maximum": 14}, ["1 to 14"]),
    ({"minimum": 1}, ["at least 1"]),
    ({"maximum": 2.5}, ["at most 2.5"]),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.1}, ["more than 0", "less than 1", "a multiple of 0.1"]),
    ({"minimum": True, "exclusiveMaximum": True, "minLength": "x", "pattern": 5, "examples": "x"}, []),
    ({"minLength": 1, "maxLength": 20}, ["1 to 20 characters"]),
    ({"minLength": 2, "maxLength": 2}, ["2 characters"]),
    ({"minItems": 1, "uniqueItems": True}, ["at least 1 item", "all different"]),
    ({"maxProperties": 3}, ["at most 3 members"]),
    ({"format": "date", "pattern": "^2"}, ["format date", "matches ^2"]),
    ({"pattern": "x" * 100}, ["matches " + "x" * 60 + "..."]),
    ({"examples": [["a"]]}, ['for example ["a"]']),
])
def test_limits_in_words(schema, words):
    assert limits_of(schema) == words


def test_members_with_types_defaults_and_descriptions():
    schema = {"required": ["city", "points"], "$defs": {"Point": {"properties": {"x": {"type": "number", "minimum": 0}}}},
              "properties": {"city": {"type": "string", "description": "The city.", "minLength": 1},
                             "days": {"anyOf": [{"type": "integer", "maximum": 7}, {"type": "null"}], "default": 3},
                             "points": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
                             "filter": {"type": "object", "title": "Filter",
                                        "properties": {"tag": {"enum": ["a", "b"]}}, "required": ["tag"]}}}
    assert members_of(schema) == [
        ("city: str", "The city; at least 1 character"), ("days: int | None", "default 3; at most 7"),
        ("points: list[Point]", ""), ("points[].x: float", "optional; at least 0"),
        ("filter: dict", "Filter; optional"), ('filter.tag: "a" | "b"', "")]


def test_parameters_schemas_that_refer_to_themselves_end():
    schema = {"$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
              "properties": {"node": {"$ref": "#/$defs/Node"}}}
    assert [row[0] for row in members_of(schema)] == [
        "node: Node", "node.next: Node", "node.next.next: Node", "node.next.next.next: Node"]
    circle = {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert resolved({"$ref": "#/$defs/a"}, LenientReferences(circle)) == {}


@pytest.mark.parametrize("reference, name", [("#/$defs/A%20B", "A B"), ("#a", "x"), ("#/properties/o", "x")])
def test_references_of_all_kinds(reference, name):
    schema = {"$defs": {name: {"$anchor": "a", "type": "string", "minLength": 2}}, "properties": {
        "p": {"$ref": reference}, "o": {"minLength": 2}}}
    assert members_of(schema)[0][1] == "optional; at least 2 characters"


def test_parameters_references_that_multiply_are_bounded():
    members = {f"p{number}": {"$ref": "#/$defs/a"} for number in range(300)}
    rows = members_of({"$defs": {"a": {"properties": members}}, "properties": members})
    assert 300 < len(rows) < 10_000 and rows[-1][0] == "..."


@pytest.mark.parametrize("schema", [None, True, [], {"properties": []}, {"properties": {"a": 5}}, {"$ref": "#/nowhere"}])
def test_strange_schemas_are_no_error(schema):
    assert all(len(row) == 2 for row in members_of(schema))


def test_a_description_as_markdown_keeps_the_servers_text_and_escapes_what_would_end_a_cell_or_begin_a_heading():
    server = mcplite.Server("shop", version="1", instructions="# Not a heading\nSell `things`.")

    @server.tool(annotations={"readOnlyHint": True})
    def find(text: Annotated[str, "Words | signs"], most: int = 3) -> List[str]:
        """Find things."""
        return []

    @server.prompt()
    def offer(thing: str) -> str:
        """Offer a thing."""
        return thing

    with mcplite.connect(server) as client:
        text = description.markdown_of(client, offered_by(client), ["shop.py"], True)
    lines = text.split("\n")
    assert lines[0] == "# shop" and "\\# Not a heading" in lines and "Sell `things`." in lines
    assert "## Tools" in lines and "### `find`" in lines and "Find things." in lines
    assert "| `text: str` | Words \\| signs |" in lines and "| `most: int` | default 3 |" in lines
    assert "Hints: only reads." in lines and "## Prompts" in lines and "| `thing` |  |" in lines
    assert "$ python -m mcplite call shop.py find text=text" in lines
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("said, shown", [
    ("Run\n```py\n# a comment", "Run\n```py\n# a comment\n```"), ("~~~~\n~~~", "~~~~\n~~~\n~~~~"),
    ("```\na\n```", "```\na\n```"),
    ("Do `it`.\n\n  ## So\n.", "Do `it`.\n\n\\## So\n."), ("A\n===\nB\n\n---", "A\n\\===\nB\n\n---"),
    ("a\n    # b\nc", "a\n    # b\nc"),
    ("- one\n  ```\n  # two\n  ```\n- three", "- one\n  ```\n  # two\n  ```\n- three"),
    ("<!-- all\n<b>is</b>", "\\<!-- all\n<b>is</b>"), ("```a`", "```a`")])
def test_a_servers_markdown_neither_hides_what_follows_nor_begins_a_heading(said, shown):
    server = mcplite.Server("shop", instructions=said)
    server.add_tool(lambda: "", name="find", title="# Find")
    with mcplite.connect(server) as client:
        text = description.markdown_of(client, offered_by(client), ["shop.py"], True)
    assert text.startswith(f"# shop\n\n{shown}\n\n## Tools\n\n### `find`\n\n\\# Find\n\n")

"""Descriptions: every line of the server's is indented, hints in words, names of all kinds."""

import types

import pytest

from mcplite.cli.arguments import UsageError
from mcplite.cli.description.describing import chosen, described
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


def test_a_name_may_be_of_several_kinds():
    found = {"tools": [Tool("a", {}), Tool("b", {})], "prompts": [Prompt("a")], "resources": [Resource("n://a", "b")]}
    assert {kind: len(items) for kind, items in chosen(found, "a").items()} == {"tools": 1, "prompts": 1}
    assert list(chosen(found, "n://a")) == ["resources"] and list(chosen(found, "b")) == ["tools", "resources"]
    with pytest.raises(UsageError, match="it offers nothing"):
        chosen({}, "a")

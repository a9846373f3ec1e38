"""What APIs of models would refuse of a tool, which ``mcplite check`` and the inspector tell alike."""

import json

import pytest

from mcplite.cli.check_command import RULES
from mcplite.inspector.inspector_server import InspectedTarget, Inspector
from mcplite.llm.tool_rules import LONGEST_DESCRIPTION, refusals, schemas_in, some_of
from mcplite.types import Tool

OBJECT = {"type": "object"}


def tool(name="good", description="Does it.", **properties):
    return Tool(name=name, description=description, input_schema={**OBJECT, "properties": properties})


@pytest.mark.parametrize("one, id, apis, says", [
    (tool("a.b/c"), "tool-name", {"openai", "anthropic", "gemini"}, "'a.b/c'"),
    (tool("3d"), "name-gemini", {"gemini"}, "'3d'"),
    (tool(description=" "), "tool-description", {"openai", "anthropic", "gemini"}, "no description"),
    (tool(description="d" * (LONGEST_DESCRIPTION + 1)), "tool-description-long", {"openai"}, "1025 characters"),
    (tool(**{"a b": {"type": "string"}}), "argument-name", {"openai", "anthropic", "gemini"}, "'a b'"),
    (tool(**{"max-count": {"type": "string"}}), "name-gemini", {"gemini"}, "'max-count'"),
    (Tool(name="t", description="d", input_schema={**OBJECT, "anyOf": [OBJECT]}), "schema-top",
     {"openai", "anthropic", "gemini"}, "has anyOf"),
    (tool(a={"type": "object", "properties": {"b": {"type": "array"}}}), "schema-items", {"openai", "gemini"}, "a.b is a list"),
    (tool(a={"type": "string", "pattern": "(?<!a)b"}), "schema-pattern", {"openai", "anthropic", "gemini"}, "(?<!a)b"),
])
def test_a_refusal_has_the_rule_of_check_and_the_apis(one, id, apis, says):
    (found,) = refusals(one)
    assert (found.id, found.apis) == (id, apis) and says in found.text and id in RULES


def test_a_tool_that_all_take():
    assert list(refusals(tool(city={"type": "array", "items": {"type": "string", "pattern": "^a+$"}}))) == []
    # A server can send anything in place of a schema.
    assert list(refusals(Tool(name="t", description="d", input_schema=[]))) == []


def test_check_and_the_inspector_say_the_same(tmp_path, capsys):
    from mcplite.__main__ import main
    from tests.inspector.conftest import Page

    path = tmp_path / "odd.py"
    path.write_text("import mcplite\nmcp = mcplite.Server('odd')\n"
                    "mcp.add_tool(lambda: '', name='3.d', description='d' * 2000)\nmcp.run()\n")
    main(["check", str(path), "--revision", "2025-11-25", "--json"])
    checked = {one["text"] for one in json.loads(capsys.readouterr().out)["findings"] if one["place"].startswith("tool ")}
    with Inspector([InspectedTarget("it", str(path))]) as inspector:
        page = Page(inspector)
        page.open()
        problems = page.post("kits", server="it")["tools"][0]["openai"]["problems"]
    page.close()
    assert len(set(problems) & checked) == 2, (problems, checked)


def test_schemas_are_found_within_limits():
    deep = {"type": "array"}
    for _ in range(50):
        deep = {"type": "array", "items": deep}
    assert len(schemas_in(deep)) == 20
    assert [place for place, _ in schemas_in({**OBJECT, "properties": {"a": {"items": OBJECT}}})] == ["", "a", "a[]"]
    assert schemas_in(None) == []


def test_of_many_names_the_first_are_shown():
    assert some_of(["a", "b"]) == "a, b" and some_of(list("abcdefghijkl")).endswith("j, and 2 more")

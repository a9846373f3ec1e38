"""``python -m mcplite check``: what it finds at servers that do everything wrong, and at ones that do not."""

import json
import sys
from pathlib import Path

import pytest

from mcplite.__main__ import main
from mcplite.cli.check_command import RULES

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
#: A server of one revision that answers whatever it is asked.
BAD = """
import json, sys

def answer(method, params):
    if method == "initialize":
        if params["protocolVersion"] != "2025-06-18":
            return {"code": -32602, "message": "unknown revision"}, True
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "bad", "version": ""}}, False
    if method == "tools/list":
        return {"tools": TOOLS}, False
    if method == "resources/list":
        return {"resources": [{"uri": "a://b", "name": "b"}, {"uri": "a://b", "name": "c"}]}, False
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "a://{b", "name": "t"}]}, False
    if method == "prompts/list":
        return {"code": -32603, "message": "no prompts today"}, True
    return {"content": []}, False

def tool(name, schema, **more):
    return {"name": name, "inputSchema": {"type": "object", **schema}, **more}

def one(schema):
    return {"properties": {"x": schema}}

TOOLS = [
    tool("bad name!", {}, description="d"), tool("twice", {}), tool("twice", {}), tool("long", {}, description="d" * 2000),
    tool("delete_all", {}, annotations={"readOnlyHint": True, "destructiveHint": True}),
    tool("any", {"anyOf": [{"required": ["x"]}], **one({"description": "x"})}), tool("list", one({"type": "array"})),
    tool("odd", {"properties": {"a b": {"type": "string"}}}), tool("away", one({"$ref": "https://example.com/s.json"})),
    tool("pattern", one({"type": "string", "pattern": "(?<!a)b"})), tool("invalid", one({"type": "strin"})),
]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    value, failed = answer(message["method"], message.get("params"))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error" if failed else "result": value}), flush=True)
"""


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(BAD)
    return f'"{sys.executable}" "{path}"'


def checked(capsys, *words):
    """Return the exit status, and the findings by id."""
    status = main(["check", *words, "--json"])
    found = {}
    for one in json.loads(capsys.readouterr().out)["findings"]:
        found.setdefault(one["id"], []).append(one)
    return status, found


def test_each_rule_is_found_where_it_is_broken(bad, capsys):
    status, found = checked(capsys, bad)
    assert status == 1
    assert set(found) >= {
        "revision", "version", "list-fails", "tool-name", "tool-twice", "tool-description", "tool-description-long",
        "annotations", "annotations-contradict", "annotations-name", "schema", "schema-top", "schema-items", "argument-name",
        "argument-type", "argument-description", "schema-remote", "schema-pattern", "unknown-method", "unknown-tool",
        "bad-cursor", "resource-twice", "resource-description", "resource-type", "template", "instructions"}
    assert {one["place"] for one in found["revision"]} >= {"revision 2026-07-28", "revision 2024-11-05"}
    assert [one["place"] for one in found["tool-twice"]] == ["tool twice"]
    assert "no prompts today" in found["list-fails"][0]["text"]
    for id, some in found.items():
        assert {one["severity"] for one in some} == {RULES[id].severity} and some[0]["advice"] == RULES[id].advice


@pytest.mark.parametrize("name", ["hello.py", "notes.py"])
def test_an_example_has_notes_only_and_the_severity_that_fails_is_chosen(name, capsys):
    status, found = checked(capsys, str(EXAMPLES / name))
    assert status == 0 and found and {one["severity"] for some in found.values() for one in some} == {"note"}
    ignored = [word for id in found for word in ("--ignore", id)]
    assert checked(capsys, str(EXAMPLES / name), "--revision", "2025-11-25", "--fail-on", "note")[0] == 1
    assert checked(capsys, str(EXAMPLES / name), "--revision", "2025-11-25", "--fail-on", "note", *ignored) == (0, {})


def test_findings_are_printed_by_rule_with_the_gravest_first(capsys):
    assert main(["check", str(EXAMPLES / "hello.py"), "--revision", "2025-11-25"]) == 0
    out = capsys.readouterr().out
    assert "note argument-description\n" in out and "- tool top_words: path, count" in out
    assert out.endswith("notes\n") and "0 faults, 0 warnings" in out


def test_an_unknown_rule_and_a_server_that_is_not_there_are_no_findings(capsys):
    assert main(["check", str(EXAMPLES / "hello.py"), "--ignore", "speling"]) == 2
    assert "there is no such rule" in capsys.readouterr().err
    assert main(["check", "http://127.0.0.1:9/mcp"]) == 4

"""The same server in each revision, and each tool as an API gets it."""

import json
import sys

import pytest

from mcplite import Server
from mcplite.revisions import NEWEST, NEWEST_LEGACY, REVISIONS
from tests.inspector.conftest import OLDER


def test_each_revision_is_seen_with_its_own_words(inspect):
    app = Server("many", version="1", instructions="look")

    @app.tool(title="A title")
    def look(what: str) -> int:
        """Look."""
        return 1

    @app.resource("note://today")
    def today() -> str:
        return "rain"

    page = inspect(it=app)
    page.open()
    page.events.clear()
    found = page.post("compare", server="it")["revisions"]
    assert set(found) == {one.name for one in REVISIONS}
    for one in REVISIONS:
        seen = found[one.name]
        assert (seen["info"]["name"], seen["instructions"]) == ("many", "look"), seen
        assert [item["uri"] for item in seen["resources"]] == ["note://today"] and seen["prompts"] == []
    oldest, newest = found[REVISIONS[0].name]["tools"][0], found[NEWEST.name]["tools"][0]
    assert ("outputSchema" in oldest) + ("outputSchema" in newest) == 1  # which the oldest revision has not
    assert page.of("message") == []  # a comparison is not in the record


def test_a_server_without_an_answer_is_an_error_in_each_revision(inspect):
    page = inspect(it=[sys.executable, "-c", "import sys; sys.exit(3)"])
    found = page.post("compare", server="it")["revisions"]
    assert all("3" in seen["error"] for seen in found.values())


def test_revisions_that_a_server_does_not_speak_are_told_apart(inspect):
    page = inspect(it=[sys.executable, "-c", OLDER])
    found = page.post("compare", server="it")["revisions"]
    assert found.pop(NEWEST_LEGACY.name)["info"]["name"] == "x"
    assert {seen["error"] for seen in found.values()} == {"the server does not speak this revision"}


def test_tools_as_the_apis_get_them(inspect):
    app = Server("tools")

    @app.tool("a.b/c")
    def odd(first: int, other: str = "x") -> int:
        return first

    @app.tool
    def plain(city: str = "Rome") -> str:
        """Look at a city."""
        return city

    page = inspect(it=app)
    page.open()
    found = page.post("kits", server="it")
    assert "estimate" in found["estimate"]
    strange, simple = found["tools"]
    assert simple["name"] == "plain" and all(simple[api]["problems"] == [] for api in ("openai", "anthropic", "gemini"))
    assert simple["openai"]["declaration"]["function"]["name"] == "plain"
    assert simple["gemini"]["declaration"]["parameters"]["type"] == "OBJECT"
    size = len(json.dumps(simple["anthropic"]["declaration"]))
    assert simple["anthropic"]["tokens"] == -(-size // 4)
    for api in ("openai", "anthropic", "gemini"):
        text = " ".join(strange[api]["problems"])
        assert "'a.b/c' would be refused" in text and "no description" in text


def test_a_tool_without_parameters_has_no_problems(inspect):
    app = Server("tools")
    app.tool("now", description="Tell the time.")(lambda: "noon")
    page = inspect(it=app)
    page.open()
    (tool,) = page.post("kits", server="it")["tools"]
    assert [tool[api]["problems"] for api in ("openai", "anthropic", "gemini")] == [[], [], []]


@pytest.mark.parametrize("schema, words", [
    ({"type": "object", "properties": {"a b": {"type": "string"}}}, "'a b'"),
    ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, "not")])
def test_what_an_api_would_refuse_is_named(inspect, schema, words):
    page = inspect(it=[sys.executable, "-c", LISTING, json.dumps(schema)])
    page.open(revision=REVISIONS[0].name)
    problems = page.post("kits", server="it")["tools"][0]["gemini"]["problems"]
    assert any(words in problem for problem in problems), problems


#: A server of the oldest revision whose one tool has any schema.
LISTING = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "t", "description": "d", "inputSchema": json.loads(sys.argv[1])}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

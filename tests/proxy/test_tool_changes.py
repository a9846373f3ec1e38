"""``mount(tags=, change=)``: fewer entries, other texts and names of arguments, presets, for both ways of mounting."""

import logging
import sys
from typing import List, Optional

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError, RemoteError
from mcplite.server import Context, Server
from tests.support.children import wait_until

REVISIONS = ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"]
CHANGE = {"forecast": {
    "title": "Outlook", "description": "What the weather will be.", "rename": {"city": "place"}, "preset": {"units": "metric"},
    "hide": ["days"]}}


def weather():
    server = Server("weather")
    server.seen = []

    @server.tool(tags=["public"], annotations={"readOnlyHint": True})
    def forecast(city: str, units: str, days: int = 3, notes: Optional[List[str]] = None) -> dict:
        """Forecast."""
        server.seen.append((city, units, days, notes))
        return {"city": city, "units": units, "days": days}

    @server.tool(tags=["admin"])
    def reset(ctx: Context) -> str:
        return "reset"

    server.add_resource("weather://stations", lambda: "all", name="stations", tags=["public"])
    server.add_resource("weather://keys", lambda: "secret", name="keys", tags=["admin"])
    server.add_resource("weather://station/{id}", lambda id: id, name="station", tags=["public"])
    server.add_resource("weather://key/{id}", lambda id: id, name="key")
    server.add_prompt(lambda: "hello", name="greet", tags=["public"])
    server.add_prompt(lambda: "hello", name="debug")
    return server


@pytest.fixture(params=["server", "legacy", "modern"])
def mounted(request):
    """Returns a parent server and the one that it has mounted, in this process or by a client."""
    def mount(**options):
        parent, server = Server("parent"), weather()
        if request.param == "server":
            parent.mount(server, "w", **options)
        else:
            era = mcplite.ClientOptions(era=request.param)
            parent.mount(mcplite.connect(server, options=era), "w", **options)
        return parent, server

    return mount


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_changed_tool_is_listed_and_called_under_its_new_names(mounted, revision):
    parent, server = mounted(change=CHANGE)
    with mcplite.connect(parent, revision=revision) as client:
        tools = {tool.name: tool for tool in client.list_tools()}
        tool = tools["w_forecast"]
        assert tool.description == "What the weather will be." and tool.display_name in ("Outlook", "w_forecast")
        assert list(tool.input_schema["properties"]) == ["place", "notes"] and tool.input_schema["required"] == ["place"]
        result = client.call_tool("w_forecast", {"place": "Rome", "notes": ["a"]})
        assert server.seen == [("Rome", "metric", 3, ["a"])] and not result.is_error
        assert result.data == {"city": "Rome", "units": "metric", "days": 3}
        assert tools["w_reset"].description is None and client.call_tool("w_reset").text == "reset"


@pytest.mark.parametrize("arguments, problem", [
    ({}, "place"), ({"place": 5}, "place: "), ({"place": "Rome", "units": "imperial"}, "units"),
    ({"place": "Rome", "days": 9}, "days"), ({"city": "Rome"}, "city"), ({"place": "Rome", "city": "Oslo"}, "city")])
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_errors_have_the_names_that_the_caller_knows(mounted, revision, arguments, problem):
    parent, server = mounted(change=CHANGE)
    with mcplite.connect(parent, revision=revision) as client:
        try:
            result = client.call_tool("w_forecast", arguments)
            assert result.is_error
            text = result.text
        except InvalidParams as error:
            text = error.message
        assert text.startswith("Invalid arguments for tool w_forecast: ") and problem in text
    assert server.seen == [], "the preset cannot be set by a caller"


def test_the_schema_keeps_only_what_its_names_are_known_in(mounted):
    parent, server = mounted(change=lambda tool: {"rename": {"a": "b"}} if tool.name == "either" else None)
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "c": {}}, "anyOf": [{"required": ["a"]}],
              "dependentRequired": {"c": ["a"]}, "$defs": {"n": {"type": "integer"}}}
    server.add_tool(lambda **given: str(sorted(given)), name="either", input_schema=schema)
    with mcplite.connect(parent) as client:
        wait_until(lambda: any(tool.name == "w_either" for tool in client.list_tools(fresh=True)))
        listed = next(tool for tool in client.list_tools(fresh=True) if tool.name == "w_either").input_schema
        assert listed == {"type": "object", "properties": {"b": {"$ref": "#/$defs/n"}, "c": {}}, "required": [],
                          "additionalProperties": False, "$defs": {"n": {"type": "integer"}}}
        assert client.call_tool("w_either", {"b": 1}).text == "['a']"
        assert client.call_tool("w_either", {"c": 1}).is_error, "the mounted server still checks"


def test_entries_are_chosen_by_their_tags(mounted):
    parent, _ = mounted(tags=["public"])
    with mcplite.connect(parent) as client:
        assert [tool.name for tool in client.list_tools()] == ["w_forecast"]
        assert [one.uri for one in client.list_resources()] == ["weather://stations"]
        assert [one.uri_template for one in client.list_resource_templates()] == ["weather://station/{id}"]
        assert [one.name for one in client.list_prompts()] == ["w_greet"]
        assert client.read_resource("weather://stations").text == "all"
        assert client.read_resource("weather://station/5").text == "5"
        assert client.read_resource("w+weather://stations").text == "all"
        for uri in ("weather://keys", "w+weather://keys", "weather://key/5", "w+weather://key/5"):
            with pytest.raises(RemoteError):
                client.read_resource(uri)
        with pytest.raises(InvalidParams, match="Unknown tool"):
            client.call_tool("w_reset")


def test_names_tags_and_changes_work_together_and_follow_the_list(mounted, caplog):
    names = {"forecast": "outlook", "late": "late"}
    parent, server = mounted(tool=names.get, tags={"public"}, change={"late": {"preset": {"n": 1}}, **CHANGE})
    changes = []
    with mcplite.connect(parent, revision="2025-11-25",
                         options=mcplite.ClientOptions(on_tools_changed=lambda: changes.append(1))) as client:
        assert [tool.name for tool in client.list_tools()] == ["outlook"]
        server.add_tool(lambda n: n, name="late", tags=["public"],
                        input_schema={"type": "object", "properties": {"n": {}}, "required": ["n"]})
        assert wait_until(lambda: changes and len(client.list_tools(fresh=True)) == 2)
        assert client.call_tool("late").text == "1"
        with caplog.at_level(logging.ERROR):
            server.remove_tool("late")
            server.add_tool(lambda: 5, name="late", tags=["public"])
            wait_until(lambda: "it has no argument 'n'" in caplog.text)
        assert wait_until(lambda: [tool.name for tool in client.list_tools(fresh=True)] == ["outlook"])


@pytest.mark.parametrize("change, problem", [
    ({"forecast": {"rename": {"town": "place"}}}, "it has no argument 'town', only 'city', 'units', 'days', 'notes'"),
    ({"forecast": {"hide": ["city"]}}, "give the required argument 'city' a value in 'preset'"),
    ({"forecast": {"rename": {"city": "units"}}}, "two arguments would have the name 'units'"),
    ({"forecast": {"rename": {"city": "x", "units": "x"}}}, "two arguments would have the name 'x'"),
    ({"forecast": {"renames": {}}}, "'renames' is none of 'title', 'description', 'rename', 'preset', 'hide'"),
    ({"forecast": {"title": 5}}, "'title' is of a wrong type: 5"), ({"forecast": {"hide": [5]}}, "are texts"),
    ({"forecast": {"hide": "days"}}, "'hide' is of a wrong type"), ({"forecast": 5}, "give {'tool'"), (5, "give {'tool'"),
    ({"forecast": {"preset": {"units": {1, 2}}}}, "'preset' must be JSON"),
])
def test_changes_that_cannot_be_are_refused(change, problem):
    parent = Server("parent")
    with pytest.raises(RegistrationError) as caught:
        parent.mount(weather(), "w", change=change)
    assert problem in str(caught.value) and parent.registry.all("tools") == {}


def test_tags_that_are_none_are_refused():
    with pytest.raises(RegistrationError, match="mount: tags= takes a list"):
        Server("parent").mount(weather(), "w", tags="public")


TASKS = '''
import mcplite
mcp = mcplite.Server("slow")

@mcp.tool(task="optional")
def work(city: str, units: str) -> str:
    return f"{city} {units}"

mcp.run()
'''


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_a_task_has_the_presets_too(own, tmp_path):
    parent = Server("parent")
    if own:
        other = Server("slow")
        other.add_tool(lambda city, units: f"{city} {units}", name="work", task="optional", input_schema={
            "type": "object", "properties": {"city": {}, "units": {}}, "required": ["city", "units"]})
    else:
        (tmp_path / "slow.py").write_text(TASKS)
        other = mcplite.connect([sys.executable, str(tmp_path / "slow.py")])
    parent.mount(other, "s", change={"work": {"rename": {"city": "place"}, "preset": {"units": "metric"}}})
    with mcplite.connect(parent, revision="2025-11-25") as client:
        client.list_tools()
        assert client.start_tool("s_work", {"place": "Rome"}).result(timeout=30).text == "Rome metric"

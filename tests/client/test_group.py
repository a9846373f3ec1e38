import json
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import mcplite
from mcplite.client import group as group_module
from mcplite.client.call import RequestOptions
from mcplite.client.config import Config, ServerConfig, load_config
from mcplite.client.group import Group, connect_all
from mcplite.errors import ConnectionClosed, InvalidParams, MCPError, ResourceNotFound, TransportError
from tests.client.test_connect import defaults
from tests.support import connecting
from tests.support.fakes import start
from tests.support.webscript import WebScript

LIMIT = 30
ROOT = str(Path(mcplite.__file__).parent.parent)


def weather():
    server = mcplite.Server("weather")

    @server.tool()
    def forecast(city: str) -> str:
        return f"{city}: sun"

    @server.prompt()
    def briefing(city: str) -> str:
        return f"Brief me on {city}."

    @server.resource("config://stations")
    def stations() -> str:
        return "Rome"

    @server.resource("shared://both")
    def both() -> str:
        return "from weather"

    @server.resource("weather://{city}/history")
    def history(city: str) -> str:
        return f"{city} then"

    return server


def git():
    server = mcplite.Server("git")

    @server.tool()
    def status() -> str:
        return "clean"

    @server.tool(name="a.b")
    def dotted() -> str:
        return "dotted"

    @server.prompt()
    def greeting() -> str:
        return "Hello"

    @server.resource("shared://both")
    def both() -> str:
        return "from git"

    return server


def rome():
    server = mcplite.Server("rome")

    @server.tool(name="a__b")
    def underscored() -> str:
        return "underscored"

    return server


def rome_a():
    server = mcplite.Server("rome__a")

    @server.tool()
    def b() -> str:
        return "plain"

    return server


def empty():
    return mcplite.Server("empty")


class Unreachable:
    """A server that cannot be started."""

    def serve_channel(self, channel, **options):
        raise TransportError("no such program")


def configured(*names, disabled=()):
    return Config({name: ServerConfig(name, "stdio", command=name, disabled=name in disabled) for name in names})


@pytest.fixture
def make(monkeypatch):
    """Make groups whose servers run in this process."""
    servers = {"weather": weather, "git": git, "empty": empty, "broken": Unreachable, "git.b": git,
               "git__b": git, "rome": rome, "rome__a": rome_a}
    groups = []

    def connect(server, **options):
        return connecting.connect(servers[server.name](), **options)

    def make(*names, disabled=(), **options):
        group = connecting.connect_all(configured(*names, disabled=disabled), **options)
        groups.append(group)
        return group

    monkeypatch.setattr(group_module, "connect", connect)
    yield make
    for group in groups:
        group.close()


def test_tools_of_all_servers_under_the_name_of_their_server(make):
    with make("weather", "git") as group:
        assert [tool.name for tool in group.list_tools()] == ["weather__forecast", "git__status", "git__a.b"]
        assert group.call_tool("weather__forecast", {"city": "Rome"}).text == "Rome: sun"
        assert group.call_tool("git__status").text == "clean"
        assert group.call_tool("git__a.b", timeout=LIMIT).text == "dotted"


@pytest.mark.slow
def test_a_dot_is_accepted_whatever_the_separator(make):
    for options in ({}, {"separator": "/"}):
        with make("weather", "git", **options) as group:
            assert group.call_tool("weather.forecast", {"city": "Rome"}).text == "Rome: sun"
            assert group.call_tool("git.a.b").text == "dotted"
            assert group.get_prompt("weather.briefing", {"city": "Rome"}).messages


def test_listing_does_not_change_the_clients_objects(make):
    with make("weather") as group:
        (tool,) = group.list_tools()
        assert tool.description == group["weather"].list_tools()[0].description
        assert group["weather"].list_tools()[0].name == "forecast"


def test_an_empty_separator_is_refused(make):
    with pytest.raises(ValueError, match="separator"):
        make("weather", separator="")


def test_prompts(make):
    with make("weather", "git") as group:
        assert [prompt.name for prompt in group.list_prompts()] == ["weather__briefing", "git__greeting"]
        result = group.get_prompt("weather__briefing", {"city": "Rome"})
        assert result.messages[0].content.text == "Brief me on Rome."


def test_resources_keep_their_uris(make):
    with make("weather", "git") as group:
        found = [(resource.name, resource.uri) for resource in group.list_resources()]
        assert ("weather__stations", "config://stations") in found
        assert [uri for _, uri in found].count("shared://both") == 2
        (template,) = group.list_resource_templates()
        assert (template.name, template.uri_template) == ("weather__history", "weather://{city}/history")


def test_a_resource_is_read_from_the_server_that_lists_it_or_has_a_template(make):
    with make("weather", "git") as group:
        assert group.read_resource("config://stations").contents[0].text == "Rome"
        assert group.read_resource("config://stations").contents[0].text == "Rome"
        assert group.read_resource("weather://Rome/history").contents[0].text == "Rome then"
        assert group.read_resource("weather://{city}/history", {"city": "Oslo"}).text == "Oslo then"


def test_a_resource_of_several_servers_needs_the_server(make):
    with make("weather", "git") as group:
        with pytest.raises(MCPError, match="several servers list the resource 'shared://both'.*'weather', 'git'"):
            group.read_resource("shared://both")
        assert group.read_resource("shared://both", server="git").contents[0].text == "from git"
        assert group.read_resource("shared://both", server="weather").contents[0].text == "from weather"


def test_a_resource_of_no_server(make):
    with make("weather", "git") as group:
        with pytest.raises(MCPError, match="no server of this group lists the resource 'x://y'.*'weather', 'git'"):
            group.read_resource("x://y")


def test_the_only_server_is_asked_without_a_search(make):
    with make("weather") as group:
        with pytest.raises(ResourceNotFound):
            group.read_resource("x://y")


def test_a_missing_resource_is_looked_up_again(make):
    with make("weather", "git") as group:
        group.list_resources()
        group._owners = {"config://stations": ["git"]}  # as it was before it moved
        with pytest.raises(ResourceNotFound):
            group.read_resource("config://stations")
        assert group.read_resource("config://stations").contents[0].text == "Rome"


def test_a_template_beyond_our_subset_matches_nothing(make, monkeypatch):
    with make("weather", "git") as group:
        monkeypatch.setattr(group["git"], "list_resource_templates",
                            lambda: [mcplite.types.ResourceTemplate("x://{a}{b}{", "odd")])
        with pytest.raises(MCPError, match="no server of this group"):
            group.read_resource("x://y")


def test_unknown_names(make):
    with make("weather", "git") as group:
        for name in ("forecast", "rome__forecast", "rome.forecast", ""):
            with pytest.raises(MCPError, match=r"no server of this group has a tool .*'weather__', 'git__'"):
                group.call_tool(name)
        with pytest.raises(MCPError, match="no server of this group has a prompt 'x'"):
            group.get_prompt("x")
        with pytest.raises(InvalidParams):
            group.call_tool("git.nothing")
        with pytest.raises(MCPError, match="server 'rome' is not in this group; there is: 'weather', 'git'"):
            group["rome"]


def test_a_name_that_can_be_read_in_two_ways_is_the_listed_one(make):
    with make("git", "git.b", "git__b", "rome") as group:
        assert [tool.name for tool in group.list_tools()] == [
            "git__status", "git__a.b", "git.b__status", "git.b__a.b", "git__b__status", "git__b__a.b", "rome__a__b"]
        for tool in group.list_tools():
            assert group.call_tool(tool.name).text in ("clean", "dotted", "underscored")
        assert group.call_tool("git.b.status").text == "clean"  # not a tool "b.status" of git
        assert group.call_tool("git__b__status").text == "clean"  # not a tool "b__status" of git
        assert group.call_tool("rome__a__b").text == "underscored"
        assert group.call_tool("rome.a__b").text == "underscored"
        assert group.get_prompt("git__b__greeting").messages[0].content.text == "Hello"


def test_ambiguous_names(make):
    with make("rome", "rome__a") as group:
        with pytest.raises(MCPError, match="'rome__a__b' can be one of several servers: 'rome', 'rome__a'; ask group"):
            group.call_tool("rome__a__b")
        with pytest.raises(MCPError, match="'rome__a__x' can be one of several servers"):
            group.call_tool("rome__a__x")
        assert group["rome__a"].call_tool("b").text == "plain"


def test_servers_without_tools_or_resources_are_not_failures(make, caplog):
    with make("empty", "weather") as group:
        assert [tool.name for tool in group.list_tools()] == ["weather__forecast"]
        assert group.list_resource_templates()
    assert [record for record in caplog.records if record.name.endswith("client.group")] == []


def test_one_failure_does_not_stop_the_others(make, caplog):
    with make("weather", "broken", "git") as group:
        assert group.status == {"weather": "open", "broken": "failed", "git": "open"}
        assert list(group.errors) == ["broken"]
        assert "no such program" in str(group.errors["broken"])
        assert "server 'broken' could not be opened" in caplog.text
        assert len(group.list_tools()) == 3
        with pytest.raises(TransportError, match="no such program"):
            group["broken"]
        with pytest.raises(TransportError, match="no such program"):
            group.call_tool("broken.anything")


def test_a_lost_server_is_reported_and_left_out(make, caplog):
    with make("weather", "git") as group:
        group["git"]._opener.session.peer.close(ConnectionClosed("git ended"))
        assert group.status == {"weather": "open", "git": "failed"}
        assert str(group.errors["git"]) == "git ended"
        assert [tool.name for tool in group.list_tools()] == ["weather__forecast"]
    assert group.status == {"weather": "closed", "git": "failed"}


def test_a_server_that_fails_while_it_is_listed_is_left_out(make, monkeypatch, caplog):
    def fail():
        raise ConnectionClosed("gone")

    with make("weather", "git") as group:
        monkeypatch.setattr(group["git"], "list_tools", fail)
        assert [tool.name for tool in group.list_tools()] == ["weather__forecast"]
        assert "server 'git' is left out of the list: 'gone'" in caplog.text


def test_a_group_opens_and_closes(make):
    group = make("weather", "git", disabled=["git"])
    assert group.status == {"weather": "new", "git": "disabled"}
    with pytest.raises(ConnectionClosed, match="not open"):
        group.call_tool("weather.forecast", {"city": "Rome"})
    assert group.list_tools() == []
    assert group.open() is group
    assert group.status == {"weather": "open", "git": "disabled"}
    with pytest.raises(MCPError, match="server 'git' is disabled"):
        group.call_tool("git.status")
    group.close()
    group.close()
    assert group.status == {"weather": "closed", "git": "disabled"}
    assert group.errors == {}


def test_a_group_that_is_open_may_be_entered_and_a_closed_one_is_refused(make):
    with make("weather", "empty").open() as group:
        assert group.errors == {} and len(group.list_tools()) == 1
    with pytest.raises(RuntimeError, match="this group is closed"):
        group.open()
    with pytest.raises(RuntimeError, match="this group is closed"), group:
        pass
    assert group.errors == {}


def test_it_looks_like_a_mapping_of_its_clients(make):
    group = make("weather", "git")
    assert list(group) == ["weather", "git"] and len(group) == 2
    assert "git" in group and "rome" not in group
    assert group["git"].state == "new"
    assert list(group.servers) == ["weather", "git"]


def test_servers_are_opened_at_the_same_time_and_an_interrupt_closes_all(make, monkeypatch):
    group = make("weather", "git")
    opened = threading.Event()
    first = group["weather"].open

    def open_first():
        first()
        opened.set()

    def interrupted():
        assert opened.wait(LIMIT)  # would never come if one were opened after the other
        raise KeyboardInterrupt

    monkeypatch.setattr(group["weather"], "open", open_first)
    monkeypatch.setattr(group["git"], "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.open()
    assert group.status == {"weather": "closed", "git": "closed"}


# --- with processes --------------------------------------------------------------------------------

SERVER = """
import sys
import mcplite

mcp = mcplite.Server(sys.argv[1])

@mcp.tool()
def name() -> str:
    return sys.argv[1]

mcp.run()
"""


def test_a_file_with_real_servers(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    entries = {name: {"command": sys.executable, "args": [str(script), name], "env": {"PYTHONPATH": ROOT}}
               for name in ("one", "two")}
    entries["crashes"] = {"command": sys.executable, "args": ["-c", "raise SystemExit('out of order')"]}
    entries["missing"] = {"command": str(tmp_path / "missing")}
    entries["remote"] = {"url": "http://127.0.0.1:1/mcp"}
    entries["wrong"] = {}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    before = {child.pid for child in psutil.Process().children()}
    group = connect_all(path)
    assert {child.pid for child in psutil.Process().children()} == before, "nothing may start before open()"
    assert group.servers["one"].argv == [sys.executable, str(script), "one"]
    with group:
        assert group.status == {"one": "open", "two": "open", "crashes": "failed", "missing": "failed",
                                "remote": "failed", "wrong": "failed"}
        assert "out of order" in str(group.errors["crashes"])
        assert "there is no file" in str(group.errors["missing"])
        assert "cannot reach http://127.0.0.1:1/mcp" in str(group.errors["remote"])
        assert "needs a 'command'" in str(group.errors["wrong"])
        assert [group.call_tool(tool.name).text for tool in group.list_tools()] == ["one", "two"]
    assert {child.pid for child in psutil.Process().children()} == before


def test_relative_commands_are_warned_about(caplog):
    connect_all({"mcpServers": {"git": {"command": "./git"}}})
    assert "server 'git': command './git' is a relative path" in caplog.text


def test_a_loaded_config_can_be_used():
    config = load_config({"mcpServers": {}})
    with connect_all(config) as group:
        assert len(group) == 0 and group.list_tools() == [] and group.status == {}


def test_a_group_logs_in_to_servers_behind_urls_only():
    # STD-23
    auth = mcplite.OAuth(ask=lambda url: url, redirect_uri="http://127.0.0.1:8765/callback")
    group = mcplite.connect_all({"mcpServers": {"a": {"command": "python"}, "b": {"url": "http://127.0.0.1:9/mcp"}}}, auth=auth)
    assert group.status == {"a": "new", "b": "new"}


def test_the_options_of_connect_all_reach_connect(monkeypatch):
    seen = []
    monkeypatch.setattr(group_module, "connect", lambda server, **options: seen.append(options))
    given = {name: object() for name in defaults(mcplite.connect)}
    given["options"] = mcplite.ClientOptions(cache=False)
    connect_all({"mcpServers": {"here": {"command": "x"}, "there": {"url": "http://127.0.0.1:9/mcp"}}}, **given)
    labelled = seen[0].pop("stderr")
    assert (labelled.target, labelled.label) == (given.pop("stderr"), "here")
    assert seen == [{**given, "auth": None, "headers": None, "session": None},
                    {**given, "stderr": None, "env": None, "cwd": None}]


@pytest.mark.parametrize("server, option", [({"command": "x"}, "headers"), ({"url": "http://127.0.0.1:9/mcp"}, "env")])
def test_an_option_that_suits_no_server_of_a_group_is_an_error(server, option):
    with pytest.raises(TypeError, match=f"{option}: only for"):
        connect_all({"mcpServers": {"one": server}}, **{option: {"X": "1"}})


@pytest.mark.parametrize("call", ["call_tool", "get_prompt", "read_resource"])
def test_the_calls_of_a_group_have_the_options_of_a_clients(call):
    of_group = defaults(getattr(Group, call))
    of_group.pop("server", None)
    assert of_group == defaults(getattr(mcplite.Client, call))
    given = RequestOptions()._asdict()
    del given["spent"]  # which no caller gives
    assert of_group.items() >= given.items()


class Slow(WebScript):
    """A server that does not answer one request."""

    capabilities = {"tools": {}, "resources": {}}

    def on_tools_list(self, request, answer):
        answer.hold()

    def on_resources_list(self, request, answer):
        answer.hold()


@pytest.mark.parametrize("limit", ["timeout", "max_timeout", "cancel"])
@pytest.mark.parametrize("call", [lambda group, **limits: group.call_tool("a__b__c", **limits),
                                  lambda group, **limits: group.read_resource("a://b", **limits)], ids=["tool", "resource"])
@pytest.mark.slow
def test_the_limits_of_a_call_hold_while_the_server_is_searched_for(call, limit):
    with Slow() as slow:
        config = {"mcpServers": {name: {"url": slow.url} for name in ("a", "a__b")}}
        with connect_all(config, timeout=60) as group:
            token = mcplite.CancelToken()
            begun = time.monotonic()
            caller, outcome = start(call, group, **({"cancel": token} if limit == "cancel" else {limit: 0.3}))
            if limit == "cancel":
                time.sleep(0.2)
                token.cancel("enough")
            caller.join(LIMIT)
            assert time.monotonic() - begun < 20
            assert isinstance(outcome[0], mcplite.Cancelled if limit == "cancel" else MCPError)


CHATTY = "import sys; sys.stderr.write('started\\n'); sys.stderr.flush(); sys.stdin.read()"


def chatty(**options):
    """Return the clients of a group of two servers that write to stderr and know no MCP."""
    command = {"command": sys.executable, "args": ["-c", CHATTY]}
    return connecting.connect_all({"mcpServers": {"one": command, "../two": command}}, open_timeout=LIMIT, **options)


def opened_and_ended(group, ready):
    """Open the clients of a group until *ready* is true; they never finish, so closing them ends it."""
    threads = [threading.Thread(target=attempt, args=(client,)) for client in group._clients.values()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + LIMIT
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.01)
    group.close()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


def attempt(client):
    with pytest.raises(MCPError):
        client.open()


def test_the_stderr_of_each_server_is_told_apart():
    lines = []
    opened_and_ended(chatty(stderr=lines.append), lambda: len(lines) >= 2)
    assert {"one: started", "../two: started"} <= set(lines)


def test_the_stderr_of_each_server_may_have_a_file(tmp_path):
    files = [tmp_path / "one.log", tmp_path / "__two.log"]
    opened_and_ended(chatty(stderr=tmp_path / "{name}.log"),
                     lambda: all(file.exists() and file.read_text("utf-8") for file in files))
    assert [file.read_text("utf-8").splitlines()[0] for file in files] == ["started", "started"]
    assert sorted(tmp_path.iterdir()) == sorted(files)

"""Groups of clients and configuration files, whose servers become parts of one."""

import json

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.server import Server
from mcplite.server.program import LoadError, load
from tests.support.children import wait_until


@pytest.fixture
def config():
    """A configuration of two servers over HTTP, one that is disabled, and one whose entry is wrong."""
    notes, sums = Server("notes"), Server("sums")
    notes.add_tool(lambda: "kept", name="keep", description="Keep a note.")
    sums.add_tool(lambda: 3, name="add", description="Add two numbers.")
    with mcplite.serve(notes) as first, mcplite.serve(sums) as second:
        yield {"mcpServers": {"notes": {"url": first.url}, "sums": {"url": second.url},
                              "off": {"command": "x", "disabled": True}, "wrong": {"url": "${NOT_SET_ANYWHERE}"}}}


def names_of(server):
    with mcplite.connect(server) as client:
        return [tool.name for tool in client.list_tools()]


@pytest.mark.parametrize("search", [False, True])
def test_a_configuration_file_is_served_as_one_server(config, tmp_path, caplog, search):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config))
    hub = load(str(file), None, search)
    with mcplite.connect(hub) as client:
        listed = ["search_tools", "describe_tool", "call_tool"] if search else ["notes_keep", "sums_add"]
        assert client.server_info.name == "mine"
        assert wait_until(lambda: sorted(tool.name for tool in client.list_tools()) == sorted(listed))
        if search:
            assert wait_until(lambda: "sums_add: Add two numbers." in client.call_tool(
                "search_tools", {"query": "add numbers"}).text)
            assert client.call_tool("call_tool", {"name": "sums_add"}).text == "3"
        assert client.call_tool("sums_add").text == "3"
    assert "the server 'wrong' is not mounted" in caplog.text and "NOT_SET_ANYWHERE" in caplog.text


def test_a_group_is_mounted_behind_a_prefix_or_not_at_all(config):
    hub = Server("hub")
    hub.mount(mcplite.connect_all(config), "far")
    with mcplite.connect(hub) as client:
        assert wait_until(lambda: [tool.name for tool in client.list_tools()] == ["far_notes_keep", "far_sums_add"])
    taken = Server("taken")
    taken.mount(Server("other"), "sums")
    with pytest.raises(RegistrationError, match="mounted with prefix='sums' already"):
        taken.mount(mcplite.connect_all(config), search=True)
    taken.add_tool(lambda: "own", name="own")
    assert names_of(taken) == ["own"]


@pytest.mark.parametrize("name, content, search, says", [
    ("mcp.json", '{"mcpServers": {"bad": {}}}', False, "server 'bad': needs a 'command' to start"),
    ("none.json", None, True, "there is no configuration file"),
    ("notes.py", "", True, "--search is for a configuration file"),
])
def test_what_cannot_be_served(tmp_path, name, content, search, says):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(LoadError, match=says):
        load(str(tmp_path / name), None, search)

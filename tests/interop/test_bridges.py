"""What stands between our two sides and others: bridges of transports and proxies, and a server that fails at our probe.

Each pair is to work with the default ``connect()``.
"""

import shlex

import pytest

import mcplite
from mcplite.revisions import NEWEST, NEWEST_LEGACY
from tests.support import connecting
from tests.support.processes import free_port

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
#: Seconds; a loaded machine starts node slowly.
LIMIT = 60
GATEWAY = "supergateway/dist/index.js"
PROXY = "import sys; from fastmcp.server import create_proxy; create_proxy(sys.argv[1]).run(show_banner=False)"


def connect(target, **options):
    return connecting.connect(target, open_timeout=LIMIT, timeout=LIMIT, **options)


# --- a bridge in front of an old server: it turns "method not found" into 404 -----------------------------------


@pytest.mark.parametrize("options, path", [
    (["--outputTransport", "streamableHttp"], "mcp"), (["--outputTransport", "streamableHttp", "--stateful"], "mcp"),
    ([], "sse")], ids=["stateless", "stateful", "sse"])
def test_a_bridge_in_front_of_an_old_server(installed, serving, tmp_path, options, path):
    memory = shlex.join(installed.bridge("@modelcontextprotocol/server-memory/dist/index.js"))
    command = [*installed.bridge(GATEWAY, *installed.tells), "--port", "0", "--stdio", memory, *options]
    with serving(command, MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl")) as server, connect(server.url + path) as client:
        assert (client.era, client.protocol_version) == ("legacy", NEWEST_LEGACY.name)
        assert client.server_info.name == "memory-server" and client.server_capabilities.prompts is None
        assert "create_entities" in {tool.name for tool in client.list_tools()}
        ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        client.call_tool("create_entities", {"entities": [ada]}).raise_for_error()
        assert client.call_tool("read_graph").structured_content["entities"] == [ada]
        with pytest.raises(mcplite.errors.NotSupported):
            client.list_prompts()
        client.ping()


# --- a bridge that a client starts: it begins a session of its own, and passes on the handshake of its client -------


@pytest.mark.parametrize("transport, path", [("streamableHttp", "mcp"), ("sse", "sse")])
def test_a_bridge_to_our_server(installed, everything_served, transport, path):
    command = installed.bridge(GATEWAY)
    with everything_served() as server:
        url = server.url.rpartition("/")[0] + "/" + path
        with connect([*command, f"--{transport}", url], elicitation_handler=lambda request: False) as client:
            assert (client.era, client.server_info.name) == ("legacy", "everything")
            assert {"add", "who"} <= {tool.name for tool in client.list_tools()}
            assert client.call_tool("add", {"a": 41}).structured_content == {"result": 42}
            assert client.call_tool("who").structured_content["elicit"] is True, "it knows our client, not the bridge"
            assert client.get_prompt("briefing", {"city": "Rome"}).messages
            client.ping()
        assert server.leave() == 0, server.output


@pytest.mark.parametrize("transport, path", [("streamableHttp", "mcp"), ("sse", "sse")])
def test_a_bridge_to_a_server_that_is_initialized_once(installed, serving, transport, path):
    # It refuses the second handshake, so our client starts the bridge again.
    server = [*installed.node("server-everything", *installed.tells), transport]
    with serving(server, PORT="0") as server:
        with connect([*installed.bridge(GATEWAY), f"--{transport}", server.url + path]) as client:
            assert (client.era, client.server_info.name) == ("legacy", "mcp-servers/everything")
            assert "42" in client.call_tool("get-sum", {"a": 40, "b": 2}).text
            assert {"echo", "get-sum"} <= {tool.name for tool in client.list_tools()}


# --- a server that fails at our probe ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_that_fails_at_an_unknown_request(installed, serving, transport):
    program = "@cyanheads/git-mcp-server/dist/index.js"

    def use(target):
        with connect(target) as client:
            assert (client.era, client.server_info.name) == ("legacy", "@cyanheads/git-mcp-server")
            assert "git_status" in {tool.name for tool in client.list_tools()}
            prompt, = client.list_prompts()
            assert client.get_prompt(prompt.name).messages, "it requires an object of arguments"

    if transport == "stdio":
        use(installed.bridge(program))
        return
    port = free_port()
    environment = {"MCP_TRANSPORT_TYPE": "http", "MCP_HTTP_PORT": str(port), "MCP_HTTP_HOST": "127.0.0.1"}
    with serving(installed.bridge(program), **environment):
        use(f"http://127.0.0.1:{port}/mcp")


# --- the proxy of FastMCP -------------------------------------------------------------------------------------------------


def test_the_proxy_of_fastmcp(installed, everything_served):
    with everything_served() as server:
        with connect([installed.python("fastmcp4"), "-c", PROXY, server.url]) as client:
            assert client.protocol_version == NEWEST.name
            tools = {tool.name: tool for tool in client.list_tools()}
            assert tools["add"].output_schema["properties"]["result"]["type"] == "integer"
            # It refuses structured results that are no objects.
            assert client.call_tool("add", {"a": 41}).raise_for_error().structured_content == {"result": 42}
            days = client.call_tool("forecast", {"city": "Rome"}).raise_for_error().structured_content["result"]
            assert [day["date"] for day in days] == ["Rome 0", "Rome 1"]
            assert client.call_tool("point").raise_for_error().structured_content == {"x": 3, "y": 4}
        assert server.leave() == 0, server.output

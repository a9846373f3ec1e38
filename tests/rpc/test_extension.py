"""Extension: a real one over memory, stdio and HTTP in each revision, and what is refused when one is registered."""

import contextlib
import json
import queue
import sys
from pathlib import Path

import pytest
import requests

import mcplite
from mcplite.errors import HeaderMismatch, InvalidParams, NotSupported, ProtocolError, RegistrationError, RemoteError
from mcplite.extend import Extension, ListenKind
from mcplite.revisions import JULY_2026, REVISIONS
from tests.support import charts
from tests.support.charts import CHANGED, NAME, Charts, ChartsClient

pytestmark = pytest.mark.bad_wire  # an extension sends what the official schemas do not have
LIMIT = 30
NAMES = [revision.name for revision in REVISIONS]
TRANSPORTS = ["memory", "stdio", "http"]


@contextlib.contextmanager
def target(transport):
    """A server with the extension; gives what a client connects to."""
    if transport == "stdio":
        yield [sys.executable, charts.__file__]
        return
    mcp, _ = charts.make()
    try:
        if transport == "memory":
            yield mcp
        else:
            with mcplite.serve(mcp) as served:
                yield served.url
    finally:
        mcp.close()


def options(transport):
    """What lets a child process find this package."""
    return {"env": {"PYTHONPATH": str(Path(charts.__file__).parent.parent.parent)}} if transport == "stdio" else {}


@contextlib.contextmanager
def pair(transport, revision, extension=None):
    """A client of a server with the extension, over a transport; with an extension of its own, or without."""
    with target(transport) as server:
        given = None if extension is None else [extension]
        with mcplite.connect(server, revision=revision, extensions=given, **options(transport)) as client:
            yield client


@pytest.mark.parametrize("revision", NAMES)
@pytest.mark.parametrize("transport", TRANSPORTS)
class TestBothSides:
    def test_each_part_works(self, transport, revision):
        own = ChartsClient()
        with pair(transport, revision, own) as client:
            modern = client.revision.modern
            assert client.server_capabilities.extensions[NAME] == {"formats": ["svg"]}
            answer = client.request("charts/render", {"chart": "Größe ∞"})
            assert answer["svg"] == "<svg>Größe ∞</svg>" and answer["client"] == {"size": 3}
            assert own.got.get(timeout=LIMIT)["done"] == 1
            with pytest.raises(InvalidParams, match="params.chart"):
                client.request("charts/render", {})
            result = client.call_tool("add", {"a": 1, "b": 2})
            assert result.text == "3" and result.meta["com.example/tool"] == "add"
            assert result.meta["com.example/revision"] == revision
            tools = {tool.name: tool for tool in client.list_tools()}
            assert tools["for_charts"].meta == {"com.example/chart": True} and tools["add"].meta is None
            if not modern:
                client.notify("notifications/charts/shown", {"chart": "a"})
                assert client.request("charts/ask", {"chart": "b"}) == {"confirmed": "b", "era": "legacy"}
                assert client.request("charts/old") == {}
                return
            with pytest.raises(RemoteError, match="Method not found"):
                client.request("charts/old")
            with pytest.raises(RemoteError, match="Internal error"):  # the handler cannot reach the client
                client.request("charts/ask", {"chart": "b"})

    def test_a_result_of_another_type(self, transport, revision):
        with pair(transport, revision, ChartsClient(chart=True)) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "<svg>add</svg>"

    def test_a_client_without_it(self, transport, revision):
        with pair(transport, revision) as client:
            assert [tool.name for tool in client.list_tools()] == ["add"]
            if client.revision.modern and transport == "http":
                with pytest.raises(HeaderMismatch, match="Mcp-Name is missing"):
                    client.request("charts/render", {"chart": "a"})
            else:
                assert client.request("charts/render", {"chart": "a"})["client"] is None
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            request = {"name": "add", "arguments": {}, "com.example/chart": True}
            if client.revision.modern:
                with pytest.raises(ProtocolError, match="unknown type 'chart'"):
                    client.request("tools/call", request)
            else:
                assert client.request("tools/call", request)["svg"] == "<svg>add</svg>"

    def test_changes_that_clients_listen_to(self, transport, revision):
        with pair(transport, revision, ChartsClient()) as client:
            came = queue.Queue()
            if not client.revision.modern:
                with pytest.raises(NotSupported, match="client.on"):
                    client.follow({"charts": ["a"]}, came.put)
                return
            with client.follow({"charts": ["a", "secret"]}, lambda method, params: came.put((method, params))):
                client.request("charts/redraw", {"chart": "secret"})
                client.request("charts/redraw", {"chart": "a"})
                method, params = came.get(timeout=LIMIT)
                assert method == CHANGED and params["chart"] == "a" and params["drawn"] == 1
            with pytest.raises(NotSupported, match="'maps'"):
                client.follow({"maps": ["a"]}, print)
            with pytest.raises(InvalidParams, match="must be a list of charts"):
                client.follow({"charts": "a"}, print)


@pytest.mark.parametrize("revision", NAMES)
def test_both_sides_are_told_of_the_beginning_and_the_end(revision):
    mcp, server = charts.make()
    own = ChartsClient()
    with mcplite.connect(mcp, revision=revision, extensions=[own]) as client:
        client.notify("notifications/charts/shown", {"chart": "a"})
        assert client.request("charts/render", {"chart": "a"})
        assert server.events == ["attach", "start"] and own.events == ["attach", "start"]
    mcp.close()
    assert sorted(server.events[2:]) == ["close", "stop"] and own.events == ["attach", "start", "stop"]


def post(url, method, params, **headers):
    meta = {"io.modelcontextprotocol/protocolVersion": JULY_2026.name, "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return requests.post(url, data=json.dumps(body), timeout=LIMIT, headers={
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Method": method,
        "MCP-Protocol-Version": JULY_2026.name, **headers})


@pytest.mark.parametrize("headers, status", [
    ({"Mcp-Name": "a"}, 200), ({}, 400), ({"Mcp-Name": "b"}, 400), ({"Mcp-Name": "=?base64?YQ==?="}, 200),
])
def test_the_header_mcp_name_repeats_the_member_that_the_extension_names(headers, status):
    with target("http") as url:
        assert post(url, "charts/render", {"chart": "a"}, **headers).status_code == status


def test_a_method_that_does_not_exist_for_a_revision_is_404():
    with target("http") as url:
        assert post(url, "charts/old", {}).status_code == 404


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_capabilities_beside_those_of_the_protocol(revision):
    mcp, _ = charts.make()
    catalog = mcp.runtime.catalog
    for identified in (False, True):
        described = (catalog.discover(revision, identified) if revision.modern
                     else catalog.describe(revision, identified=identified))
        assert described["capabilities"]["charts"] == {"identified": identified}
        assert described["capabilities"]["extensions"] == {NAME: {"formats": ["svg"]}}


# --- what is refused ----------------------------------------------------------------------------------


def extension(identifier="com.example/other", methods=(), notifications=(), members=(), settings=None):
    class Other(Extension):
        pass

    made = Other()
    made.identifier, made.settings = identifier, {} if settings is None else settings
    made.methods = lambda: dict.fromkeys(methods, print)
    made.notifications = lambda: dict.fromkeys(notifications, print)
    made.listens = lambda: [ListenKind(member, f"notifications/{member}", print, print) for member in members]
    return made


@pytest.mark.parametrize("given, words", [
    (dict(identifier=NAME), ["identifier", NAME, "Charts", "Other"]),
    (dict(methods=["charts/render"]), ["charts/render", "com.example/other", NAME]),
    (dict(methods=["tools/call"]), ["tools/call", "com.example/other", "the protocol"]),
    (dict(methods=["initialize"]), ["initialize", "the protocol"]),
    (dict(methods=["server/discover"]), ["server/discover", "the protocol"]),
    (dict(methods=["own/method"]), ["own/method", "com.example/other", "Server.add_method()"]),
    (dict(methods=[""]), ["''", "com.example/other"]),
    (dict(methods=[7]), ["7", "com.example/other"]),
    (dict(notifications=["notifications/charts/shown"]), ["notifications/charts/shown", NAME]),
    (dict(notifications=["notifications/cancelled"]), ["notifications/cancelled", "the protocol"]),
    (dict(members=["charts"]), ["charts", "com.example/other"]),
    (dict(members=["resourceSubscriptions"]), ["resourceSubscriptions", "the protocol"]),
    (dict(members=["toolsListChanged"]), ["toolsListChanged", "the protocol"]),
])
def test_a_server_refuses_what_is_there_already(given, words):
    mcp, _ = charts.make()
    mcp.add_method("own/method", print)
    with pytest.raises(RegistrationError) as caught:
        mcp.runtime.add_extension(extension(**given))
    assert all(word in str(caught.value) for word in words), caught.value
    mcp.runtime.add_extension(extension(methods=["other/method"]))  # the one that was refused has added nothing
    mcp.close()


@pytest.mark.parametrize("register, name", [
    (mcplite.Server.add_method, "charts/render"), (mcplite.Server.add_notification, "notifications/charts/shown"),
])
def test_what_an_extension_has_is_not_replaced(register, name):
    mcp, _ = charts.make()
    with pytest.raises(RegistrationError, match=f"{name}.*{NAME}"):
        register(mcp, name, print)


@pytest.mark.parametrize("given, words", [
    ([Charts], ["Charts()"]), (Charts(), ["a list of objects"]), ("charts", ["a list of objects"]), ([None], ["None"]),
    ([extension("charts")], ["a prefix", "charts"]), ([extension("")], ["a prefix"]), ([Extension()], ["a prefix"]),
    ([extension(settings=[])], ["must be an object"]), ({"charts": {}}, ["a prefix"]), ({NAME: None}, ["must be an object"]),
    ([Charts(), Charts()], [NAME, "once"]), ([{NAME: {}}], [NAME]), (7, ["a list of objects"]),
])
@pytest.mark.parametrize("side", ["server", "client"])
def test_what_are_no_extensions(side, given, words):
    with pytest.raises((RegistrationError, TypeError, ValueError)) as caught:
        if side == "server":
            mcplite.Server("x", extensions=given)
        else:
            mcplite.connect(mcplite.Server("x"), extensions=given)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("given, words", [
    (dict(methods=["charts/confirm"]), ["charts/confirm", "com.example/other", NAME]),
    (dict(methods=["sampling/createMessage"]), ["sampling/createMessage", "the protocol"]),
    (dict(notifications=["notifications/message"]), ["notifications/message", "the protocol"]),
    (dict(notifications=["notifications/charts/progress"]), ["notifications/charts/progress", NAME]),
])
def test_a_client_refuses_what_is_there_already(given, words):
    with pytest.raises(RegistrationError) as caught:
        mcplite.connect(mcplite.Server("x"), extensions=[ChartsClient(), extension(**given)])
    assert all(word in str(caught.value) for word in words), caught.value


def test_what_an_extension_of_a_client_takes_is_not_replaced():
    client = mcplite.connect(mcplite.Server("x"), extensions=[ChartsClient()])
    with pytest.raises(RegistrationError, match=f"charts/confirm.*{NAME}"):
        client.on("charts/confirm", print)
    client.on("charts/other", print)


@pytest.mark.parametrize("result", [None, "text", 7, ["a"]])
@pytest.mark.parametrize("revision", NAMES)
def test_a_hook_that_returns_no_result(revision, result):
    class Broken(Extension):
        identifier = "com.example/broken"

        def handle_tool(self, context, entry, proceed):
            return result

    mcp = mcplite.Server("x", extensions=[Broken()])
    mcp.add_tool(lambda: "a", name="a", structured_output=False)
    with mcplite.connect(mcp, revision=revision) as client, pytest.raises(RemoteError, match="Internal error"):
        client.call_tool("a")


@pytest.mark.parametrize("revision", NAMES)
def test_hooks_are_around_each_other_and_around_mounted_tools(revision):
    class Noted(Extension):
        def __init__(self, name):
            self.identifier, self.name = f"com.example/{name}", name

        def handle_tool(self, context, entry, proceed):
            result = proceed()
            result["content"].append({"type": "text", "text": f"{self.name} {entry.name}"})
            return result

    inner = mcplite.Server("inner", extensions=[Noted("inner")])
    inner.add_tool(lambda: "a", name="a", structured_output=False)
    hub = mcplite.Server("hub", extensions=[Noted("first"), Noted("second")])
    hub.mount(inner, "in")
    with mcplite.connect(hub, revision=revision) as client:
        texts = [block.text for block in client.call_tool("in_a").content]
    assert texts == ["a", "inner a", "second in_a", "first in_a"]

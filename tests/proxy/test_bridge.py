"""A bridge: a server that is another one.

The lists of a bridge: in pages of the size that the server behind it has, and with its hints.

The only client of a bridge on stdio, which a server with a handshake sees as its own.
"""

import json
import threading

import pytest

import mcplite
from mcplite.proxy.bridge import client_of_handshake, open_bridge
from mcplite.types import Implementation
from tests.support import connecting


def notes(**options):
    server = connecting.new_server("notes", version="7", title="Notes", instructions="Write things down.", **options)

    @server.tool(name="note.add")
    def add(text: str, ctx: mcplite.Context) -> str:
        return f"{text}: {ctx.elicit('Keep it?').action}"

    return server


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_bridge_is_the_server_behind_it(upstream, downstream, shared):
    with open_bridge(mcplite.connect(notes(), options=mcplite.ClientOptions(era=upstream)), shared=shared) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era=downstream),
                             elicitation_handler=lambda request: True) as client:
            info = client.server_info
            assert (info.name, info.version, info.title) == ("notes", "7", "Notes")
            assert client.instructions == "Write things down."
            assert [tool.name for tool in client.list_tools()] == ["note.add"], "names stay as they are"
            assert client.server_capabilities.prompts is None and client.server_capabilities.resources is None
            assert client.call_tool("note.add", {"text": "milk"}).data == "milk: accept"


def test_a_bridge_declares_what_the_server_declares():
    server = notes(capabilities={"resources": {"subscribe": False}, "logging": False})
    with open_bridge(mcplite.connect(server, options=mcplite.ClientOptions(era="legacy")), shared=True) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era="legacy")) as client:
            declared = client.server_capabilities
            assert declared.logging is None and not (declared.resources or {}).get("subscribe")


def test_a_server_that_cannot_be_reached(caplog):
    with pytest.raises(mcplite.TransportError, match="there is no program|No such file|not found|cannot"):
        with open_bridge(mcplite.connect(["/no/such/program"]), shared=True):
            pytest.fail("there is nothing to bridge")
    assert caplog.text == ""


def letters(**options):
    server = connecting.new_server("letters", **options)
    for name in "abcde":
        server.add_tool(lambda: "x", name=name)
    return server


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_list_comes_in_the_pages_of_the_server(upstream, downstream):
    with open_bridge(mcplite.connect(letters(page_size=2), options=mcplite.ClientOptions(era=upstream)), shared=True) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era=downstream)) as client:
            first = client.list_tools_page()
            second = client.list_tools_page(first.next_cursor)
            assert [tool.name for tool in first.tools + second.tools] == list("abcd") and second.next_cursor
            assert [tool.name for tool in client.list_tools()] == list("abcde")


def test_hints_are_those_of_the_server():
    hints = {"tools": mcplite.CacheHint(60, "public"), "discover": mcplite.CacheHint(30)}
    with open_bridge(mcplite.connect(letters(cache_lists=hints), options=mcplite.ClientOptions(era="modern")),
                     shared=True) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era="modern")) as client:
            page = client.list_tools_page()
            assert (page.ttl_ms, page.cache_scope) == (60_000, "public")
            discovered = client.request("server/discover")
            assert (discovered["ttlMs"], discovered["cacheScope"]) == (30_000, "private")


def test_clients_get_one_notification_of_changed_resources():
    server = letters()
    server.add_resource("x://one", lambda: "x", name="one")
    server.add_resource("x://{name}", lambda name: name, name="template")
    with open_bridge(mcplite.connect(server, options=mcplite.ClientOptions(era="modern")), shared=True) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era="modern", cache=False)) as client:
            with client.listen(resource_list=True, tools=True) as changes:
                server.add_resource("x://two", lambda: "x", name="two")
                assert changes.get(30) == mcplite.ResourcesChanged()
                server.add_tool(lambda: "x", name="f")
                assert changes.get(30) == mcplite.ToolsChanged(), "and not the resources again"


def test_the_context_of_a_completion_is_left_out_for_a_server_that_does_not_know_it():
    server = letters()
    filled = []

    @server.prompt()
    def letter(name: str, to: str) -> str:
        return name

    @server.completion(prompt="letter", argument="name")
    def complete(value: str, given: dict) -> list:
        filled.append(given)
        return ["Ada"]

    for revision, expected in (("2025-03-26", {}), ("2025-06-18", {"to": "Eve"})):
        with open_bridge(mcplite.connect(server, revision=revision), shared=True) as bridge:
            with mcplite.connect(bridge, options=mcplite.ClientOptions(era="modern")) as client:
                found = client.complete(prompt="letter", argument="name", value="A", context={"to": "Eve"})
                assert found.values == ["Ada"] and filled.pop() == expected


LIMIT = 30


def first_message(capabilities, **params):
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "one", "version": "3"},
              **params}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode() + b"\n{"


def test_the_client_is_read_from_its_first_message():
    extensions = {"io.modelcontextprotocol/ui": {}, "a.b/c": {}}
    only = client_of_handshake(b"\n" + first_message({"roots": {}, "tasks": {"list": {}}, "extensions": extensions}))
    assert (only.info.name, only.info.version) == ("one", "3")
    assert only.capabilities.roots == {} and only.capabilities.elicitation is None
    assert only.capabilities.tasks is None, "questions are passed on as ordinary ones"
    assert only.capabilities.extensions == {"a.b/c": {}}, "the protocol's own change how results come"


@pytest.mark.parametrize("received", [
    b"", b"\n", b"no JSON\n", b"[]\n", b'{"method": "server/discover"}\n', b'{"method": "initialize"}\n',
    first_message({}, clientInfo="one"), first_message(5), b"[" * 100_000])
def test_other_messages_describe_no_client(received):
    assert client_of_handshake(received) is None


def test_the_server_sees_the_client_and_asks_it_outside_of_calls_too():
    server = mcplite.Server("behind")
    changed = threading.Event()

    @server.tool()
    def who(ctx: mcplite.Context) -> list:
        return [ctx.client_info.name, ctx.can_elicit, ctx.can_sample, [root.uri for root in ctx.list_roots()]]

    server.runtime.followers.append(lambda session, roots: changed.set() if roots else None)
    roots = ["file:///one"]
    only = client_of_handshake(first_message({"roots": {"listChanged": True}}))
    with open_bridge(mcplite.connect(server, options=mcplite.ClientOptions(era="legacy")), shared=True, only=only) as bridge:
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era="legacy", client_info=Implementation("one", "3")),
                             roots=lambda: roots) as client:
            assert json.loads(client.call_tool("who").text) == ["one", False, False, ["file:///one"]]
            roots[:] = ["file:///two"]
            client.notify("notifications/roots/list_changed")
            assert changed.wait(LIMIT)
            assert json.loads(client.call_tool("who").text)[3] == ["file:///two"]


def test_a_question_before_the_handshake_of_the_client_waits_for_it():
    server = mcplite.Server("behind")
    answers = []
    answered = threading.Event()

    def ask(session):
        # As a server does that asks for the roots as soon as it is initialized.
        def run():
            from mcplite.server.handling.questions import ListRoots

            answers.append([root.uri for root in session.ask(ListRoots())])
            answered.set()

        threading.Thread(target=run).start()

    server.runtime.greeters.append(ask)
    only = client_of_handshake(first_message({"roots": {}}))
    with open_bridge(mcplite.connect(server, options=mcplite.ClientOptions(era="legacy")), shared=True, only=only) as bridge:
        assert not answered.is_set()
        with mcplite.connect(bridge, options=mcplite.ClientOptions(era="legacy"), roots=["file:///one"]):
            assert answered.wait(LIMIT)
    assert answers == [["file:///one"]]

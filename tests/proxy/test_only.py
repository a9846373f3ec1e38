"""The only client of a bridge on stdio, which a server with a handshake sees as its own."""

import json
import threading

import pytest

import mcplite
from mcplite.proxy.bridge import open_bridge
from mcplite.proxy.only import client_of_handshake
from mcplite.types import Implementation

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
    with open_bridge(mcplite.connect(server, era="legacy"), shared=True, only=only) as bridge:
        with mcplite.connect(bridge, era="legacy", client_info=Implementation("one", "3"), roots=lambda: roots) as client:
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
    with open_bridge(mcplite.connect(server, era="legacy"), shared=True, only=only) as bridge:
        assert not answered.is_set()
        with mcplite.connect(bridge, era="legacy", roots=["file:///one"]):
            assert answered.wait(LIMIT)
    assert answers == [["file:///one"]]

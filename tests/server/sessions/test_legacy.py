"""A session of the handshake era: its beginning, what it admits, batches, cancellation, its end."""

import threading

import pytest

from mcplite.errors import INVALID_REQUEST
from mcplite.protocol.jsonrpc import memory_size
from mcplite.revisions import LEGACY
from mcplite.server import Context, Server, ServerOptions
from mcplite.server.sessions.legacy import LegacySession
from mcplite.types import ClientCapabilities, Implementation
from tests.support.tight import tight

NAMES = [revision.name for revision in LEGACY]


@pytest.mark.parametrize("offered", ["1999-01-01", "2099-01-01", "", "2026-07-28"])
def test_unknown_revisions_are_answered_with_the_newest_with_a_handshake(connect, server, offered):
    client = connect(server, revision=None)
    assert client.initialize(offered)["protocolVersion"] == NAMES[-1]


@pytest.mark.parametrize("params", [
    None, {}, {"protocolVersion": 1, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}},
    {"protocolVersion": "2025-11-25", "capabilities": [1], "clientInfo": {"name": "x", "version": "1"}},
    {"protocolVersion": "2025-11-25", "capabilities": {}},
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"version": "1"}},
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": 1, "version": "1"}},
])
def test_a_malformed_handshake_is_refused_and_can_be_repeated(connect, server, params):
    client = connect(server, revision=None)
    assert client.error("initialize", params)["code"] == -32602
    client.initialize()
    assert client.result("ping") == {}


def test_before_the_handshake_only_ping_is_answered(connect, server):
    client = connect(server, revision=None)
    assert client.result("ping") == {}
    assert client.error("tools/list")["code"] == -32600
    client.initialize()
    assert client.result("ping") == {}


def handshake(name, revision=NAMES[-1], **capabilities):
    return {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": name, "version": "1"}}


def test_a_second_handshake_starts_the_session_over(connect, server):
    # A bridge may make a handshake of its own and pass on its client's; and it may have several clients.
    seen = []

    @server.tool()
    def look(ctx: Context) -> list:
        ctx.debug("looking")
        seen.append((ctx.session.client_info.name, ctx.can_elicit, [root.uri for root in ctx.list_roots()]))
        return []

    server.add_resource("note://one", lambda: "1", name="note")
    client = connect(server, revision=None)
    client.result("initialize", handshake("bridge", NAMES[1], roots={}))
    client.notify("notifications/initialized")
    client.result("logging/setLevel", {"level": "debug"})
    client.result("resources/subscribe", {"uri": "note://one"})

    def look_with_roots(uri):
        id = client.start("tools/call", {"name": "look"})
        asked = client.request_from_server()
        assert asked["method"] == "roots/list"
        client.respond(asked, {"roots": [{"uri": uri}]})
        client.answer(id)

    look_with_roots("file:///one")
    assert [message["params"]["data"] for message in client.others] == ["looking"]
    client.others.clear()

    result = client.result("initialize", handshake("client", NAMES[3], roots={}, elicitation={}))
    assert result["protocolVersion"] == NAMES[3]
    server.add_tool(lambda: 1, name="new")  # the handshake is not complete, so the client is told nothing
    assert client.result("ping") == {} and client.others == []
    client.notify("notifications/initialized")
    server.resource_updated("note://one")
    look_with_roots("file:///two")
    assert client.others == [], "the log level and the subscription are those of the client before"
    assert seen == [("bridge", False, ["file:///one"]), ("client", True, ["file:///two"])]
    assert len(server.sessions) == 1
    client.result("resources/subscribe", {"uri": "note://one"})
    server.resource_updated("note://one")
    assert client.receive()["params"] == {"uri": "note://one"}


def test_a_request_in_progress_is_answered_after_a_second_handshake(connect, server):
    inside, go = threading.Event(), threading.Event()

    @server.tool()
    def slow() -> str:
        inside.set()
        assert go.wait(20)
        return "done"

    client = connect(server)
    id = client.start("tools/call", {"name": "slow"})
    assert inside.wait(20)
    client.initialize()
    go.set()
    assert client.answer(id)["result"]["content"][0]["text"] == "done"


def test_a_second_handshake_that_is_refused_changes_nothing(connect, server):
    client = connect(server, NAMES[2])
    client.result("logging/setLevel", {"level": "error"})
    session, = server.sessions
    for params in ({}, {**handshake("x"), "capabilities": None}):
        assert client.error("initialize", params)["code"] == -32602
    assert session.initialized and session.revision.name == NAMES[2] and session.client_info.name == "raw"
    assert session.wants_log("error") and not session.wants_log("info")


def test_an_empty_server_declares_nothing(connect, server):
    client = connect(server, revision=None)
    assert set(client.initialize()["capabilities"]) == {"logging"}
    for method in ("tools/list", "resources/list", "prompts/list", "completion/complete", "foo/bar", "__class__",
                   "notifications/initialized", "server/discover"):
        assert client.error(method, {})["code"] == -32601


def test_capabilities_are_declared_in_the_form_of_the_revision(connect):
    def complete(value):
        return []

    server = Server("full", title="Full", description="d", website_url="https://example.com", instructions="Use it.",
                    icons=[{"src": "https://example.com/i.png"}], options=ServerOptions(experimental={"x": {"y": 1}}))
    server.add_tool(lambda: None, name="tool")
    server.add_prompt(lambda: "x", name="prompt")
    server.add_resource("a://b", lambda: "x", name="resource")
    server.completion(prompt="prompt", argument="a")(complete)
    seen = {}
    for name in NAMES:
        result = connect(server, revision=None).initialize(name)
        seen[name] = result
        assert result["instructions"] == "Use it."
        assert result["capabilities"]["experimental"] == {"x": {"y": 1}}
        assert result["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
        assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "completions" not in seen[NAMES[0]]["capabilities"]
    assert "completions" in seen[NAMES[1]]["capabilities"]
    assert "title" not in seen[NAMES[1]]["serverInfo"] and seen[NAMES[2]]["serverInfo"]["title"] == "Full"
    assert "icons" not in seen[NAMES[2]]["serverInfo"]
    assert seen[NAMES[3]]["serverInfo"]["websiteUrl"] == "https://example.com"


@pytest.mark.parametrize("line, code", [
    (b"{", -32700), (b"\xff", -32700), (b'{"a":NaN}', -32700), (b"[" * 1000, -32700), (b"3", -32600),
    (b'{"id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}', -32600),
])
def test_invalid_messages_are_answered_with_errors(connect, server, line, code):
    client = connect(server)
    client.send(line)
    answer = client.receive()
    assert answer["error"]["code"] == code
    assert client.result("ping") == {}


def test_an_unreadable_id_is_null_or_left_out_by_revision(connect, server):
    for name in NAMES:
        client = connect(server, name)
        client.send(b"{")
        answer = client.receive()
        assert ("id" in answer) == (name != NAMES[-1])
        assert answer.get("id") is None


def test_notifications_are_never_answered(connect, server):
    client = connect(server)
    client.notify("notifications/unknown")
    client.notify("notifications/cancelled")
    for id in (None, True, 1.5, {}, [], "nobody", 99):
        client.notify("notifications/cancelled", {"requestId": id, "reason": 7})
    client.notify("notifications/progress", {"progressToken": "x", "progress": 1})
    client.notify("tools/list")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]})
    client.send({"jsonrpc": "2.0", "id": 77, "result": {}})
    client.send({"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "x"}})
    client.send({"jsonrpc": "2.0", "id": 79, "result": {}, "error": {}})
    assert client.result("ping") == {}
    assert client.others == []


@pytest.mark.parametrize("id", [0, -1, 7, "7", "", "\u2028", 2 ** 53 + 1])
def test_responses_have_the_ids_of_their_requests(connect, server, id):
    client = connect(server)
    client.start("ping", id=id)
    answer = client.receive()
    assert answer["id"] == id and type(answer["id"]) is type(id)


def test_ids_of_different_types_are_different(connect, server):
    go = threading.Event()

    @server.tool()
    def slow(text: str) -> str:
        go.wait(20)
        return text

    client = connect(server)
    client.start("tools/call", {"name": "slow", "arguments": {"text": "number"}}, id=1)
    client.start("tools/call", {"name": "slow", "arguments": {"text": "text"}}, id="1")
    go.set()
    answers = {type(answer["id"]): answer["result"]["content"][0]["text"]
               for answer in (client.receive(), client.receive())}
    assert answers == {int: "number", str: "text"}


@pytest.mark.bad_wire
def test_a_duplicate_id_is_refused_and_the_first_call_continues(connect, server):
    go, inside = threading.Event(), threading.Event()

    @server.tool()
    def slow() -> str:
        inside.set()
        go.wait(20)
        return "done"

    client = connect(server)
    client.start("tools/call", {"name": "slow"}, id="x")
    assert inside.wait(20)
    client.start("tools/call", {"name": "slow"}, id="x")
    assert client.receive()["error"]["code"] == -32600
    go.set()
    assert client.receive()["result"]["content"][0]["text"] == "done"


def test_batches_are_answered_only_where_they_exist(connect, server):
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
             {"jsonrpc": "2.0", "id": 2, "method": "nope"}, 3]
    for name in NAMES:
        client = connect(server, name)
        client.send(batch)
        answer = client.receive()
        if name == "2025-03-26":
            assert sorted((item.get("id") or 0, "result" in item) for item in answer) == [(0, False), (1, True), (2, False)]
            client.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
            client.send([])
            assert client.receive()["error"]["code"] == -32600
            client.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake("x")}])
            assert client.receive()[0]["error"]["code"] == -32600
        else:
            assert answer["error"]["code"] == -32600 and answer.get("id") is None
        assert client.result("ping") == {}


def test_too_many_calls_are_refused_as_busy(connect):
    from mcplite.server import Limits

    server, go, inside = Server("busy", limits=Limits(running=1, queued=1)), threading.Event(), threading.Event()

    @server.tool()
    def slow() -> str:
        inside.set()
        go.wait(20)
        return "slow"

    client = connect(server)
    first = client.start("tools/call", {"name": "slow"})
    assert inside.wait(20)
    second = client.start("tools/call", {"name": "slow"})
    third = client.start("tools/call", {"name": "slow"})
    assert client.answer(third)["error"]["code"] == -31001
    go.set()
    for id in (first, second):
        assert "result" in client.answer(id)


def test_custom_methods_and_notifications(connect, server):
    heard = threading.Event()

    @server.method("acme/add")
    def add(params, ctx):
        return {"sum": params["a"] + params["b"], "id": ctx.request_id}

    server.add_method("acme/nothing", lambda params, ctx: None)
    server.add_method("acme/broken", lambda params, ctx: 1 / 0)
    server.add_notification("acme/heard", lambda params, session: heard.set())
    client = connect(server)
    assert client.result("acme/add", {"a": 1, "b": 2})["sum"] == 3
    assert client.result("acme/nothing") == {}
    assert client.error("acme/broken") == {"code": -32603, "message": "Internal error"}
    client.notify("acme/heard")
    assert heard.wait(20)


# --- what one session costs at most: what is kept of its client, and what it may subscribe to -----


LONG = "x" * 200_000


def make(**limits):
    server = Server("bounds", limits=tight(**limits))
    server.add_resource("note://{+name}", lambda name: name, name="note")
    return server


def session_of(server):
    session, = server.sessions
    assert isinstance(session, LegacySession)
    return session


def test_a_session_keeps_of_its_client_what_is_used(connect):
    server = make()
    client = connect(server, revision=None)
    client.result("initialize", {
        "protocolVersion": "2025-11-25", "more": LONG, "_meta": {"more": LONG},
        "capabilities": {"roots": {"listChanged": True, "more": LONG}, "elicitation": {}, "more": {LONG: [{}] * 1000}},
        "clientInfo": {"name": "desk " + LONG, "version": LONG, "title": LONG, "icons": [{"src": LONG}], "more": LONG}})
    session = session_of(server)
    assert session.client_info == Implementation(("desk " + LONG)[:256], LONG[:256], title=LONG[:256])
    assert session.client_capabilities == ClientCapabilities(roots={"listChanged": True}, elicitation={})
    assert not session.client_info.extra and not session.client_capabilities.extra


def test_a_session_subscribes_to_a_limited_number(connect):
    server = make(subscriptions=3)
    client = connect(server)
    for number in (1, 2, 3, 3, 1):
        assert client.result("resources/subscribe", {"uri": f"note://{number}"}) == {}
    error = client.error("resources/subscribe", {"uri": "note://4"})
    assert error["code"] == INVALID_REQUEST and "3 resources" in error["message"] and "unsubscribe" in error["message"]
    client.result("resources/unsubscribe", {"uri": "note://1"})
    client.result("resources/unsubscribe", {"uri": "note://none"})
    assert client.result("resources/subscribe", {"uri": "note://4"}) == {}
    server.resource_updated("note://1")
    server.resource_updated("note://4")
    assert client.receive()["params"] == {"uri": "note://4"}


def test_the_uris_of_a_session_take_a_limited_amount_of_memory(connect):
    uris = [f"note://{number}{'x' * 1000}" for number in range(5)]
    server = make(subscription_bytes=4 * memory_size(uris[0], 1 << 20))
    client = connect(server)
    for uri in uris[:4]:
        client.result("resources/subscribe", {"uri": uri})
    assert "bytes of memory" in client.error("resources/subscribe", {"uri": uris[4]})["message"]
    assert client.result("resources/subscribe", {"uri": uris[0]}) == {}, "it is there already"
    client.result("resources/unsubscribe", {"uri": uris[0]})
    client.result("resources/unsubscribe", {"uri": uris[0]})
    assert client.result("resources/subscribe", {"uri": uris[4]}) == {}
    assert client.error("resources/subscribe", {"uri": uris[0]})["code"] == INVALID_REQUEST

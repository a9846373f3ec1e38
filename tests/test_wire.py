"""The recorder of messages: it finds wrong messages, and sees everything on the wire."""

import contextlib
import importlib.util
import json
import queue
import sys
import threading
import uuid
from pathlib import Path

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.routing_headers import standard
from mcplite.revisions import JULY_2026, JUNE_2025, NOVEMBER_2024, NOVEMBER_2025, REVISIONS
from mcplite.rpc.channels import MemoryChannel
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from mcplite.types import CreateMessageResult, TextContent
from tests.support import connecting, wire

pytestmark = pytest.mark.skipif(wire.schemas.FOLDER is None, reason=wire.schemas.REASON)


class Peer:
    """A stand-in for a peer; the recorder only needs its identity."""


def conversation(side, revision=NOVEMBER_2025):
    """Return a function that lets a recorder see messages of one conversation whose handshake is done."""
    recorder, peer = wire.Recorder(), Peer()
    asking, answering = ("->", "<-") if side == "client" else ("<-", "->")
    info = {"name": "test", "version": "1"}

    def see(direction, **message):
        recorder.observe(peer, direction, json.dumps({"jsonrpc": "2.0", **message}).encode())
        return recorder.problems()

    assert see(asking, id=1, method="initialize", params={
        "protocolVersion": revision.name, "capabilities": {}, "clientInfo": info}) == []
    assert see(answering, id=1, result={"protocolVersion": revision.name, "capabilities": {}, "serverInfo": info}) == []
    return see


def test_a_legacy_client_with_invalid_messages():
    see = conversation("client")
    assert "'name' is a required property" in see("->", id=2, method="tools/call", params={"arguments": {}})[0]
    assert "no request that a client may send" in see("->", id=3, method="roots/list")[0]
    assert see("<-", id=7, method="roots/list") == []
    assert "'roots' is a required property" in see("->", id=7, result={})[0]


def test_a_server_whose_result_is_of_a_later_revision():
    result = {"content": [{"type": "text", "text": "1"}], "structuredContent": {"result": 1}}
    for revision, wrong in ((NOVEMBER_2024, 1), (JUNE_2025, 0)):
        see = conversation("server", revision)
        assert see("<-", id=2, method="tools/call", params={"name": "x"}) == []
        assert len(see("->", id=2, result=result)) == wrong


def test_messages_of_the_other_side_and_custom_methods_are_not_checked():
    see = conversation("server")
    assert see("<-", id=2, method="tools/call", params={}) == []
    assert see("<-", id="a", method="com.example/own", params={"x": 1}) == []
    assert see("->", id="a", result={"anything": True}) == []
    assert see("->", method="com.example/told") == []


# --- without a handshake ------------------------------------------------------------------------------

PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": JULY_2026.name, PREFIX + "clientCapabilities": {}}
FORM = {"method": "elicitation/create", "params": {"message": "Where to?", "requestedSchema": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}
CALLED = {"resultType": "complete", "content": []}
ASKING = {"resultType": "input_required", "requestState": "s"}


def modern(side, both=False):
    """Return a function that lets a recorder see messages of a conversation without a handshake."""
    recorder, peer = wire.Recorder(both), Peer()

    def see(direction, **message):
        params = message.get("params")
        if "id" in message and params is not None and message["method"] != "initialize":
            message["params"] = {name: value for name, value in {"_meta": META, **params}.items() if value is not None}
        recorder.observe(peer, direction, json.dumps({"jsonrpc": "2.0", **message}).encode())
        return recorder.problems()

    assert see("->" if side == "client" else "<-", id=1, method="server/discover", params={}) == []
    return see


def test_a_message_that_is_wrong_is_not_taken_for_one_that_was_right():
    see, of_legacy = modern("server"), conversation("server")
    asked = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "y", "value": ""}}
    right, other = (["a", "b"], "info", -32603, 0), (list(map(str, range(101))), "loud", -32022, 1)
    for values, level, code, wrong in (right, other):
        assert see("<-", id=2, method="completion/complete", params=asked) == []
        assert len(see("->", id=2, result={"resultType": "complete", "completion": {"values": values}})) == wrong
        assert len(of_legacy("->", method="notifications/message", params={"level": level, "data": values[0]})) == wrong
        assert len(see("->", id=1, error={"code": code, "message": values[0]})) == wrong


def test_a_modern_client_with_valid_messages():
    see = modern("client")
    assert see("->", id=2, method="tools/call", params={"name": "x", "arguments": {"a": 1}}) == []
    assert see("<-", id=2, result={**ASKING, "inputRequests": {"a": FORM, "b": {"method": "roots/list"}}}) == []
    assert see("->", id=3, method="tools/call", params={"name": "x", "requestState": "s", "inputResponses": {
        "a": {"action": "accept", "content": {"city": "Rome", "price": 1.5}}, "b": {"roots": []}}}) == []
    assert see("->", method="notifications/cancelled", params={"requestId": 3}) == []
    assert see("->", id=4, method="com.example/own", params={"x": 1}) == []


@pytest.mark.parametrize("reason, message", [
    ("'name' is a required property", {"id": 2, "method": "tools/call", "params": {}}),
    ("clientCapabilities' is a required property", {"id": 2, "method": "tools/list", "params": {
        "_meta": {PREFIX + "protocolVersion": JULY_2026.name}}}),
    ("is a required property", {"id": 2, "method": "com.example/own", "params": {
        "_meta": {PREFIX + "protocolVersion": JULY_2026.name}}}),
    ("'_meta' is a required property", {"id": 2, "method": "tools/list", "params": {"_meta": None}}),
    ("'params' is a required property", {"id": 2, "method": "tools/list"}),
    ("no such member", {"id": 2, "method": "tools/list", "params": {"more": 1}}),
    ("no request that a client may send", {"id": 2, "method": "ping", "params": {}}),
    ("no notification that a client may send", {"method": "notifications/initialized"}),
    ("no notification that a client may send", {"method": "notifications/progress", "params": {
        "progressToken": 1, "progress": 1}}),
    ("has nothing to answer", {"id": 7, "result": {"roots": []}}),
    ("has nothing to answer", {"id": 7, "error": {"code": -32601, "message": "m"}}),
])
def test_a_modern_client_with_invalid_messages(reason, message):
    see = modern("client")
    assert see("<-", id=7, method="roots/list") == []
    assert reason in see("->", **message)[0]


@pytest.mark.parametrize("answer, fits", [
    ({"action": "decline"}, True), (SAID, False), ({"roots": []}, False), ({"action": "maybe"}, False),
    ({"action": "decline", "more": 1}, False),
])
def test_answers_must_fit_their_questions(answer, fits):
    see = modern("client")
    see("->", id=2, method="tools/call", params={"name": "x"})
    see("<-", id=2, result={**ASKING, "inputRequests": {"a": FORM}})
    found = see("->", id=3, method="tools/call", params={"name": "x", "inputResponses": {"a": answer}})
    assert (found == []) is fits


@pytest.mark.parametrize("method, params, result, reason", [
    ("tools/call", {"name": "x"}, CALLED, None),
    ("tools/call", {"name": "x"}, {**ASKING, "inputRequests": {"a": FORM}}, None),
    ("tools/call", {"name": "x"}, ASKING, None),
    ("tools/call", {"name": "x"}, {"resultType": "input_required"}, "neither 'inputRequests' nor 'requestState'"),
    ("tools/call", {"name": "x"}, {**ASKING, "inputRequests": {"a": {"method": "ping"}}}, "inputRequests.a"),
    ("tools/call", {"name": "x"}, {**ASKING, "inputRequests": {"a": {**FORM, "id": 1}}}, "no such member"),
    ("tools/call", {"name": "x"}, {**ASKING, "ttlMs": 1, "cacheScope": "public"}, "no such member"),  # CACHE-02
    ("tools/call", {"name": "x"}, {"content": []}, "'resultType' is a required property"),
    ("tools/list", {}, ASKING, "cannot be answered with questions"),  # MRTR-03
    ("tools/list", {}, {"resultType": "complete", "tools": []}, "is a required property"),  # CACHE-01
    ("tools/list", {}, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}, None),
    ("tools/list", {}, {"resultType": "complete", "tools": [], "ttlMs": -1, "cacheScope": "private"}, "minimum"),
    ("subscriptions/listen", {"notifications": {}}, {"resultType": "complete"}, "'_meta' is a required property"),
    ("com.example/own", {}, {"x": 1}, "'resultType' is a required property"),
    ("com.example/own", {}, {"x": 1, "resultType": "complete"}, None),
])
def test_a_modern_server_s_results(method, params, result, reason):
    see = modern("server")
    assert see("<-", id=2, method=method, params=params) == []
    found = see("->", id=2, result=result)
    assert (found == []) if reason is None else (reason in found[0])


@pytest.mark.parametrize("reason, message", [
    (None, {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    ("'progress' is a required property", {"method": "notifications/progress", "params": {"progressToken": 1}}),
    ("no request that a server may send", {"id": 1, "method": "roots/list"}),
    ("no notification that a server may send", {"method": "notifications/elicitation/complete", "params": {
        "elicitationId": "e"}}),
    (None, {"id": 1, "error": {"code": -32022, "message": "m", "data": {"supported": [], "requested": ""}}}),
    ("'data' is a required property", {"id": 1, "error": {"code": -32022, "message": "m"}}),
    ("'requiredCapabilities' is a required property", {"id": 1, "error": {"code": -32021, "message": "m", "data": {}}}),
    ("None is not", {"id": None, "error": {"code": -32700, "message": "m"}}),
    (None, {"error": {"code": -32700, "message": "m"}}),
])
def test_other_invalid_messages_of_a_modern_server(reason, message):
    found = modern("server")("->", **message)
    assert (found == []) if reason is None else (reason in found[0])


def test_one_id_may_be_many_clients():
    see = modern("server")
    pages = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    for order in ([CALLED, pages], [pages, CALLED]):
        see("<-", id=2, method="tools/call", params={"name": "x"})
        see("<-", id=2, method="tools/list", params={})
        assert [see("->", id=2, result=result) for result in order] == [[], []]
    assert "must say which method" in see("->", id=2, result=CALLED)[0], "everything was answered"


def test_a_pipe_with_both_eras():
    see = modern("server")
    said = {"protocolVersion": NOVEMBER_2025.name, "capabilities": {}}
    see("<-", id=2, method="initialize", params={**said, "clientInfo": {"name": "test", "version": "1"}})
    assert see("->", id=2, result={**said, "serverInfo": {"name": "test", "version": "1"}}) == []
    see("<-", id=3, method="tools/call", params={"name": "x", "_meta": {}})
    assert "no such member" in see("->", id=3, result=CALLED)[0]
    see("<-", id=4, method="tools/call", params={"name": "x"})
    assert see("->", id=4, result=CALLED) == []
    assert see("->", id=5, method="roots/list") == []


def test_both_sides_are_checked_if_both_are_mcplite():
    see = modern("client", both=True)
    assert "is a required property" in see("<-", id=1, result={"resultType": "complete"})[0]
    assert modern("client")("<-", id=1, result={"resultType": "complete"}) == []


# --- real conversations ---------------------------------------------------------------------------------

FOLDER = Path(__file__).resolve().parent / "behaviour"
LIMIT = 30


@contextlib.contextmanager
def here():
    """Return the server of the behaviour tests, a new one in this process."""
    spec = importlib.util.spec_from_file_location("wire_server", FOLDER / "server.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    yield module.mcp
    del sys.modules[spec.name]


@contextlib.contextmanager
def as_child():
    yield [sys.executable, str(FOLDER / "server.py")]


@contextlib.contextmanager
def over_http():
    with here() as mcp, mcplite.serve(mcp, port=0) as host:
        yield host.url


@contextlib.contextmanager
def over_sse():
    with here() as mcp, mcplite.serve(mcp, port=0, legacy_sse=True) as host:
        yield host.url[:-len("mcp")] + "sse"


def answer(request):
    return {"city": "Rome", "nights": 2} if "Where" in request.message else True


def everything(client):
    """Use every feature of the client and of the server."""
    heard, key = queue.Queue(), uuid.uuid4().hex
    asks = client.revision.modern or "elicitation/create" in client.revision.server_requests
    client.list_tools(), client.list_resources(), client.list_resource_templates(), client.list_prompts()
    client.ping(), client.set_log_level("debug")
    client.call_tool("speak", {"words": ["one"]})
    client.call_tool("count_up", {"steps": 3}, on_progress=print)
    assert client.call_tool("fail", {"how": "so"}).is_error
    for failing in (lambda: client.call_tool("missing"), lambda: client.read_resource("memo://nothing"),
                    lambda: client.request("com.example/own")):
        with pytest.raises(mcplite.RemoteError):
            failing()
    client.read_resource("memo://greeting"), client.get_prompt("greet", {"name": "Ada"})
    client.complete(prompt="greet", argument="name", value="A")
    client.call_tool("think", {"question": "What?"}), client.call_tool("folders")
    client.read_resource("memo://asked"), client.get_prompt("interview")
    assert client.call_tool("book", {"key": key}).is_error is not asks
    assert client.call_tool("reserve", {"key": key}).is_error is not asks
    assert client.call_tool("wizard").is_error is not asks
    with client.listen(tools=True, resources=["memo://greeting"]) as events:
        client.call_tool("grow", {"name": f"tool-{key}"})
        assert events.get(LIMIT) is not None
        stop = client.subscribe(heard.put, resources=["memo://greeting"])
        client.call_tool("touch")
        assert heard.get(timeout=LIMIT) and events.get(LIMIT) is not None
        stop()
    token = mcplite.CancelToken()
    with pytest.raises(mcplite.Cancelled):
        client.call_tool("block", {"key": key}, cancel=token, on_progress=lambda progress: token.cancel("enough"))
    assert client.call_tool("was_stopped", {"key": key}).text == "true"


HOSTS = {"memory": here, "stdio": as_child, "http": over_http, "sse": over_sse}
PAIRS = [(host, revision) for host in HOSTS for revision in REVISIONS
         if host in ("memory", "stdio") or (host == "sse") == (revision is REVISIONS[0])]
#: Messages that the server of these tests never sends, or only when it ends before its clients.
NEVER = {"notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/cancelled",
         "subscriptions/listen"}


@pytest.mark.parametrize("host, revision", PAIRS, ids=str)
def test_all_messages_of_both_sides_fit_the_revision(host, revision):
    options = {"env": {"PYTHONPATH": str(FOLDER.parent.parent)}} if host == "stdio" else {}
    # In this process the recorder sees the peers of both sides.
    with wire.recording(both=host == "stdio") as recorder, HOSTS[host]() as target, connecting.connect(
            target, revision=revision, timeout=LIMIT, elicitation_handler=answer, log_handler=print,
            sampling_handler=lambda request: CreateMessageResult("assistant", TextContent("x"), "m"),
            roots=["file:///home"], **options) as client:
        everything(client)
    assert recorder.problems() == []
    if revision.modern:
        # Over HTTP a call is cancelled by closing its connection.
        cancels = revision.client_notifications if host != "http" else set()
        said = {method for sender, method in recorder.judged if sender == "client"}
        assert said == revision.client_requests | cancels | {"com.example/own"}
        said = {method for sender, method in recorder.judged if sender == "server"}
        wanted = revision.client_requests | revision.server_notifications | {"com.example/own", "error"}
        assert said - {"refusal"} == wanted - NEVER


def test_refusals_of_an_endpoint_are_checked():
    """The endpoint answers such requests itself, without a peer."""
    def ask(body, **changes):
        given = {"Host": "localhost", "Content-Type": "application/json", "Accept": "*/*",
                 **standard("tools/list", {}, JULY_2026.name), **changes}
        headers = {name.lower(): value for name, value in given.items()}
        response = endpoint.handle(HTTPRequest("POST", "/mcp", Headers(headers.items()), read=lambda limit: body))
        response.close()
        return response.status

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    endpoint = make_endpoint(mcplite.Server("refusing").runtime)
    with wire.recording() as recorder:
        assert ask(json.dumps(message).encode()) == 404  # there are no tools
        assert ask(json.dumps(message).encode(), **{"Mcp-Method": "ping"}) == 400
        assert ask(b"{}") == ask(b"{") == ask(b"[]") == ask(b"") == 400
        assert ask(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()) == 400
        assert ask(b"", Accept="text/html") == 406
    endpoint.close()
    assert ("server", "refusal") in recorder.judged
    assert recorder.problems() == []


@pytest.mark.parametrize("noise", [b"{", b"[]", b"{}", b'{"jsonrpc":"2.0","id":null,"method":"x"}', b"[{}]"])
@pytest.mark.parametrize("era", ["modern", None])
def test_a_modern_server_with_unreadable_messages(era, noise):
    mcp = connecting.new_server("reading", **({} if era is None else {"era": era}))
    raw, theirs = MemoryChannel.pair()
    with wire.recording() as recorder:
        peer = mcp.serve_channel(theirs)
        question = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
        for data in (json.dumps(question).encode(), noise):
            raw.write(data)
            assert "jsonrpc" in json.loads(raw.read(LIMIT))
        raw.close()
        peer.wait_closed(LIMIT)
        peer.close()
    assert recorder.problems() == []


@pytest.mark.parametrize("noise", [
    b"{", b"[]", b"[{}]", b'{"jsonrpc":"2.0","id":7,"method":5}', b'{"jsonrpc":"2.0","id":7,"method":"x","params":[]}',
    b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}', b'[{"jsonrpc":"2.0","id":7,"method":"roots/list"}]',
])
def test_a_modern_client_with_unreadable_messages(noise):
    """It never answers (STAT-22)."""
    def serve():
        with contextlib.suppress(mcplite.errors.ConnectionClosed):
            while True:
                message = json.loads(raw.read(LIMIT))
                seen.append(message.get("method"))
                if message.get("method") in results:
                    raw.write(noise)
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
                    raw.write(json.dumps(answer).encode())

    pages = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    results = {"server/discover": {**pages, "supportedVersions": [JULY_2026.name], "capabilities": {"tools": {}}},
               "tools/list": {**pages, "tools": []}}
    raw, ours = MemoryChannel.pair()
    seen = []
    thread = threading.Thread(target=serve)
    thread.start()
    with wire.recording() as recorder:
        with mcplite.connect(ours, revision=JULY_2026, timeout=LIMIT) as client:
            client.list_tools()
        thread.join(LIMIT)
    assert recorder.problems() == []
    assert seen == list(results)

"""Any input over HTTP or a pipe gets the answer of the protocol, and the next request is served as usual."""

import contextlib
import copy
import json
from typing import Annotated

import pytest
from hypothesis import example, given, settings, strategies as st

import mcplite
from mcplite.protocol import jsonrpc
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.routing_headers import Mark, parameters, standard
from mcplite.revisions import NEWEST, REVISIONS
from mcplite.rpc.channels import MemoryChannel
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from mcplite.server.http.messages import UnreadableBody
from tests.support import connecting
from tests.support.mutations import places
from tests.support.stateless import MODERN, PREFIX, call, encode, headers, message

LIMIT = 30
KEY = "a secret of many bytes"
#: The ways to serve; a fleet without a backend has no sessions.
WAYS = {"both": {}, "modern": {"era": "modern"}, "legacy": {"era": "legacy"},
        "fleet": {"fleet": True, "state_keys": [KEY]}}


def make(**options):
    mcp = connecting.new_server("fuzzed", **options)

    @mcp.tool()
    def add(a: int, b: int = 2) -> int:
        return a + b

    @mcp.tool()
    def route(region: Annotated[str, mcplite.Header("Region")], count: Annotated[int, mcplite.Header("Count")] = 1,
              dry: Annotated[bool, mcplite.Header("Dry")] = False) -> str:
        return f"{region} {count} {dry}"

    @mcp.tool()
    def report(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        ctx.log("info", "on the way")
        return "reported"

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Well?").action

    @mcp.resource("memo://{name}")
    def memo(name: str) -> str:
        return name

    @mcp.prompt()
    def greet(name: str) -> str:
        return f"Say hello to {name}."

    @mcp.completion(prompt="greet", argument="name")
    def names(value: str):
        return ["Ada"]

    return mcp


INFO = {"name": "test", "version": "1"}
OPENING = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}}
VALID = [
    message("server/discover"), message("tools/list"), message("tools/list", {"cursor": "x"}), message("prompts/list"),
    message("resources/list"), message("resources/templates/list"), call("add", {"a": 1}), call("add", {"a": "x"}),
    call("missing"), call("route", {"region": "eu", "count": 42, "dry": True}),
    call("report", progressToken="p", level="debug", info=INFO), call("ask"), call("ask", capabilities={"elicitation": {}}),
    call("ask", params={"inputResponses": {"a": {"action": "accept"}}, "requestState": "x"},
         capabilities={"elicitation": {"form": {}}}),
    message("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}), message("resources/read", {"uri": "memo://a"}),
    message("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}),
    message("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["memo://a"]}}),
    message("com.example/own", {"x": 1}), message("ping"), message("tools/list", version="2025-11-25"),
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}}, OPENING,
    *({"jsonrpc": "2.0", "id": 1, "method": method, "params": params} for method, params in [
        ("ping", {}), ("tools/list", {}), ("tools/call", {"name": "add", "arguments": {"a": 1}}),
        ("tools/call", {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}),
        ("logging/setLevel", {"level": "info"}), ("resources/subscribe", {"uri": "memo://a"}),
        ("resources/read", {"uri": "memo://a"})]),
    {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": "a", "error": {"code": 1, "message": "x"}},
]
#: Strings that mean something somewhere.
WORDS = st.sampled_from([
    "tools/call", "resources/read", "subscriptions/listen", "initialize", "add", "route", "ask", "greet", "memo://a",
    "memo://", PREFIX + "protocolVersion", PREFIX + "clientCapabilities", PREFIX + "logLevel", MODERN, "2025-11-25",
    "2.0", "info", "_meta", "elicitation", "region", "count", "=?base64?eA==?=", "=?base64?", "42", "42.0", "true",
    "%", "", "\ud800", "x" * 300])
TEXT = WORDS | st.text(max_size=8)
NUMBERS = (st.integers() | st.floats(allow_nan=False, allow_infinity=False)
           | st.sampled_from([2 ** 53, 10 ** 400, -0.0, 1e300]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6)
NAMES = st.sampled_from(["Host", "Origin", "Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
                         "Mcp-Session-Id", "Last-Event-ID", "Content-Encoding", "Mcp-Param-Region", "Mcp-Param-Count",
                         "Mcp-Param-Dry", "Access-Control-Request-Method"])
#: Stands for the id of a session that is open.
SESSION = "SESSION"
VALUES = TEXT | st.sampled_from([
    SESSION, "localhost", "null", "application/json", "text/event-stream", "*/*", "gzip", "1-1", "POST",
    "http://localhost:3000", "\x7f", "2024-11-05", "2025-03-26", "=?base64?!!?=", "=?base64?/w==?="])


METHODS = st.sampled_from(["POST"] * 30 + ["GET", "DELETE", "OPTIONS", "PUT", "HEAD", "BREW"])


def rarely(draw):
    return draw(st.integers(0, 11)) == 7  # not an end of the range, which is drawn more often


@st.composite
def bodies(draw):
    """Return a valid message, the same with some of it changed, and how it is written."""
    valid = draw(st.sampled_from(VALID))
    whole = [copy.deepcopy(valid)]
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        *path, last = draw(st.sampled_from(places(whole)[1:] or [(0,)]))
        inner = whole
        for step in path:
            inner = inner[step]
        change = draw(st.sampled_from(["replace", "add", "drop"]))
        if change == "drop" and isinstance(inner, dict):
            del inner[last]
        elif change == "add" and isinstance(inner[last], dict):
            inner[last][draw(TEXT)] = draw(JSON)
        else:
            inner[last] = draw(JSON)
    data = encode(whole[0])
    if rarely(draw):
        data = b"[" + data + b"]"
    if rarely(draw):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 5))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + length:]
    return valid, whole[0], data


MARKS = [Mark("Region", ("region",), "string"), Mark("Count", ("count",), "integer"), Mark("Dry", ("dry",), "boolean")]


def fitting(told, modern):
    """Return the headers that a message should have, as far as it is one.

    :param modern: what a message is that does not say itself.
    """
    given = {name: value for name, value in headers({"method": "x"}).items() if not name.lower().startswith("mcp-")}
    told = told if isinstance(told, dict) else {}
    method, params = told.get("method"), told.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(PREFIX + "protocolVersion") if isinstance(meta, dict) else MODERN if modern else None
    if version is None and method != "initialize":
        given["Mcp-Session-Id"] = SESSION
    if isinstance(version, str):
        given["MCP-Protocol-Version"] = version
        if isinstance(method, str) and isinstance(params, dict):
            given.update(standard(method, params, version))
            with contextlib.suppress(ValueError):  # a number that is too large for a header
                given.update(parameters(params.get("arguments"), MARKS))
    return given


@st.composite
def requests(draw):
    """Return an HTTP request that is nearly, or wholly, as it must be: its method, headers and body."""
    valid, changed, data = draw(bodies())
    # Most often the headers are those of what it has become, so that later rungs are reached as well.
    told = valid if rarely(draw) else changed
    pairs = list(fitting(told, draw(st.booleans())).items())
    for _ in range(draw(st.sampled_from([0] * 6 + [1, 2]))):
        name, value = draw(NAMES), draw(VALUES)
        change = draw(st.sampled_from(["set", "add", "drop"]))
        if change != "add":
            pairs = [pair for pair in pairs if pair[0] != name]
        if change != "drop":
            pairs.append((name, value))
    return draw(METHODS), pairs, data


def reading(data):
    def read(limit):
        if len(data) > limit:
            raise UnreadableBody(413, "too much")
        return data

    return read


def answers(method, response):
    """Return what a response says first, as messages; only the first piece is read, for a stream may be endless."""
    if response.streaming and method != "POST":
        return []  # it may be silent for long
    if not response.streaming:
        found = [response.content] if response.content else []
    else:
        text = b""
        for piece in response.body:
            text += piece
            if b"\n\n" in text.partition(b"data: {")[2]:
                break
        found = [line[6:] for line in text.split(b"\n") if line.startswith(b"data: {")][:1]
    values = [json.loads(data) for data in found]
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def check_message(item):
    assert item["jsonrpc"] == "2.0"
    if "method" in item:
        assert item["method"].startswith("notifications/") and "id" not in item, "servers ask nothing here"
    elif "error" in item:
        error = item["error"]
        assert set(item) <= {"jsonrpc", "id", "error"}
        assert type(error["code"]) is int and isinstance(error["message"], str)
        assert error["code"] != -32603, "nothing of ours fails"
        assert len(error["message"]) < 2000
    else:
        assert set(item) == {"jsonrpc", "id", "result"} and isinstance(item["result"], dict)


def check(method, data, modern, response):
    """What holds for the response to anything."""
    assert response.status in (200, 202, 204, 400, 403, 404, 405, 406, 409, 413, 415, 421, 503), response.content
    found = answers(method, response)
    for item in found:
        check_message(item)
    if response.status in (202, 204):
        assert found == []
    elif not response.streaming:
        assert len(found) == 1 or method == "POST" and data.lstrip()[:1] == b"["
        if response.status != 200:
            assert "error" in found[0]
    parsed = jsonrpc.parse(data)
    if modern and method == "POST" and isinstance(parsed, jsonrpc.Request) and found:
        item = found[0]
        if "method" not in item and "id" in item:
            assert item["id"] == parsed.id and type(item["id"]) is type(parsed.id)
        code = item.get("error", {}).get("code")
        if code in NEWEST.http_status and response.status != 200:
            assert response.status == NEWEST.http_status[code]


def ordinary(endpoint, mcp):
    """Send what every client may, in each era that is served, and look at the answers."""
    def post(request, **changes):
        given = Headers({**headers(request), **changes}.items())
        response = endpoint.handle(HTTPRequest("POST", "/mcp", given, read=lambda limit: encode(request)))
        answer = json.loads(response.content)
        response.close()
        assert response.status == 200, answer
        return answer["result"]

    if mcp.runtime.catalog.speaks_modern:
        assert post(call("add", {"a": 1}))["content"][0]["text"] == "3"
    if mcp.runtime.catalog.speaks_legacy:
        given = Headers(fitting(OPENING, False).items())
        response = endpoint.handle(HTTPRequest("POST", "/mcp", given, read=lambda limit: encode(OPENING)))
        assert response.status == 200 and json.loads(response.content)["result"]["serverInfo"]["name"] == "fuzzed"
        response.close()


def begin(endpoint, principal):
    """Open a session, if there are any, and return its id; else anything."""
    given = Headers(fitting(OPENING, False).items())
    response = endpoint.handle(HTTPRequest("POST", "/mcp", given, read=reading(encode(OPENING)), principal=principal))
    response.close()
    return dict(response.headers).get("Mcp-Session-Id", "none")


def end(endpoint, principal, session):
    given = {**fitting(OPENING, False), "Mcp-Session-Id": session}
    endpoint.handle(HTTPRequest("DELETE", "/mcp", Headers(given.items()), principal=principal)).close()


@contextlib.contextmanager
def served(way, stateless=False):
    mcp = make(**WAYS[way])
    endpoint = make_endpoint(mcp.runtime, stateless=stateless)
    try:
        yield endpoint, mcp
    finally:
        endpoint.close(0.1)


@pytest.mark.parametrize("way, stateless", [("both", False), ("both", True), ("modern", False), ("legacy", False),
                                            ("fleet", False)])
@pytest.mark.slow
def test_any_message_to_an_endpoint_is_answered(way, stateless):
    """One server gets all of it, so that nothing may be left behind by one request for the next."""
    seen = set()
    with served(way, stateless) as (endpoint, mcp):

        def send(request, principal):
            method, pairs, data = request
            session = begin(endpoint, principal)
            given = Headers((name, session if value == SESSION else value) for name, value in pairs)
            response = endpoint.handle(HTTPRequest(method, "/mcp", given, read=reading(data), principal=principal))
            seen.add("stream" if response.streaming else response.status)
            try:
                check(method, data, mcp.runtime.catalog.speaks_modern and given.get("mcp-protocol-version") == MODERN, response)
            finally:
                response.close()
                end(endpoint, principal, session)

        for valid in VALID:
            for modern in (False, True):
                send(("POST", list(fitting(valid, modern).items()), encode(valid)), None)
        reachable = {200, 202, "stream"} | ({400, 404} if mcp.runtime.catalog.speaks_modern else set())
        assert reachable <= seen, "all of it can be reached"

        @given(requests(), st.sampled_from([None, mcplite.Principal("ada")]))
        @example(("POST", [*headers(call("route", {"region": "eu", "count": "x"})).items(), ("Mcp-Param-Region", "eu"),
                           ("Mcp-Param-Count", "42")], encode(call("route", {"region": "eu", "count": "x"}))), None)
        @settings(max_examples=400, derandomize=True, deadline=None)
        def attack(request, principal):
            send(request, principal)

        attack()
        ordinary(endpoint, mcp)


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.slow
def test_any_headers_and_any_bytes_are_answered(way):
    with served(way) as (endpoint, mcp):

        @given(st.text(max_size=8) | st.sampled_from(["POST", "GET", "DELETE", "OPTIONS"]),
               st.lists(st.tuples(NAMES | st.text(max_size=8), VALUES), max_size=8),
               st.binary(max_size=60) | JSON.map(encode),
               st.sampled_from(["/mcp", "/mcp/", "/", "", "/sse"]) | st.text(max_size=5))
        @settings(max_examples=150, derandomize=True, deadline=None)
        def attack(method, pairs, data, path):
            response = endpoint.handle(HTTPRequest(method, path, Headers(pairs), read=reading(data)))
            try:
                check(method, data, False, response)
            finally:
                response.close()

        attack()
        ordinary(endpoint, mcp)


@pytest.mark.parametrize("way", ["both", "modern", "legacy"])
@pytest.mark.slow
def test_a_pipe_survives_any_message(way):
    mcp = make(**WAYS[way])
    last = call("add", {"a": 1}, id="last") if way != "legacy" else {"jsonrpc": "2.0", "id": "last", "method": "ping"}

    @given(st.lists(bodies(), max_size=5))
    @settings(max_examples=150, derandomize=True, deadline=None)
    def attack(messages):
        raw, theirs = MemoryChannel.pair()
        peer = mcp.serve_channel(theirs)
        try:
            for _, _, data in messages:
                raw.write(data)
            raw.write(encode(last))
            while True:
                data = raw.read(LIMIT)
                assert data is not None, "the server said nothing"
                item = json.loads(data)
                for one in item if isinstance(item, list) else [item]:
                    check_message(one)
                if isinstance(item, dict) and item.get("id") == "last" and "method" not in item:
                    break
            assert "result" in item, item
        finally:
            raw.close()
            assert peer.wait_closed(LIMIT)
            peer.close()

    attack()


def test_there_is_a_valid_message_for_each_method():
    """Changes of them reach whatever there is to reach."""
    asked = {request.get("method") for request in VALID}
    assert NEWEST.client_requests | NEWEST.client_notifications <= asked and len(REVISIONS) == 5

"""The HTTP endpoint, request by request and without a socket: each status, each mode, each revision's differences."""

import contextlib
import json
import threading
from typing import Any, Dict

import pytest
from hypothesis import given, settings, strategies as st

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.revisions import LEGACY, REVISIONS
from mcplite.rpc.deadline import Deadline
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from mcplite.server.http.messages import UnreadableBody
from tests.support import stateless
from tests.support.tight import tight

LIMIT = 30
KEY = "a secret of many bytes"
STREAMABLE = [revision.name for revision in LEGACY[1:]]  # the oldest has the transport of two endpoints
CHECKED = [revision.name for revision in LEGACY if revision.version_header == "checked"]
BOTH = "application/json, text/event-stream"


def make(mcp=None, **options):
    mcp = mcp or mcplite.Server("demo")

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool()
    def report(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        return "reported"

    @mcp.tool()
    def can(ctx: mcplite.Context) -> bool:
        return ctx.can_elicit

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Well?").action

    return make_endpoint(mcp.runtime, **options)


@pytest.fixture
def mcp():
    return mcplite.Server("demo")


@pytest.fixture
def endpoint(mcp):
    endpoint = make(mcp)
    yield endpoint
    endpoint.close(0.1)


def request(method, message=None, path="/mcp", body=None, principal=None, query="", **headers):
    if body is None:
        body = b"" if message is None else json.dumps(message).encode()
    given = {"host": "127.0.0.1:8000", "accept": BOTH, "content-type": "application/json"}
    given.update({name.replace("_", "-"): value for name, value in headers.items()})

    def read(limit):
        if len(body) > limit:
            raise UnreadableBody(413, "too much")
        return body

    return HTTPRequest(method, path, Headers([pair for pair in given.items() if pair[1] is not None]), query, read=read,
                       principal=None if principal is None else mcplite.Principal(principal))


def call(method, params=None, id=1) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def opening(version="2025-11-25", **capabilities):
    return call("initialize", {"protocolVersion": version, "capabilities": capabilities,
                               "clientInfo": {"name": "test", "version": "1"}}, 0)


def ask_tool(name, arguments=None, id=1, token=None):
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return call("tools/call", {"name": name, "arguments": arguments or {}, **meta}, id)


class Client:
    """One client's way to an endpoint: its session id and version go with each request."""

    def __init__(self, endpoint, version="2025-11-25", principal=None, **capabilities):
        self.endpoint, self.principal, self.version = endpoint, principal, version
        self.opened = endpoint.handle(request("POST", opening(version, **capabilities), principal=principal))
        self.headers = {name.lower().replace("-", "_"): value for name, value in self.opened.headers
                        if name == "Mcp-Session-Id"}
        if version in CHECKED:
            self.headers["mcp_protocol_version"] = version
        assert self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def send(self, message=None, method="POST", **more):
        return self.endpoint.handle(request(method, message, principal=self.principal, **{**self.headers, **more}))


def body(response):
    return json.loads(response.content)


def events(response, count=None):
    """Read *count* messages of a stream, or all; return ids and data."""
    found, text = [], ""
    for piece in response.body:
        text += piece.decode()
        while "\n\n" in text:
            event, _, text = text.partition("\n\n")
            fields = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in event.splitlines()
                          if not line.startswith(":"))
            if fields:
                found.append((fields.get("id"), json.loads(fields["data"]) if fields.get("data") else None))
        if count is not None and len(found) >= count:
            break
    return found


def header(response, name):
    return dict(response.headers).get(name)


# --- opening, and owners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", STREAMABLE)
def test_a_session_is_opened_used_and_ended(endpoint, version):
    # SESS-01 to SESS-03, SESS-12
    client = Client(endpoint, version)
    id = client.headers["mcp_session_id"]
    assert client.opened.status == 200 and len(id) >= 32 and all("!" <= letter <= "~" for letter in id)
    assert body(client.opened)["result"]["protocolVersion"] == version
    answer = client.send(ask_tool("add", {"a": 1, "b": 2}))
    assert answer.status == 200 and header(answer, "Content-Type") == "application/json"
    assert body(answer)["result"]["content"][0]["text"] == "3"
    assert client.send(method="DELETE").status == 204
    assert client.send(call("ping")).status == 404


def test_every_session_has_its_own_id(endpoint):
    ids = {Client(endpoint).headers["mcp_session_id"] for _ in range(50)}
    assert len(ids) == 50 == len(endpoint.sessions)


@pytest.mark.parametrize("id, status", [(None, 400), ("unknown", 404)])
def test_requests_without_a_session(endpoint, id, status):
    # SESS-06, SESS-08
    for method, message in (("POST", call("ping", id=7)), ("GET", None), ("DELETE", None)):
        answer = endpoint.handle(request(method, message, mcp_session_id=id))
        assert answer.status == status
        if message:
            assert body(answer)["id"] == 7


def test_a_session_belongs_to_its_opener(endpoint):
    # SESS-15: for every other client the id does not exist.
    client = Client(endpoint, principal="ada")
    assert client.send(call("ping")).status == 200
    for other in (None, "bob"):
        stranger = endpoint.handle(request("POST", call("ping"), principal=other, **client.headers))
        unknown = endpoint.handle(request("POST", call("ping"), principal=other, mcp_session_id="x"))
        assert stranger.status == unknown.status == 404
        assert body(stranger)["error"] == body(unknown)["error"]


def test_a_refused_handshake_leaves_no_session(endpoint):
    # SEC-53
    for params in ({}, {"protocolVersion": 1}, {"protocolVersion": "2025-11-25"}):
        answer = endpoint.handle(request("POST", call("initialize", params)))
        assert "error" in body(answer) and header(answer, "Mcp-Session-Id") is None
    assert len(endpoint.sessions) == 0


# --- what is refused, and how -------------------------------------------------------------------------------


@pytest.mark.parametrize("change, status", [
    ({"content_type": None}, 415), ({"content_type": "text/plain"}, 415), ({"content_type": "application/jsonx"}, 415),
    ({"content_encoding": "gzip"}, 415), ({"accept": "text/event-stream"}, 406), ({"accept": "text/html"}, 406),
    ({"accept": "application/json;q=0, text/event-stream"}, 406), ({"host": "evil.example"}, 421), ({"host": None}, 421),
    ({"host": "127.0.0.1:8000@evil.example"}, 421), ({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403),
    ({"mcp_protocol_version": "1999-01-01"}, 400), ({"mcp_protocol_version": "2025-06-18"}, 400),
    ({"content_type": "application/json; charset=utf-8"}, 200), ({"accept": "*/*"}, 200), ({"accept": None}, 200),
    ({"accept": "application/json"}, 200), ({"accept": "Application/JSON;q=0.5"}, 200),
    ({"accept": "application/json, text/event-stream;q=0"}, 200), ({"accept": "text/html, *; q=.2"}, 200),
    ({"accept": "application/*;q=0.5, text/event-stream"}, 200), ({"host": "LOCALHOST:8000"}, 200), ({"host": "[::1]:80"}, 200),
    ({"origin": "http://localhost:3000"}, 200), ({"mcp_protocol_version": None}, 200),
])
def test_invalid_headers_are_refused(endpoint, change, status):
    answer = Client(endpoint).send(call("ping"), **change)
    assert answer.status == status, answer.content


@pytest.mark.parametrize("accept", ["application/json", "application/*", "application/json, text/event-stream;q=0"])
@pytest.mark.slow
def test_a_client_that_reads_only_json_gets_json(accept):
    server = mcplite.Server("plain", limits=tight(commit_seconds=0.05))
    going = threading.Event()

    @server.tool()
    def talk(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        ctx.warning("careful")
        going.wait(0.3)  # longer than a response is held back else
        ctx.report_progress(2)
        return "done"

    @server.tool()
    def question(ctx: mcplite.Context) -> str:
        if ctx.can_elicit:
            return "can"
        return ctx.elicit("Which?", {"type": "object", "properties": {}}).action

    endpoint = make(server)
    client = Client(endpoint, elicitation={})
    told = client.send(ask_tool("talk", token=1), accept=accept)
    assert not told.streaming and body(told)["result"]["content"][0]["text"] == "done"
    asked = body(client.send(ask_tool("question"), accept=accept))
    assert "'Accept: application/json, text/event-stream'" in str(asked)
    streamed = client.send(ask_tool("talk", token=1))
    assert streamed.streaming
    streamed.close()
    modern = stateless.call("talk", id=4)
    modern["params"]["_meta"]["progressToken"] = 1
    answer = endpoint.handle(request("POST", modern, accept=accept, mcp_protocol_version=stateless.MODERN,
                                     mcp_method="tools/call", mcp_name="talk"))
    assert not answer.streaming and body(answer)["result"]["content"][0]["text"] == "done"
    listening = stateless.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=5)
    refused = endpoint.handle(request("POST", listening, accept=accept, mcp_protocol_version=stateless.MODERN,
                                      mcp_method="subscriptions/listen"))
    assert refused.status == 406 and body(refused)["id"] == 5
    endpoint.close(5)


@pytest.mark.parametrize("text, status, code", [
    (b"{", 400, -32700), (b"", 400, -32700), (b"\xff", 400, -32700), (b"[]", 400, -32600), (b"1", 400, -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
    (b"[" + b"{}," * 200_000 + b"{}]", 413, -32600), (b" " * (5 << 20), 413, -32600),
])
def test_bodies_that_are_not_messages(endpoint, text, status, code):
    # HTTP-07, SEC-05
    answer = Client(endpoint).send(body=text)
    assert answer.status == status and body(answer)["error"]["code"] == code


def test_the_body_is_not_read_if_the_headers_are_refused(endpoint):
    # SEC-04
    def read(limit):
        raise AssertionError("read")

    for change in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"content-type": "text/plain"}):
        headers = {"host": "localhost", "accept": BOTH, "content-type": "application/json", **change}
        answer = endpoint.handle(HTTPRequest("POST", "/mcp", Headers(headers.items()), read=read))
        assert answer.status in (403, 415, 421) and header(answer, "Connection") == "close"


def test_other_paths(endpoint):
    assert endpoint.handle(request("POST", opening(), path="/")).status == 404
    assert endpoint.handle(request("POST", opening(), path="/mcp/")).status == 200
    assert "the endpoint is /mcp" in endpoint.handle(request("GET", path="/other")).content.decode()


def test_the_version_of_a_session_is_checked_where_it_is_known(endpoint):
    # HDR-03, HDR-05, HDR-08
    old = Client(endpoint, "2025-03-26")
    assert old.send(call("ping"), mcp_protocol_version="2025-11-25").status == 200
    assert old.send(call("ping")).status == 200
    new = Client(endpoint, "2025-06-18")
    assert new.send(call("ping"), mcp_protocol_version="2025-11-25").status == 400
    refused = new.send(call("ping"), mcp_protocol_version="no")
    assert body(refused)["error"]["data"]["supported"] == [revision.name for revision in reversed(REVISIONS)]


def test_notifications_and_responses_are_accepted(endpoint):
    # HTTP-06
    client = Client(endpoint)
    for message in ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
                    {"jsonrpc": "2.0", "id": 5, "result": {}},
                    {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}}):
        answer = client.send(message)
        assert answer.status == 202 and answer.content == b""


def test_batches(endpoint):
    # RPC-21 to RPC-27
    two = [call("ping", id="a"), ask_tool("add", {"a": 1, "b": 1}, "b")]
    notifications = [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}] * 2
    client = Client(endpoint, "2025-03-26")
    answer = client.send(two)
    assert answer.status == 200 and {item["id"] for item in body(answer)} == {"a", "b"}
    assert client.send(notifications).status == 202
    assert client.send([*two, {"jsonrpc": "2.0", "id": 1, "result": {}}]).status == 400
    assert client.send([{"jsonrpc": "2.0", "id": 1, "result": {}}]).status == 202
    assert "error" in body(client.send([call("ping"), 5]))[1]
    for version in CHECKED:
        assert Client(endpoint, version).send(two).status == 400


# --- streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", STREAMABLE)
def test_a_message_before_the_response_makes_a_stream(endpoint, version):
    # HTTP-10, HTTP-11, HTTP-15, RES-01, RES-02
    client = Client(endpoint, version)
    answer = client.send(ask_tool("report", token="t"))
    assert answer.status == 200 and header(answer, "Content-Type") == "text/event-stream"
    found = events(answer)
    if version == "2025-11-25":
        (id, data), *found = found
        assert data is None and id
    assert [data.get("method", "answer") for _, data in found] == ["notifications/progress", "answer"]
    ids = [id for id, _ in found] + [id for id, _ in events(client.send(ask_tool("report", token="t", id=2)))]
    assert len(set(ids)) == len(ids) and all(ids)
    answer.close()


def test_a_question_is_sent_on_the_stream_of_its_call(endpoint):
    # HTTP-12, HTTP-26
    client = Client(endpoint, elicitation={})
    answer = client.send(ask_tool("ask", id=8))
    _, (_, question) = events(answer, 2)
    assert question["method"] == "elicitation/create"
    assert client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}).status == 202
    assert events(answer)[-1][1]["result"]["content"][0]["text"] == "accept"


def test_a_stream_that_broke_is_resumed_and_only_that_one(endpoint):
    # RES-04 to RES-07, HTTP-20
    client = Client(endpoint)
    one, two = client.send(ask_tool("report", token=1, id=1)), client.send(ask_tool("report", token=2, id=2))
    primed = events(one, 1)[0][0]
    one.close()
    events(two)
    again = client.send(method="GET", last_event_id=primed)
    assert again.status == 200
    replayed = [data for _, data in events(again)]
    assert [data.get("id") for data in replayed] == [None, 1]
    assert all(data.get("params", {}).get("progressToken", 1) == 1 for data in replayed)


@pytest.mark.parametrize("id", ["x", "1", "1-x", "99-1", "0-99", "-1-1", "1-" + "9" * 30, "1-1-1", "٣-١", ""])
def test_unknown_event_ids(endpoint, id):
    # 400 and not 404, which would end the session.
    client = Client(endpoint)
    assert client.send(method="GET", last_event_id=id).status == 400
    assert client.send(call("ping")).status == 200


def test_events_of_another_session(endpoint):
    client, other = Client(endpoint), Client(endpoint)
    answer = client.send(ask_tool("report", token=1))
    last = events(answer)[0][0]
    assert other.send(method="GET", last_event_id=last).status == 400


def test_notifications_are_sent_on_the_get_stream(mcp, endpoint):
    client = Client(endpoint)
    stream = client.send(method="GET")
    assert stream.status == 200 and stream.streaming
    assert client.send(method="GET").status == 409  # HTTP-31, SEC-55
    mcp.add_tool(lambda: None, name="late", description="d")
    assert events(stream, 2)[1][1]["method"] == "notifications/tools/list_changed"
    stream.close()
    assert client.send(method="GET").status == 200
    assert client.send(method="GET", accept="application/json").status == 406


def test_a_call_can_ask_its_client_to_reconnect(mcp, endpoint):
    # HTTP-14 to HTTP-16
    going = threading.Event()

    @mcp.tool()
    def long(ctx: mcplite.Context) -> bool:
        closed = ctx.close_stream(0.25)
        going.wait(LIMIT)
        return closed

    client = Client(endpoint)
    first = client.send(ask_tool("long", id=3))
    raw = b"".join(first.body).decode()
    assert "retry: 250" in raw and '"id":3' not in raw
    going.set()
    id = raw.split("\n")[0][4:]
    assert events(client.send(method="GET", last_event_id=id))[-1][1]["result"]["structuredContent"] == {"result": True}
    old = Client(endpoint, "2025-06-18")
    assert body(old.send(ask_tool("long")))["result"]["structuredContent"] == {"result": False}


# --- limits ------------------------------------------------------------------------------------------------------


def test_exceeded_limits_are_answered_with_503_and_retry_after():
    # REL-37
    limits = tight(sessions=2, streams=1, commit_seconds=0.01)
    endpoint = make(mcplite.Server("small", limits=limits))
    one, two = Client(endpoint, elicitation={}), Client(endpoint, elicitation={})
    used = [client.send(ask_tool("ask", id=9)) for client in (one, two)]
    full = endpoint.handle(request("POST", opening()))
    assert full.status == 503 and header(full, "Retry-After") == "1" and header(full, "Mcp-Session-Id") is None
    for client, response in zip((one, two), used):
        response.close()
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})
    stream = one.send(method="GET")
    newer = two.send(method="GET")
    assert newer.status == 200 and not any(message for _, message in events(stream)) and one.send(method="GET").status == 200
    newer.close()
    stream.close()
    one.send(method="DELETE")
    assert Client(endpoint).opened.status == 200
    endpoint.close(0.1)


# --- other modes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, *STREAMABLE])
def test_stateless(version):
    # HDR-03
    endpoint = make(stateless=True)
    headers = {} if version is None else {"mcp_protocol_version": version}
    answer = endpoint.handle(request("POST", ask_tool("add", {"a": 2, "b": 2}), **headers))
    assert body(answer)["result"]["content"][0]["text"] == "4"
    assert ("structuredContent" in body(answer)["result"]) is (version in CHECKED)
    opened = endpoint.handle(request("POST", opening()))
    assert opened.status == 200 and header(opened, "Mcp-Session-Id") is None
    assert body(opened)["result"]["capabilities"] == {"tools": {}}
    assert events(endpoint.handle(request("POST", ask_tool("report", token=1))))[-1][1]["result"]
    assert body(endpoint.handle(request("POST", ask_tool("can"), **headers)))["result"]["content"][0]["text"] == "false"
    for method in ("GET", "DELETE"):
        answer = endpoint.handle(request(method))
        assert answer.status == 405 and header(answer, "Allow") == "POST"
    assert endpoint.handle(request("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
    endpoint.close(0.1)


def test_a_first_notification_without_a_session_finds_the_lifespan_entered():
    seen, done = [], threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield "database"
        seen.append("left")

    mcp = mcplite.Server("demo", lifespan=lifespan)

    def note(params, session):
        seen.append(session.runtime.lifespan_value)
        done.set()

    mcp.add_notification("notifications/acme/hi", note)
    endpoint = make(mcp, stateless=True)
    assert endpoint.handle(request("POST", {"jsonrpc": "2.0", "method": "notifications/acme/hi"})).status == 202
    assert done.wait(LIMIT)
    endpoint.close(0.1)
    assert seen == ["database", "left"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_notifications_that_wait_for_a_handler_are_bounded(version):
    began, go, seen = threading.Event(), threading.Event(), []

    def note(params, session):
        began.set()
        assert go.wait(LIMIT)
        seen.append(params["number"])

    mcp = mcplite.Server("demo", limits=tight(memory_bytes=1 << 20, running=1))  # 64 KiB for what is queued
    mcp.add_notification("notifications/acme/hi", note)
    endpoint = make(mcp)
    headers = {"mcp_protocol_version": version}
    if version < "2026":
        headers["mcp_session_id"] = header(endpoint.handle(request("POST", opening(version))), "Mcp-Session-Id")
    for number in range(10):
        message = {"jsonrpc": "2.0", "method": "notifications/acme/hi", "params": {"number": number, "text": "x" * 30_000}}
        assert endpoint.handle(request("POST", message, **headers)).status == 202
        assert began.wait(LIMIT)
    go.set()
    assert mcp.runtime.workers.drain(Deadline(LIMIT))
    assert seen == [0, 1, 2]
    endpoint.close(0.1)


def test_a_lifespan_that_begins_while_the_endpoint_is_closed_is_left():
    seen, began, go = [], threading.Event(), threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        began.set()
        assert go.wait(LIMIT)
        seen.append("entered")
        yield
        seen.append("left")

    endpoint = make(mcplite.Server("demo", lifespan=lifespan))
    answers = []
    clients = [threading.Thread(target=lambda: answers.append(endpoint.handle(request("POST", opening())))) for _ in range(2)]
    for client in clients:
        client.start()
    assert began.wait(LIMIT)
    endpoint.close(0.1)
    go.set()
    for client in clients:
        client.join(LIMIT)
    assert seen == ["entered", "left"]
    assert [(answer.status, header(answer, "Retry-After")) for answer in answers] == [(503, "1")] * 2


def test_a_question_without_a_session_fails_with_advice():
    endpoint = make(stateless=True)
    answer = body(endpoint.handle(request("POST", ask_tool("ask"))))["result"]
    assert answer["isError"] and "stateless" in answer["content"][0]["text"]
    endpoint.close(0.1)


def test_a_second_initialize_within_a_session(endpoint):
    # As the official SDK for Python has it: the session is the same, its client and revision are those of the new handshake.
    client = Client(endpoint, STREAMABLE[0])
    again = client.send(opening(STREAMABLE[-1], elicitation={}))
    assert again.status == 200 and body(again)["result"]["protocolVersion"] == STREAMABLE[-1]
    assert header(again, "Mcp-Session-Id") == client.headers["mcp_session_id"]
    assert client.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
    assert body(client.send(ask_tool("can")))["result"]["structuredContent"] == {"result": True}
    stream = client.send(ask_tool("report", token=1))
    assert events(stream, 1)[0][1] is None, "the empty event of the new revision"
    refused = client.send(call("initialize"))
    assert refused.status == 200 and body(refused)["error"]["code"] == -32602
    assert client.send(opening(), mcp_session_id="x" * 40).status == 404
    assert client.send(opening(STREAMABLE[-1]), mcp_protocol_version=STREAMABLE[1]).status == 400  # HDR-08
    assert body(client.send(ask_tool("add", {"a": 1, "b": 2})))["result"]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("version", STREAMABLE)
def test_any_process_of_a_fleet_without_a_backend_serves_any_message(version):
    one, two = (make(mcplite.Server("fleet", fleet=True, state_keys=[KEY])) for _ in range(2))
    opened = one.handle(request("POST", opening(version)))
    assert opened.status == 200 and header(opened, "Mcp-Session-Id") is None
    for endpoint in (one, two):
        for headers in ({}, {"mcp_protocol_version": version}, {"mcp_session_id": "of another server"}):
            answer = endpoint.handle(request("POST", ask_tool("add", {"a": 2, "b": 3}), **headers))
            assert body(answer)["result"]["content"][0]["text"] == "5"
        assert endpoint.handle(request("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        for method in ("GET", "DELETE"):
            assert endpoint.handle(request(method)).status == 405
        asked = body(endpoint.handle(request("POST", ask_tool("ask"), mcp_protocol_version=version)))["result"]
        assert asked["isError"] and "Server(backend=...)" in asked["content"][0]["text"]
        assert len(endpoint.sessions) == 0
        endpoint.close(0.1)


def test_the_oldest_transport_beside_the_new_one():
    # LSSE-01 to LSSE-10
    endpoint = make(path="/api/mcp", legacy_sse=True)
    stream = endpoint.handle(request("GET", path="/api/sse"))
    parts = iter(stream.body)
    first = next(parts).decode()
    assert first.startswith("event: endpoint\ndata: /api/messages?session_id=")
    query = first.split("?")[1].strip()
    answer = endpoint.handle(request("POST", opening("2024-11-05"), path="/api/messages", query=query))
    assert answer.status == 202
    assert b'"protocolVersion":"2024-11-05"' in next(parts)
    for change, status in (({"method": "GET"}, 405), ({"content_type": "text/plain"}, 415), ({"query": "session_id=x"}, 404),
                           ({"body": b"{"}, 400), ({"body": b" " * (5 << 20)}, 413)):
        change = {"method": "POST", "message": call("ping"), "path": "/api/messages", "query": query, **change}
        assert endpoint.handle(request(change.pop("method"), **change)).status == status
    assert endpoint.handle(request("POST", path="/api/sse")).status == 405
    assert endpoint.handle(request("GET", path="/api/sse", accept="text/html")).status == 406
    stream.close()
    assert endpoint.handle(request("POST", call("ping"), path="/api/messages", query=query)).status == 404
    endpoint.close(0.1)


def test_routes_and_cors(endpoint):
    endpoint = make(routes={"/health": lambda request: (200, "text/plain", b"ok")}, allowed_origins=["https://app.example"])
    assert endpoint.handle(request("GET", path="/health")).content == b"ok"
    assert endpoint.handle(request("GET", path="/health", host="evil.example")).status == 421
    answer = endpoint.handle(request("POST", opening(), origin="https://app.example"))
    assert header(answer, "Access-Control-Allow-Origin") == "https://app.example" and header(answer, "Vary") == "Origin"
    assert "Mcp-Session-Id" in header(answer, "Access-Control-Expose-Headers")
    asked = endpoint.handle(request("OPTIONS", origin="https://app.example", access_control_request_method="POST"))
    assert asked.status == 204 and "DELETE" in header(asked, "Access-Control-Allow-Methods")
    assert [name for name, _ in asked.headers].count("Access-Control-Allow-Origin") == 1  # two would be none to a browser
    local = endpoint.handle(request("OPTIONS", origin="http://localhost:3000", access_control_request_method="POST"))
    assert local.status == 405 and header(local, "Access-Control-Allow-Origin") is None
    endpoint.close(0.1)


@pytest.mark.parametrize("headers", [{"Access-Control-Allow-Origin": "*", "X-Card": "ä"}, {"X-Card": "ä"},
                                     [("access-control-allow-origin", "https://site.example"), ("X-Card", "ä")]])
def test_a_route_sets_headers_and_answers_foreign_origins(headers):
    called = []

    def card(request):
        called.append(request.method)
        return 200, "application/json", b"{}", headers

    def plain(request):
        called.append(request.method)
        return 200, "text/plain", b"x", headers

    card.any_origin = True
    endpoint = make(routes={"/card": card, "/plain": plain},
                    allowed_origins=["https://app.example"])
    for origin in ("https://site.example", "null", "https://app.example", None):
        answer = endpoint.handle(request("GET", path="/card", origin=origin))
        names = [name.lower() for name, _ in answer.headers]
        assert (answer.status, answer.content, header(answer, "X-Card")) == (200, b"{}", "ä")
        assert names.count("access-control-allow-origin") == 1
    assert endpoint.handle(request("OPTIONS", path="/card", origin="https://site.example")).status == 200
    assert header(endpoint.handle(request("GET", path="/plain")), "X-Card") == "ä"
    # A page of another origin can neither change anything, nor use what does not say so, nor name another host.
    called.clear()
    for refused in (request("POST", path="/card", origin="https://site.example"),
                    request("GET", path="/plain", origin="https://site.example"), request("GET", origin="https://site.example")):
        assert endpoint.handle(refused).status == 403
    assert endpoint.handle(request("GET", path="/card", origin="https://site.example", host="evil.example")).status == 421
    assert called == []
    endpoint.close(0.1)


@pytest.mark.parametrize("headers", [{"X": "a\r\nb"}, {"Content-Length": "1"}, {"content-type": "a/b"}, {"Bad Name": "x"},
                                     {"X": 5}, 5])
def test_headers_that_a_route_cannot_set_are_an_error(headers, caplog):
    endpoint = make(routes={"/card": lambda request: (200, "text/plain", b"", headers)})
    assert endpoint.handle(request("GET", path="/card")).status == 500 and "'/card' failed" in caplog.text
    endpoint.close(0.1)


@pytest.mark.parametrize("route", [b"ok", "ok", {"status": 200}, (200, "text/plain", b"ok"), None])
def test_a_route_that_is_no_function_is_refused(route):
    with pytest.raises(mcplite.errors.RegistrationError, match="give '/card' a function"):
        make(routes={"/card": route})


@pytest.mark.parametrize("options", [{"path": "mcp"}, {"allowed_hosts": "example.com"}, {"allowed_hosts": ["http://x"]},
                                     {"allowed_origins": ["app.example"]}])
def test_invalid_options_are_refused(options):
    with pytest.raises(ValueError):
        make(**options)


# --- anything at all ---------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30)
HEADERS = st.dictionaries(st.sampled_from([
    "host", "origin", "accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "content-encoding",
    "access-control-request-method"]), st.one_of(TEXT, st.sampled_from(
        ["localhost", BOTH, "application/json", "2025-11-25", "2025-03-26", "1-1", "http://localhost", "text/event-stream"])))
BODIES = st.one_of(st.binary(max_size=60), st.sampled_from([
    json.dumps(message).encode()
    for message in (opening(), call("ping"), [call("ping")], {"jsonrpc": "2.0", "id": 1, "result": 1})]))


@given(method=st.sampled_from(["GET", "POST", "DELETE", "OPTIONS", "X"]), headers=HEADERS, content=BODIES, local=st.booleans(),
       stateless=st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_request_is_answered(method, headers, content, local, stateless):
    endpoint = make(stateless=stateless)
    if local:
        headers = {**headers, "host": "localhost", "content-type": "application/json", "accept": BOTH}
        headers.pop("origin", None)
    response = endpoint.handle(HTTPRequest(method, "/mcp", Headers(headers.items()), read=lambda limit: content))
    assert response.status in (200, 202, 204, 400, 403, 404, 405, 406, 413, 415, 421)
    response.close()
    endpoint.close(0.1)


def test_the_oldest_transport_is_for_clients_with_a_handshake():
    with pytest.raises(ValueError, match="era='modern'"):
        make(mcplite.Server("modern", options=mcplite.ServerOptions(era="modern")), legacy_sse=True)

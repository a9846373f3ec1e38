"""Clients without a handshake: what each request must say, and what each answer does, on a pipe and over HTTP."""

import json
import logging

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.revisions import REVISIONS
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from tests.support import connecting, stateless
from tests.support.stateless import MODERN, PREFIX, Web, call, message, meta

NAMES = [revision.name for revision in reversed(REVISIONS)]
GONE = ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize", "tasks/list"]


def make(**options):
    mcp = connecting.new_server("demo", version="1.5", instructions="Use it.", **options)

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool()
    def speak(ctx: mcplite.Context) -> str:
        ctx.log("debug", "quiet")
        ctx.log("warning", "loud")
        return "spoken"

    @mcp.tool()
    def refuse(code: int) -> str:
        raise mcplite.RemoteError("no", code=code, data={"why": 1})

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Well?").action

    @mcp.tool()
    def who(ctx: mcplite.Context) -> dict:
        return {"info": None if ctx.client_info is None else ctx.client_info.name, "trace": ctx.trace_context,
                "extensions": ctx.extensions, "version": ctx.protocol_version, "elicit": ctx.can_elicit}

    @mcp.resource("memo://greeting")
    def greeting() -> str:
        return "hello"

    @mcp.prompt()
    def greet() -> str:
        return "Say hello."

    return mcp


@pytest.fixture
def web():
    web = Web(make())
    yield web
    web.close()


# --- what a server says of itself ---------------------------------------------------------------------


def test_discover(way):
    answer, _ = way(make(extensions={"com.example/charts": {"colours": 3}})).send(message("server/discover"))
    result = answer["result"]
    assert result.pop("_meta") == {PREFIX + "serverInfo": {"name": "demo", "version": "1.5"}}
    assert result == {  # DISC-03
        "resultType": "complete", "supportedVersions": NAMES, "instructions": "Use it.", "ttlMs": 0, "cacheScope": "private",
        "capabilities": {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "logging": {},
                         "resources": {"subscribe": True, "listChanged": True},
                         "extensions": {"com.example/charts": {"colours": 3}}}}


def test_every_result_has_a_type_and_the_server_info(way):
    there = way(make())
    for request in (call("add", {"a": 1, "b": 2}), message("tools/list"), message("resources/list"), message("prompts/list"),
                    message("resources/templates/list"), message("resources/read", {"uri": "memo://greeting"}),
                    message("prompts/get", {"name": "greet"})):
        result = there.send(request)[0]["result"]
        assert result["resultType"] == "complete", request  # STAT-06
        assert result["_meta"][PREFIX + "serverInfo"] == {"name": "demo", "version": "1.5"}  # STAT-10
        listed = request["method"] not in ("tools/call", "prompts/get")
        assert ("ttlMs" in result) is ("cacheScope" in result) is listed  # CACHE-01


def test_a_server_of_one_era_says_so(way):
    result = way(make(era="modern")).send(message("server/discover"))[0]["result"]
    assert result["supportedVersions"] == [MODERN]


# --- what a request must say ----------------------------------------------------------------------------


@pytest.mark.parametrize("said, text", [
    ({PREFIX + "protocolVersion": 3}, "protocolVersion"),
    ({PREFIX + "protocolVersion": None}, "protocolVersion"),
    ({PREFIX + "clientCapabilities": None}, "clientCapabilities"),
    ({PREFIX + "clientCapabilities": [1]}, "clientCapabilities"),
    ({PREFIX + "clientCapabilities": {"roots": 3}}, "roots"),
    ({PREFIX + "clientInfo": {"name": "x"}}, "version"),
    ({PREFIX + "clientInfo": "x"}, "_meta"),
    ({PREFIX + "logLevel": 3}, "logLevel"),
    ({PREFIX + "logLevel": "chatty"}, "chatty"),
])
def test_invalid_envelopes_are_refused(way, said, text):
    request = call("add", {"a": 1, "b": 2})
    request["params"]["_meta"].update(said)
    there = way(make())
    error = there.send(request)[0]["error"]
    assert error["code"] == -32602 and text in error["message"]  # STAT-03
    assert there.send(call("add", {"a": 1, "b": 2}))[0]["result"]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("version", ["2099-01-01", "2025-11-25", "2024-11-05", ""])
def test_unsupported_versions_are_refused(way, version):
    there = way(make())
    request = call("add", {"a": 1, "b": 2}, version=version)
    if isinstance(there, Web):
        there.status = there.respond(request, MCP_Protocol_Version=version).status
        answer = json.loads(there.respond(request, MCP_Protocol_Version=version).content)
        assert there.status == 400
    else:
        answer, _ = there.send(request)
    assert answer["error"]["code"] == -32022  # STAT-16, ERA-23
    assert answer["error"]["data"] == {"supported": NAMES, "requested": version}


@pytest.mark.parametrize("method", [*GONE, "no/such", ""])
def test_unknown_methods(way, method):
    there = way(make())
    assert there.send(message(method))[0]["error"]["code"] == -32601
    assert not isinstance(there, Web) or there.status == 404  # H26-24


def test_a_method_without_its_capability_does_not_exist(way):
    mcp = mcplite.Server("empty")
    assert way(mcp).send(message("tools/list"))[0]["error"]["code"] == -32601  # RPC-18


def test_a_modern_server_answers_a_handshake_with_its_versions(way):
    there = way(make(era="modern"))
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}
    error = there.send(request)[0]["error"]
    assert error["code"] == -32022 and error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}  # ERA-21


def test_client_facts_are_those_of_the_request(way):
    there = way(make())
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    said = dict(info={"name": "ada", "version": "1"}, capabilities={"elicitation": {}, "extensions": {"com.example/x": {}}},
                traceparent=traceparent, baggage="k=v")
    assert there.send(call("who", **said))[0]["result"]["structuredContent"] == {
        "info": "ada", "trace": {"traceparent": traceparent, "baggage": "k=v"}, "extensions": {"com.example/x": {}},
        "version": MODERN, "elicit": True}
    assert there.send(call("who", id=2))[0]["result"]["structuredContent"] == {  # STAT-13
        "info": None, "trace": {}, "extensions": {}, "version": MODERN, "elicit": False}


def test_logs_go_only_to_requests_with_a_log_level(way):
    there = way(make())
    _, before = there.send(call("speak", level="info"))
    assert [note["params"]["data"] for note in before if note["method"] == "notifications/message"] == ["loud"]
    before.clear()
    _, before = there.send(call("speak", id=2))
    assert before == []


# --- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raised, sent", [(-31000, -31000), (7, 7), (-32602, -32602), (-32002, -32602), (-32050, -32603),
                                          (-32042, -32603), (-32020, -32603), (-32021, -32603), (-32022, -32603),
                                          (-32000, -32000)])
def test_reserved_error_codes_are_not_sent(way, raised, sent):
    there = way(make())
    error = there.send(call("refuse", {"code": raised}))[0]["error"]
    assert error == {"code": sent, "message": "no", "data": {"why": 1}}  # ERR-01, ERR-06
    assert not isinstance(there, Web) or there.status == 200  # a handler's error is an answer


def test_a_resource_that_is_not_there(way):
    error = way(make()).send(message("resources/read", {"uri": "memo://none"}))[0]["error"]
    assert error["code"] == -32602 and error["data"] == {"uri": "memo://none"}  # ERR-06


def test_a_capability_that_the_client_lacks(way):
    there = way(make())
    error = there.send(call("ask"))[0]["error"]
    assert error["code"] == -32021 and error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    assert not isinstance(there, Web) or there.status == 400  # STAT-15


# --- on a pipe --------------------------------------------------------------------------------------------


def test_both_eras_on_one_pipe_message_by_message(connect):
    # ERA-18 to ERA-20
    client = connect(make(), revision=None)
    client.send(call("add", {"a": 1, "b": 2}, id="m1"))
    assert client.answer("m1")["result"]["structuredContent"] == {"result": 3}
    client.initialize()
    client.send(call("add", {"a": 2, "b": 2}, id="m2"))
    assert client.answer("m2")["result"]["structuredContent"] == {"result": 4}
    assert client.call("add", {"a": 5, "b": 5})["structuredContent"] == {"result": 10}
    assert client.error("server/discover")["code"] == -32601


def test_a_legacy_server_refuses_sessionless_requests(connect):
    client = connect(make(era="legacy"), revision=None)
    assert "initialize" in client.error("server/discover", {"_meta": meta()})["message"]
    client.initialize()
    assert client.error("server/discover", {"_meta": meta()})["code"] == -32601
    assert client.result("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta()})[
        "structuredContent"] == {"result": 3}


# --- over HTTP ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header, value", [
    ("MCP_Protocol_Version", None), ("MCP_Protocol_Version", "2025-11-25"), ("Mcp_Method", None), ("Mcp_Method", "tools/list"),
    ("Mcp_Name", None), ("Mcp_Name", "ad"), ("Mcp_Name", "Add"), ("Mcp_Name", "=?base64?!?="), ("Mcp_Name", "add, add")])
def test_headers_that_do_not_match_the_body_are_refused(web, header, value):
    # MHDR-03 to MHDR-06, H26-16
    response = web.respond(call("add", {"a": 1, "b": 2}), **{header: value})
    error = json.loads(response.content)["error"]
    assert (response.status, error["code"]) == (400, -32020)
    assert header.replace("_", "-").lower() in error["message"].lower()


def test_a_header_may_be_in_base64(web):
    response = web.respond(call("add", {"a": 1, "b": 2}), Mcp_Name="=?base64?YWRk?=")
    assert response.status == 200


def test_a_notification_is_accepted(web):
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"_meta": meta()}}
    assert web.respond(note).status == 202  # H26-05


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("era, version", [("modern", "2025-11-25"), (None, MODERN)])
def test_only_post_is_allowed_for_sessionless_requests(method, era, version):
    endpoint = make_endpoint(make(era=era).runtime)
    response = endpoint.handle(HTTPRequest(method, "/mcp", Headers([
        ("host", "127.0.0.1"), ("accept", stateless.BOTH), ("mcp-protocol-version", version)])))
    assert response.status == 405 and dict(response.headers)["Allow"] == "POST"  # H26-02
    endpoint.close(0.1)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "tools/list"])
@pytest.mark.parametrize("said", [None, {PREFIX + "clientCapabilities": {}}])
def test_an_incomplete_envelope_is_refused_with_what_is_missing(way, method, said):
    # STAT-03, DISC-05
    if said is None and method == "tools/list":
        said = {PREFIX + "clientCapabilities": {}, PREFIX + "protocolVersion": 5}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if said is None else {"_meta": said}}
    assert way(make()).error(request)["code"] == -32602


@pytest.mark.parametrize("header, value", [("MCP_Protocol_Version", "=?base64?MjAyNi0wNy0yOA==?="),
                                           ("Mcp_Method", "=?base64?dG9vbHMvY2FsbA==?=")])
def test_version_and_method_headers_are_never_in_base64(web, header, value):
    # MHDR-04
    response = web.respond(call("add", {"a": 1, "b": 2}), **{header: value})
    assert response.status == 400 and json.loads(response.content)["error"]["code"] == -32020


def test_a_tool_that_logs_a_lot_does_not_block_itself(web):
    mcp = web.mcp
    logger = logging.getLogger("test.modern.flood")
    handler = mcp.logging_handler()
    logger.addHandler(handler)
    logger.setLevel("INFO")

    @mcp.tool()
    def flood(lines: int) -> str:
        for number in range(lines):
            logger.info("line %d", number)
        return "flooded"

    try:
        answer, before = web.send(call("flood", {"lines": 600}, level="info"))
        assert answer["result"]["content"][0]["text"] == "flooded" and len(before) == 600
    finally:
        logger.removeHandler(handler)


def test_middleware_reads_and_changes_lists(way):
    def fewer(context, proceed):
        result = proceed()
        if context.method == "tools/list":
            result["tools"] = [tool for tool in result["tools"] if tool["name"] != "ask"]
        return result

    there = way(make(middleware=[fewer]))
    for _ in range(2):
        assert "ask" not in {tool["name"] for tool in there.result(message("tools/list"))["tools"]}


def test_a_handlers_meta_cannot_replace_the_server_info(way):
    mcp = make()

    @mcp.tool()
    def forge() -> mcplite.types.CallToolResult:
        return mcplite.types.CallToolResult(content=[], meta={PREFIX + "serverInfo": {"name": "x", "version": "0"}, "a": 1})

    meta = way(mcp).result(call("forge"))["_meta"]
    assert meta == {PREFIX + "serverInfo": {"name": "demo", "version": "1.5"}, "a": 1}

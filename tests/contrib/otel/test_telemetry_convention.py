"""Names and attributes of spans and metrics, against the semantic conventions for MCP, on both sides at once."""

import pytest

import mcplite

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the extra stack")

#: From the conventions: what a span of each side may have.
COMMON = {"mcp.method.name", "error.type", "gen_ai.prompt.name", "gen_ai.tool.name", "jsonrpc.request.id",
          "mcp.resource.uri", "rpc.response.status_code", "gen_ai.operation.name", "mcp.protocol.version",
          "mcp.session.id", "network.protocol.name", "network.protocol.version", "network.transport"}
CLIENT = COMMON | {"server.address", "server.port"}
SERVER = COMMON | {"client.address", "client.port"}
#: What metrics have is less.
UNBOUNDED = {"jsonrpc.request.id", "mcp.session.id", "mcp.resource.uri", "client.address", "client.port"}


def use(client):
    client.list_tools()
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert client.call_tool("fail").is_error
    assert client.read_resource("note://tea").contents[0].text == "note tea"
    with pytest.raises(mcplite.errors.ResourceNotFound):
        client.read_resource("note://none")
    client.get_prompt("greet", {"name": "Ann"})
    with pytest.raises(mcplite.errors.InvalidParams):
        client.call_tool("forget")


@pytest.mark.slow
def test_spans_of_both_sides_follow_the_conventions(pair):
    with pair.connect() as client:
        use(client)
        has_id = client.era == "legacy" and pair.transport in ("http", "waitress")
    names = ["tools/list", "tools/call add", "tools/call fail", "prompts/get greet"]
    for name in names:
        ours, theirs = pair.client.span(name), pair.server.span(name)
        assert (ours["kind"], theirs["kind"]) == ("SpanKind.CLIENT", "SpanKind.SERVER")
        # The server's span is the child of the client's.
        assert theirs["context"]["trace_id"] == ours["context"]["trace_id"]
        assert theirs["parent_id"] == ours["context"]["span_id"] and ours["parent_id"] is None
    for span in pair.client.spans:
        assert span["name"].split(" ")[0] == span["attributes"]["mcp.method.name"]
        assert set(span["attributes"]) <= CLIENT
    for span in pair.server.spans:
        assert set(span["attributes"]) <= SERVER and span["attributes"]["mcp.protocol.version"] == pair.revision
    call, served = pair.client.span("tools/call add")["attributes"], pair.server.span("tools/call add")["attributes"]
    network = {"memory": {}, "stdio": {"network.transport": "pipe"}}.get(
        pair.transport, {"network.transport": "tcp", "network.protocol.name": "http"})
    for attributes in (call, served):
        assert attributes["gen_ai.operation.name"] == "execute_tool" and attributes["gen_ai.tool.name"] == "add"
        assert attributes["mcp.protocol.version"] == pair.revision
        assert {key: attributes[key] for key in ("network.transport", "network.protocol.name")
                if key in attributes} == network
    assert call["jsonrpc.request.id"] == served["jsonrpc.request.id"]
    if has_id:
        assert call["mcp.session.id"] == served["mcp.session.id"]
    else:
        assert "mcp.session.id" not in call
    if "network.protocol.name" in network:
        assert call["server.address"] == "127.0.0.1" and f":{call['server.port']}/" in pair.target
        assert served["client.address"] == "127.0.0.1" and type(served.get("client.port", 1)) is int
    else:
        assert "server.address" not in call and "client.address" not in served
    prompt = pair.server.span("prompts/get greet")["attributes"]
    assert prompt["gen_ai.prompt.name"] == "greet" and "gen_ai.operation.name" not in prompt


@pytest.mark.slow
def test_errors_set_the_status_on_both_sides(pair):
    with pair.connect() as client:
        use(client)
        missing = str(client.revision.not_found)
    for recorded in (pair.client, pair.server):
        assert recorded.span("tools/call add")["status"] == {"status_code": "UNSET"}
        failed = recorded.span("tools/call fail")
        assert failed["attributes"]["error.type"] == "tool_error" and failed["status"]["status_code"] == "ERROR"
        assert "rpc.response.status_code" not in failed["attributes"]
        reads = {span["attributes"]["mcp.resource.uri"]: span for span in recorded.spans if span["name"] == "resources/read"}
        assert reads["note://tea"]["status"] == {"status_code": "UNSET"}
        assert reads["note://none"]["attributes"]["error.type"] == missing
        assert reads["note://none"]["attributes"]["rpc.response.status_code"] == missing
        assert reads["note://none"]["status"] == {"status_code": "ERROR", "description": "there is no such note"}
    # A name that the server does not know is no name of a span there: anything could be sent.
    unknown = pair.server.span("tools/call")
    assert unknown["attributes"]["error.type"] == "-32602" and "gen_ai.tool.name" not in unknown["attributes"]
    assert pair.client.span("tools/call forget")["attributes"]["error.type"] == "-32602"


@pytest.mark.slow
def test_durations_are_recorded_on_both_sides(pair):
    with pair.connect() as client:
        use(client)
    sides = [("client", pair.client, CLIENT)]
    if not pair.is_apart:
        sides.append(("server", pair.server, SERVER))
    for side, recorded, allowed in sides:
        points = recorded.points(f"mcp.{side}.operation.duration")
        by_tool = {point.attributes.get("gen_ai.tool.name"): point for point in points
                   if point.attributes["mcp.method.name"] == "tools/call"}
        assert by_tool["add"].count == 1 and "error.type" not in by_tool["add"].attributes
        assert by_tool["fail"].attributes["error.type"] == "tool_error"
        assert tuple(by_tool["add"].explicit_bounds) == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
        for point in points:
            assert set(point.attributes) <= allowed - UNBOUNDED
    [session] = pair.client.wait_for_points("mcp.client.session.duration")
    assert session.count == 1 and session.attributes["mcp.protocol.version"] == pair.revision
    assert "error.type" not in session.attributes


@pytest.mark.slow
def test_questions_are_operations_of_the_other_direction(pair):
    with pair.connect(elicitation_handler=lambda request: {}) as client:
        asking = pair.revision >= "2025-06-18"  # the first revision with elicitation
        result = client.call_tool("ask")
    assert result.is_error is not asking
    if not asking:
        return
    call, served = pair.client.span("tools/call ask"), pair.server.span("tools/call ask")
    asked, answered = pair.server.span("elicitation/create"), pair.client.span("elicitation/create")
    assert (asked["kind"], answered["kind"]) == ("SpanKind.CLIENT", "SpanKind.SERVER")
    assert served["parent_id"] == call["context"]["span_id"] and asked["parent_id"] == served["context"]["span_id"]
    if "jsonrpc.request.id" in asked["attributes"]:
        assert answered["parent_id"] == asked["context"]["span_id"]
        assert answered["attributes"]["jsonrpc.request.id"] == asked["attributes"]["jsonrpc.request.id"]
    else:
        # The question came in the result of the call, where no trace context has a place.
        assert client.revision.modern and answered["parent_id"] == call["context"]["span_id"]
    assert {span["context"]["trace_id"] for span in (call, served, asked, answered)} == {call["context"]["trace_id"]}
    assert pair.client.points("mcp.server.operation.duration")[0].attributes["mcp.method.name"] == "elicitation/create"


def test_the_arguments_and_results_of_tools_are_recorded_on_demand_only(make_pair):
    pair = make_pair()
    with pair.connect() as client:
        client.call_tool("add", {"a": 1, "b": 2})
    with pair.connect(content=True) as client:
        client.call_tool("add", {"a": 3, "b": 4})
    without, whole = [span["attributes"] for span in pair.client.spans if span["name"] == "tools/call add"]
    assert not any(key.startswith("gen_ai.tool.call") for key in without)
    assert whole["gen_ai.tool.call.arguments"] == '{"a": 3, "b": 4}'
    assert whole["gen_ai.tool.call.result"] == '{"result": 7}'
    assert all("gen_ai.tool.call.arguments" not in point.attributes
               for point in pair.client.points("mcp.client.operation.duration"))

"""Spans on a server: what is current in a handler, parents and links, sessions, a fleet, and what is off."""

import contextlib
import json

import pytest

import mcplite
from mcplite.contrib import otel

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the extra stack")

from opentelemetry import baggage, context, trace  # noqa: E402

from tests.support.wsgi import serving_wsgi  # noqa: E402

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.slow
def test_the_span_of_a_request_is_current_in_its_handler(pair):
    with pair.connect() as client:
        token = context.attach(baggage.set_baggage("user", "ann"))
        try:
            seen = client.call_tool("current").structured_content or {}
        finally:
            context.detach(token)
        if not seen:  # before there was structured output
            seen = json.loads(client.call_tool("current").text)
    served = [span for span in pair.server.spans if span["name"] == "tools/call current"]
    assert "0x" + seen["span"] in [span["context"]["span_id"] for span in served]
    assert "0x" + seen["trace"] in [span["context"]["trace_id"] for span in served]


def test_baggage_reaches_the_handler(make_pair):
    with make_pair(transport="http").connect() as client:
        token = context.attach(baggage.set_baggage("user", "ann & bob"))
        try:
            assert client.call_tool("current").structured_content["baggage"] == {"user": "ann & bob"}
        finally:
            context.detach(token)
        assert client.call_tool("current").structured_content["baggage"] == {}


def test_a_plain_client_names_the_parent_in_meta(make_pair):
    pair = make_pair()
    with mcplite.connect(pair.target, revision=pair.revision) as client:
        client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, meta={"traceparent": PARENT})
        client.request("tools/call", {"name": "fail"}, meta={"traceparent": "nonsense"})
    span = pair.server.span("tools/call add")
    assert (span["context"]["trace_id"], span["parent_id"]) == ("0x" + TRACE, "0x" + SPAN)
    assert pair.server.span("tools/call fail")["parent_id"] is None


def test_the_current_span_of_the_thread_that_brings_a_request_is_its_parent_or_is_linked(make_pair):
    server = mcplite.Server("ambient")
    pair = make_pair(server=server)
    server.add_tool(plain)
    application, tracer, around = server.wsgi("/mcp"), pair.server.tracers.get_tracer("site"), []

    def site(environ, start_response):
        """As an instrumentation of WSGI does."""
        with tracer.start_as_current_span("POST") as span:
            around.append(f"0x{span.get_span_context().span_id:016x}")
            return application(environ, start_response)

    with serving_wsgi(site) as url, mcplite.connect(url, revision="2026-07-28") as client:
        client.call_tool("plain")
        client.request("tools/call", {"name": "plain"}, meta={"traceparent": PARENT})
    alone, named = [span for span in pair.server.spans if span["name"] == "tools/call plain"]
    assert alone["parent_id"] in around and alone["links"] == []
    assert named["parent_id"] == "0x" + SPAN
    [link] = named["links"]
    assert link["context"]["span_id"] in around


def test_a_parent_in_the_headers_counts_where_no_span_stands_for_http(make_pair):
    pair = make_pair(transport="http")
    with mcplite.connect(pair.target, headers={"traceparent": PARENT}) as client:
        client.call_tool("add", {"a": 1, "b": 2})
    span = pair.server.span("tools/call add")
    assert (span["context"]["trace_id"], span["parent_id"], span["links"]) == ("0x" + TRACE, "0x" + SPAN, [])


def plain() -> str:
    return "done"


def test_spans_of_a_handler_on_its_own_are_children_and_the_middleware_is_inside(make_pair):
    tracers = []

    def refuse(ctx, proceed):
        if ctx.params.get("name") == "plain":
            return proceed()
        raise mcplite.errors.InvalidParams("refused")

    server = mcplite.Server("inside", middleware=[refuse])
    pair = make_pair(server=server)

    @server.tool()
    def nested() -> str:
        return "never"

    @server.tool(name="plain")
    def traced() -> str:
        with tracers[0].start_as_current_span("query"):
            return "done"

    tracers.append(pair.server.tracers.get_tracer("handler"))
    with pair.connect() as client:
        assert client.call_tool("plain").text == "done"
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("nested")
    assert pair.server.span("query")["parent_id"] == pair.server.span("tools/call plain")["context"]["span_id"]
    assert pair.server.span("tools/call nested")["attributes"]["error.type"] == "-32602"


def test_an_exception_of_a_handler_is_the_error_that_the_client_gets(make_pair):
    server = mcplite.Server("broken")
    pair = make_pair(server=server)

    @server.prompt()
    def broken() -> str:
        raise KeyError("secret")

    with pair.connect() as client, pytest.raises(mcplite.RemoteError):
        client.get_prompt("broken")
    for recorded in (pair.server, pair.client):
        span = recorded.span("prompts/get broken")
        assert span["attributes"]["rpc.response.status_code"] == "-32603"
        assert span["status"] == {"status_code": "ERROR", "description": "Internal error"}


@pytest.mark.slow
def test_the_duration_of_sessions_is_recorded(pair):
    if pair.is_apart:
        return  # its metrics are not seen here
    with pair.connect() as client:
        client.list_tools()
        lasting = client.era == "legacy" or pair.transport == "memory"
    if not lasting:
        assert pair.server.points("mcp.server.session.duration") == []  # each request stands for itself
        return
    [point] = pair.server.wait_for_points("mcp.server.session.duration")
    assert point.count == 1 and point.attributes["mcp.protocol.version"] == pair.revision
    assert "error.type" not in point.attributes


def test_in_a_fleet_each_run_of_a_handler_has_a_span_and_a_question_is_no_error(make_pair):
    server = mcplite.Server("fleet", fleet=True, state_keys=["k" * 32])
    pair = make_pair(transport="http", server=server)

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("May I?").action

    with pair.connect(elicitation_handler=lambda request: {}) as client:
        assert client.call_tool("ask").text == "accept"
    served = [span for span in pair.server.spans if span["name"] == "tools/call ask"]
    assert [span["status"]["status_code"] for span in served] == ["UNSET", "UNSET"]
    assert {span["parent_id"] for span in served} == {pair.client.span("tools/call ask")["context"]["span_id"]}


def test_several_questions_at_once_are_siblings(make_pair):
    server = mcplite.Server("asking")
    pair = make_pair(server=server)

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        answers = ctx.ask({"one": mcplite.Elicit("One?"), "two": mcplite.Elicit("Two?")})
        return ",".join(answer.action for answer in answers.values())

    with pair.connect(elicitation_handler=lambda request: {}) as client:
        assert client.call_tool("ask").text == "accept,accept"
    handler = pair.server.span("tools/call ask")["context"]["span_id"]
    assert [span["parent_id"] for span in pair.server.spans if span["name"] == "elicitation/create"] == [handler] * 2


def test_a_refused_question_is_an_error_of_its_span(make_pair):
    pair = make_pair(revision="2025-11-25")

    def broken(request):
        raise ValueError("no terminal")

    with pair.connect(elicitation_handler=broken) as client:
        assert client.call_tool("ask").is_error
    for recorded in (pair.server, pair.client):
        assert recorded.span("elicitation/create")["attributes"]["error.type"] == "-32603"


def test_a_server_that_is_not_instrumented_has_no_observer_and_no_middleware():
    server = mcplite.Server("plain")
    assert server.runtime.observers == [] and server.runtime.catalog.middleware == ()
    assert otel.instrument_server(server) is server
    assert len(server.runtime.observers) == len(server.runtime.catalog.middleware) == 1


def test_without_a_provider_nothing_is_recorded_and_all_works(make_pair):
    server = otel.instrument_server(mcplite.Server("silent"))
    server.add_tool(plain)
    with contextlib.closing(server), otel.instrument_client(mcplite.connect(server)) as client:
        assert client.call_tool("plain").text == "done"
    assert not trace.get_current_span().get_span_context().is_valid

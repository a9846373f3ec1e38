"""Spans on a client: opening, the cache, timeouts, groups, headers over HTTP, and instrumentations of ``requests``."""

import contextlib
import io
import json
import threading

import pytest
import requests

import mcplite
from mcplite.contrib import otel

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the extra stack")

from opentelemetry import trace  # noqa: E402

from tests.support.wsgi import serving_wsgi  # noqa: E402

LIMIT = 60


@pytest.mark.slow
def test_the_first_requests_have_spans_too(pair):
    with pair.connect() as client:
        era = client.era
    first = pair.client.span("initialize" if era == "legacy" else "server/discover")
    assert first["kind"] == "SpanKind.CLIENT" and first["status"]["status_code"] == "UNSET"
    assert first["attributes"].get("mcp.protocol.version") == (pair.revision if era == "legacy" else None)
    if pair.transport in ("http", "waitress") and era == "legacy":
        assert first["attributes"]["mcp.session.id"]


@pytest.mark.slow
def test_calls_are_children_of_the_current_span(pair):
    with pair.connect() as client:
        with pair.client.tracers.get_tracer("agent").start_as_current_span("invoke_agent"):
            client.call_tool("add", {"a": 1, "b": 2})
        assert not trace.get_current_span().get_span_context().is_valid
    agent, call = pair.client.span("invoke_agent"), pair.client.span("tools/call add")
    assert call["parent_id"] == agent["context"]["span_id"]
    assert pair.server.span("tools/call add")["context"]["trace_id"] == agent["context"]["trace_id"]


def test_an_open_client_can_be_instrumented(make_pair):
    pair = make_pair(transport="http")
    with mcplite.connect(pair.target, revision="2025-11-25") as client:
        client.list_tools()
        otel.instrument_client(client, **pair.client.providers)
        client.call_tool("add", {"a": 1, "b": 2})
    assert [span["name"] for span in pair.client.spans] == ["tools/call add"]
    assert pair.server.span("tools/call add")["parent_id"] == pair.client.span("tools/call add")["context"]["span_id"]
    assert len(pair.client.points("mcp.client.session.duration")) == 1


def test_a_cached_result_is_no_operation(make_pair):
    server = mcplite.Server("cached", cache=mcplite.CacheHint(3600))
    server.add_tool(plain)
    pair = make_pair(server=server)
    with pair.connect() as client:
        client.list_tools()
        client.list_tools()
        client.list_tools(fresh=True)
    assert [span["name"] for span in pair.client.spans].count("tools/list") == 2


def plain() -> str:
    return "done"


def test_a_timeout_and_a_lost_connection_have_names_of_their_own(make_pair):
    server = mcplite.Server("slow")
    pair = make_pair(server=server)
    go = threading.Event()

    @server.tool()
    def wait(ctx: mcplite.Context) -> None:
        go.wait(LIMIT)

    client = pair.connect()
    with client:
        with pytest.raises(mcplite.RequestTimeout):
            client.call_tool("wait", timeout=0.2)
        go.set()
        client.fail(mcplite.errors.ConnectionClosed("cut"))
        with pytest.raises(mcplite.errors.ConnectionClosed):
            client.list_tools()
    span = pair.client.span("tools/call wait")
    assert span["attributes"]["error.type"] == "timeout" and "rpc.response.status_code" not in span["attributes"]
    [point] = pair.client.points("mcp.client.session.duration")
    assert point.attributes["error.type"] == "ConnectionClosed"


def test_questions_that_the_caller_answers_are_no_error(make_pair):
    pair = make_pair(transport="http")
    with pair.connect(elicitation_handler=lambda request: {}) as client:
        with pytest.raises(mcplite.errors.InputNeeded):
            client.request("tools/call", {"name": "ask"}, rounds=False)
    assert pair.client.span("tools/call ask")["status"]["status_code"] == "UNSET"


def test_a_group_is_instrumented_as_a_whole(make_pair):
    pair = make_pair(transport="http")
    config = {"mcpServers": {"one": {"url": pair.target}, "two": {"url": pair.target}}}
    with otel.instrument_client(mcplite.connect_all(config), **pair.client.providers) as group:
        for name in ("one", "two"):
            assert group[name].call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert [span["name"] for span in pair.client.spans].count("tools/call add") == 2
    assert sum(point.count for point in pair.client.points("mcp.client.session.duration")) == 2


@contextlib.contextmanager
def seeing_headers(seen):
    """A WSGI server that notes the method of each message, and the header traceparent."""
    server = mcplite.Server("seen")
    server.add_tool(plain)
    application = server.wsgi("/mcp")

    def noting(environ, start_response):
        if environ["REQUEST_METHOD"] == "POST":
            data = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = io.BytesIO(data)
            seen.append((json.loads(data)["method"], environ.get("HTTP_TRACEPARENT")))
        return application(environ, start_response)

    with serving_wsgi(noting) as url:
        yield url
        server.close()


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_headers_carry_the_trace_context_over_http(make_pair, revision):
    pair, seen = make_pair(), []
    with seeing_headers(seen) as url:
        client = mcplite.connect(url, revision=revision, options=mcplite.ClientOptions(listen=False))
        with otel.instrument_client(client, **pair.client.providers):
            client.call_tool("plain")
    span = pair.client.span("tools/call plain")["context"]
    assert dict(seen)["tools/call"].startswith(f"00-{span['trace_id'][2:]}-{span['span_id'][2:]}-")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_the_instrumentation_of_requests_works_together_with_it(make_pair, revision):
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.requests")
    pair, seen = make_pair(), []
    instrumentor = instrumentation.RequestsInstrumentor()
    instrumentor.instrument(tracer_provider=pair.client.tracers)
    try:
        with seeing_headers(seen) as url, requests.Session() as session:
            client = mcplite.connect(url, revision=revision, session=session, options=mcplite.ClientOptions(listen=False))
            with otel.instrument_client(client, **pair.client.providers):
                client.call_tool("plain")
    finally:
        instrumentor.uninstrument()
    call = pair.client.span("tools/call plain")["context"]
    posts = [span for span in pair.client.spans if span["parent_id"] == call["span_id"]]
    assert [span["name"] for span in posts] == ["POST"] and posts[0]["context"]["trace_id"] == call["trace_id"]
    # The request over HTTP names the span of the POST, and the message in it that of the call.
    assert dict(seen)["tools/call"].split("-")[2] == posts[0]["context"]["span_id"][2:]


def test_a_client_that_is_not_instrumented_sends_no_trace_context():
    seen = []
    with seeing_headers(seen) as url, mcplite.connect(url, revision="2025-06-18",
                                                      options=mcplite.ClientOptions(listen=False)) as client:
        client.call_tool("plain")
    assert dict(seen)["tools/call"] is None

"""HTTP requests as values, and what handlers see of them."""

import contextvars

import pytest
import requests

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from tests.support import connecting


def test_a_request_does_not_show_its_query():
    # The query may hold a token, and user-defined routes get the request.
    assert "s3cret" not in repr(HTTPRequest("GET", "/", Headers([]), "access_token=s3cret"))


def test_what_a_verifier_sets_is_seen_by_its_own_request_only():
    tenant = contextvars.ContextVar("tenant", default="none")

    def verify(token):
        if token != "plain":
            tenant.set(token)
        return mcplite.Principal(token, audience=mcplite.auth.ISSUED_HERE)

    mcp = mcplite.Server("tenants", auth=mcplite.BearerAuth(verify))

    @mcp.tool()
    def inline() -> str:
        return tenant.get()

    @mcp.tool()
    def on_a_worker(ctx: mcplite.Context) -> str:
        return f"{tenant.get()} {ctx.http.headers['authorization'][7:]} {ctx.principal.subject}"

    @mcp.tool()
    def asks(ctx: mcplite.Context) -> list:
        before = ctx.http.headers["x-request"]
        ctx.elicit("Go on?")
        return [before, ctx.http.headers["x-request"]]

    def connect(token, **options):
        return connecting.connect(server.url, auth=mcplite.Bearer(token), timeout=30, **options)

    with mcplite.serve(mcp) as server, connect("acme") as acme, connect("plain") as plain:
        for _ in range(4):
            assert acme.call_tool("inline").text == "acme"
            assert plain.call_tool("inline").text == "none"
            assert acme.call_tool("on_a_worker").text == "acme acme acme"
            assert plain.call_tool("on_a_worker").text == "none plain plain"
        for revision in ("2025-11-25", "2026-07-28"):
            with connect("acme", revision=revision, headers={"X-Request": "one"},
                         elicitation_handler=lambda request: True) as client:
                assert client.call_tool("asks").text == '["one","one"]'


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_handler_adds_headers_to_its_response(revision):
    server, seen = mcplite.Server("headers"), []

    @server.tool()
    def act(ctx: mcplite.Context) -> None:
        ctx.http.add_response_header("X-Shelf", "B 3")
        ctx.http.add_response_header("X-Shelf", "B 4")
        with pytest.raises(ValueError, match="cannot be sent"):
            ctx.http.add_response_header("X-Shelf", "a\r\nX-Other: b")

    with mcplite.serve(server) as served, requests.Session() as session:
        session.hooks["response"].append(lambda response, *args, **kwargs: seen.append(response.headers.get("x-shelf")))
        with mcplite.connect(served.url, session=session, revision=revision) as client:
            assert not client.call_tool("act").is_error
    assert "B 3, B 4" in seen

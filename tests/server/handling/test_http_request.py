"""HTTP requests as values, and what handlers see of them."""

import contextvars

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

"""The card of a server: over our own HTTP server and WSGI, for anyone, and never stale."""

import contextlib

import pytest
import requests

import mcplite
from mcplite.errors import RegistrationError
from mcplite.middleware import card_routes
from mcplite.protocol.schema.validation import Validator
from mcplite.revisions import REVISIONS
from mcplite.server import Server
from tests.support.wsgi import serving_wsgi

URL, NAME = "https://shop.example.com/mcp", "com.example.shop/orders"
CARD, CATALOG = "application/mcp-server-card+json", "application/ai-catalog+json"
#: What the draft demands of a card.
DEMANDED = {
    "type": "object", "required": ["$schema", "name", "version", "description"], "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "version": {"type": "string", "maxLength": 255},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "websiteUrl": {"type": "string", "format": "uri"},
        "icons": {"type": "array", "items": {"type": "object", "required": ["src"]}},
        "repository": {"type": "object", "required": ["source", "url"]},
        "remotes": {"type": "array", "items": {"type": "object", "required": ["type", "url"], "properties": {
            "type": {"enum": ["streamable-http", "sse"]}, "url": {"type": "string", "pattern": "^https?://[^\\s]+$"},
            "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}}}}},
    }}


def shop(**options):
    return Server("shop", version="1.2.0", **options)


def get(url, path, **headers):
    return requests.get(url[:-len("/mcp")] + path, headers=headers, timeout=20)


@pytest.fixture(params=["http", "wsgi"])
def served(request):
    """Returns a function that serves a server with its card, and returns the URL."""
    def serve(server, **options):
        routes = card_routes(server, URL, **{"name": NAME, **options})
        if request.param == "http":
            return stack.enter_context(mcplite.serve(server, routes=routes)).url
        return stack.enter_context(serving_wsgi(server.wsgi("/mcp", routes=routes)))

    with contextlib.ExitStack() as stack:
        yield serve


def test_anyone_can_read_the_card_and_find_it_by_the_host(served):
    server = shop(title="Shop", auth=mcplite.StaticTokens(["t" * 32]), description="d" * 150,
                  icons=[mcplite.types.Icon("https://shop.example.com/icon.png")])
    server.add_tool(lambda: "secret", name="hidden_tool")
    url = served(server, repository={"url": "https://github.com/example/shop", "source": "github"})
    answer = get(url, "/mcp/server-card", Accept=CARD, Origin="https://anywhere.example")
    card = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (200, CARD) and Validator(DEMANDED).problems(card) == []
    assert (card["name"], card["version"], card["title"], card["description"]) == (NAME, "1.2.0", "Shop", "d" * 100)
    assert card["remotes"] == [{"type": "streamable-http", "url": URL,
                                "supportedProtocolVersions": [revision.name for revision in REVISIONS]}]
    assert card["icons"] == [{"src": "https://shop.example.com/icon.png"}] and "hidden_tool" not in answer.text
    assert answer.headers["access-control-allow-origin"] == "*" and "max-age" in answer.headers["cache-control"]
    found = get(url, "/.well-known/ai-catalog.json")
    assert found.headers["content-type"] == CATALOG and found.json() == {"specVersion": "1.0", "entries": [
        {"identifier": "urn:air:shop.example.com:mcp:orders", "type": CARD, "url": URL + "/server-card"}]}


def test_an_unchanged_card_is_not_sent_again(served):
    url = served(shop(), description="Orders.")
    first = get(url, "/mcp/server-card")
    for known in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = get(url, "/mcp/server-card", **{"If-None-Match": known})
        assert again.status_code == 304 and not again.content and again.headers["etag"] == first.headers["etag"]
    assert get(url, "/mcp/server-card", **{"If-None-Match": '"other"'}).json() == first.json()


def test_pages_may_ask_and_nobody_may_write(served):
    url = served(shop(), description="Orders.") + "/server-card"
    asked = requests.options(url, headers={"Origin": "https://anywhere.example", "Access-Control-Request-Method": "GET",
                                           "Access-Control-Request-Headers": "if-none-match"}, timeout=20)
    assert asked.status_code in (200, 204) and asked.headers["access-control-allow-origin"] == "*"
    assert "if-none-match" in asked.headers["access-control-allow-headers"].lower()
    assert requests.post(url, json={}, timeout=20).status_code == 405
    assert requests.head(url, timeout=20).status_code == 200


def test_a_path_of_ones_own_behind_a_proxy(served):
    url = served(shop(), description="Orders.", path="/card")
    assert get(url, "/card").json()["name"] == NAME and get(url, "/mcp/server-card").status_code == 404


@pytest.mark.parametrize("given, says", [
    ({"name": "shop"}, "as in the registry"), ({"name": "a/b/c"}, "as in the registry"), ({"name": None}, "as in the registry"),
    ({"url": "shop.example.com/mcp"}, "as clients reach"), ({"url": "https://shop.example.com/mcp?x=1"}, "as clients reach"),
    ({"url": None}, "as clients reach"), ({"description": "d" * 101}, "1 to 100"), ({"description": ""}, "1 to 100"),
    ({"description": None}, "give description="), ({"repository": {"url": "x"}}, "'url' and 'source'"),
])
def test_what_is_no_card(given, says):
    words = {"url": URL, "name": NAME, "description": "Orders.", **given}
    with pytest.raises(RegistrationError, match=says):
        card_routes(shop(), words.pop("url"), **words)

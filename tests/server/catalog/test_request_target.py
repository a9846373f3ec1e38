"""What a message needs, whatever it is and however odd."""

import pytest

import mcplite
from mcplite.protocol import jsonrpc
from mcplite.server.catalog.request_target import MOST_URIS


@pytest.fixture
def app():
    mcp = mcplite.Server("scoped")
    mcp.add_tool(lambda: None, name="a", scopes=["one", "two"])
    mcp.add_tool(lambda: None, name="b", scopes="two three")
    mcp.add_tool(lambda: None, name="free")
    mcp.add_resource("a://x", lambda: "", name="x", scopes=["four"])
    mcp.add_resource("a://{y}/z", lambda y: "", name="y", scopes=["five"])
    return mcp


def needed(app, message):
    return app.runtime.catalog.scopes(message)


def ask(method, params=None):
    return jsonrpc.Request(1, method, params)


@pytest.mark.parametrize("method, params, scopes", [
    ("tools/call", {"name": "a"}, ("one", "two")), ("tools/call", {"name": "free"}, ()),
    ("tools/call", {"name": "none"}, ()),
    ("tools/call", {"name": ["a"]}, ()), ("tools/call", None, ()), ("tools/list", {"name": "a"}, ()),
    ("own/method", {"name": "a"}, ()),
    ("resources/read", {"uri": "a://x"}, ("four",)), ("resources/read", {"uri": "a://1/z"}, ("five",)),
    ("resources/read", {"uri": "a://2"}, ()),
    ("resources/read", {"uri": 5}, ()), ("resources/read", {"uri": "a://" + "1" * 70_000 + "/z"}, ()),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a://x", 5, "a://1/z", "a://x"]}},
     ("four", "five")),
    ("subscriptions/listen", {"notifications": []}, ()),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "a://x"}}, ()),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "a://{y}/z"}}, ("five",)),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "a://x"}}, ("four",)),
    ("completion/complete", {"ref": "x"}, ()), ("completion/complete", {"ref": {"type": "ref/prompt"}}, ()),
])
def test_the_scopes_of_a_request(app, method, params, scopes):
    assert needed(app, ask(method, params)) == scopes


def test_the_scopes_of_a_batch(app):
    items = [ask("tools/call", {"name": "a"}), ask("ping"), ask("tools/call", {"name": "b"}),
             jsonrpc.Notification("tools/call", {"name": "a"}),
             jsonrpc.Invalid(None, -32600, "x")]
    assert needed(app, jsonrpc.Batch(items)) == ("one", "two", "three")
    for message in (jsonrpc.Notification("tools/call", {"name": "a"}), jsonrpc.Response(1, {}),
                    jsonrpc.Invalid(None, -32600, "x")):
        assert needed(app, message) == ()


def test_the_scopes_of_a_registry(app):
    assert app.registry.scopes() == ["one", "two", "three", "four", "five"] and app.registry.scoped
    assert not mcplite.Server("free").registry.scoped
    for name in ("a", "b"):
        app.remove_tool(name)
    assert app.registry.scopes() == ["four", "five"] and app.registry.scoped


def test_a_filter_is_resolved_only_up_to_its_limit(app, monkeypatch):
    # Who is not let in yet makes us look, so that it must not take long: each URI once, and none where too many are.
    catalog = app.runtime.catalog
    asked, find = [], catalog.find_resource
    monkeypatch.setattr(catalog, "find_resource", lambda uri: asked.append(uri) or find(uri))

    def looked_up(uris):
        asked.clear()
        return needed(app, ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}))

    most = MOST_URIS
    assert looked_up(["a://x"] * (most - 2) + ["a://1/z", 5]) == ("four", "five") and asked == ["a://x", "a://1/z"]
    assert looked_up([[], {}, None, "a://x"]) == ("four",) and asked == ["a://x"]
    assert looked_up(["a://x"] * (most + 1)) == () and asked == []

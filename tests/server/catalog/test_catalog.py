"""What a request is about is looked up once, and lists are kept until the registry changes."""

import threading

import pytest

import mcplite
from mcplite.errors import MethodNotFound, RegistrationError
from mcplite.protocol import jsonrpc
from mcplite.revisions import NEWEST, NEWEST_LEGACY, REVISIONS
from mcplite.server.catalog.catalog import MOST_URIS, read_capabilities
from mcplite.server.catalog.registry import ProvidedEntry, Provider
from mcplite.types import Tool
from tests.support import connecting
from tests.support.tight import tight


@pytest.fixture
def mcp():
    mcp = mcplite.Server("shop", limits=tight(uri=20))
    mcp.add_tool(lambda: None, name="plain", scopes=["one"])

    @mcp.tool(timeout=5)
    def bounded() -> None: ...

    @mcp.tool()
    def reports(ctx: mcplite.Context) -> None: ...

    mcp.add_resource("a://x", lambda: "", name="x", scopes=["two"])
    mcp.add_resource("a://{y}/z", lambda y: y, name="y")
    mcp.add_prompt(lambda: "hi", name="greet")
    return mcp


@pytest.fixture
def catalog(mcp):
    return mcp.runtime.catalog


def test_a_custom_handler_replaces_a_built_in_method(mcp, catalog):
    own = lambda params, ctx: None  # noqa: E731
    mcp.add_method("tools/call", own)
    target = catalog.resolve("tools/call", {"name": "plain"})
    assert target.custom_handler is own and target.scopes == ("one",) and not target.may_run_inline


def test_results_name_the_server_as_it_is_described_now(catalog):
    for version in ("1", "2"):
        catalog.change_description(info=mcplite.types.Implementation("shop", version))
        assert f'"version":"{version}"' in catalog.result_end(NEWEST)
        assert next(iter(catalog.stamp({}, NEWEST)["_meta"].values()))["version"] == version


def test_with_middleware_or_forwarded_logs_no_handler_runs_inline():
    around = mcplite.Server("x", middleware=[lambda ctx, proceed: proceed()])
    logs = mcplite.Server("x")
    logs.logging_handler()
    for mcp in (around, logs):
        assert not mcp.runtime.catalog.resolve("tools/list", {}).may_run_inline


@pytest.mark.parametrize("revision", [NEWEST, NEWEST_LEGACY])
def test_a_page_is_kept_until_the_list_changes(mcp, catalog, revision):
    first = catalog.listing("tools", "tools", None, revision)
    assert catalog.listing("tools", "tools", None, revision) is first
    mcp.remove_tool("plain")
    assert [tool["name"] for tool in catalog.listing("tools", "tools", None, revision).value["tools"]] == ["bounded", "reports"]


class Odd(Provider):
    """A provider of which one entry cannot be sent, and one cannot even be made."""

    name = "odd"

    def listed(self, entry, revision):
        if entry.own == "raises":
            raise RuntimeError("not today")
        return Tool(entry.name, {"type": "object"}, description=object() if entry.own == "odd" else entry.own)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("middleware", [[], [lambda context, proceed: proceed()]])
def test_an_entry_that_cannot_be_sent_does_not_take_the_list_away(revision, middleware, caplog):
    mcp = mcplite.Server("shop", middleware=middleware)
    mcp.add_tool(lambda: 1, name="good")
    mcp.add_tool(lambda: 1, name="changed", meta={"a": 1})
    mcp.add_prompt(lambda: "x", name="good")
    mcp.registry.get("tools", "changed").definition.meta["a"] = {1}  # by its author, after the registration
    odd, entries = Odd(), {}
    for name in ("odd", "raises", "fine"):
        entries[name] = ProvidedEntry(odd, name)
        entries[name].name = name
    mcp.registry.provide(odd, "tools", entries)
    with mcplite.connect(mcp, revision=revision) as client:
        for _ in range(3):
            assert [tool.name for tool in client.list_tools()] == ["good", "fine"]
            client.call_tool("good")
        assert [prompt.name for prompt in client.list_prompts()] == ["good"]
    lines = [record.getMessage() for record in caplog.records if "is left out of the list" in record.getMessage()]
    assert [line.split("'")[1] for line in lines] == ["raises", "changed", "odd"]


# --- the scopes of a message ----------------------------------------------------------------------------


@pytest.fixture
def scoped():
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
    ("tools/call", {"name": "a"}, ("one", "two")), ("tools/call", {"name": "free"}, ()), ("tools/call", {"name": "none"}, ()),
    ("tools/call", {"name": ["a"]}, ()), ("tools/call", None, ()), ("tools/list", {"name": "a"}, ()),
    ("own/method", {"name": "a"}, ()), ("resources/read", {"uri": "a://x"}, ("four",)),
    ("resources/read", {"uri": "a://1/z"}, ("five",)), ("resources/read", {"uri": "a://2"}, ()),
    ("resources/read", {"uri": 5}, ()), ("resources/read", {"uri": "a://" + "1" * 70_000 + "/z"}, ()),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a://x", 5, "a://1/z", "a://x"]}}, ("four", "five")),
    ("subscriptions/listen", {"notifications": []}, ()),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "a://x"}}, ()),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "a://{y}/z"}}, ("five",)),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "a://x"}}, ("four",)),
    ("completion/complete", {"ref": "x"}, ()), ("completion/complete", {"ref": {"type": "ref/prompt"}}, ()),
])
def test_the_scopes_of_a_request(scoped, method, params, scopes):
    assert needed(scoped, ask(method, params)) == scopes


def test_a_filter_is_resolved_only_up_to_its_limit(scoped, monkeypatch):
    # Who is not let in yet makes us look, so that it must not take long: each URI once, and none where too many are.
    catalog = scoped.runtime.catalog
    asked, find = [], catalog.find_resource
    monkeypatch.setattr(catalog, "find_resource", lambda uri: asked.append(uri) or find(uri))

    def looked_up(uris):
        asked.clear()
        return needed(scoped, ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}))

    most = MOST_URIS
    assert looked_up(["a://x"] * (most - 2) + ["a://1/z", 5]) == ("four", "five") and asked == ["a://x", "a://1/z"]
    assert looked_up([[], {}, None, "a://x"]) == ("four",) and asked == ["a://x"]
    assert looked_up(["a://x"] * (most + 1)) == () and asked == []


def test_a_page_of_which_nothing_can_be_sent_has_a_next_one():
    mcp = mcplite.Server("shop", options=mcplite.ServerOptions(page_size=1))
    for name in ("bad", "good"):
        mcp.add_tool(lambda: 1, name=name, meta={"a": 1})
    mcp.registry.get("tools", "bad").definition.meta["a"] = object()
    with mcplite.connect(mcp) as client:
        assert [tool.name for tool in client.list_tools()] == ["good"]


# --- capability flags ----------------------------------------------------------------------------------


QUIET = {"tools": {"listChanged": False}, "resources": {"listChanged": False, "subscribe": False},
         "prompts": {"listChanged": False}, "logging": False}
FULL = {"logging": {}, "completions": {}, "tools": {"listChanged": True}, "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True}}


def make(**options):
    mcp = connecting.new_server("flags", **options)
    mcp.add_resource("memo://a", lambda: "x", name="r")
    mcp.add_prompt(lambda: "x", name="p")

    @mcp.tool
    def talk(ctx: mcplite.Context) -> str:
        ctx.error("something")
        return "said"

    return mcp


def declared(mcp, revision):
    with mcplite.connect(mcp, revision=revision) as client:
        return client.server_capabilities


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_flags_are_declared_as_they_are_set(revision):
    found = declared(make(capabilities=QUIET), revision)
    assert (found.tools, found.resources, found.prompts, found.logging) == ({}, {}, {}, None)
    mixed = declared(make(capabilities={"resources": {"subscribe": False}, "tools": {}}), revision)
    assert (mixed.tools, mixed.resources, mixed.prompts) == ({"listChanged": True},) * 3 and mixed.logging == {}


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_kind_that_is_named_is_declared_although_it_is_empty(revision):
    found = declared(mcplite.Server("empty", options=mcplite.ServerOptions(capabilities={name: {} for name in FULL})), revision)
    for name, flags in FULL.items():
        if name != "completions" or revision.completions_capability:
            assert getattr(found, name) == flags, name
    assert declared(mcplite.Server("empty"), revision).tools is None


@pytest.mark.slow
def test_completion_is_declared_for_a_method_of_the_servers_own():
    mcp = make(capabilities={"completions": {}})
    mcp.add_method("completion/complete", lambda params, ctx: {"completion": {"values": ["Rome"]}})
    with mcplite.connect(mcp) as client:
        assert client.complete(prompt="p", argument="city", value="R").values == ["Rome"]
    hidden = make(capabilities={"completions": False})
    hidden.completion(prompt="p", argument="city")(read_capabilities)
    assert declared(hidden, None).completions is None


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_what_is_not_declared_is_not_sent(revision):
    logged, changed = [], threading.Event()
    mcp = make(capabilities=QUIET)
    with mcplite.connect(mcp, revision=revision, log_handler=logged.append,
                         options=mcplite.ClientOptions(raise_for_error=True)) as client:
        if revision.modern:
            client.log_level = "debug"
        stop = client.subscribe(lambda event: changed.set(), tools=True) if not revision.modern else lambda: None
        mcp.add_tool(lambda: 1, name="more")
        mcp.tools_changed()
        # A later answer on the same channel: what was sent before it has arrived.
        assert client.call_tool("talk").text == "said"
        assert logged == [] and not changed.is_set()
        stop()


@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if not revision.modern], ids=str)
@pytest.mark.parametrize("method, params", [
    ("resources/subscribe", {"uri": "memo://a"}), ("resources/unsubscribe", {"uri": "memo://a"}),
    ("logging/setLevel", {"level": "debug"}),
])
def test_methods_of_undeclared_capabilities_do_not_exist(revision, method, params):
    with mcplite.connect(make(capabilities=QUIET), revision=revision) as client:
        with pytest.raises(MethodNotFound):
            client.request(method, params)
    with mcplite.connect(make(), revision=revision) as client:
        client.request(method, params)


@pytest.mark.parametrize("given, text", [
    ({"tool": {}}, r"capabilities\['tool'\]: those that can be set are 'tools'"),
    ({"tools": {"listchanged": False}}, "'listChanged': True or False"), ({"tools": {"listChanged": 1}}, "is not a flag"),
    ({"tools": False}, "not declared if none is registered"), ({"logging": True}, "or False"),
    ({"logging": {"x": True}}, "has none"), ({"completions": None}, "must be a dict"),
])
def test_what_cannot_be_declared_is_refused(given, text):
    with pytest.raises(RegistrationError, match=text):
        mcplite.Server("x", options=mcplite.ServerOptions(capabilities=given))

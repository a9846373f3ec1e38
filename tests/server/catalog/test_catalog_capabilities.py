"""Capability flags that a server sets: what is declared, and that what is not declared is not done."""

import threading

import pytest

import mcplite
from mcplite.errors import MethodNotFound, RegistrationError
from mcplite.revisions import REVISIONS
from mcplite.server.catalog.catalog import CapabilityFlags, read_capabilities
from tests.support import connecting

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


def test_without_flags_everything_is_as_by_default():
    flags, declared = read_capabilities(None)
    assert vars(flags) == vars(CapabilityFlags()) and declared == []

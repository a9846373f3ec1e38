"""``mount(search=True)``: a model finds the tools of mounted servers by words, and calls them by one tool."""

import json

import pytest
import requests

import mcplite
from mcplite.errors import InvalidParams, RegistrationError
from mcplite.middleware import FilterTools, LogRequests
from mcplite.server import Context, Server
from tests.support import stateless
from tests.support.children import wait_until
from tests.support.taskclients import REVISIONS as TASK_REVISIONS, task_client

NAMES = ["search_tools", "describe_tool", "call_tool"]
REVISIONS = ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"]


def maps():
    server = Server("maps")

    @server.tool(tags=["public"])
    def route(start: str, end: str, ctx: Context) -> dict:
        """The way from one city to another."""
        ctx.report_progress(1, 2, "on the way")
        return {"way": f"{start} to {end}"}

    @server.tool(tags=["public"])
    def toll(ctx: Context) -> str:
        """Pay for the way."""
        return ctx.elicit("Pay?").action

    @server.tool(tags=["internal"])
    def rebuild() -> str:
        """Index each way and each city again."""
        return "rebuilt"

    server.add_resource("maps://cities", lambda: "all", name="cities")
    return server


@pytest.fixture(params=["server", "legacy", "modern"])
def mounted(request):
    """Returns a parent server and the one that it has mounted, in this process or by a client."""
    def mount(parent=None, **options):
        parent, server = parent or Server("parent"), maps()
        era = mcplite.ClientOptions(era=request.param) if request.param != "server" else None
        parent.mount(server if era is None else mcplite.connect(server, options=era), "maps", search=True, **options)
        return parent, server

    return mount


def search(client, words, prefix=""):
    return [line.partition(":")[0] for line in client.call_tool(f"{prefix}search_tools", {"query": words}).text.split("\n")[1:]]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_is_found_described_and_called(mounted, revision):
    parent = Server("parent")
    parent.add_tool(lambda: "own", name="own", description="A way of its own.")
    mounted(parent)
    told = []
    with mcplite.connect(parent, revision=revision,
                         elicitation_handler=lambda asked: asked.accept()) as client:
        assert [tool.name for tool in client.list_tools()] == ["own", *NAMES]
        assert [one.uri for one in client.list_resources()] == ["maps://cities"]
        assert sorted(search(client, "the way to a city")) == ["maps_rebuild", "maps_route", "maps_toll"]
        described = json.loads(client.call_tool("describe_tool", {"name": "maps_route"}).text)
        assert described["name"] == "maps_route" and sorted(described["input_schema"]["properties"]) == ["end", "start"]
        arguments = {"start": "Rome", "end": "Oslo"}
        called = client.call_tool("call_tool", {"name": "maps_route", "arguments": arguments},
                                  on_progress=lambda *given: told.append(given))
        assert json.loads(called.text) == {"way": "Rome to Oslo"} and len(told) == 1
        direct = client.call_tool("maps_route", arguments)  # by a client that knows it
        assert (direct.text, direct.structured_content) == (called.text, called.structured_content)
        if revision >= "2025-06":
            assert client.call_tool("call_tool", {"name": "maps_toll"}).text == "accept"


@pytest.mark.parametrize("arguments, says", [
    ({"name": "none"}, "There is no tool none. Search for one."), ({}, "There is no tool None"),
    ({"name": ["maps_route"]}, "There is no tool ['maps_route']"),
    ({"name": "own"}, "There is no tool own"), ({"name": "call_tool", "arguments": {"name": "maps_route"}}, "There is no tool"),
    ({"name": "maps_route", "arguments": "Rome"}, "must be an object"),
    ({"name": "maps_route", "arguments": {"start": "Rome"}}, "end: is required"),
    ({"name": "maps_route", "arguments": {"start": 1, "end": "Oslo"}}, "start: "),
])
def test_what_a_model_gets_wrong_is_an_answer_for_it(mounted, arguments, says):
    parent, _ = mounted()
    parent.add_tool(lambda: "own", name="own")
    with mcplite.connect(parent) as client:
        result = client.call_tool("call_tool", arguments)
        assert result.is_error and says in result.text
        assert client.call_tool("search_tools", {"query": "  "}).is_error
        assert client.call_tool("describe_tool", {"name": "own"}).is_error


def test_tags_changes_and_new_names_hold_for_the_search(mounted):
    change = {"route": {"description": "Travel.", "rename": {"start": "origin"}, "preset": {"end": "Oslo"}}}
    parent, _ = mounted(tags=["public"], change=change)
    with mcplite.connect(parent) as client:
        assert search(client, "index again") == [] and search(client, "travel") == ["maps_route"]
        described = json.loads(client.call_tool("describe_tool", {"name": "maps_route"}).text)
        assert list(described["input_schema"]["properties"]) == ["origin"]
        called = client.call_tool("call_tool", {"name": "maps_route", "arguments": {"origin": "Rome"}})
        assert json.loads(called.text) == {"way": "Rome to Oslo"}
        assert client.call_tool("call_tool", {"name": "maps_rebuild"}).is_error


def test_middleware_sees_the_tool_that_is_called_and_decides_what_is_found(mounted):
    seen = []

    def watch(ctx, proceed):
        seen.append((ctx.method, ctx.params.get("name")))
        return proceed()

    parent, _ = mounted(Server("parent", middleware=[watch, FilterTools(lambda ctx, tool: tool.name != "maps_rebuild")]))
    with mcplite.connect(parent) as client:
        assert "maps_rebuild" not in search(client, "way index city again") and search(client, "pay") == ["maps_toll"]
        assert client.call_tool("describe_tool", {"name": "maps_rebuild"}).is_error
        del seen[:]
        with pytest.raises(InvalidParams, match="Unknown tool: maps_rebuild"):
            client.call_tool("call_tool", {"name": "maps_rebuild"})
        client.call_tool("call_tool", {"name": "maps_route", "arguments": {"start": "Rome", "end": "Oslo"}})
        client.call_tool("call_tool", {"name": "none"})
    assert seen == [("tools/call", name) for name in ("maps_rebuild", "maps_route", "call_tool")]  # each call once


@pytest.mark.parametrize("revision", TASK_REVISIONS, ids=str)
def test_middleware_sees_a_call_once_that_becomes_a_task(mounted, revision):
    seen = []

    def watch(ctx, proceed):
        seen.append((ctx.method, ctx.params.get("name")))
        return proceed()

    parent, server = mounted(Server("parent", middleware=[watch]))
    server.add_tool(lambda: "done", name="work", task="optional")
    with task_client(parent, revision) as client:
        assert wait_until(lambda: search(client.client, "work") == ["maps_work"])
        del seen[:]
        assert client.result(client.start("call_tool", name="maps_work"))["content"][0]["text"] == "done"
    assert [name for method, name in seen if method == "tools/call"] == ["maps_work"]


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_scopes_hold_for_the_search_and_for_each_request_of_a_call(hides, nested):
    vault = Server("vault")
    vault.add_tool(lambda: "open", name="open", description="Open the vault.")

    @vault.tool(scopes=["keys"])
    def empty(ctx: Context) -> str:
        """Empty the vault."""
        return ctx.elicit("Sure?").action

    guest, owner = (f"token-of-the-{name}-0123456789" for name in ("guest", "owner"))
    tokens = {token: mcplite.Principal("ann", audience=mcplite.auth.ISSUED_HERE, scopes=scopes)
              for token, scopes in ((guest, ["use"]), (owner, ["use", "keys"]))}
    bank = Server("bank", auth=mcplite.StaticTokens(tokens), options=mcplite.ServerOptions(hide_unauthorized=hides))
    searched = Server("searched") if nested else bank
    searched.mount(vault, "vault", search=True)
    prefix = "all_" if nested else ""
    if nested:
        bank.mount(searched, "all")
    call = stateless.call(f"{prefix}call_tool", {"name": "vault_empty"}, capabilities={"elicitation": {}})
    direct = stateless.call(f"{prefix}vault_empty", capabilities={"elicitation": {}})
    with mcplite.serve(bank) as serving:
        def post(message, token):
            headers = {**stateless.headers(message), "Authorization": f"Bearer {token}", "Host": None}
            reply = requests.post(serving.url, json=message, headers=headers)
            return reply.status_code, reply.headers.get("WWW-Authenticate"), reply.json()

        for token in tokens:
            with mcplite.connect(serving.url, auth=mcplite.Bearer(token)) as client:
                assert ("vault_empty" in search(client, "vault", prefix)) == (not hides or token is owner)
                assert client.call_tool(f"{prefix}call_tool", {"name": "vault_open"}).text == "open"
        continued = stateless.again(call, post(call, owner)[2]["result"])
        for request in (call, continued):
            status, challenge, answer = post(request, guest)
            if hides:
                assert status == 200 and "There is no tool" in answer["result"]["content"][0]["text"]
            else:
                assert (status, challenge) == post(direct, guest)[:2] and "insufficient_scope" in challenge
        assert post(continued, owner)[2]["result"]["content"][0]["text"] == "accept"


def test_several_mounts_have_one_search_that_follows_them(mounted):
    parent, server = mounted()
    other = Server("other")
    other.add_tool(lambda: "sunny", name="forecast", description="The weather.")
    parent.mount(other, "other", search=True)
    with mcplite.connect(parent) as client:
        assert [tool.name for tool in client.list_tools()] == NAMES and search(client, "weather") == ["other_forecast"]
        server.add_tool(lambda: "stormy", name="storm", description="Weather warnings.")
        assert wait_until(lambda: sorted(search(client, "weather")) == ["maps_storm", "other_forecast"])
        assert client.call_tool("call_tool", {"name": "maps_storm"}).text == "stormy"
        server.remove_tool("storm")
        assert wait_until(lambda: search(client, "weather") == ["other_forecast"])


def test_a_server_that_searches_may_be_mounted(mounted):
    parent, _ = mounted()
    top = Server("top", middleware=[LogRequests()])
    top.mount(parent, "all")
    with mcplite.connect(top) as client:
        assert [tool.name for tool in client.list_tools()] == [f"all_{name}" for name in NAMES]
        assert search(client, "pay", "all_") == ["maps_toll"]
        called = client.call_tool("all_call_tool", {"name": "maps_rebuild"})
        assert called.text == "rebuilt" and client.call_tool("all_maps_rebuild").text == "rebuilt"


@pytest.mark.parametrize("own, other, says", [
    ("call_tool", maps, "'call_tool' of the search among mounted tools is registered already; give"),
    ("maps_route", maps, "would be 'maps_route', which is registered already"),
    ("own", lambda: 5, "mount takes a Server, a client"),
])
def test_a_mount_that_fails_changes_nothing(own, other, says):
    parent = Server("parent")
    parent.add_tool(lambda: "own", name=own)
    with pytest.raises(RegistrationError, match=says):
        parent.mount(other(), "maps", search=True)
    with mcplite.connect(parent) as client:
        assert [tool.name for tool in client.list_tools()] == [own]

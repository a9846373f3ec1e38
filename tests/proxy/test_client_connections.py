"""Which connection carries a call, and which client a question reaches.

What a mounted server is told of the client of a call, when calls of several clients follow each other on one connection.
"""

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.proxy import client_connections
from tests.support import connecting
from tests.support.fakes import start
from tests.support.processes import wait_until
from tests.support.webscript import WebScript

LIMIT = 30


def asking(log=None):
    """Return a server that asks, once as many calls as it was told are in progress."""
    server = mcplite.Server("asking")
    there = threading.Barrier(2)

    @server.tool()
    def ask(name: str, ctx: mcplite.Context) -> str:
        there.wait(LIMIT)
        answer = ctx.elicit(f"for {name}")
        return f"{name}: {answer.action}"

    @server.tool()
    def declared(ctx: mcplite.Context) -> list:
        return [ctx.can_elicit, ctx.can_elicit_url, ctx.can_sample, ctx.can_list_roots]

    @server.tool()
    def name(ctx: mcplite.Context) -> str:
        return f"{ctx.client_info.name} {ctx.client_info.version}"

    @server.tool()
    def session(ctx: mcplite.Context) -> int:
        return id(ctx.session.peer)

    return server


def hub_of(server, era, **options):
    hub = mcplite.Server("hub", limits=server.limits)
    hub.mount(mcplite.connect(server, options=mcplite.ClientOptions(era=era)), **options)
    return hub


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_question_reaches_the_client_whose_call_it_belongs_to(upstream, downstream):
    hub = hub_of(asking(), upstream)
    asked = {"one": [], "two": []}

    def handler(name):
        def answer(request):
            asked[name].append(request.message)
            return True if name == "one" else False
        return answer

    with mcplite.connect(hub, options=mcplite.ClientOptions(era=downstream), elicitation_handler=handler("one")) as one:
        with mcplite.connect(hub, options=mcplite.ClientOptions(era=downstream), elicitation_handler=handler("two")) as two:
            with ThreadPoolExecutor(2) as pool:
                calls = [pool.submit(client.call_tool, "ask", {"name": name}) for name, client in (("one", one), ("two", two))]
                assert [call.result(LIMIT).data for call in calls] == ["one: accept", "two: decline"]
    assert asked == {"one": ["for one"], "two": ["for two"]}
    hub.close()


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_server_sees_what_each_client_can_be_asked(upstream, downstream):
    hub = hub_of(asking(), upstream)
    for handlers, expected in (
            ({}, [False] * 4),
            ({"elicitation_handler": lambda request: None}, [True, False, False, False]),
            ({"sampling_handler": lambda request: "x", "roots": []}, [False, False, True, True]),
    ):
        with connecting.connect(hub, era=downstream, **handlers) as client:
            assert json.loads(client.call_tool("declared").text) == expected
    hub.close()


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_server_knows_each_client_by_its_name(upstream, downstream):
    hub = hub_of(asking(), upstream)
    for name in ("one", "two", "one"):
        info = mcplite.types.Implementation(name, "3")
        with mcplite.connect(hub, options=mcplite.ClientOptions(era=downstream, client_info=info),
                             elicitation_handler=lambda request: None) as client:
            assert client.call_tool("name").text == f"{name} 3"
    hub.close()


def test_clients_without_a_session_that_cannot_be_asked_share_the_name_of_the_mount():
    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect(
            asking(), options=mcplite.ClientOptions(era="legacy", client_info=mcplite.types.Implementation("hub", "1"))))
    with mcplite.connect(
            hub, options=mcplite.ClientOptions(era="modern", client_info=mcplite.types.Implementation("one", "3"))) as client:
        assert client.call_tool("name").text == "hub 1"
    hub.close()


def test_the_connection_of_a_principal_goes_for_that_of_another_after_its_last_call(monkeypatch):
    monkeypatch.setattr(client_connections, "_PLAIN", 2)
    server, peers, may_end = mcplite.Server("waiting", options=mcplite.ServerOptions(era="legacy")), {}, threading.Event()

    @server.tool()
    def meet(name: str, ctx: mcplite.Context) -> str:
        peers.setdefault(name, ctx.session.peer)
        assert name != "slow" or may_end.wait(LIMIT)
        return name

    users = {f"secret-of-{name}-0123456789": mcplite.Principal(name) for name in ("slow", "ann", "bob")}
    hub = mcplite.Server("hub", auth=mcplite.StaticTokens(users))
    hub.mount(mcplite.connect(server))
    with mcplite.serve(hub) as served, contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        slow, ann, bob = (stack.enter_context(mcplite.connect(served.url, auth=mcplite.Bearer(token),
                                                              options=mcplite.ClientOptions(era="modern")))
                          for token in users)
        waiting = pool.submit(slow.call_tool, "meet", {"name": "slow"}, timeout=LIMIT)
        assert wait_until(lambda: "slow" in peers)
        for client, name in ((ann, "ann"), (bob, "bob"), (ann, "ann"), (bob, "bob")):
            assert client.call_tool("meet", {"name": name}).text == name
        assert len(set(map(id, peers.values()))) == 3 and not peers["slow"].closed
        may_end.set()
        assert waiting.result(LIMIT).text == "slow"
        assert wait_until(lambda: peers["slow"].closed)
        assert not peers["ann"].closed and not peers["bob"].closed
        before = peers.pop("slow")
        assert slow.call_tool("meet", {"name": "slow"}).text == "slow" and peers["slow"] is not before
        assert wait_until(lambda: peers["ann"].closed)
    hub.close()


def test_each_client_with_a_handshake_has_a_connection_of_its_own():
    hub = hub_of(asking(), "legacy")
    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy")) as one, mcplite.connect(
            hub, options=mcplite.ClientOptions(era="legacy")) as two:
        places = [client.call_tool("session").data for client in (one, two, one)]
    assert places[0] == places[2] != places[1]
    hub.close()


def test_a_shared_connection_does_not_guess_whom_to_ask():
    hub = hub_of(asking(), "legacy", shared=True)
    asked = []

    def answer(request):
        asked.append(request.message)
        return True

    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy"), elicitation_handler=answer) as one:
        with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy"), elicitation_handler=answer) as two:
            with ThreadPoolExecutor(2) as pool:
                calls = [pool.submit(client.call_tool, "ask", {"name": "x"}) for client in (one, two)]
                texts = [call.result(LIMIT).text for call in calls]
    # The second question comes alone if the first call has failed before it.
    assert any("calls of different clients are in progress" in text for text in texts)
    assert len(asked) <= 1
    hub.close()


def test_a_client_that_cannot_be_asked_is_named_in_the_error():
    hub = hub_of(asking(), "modern")
    there = threading.Thread(target=lambda: _call(hub))
    there.start()
    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy")) as client:
        result = client.call_tool("ask", {"name": "x"})
    there.join(LIMIT)
    assert result.is_error and "did not declare the capability 'elicitation" in result.text
    hub.close()


def _call(hub):
    with mcplite.connect(hub, options=mcplite.ClientOptions(era="legacy")) as client:
        client.call_tool("ask", {"name": "y"})


@pytest.mark.parametrize("downstream", ["legacy", "modern"])
def test_a_call_that_is_cancelled_does_not_wait_for_a_connection(downstream):
    with WebScript() as script:
        script.capabilities = {"tools": {}}
        first = []
        script.on_initialize = lambda request, answer: answer.hold() if first else first.append(1) or NotImplemented
        script.on_tools_list = lambda request, answer: answer.json(script.result(
            request, {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}))
        hub = mcplite.Server("hub")
        hub.mount(mcplite.connect(script.url, options=mcplite.ClientOptions(era="legacy"), open_timeout=60))
        with mcplite.connect(hub, options=mcplite.ClientOptions(era=downstream)) as client:
            wait_until(lambda: [tool.name for tool in client.list_tools(fresh=True)] == ["t"])
            begun = time.monotonic()
            for _ in range(3):
                known = len(script.wait_for("initialize"))
                token = mcplite.CancelToken()
                calls = [start(client.call_tool, "t", cancel=token) for _ in range(2)]
                script.wait_for("initialize", known + 1)
                token.cancel("enough")
                for thread, outcome in calls:
                    thread.join(LIMIT)
                    assert isinstance(outcome[0], mcplite.Cancelled)
            assert time.monotonic() - begun < 20
        hub.close()

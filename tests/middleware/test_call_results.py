"""Middleware about results: a cache for tools that only read, and another attempt where a tool fails that may run twice."""

import threading

import pytest

import mcplite
from mcplite.errors import BackendError, Cancelled, InternalError
from mcplite.middleware import CacheResults, RepeatCalls
from mcplite.server import Context, Server
from tests.support.children import wait_until

ERAS = ["legacy", "modern"]


def with_tools(*middleware, **options):
    server = Server("weather", middleware=middleware, **options)
    server.ran = []

    @server.tool(annotations={"readOnlyHint": True})
    def forecast(city: str, ctx: Context) -> str:
        server.ran.append(city)
        if city == "Atlantis":
            raise mcplite.ToolError("no such city")
        return f"{city} {len(server.ran)}"

    @server.tool(annotations={"idempotentHint": True})
    def store(city: str) -> str:
        server.ran.append(city)
        if len(server.ran) < 3:
            raise RuntimeError("the sensor is busy")
        return city

    @server.tool()
    def order(city: str) -> str:
        server.ran.append(city)
        raise RuntimeError("the sensor is busy")

    @server.resource("weather://rome")
    def rome() -> str:
        server.ran.append("rome")
        if len(server.ran) < 2:
            raise RuntimeError("the sensor is busy")
        return "sun"

    return server


@pytest.mark.parametrize("era", ERAS)
def test_results_of_tools_that_only_read_are_kept(era):
    server = with_tools(CacheResults())
    with mcplite.connect(server, options=mcplite.ClientOptions(era=era)) as client:
        texts = [client.call_tool("forecast", {"city": city}).text for city in ("Rome", "Oslo", "Rome", "Rome")]
        assert texts == ["Rome 1", "Oslo 2", "Rome 1", "Rome 1"] and server.ran == ["Rome", "Oslo"]
        assert [client.call_tool("forecast", {"city": "Atlantis"}).is_error for _ in range(2)] == [True, True]
        assert server.ran[2:] == ["Atlantis", "Atlantis"], "what failed is not kept"
        for _ in range(2):
            client.call_tool("order", {"city": "Rome"})
        assert server.ran[4:] == ["Rome", "Rome"], "a tool that does something runs each time"


@pytest.mark.parametrize("era", ERAS)
def test_what_the_user_has_answered_is_asked_again(era):
    server = Server("shop", middleware=[CacheResults()])

    @server.tool(annotations={"readOnlyHint": True})
    def pick(ctx: Context) -> str:
        return ctx.elicit("Which city?", {"type": "object", "properties": {"city": {"type": "string"}}}).content["city"]

    cities = ["Oslo", "Rome"]
    with mcplite.connect(server, elicitation_handler=lambda asked: {"city": cities.pop(0)},
                         options=mcplite.ClientOptions(era=era)) as client:
        assert [client.call_tool("pick").text for _ in range(2)] == ["Oslo", "Rome"]


def test_the_results_of_one_sender_are_not_those_of_another():
    principals = {token: mcplite.Principal(token, audience=mcplite.auth.ISSUED_HERE) for token in ("anna", "ben")}
    for shared, expected in ((False, ["Rome 1", "Rome 2", "Rome 1"]), (True, ["Rome 1"] * 3)):
        server = with_tools(CacheResults(shared=shared), auth=mcplite.BearerAuth(principals.get))
        texts = []
        with mcplite.serve(server) as served:
            for token in ("anna", "ben", "anna"):
                with mcplite.connect(served.url, auth=mcplite.Bearer(token)) as client:
                    texts.append(client.call_tool("forecast", {"city": "Rome"}).text)
        assert texts == expected


def test_named_tools_are_kept_whatever_they_say_of_themselves():
    server = with_tools(CacheResults(tools=["store"]))
    server.ran += ["a", "b"]
    with mcplite.connect(server) as client:
        assert [client.call_tool("store", {"city": "Rome"}).text for _ in range(3)] == ["Rome"] * 3
        assert server.ran == ["a", "b", "Rome"]
        assert [client.call_tool("forecast", {"city": "Rome"}).text for _ in range(2)] == ["Rome 4", "Rome 5"]


def test_a_cache_that_is_away_or_too_small_costs_no_call():
    from mcplite.backend.memory import MemoryBackend

    class Broken(MemoryBackend):
        shared = True

        def get(self, key):
            if key.startswith("value-"):
                raise BackendError("refused")
            return super().get(key)

    server = with_tools(CacheResults(), backend=Broken(), state_keys=["k" * 32])
    with mcplite.connect(server) as client:
        assert [client.call_tool("forecast", {"city": "Rome"}).text for _ in range(2)] == ["Rome 1", "Rome 2"]
    server = with_tools(CacheResults())
    with mcplite.connect(server) as client:
        long = "x" * (1 << 20)
        assert [client.call_tool("forecast", {"city": long}).text[-2:] for _ in range(2)] == [" 1", " 2"]


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_that_may_run_twice_is_tried_again(era):
    server = with_tools(RepeatCalls(3, pause=0.01))
    with mcplite.connect(server, options=mcplite.ClientOptions(era=era)) as client:
        assert client.call_tool("store", {"city": "Rome"}).text == "Rome" and len(server.ran) == 3
        del server.ran[:]
        assert client.call_tool("order", {"city": "Rome"}).is_error and len(server.ran) == 1
        del server.ran[:]
        assert client.call_tool("forecast", {"city": "Atlantis"}).text == "no such city" and len(server.ran) == 3
        del server.ran[:]
        assert client.read_resource("weather://rome").text == "sun"


def test_the_last_failure_is_the_answer():
    server = with_tools(RepeatCalls(1))
    with mcplite.connect(server) as client:
        with pytest.raises(InternalError):
            client.read_resource("weather://rome")
        assert client.call_tool("store", {"city": "Rome"}).text == "the sensor is busy"


def test_a_client_that_cancels_ends_the_pause():
    server = with_tools(RepeatCalls(3, pause=600, longest=600))
    token = mcplite.CancelToken()
    with mcplite.connect(server) as client:
        cancel = threading.Thread(target=lambda: (wait_until(lambda: server.ran), token.cancel("enough")))
        cancel.start()
        with pytest.raises(Cancelled):
            client.call_tool("store", {"city": "Rome"}, cancel=token)
        cancel.join()
    assert server.ran == ["Rome"]

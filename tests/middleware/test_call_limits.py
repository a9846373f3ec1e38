"""Middleware that refuses: rates by sender and tool, sizes of results, tools that a caller may not see."""

import os
import sys

import pytest

import mcplite
from mcplite.errors import RATE_LIMITED, InvalidParams, RemoteError
from mcplite.middleware import AuditLog, CacheResults, FilterTools, LimitRate, LimitResults, RepeatCalls
from mcplite.server import Server
from tests.support.processes import at_once, serving

ERAS = ["legacy", "modern"]
KEY = "k" * 32
APPLICATION = """
import os
import mcplite
from mcplite.middleware import LimitRate

mcp = mcplite.Server("shop", middleware=[LimitRate(10, per=3600)])

@mcp.tool()
def process() -> int:
    return os.getpid()

application = mcp.wsgi("/mcp")
"""


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("mcplite.middleware.call_limits.time.time", lambda: now[0])
    return now


def with_tools(*middleware, **options):
    server = Server("shop", middleware=middleware, **options)
    server.ran = []

    @server.tool(tags=["public"])
    def add(a: int, b: int) -> int:
        server.ran.append((a, b))
        return a + b

    @server.tool(tags={"admin", "dangerous"}, structured_output=False)
    def repeat(text: str, times: int) -> str:
        return text * times

    @server.resource("shop://long")
    def long() -> str:
        return "x" * 5000

    return server


def refused(client, name="add", **arguments):
    """Return the seconds of the refusal of a call; None if it was served."""
    try:
        client.call_tool(name, arguments or {"a": 1, "b": 2}).raise_for_error()
    except RemoteError as error:
        assert error.code == RATE_LIMITED and f"Try again in {error.data['retryAfter']:g} s" in error.message
        assert error.retry_after == error.data["retryAfter"]
        return error.retry_after
    return None


@pytest.mark.parametrize("era", ERAS)
def test_calls_beyond_the_rate_are_refused_until_there_is_room(era, clock):
    server = with_tools(LimitRate(3, per=30))
    with mcplite.connect(server, options=mcplite.ClientOptions(era=era)) as client:
        assert [refused(client) for _ in range(3)] == [None] * 3
        assert refused(client) == pytest.approx(10, abs=0.2) and len(server.ran) == 3
        assert refused(client, "repeat", text="a", times=1) is None, "each tool has a counter"
        assert len(client.list_tools()) == 2, "lists do not count"
        clock[0] += 10.1
        assert [refused(client) is None for _ in range(2)] == [True, False]
        clock[0] += 1000
        assert [refused(client) is None for _ in range(4)] == [True, True, True, False], "no more than the burst"


def test_tools_that_count_together_and_those_that_do_not_count(clock):
    with mcplite.connect(with_tools(LimitRate(2, together=True))) as client:
        assert refused(client) is None and refused(client, "repeat", text="a", times=1) is None
        assert refused(client) is not None
    with mcplite.connect(with_tools(LimitRate(1, tools=["repeat"]))) as client:
        assert [refused(client) for _ in range(3)] == [None] * 3
    with mcplite.connect(with_tools(LimitRate(1, methods=["tools/list"]))) as client:
        client.list_tools(fresh=True)
        with pytest.raises(RemoteError, match="1 requests are allowed in 60 s"):
            client.list_tools(fresh=True, timeout=5)


def test_unknown_names_share_one_counter(clock):
    server = with_tools(LimitRate(2))
    with mcplite.connect(server) as client:
        for name in ("a", "b"):
            with pytest.raises(InvalidParams):
                client.call_tool(name)
        with pytest.raises(RemoteError, match="Try again in"):
            client.call_tool("c")


@pytest.mark.parametrize("era", ERAS)
def test_each_principal_has_a_counter_over_http(era):
    principals = {token: mcplite.Principal(token, audience=mcplite.auth.ISSUED_HERE) for token in ("anna", "ben")}
    server = with_tools(LimitRate(2, per=3600), auth=mcplite.BearerAuth(principals.get))
    options = mcplite.ClientOptions(era=era)
    with mcplite.serve(server) as served:
        with mcplite.connect(served.url, auth=mcplite.Bearer("anna"), options=options) as client:
            assert [refused(client) is None for _ in range(3)] == [True, True, False]
        with mcplite.connect(served.url, auth=mcplite.Bearer("anna"), options=options) as client:
            assert refused(client) > 60
        with mcplite.connect(served.url, auth=mcplite.Bearer("ben"), options=options) as client:
            assert refused(client) is None
    assert len(server.ran) == 3


def test_servers_with_a_backend_count_together(tmp_path):
    url = f"sqlite:///{tmp_path}/rates.db"
    servers = [with_tools(LimitRate(10, per=3600), backend=url, state_keys=[KEY]) for _ in range(2)]
    served = []

    def call(server):
        with mcplite.connect(server) as client:
            served.extend(refused(client) is None for _ in range(8))

    at_once(call, servers)
    assert (sum(served), len(served)) == (10, 16)
    for server in servers:
        server.runtime.fleet.backend.close()


@pytest.mark.slow
@pytest.mark.one_python
@pytest.mark.skipif(os.name != "posix", reason="gunicorn runs on POSIX only")
def test_workers_count_together(tmp_path):
    (tmp_path / "limited.py").write_text(APPLICATION)
    command = [sys.executable, "-m", "gunicorn", "--bind=127.0.0.1:PORT", "--worker-class=gthread", "--threads=4",
               "--workers=2", "--keep-alive=0", "limited:application"]
    answers = []
    with serving(command, tmp_path, MCPLITE_BACKEND=f"sqlite:///{tmp_path}/limits.db", MCPLITE_STATE_KEYS=KEY) as url:

        def call():
            with mcplite.connect(url + "mcp") as client:
                for _ in range(6):
                    try:
                        answers.append(client.call_tool("process").data)
                    except RemoteError as error:
                        answers.append(error.code)

        at_once(call, 4)
    assert len(answers) == 24 and answers.count(RATE_LIMITED) == 14
    assert len(set(answers)) <= 3, "two processes, and the refusals"


@pytest.mark.parametrize("calls, per", [(0, 60), (0.5, 60), (1, 0), (1, float("inf"))])
def test_a_rate_that_allows_nothing_is_refused(calls, per):
    with pytest.raises(ValueError, match="LimitRate takes at least one call"):
        LimitRate(calls, per)


@pytest.mark.parametrize("era", ERAS)
def test_a_result_that_is_too_large_is_told_to_the_model(era):
    server = with_tools(LimitResults(1000))
    with mcplite.connect(server, options=mcplite.ClientOptions(era=era)) as client:
        assert client.call_tool("repeat", {"text": "ä", "times": 100}).text == "ä" * 100
        result = client.call_tool("repeat", {"text": "ä", "times": 1000})
        assert result.is_error and "and 1,000 are allowed: ask for less" in result.text
        with pytest.raises(RemoteError, match="The result has 5,... bytes"):
            client.read_resource("shop://long")


def test_texts_can_be_cut_off_in_place_of_that():
    server = with_tools(LimitResults(1000, cut=True))
    with mcplite.connect(server) as client:
        result = client.call_tool("repeat", {"text": "ä", "times": 1000})
        assert result.text == "ä" * 500 + "\n[500 of 1,000 characters]" and not result.is_error
        # As JSON each of these takes two bytes, or six.
        assert client.call_tool("repeat", {"text": "\n", "times": 990}).text == "\n" * 500 + "\n[500 of 990 characters]"
        assert client.call_tool("repeat", {"text": "\0", "times": 990}).text == "\0" * 166 + "\n[166 of 990 characters]"


@pytest.mark.parametrize("era", ERAS)
def test_a_caller_sees_and_calls_the_tools_that_it_may(era):
    server = with_tools(FilterTools(lambda ctx, tool: "admin" not in tool.tags or ctx.client_info.name == "admin"))

    def client(name):
        info = mcplite.types.Implementation(name=name, version="1")
        return mcplite.connect(server, options=mcplite.ClientOptions(era=era, client_info=info))

    with client("admin") as admin, client("guest") as guest:
        assert {tool.name: tool.tags for tool in admin.list_tools()} == {
            "add": {"public"}, "repeat": {"admin", "dangerous"}}
        assert [tool.name for tool in guest.list_tools()] == ["add"]
        assert admin.call_tool("repeat", {"text": "a", "times": 2}).text == "aa"
        with pytest.raises(InvalidParams, match="Unknown tool: repeat"):
            guest.call_tool("repeat", {"text": "a", "times": 2})


@pytest.mark.parametrize("made", [
    lambda: LimitRate(5, tools="search"), lambda: LimitRate(5, methods="tools/call"), lambda: LimitRate(5, tools=[None]),
    lambda: LimitResults(methods="tools/call"), lambda: CacheResults(tools="search"),
    lambda: AuditLog(print, methods="tools/call"),
])
def test_one_text_is_no_collection_of_names(made):
    # "sea" and "" are parts of "search".
    with pytest.raises(TypeError, match="takes several names"):
        made()


@pytest.mark.parametrize("made", [
    lambda: LimitResults(0), lambda: LimitResults("1 MB"), lambda: LimitResults(float("nan")), lambda: LimitResults(True),
    lambda: CacheResults(0), lambda: CacheResults(-1), lambda: CacheResults(float("inf")), lambda: CacheResults("60"),
    lambda: RepeatCalls(0), lambda: RepeatCalls(3, pause=-1), lambda: RepeatCalls(None), lambda: RepeatCalls(3, longest="5"),
])
def test_numbers_that_cannot_be_meant_are_errors_of_the_program(made):
    with pytest.raises(ValueError, match="is a number of at least"):
        made()

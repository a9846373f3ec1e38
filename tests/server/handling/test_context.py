"""What a handler may ask of its request: progress, logs, cancellation, facts."""

import contextlib
import decimal
import fractions
import math
import threading

import pytest

import mcplite
from mcplite.client import call as client_call
from mcplite.errors import SERVER_BUSY, Cancelled, RemoteError
from mcplite.rpc.fair_queue import COSTLY
from mcplite.server import Context, Limits, Server
from mcplite.server.handling.context import LEVELS, Timeout, progress_number
from mcplite.server.transports.client_socket import RequestBody
from tests.support.children import wait_until


def progress_of(client, id):
    client.answer(id)
    return [message["params"] for message in client.others if message["method"] == "notifications/progress"]


@pytest.mark.parametrize("token", ["a", "", 0, 12])
def test_progress_rises_and_carries_the_callers_token(connect, server, token):
    @server.tool()
    def work(ctx: Context) -> None:
        for value in (1, 3, 3, 2, 5):
            ctx.report_progress(value, 5, f"at {value}")

    client = connect(server)
    id = client.start("tools/call", {"name": "work", "_meta": {"progressToken": token}})
    assert progress_of(client, id) == [
        {"progressToken": token, "progress": value, "total": 5, "message": f"at {value}"} for value in (1, 3, 5)]


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": None}, {"progressToken": True}, {"progressToken": 1.5},
                                  {"progressToken": {}}, "x"])
def test_without_a_token_nothing_is_sent(connect, server, meta):
    @server.tool()
    def work(ctx: Context) -> None:
        ctx.report_progress(1)

    client = connect(server)
    params = {"name": "work"} if meta is None else {"name": "work", "_meta": meta}
    client.result("tools/call", params)
    assert client.others == []


def test_the_first_revision_has_no_progress_message(connect, server):
    @server.tool()
    def work(ctx: Context) -> None:
        ctx.report_progress(0.25, message="text")

    client = connect(server, "2024-11-05")
    id = client.start("tools/call", {"name": "work", "_meta": {"progressToken": 1}})
    assert progress_of(client, id) == [{"progressToken": 1, "progress": 0.25}]


def test_a_flood_of_progress_is_bounded_and_ends_with_the_last_value(connect):
    server = Server("flood", limits=Limits(messages_per_second=10))

    @server.tool()
    def work(ctx: Context) -> None:
        for value in range(1, 10_001):
            ctx.report_progress(value)

    client = connect(server)
    id = client.start("tools/call", {"name": "work", "_meta": {"progressToken": 1}})
    values = [params["progress"] for params in progress_of(client, id)]
    assert 100 <= len(values) < 5000
    assert values == sorted(values) and values[-1] == 10_000


def test_ten_thousand_reports_all_arrive_by_default(connect, server):
    @server.tool()
    def work(ctx: Context) -> None:
        for value in range(10_000):
            ctx.report_progress(value)

    client = connect(server)
    id = client.start("tools/call", {"name": "work", "_meta": {"progressToken": 1}})
    assert [params["progress"] for params in progress_of(client, id)] == list(range(10_000))


def test_log_levels_are_the_sessions_own(connect, server):
    @server.tool()
    def talk(ctx: Context) -> None:
        for level in LEVELS:
            ctx.log(level, {"at": level}, "talk")

    first, second = connect(server), connect(server)
    first.result("logging/setLevel", {"level": "error"})
    second.result("logging/setLevel", {"level": "debug"})
    for client, levels in ((first, LEVELS[4:]), (second, LEVELS)):
        client.call("talk")
        assert [message["params"]["level"] for message in client.others] == list(levels)
        assert client.others[0]["params"] == {"level": levels[0], "data": {"at": levels[0]}, "logger": "talk"}
    for params in (None, {}, {"level": "verbose"}, {"level": 3}, {"level": []}):
        assert first.error("logging/setLevel", params)["code"] == -32602


def test_log_methods_and_data_that_is_not_json(connect, server):
    @server.tool()
    def talk(ctx: Context) -> None:
        for method in (ctx.debug, ctx.info, ctx.notice, ctx.warning, ctx.error, ctx.critical):
            method("x")
        ctx.info({"an object": object})

    client = connect(server)
    client.call("talk")
    levels = [message["params"]["level"] for message in client.others]
    assert levels == ["info", "notice", "warning", "error", "critical", "info"]
    assert isinstance(client.others[-1]["params"]["data"], str)


def test_an_unknown_level_is_the_handlers_mistake(connect, server):
    @server.tool()
    def talk(ctx: Context) -> None:
        ctx.log("verbose", "x")

    assert "verbose" in connect(server).call("talk")["content"][0]["text"]


def test_a_flood_of_logs_is_bounded_and_counted(connect):
    server = Server("flood", limits=Limits(messages_per_second=1))

    @server.tool()
    def talk(ctx: Context) -> None:
        for number in range(1000):
            ctx.info(number)
        ctx.sleep(1.1)
        ctx.info("after")

    client = connect(server)
    client.call("talk")
    data = [message["params"]["data"] for message in client.others]
    assert len(data) < 20 and data[-1] == "after"
    assert any("log messages were dropped" in str(item) for item in data)


def test_every_call_is_a_cancellation_point(connect, server):
    seen, inside = [], threading.Event()

    @server.tool()
    def work(ctx: Context) -> None:
        inside.set()
        ctx.token.wait(20)
        for call in (lambda: ctx.report_progress(1), lambda: ctx.info("x"), ctx.check_cancelled, lambda: ctx.sleep(20),
                     lambda: ctx.elicit("x"), lambda: ctx.sample("x"), ctx.list_roots):
            with pytest.raises(Cancelled, match="stop it"):
                call()
            seen.append(1)
        raise Cancelled("stop it")

    client = connect(server, capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
    id = client.start("tools/call", {"name": "work"})
    assert inside.wait(20)
    client.notify("notifications/cancelled", {"requestId": id, "reason": "stop it"})
    while client.peer.in_flight:
        pass
    assert len(seen) == 7
    assert client.result("ping") == {} and client.others == []


def test_the_facts_of_a_request(connect):
    from contextlib import contextmanager

    entered = []

    @contextmanager
    def life(server):
        entered.append("in")
        yield {"db": server.name}
        entered.append("out")

    server = Server("facts", lifespan=life)

    @server.tool()
    def facts(ctx: Context) -> dict:
        return {"id": ctx.request_id, "method": ctx.method, "meta": ctx.meta, "client": ctx.client_info.name,
                "revision": ctx.protocol_version, "life": ctx.lifespan, "roots": ctx.client_capabilities.roots is not None,
                "asks": [ctx.can_elicit, ctx.can_elicit_url, ctx.can_sample, ctx.can_list_roots],
                "once": [ctx.once("k", lambda: 1), ctx.once("k", lambda: 2)], "session": ctx.session.initialized}

    client = connect(server, capabilities={"roots": {}, "sampling": {}})
    id = client.start("tools/call", {"name": "facts", "_meta": {"com.example/k": 1}}, id="abc")
    found = client.answer(id)["result"]["structuredContent"]
    assert found == {"id": "abc", "method": "tools/call", "meta": {"com.example/k": 1}, "client": "raw",
                     "revision": "2025-11-25", "life": {"db": "facts"}, "roots": True, "asks": [False, False, True, True],
                     "once": [1, 1], "session": True}
    second = connect(server)
    second.call("facts")
    client.close()
    assert entered == ["in"]
    second.close()
    assert entered == ["in", "out"]


@pytest.mark.parametrize("progress, total, sent", [
    (decimal.Decimal("0.5"), fractions.Fraction(3), {"progress": 0.5, "total": 3.0}), (1, math.nan, {"progress": 1}),
    (1, math.inf, {"progress": 1}), (math.nan, None, None), (-math.inf, 5, None), (decimal.Decimal("sNaN"), None, None),
    (10 ** 400, None, {"progress": 10 ** 400}), (fractions.Fraction(10 ** 400), None, None),
])
def test_other_numbers_are_progress_too(connect, server, progress, total, sent):
    @server.tool()
    def work(ctx: Context) -> str:
        ctx.report_progress(progress, total)
        return "done"

    client = connect(server)
    id = client.start("tools/call", {"name": "work", "_meta": {"progressToken": 1}})
    assert progress_of(client, id) == ([] if sent is None else [{"progressToken": 1, **sent}])


def test_numbers_of_numpy_are_progress_too():
    numpy = pytest.importorskip("numpy")
    assert progress_number(numpy.int64(3), "progress") == 3 and type(progress_number(numpy.int64(3), "progress")) is int
    assert progress_number(numpy.float32(0.5), "progress") == 0.5 == progress_number(numpy.array(0.5), "progress")
    assert progress_number(numpy.float64("nan"), "progress") is None
    for wrong in (numpy.bool_(True), numpy.array([1, 2])):
        with pytest.raises(TypeError, match="^progress must be a number, not "):
            progress_number(wrong, "progress")


@pytest.mark.parametrize("given", [("half",), (True,), (None,), (1, "x"), (1, False), ([1],), (1j,), (b"1",), (object(),)])
@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}])
def test_what_is_no_number_is_no_progress(connect, server, given, meta):
    @server.tool()
    def work(ctx: Context) -> str:
        with pytest.raises(TypeError, match="^(progress|total) must be a number, not "):
            ctx.report_progress(*given)
        return "done"

    assert connect(server).ask("tools/call", {"name": "work", "_meta": meta})["result"]["content"][0]["text"] == "done"


def test_a_timeout_is_paused_until_no_thread_asks_any_more():
    over = threading.Event()
    timeout = Timeout(60, over.set)
    timeout.start()
    with timeout.paused():
        timeout._left = 0.01
        with timeout.paused():
            pass
        assert not over.wait(0.2)
    assert over.wait(20)
    over.clear()
    with timeout.paused():
        timeout.stop()  # the handler has returned, while a thread of it still asks
    assert not over.wait(0.2)


# --- what the library needs of a context is not part of what handlers see of it; the same holds for the server's class----


CONTEXT = """
    ask can_elicit can_elicit_url can_list_roots can_sample cancelled check_cancelled client_capabilities client_info
    close_stream critical debug elicit elicit_url elicitation_complete error extensions http info input_responses lifespan
    list_roots log meta method notice notify on_cancel once principal protocol_version report_progress request_id round sample
    sleep state store task_id task_status token tool trace_context warning
"""
SERVER = """
    add_directory add_method add_notification add_prompt add_resource add_skills add_tool auth close completion debug fleet info
    instructions limits logging_handler method name observe prompt prompts_changed remove_directory remove_prompt
    remove_resource mount remove_tool resource resource_updated resources_changed revisions run run_task serve_channel sessions
    tool
    tools_changed wsgi
"""


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_help_shows_what_handlers_use():
    assert public(mcplite.Context) - set(CONTEXT.split()) == set()


def test_help_shows_what_servers_are_made_with():
    # Parts that are added to the public names belong into the list; what only the library calls does not.
    assert public(mcplite.Server) - set(SERVER.split()) == set()


@pytest.fixture
def large(tmp_path):
    """A server with large answers of each kind, by what asks for them."""
    (tmp_path / "large.txt").write_text("x" * COSTLY)
    (tmp_path / "small.txt").write_text("x" * 10)
    mcp = mcplite.Server("large")
    mcp.add_directory("files://all", str(tmp_path))

    @mcp.tool
    def text(size: int = COSTLY + 1) -> str:
        return "x" * size

    @mcp.resource("made://text")
    def made_text() -> str:
        return "x" * COSTLY

    @mcp.resource("made://bytes")
    def made_bytes() -> bytes:
        return b"x" * COSTLY

    return mcp


LARGE = {"a file": lambda client: client.read_resource("files://all/large.txt"),
         "a text": lambda client: client.read_resource("made://text"),
         "bytes": lambda client: client.read_resource("made://bytes"),
         "a result": lambda client: client.call_tool("text")}
#: The server itself, and one that passes its answers on.
KINDS = pytest.mark.parametrize("mounted, kind", [(False, kind) for kind in LARGE] + [(True, "a file"), (True, "a result")])
SMALL = {"a file": lambda client: client.read_resource("files://all/small.txt"),
         "a result": lambda client: client.call_tool("text", {"size": 10})}


@contextlib.contextmanager
def connected(server, mounted):
    """Yield a client over HTTP, and the server that it is connected to."""
    with mcplite.serve(server) as served:
        if not mounted:
            with mcplite.connect(served.url) as client:
                yield client, server
            return
        hub = mcplite.Server("hub")
        hub.mount(mcplite.connect(served.url))
        with mcplite.serve(hub) as outer, mcplite.connect(outer.url) as client:
            yield client, hub


@KINDS
def test_large_answers_are_made_one_at_a_time(large, kind, mounted):
    finished = []
    with connected(large, mounted) as (client, server):
        turns = server.runtime.turns
        before = turns.begin("another client")
        thread = threading.Thread(target=lambda: finished.append(LARGE[kind](client)))
        thread.start()
        assert wait_until(lambda: turns._waiting.count == 1) and not finished
        for ask in SMALL.values():
            assert ask(client)  # is not large, so it does not wait
        before.end()
        thread.join(30)
        assert finished and turns._waiting.count == 0
        turns.begin("another client").end()  # the turn has ended


@KINDS
def test_a_large_answer_counts_before_it_is_made_and_until_it_is_read(large, kind, mounted, monkeypatch):
    counted, reserve = [], RequestBody.reserve

    def note(body, size):
        counted.append((size, reserve(body, size)))
        return counted[-1][1]

    monkeypatch.setattr(RequestBody, "reserve", note)
    monkeypatch.setattr(client_call, "_MOST_SECONDS", 0)
    with connected(large, mounted) as (client, _):
        assert LARGE[kind](client)
        assert len(counted) == 1 + mounted and all(size >= COSTLY and given for size, given in counted)
        counted.clear()
        for ask in SMALL.values():
            ask(client)
        assert not counted
        monkeypatch.setattr(RequestBody, "reserve", lambda body, size: False)
        if kind != "a file":
            assert LARGE[kind](client), "the handler has done its work, which an error would deny"
            return
        with pytest.raises(RemoteError, match="too many large answers are unread") as caught:
            LARGE[kind](client)
        assert caught.value.code == SERVER_BUSY


def test_the_timeout_of_a_tool_is_paused_while_any_thread_asks():
    ended = threading.Event()
    timeout = Timeout(0.05, ended.set)
    timeout.start()
    with timeout.paused():
        with timeout.paused():
            pass
        assert not ended.wait(0.3)
    assert ended.wait(30)


def test_a_stopped_timeout_does_not_end_the_call_when_several_threads_have_asked():
    ended = threading.Event()
    timeout = Timeout(0.1, ended.set)
    timeout.start()
    with contextlib.ExitStack() as one, contextlib.ExitStack() as other:
        one.enter_context(timeout.paused())
        other.enter_context(timeout.paused())
        one.close()
        other.close()
        timeout.stop()
    assert not ended.wait(0.3)

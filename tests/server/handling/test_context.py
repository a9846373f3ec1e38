"""What a handler may ask of its request: progress, logs, cancellation, facts."""

import decimal
import fractions
import math
import threading

import pytest

from mcplite.errors import Cancelled
from mcplite.server import Context, Limits, Server
from mcplite.server.handling.context import LEVELS, progress_number


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


def test_nothing_is_sent_after_the_response(connect, server):
    go, contexts = threading.Event(), []

    @server.tool()
    def work(ctx: Context) -> None:
        contexts.append(ctx)
        ctx.report_progress(1)

    client = connect(server)
    client.call("work", progressToken=1)
    contexts[0].report_progress(2)
    contexts[0].info("late")
    go.set()
    assert client.result("ping") == {}
    assert [message["params"]["progress"] for message in client.others] == [1]


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


def test_a_cancel_callback_can_be_removed(connect, server):
    calls, inside, done = [], threading.Event(), threading.Event()

    @server.tool()
    def work(ctx: Context) -> None:
        ctx.on_cancel(lambda: calls.append("taken back"))()
        ctx.on_cancel(done.set)
        inside.set()
        ctx.token.wait(20)

    client = connect(server)
    id = client.start("tools/call", {"name": "work"})
    assert inside.wait(20)
    client.notify("notifications/cancelled", {"requestId": id})
    assert done.wait(20)
    assert calls == []


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
                     "revision": "2025-11-25", "life": {"db": "facts"}, "roots": True,
                     "asks": [False, False, True, True], "once": [1, 1], "session": True}
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

"""Handlers that wait for their clients: one run whatever the number of questions, and nothing left behind."""

import copy
import dataclasses
import queue
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.errors import SERVER_BUSY
from mcplite.protocol.opaque import bound_to, seal
from tests.support.children import wait_until
from tests.support.stateless import Web, accept, again, call, message
from tests.support.suspended import journal, make_calls
from tests.support.tight import tight

LIMIT = 30
ADA, BOB = mcplite.Principal("ada"), mcplite.Principal("bob")
ASKED = {"elicitation": {}, "sampling": {}, "roots": {}}
REFUSED = {"code": -32602, "message": "Invalid or expired requestState: send the request again without it"}


@dataclasses.dataclass
class Trip:
    city: str
    nights: int


@dataclasses.dataclass
class Stay:
    nights: int

    def __post_init__(self):
        if self.nights % 2:
            raise ValueError("a stay has an even number of nights")


class Desk:
    """A server whose tools ask, and what they have done."""

    def __init__(self, **limits):
        self.done = Counter()
        self.ended = queue.Queue()
        self.mcp = mcp = mcplite.Server("desk", limits=tight(**limits))

        @mcp.tool()
        def book(guest: str, ctx: mcplite.Context) -> str:
            self.done["entered"] += 1
            try:
                where = ctx.elicit("Where to?", Trip)
                self.done["paid"] += 1
                sure = ctx.elicit(f"Sure about {where.data.city}?")
            except BaseException as error:
                self.ended.put(type(error))
                raise
            return f"{guest}: {where.data.city} for {where.data.nights}, {sure.action}"

        @mcp.tool()
        def other(guest: str, ctx: mcplite.Context) -> str:
            return ctx.elicit("Other?").action

        @mcp.tool()
        def both(ctx: mcplite.Context) -> str:
            answers = ctx.ask({"a": mcplite.Elicit("A?", bool), "b": mcplite.Elicit("B?", bool)})
            return f"{answers['a'].data} {answers['b'].data}"

        @mcp.tool()
        def stay(ctx: mcplite.Context) -> int:
            return ctx.elicit("How long?", Stay).data.nights


@pytest.fixture
def desk():
    return Desk()


def book(guest="Ada", **said):
    return call("book", {"guest": guest}, **{"capabilities": ASKED, **said})


def test_the_handler_runs_once_with_several_questions(way, desk):
    there, request = way(desk.mcp), book()
    first = there.result(request)
    assert first["resultType"] == "input_required"  # MRTR-04
    (key, asked), = first["inputRequests"].items()
    assert asked["method"] == "elicitation/create" and asked["params"]["message"] == "Where to?"
    assert "content" not in first and "paid" not in desk.done
    second = there.result(again(request, first, id=2))
    assert second["requestState"] != first["requestState"] and desk.done["paid"] == 1
    last = there.result(again(request, second, id=3))
    assert (last["resultType"], last["content"][0]["text"]) == ("complete", "Ada: Rome for 2, accept")
    assert desk.done == {"entered": 1, "paid": 1} and len(desk.mcp.runtime.suspended_calls) == 0


@pytest.mark.parametrize("named", [False, True])
def test_the_questions_of_several_threads_are_all_asked(way, named):
    mcp = mcplite.Server("threads")

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        together = threading.Barrier(4)

        def one(number):
            together.wait(LIMIT)
            question = mcplite.Elicit(f"Number {number}?", int)
            # Threads may choose equal keys.
            return (ctx.ask({"same": question})["same"] if named else ctx.elicit(question.message, int)).data

        with ThreadPoolExecutor(4) as pool:
            return str(list(pool.map(one, range(4))))

    there, request, asked = way(mcp), call("ask", capabilities=ASKED), []
    result = there.result(request)
    while result["resultType"] == "input_required":
        messages = {key: one["params"]["message"] for key, one in result["inputRequests"].items()}
        asked += messages.values()
        answers = {key: {"action": "accept", "content": {"value": int(message.split()[1][:-1])}}
                   for key, message in messages.items()}
        result = there.result(again(request, result, answers, id=len(asked) + 1))
    assert result["content"][0]["text"] == "[0, 1, 2, 3]"
    assert sorted(asked) == [f"Number {number}?" for number in range(4)]
    assert len(mcp.runtime.suspended_calls) == 0


def test_threads_that_wait_for_another_ones_question_ask_in_the_next_round(way):
    mcp, waiting = mcplite.Server("threads"), threading.Event()

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(ctx.elicit, "first?")
            assert waiting.wait(LIMIT)
            others = [pool.submit(ctx.elicit, text) for text in ("second?", "third?")]
            wait_until(lambda: len(ctx._asker._open) == 3)
            others.append(first)
            waiting.clear()
            return " ".join(one.result(LIMIT).action for one in others)

    there, request = way(mcp), call("ask", capabilities=ASKED)
    first = there.result(request)
    assert [one["params"]["message"] for one in first["inputRequests"].values()] == ["first?"]
    waiting.set()
    wait_until(lambda: not waiting.is_set())
    second = there.result(again(request, first))
    assert sorted(one["params"]["message"] for one in second["inputRequests"].values()) == ["second?", "third?"]
    assert there.result(again(request, second, id=3))["content"][0]["text"] == "accept accept accept"


def test_a_cancelled_call_asks_no_questions_of_waiting_threads(desk):
    ended, mcp = queue.Queue(), mcplite.Server("threads", limits=tight(waiting_seconds=0.2))

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> None:
        def one(number):
            try:
                ctx.elicit(f"Number {number}?")
            except BaseException as error:
                ended.put(type(error))
                raise

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(one, range(3)))

    with mcplite.connect(mcp, elicitation_handler=print) as client:
        with pytest.raises(mcplite.errors.InputNeeded):
            client.call_tool("ask", rounds=False)
        assert [ended.get(timeout=LIMIT) for _ in range(3)] == [mcplite.Cancelled] * 3


def test_a_thread_that_asks_when_its_handler_has_returned_gets_an_error():
    mcp, returned, errors = mcplite.Server("threads"), threading.Event(), queue.Queue()

    @mcp.tool()
    def leave(ctx: mcplite.Context) -> str:
        def late():
            returned.wait(LIMIT)
            try:
                ctx.elicit("Late?")
            except Exception as error:
                errors.put(error)

        threading.Thread(target=late).start()
        return "left"

    with mcplite.connect(mcp, elicitation_handler=print) as client:
        assert client.call_tool("leave").text == "left"
        returned.set()
        error = errors.get(timeout=LIMIT)
        assert type(error) is mcplite.Cancelled and "the handler has returned" in str(error)


def test_notifications_before_a_question_come_with_it_and_later_ones_with_the_retry(way):
    mcp = mcplite.Server("news")

    @mcp.tool()
    def work(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        ctx.elicit("Go on?")
        ctx.report_progress(2)
        return "done"

    there, request = way(mcp), call("work", capabilities=ASKED, progressToken="one")
    asked, before = there.send(request)
    assert [note["params"] for note in before] == [{"progressToken": "one", "progress": 1}]
    before.clear()
    retry = copy.deepcopy(again(request, asked["result"], id=2))
    retry["params"]["_meta"]["progressToken"] = "two"
    _, before = there.send(retry)
    assert [note["params"] for note in before] == [{"progressToken": "two", "progress": 2}]


def changed(state):
    return [state[:-1] + ("A" if state[-1] != "A" else "B"), state + "x", state[1:], "", "x" * 100_000, "\ud800"]


def test_foreign_states_and_states_for_other_requests_get_the_same_error(way, desk):
    there, request = way(desk.mcp), book()
    first = there.result(request)
    wrong = [again(request, first, requestState=state) for state in changed(first["requestState"])]
    wrong.append(again(book("Bob"), first))
    wrong.append(again(call("other", {"guest": "Ada"}, capabilities=ASKED), first))
    for attempt in wrong:
        assert there.error(attempt) == REFUSED  # MRTR-12, MRTR-13, MRTR-16
    # None of that has used it up.
    second = there.result(again(request, first))
    assert there.error(again(request, first)) == REFUSED  # MRTR-17: once
    assert there.result(again(request, second))["resultType"] == "complete"
    assert there.error(again(request, second)) == REFUSED


@pytest.mark.parametrize("params, text", [
    ({"inputResponses": []}, "inputResponses must be an object"),
    ({"inputResponses": {"question-1": "yes"}}, "must be an object"),
    ({"requestState": 3}, "requestState must be a string")])
def test_malformed_retries_are_refused(way, desk, params, text):
    there, request = way(desk.mcp), book()
    first = there.result(request)
    error = there.error(again(request, first, **params))
    assert error["code"] == -32602 and text in error["message"]  # MRTR-19
    assert there.result(again(request, first))["resultType"] == "input_required"


def test_missing_and_invalid_answers_are_asked_for_again(way, desk):
    there, request = way(desk.mcp), call("both", capabilities=ASKED)
    first = there.result(request)
    assert set(first["inputRequests"]) == {"a", "b"}
    answers = {"a": {"action": "accept", "content": {"value": True}}, "c": {"action": "accept"}}
    name = next(iter(first["inputRequests"]["a"]["params"]["requestedSchema"]["properties"]))
    answers["a"]["content"] = {name: True}
    second = there.result(again(request, first, answers))
    assert set(second["inputRequests"]) == {"b"}  # MRTR-20
    for unfitting in ({name: "x"}, {}, {"other": 1}):
        second = there.result(again(request, second, {"b": {"action": "accept", "content": unfitting}}))
        assert set(second["inputRequests"]) == {"b"}  # MRTR-21
    for odd in ({"action": "perhaps"}, {}, {"action": "accept", "content": 3}):
        error = there.error(again(request, second, {"b": odd}))
        assert error["code"] == -32602 and "inputResponses['b']" in error["message"]  # MRTR-19
    last = there.result(again(request, second, {"b": {"action": "accept", "content": {name: False}}}))
    assert last["content"][0]["text"] == "True False"


def test_an_answer_that_the_type_of_the_form_refuses_is_asked_for_again(way, desk, caplog):
    there, request = way(desk.mcp), call("stay", capabilities=ASKED)
    result = there.result(request)
    for nights in (3, 5):
        result = there.result(again(request, result, {key: {"action": "accept", "content": {"nights": nights}}
                                                      for key in result["inputRequests"]}))
        assert result["resultType"] == "input_required"
    last = there.result(again(request, result, {key: {"action": "accept", "content": {"nights": 4}}
                                                for key in result["inputRequests"]}))
    assert last["content"][0]["text"] == "4"
    assert "a stay has an even number of nights" in caplog.text and "Traceback" not in caplog.text


def test_answers_may_come_with_the_first_request(way, desk):
    request = call("both", capabilities=ASKED)
    there = way(desk.mcp)
    first = there.result(request)
    answers = {key: accept(asked["params"]) for key, asked in first["inputRequests"].items()}
    early = call("both", params={"inputResponses": answers}, capabilities=ASKED)
    assert there.result(early)["content"][0]["text"] == "True True"


def test_other_methods_cannot_ask(way):
    mcp, told = mcplite.Server("all"), []

    @mcp.prompt()
    def greet(name: str) -> str:
        return name

    @mcp.completion(prompt="greet", argument="name")
    def names(value: str, ctx: mcplite.Context):
        told.append(ctx.can_elicit)
        return [ctx.elicit("Which?").action]

    there = way(mcp)
    error = there.error(message("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}}, capabilities=ASKED))
    assert "only be asked while a tool is called" in error["message"] or error["code"] == -32603
    assert told == [False]


def test_a_retry_may_declare_fewer_capabilities(way, desk):
    # STAT-13: capabilities hold for one request.
    there, request = way(desk.mcp), book()
    first = there.result(request)
    retry = again(request, first, {})
    retry = {**retry, "params": {**retry["params"], "_meta": book(capabilities={})["params"]["_meta"]}}
    error = there.error(retry)
    assert error["code"] == -32021 and error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}


# --- bounds ---------------------------------------------------------------------------------------------


def test_a_handler_is_cancelled_if_its_client_does_not_return():
    desk = Desk(waiting_seconds=0.2)
    web, request = Web(desk.mcp), book()
    first = web.result(request)
    assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled  # MRTR-09: the handler unwinds
    assert len(desk.mcp.runtime.suspended_calls) == 0
    assert web.error(again(request, first)) == REFUSED
    web.close()


def test_above_the_limit_of_waiting_calls_the_oldest_is_cancelled():
    desk = Desk(waiting_calls=2)
    web = Web(desk.mcp)
    states = [web.result(book()) for _ in range(3)]
    assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled and len(desk.mcp.runtime.suspended_calls) == 2
    assert web.error(again(book(), states[0])) == REFUSED
    for state in states[1:]:
        second = web.result(again(book(), state))
        assert web.result(again(book(), second))["resultType"] == "complete"
    web.close()


def test_one_sender_cannot_keep_all_waiting_calls_from_others():
    desk = Desk(waiting_calls=4, waiting_per_principal=32)
    web = Web(desk.mcp)
    first = web.send(book(), principal=BOB)[0]["result"]
    for _ in range(20):
        assert web.send(book(), principal=ADA)[0]["result"]["resultType"] == "input_required"
    second = web.send(again(book(), first), principal=BOB)[0]["result"]
    assert web.send(again(book(), second), principal=BOB)[0]["result"]["resultType"] == "complete"
    for _ in range(17):
        assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled
    assert len(desk.mcp.runtime.suspended_calls) == 3
    web.close()


def test_above_the_limit_of_one_principal_its_oldest_is_cancelled():
    desk = Desk(waiting_per_principal=1)
    web = Web(desk.mcp)
    others = [web.send(book(), principal=BOB)[0], web.send(book())[0], web.send(book())[0]]
    states = [web.send(book(), principal=ADA)[0]["result"] for _ in range(2)]
    assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled
    assert web.send(again(book(), states[0]), principal=ADA)[0]["error"] == REFUSED
    assert "result" in web.send(again(book(), states[1]), principal=ADA)[0]
    assert all("result" in other for other in others) and len(desk.mcp.runtime.suspended_calls) == 4
    web.close()


def test_waiting_calls_take_a_limited_amount_of_memory():
    desk = Desk(waiting_bytes=1_000_000)
    web = Web(desk.mcp)
    requests = [call("book", {"guest": letter * 300_000}, capabilities=ASKED) for letter in "abcdef"]
    states = [web.result(request) for request in requests]
    for _ in range(4):
        assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled
    assert len(desk.mcp.runtime.suspended_calls) == 2
    second = web.result(again(requests[-1], states[-1]))
    assert web.result(again(requests[-1], second))["content"][0]["text"].startswith("fff")
    assert web.error(call("book", {"guest": "x" * 1_000_001}, capabilities=ASKED))["code"] == SERVER_BUSY and web.status == 503
    assert desk.ended.get(timeout=LIMIT) is mcplite.RemoteError
    web.close()


def test_a_waiting_call_keeps_short_params_and_no_metadata():
    desk, long = Desk(), "x" * 100_000
    contexts = []

    def remember(context, proceed):
        contexts.append((context, dict(context.params), context.meta))
        result = proceed()
        contexts.append((context, dict(context.params), context.meta))
        return result

    mcp = mcplite.Server("desk", middleware=[remember])
    mcp.add_tool(desk.mcp.registry.get("tools", "other").function.function, name="other")
    web = Web(mcp)
    for guest, kept in (("Ada", {"name": "other", "arguments": {"guest": "Ada"}}), (long, {"name": "other"})):
        request = call("other", {"guest": guest}, info={"name": long, "version": "1"}, more=long,
                       capabilities={"elicitation": {}})
        first = web.result(request)
        context, params, meta = contexts.pop()
        assert params["arguments"] == {"guest": guest} and meta["more"] == long
        assert context.params == context.incoming.params == kept and context.meta == {}
        assert context.client_info.name == "x" * 256 and context.can_elicit
        assert web.result(again(request, first))["content"][0]["text"] == "accept"
        assert contexts.pop() == (context, params, meta), "the client's next request brings them again"
    web.close()


def test_a_waiting_handler_gives_up_its_worker_place():
    desk = Desk(running=1)
    web = Web(desk.mcp)
    waiting = [web.result(book()) for _ in range(5)]
    for first in waiting:
        second = web.result(again(book(), first))
        assert web.result(again(book(), second))["resultType"] == "complete"
    web.close()


@pytest.mark.slow
def test_the_timeout_of_a_tool_is_paused_while_it_waits(desk):
    ticking = threading.Event()

    @desk.mcp.tool(timeout=2)
    def patient(ctx: mcplite.Context) -> str:
        ctx.elicit("Well?")
        ctx.on_cancel(ticking.set)
        return "there" if not ctx.cancelled else "late"

    web, request = Web(desk.mcp), call("patient", capabilities=ASKED)
    first = web.result(request)
    threading.Event().wait(2.5)
    assert web.result(again(request, first))["content"][0]["text"] == "there"
    web.close()


@pytest.mark.parametrize("close", ["the endpoint", "the pipe"])
def test_closing_the_server_cancels_waiting_handlers(connect, desk, close):
    if close == "the endpoint":
        there = Web(desk.mcp)
        there.result(book())
        there.close()
    else:
        client = connect(desk.mcp, revision=None)
        client.send(book())
        assert client.answer(1)["result"]["resultType"] == "input_required"
        client.channel.close()
    assert desk.ended.get(timeout=LIMIT) is mcplite.Cancelled
    assert len(desk.mcp.runtime.suspended_calls) == 0


def test_a_resumed_request_can_be_cancelled_on_a_pipe(connect, desk):
    running, stopped = threading.Event(), threading.Event()

    @desk.mcp.tool()
    def slow(ctx: mcplite.Context) -> str:
        ctx.elicit("Well?")
        ctx.on_cancel(stopped.set)
        running.set()
        ctx.sleep(LIMIT)
        return "?"

    client = connect(desk.mcp, revision=None)
    request = call("slow", capabilities=ASKED, id="first")
    client.send(request)
    client.send(again(request, client.answer("first")["result"], id="second"))
    assert running.wait(LIMIT)
    client.notify("notifications/cancelled", {"requestId": "first"})  # which is answered
    client.send(call("both", id="between", capabilities=ASKED))
    client.answer("between")
    assert not stopped.is_set()
    client.notify("notifications/cancelled", {"requestId": "second"})
    assert stopped.wait(LIMIT)


def test_a_question_while_the_server_stops_does_not_wait(desk):
    begun, go_on = threading.Event(), threading.Event()

    @desk.mcp.tool()
    def late(ctx: mcplite.Context) -> str:
        begun.set()
        go_on.wait(LIMIT)
        try:
            return ctx.elicit("Well?").action
        except mcplite.Cancelled:
            desk.ended.put("cancelled")
            raise

    web = Web(desk.mcp)
    thread = threading.Thread(target=web.respond, args=(call("late", capabilities=ASKED),))
    thread.start()
    assert begun.wait(LIMIT)
    ending = threading.Thread(target=web.close)
    ending.start()
    while not web.endpoint._closed:
        threading.Event().wait(0.01)
    go_on.set()
    assert desk.ended.get(timeout=LIMIT) == "cancelled"
    ending.join(LIMIT)
    thread.join(LIMIT)
    assert len(desk.mcp.runtime.suspended_calls) == 0


# --- the sealed logs that travel as a state: length, time, keys; ``tests/fuzz/test_states.py`` has made-up ones ----


KEY = b"a key of some bytes"
CALL = bound_to("shop", "ada", "tools/call", {"name": "pay"})


def at(now=1000.0, keys=(KEY,)):
    """Return the suspended calls of a process, at a time."""
    return make_calls(keys, clock=lambda: now)


def test_a_state_of_65536_characters_travels():
    longest = max(size for size in range(48_900, 49_200) if len(_written(size)) <= 65_536)
    state = _written(longest)
    assert len(state) == 65_536
    assert at().open(state, CALL).once_results == journal(longest).once_results


def _written(size):
    try:
        return at().seal(journal(size), CALL)
    except ValueError:
        return "x" * 65_537


def test_a_longer_state_is_not_written():
    with pytest.raises(ValueError, match=r"take \d{6} bytes, and 65536 can travel.*backend="):
        at().seal(journal(100_000), CALL)


def test_a_longer_state_is_not_read():
    """The server never writes one; a program with its key could."""
    content = journal().dump(2000)
    # Blanks behind the JSON do not change what it says.
    exact, longer = (seal(content + b" " * (length * 3 // 4 - 32 - len(content)), KEY, CALL) for length in (65_536, 65_540))
    assert (len(exact), len(longer)) == (65_536, 65_540)
    assert at().open(exact, CALL) is not None and at().open(longer, CALL) is None


def test_the_clock_is_the_one_that_other_processes_have_too():
    before = time.time()
    state = make_calls([KEY], waiting_seconds=600).seal(journal(), CALL)
    assert at(before).open(state, CALL) is not None
    assert at(before + 600 + 3600).open(state, CALL) is None


def test_threads_of_a_handler_that_ask_at_once_are_all_answered():
    mcp = mcplite.Server("desk", limits=tight(waiting_seconds=LIMIT))

    @mcp.tool()
    def ask_all(ctx: mcplite.Context) -> int:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ctx.elicit("Well?").action)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers.count("accept")

    with mcplite.connect(mcp, revision="2026-07-28", elicitation_handler=lambda request: {}) as client:
        assert client.call_tool("ask_all", timeout=LIMIT / 3).data == 3

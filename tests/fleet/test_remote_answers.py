"""Handlers that wait in one process of a fleet while the client's answer comes in at another one."""

import contextlib
import queue
import secrets
import threading
import time
from collections import Counter

import pytest

import mcplite
from mcplite.backend.from_url import SealedBackend, open_backend
from mcplite.backend.memory import MemoryBackend
from tests.support.stateless import Web, again, call
from tests.support.tight import tight

KEY = secrets.token_hex(16)
CAN = {"capabilities": {"elicitation": {}}}
TRIP = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REFUSED = {"code": -32602, "message": "Invalid or expired requestState: send the request again without it"}
PATIENCE = 60


class Shared(MemoryBackend):
    """A memory that two servers of this process share as two processes would; it counts what is asked of it."""

    shared = True

    def __init__(self):
        super().__init__()
        self.used = Counter()

    def __getattribute__(self, name):
        if name in ("put", "get", "take", "swap", "append", "since", "last"):
            self.used[name] += 1
        return super().__getattribute__(name)


class Process:
    """One process of a fleet, and what its handlers did."""

    def __init__(self, backend, done, **limits):
        self.done = done
        self.ended = queue.Queue()
        mcp = mcplite.Server("fleet", backend=backend, state_keys=[KEY], limits=tight(**limits))

        @mcp.tool()
        def add(a: int, b: int) -> int:
            return a + b

        @mcp.tool()
        def book(guest: str, ctx: mcplite.Context) -> str:
            done["entered"] += 1
            where = ctx.elicit("Where to?", TRIP)
            done["charged"] += 1
            ctx.once("payment", lambda: done.update(["paid"]))
            sure = ctx.elicit(f"Sure about {where.content['city']}?")
            return f"{guest[:3]}: {where.content['city']}, {sure.action}, round {ctx.round}"

        @mcp.tool()
        def keep(size: int, ctx: mcplite.Context) -> str:
            kept = ctx.once("text", lambda: "x" * size)
            return f"{len(kept)} {ctx.elicit('Sure?').action}"

        @mcp.tool()
        def report(ctx: mcplite.Context) -> str:
            ctx.elicit("Begin?")
            ctx.report_progress(1, 2, "half")
            ctx.info("on the way")
            return f"{ctx.principal and ctx.principal.claims} {dict.fromkeys(ctx.http.headers)} {ctx.http.path}"

        @mcp.tool()
        def work(ctx: mcplite.Context) -> str:
            ctx.elicit("Begin?")
            ctx.info("begun")
            try:
                ctx.sleep(PATIENCE)
            except mcplite.Cancelled as error:
                self.ended.put(str(error))
                raise
            return "slept"

        @mcp.tool()
        def again_by_return(ctx: mcplite.Context):
            done["entered"] += 1
            if not ctx.input_responses:
                return mcplite.InputRequired({"sure": mcplite.Elicit("Sure?")}, state={"n": 1})
            return f"{ctx.input_responses['sure'].action} {ctx.state}"

        self.mcp = mcp
        self.web = Web(mcp)

    @property
    def number(self):
        return self.mcp.runtime.processes.leases.number


class Fleet:
    """The processes of one test on a store; each opens it for itself."""

    def __init__(self, backend):
        self.backend = backend
        self.done = Counter()
        self._made, self._opened = [], []

    def create(self, **limits):
        self._opened.append(open_backend(self.backend))
        self._made.append(Process(self._opened[-1], self.done, **limits))
        return self._made[-1]

    def close(self):
        for process in self._made:
            process.web.close()
        for backend in self._opened:
            backend.close()


@pytest.fixture(params=["shared", "sqlite"])
def fleet(request, tmp_path):
    with contextlib.closing(Fleet(Shared() if request.param == "shared" else f"sqlite:///{tmp_path / 'shop.db'}")) as fleet:
        yield fleet


@pytest.fixture
def memory_fleet():
    with contextlib.closing(Fleet(Shared())) as fleet:
        yield fleet


def book(guest="Ada"):
    return call("book", {"guest": guest}, **CAN)


def text(result):
    assert result["resultType"] == "complete", result
    return result["content"][0]["text"]


@pytest.mark.slow
def test_the_handler_goes_on_where_it_waits_whichever_process_gets_the_answer(fleet):
    one, other, third = fleet.create(), fleet.create(), fleet.create()
    result = one.web.result(book())
    result = other.web.result(again(book(), result))
    assert result["inputRequests"]
    assert text(third.web.result(again(book(), result, id=3))) == "Ada: Rome, accept, round 0"
    assert fleet.done == {"entered": 1, "charged": 1, "paid": 1}


def test_an_answer_that_comes_back_to_the_same_process(fleet):
    one = fleet.create()
    result = one.web.result(again(book(), one.web.result(book())))
    assert text(one.web.result(again(book(), result, id=3))) == "Ada: Rome, accept, round 0"
    assert fleet.done == {"entered": 1, "charged": 1, "paid": 1}


@pytest.mark.slow
def test_many_questions_at_once_to_two_processes(fleet):
    one, other = fleet.create(), fleet.create()
    said = queue.Queue()

    def play(number, first, second):
        request = book(f"{number:03d}")
        result = first.web.result(request)
        result = second.web.result(again(request, result))
        said.put(text(first.web.result(again(request, result, id=3))))

    players = [threading.Thread(target=play, args=(number, *((one, other) if number % 2 else (other, one))))
               for number in range(20)]
    for player in players:
        player.start()
    for player in players:
        player.join(PATIENCE)
    assert sorted(said.queue) == [f"{number:03d}: Rome, accept, round 0" for number in range(20)]
    assert fleet.done == {"entered": 20, "charged": 20, "paid": 20}


@pytest.mark.slow
def test_a_long_request_is_stored_beside_the_letter(fleet):
    one, other = fleet.create(), fleet.create()
    request = book("Ada" + "x" * 100_000)
    result = other.web.result(again(request, one.web.result(request)))
    assert text(one.web.result(again(request, result, id=3))) == "Ada: Rome, accept, round 0"
    assert fleet.done["entered"] == 1


@pytest.mark.slow
def test_messages_of_the_handler_go_to_the_request_that_brought_the_answer(fleet):
    one, other = fleet.create(), fleet.create()
    request = call("report", level="info", **CAN)
    request["params"]["_meta"]["progressToken"] = "p"
    principal = mcplite.Principal("ada", claims={"team": ["red"], "object": object()})
    first, _ = one.web.send(request, principal)
    answer, before = other.web.send(again(request, first["result"]), principal)
    assert [message["method"] for message in before] == ["notifications/progress", "notifications/message"]
    assert before[0]["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
    said = text(answer["result"])
    assert said.startswith("{'team': ['red']} ") and "mcp-method" in said and said.endswith(" /mcp")
    assert answer["id"] == 2


def test_headers_with_secrets_are_not_stored(memory_fleet):
    one, other = memory_fleet.create(), memory_fleet.create()
    request = call("report", **CAN)
    result = one.web.result(request)
    response = other.web.respond(again(request, result), Authorization="Bearer hidden", Cookie="hidden")
    body = response.content if not response.streaming else b"".join(response.body)
    assert b"mcp-method" in body and b"authorization" not in body and b"cookie" not in body
    stored = [value for log in memory_fleet.backend._logs.values() for _, value, _ in log.entries]
    assert stored and not any(b"hidden" in value for value in stored)


def test_an_answer_of_another_user_is_refused(fleet):
    one, other = fleet.create(), fleet.create()
    first, _ = one.web.send(book(), mcplite.Principal("ada"))
    for process in (one, other):
        answer, _ = process.web.send(again(book(), first["result"]), mcplite.Principal("eve"))
        assert answer["error"] == REFUSED
    answer, _ = other.web.send(again(book(), first["result"]), mcplite.Principal("ada"))
    assert answer["result"]["inputRequests"]


@pytest.mark.slow
def test_a_state_is_good_for_one_request_and_not_for_a_forged_one(fleet):
    one, other = fleet.create(), fleet.create()
    first = one.web.result(book())
    assert other.web.error(again(book("Eve"), first)) == REFUSED
    state = first["requestState"]
    assert other.web.error(again(book(), {**first, "requestState": ("y" if state[0] == "x" else "x") + state[1:]})) == REFUSED
    result = other.web.result(again(book(), first))
    for process in (one, other):
        said = process.web.error(again(book(), first))
        # What has happened since the answer is not repeated, and the client learns of it.
        assert "'payment' done" in said["message"] and "is not repeated" in said["message"]
    assert text(one.web.result(again(book(), result, id=3))).startswith("Ada: Rome")
    assert fleet.done == {"entered": 1, "charged": 1, "paid": 1}


def test_an_answer_of_the_wrong_form_is_refused_and_the_handler_goes_on_waiting(fleet):
    one, other = fleet.create(), fleet.create()
    first = one.web.result(book())
    for process in (one, other):
        error = process.web.error(again(book(), first, answers=lambda params: {"action": "perhaps"}))
        assert error["code"] == -32602 and "perhaps" in error["message"]
    assert other.web.result(again(book(), first))["inputRequests"]
    assert fleet.done["entered"] == 1


@pytest.mark.slow
def test_closing_the_response_cancels_the_handler_in_the_other_process(fleet):
    one, other = fleet.create(), fleet.create()
    request = call("work", level="info", **CAN)
    first = one.web.result(request)
    response = other.web.respond(again(request, first))
    assert response.streaming
    messages = iter(response.body)
    while b"begun" not in next(messages):
        pass
    response.body.close()
    assert "closed the connection" in one.ended.get(timeout=PATIENCE)


def test_a_process_that_stops_leaves_its_handlers_to_the_others(fleet):
    one, other = fleet.create(), fleet.create()
    result = one.web.result(book())
    result = one.web.result(again(book(), result))
    one.web.close()
    assert text(other.web.result(again(book(), result, id=3))) == "Ada: Rome, accept, round 1"
    assert fleet.done == {"entered": 2, "charged": 2, "paid": 1}


@pytest.mark.slow
def test_a_handler_that_has_lost_its_room_is_replayed(fleet):
    one, other = fleet.create(waiting_calls=1), fleet.create()
    first = one.web.result(book("Ada"))
    second = one.web.result(book("Bob"))
    for guest, result in (("Ada", first), ("Bob", second)):
        result = other.web.result(again(book(guest), result))
        assert text(other.web.result(again(book(guest), result, id=3))).startswith(f"{guest}: Rome, accept")
    assert fleet.done == {"entered": 3, "charged": 2, "paid": 2}


@pytest.mark.slow
def test_results_of_once_count_to_the_bytes_of_waiting_calls(fleet):
    one, other = fleet.create(waiting_bytes=100_000), fleet.create()
    request = call("keep", {"size": 40_000}, **CAN)
    first, second = one.web.result(request), one.web.result(request)
    assert len(one.mcp.runtime.suspended_calls) == 1
    for number, result in enumerate((first, second)):
        assert text(other.web.result(again(request, result, id=number + 3))) == "40000 accept"
    request = call("keep", {"size": 200_000}, **CAN)  # it does not wait, and is replayed
    assert text(other.web.result(again(request, one.web.result(request)))) == "200000 accept"


@pytest.mark.slow
def test_states_are_bounded_and_their_handlers_end_with_them(fleet):
    one, other = fleet.create(fleet_states=2, fleet_state_bytes=100_000), fleet.create()
    results = [one.web.result(book()) for _ in range(3)]
    assert len(one.mcp.runtime.suspended_calls) == 2
    assert "was used before, or the store has lost it" in other.web.error(again(book(), results[0]))["message"]
    for result in results[1:]:
        assert other.web.result(again(book(), result, id=3))["inputRequests"]
    request = call("keep", {"size": 30_000}, **CAN)
    for _ in range(3):
        last = one.web.result(request)
    assert len(one.mcp.runtime.suspended_calls) == 2
    assert text(other.web.result(again(request, last))) == "30000 accept"
    failed = one.web.result(call("keep", {"size": 100_000}, **CAN))
    assert failed["isError"] and "Limits.memory_bytes" in failed["content"][0]["text"]


@pytest.mark.slow
def test_a_process_that_was_taken_for_ended_leaves_the_call_to_the_other(memory_fleet):
    fleet = memory_fleet
    one, other = fleet.create(), fleet.create()
    result = one.web.result(book())
    number = one.number
    # As another process notes it while this one is paused.
    SealedBackend(fleet.backend, [KEY.encode()]).put(f"lease-{number}/process", b"ended", 600)
    result = other.web.result(again(book(), result))
    assert text(other.web.result(again(book(), result, id=3))) == "Ada: Rome, accept, round 1"
    until = time.monotonic() + PATIENCE
    while len(one.mcp.runtime.suspended_calls):
        assert time.monotonic() < until, "it learns of it with its next renewal, and cancels what waits"
        time.sleep(0.05)
    assert fleet.done == {"entered": 2, "charged": 1, "paid": 1}
    assert one.number != number
    result = one.web.result(book())
    result = other.web.result(again(book(), result))
    assert text(one.web.result(again(book(), result, id=3))) == "Ada: Rome, accept, round 0"


def test_what_needs_no_other_process_costs_the_backend_nothing(memory_fleet):
    one = memory_fleet.create()
    request = call("add", {"a": 1, "b": 2}, **CAN)
    one.web.result(request)
    before = Counter(memory_fleet.backend.used)
    for _ in range(100):
        assert text(one.web.result(request)) == "3"
    spent = Counter(memory_fleet.backend.used) - before
    assert spent.pop("last", 0) < 50 and not spent, "but for the thread of the messages, which looks now and then"


def test_a_question_costs_few_operations(memory_fleet):
    one, other = memory_fleet.create(), memory_fleet.create()
    request = call("again_by_return", **CAN)
    for process in (one, other):
        process.web.result(call("add", {"a": 1, "b": 2}, **CAN))
        assert process.number
    used = memory_fleet.backend.used
    used.clear()
    first = one.web.result(request)
    assert (used["put"], used["get"], used["take"], used["append"]) == (1, 0, 0, 0), "the journal"
    used.clear()
    other.web.result(again(request, first))
    # Is the process alive, the journal; a message and the response, of which each is read once.
    assert (used["put"], used["get"], used["take"], used["append"]) == (0, 1, 1, 2) and used["since"] <= 3

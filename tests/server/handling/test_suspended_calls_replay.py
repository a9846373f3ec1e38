"""Handlers in a fleet: entered again in whichever process, with the answers so far, and trusted only when sealed."""

import itertools
import json
from collections import Counter

import pytest

import mcplite
from tests.support.stateless import Web, again, call

KEYS = ["a key of thirty-two bytes or more"]
CAN = {"capabilities": {"elicitation": {}}}
REFUSED = {"code": -32602, "message": "Invalid or expired requestState: send the request again without it"}
TRIP = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Fleet:
    """Processes that share nothing but the keys; each request reaches the next of them."""

    def __init__(self, size=3, keys=KEYS, name="fleet", seconds=600.0):
        self.done = Counter()
        self.seen = []
        self.processes = [self.make(keys, name, seconds) for _ in range(size)]
        self.turns = itertools.cycle(self.processes)

    def make(self, keys, name, seconds):
        mcp = mcplite.Server(name, fleet=True, state_keys=keys, limits=mcplite.Limits(waiting_seconds=seconds))

        @mcp.tool()
        def book(guest: str, ctx: mcplite.Context) -> str:
            self.seen.append(ctx.round)
            self.done["entered"] += 1
            where = ctx.elicit("Where to?", TRIP)
            price = ctx.once("price", self.pay)
            sure = ctx.elicit(f"{price['euros']} euros for {where.content['city']}?")
            return f"{guest}: {where.content['city']}, {sure.action}"

        @mcp.tool()
        def other(guest: str, ctx: mcplite.Context) -> str:
            return ctx.elicit("Where to?", TRIP).action

        @mcp.tool()
        def swallow(ctx: mcplite.Context) -> str:
            try:
                return ctx.elicit("Well?").action
            except Exception:
                return "swallowed"

        @mcp.tool()
        def greedy(ctx: mcplite.Context) -> str:
            try:
                return ctx.elicit("Well?").action
            except:  # noqa: E722
                return "swallowed"

        @mcp.tool()
        def fickle(ctx: mcplite.Context) -> str:
            first = ctx.elicit(f"Question {next(self.numbers)}?")
            return first.action

        @mcp.tool()
        def odd(ctx: mcplite.Context) -> str:
            ctx.once("odd", lambda: {1, 2})
            return ctx.elicit("Well?").action

        @mcp.tool()
        def long(ctx: mcplite.Context) -> str:
            ctx.once("long", lambda: "x" * 100_000)
            return ctx.elicit("Well?").action

        @mcp.tool()
        def wizard(ctx: mcplite.Context):
            if ctx.round == 0:
                return mcplite.InputRequired({"where": mcplite.Elicit("Where to?", TRIP)}, state={"step": 1})
            return f"{ctx.state['step']} {ctx.input_responses['where'].content['city']}"

        @mcp.tool()
        def both(ctx: mcplite.Context) -> str:
            answers = ctx.ask({"a": mcplite.Elicit("A?"), "b": mcplite.Elicit("B?")})
            return f"{answers['a'].action} {answers['b'].action}"

        return Web(mcp)

    numbers = itertools.count()

    def pay(self):
        self.done["paid"] += 1
        return {"euros": 100, "pair": (1, 2)}

    def send(self, request, principal=None):
        return next(self.turns).send(request, principal and mcplite.Principal(principal))[0]

    def result(self, request):
        answer = self.send(request)
        assert "result" in answer, answer
        return answer["result"]

    def finish(self, request):
        """Answer questions until there is a result; return it and the number of requests."""
        sent, result = request, self.result(request)
        for count in range(1, 12):
            if result["resultType"] == "complete":
                return result["content"][0]["text"], count
            sent = again(request, result, id=count + 1)
            result = self.result(sent)
        raise AssertionError("no end")

    def close(self):
        for process in self.processes:
            process.close()


@pytest.fixture
def fleet():
    fleet = Fleet()
    yield fleet
    fleet.close()


def book(guest="Ada"):
    return call("book", {"guest": guest}, **CAN)


def test_a_noted_effect_happens_once_in_any_process(fleet):
    assert fleet.finish(book()) == ("Ada: Rome, accept", 3)
    assert fleet.done == {"entered": 3, "paid": 1}
    assert fleet.seen == [0, 1, 2]


@pytest.mark.parametrize("tool, text, count", [("wizard", "1 Rome", 2), ("both", "accept accept", 2), ("swallow", "accept", 2)])
def test_other_ways_to_ask(fleet, tool, text, count):
    assert fleet.finish(call(tool, **CAN)) == (text, count)


def test_a_bare_except_does_not_suppress_a_question(fleet):
    first = fleet.result(call("greedy", **CAN))
    assert first["resultType"] == "input_required"


def test_partial_answers_are_kept(fleet):
    request = call("both", **CAN)
    first = fleet.result(request)
    second = fleet.result(again(request, first, {"a": {"action": "decline"}}))
    assert set(second["inputRequests"]) == {"b"}
    last = fleet.result(again(request, second, {"b": {"action": "accept"}}))
    assert last["content"][0]["text"] == "decline accept"


def test_a_handler_that_asks_other_questions_when_called_again(fleet, caplog):
    request = call("fickle", **CAN)
    first = fleet.result(request)
    second = fleet.result(again(request, first))
    assert second["resultType"] == "input_required" and "asks other questions" in caplog.text


def test_notes_must_be_json(fleet):
    result = fleet.result(call("odd", **CAN))
    assert result["isError"] and "cannot be kept as JSON" in result["content"][0]["text"]
    result = fleet.result(call("long", **CAN))
    assert result["isError"] and "backend=" in result["content"][0]["text"]


# --- trust ----------------------------------------------------------------------------------------------


def test_no_character_of_a_state_can_be_changed(fleet):
    request = book()
    state = fleet.result(request)["requestState"]
    for at in range(0, len(state), 7):
        other = "A" if state[at] != "A" else "B"
        wrong = again(request, {}, {}, requestState=state[:at] + other + state[at + 1:])
        assert fleet.send(wrong)["error"] == REFUSED, at  # MRTR-12
    for wrong in ("", "x", state[:-1], state + "=", state * 2, "\ud800", "é"):
        assert fleet.send(again(request, {}, {}, requestState=wrong))["error"] == REFUSED


def test_a_state_is_bound_to_its_request_and_its_owner(fleet):
    first = fleet.send(book(), principal="ada")["result"]
    retry = again(book(), first)
    for principal in (None, "bob"):
        assert fleet.send(retry, principal)["error"] == REFUSED  # MRTR-14
    assert fleet.send(again(book("Bob"), first), "ada")["error"] == REFUSED  # MRTR-16
    assert fleet.send(again(call("other", {"guest": "Ada"}, **CAN), first), "ada")["error"] == REFUSED
    assert fleet.send(retry, "ada")["result"]["resultType"] == "input_required"


def test_a_state_does_not_contain_the_keys(fleet):
    assert KEYS[0] not in json.dumps(fleet.result(book()))

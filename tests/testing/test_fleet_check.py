"""The check of handlers in a fleet."""

import itertools

import pytest

import mcplite
from mcplite.testing import replay

KEYS = ["a key of thirty-two bytes or more"]


def accept(method, params):
    assert method == "elicitation/create"
    return {"action": "accept", "content": {}}


def fleet(handler, name="work"):
    mcp = mcplite.Server("fleet", fleet=True, state_keys=KEYS)
    mcp.add_tool(handler, name=name)
    return mcp


@pytest.mark.parametrize("name", ["work", "=?base64?odd", "größe"])
def test_a_handler_with_the_same_result_each_time_passes(name):
    paid = []

    def work(guest: str, ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        first = ctx.elicit(f"{guest}, go on?")
        ctx.once("pay", lambda: paid.append(guest))
        return f"{first.action} {ctx.elicit('Sure?').action}"

    result, rounds = replay(fleet(work, name), name, {"guest": "Ada"}, answer=accept)
    assert result["content"][0]["text"] == "accept accept"
    assert [list(asked.values())[0]["params"]["message"] for asked in rounds] == ["Ada, go on?", "Sure?"]
    assert len(paid) == 2  # round 1 is run twice; round 2 has it in its state


def test_a_question_that_differs_within_a_round_fails():
    numbers = itertools.count()

    def work(ctx: mcplite.Context) -> str:
        return ctx.elicit(f"Number {next(numbers)}?").action

    with pytest.raises(AssertionError, match="round 0 gives another result"):
        replay(fleet(work), "work", answer=accept)


def test_a_question_that_is_asked_again_fails():
    numbers = iter([0, 0, 1, 1, 0, 0])

    def work(ctx: mcplite.Context) -> str:
        return ctx.elicit(f"Number {next(numbers)}?").action

    with pytest.raises(AssertionError, match="asked again"):
        replay(fleet(work), "work", answer=accept)


def test_questions_without_end_fail():
    def work(ctx: mcplite.Context) -> str:
        for number in itertools.count():
            ctx.elicit(f"Number {number}?")
        return ""

    with pytest.raises(AssertionError, match="still questions after 3 rounds"):
        replay(fleet(work), "work", answer=accept, rounds=3)


def test_a_refused_call_fails():
    with pytest.raises(AssertionError, match="Unknown tool"):
        replay(fleet(lambda: "x"), "other", answer=accept)
    with pytest.raises(TypeError, match="is not a fleet"):
        replay(mcplite.Server("alone"), "x", answer=accept)

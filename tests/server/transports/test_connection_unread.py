"""Answers that their clients do not read have a budget: the oldest is cut off."""

import contextlib

import pytest

import mcplite
from mcplite.server import Context, Server
from tests.support.children import wait_until
from tests.support.rawhttp import Wire, begin, call, post
from tests.support.tight import tight

#: Characters of an answer; more than the kernel takes for a client with a small buffer.
SIZE = 12_000_000


@pytest.fixture
def served():
    with contextlib.ExitStack() as stack:
        def served(**bounds):
            server = Server("unread", limits=tight(grace=5.0, commit_seconds=60.0, **bounds))

            @server.tool()
            def plain() -> str:
                return "x" * SIZE

            @server.tool()
            def streamed(ctx: Context) -> str:
                ctx.info("it takes a moment")
                return "x" * SIZE

            @server.tool()
            def small() -> str:
                return "x"

            return stack.enter_context(mcplite.serve(server))

        yield served


def ended_early(wire):
    """Return whether a connection ended in the middle of its response."""
    with pytest.raises((AssertionError, OSError)):
        wire.reply()
    return True


@pytest.mark.parametrize("tool", ["plain", "streamed"])
@pytest.mark.slow
def test_the_oldest_answer_that_is_not_read_is_cut_off(served, tool):
    made = served(body_bytes_at_once=5 * SIZE // 2)
    with contextlib.ExitStack() as stack:
        with Wire(made.port) as control:
            session = begin(control)
        wires, shares, newest = [], made.budget.shares, None
        for number in range(4):
            wires.append(stack.enter_context(Wire(made.port, small=True)).send(post(call(tool, id=number), session)))
            assert wait_until(lambda last=newest: shares.items()[-1:] not in ([], [last]))
            newest, = shares.items()[-1:]
            assert len(shares) == min(len(wires), 2)
        assert made.budget.shares.bytes <= 5 * SIZE // 2
        assert ended_early(wires[0])
        reply = wires[3].reply()
        assert reply.status == 200 and len(reply.body) > SIZE
        with Wire(made.port) as wire:
            assert wire.post(call("small"), session).status == 200
    assert wait_until(lambda: len(made.budget.shares) == 0)


@pytest.mark.parametrize("tool", ["plain", "streamed"])
def test_an_answer_larger_than_the_budget_is_sent(served, tool):
    made = served(body_bytes_at_once=100_000)
    with Wire(made.port, small=True) as wire:
        session = begin(wire)
        for number in range(2):
            reply = wire.post(call(tool, id=number), session)
            assert reply.status == 200 and len(reply.body) > SIZE
        assert wait_until(lambda: len(made.budget.shares) == 0)


def test_answers_that_are_read_count_to_nothing(served):
    made, counted = served(), []
    add = made.budget.shares.add
    made.budget.shares.add = lambda *given: counted.append(given) or add(*given)
    with Wire(made.port) as wire:
        session = begin(wire)
        assert wire.post(call("small"), session).status == 200
    assert counted == []

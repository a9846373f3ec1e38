"""The leader-follower reading: another thread leads while a handler takes long or waits."""

import threading
import time

import pytest

from tests.support.conversations import reply

pytestmark = pytest.mark.bad_wire


def test_a_quick_request_is_answered_while_a_slow_one_runs(make):
    talk, go = make(serving=True), threading.Event()

    def task(incoming):
        if incoming.method == "slow":
            go.wait(20)
        incoming.respond({"m": incoming.method})

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "slow"})
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "quick"})
    assert talk.hear()["result"] == {"m": "quick"}
    go.set()
    assert talk.hear()["result"] == {"m": "slow"}


def test_the_watchdog_sleeps_and_wakes(make):
    talk, go = make(serving=True), threading.Event()
    until = time.monotonic() + 20
    while not talk.peer._reading._watchdog._asleep and time.monotonic() < until:
        time.sleep(0.005)
    assert talk.peer._reading._watchdog._asleep
    talk.handler.task = lambda incoming: (go.wait(20) if incoming.id == 1 else None, incoming.respond({}))
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    assert talk.hear()["id"] == 2
    go.set()
    assert talk.hear()["id"] == 1


def test_a_handler_that_asks_releases_its_role_and_place(make):
    talk = make(serving=True, places=1)

    def task(incoming):
        incoming.respond(talk.peer.call("question", {"for": incoming.id}, timeout=20))

    talk.handler.task = task
    for id in ("a", "b", "c"):
        talk.say({"jsonrpc": "2.0", "id": id, "method": "x"})
    questions = [talk.hear() for _ in range(3)]
    for question in reversed(questions):
        talk.say(reply(question, question["params"]))
    answers = [talk.hear() for _ in range(3)]
    assert sorted(answer["id"] for answer in answers) == ["a", "b", "c"]
    assert all(answer["result"]["for"] == answer["id"] for answer in answers)

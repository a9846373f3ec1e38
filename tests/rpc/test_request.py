"""Requests of the other side: one response each, whatever the handler does; batches."""

import threading
import time

import pytest

from mcplite.errors import Cancelled, InvalidParams, RemoteError
from mcplite.protocol import jsonrpc
from mcplite.rpc.interfaces import MessageSink
from mcplite.rpc.request import Incoming

pytestmark = pytest.mark.bad_wire


@pytest.mark.parametrize("serving", [False, True])
def test_requests_of_the_other_side_are_answered(make, serving):
    talk = make(serving=serving)
    talk.say({"jsonrpc": "2.0", "id": "a", "method": "echo", "params": {"x": 1}})
    assert talk.hear() == {"jsonrpc": "2.0", "id": "a", "result": {"echo": {"x": 1}}}
    talk.say({"jsonrpc": "2.0", "id": 0, "method": "echo"})
    assert talk.hear()["result"] == {"echo": {}}


@pytest.mark.parametrize("serving", [False, True])
@pytest.mark.parametrize("error, answer", [
    (ValueError("secret"), {"code": -32603, "message": "Internal error"}),
    (InvalidParams("bad", data=[1]), {"code": -32602, "message": "bad", "data": [1]}),
    (RemoteError("odd data", code=5, data=object()), {"code": 5, "message": "odd data"}),
    (Cancelled(), {"code": -32603, "message": "The request was cancelled"}),
    (SystemExit(), {"code": -32603, "message": "Internal error"}),
])
def test_a_request_whose_handler_raises_is_answered(make, serving, error, answer):
    talk = make(serving=serving)

    def task(incoming):
        raise error

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"] == answer
    talk.handler.task = None
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    assert talk.hear()["result"] == {"echo": {}}


def test_a_failing_on_request_is_an_internal_error(talk):
    talk.handler.on_request = lambda incoming: 1 / 0
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"]["code"] == -32603


def test_a_second_response_is_dropped(talk):
    def task(incoming):
        incoming.respond({"first": True})
        incoming.respond({"second": True})
        incoming.fail(1, "third")

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["result"] == {"first": True}
    assert talk.hear(0.1) is None


def test_a_cancelled_request_is_not_answered(talk):
    inside, ended = threading.Event(), threading.Event()

    def task(incoming):
        inside.set()
        incoming.token.wait(20)
        assert not incoming.emit("note", {})
        ended.set()
        incoming.token.check()

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": "s", "method": "x"})
    assert inside.wait(20)
    assert talk.peer.in_flight == 1
    assert talk.peer.cancel_incoming("s", "why") and not talk.peer.cancel_incoming("t", None)
    assert ended.wait(20)
    while talk.peer.in_flight:
        pass
    assert talk.hear(0.05) is None


class Sent(MessageSink):
    """Notes what was sent; a notification takes so long that a response could overtake it."""

    def __init__(self):
        self.kinds = []

    def send_message(self, data, outlet=None, wait=True):
        time.sleep(0.0001)
        self.kinds.append("notification")
        return True

    def send_response(self, key, data, code, outlet):
        self.kinds.append("response")


@pytest.mark.parametrize("before", [0, 1])
def test_a_response_is_sent_after_the_notifications_of_other_threads_and_ends_them(before):
    for _ in range(50):
        sent = Sent()
        incoming = Incoming(sent, jsonrpc.Request(1, "x"))
        for _ in range(before):
            assert incoming.emit("note", {})

        def report(incoming=incoming):
            while incoming.emit("note", {}):
                pass

        threads = [threading.Thread(target=report) for _ in range(3)]
        for thread in threads:
            thread.start()
        incoming.respond({})
        for thread in threads:
            thread.join(20)
        assert sent.kinds.index("response") == len(sent.kinds) - 1  # PROG-11


def test_a_token_created_after_cancelling_is_cancelled(talk):
    inside, go, seen = threading.Event(), threading.Event(), []

    def task(incoming):
        inside.set()
        go.wait(20)
        seen.append((incoming.token.cancelled, incoming.token.reason))
        incoming.respond({})

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert inside.wait(20)
    talk.peer.cancel_incoming(1.0, "early")
    talk.peer.cancel_incoming(1, "again")
    go.set()
    while talk.peer.in_flight:
        pass
    assert seen == [(True, "early")]


def test_a_cancelled_member_of_a_batch_is_left_out(make):
    talk = make(serving=True)
    talk.handler.batches, inside = True, threading.Event()

    def task(incoming):
        if incoming.id == 1:
            inside.set()
            incoming.token.wait(20)
        incoming.respond({})

    talk.handler.task = task
    talk.say([{"jsonrpc": "2.0", "id": 1, "method": "x"}, {"jsonrpc": "2.0", "id": 2, "method": "x"}])
    assert inside.wait(20)
    talk.peer.cancel_incoming(1, None)
    assert [item["id"] for item in talk.hear()] == [2]


def test_a_request_that_is_cancelled_before_it_starts_does_not_run(make):
    talk = make()
    ran, held = [], []

    def keep(incoming):
        held.append(incoming)

    talk.handler.on_request = keep
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    while len(held) < 2:
        threading.Event().wait(0.01)
    held[0].cancel("given up")
    for incoming in held:
        incoming.run(lambda incoming=incoming: ran.append(incoming.id))
    assert ran == [2]


def test_only_the_latest_successor_of_a_request_is_kept(make):
    talk, held = make(), []
    talk.handler.on_request = held.append
    for number in range(4):
        talk.say({"jsonrpc": "2.0", "id": number, "method": "x"})
    while len(held) < 4:
        threading.Event().wait(0.01)
    for before, after in zip(held, held[1:]):
        before.respond({})
        after.take_over(before)
    first, *between, last = held
    assert first.successor is last and [one.successor for one in between] == [None, None]
    last.respond({"last": True})
    assert [talk.hear()["id"] for _ in held] == [0, 1, 2, 3]


def test_a_result_that_is_not_json_is_an_internal_error(talk):
    talk.handler.task = lambda incoming: incoming.respond({"x": object()})
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"]["code"] == -32603

"""One conversation: calls, answers, progress, cancellation, faults and the end, over memory."""

import json
import threading
import time

import pytest

from mcplite.errors import (
    Cancelled,
    ConnectionClosed,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    RemoteError,
    RequestTimeout,
)
from mcplite.protocol import jsonrpc
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.interfaces import Delivery
from tests.support.conversations import reply

pytestmark = pytest.mark.bad_wire


def test_a_call_and_its_answer(talk):
    outcome = talk.call("add", {"a": 1})
    request = talk.hear()
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 1}}
    talk.say(reply(request, {"sum": 2}))
    assert outcome() == {"sum": 2}
    assert talk.peer.counters.messages_sent == 1 and talk.peer.counters.messages_received == 1
    assert talk.peer.counters.bytes_sent > 0 and talk.peer.counters.bytes_received > 0


@pytest.mark.parametrize("code, kind", [(-32601, MethodNotFound), (-32602, InvalidParams), (7, RemoteError)])
def test_an_error_is_raised_with_everything_in_it(talk, code, kind):
    outcome = talk.call("x")
    request = talk.hear()
    talk.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no", "data": {"a": 1}}})
    error = outcome()
    assert type(error) is kind and (error.code, error.message, error.data, error.received) == (code, "no", {"a": 1}, True)


@pytest.mark.parametrize("answer", [
    {"result": {}, "error": {"code": 1, "message": "x"}}, {"result": None}, {"result": 3}, {"error": "x"}, {"result": []},
])
def test_an_answer_that_is_none_fails_its_call_and_no_other(talk, answer):
    outcome = talk.call("x")
    talk.say({"jsonrpc": "2.0", "id": talk.hear()["id"], **answer})
    assert isinstance(outcome(), ProtocolError)
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {}))
    assert outcome() == {}


def test_odd_codes_are_kept_as_far_as_they_go(talk):
    outcome = talk.call("x")
    talk.say({"jsonrpc": "2.0", "id": talk.hear()["id"], "error": {"code": "E1", "message": None}})
    error = outcome()
    assert isinstance(error, RemoteError) and error.code == -32603


def test_answers_in_any_order_reach_their_callers(talk):
    outcomes = {}
    for number in range(20):
        outcomes[number] = talk.call("x", {"n": number})
    requests = [talk.hear() for _ in range(20)]
    assert len({request["id"] for request in requests}) == 20
    for request in reversed(requests):
        talk.say(reply(request, {"n": request["params"]["n"]}))
    assert all(outcome()["n"] == number for number, outcome in outcomes.items())


def test_stray_late_and_wrong_answers_wake_nobody(talk, caplog):
    outcome = talk.call("x")
    request = talk.hear()
    for id in (99, "1", -1):
        talk.say({"jsonrpc": "2.0", "id": id, "result": {}})
    talk.say(reply(request, {"mine": True}))
    assert outcome() == {"mine": True}
    talk.say(reply(request, {"late": True}))
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {"second": True}))
    assert outcome() == {"second": True}
    assert talk.peer.counters.refused == 4
    assert "a response to no pending call" in caplog.text


def test_no_answer_in_time_cancels_and_a_late_one_is_dropped(talk):
    outcome = talk.call("slow", timeout=0.05)
    request = talk.hear()
    error = outcome()
    assert isinstance(error, RequestTimeout) and isinstance(error, TimeoutError)
    assert "the other side" in str(error) and "'slow'" in str(error)
    notice = talk.hear()
    assert notice["method"] == "cancelled" and notice["params"]["id"] == request["id"]
    talk.say(reply(request, {}))


def test_without_a_notice_nothing_is_sent(talk):
    outcome = talk.call("slow", timeout=0.05, delivery=Delivery(cancel_notice=False))
    talk.hear()
    assert isinstance(outcome(), RequestTimeout)
    assert talk.hear(0.1) is None


def test_progress_extends_the_timeout_up_to_the_maximum(talk):
    seen = []
    id = talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=1.0, max_timeout=2.0, on_progress=seen.append)
    talk.hear()
    begun = time.monotonic()
    while time.monotonic() - begun < 20:
        if not talk.peer.progress(id, {"progress": time.monotonic()}):
            break
        time.sleep(0.02)
    assert isinstance(outcome(), RequestTimeout)
    assert time.monotonic() - begun >= 1.9 and len(seen) > 5


def test_a_progress_callback_that_fails_or_blocks_harms_nobody(talk, caplog):
    inside, go = threading.Event(), threading.Event()

    def blocks(params):
        inside.set()
        go.wait(20)
        raise ValueError("callback")

    id = talk.peer.new_id()
    talk.handler.on_notification = lambda message: talk.peer.progress(message.params["t"], message.params)
    outcome = talk.call("x", id=id, on_progress=blocks)
    request = talk.hear()
    talk.say({"jsonrpc": "2.0", "method": "p", "params": {"t": id}})
    assert inside.wait(20)
    other = talk.call("y")
    talk.say(reply(talk.hear(), {"y": 1}))
    assert other() == {"y": 1}
    go.set()
    talk.say(reply(request, {"x": 1}))
    assert outcome() == {"x": 1}
    assert "the progress callback of 'x' failed" in caplog.text


def test_a_token_calls_the_wait_off(talk):
    token = CancelToken()
    outcome = talk.call("slow", cancel=token)
    request = talk.hear()
    token.cancel("enough")
    error = outcome()
    assert isinstance(error, Cancelled) and error.reason == "enough"
    assert talk.hear()["params"] == {"id": request["id"], "reason": "enough"}
    with pytest.raises(Cancelled):
        talk.peer.call("never sent", cancel=token)
    assert talk.hear(0.05) is None


def test_cancelling_races_with_the_answer(talk):
    for round in range(200):
        token = CancelToken()
        outcome = talk.call("x", cancel=token, timeout=20)
        request = talk.hear()
        while request["method"] == "cancelled":
            request = talk.hear()
        racer = threading.Thread(target=token.cancel)
        racer.start()
        talk.say(reply(request, {"n": round}))
        value = outcome()
        racer.join(20)
        assert value == {"n": round} or isinstance(value, Cancelled)
    assert not talk.peer._pending


def test_the_clock_stands_still_while_a_question_is_answered(talk):
    with talk.peer.paused():
        outcome = talk.call("x", timeout=0.1)
        request = talk.hear()
        time.sleep(0.3)
        talk.say(reply(request, {"in": "time"}))
        assert outcome() == {"in": "time"}


def test_a_note_whose_handler_fails_is_logged(talk, caplog):
    talk.say({"jsonrpc": "2.0", "method": "raise"})
    talk.say({"jsonrpc": "2.0", "method": "note", "params": {"a": 1}})
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.hear()
    assert talk.handler.notes == [("note", {"a": 1})]
    assert "notification 'raise'" in caplog.text


def test_noise_is_left_unanswered_by_a_client_and_answered_by_a_server(make):
    client, server = make(), make(serving=True)
    for talk in (client, server):
        talk.say(b"Starting up...")
        talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert client.hear()["result"] == {"echo": {}}
    assert server.hear()["error"]["code"] == -32700
    for talk in (client, server):
        talk.say({"jsonrpc": "2.0", "id": True, "method": "x"})
        while True:
            answer = talk.hear()
            if "error" in answer:
                break
        assert answer["error"]["code"] == -32600


@pytest.mark.parametrize("serving", [False, True])
def test_the_end_fails_everybody_who_waits_and_cancels_what_runs(make, serving):
    talk = make(serving=serving)
    runs, told = threading.Event(), threading.Event()

    def task(incoming):
        incoming.token.add_callback(told.set)
        runs.set()
        incoming.token.wait(20)

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert runs.wait(20)  # what has not begun at the end is dropped
    outcomes = [talk.call("x") for _ in range(5)]
    for _ in range(5):
        talk.hear()
    talk.raw.close()
    errors = [outcome() for outcome in outcomes]
    assert all(isinstance(error, ConnectionClosed) for error in errors)
    assert len({id(error) for error in errors}) == 5
    assert told.wait(20) and talk.peer.wait_closed(20) and talk.peer.closed
    assert len(talk.handler.closed) == 1 and talk.peer.last_error is talk.handler.closed[0]
    with pytest.raises(ConnectionClosed):
        talk.peer.call("x")
    with pytest.raises(ConnectionClosed):
        talk.peer.notify("x")


def test_close_from_any_thread_twice_and_from_a_handler(make):
    talk = make(serving=True)
    outcome = talk.call("x")
    talk.hear()
    closers = [threading.Thread(target=talk.peer.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(20)
    assert "closed on this side" in str(outcome())

    talk, done = make(serving=True), threading.Event()
    talk.handler.task = lambda incoming: (talk.peer.close(), done.set())
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert done.wait(20)


def test_closing_with_a_cause_gives_it_to_those_who_wait(talk):
    outcome = talk.call("x")
    talk.hear()
    talk.peer.close(ConnectionClosed("the ping failed", returncode=3))
    error = outcome()
    assert str(error) == "the ping failed" and error.returncode == 3


def test_every_message_is_traced(talk):
    lines = []
    talk.peer._trace = lambda direction, data: lines.append((direction, json.loads(data).get("method")))
    talk.peer.notify("note")
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.hear()
    talk.hear()
    assert lines == [("->", "note"), ("<-", "x"), ("->", None)]


def test_a_message_that_is_no_json_is_not_sent(talk):
    with pytest.raises(TypeError):
        talk.peer.call("x", {"a": object()})
    with pytest.raises(ValueError):
        talk.peer.notify("x", {"a": float("nan")})
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {}))
    assert outcome() == {}


@pytest.mark.parametrize("shared, answers", [(True, [{"who": "ann"}, {"who": "bob"}]), (False, [{"who": "ann"}, None])])
def test_ids_belong_to_a_sender_where_one_peer_speaks_for_many(make, shared, answers):
    talk, go_on = make(shared=shared), threading.Event()

    def task(incoming):
        assert go_on.wait(20)
        incoming.respond({"who": incoming.sender})

    talk.handler.task = task
    for sender in ("ann", "bob"):
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x"}).encode()
        talk.peer.receive(data, jsonrpc.parse(data), sender=sender)
    refused = None if shared else talk.hear()
    go_on.set()
    heard = [talk.hear() for answer in answers if answer is not None]
    assert sorted(message["result"]["who"] for message in heard) == [answer["who"] for answer in answers if answer]
    assert shared or (refused["id"] == 1 and "error" in refused)

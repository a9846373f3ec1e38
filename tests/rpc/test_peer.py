"""One connection: requests of the other side, invalid input, tracing, and the end, over memory."""

import json
import threading

import pytest

from mcplite.errors import ConnectionClosed
from mcplite.protocol import jsonrpc

pytestmark = pytest.mark.bad_wire


def test_a_notification_handler_that_fails_is_logged(talk, caplog):
    talk.say({"jsonrpc": "2.0", "method": "raise"})
    talk.say({"jsonrpc": "2.0", "method": "note", "params": {"a": 1}})
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.hear()
    assert talk.handler.notes == [("note", {"a": 1})]
    assert "notification 'raise'" in caplog.text


def test_input_that_is_not_a_message_is_answered_by_a_server_only(make):
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
def test_the_end_fails_waiting_calls_and_cancels_requests_in_progress(make, serving):
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


def test_waiting_calls_raise_the_error_that_close_is_given(talk):
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


@pytest.mark.parametrize("shared, answers", [(True, [{"who": "ann"}, {"who": "bob"}]), (False, [{"who": "ann"}, None])])
def test_a_shared_peer_keeps_the_ids_of_its_senders_apart(make, shared, answers):
    talk, go_on = make(shared=shared), threading.Event()

    def task(incoming):
        assert go_on.wait(20)
        incoming.respond({"who": incoming.facts})

    talk.handler.task = task
    for facts in ("ann", "bob"):
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x"}).encode()
        talk.peer.receive(data, jsonrpc.parse(data), facts=facts)
    refused = None if shared else talk.hear()
    go_on.set()
    heard = [talk.hear() for answer in answers if answer is not None]
    assert sorted(message["result"]["who"] for message in heard) == [answer["who"] for answer in answers if answer]
    assert shared or (refused["id"] == 1 and "error" in refused)


def test_what_arrives_after_the_end_is_neither_answered_nor_warned_about(make, caplog):
    talk = make(serving=True)
    outcome = talk.call("x")
    id = talk.hear()["id"]
    talk.peer.close()
    assert isinstance(outcome(), ConnectionClosed)
    talk.handler.task = lambda incoming: incoming.respond({})
    talk.workers.stop()
    sent = talk.peer.counters.messages_sent
    for data in (b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id, b'{"jsonrpc":"2.0","id":5,"method":"late"}'):
        talk.peer.receive(data, jsonrpc.parse(data), inline=False)
    assert talk.peer.in_flight == 0 and talk.peer.counters.messages_sent == sent
    assert not [record for record in caplog.records if record.levelname == "WARNING"]

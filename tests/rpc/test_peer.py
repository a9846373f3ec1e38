"""One connection: requests of the other side, invalid input, tracing, and the end, over memory."""

import json
import threading
import time

import pytest

from mcplite.errors import Cancelled, ConnectionClosed, ProtocolError, RequestTimeout
from mcplite.protocol import jsonrpc
from mcplite.rpc import incoming as incoming_module, peer as peer_module
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.channels import MemoryChannel
from tests.support.conversations import Conversation, reply

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


class Facts:
    sender = "ann"


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_small_requests_that_are_queued_count_by_the_memory_that_they_take(make, inline, batch):
    talk, go_on = make(serving=True, places=1, queued_bytes=1_000_000), threading.Event()
    talk.handler.batches, talk.handler.task = True, lambda incoming: go_on.wait(20)
    assert talk.workers.submit(lambda: go_on.wait(20))
    for id in range(1, 51):
        message = {"jsonrpc": "2.0", "id": id, "method": "x", "params": {"value": [{}] * 4000}}
        data = json.dumps([message] if batch else message, separators=(",", ":")).encode()
        assert len(data) < 16_384
        talk.peer.receive(data, jsonrpc.parse(data), inline=inline, facts=Facts())
    assert 0 < talk.peer.in_flight < 5, "each takes more than 250 kB"
    go_on.set()


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


# --- answers that cannot be read, and answers that are not read ------------------------------------------


@pytest.mark.parametrize("answer", [
    b'{"jsonrpc":"2.0","id":ID,"result":{"a":[MANY]}}', b'{"result":{"a":[MANY]},"jsonrpc":"2.0","id":ID}',
    b'{"jsonrpc": "2.0", "result": {"a": [MANY]}, "id": ID}', b'{"id":ID,"jsonrpc":"2.0","error":{"a":[MANY]}}'])
@pytest.mark.parametrize("content, reason", [(b"0" + b",0" * 200, "more than 100 keys"), (b"NaN", "NaN is not JSON")])
def test_an_answer_that_cannot_be_read_ends_its_call_at_once(make, answer, content, reason):
    talk = make(limits=jsonrpc.JSONLimits(elements=100))
    outcome = talk.call("x", timeout=300)
    talk.say(answer.replace(b"ID", b"%d" % talk.hear()["id"]).replace(b"MANY", content))
    error = outcome()
    assert isinstance(error, ProtocolError) and reason in str(error) and "'x'" in str(error)


@pytest.mark.parametrize("text", [b"Listening on 8000", b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
                                  b'{"jsonrpc":"2.0","method":"x","params":{"a":NaN},"id":1}', b'[{"id":1,"result":NaN}]'])
def test_other_text_names_no_answer(text):
    assert jsonrpc.answered_id(text) is None


def test_a_server_that_asks_and_does_not_read_ends_the_connection(make, monkeypatch):
    monkeypatch.setattr(peer_module, "_ANSWER_SECONDS", 0.1)
    raw, ours = MemoryChannel.pair(("the other side", "us"), limit=3)
    talk = make()
    one = peer_module.Peer(ours, talk.handler, workers=talk.workers)
    one.start()
    outcomes = []

    def call():
        try:
            one.call("x", timeout=300)
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    for number in range(6):
        try:
            raw.write(json.dumps({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"}).encode(), 5)
        except (ConnectionClosed, RequestTimeout):
            break
    thread.join(20)
    assert not thread.is_alive() and "asks and does not read the answers" in str(outcomes[0])
    one.close()
    raw.close()


#: What a client answers on the thread that reads, which may be that of a call.
ANSWERED_AT_ONCE = {
    "a ping": {"jsonrpc": "2.0", "id": "p", "method": "ping"},
    "an id in use": {"jsonrpc": "2.0", "id": "long", "method": "question"},
    "no message": {"jsonrpc": "2.0", "id": 7, "method": 7},
    "a batch": [{"jsonrpc": "2.0", "id": "p", "method": "ping"}, {"jsonrpc": "2.0", "id": 7, "method": 7}],
    "a long answer": {"jsonrpc": "2.0", "id": "p", "method": "ping", "params": {"a": "x" * 10_000}},
}


def wait_until(condition):
    """Wait for what another thread does."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Unread(Conversation):
    """A client whose other side does not read, and whose pipe is full; it is asked "question", which lasts."""

    def __init__(self):
        super().__init__()
        self.over = threading.Event()

        def on_request(incoming):
            if incoming.method == "question":
                return lambda: self.over.wait(20)
            return incoming.respond(incoming.params)

        self.handler.batches, self.handler.on_request = True, on_request
        self.say({"jsonrpc": "2.0", "id": "long", "method": "question"})

    def call(self, *arguments, **options):
        # Its request takes the only place in the pipe.
        outcome = super().call(*arguments, **options)
        wait_until(lambda: self.raw._inbound.messages)
        return outcome

    def close(self):
        self.over.set()
        super().close()


@pytest.fixture
def unread(monkeypatch):
    monkeypatch.setattr(peer_module, "_ANSWER_SECONDS", 300)
    one = Unread()
    one.raw._inbound.limit = 1
    yield one
    one.close()


@pytest.mark.parametrize("asked", list(ANSWERED_AT_ONCE))
@pytest.mark.parametrize("ending", ["timeout", "cancel"])
def test_a_call_ends_in_time_though_the_other_side_does_not_take_answers(unread, asked, ending):
    token = CancelToken()
    outcome = unread.call("x", timeout=0.3 if ending == "timeout" else 300, cancel=token)
    for _ in range(5):
        unread.say(ANSWERED_AT_ONCE[asked])
    if ending == "cancel":
        wait_until(lambda: not unread.raw._outbound.messages)  # the thread of the call has read them
        token.cancel()
    assert isinstance(outcome(), RequestTimeout if ending == "timeout" else Cancelled)
    assert not unread.peer.closed


def test_answers_that_are_too_many_are_dropped_with_a_line(unread, monkeypatch, caplog):
    monkeypatch.setattr(incoming_module, "_MOST_ANSWERS", 2)
    outcome = unread.call("x", timeout=300)
    for number in range(10):
        unread.say({"jsonrpc": "2.0", "id": number, "method": "ping"})
    wait_until(lambda: unread.peer.counters.refused >= 7)  # two wait, and perhaps one is being sent
    unread.raw._inbound.limit = 100
    request, *answered = [unread.hear() for _ in range(11 - unread.peer.counters.refused)]
    unread.say(reply(request, {}))
    assert outcome() == {} and [message["id"] for message in answered[:2]] == [0, 1]
    assert "faster than it takes the answers" in caplog.text

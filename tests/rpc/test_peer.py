"""One connection: requests of the other side, invalid input, tracing, and the end, over memory."""

import json
import re
import threading
import time

import pytest

from mcplite.errors import Cancelled, ConnectionClosed, HTTPStatusError, ProtocolError, RequestTimeout, TransportError
from mcplite.protocol import jsonrpc
from mcplite.protocol.framing import LineBuffer
from mcplite.rpc import peer as peer_module
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.channels import MemoryChannel
from mcplite.rpc.interfaces import Delivery
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


class Facts:
    sender = "ann"


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_small_requests_that_are_queued_count_by_the_memory_that_they_take(make, inline, batch):
    talk, go_on = make(serving=True, slots=1, queued_bytes=1_000_000), threading.Event()
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


@pytest.mark.parametrize("text", [b"Listening on 8000", b'{"jsonrpc":"2.0","id":ID,"method":"x","params":{"a":NaN}}',
                                  b'{"jsonrpc":"2.0","method":"x","params":{"a":NaN},"id":ID}', b'[{"id":ID,"result":NaN}]'])
def test_what_a_servers_program_prints_is_neither_an_answer_nor_answered(make, text):
    talk = make()
    outcome = talk.call("x", timeout=300)
    id = talk.hear()["id"]
    talk.say(text.replace(b"ID", b"%d" % id))
    talk.say(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id)
    assert outcome() == {} and talk.peer.counters.messages_sent == 1


# --- messages over the limit ------------------------------------------------------------------------------


def longest(text, limit=1000):
    """What is read of a text that is over the limit, as a line."""
    buffer = LineBuffer(limit)
    buffer.feed(text + b"\n")
    return buffer.next()


@pytest.mark.parametrize("answer", [b'{"jsonrpc":"2.0","id":ID,"result":{"a":"LONG"}}', b'{"result":{"a":"LONG"},"id":"ID"}',
                                    b'{"jsonrpc":"2.0","error":{"code":1,"message":"LONG"},"id":ID}',
                                    b'\xef\xbb\xbf {"id":ID, "LONG":1}', b'{"jsonrpc":"2.0","id":ID,"result":{}}LONG'])
@pytest.mark.parametrize("serving", [True, False])
def test_an_answer_over_the_limit_fails_its_call_and_nothing_else(make, answer, serving):
    talk = make(serving=serving)
    outcome, other = talk.call("x", timeout=300), talk.call("y", timeout=300)
    ids = {message["method"]: message["id"] for message in (talk.hear(), talk.hear())}
    talk.peer.receive(longest(answer.replace(b"ID", b"%d" % ids["x"]).replace(b"LONG", b" " * 200_000)))
    talk.say(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % ids["y"])
    assert other() == {}
    if b"result" in answer or b"error" in answer or not serving:
        error = outcome()
        assert isinstance(error, ProtocolError) and "'x'" in str(error) and "the limit is 1000" in str(error)
    else:
        assert "the limit is 1000" in talk.hear()["error"]["message"]


@pytest.mark.parametrize("message, id", [
    (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8,"a":"LONG"}}', 7),
    (b'{"jsonrpc":"2.0","method":"x","params":{"a":"LONG","id":8},"id":"seven"}', "seven"),
    (b'{"jsonrpc":"2.0","method":"x","params":{"a":"LONG","id":8}}', None)])
@pytest.mark.parametrize("serving", [True, False])
def test_a_request_over_the_limit_is_answered_with_its_id(make, message, id, serving):
    talk = make(serving=serving)
    talk.peer.receive(longest(message.replace(b"LONG", b"a" * 200_000)))
    if id is not None or serving:
        error = talk.hear()
        assert error["id"] == id and error["error"]["code"] == (-32700 if id is None else -32600)
        assert re.search("it has 200[0-9]{3} bytes, and the limit is 1000$", error["error"]["message"])
    talk.say(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert talk.hear()["id"] == 1


def test_a_request_with_too_many_parts_is_answered_with_its_id(make):
    talk = make(serving=True, limits=jsonrpc.JSONLimits(elements=100, nesting=10))
    for value, why in (([0] * 200, "more than 100 keys"), (nested(20), "more than 10 levels")):
        talk.say(json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"id": 1, "value": value}, "id": "a"}).encode())
        error = talk.hear()
        assert error["id"] == "a" and why in error["error"]["message"]


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize("batches", [True, False])
def test_a_batch_over_the_limit_is_answered_with_all_ids_that_show(make, batches):
    talk = make(serving=True)
    talk.handler.accepts_batches = lambda: batches
    items = [{"jsonrpc": "2.0", "id": 1, "method": "x"}, {"jsonrpc": "2.0", "method": "notifications/y"},
             {"jsonrpc": "2.0", "method": "x", "params": {"a": "a" * 200_000, "id": 5}, "id": "2"},
             {"jsonrpc": "2.0", "id": 3, "method": "x", "params": {"id": 6}}]
    talk.peer.receive(longest(json.dumps(items).encode()))
    answer = talk.hear()
    if batches:
        assert [one["id"] for one in answer] == [1, "2", 3]
        assert all("the limit is 1000" in one["error"]["message"] for one in answer)
    else:
        assert answer["id"] is None


def test_a_notification_over_the_limit_is_not_answered(make):
    talk = make(serving=True)
    for text in (b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"LONG","id":5}}',
                 b'{"params":{"a":"LONG","id":5},"method":"notifications/x"}'):
        talk.peer.receive(longest(text.replace(b"LONG", b"a" * 200_000)))
    talk.handler.task = lambda incoming: incoming.respond({})
    talk.say(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert talk.hear()["id"] == 1 and talk.peer.counters.refused == 2


@pytest.mark.parametrize("serving", [True, False])
def test_what_is_too_long_is_not_sent(make, serving):
    talk = make(serving=serving, most_bytes=1000)
    error = talk.call("x", {"value": "é" * 600})()
    assert isinstance(error, TransportError) and re.search("'x' to .* has 12[0-9]+ bytes, and the limit is 1000", str(error))
    with pytest.raises(TransportError, match="the limit is 1000"):
        talk.peer.notify("n", {"value": "a" * 1000})
    failures = []

    def emit(incoming):
        try:
            incoming.emit("notifications/x", {"value": "a" * 1000})
        except TransportError as error:
            failures.append(str(error))
        incoming.respond({"value": "a" * 1000})

    talk.handler.task = emit
    talk.say(b'{"jsonrpc":"2.0","id":"a","method":"y"}')
    answer = talk.hear()
    assert answer["id"] == "a" and answer["error"]["code"] == -32603
    assert re.search("the answer to 'y' has 10[0-9]+ bytes, and the limit is 1000", answer["error"]["message"])
    assert "'notifications/x'" in failures[0] and "the limit is 1000" in failures[0]


def test_an_answer_that_the_other_side_refuses_for_its_size_becomes_an_error(make, monkeypatch):
    talk = make()
    write = talk.peer.channel.write

    def refuse(data, timeout=None):
        if len(data) > 1000:
            raise HTTPStatusError("the server answered with 413: the limit is 1000", status=413)
        write(data, timeout)

    monkeypatch.setattr(talk.peer.channel, "write", refuse)
    talk.handler.task = lambda incoming: incoming.respond({"value": "a" * 1000})
    talk.say(b'{"jsonrpc":"2.0","id":"a","method":"y"}')
    answer = talk.hear()
    assert answer["id"] == "a" and "the limit is 1000" in answer["error"]["message"]


def test_a_client_that_closes_cancels_its_calls(make):
    talk = make()
    outcomes = [talk.call("x"), talk.call("y", delivery=Delivery(cancel_notice=False)), talk.call("z")]
    ids = {message["method"]: message["id"] for message in (talk.hear() for _ in outcomes)}
    talk.peer.close()
    assert {talk.hear()["params"]["id"] for _ in range(2)} == {ids["x"], ids["z"]}
    assert all(isinstance(outcome(), ConnectionClosed) for outcome in outcomes)
    with pytest.raises(ConnectionClosed):
        talk.hear()


# --- the end of the other side's messages ------------------------------------------------------------------


class HalfClosed(MemoryChannel):
    """A channel whose other side ends its messages with an empty one, and goes on reading."""

    read_on = True

    def read(self, timeout=None):
        message = super().read(timeout)
        if message == b"":
            raise ConnectionClosed("no more messages")
        return message

    def still_read(self):
        return self.read_on


@pytest.fixture
def half(make):
    talk = make(serving=True)
    left, right = HalfClosed.pair(("the other side", "us"))
    made = []

    def half(**options):
        peer = peer_module.Peer(right, talk.handler, workers=talk.workers, serving=True, **options)
        peer.start()
        made.append(peer)
        return peer, left, talk.handler

    yield half
    for peer in made:
        peer.close()


def test_requests_in_progress_are_answered_after_the_last_message(half):
    peer, left, handler = half(grace=60)
    go_on, failures = threading.Event(), []

    def task(incoming):
        go_on.wait(20)
        incoming.emit("progress", {})
        try:
            peer.call("question", timeout=60)
        except ConnectionClosed as error:
            failures.append(str(error))
        incoming.respond({"size": len(incoming.params["a"])})

    handler.task = task
    for id in range(10):  # of which most wait for a place
        left.write(b'{"jsonrpc":"2.0","id":%d,"method":"x","params":{"a":"%s"}}' % (id, b"a" * 100_000))
    left.write(b"")
    while not peer.closed:
        time.sleep(0.001)
    assert not handler.closed
    go_on.set()
    said = [json.loads(left.read(20)) for _ in range(20)]
    assert sorted(one["id"] for one in said if "id" in one) == list(range(10))
    assert peer.wait_closed(20) and failures == ["no more messages"] * 10 and len(handler.closed) == 1


@pytest.mark.parametrize("how", ["time", "unread", "cancelled", "closed"])
def test_what_is_not_answered_after_the_last_message_is_cancelled(half, how, caplog):
    peer, left, handler = half(grace=0.05 if how == "time" else 60)
    runs, told = threading.Event(), threading.Event()

    def task(incoming):
        incoming.token.add_callback(told.set)
        runs.set()
        incoming.token.wait(20)

    handler.task = task
    left.write(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert runs.wait(20)
    if how == "unread":
        peer.channel.read_on = False
    if how == "cancelled":
        peer.cancel_all("not needed")
    left.write(b"")
    if how == "closed":
        while not peer.closed:
            time.sleep(0.001)
        peer.channel.read_on = False
        peer.close()
    assert peer.wait_closed(20) and told.wait(20) and len(handler.closed) == 1
    assert ("1 requests" in caplog.text and "0.05 s" in caplog.text) == (how == "time")


def test_answers_of_a_batch_fit_into_one_message(make):
    talk = make(serving=True, most_bytes=1000)
    talk.handler.accepts_batches = lambda: True
    talk.handler.task = lambda incoming: incoming.respond({"value": "a" * 400})
    talk.say(json.dumps([{"jsonrpc": "2.0", "id": id, "method": "y"} for id in (1, 2, 3)]).encode())
    answers = talk.hear()
    assert sorted(one["id"] for one in answers) == [1, 2, 3]
    assert ["error" in one for one in answers] == [False, False, True]


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
@pytest.mark.slow
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
    monkeypatch.setattr(unread.peer._answers, "_limit", 2)
    outcome = unread.call("x", timeout=300)
    for number in range(10):
        unread.say({"jsonrpc": "2.0", "id": number, "method": "ping"})
    wait_until(lambda: unread.peer._answers.dropped >= 7)  # two wait, and perhaps one is being sent
    unread.raw._inbound.limit = 100
    request, *answered = [unread.hear() for _ in range(11 - unread.peer._answers.dropped)]
    unread.say(reply(request, {}))
    assert outcome() == {} and [message["id"] for message in answered[-2:]] == [8, 9]
    assert "faster than it takes the answers" in caplog.text

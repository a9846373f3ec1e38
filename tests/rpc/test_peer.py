"""One conversation: calls, answers, progress, cancellation, batches, faults and the end, over memory."""

import json
import threading
import time

import pytest

from mcplite.errors import (
    Cancelled, ConnectionClosed, InvalidParams, MethodNotFound, ProtocolError, RemoteError, RequestTimeout,
)
from mcplite.protocol import jsonrpc
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.channel import MemoryChannel
from mcplite.rpc.peer import Handler, Peer
from mcplite.rpc.workers import Workers

pytestmark = pytest.mark.bad_wire


class Recorder(Handler):
    """A handler that does what a test says."""

    def __init__(self):
        self.notes, self.closed, self.task, self.batches = [], [], None, False

    def on_request(self, incoming):
        if self.task is None:
            incoming.respond({"echo": incoming.params})
            return None
        return lambda: self.task(incoming)

    def on_notification(self, message):
        if message.method == "raise":
            raise ValueError("a note that fails")
        self.notes.append((message.method, message.params))

    def on_close(self, error):
        self.closed.append(error)

    def cancel_notice(self, id, reason):
        return jsonrpc.Notification("cancelled", {"id": id, "reason": reason})

    def accepts_batches(self):
        return self.batches


class Conversation:
    """A peer and, at the other end of its channel, raw lines."""

    def __init__(self, leading=False, places=4, queue=100):
        self.raw, ours = MemoryChannel.pair(("the other side", "us"))
        self.handler = Recorder()
        self.workers = Workers(places, queue, "test worker")
        self.peer = Peer(ours, self.handler, workers=self.workers, leading=leading)
        self.peer.start()

    def say(self, message):
        self.raw.write(message if isinstance(message, bytes) else json.dumps(message).encode())

    def hear(self, timeout=20):
        data = self.raw.read(timeout)
        return None if data is None else json.loads(data)

    def call(self, *arguments, **options):
        """Start a call on a thread; returns a function that waits for its outcome."""
        box = {}

        def run():
            try:
                box["value"] = self.peer.call(*arguments, **options)
            except Exception as error:
                box["value"] = error

        thread = threading.Thread(target=run)
        thread.start()

        def outcome():
            thread.join(20)
            assert not thread.is_alive()
            return box["value"]

        return outcome

    def close(self):
        self.peer.close()
        self.raw.close()
        self.workers.stop()


@pytest.fixture
def make():
    made = []

    def make(**options):
        made.append(Conversation(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def talk(make):
    return make()


def reply(request, result):
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


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


def test_many_threads_many_calls(talk):
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            data = talk.raw.read(0.05)
            if data is not None:
                request = json.loads(data)
                talk.say(reply(request, request["params"]))

    server = threading.Thread(target=serve)
    server.start()
    wrong = []

    def caller(number):
        for step in range(100):
            if talk.peer.call("x", {"n": [number, step]}, timeout=20) != {"n": [number, step]}:
                wrong.append((number, step))

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(16)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    stop.set()
    server.join(20)
    assert wrong == []


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
    assert "nobody waits for" in caplog.text


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
    outcome = talk.call("slow", timeout=0.05, cancel_notice=False)
    talk.hear()
    assert isinstance(outcome(), RequestTimeout)
    assert talk.hear(0.1) is None


def test_progress_extends_the_timeout_up_to_the_maximum(talk):
    seen = []
    id = talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=0.4, max_timeout=1.0, on_progress=seen.append)
    talk.hear()
    begun = time.monotonic()
    while time.monotonic() - begun < 20:
        if not talk.peer.progress(id, {"progress": time.monotonic()}):
            break
        time.sleep(0.02)
    assert isinstance(outcome(), RequestTimeout)
    assert time.monotonic() - begun >= 0.9 and len(seen) > 5


def test_progress_comes_in_order_and_before_the_result_whoever_reads(talk):
    seen = []
    id = talk.peer.new_id()
    talk.handler.on_notification = lambda message: talk.peer.progress(message.params["t"], message.params)
    outcome = talk.call("x", id=id, on_progress=lambda params: seen.append(params["n"]))
    request = talk.hear()
    for number in range(2000):
        talk.say({"jsonrpc": "2.0", "method": "p", "params": {"t": id, "n": number}})
    talk.say(reply(request, {}))
    assert outcome() == {}
    assert seen == list(range(2000))
    assert not talk.peer.progress(id, {}) and not talk.peer.progress("text", {})


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


@pytest.mark.parametrize("leading", [False, True])
def test_requests_of_the_other_side_are_answered(make, leading):
    talk = make(leading=leading)
    talk.say({"jsonrpc": "2.0", "id": "a", "method": "echo", "params": {"x": 1}})
    assert talk.hear() == {"jsonrpc": "2.0", "id": "a", "result": {"echo": {"x": 1}}}
    talk.say({"jsonrpc": "2.0", "id": 0, "method": "echo"})
    assert talk.hear()["result"] == {"echo": {}}


@pytest.mark.parametrize("leading", [False, True])
@pytest.mark.parametrize("error, answer", [
    (ValueError("secret"), {"code": -32603, "message": "Internal error"}),
    (InvalidParams("bad", data=[1]), {"code": -32602, "message": "bad", "data": [1]}),
    (RemoteError("odd data", code=5, data=object()), {"code": 5, "message": "odd data"}),
    (Cancelled(), {"code": -32603, "message": "The request was cancelled"}),
    (SystemExit(), {"code": -32603, "message": "Internal error"}),
])
def test_whatever_a_handler_raises_its_request_is_answered(make, leading, error, answer):
    talk = make(leading=leading)

    def task(incoming):
        raise error

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"] == answer
    talk.handler.task = None
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    assert talk.hear()["result"] == {"echo": {}}


def test_a_handler_that_fails_before_it_runs(talk):
    talk.handler.on_request = lambda incoming: 1 / 0
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"]["code"] == -32603


def test_the_second_answer_is_dropped(talk):
    def task(incoming):
        incoming.respond({"first": True})
        incoming.respond({"second": True})
        incoming.fail(1, "third")

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["result"] == {"first": True}
    assert talk.hear(0.1) is None


def test_a_result_that_is_no_json_is_an_internal_error(talk):
    talk.handler.task = lambda incoming: incoming.respond({"x": object()})
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert talk.hear()["error"]["code"] == -32603


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


def test_a_token_made_after_the_cancelling_is_cancelled(talk):
    inside, go, seen = threading.Event(), threading.Event(), []

    def task(incoming):
        inside.set()
        go.wait(20)
        seen.append((incoming.token.cancelled, incoming.token.reason))
        incoming.respond({})

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert inside.wait(20)
    talk.peer.cancel_incoming(1, "early")
    talk.peer.cancel_incoming(1, "again")
    go.set()
    while talk.peer.in_flight:
        pass
    assert seen == [(True, "early")]


def test_a_note_whose_handler_fails_is_logged(talk, caplog):
    talk.say({"jsonrpc": "2.0", "method": "raise"})
    talk.say({"jsonrpc": "2.0", "method": "note", "params": {"a": 1}})
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.hear()
    assert talk.handler.notes == [("note", {"a": 1})]
    assert "notification 'raise'" in caplog.text


def test_noise_is_left_unanswered_by_a_client_and_answered_by_a_server(make):
    client, server = make(), make(leading=True)
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


def test_batches_only_where_they_are_legal(make):
    talk = make(leading=True)
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "x"}, 3, {"jsonrpc": "2.0", "method": "note"}]
    talk.say(batch)
    assert talk.hear()["error"]["code"] == -32600
    talk.handler.batches = True
    talk.say(batch)
    answer = talk.hear()
    assert [item.get("id") for item in answer] == [1, None]
    talk.say([{"jsonrpc": "2.0", "id": 9, "result": {}}])
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    assert talk.hear()["id"] == 2


def test_a_cancelled_member_of_a_batch_is_left_out(make):
    talk = make(leading=True)
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


@pytest.mark.parametrize("leading", [False, True])
def test_the_end_fails_everybody_who_waits_and_cancels_what_runs(make, leading):
    talk = make(leading=leading)
    told = threading.Event()

    def task(incoming):
        incoming.token.add_callback(told.set)
        incoming.token.wait(20)

    talk.handler.task = task
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
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
    talk = make(leading=True)
    outcome = talk.call("x")
    talk.hear()
    closers = [threading.Thread(target=talk.peer.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(20)
    assert "closed on this side" in str(outcome())

    talk, done = make(leading=True), threading.Event()
    talk.handler.task = lambda incoming: (talk.peer.close(), done.set())
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert done.wait(20)


def test_closing_with_a_cause_gives_it_to_those_who_wait(talk):
    outcome = talk.call("x")
    talk.hear()
    talk.peer.close(ConnectionClosed("the ping failed", returncode=3))
    error = outcome()
    assert str(error) == "the ping failed" and error.returncode == 3


def test_a_quick_request_behind_a_slow_one(make):
    talk, go = make(leading=True), threading.Event()

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


def test_the_watchdog_dozes_and_wakes(make):
    talk, go = make(leading=True), threading.Event()
    until = time.monotonic() + 20
    while not talk.peer._reading._dozing and time.monotonic() < until:
        time.sleep(0.005)
    assert talk.peer._reading._dozing
    talk.handler.task = lambda incoming: (go.wait(20) if incoming.id == 1 else None, incoming.respond({}))
    talk.say({"jsonrpc": "2.0", "id": 1, "method": "x"})
    talk.say({"jsonrpc": "2.0", "id": 2, "method": "x"})
    assert talk.hear()["id"] == 2
    go.set()
    assert talk.hear()["id"] == 1


def test_a_handler_that_asks_gives_its_role_and_place_away(make):
    talk = make(leading=True, places=1)

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


def test_nothing_is_read_by_a_channel_that_cannot_be_interrupted_but_by_the_daemon():
    class Blocking(MemoryChannel):
        interruptible = False

    left, right = MemoryChannel.pair()
    blocking = Blocking(right._inbound, right._outbound, "blocking")
    workers = Workers(1, 1, "test worker")
    peer = Peer(blocking, Recorder(), workers=workers)
    peer.start()

    def serve():
        for _ in range(3):
            request = json.loads(left.read(20))
            left.write(json.dumps(reply(request, {})).encode())

    server = threading.Thread(target=serve)
    server.start()
    assert [peer.call("x", timeout=20) for _ in range(3)] == [{}] * 3
    server.join(20)
    peer.close()
    workers.stop()

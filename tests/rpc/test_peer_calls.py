"""Calls of this side: responses, progress, timeouts and cancellation, over memory."""

import threading
import time

import pytest

from mcplite.errors import Cancelled, InvalidParams, MethodNotFound, ProtocolError, RemoteError, RequestTimeout
from mcplite.protocol import jsonrpc
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.interfaces import Delivery
from tests.support.conversations import reply

pytestmark = pytest.mark.bad_wire


def test_a_call_and_its_response(talk):
    outcome = talk.call("add", {"a": 1})
    request = talk.hear()
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "add", "params": {"a": 1}}
    talk.say(reply(request, {"sum": 2}))
    assert outcome() == {"sum": 2}
    assert talk.peer.counters.messages_sent == 1 and talk.peer.counters.messages_received == 1
    assert talk.peer.counters.bytes_sent > 0 and talk.peer.counters.bytes_received > 0


@pytest.mark.parametrize("code, kind", [(-32601, MethodNotFound), (-32602, InvalidParams), (7, RemoteError)])
def test_an_error_response_is_raised_with_code_message_and_data(talk, code, kind):
    outcome = talk.call("x")
    request = talk.hear()
    talk.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no", "data": {"a": 1}}})
    error = outcome()
    assert type(error) is kind and (error.code, error.message, error.data, error.received) == (code, "no", {"a": 1}, True)


@pytest.mark.parametrize("answer", [
    {"result": {}, "error": {"code": 1, "message": "x"}}, {"result": None}, {"result": 3}, {"error": "x"}, {"result": [1]}, {},
    {"content": []},
])
def test_an_invalid_response_fails_its_call_and_no_other(talk, answer):
    outcome = talk.call("x")
    talk.say({"jsonrpc": "2.0", "id": talk.hear()["id"], **answer})
    assert isinstance(outcome(), ProtocolError)
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {}))
    assert outcome() == {}


def test_an_error_code_that_is_not_a_number_becomes_an_internal_error(talk):
    outcome = talk.call("x")
    talk.say({"jsonrpc": "2.0", "id": talk.hear()["id"], "error": {"code": "E1", "message": None}})
    error = outcome()
    assert isinstance(error, RemoteError) and error.code == -32603


def test_responses_in_any_order_reach_their_callers(talk):
    # RPC-32, STAT-18
    outcomes = {}
    for number in range(20):
        outcomes[number] = talk.call("x", {"n": number})
    requests = [talk.hear() for _ in range(20)]
    assert len({request["id"] for request in requests}) == 20
    for request in reversed(requests):
        talk.say(reply(request, {"n": request["params"]["n"]}))
    assert all(outcome()["n"] == number for number, outcome in outcomes.items())


def test_stray_late_and_wrong_responses_complete_no_call(talk, caplog):
    outcome = talk.call("x")
    request = talk.hear()
    for id in (99, "one", -1):
        talk.say({"jsonrpc": "2.0", "id": id, "result": {}})
    talk.say(reply(request, {"mine": True}))
    assert outcome() == {"mine": True}
    talk.say(reply(request, {"late": True}))
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {"second": True}))
    assert outcome() == {"second": True}
    assert talk.peer.counters.refused == 4
    assert "a response to no pending call" in caplog.text


@pytest.mark.parametrize("result", [{"mine": True}, {}, []])
def test_the_other_side_may_send_ids_back_as_floats(talk, result):
    # from languages whose JSON has one kind of number
    told = []
    outcome = talk.call("x", on_progress=told.append)
    request = talk.hear()
    id = float(request["id"])
    talk.say({"jsonrpc": "2.0", "id": id + 0.5, "result": {"mine": False}})
    assert talk.peer.progress(id, {"progress": 1}) and not talk.peer.progress(id + 0.5, {"progress": 2})
    talk.say({"jsonrpc": "2.0", "id": id, "result": result})
    assert outcome() == (result or {}) and told == [{"progress": 1}]


def test_the_other_side_may_send_ids_back_as_text(talk):
    # as some servers do, and the official SDKs accept
    outcome = talk.call("x")
    request = talk.hear()
    talk.say(dict(reply(request, {"mine": True}), id=str(request["id"])))
    assert outcome() == {"mine": True}
    outcome = talk.call("x")
    request = talk.hear()
    talk.say({"jsonrpc": "2.0", "id": str(request["id"]), "error": {"code": 7, "message": "no"}})
    assert outcome().code == 7
    outcome = talk.call("x")
    talk.say({"jsonrpc": "2.0", "id": str(talk.hear()["id"]), "result": 5})
    assert isinstance(outcome(), ProtocolError)
    assert talk.peer.counters.refused == 1


def test_a_timeout_sends_a_cancel_notice_and_a_late_response_is_dropped(talk):
    # TIME-06
    outcome = talk.call("slow", timeout=0.05)
    request = talk.hear()
    error = outcome()
    assert isinstance(error, RequestTimeout) and isinstance(error, TimeoutError)
    assert "the other side" in str(error) and "'slow'" in str(error)
    notice = talk.hear()
    assert notice["method"] == "cancelled" and notice["params"]["id"] == request["id"]
    talk.say(reply(request, {}))


def converse(talk):
    """Make one call that succeeds, after all that was said before it."""
    outcome = talk.call("x")
    request = talk.hear()
    while request["method"] != "x":
        request = talk.hear()
    talk.say(reply(request, {}))
    assert outcome() == {}


@pytest.mark.parametrize("end", ["timeout", "cancel", "cancel without a notice"])
def test_a_response_to_a_call_that_was_given_up_is_no_fault_of_the_other_side(talk, caplog, end):
    # CANC-03
    token = CancelToken()
    outcome = talk.call("slow", timeout=0.05 if end == "timeout" else None, cancel=token,
                        delivery=Delivery(cancel_notice=end != "cancel without a notice"))
    request = talk.hear()
    if end != "timeout":
        token.cancel("enough")
    assert isinstance(outcome(), (RequestTimeout, Cancelled))
    talk.say(reply(request, {}))
    converse(talk)
    assert talk.peer.counters.refused == 0 and caplog.text == ""
    talk.say(reply(request, {}))  # a second response is one
    converse(talk)
    assert talk.peer.counters.refused == 1 and "no pending call" in caplog.text


def test_a_delivery_without_cancel_notice_sends_none(talk):
    outcome = talk.call("slow", timeout=0.05, delivery=Delivery(cancel_notice=False))
    talk.hear()
    assert isinstance(outcome(), RequestTimeout)
    assert talk.hear(0.1) is None


@pytest.mark.slow
def test_progress_extends_the_timeout_up_to_the_maximum(talk):
    # TIME-05
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


def test_a_progress_callback_that_blocks_or_fails_affects_no_other_call(talk, caplog):
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


def test_a_cancelled_token_ends_the_wait(talk):
    token = CancelToken()
    outcome = talk.call("slow", cancel=token)
    request = talk.hear()
    token.cancel("enough")
    error = outcome()
    assert isinstance(error, Cancelled) and error.reason == "enough"
    assert talk.hear()["params"] == {"id": request["id"], "reason": "enough"}
    with pytest.raises(Cancelled):
        talk.peer.call("never sent", cancel=token)
    with pytest.raises(TypeError, match="^cancel= takes an mcplite.CancelToken"):
        talk.peer.call("never sent", cancel=threading.Event())
    assert talk.hear(0.05) is None


def test_cancelling_races_with_the_response(talk):
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


def test_the_clock_is_paused_while_a_question_is_answered(talk):
    talk.peer.clock.pause()
    outcome = talk.call("x", timeout=0.1)
    request = talk.hear()
    time.sleep(0.3)
    talk.say(reply(request, {"in": "time"}))
    assert outcome() == {"in": "time"}


def test_a_message_that_is_not_json_is_not_sent(talk):
    with pytest.raises(TypeError):
        talk.peer.call("x", {"a": object()})
    with pytest.raises(ValueError):
        talk.peer.notify("x", {"a": float("nan")})
    outcome = talk.call("x")
    talk.say(reply(talk.hear(), {}))
    assert outcome() == {}


# --- slow callbacks of progress -------------------------------------------------------------------------


class SlowCallback:
    """A progress callback that blocks from its second report on until the test lets it go, once for each."""

    def __init__(self):
        self.seen, self.entered, self.go = [], threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, params):
        self.seen.append(params["n"])
        self.entered.release()
        assert self.go.acquire(timeout=20)


def reports(talk, id, count):
    talk.handler.on_notification = lambda message: talk.peer.progress(id, message.params)
    for number in range(count):
        talk.say({"jsonrpc": "2.0", "method": "p", "params": {"n": number}})


def arrived(talk, count):
    end = time.monotonic() + 20
    while talk.peer.counters.messages_received < count:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("answered", [False, True])
def test_a_cancel_holds_while_progress_waits(talk, answered):
    slow, token, id = SlowCallback(), CancelToken(), talk.peer.new_id()
    outcome = talk.call("slow", id=id, cancel=token, on_progress=slow)
    request = talk.hear()
    reports(talk, id, 20)
    assert slow.entered.acquire(timeout=20)
    if answered:
        talk.say(reply(request, {}))
    token.cancel("enough")
    slow.go.release()
    assert isinstance(outcome(), Cancelled)
    assert slow.seen == [0]


def test_the_maximum_holds_while_progress_waits(talk):
    slow, id = SlowCallback(), talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=20, max_timeout=1.0, on_progress=slow)
    talk.hear()
    reports(talk, id, 20)
    assert slow.entered.acquire(timeout=20)
    time.sleep(1.05)
    slow.go.release()
    error = outcome()
    assert isinstance(error, RequestTimeout) and "within 1 s in all (max_timeout)" in str(error)
    assert slow.seen == [0]


@pytest.mark.slow
def test_an_answer_in_time_is_returned_although_the_callback_was_slow(talk):
    slow, id = SlowCallback(), talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=20, max_timeout=1.5, on_progress=slow)
    request = talk.hear()
    reports(talk, id, 20)
    assert slow.entered.acquire(timeout=20)
    talk.say(reply(request, {"done": True}))
    arrived(talk, 21)
    time.sleep(1.6)
    slow.go.release()
    assert outcome() == {"done": True}
    assert slow.seen == [0]


def test_a_silenced_call_gets_its_outcome_without_further_callbacks(talk):
    # close() silences first and ends the calls after that; what comes in between must not break the call.
    slow, id = SlowCallback(), talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=20, on_progress=slow)
    request = talk.hear()
    reports(talk, id, 20)
    assert slow.entered.acquire(timeout=20)
    talk.peer.silence()
    slow.go.release()
    assert talk.peer.wait_for_callbacks(Deadline(20))
    talk.say(reply(request, {"done": True}))
    assert outcome() == {"done": True}
    assert slow.seen == [0]


def test_the_time_of_a_callback_is_no_silence_of_the_server(talk):
    slow, id = SlowCallback(), talk.peer.new_id()
    outcome = talk.call("slow", id=id, timeout=1.0, max_timeout=60, on_progress=slow)
    request = talk.hear()
    reports(talk, id, 1)
    assert slow.entered.acquire(timeout=20)
    time.sleep(1.1)
    talk.say(reply(request, {"done": True}))
    slow.go.release()
    assert outcome() == {"done": True}


# --- what a timeout says --------------------------------------------------------------------------------


@pytest.mark.parametrize("limits, text", [
    (dict(timeout=0.05), "did not answer 'slow' within 0.05 s (timeout)"),
    (dict(timeout=0.05, max_timeout=5), "did not answer 'slow' within 0.05 s (timeout)"),
    (dict(max_timeout=0.05), "did not answer 'slow' within 0.05 s in all (max_timeout)"),
    (dict(timeout=5, max_timeout=0.05), "did not answer 'slow' within 0.05 s in all (max_timeout)"),
])
def test_a_timeout_names_the_limit_that_ended_the_call(talk, limits, text):
    outcome = talk.call("slow", **limits)
    talk.hear()
    assert text in str(outcome())
    assert talk.hear()["params"]["reason"] == text.replace("did not answer 'slow'", "no answer")


@pytest.mark.parametrize("params, subject", [
    ({"name": "work", "uri": "x"}, " for 'work'"), ({"uri": "a://b"}, " for 'a://b'"), ({"name": ""}, ""), (None, ""),
    (jsonrpc.Encoded({"name": "work"}), " for 'work'"), (jsonrpc.Encoded(None, '{"name": "work"}'), "")])
def test_a_timeout_names_the_tool(talk, params, subject):
    outcome = talk.call("slow", params, timeout=0.05)
    talk.hear()
    assert f"did not answer 'slow'{subject} within 0.05 s (timeout)" in str(outcome())


def test_a_timeout_after_progress_says_so(talk):
    id, seen = talk.peer.new_id(), threading.Event()
    outcome = talk.call("slow", id=id, timeout=1.0, max_timeout=60, on_progress=lambda params: seen.set())
    talk.hear()
    reports(talk, id, 1)
    assert seen.wait(20)
    assert "within 1 s of its last progress (timeout)" in str(outcome())


def test_a_bad_line_is_named_by_the_calls_it_came_during_and_not_to_the_server(talk):
    talk.handler.answers_invalid_input = lambda: False
    outcome = talk.call("slow", timeout=1.0)
    talk.hear()
    talk.say(b"Listening on port 8000")
    assert "not a message: Parse error" in str(outcome())
    assert talk.hear()["params"]["reason"] == "no answer within 1 s (timeout)"
    outcome = talk.call("slow", timeout=0.05)
    talk.hear()
    assert "not a message" not in str(outcome())

"""The lock of the thread that opens a session, and what the others get from it.

Requests to a server that is busy for a while.
"""

import contextlib
import email.utils
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.client.call import Call, OpeningLock, RateLimit, Waiting, send_again
from mcplite.errors import BackendError, Cancelled, HTTPStatusError, RemoteError, RequestTimeout
from mcplite.rpc.cancel import CancelToken
from tests.support.webscript import WebScript

LIMIT = 30


class Opening:
    """Opens with a lock, as sessions do; the first one fails once the others wait."""

    def __init__(self, error, others=4):
        self.lock, self.error, self.others = OpeningLock(3), error, others
        self.begun = 0
        self.first = threading.Event()

    def open(self, waiting):
        with self.lock.hold(waiting, "the server") as failure:
            if failure is not None:
                raise failure
            self.begun += 1
            if self.begun > 1:
                return "open"
            self.first.set()
            time.sleep(0.3)
            raise self.error(waiting)

    def run(self, waiting):
        """Return what the first thread gets, and what the others get."""
        with ThreadPoolExecutor(self.others + 1) as pool:
            first = pool.submit(self.open, waiting)
            assert self.first.wait(LIMIT)
            others = [pool.submit(self.open, Waiting()) for _ in range(self.others)]
            return first.exception(LIMIT), [other.exception(LIMIT) or other.result() for other in others]


def test_the_others_share_a_failure_each_with_an_error_of_its_own():
    def error(waiting):
        return HTTPStatusError("no", status=500)

    opening = Opening(error)
    first, others = opening.run(Waiting())
    assert {str(other) for other in others} == {str(first)} == {"no"} and {other.status for other in others} == {500}
    assert len({id(one) for one in [first, *others]}) == 5
    assert opening.begun == 1 and opening.open(Waiting()) == "open", "a thread that comes later tries itself"


def test_the_others_do_not_share_the_end_of_a_call():
    token = CancelToken()

    def cancel(waiting):
        token.cancel("enough")
        return OSError("closed")

    first, others = Opening(cancel).run(Waiting(cancel=token))
    assert isinstance(first, Cancelled) and isinstance(first.__cause__, OSError) and others == ["open"] * 4

    def run_out(waiting):
        clock[0] += 60
        return RequestTimeout("no answer to 'initialize'")

    clock = [0.0]
    first, others = Opening(run_out).run(Waiting(timeout=60, now=lambda: clock[0]))
    assert "(timeout)" in str(first) and others == ["open"] * 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_failure(error):
    lock = OpeningLock(1)
    with pytest.raises(error), lock.hold(Waiting(), "the server"):
        assert lock.admit()
        raise error
    with lock.hold(Waiting(), "the server") as failure:
        assert failure is None and lock.admit() and lock.recent == 1


def test_a_failure_of_the_server_is_counted():
    lock = OpeningLock(1)
    with pytest.raises(OSError), lock.hold(Waiting(), "the server"):
        assert lock.admit()
        raise OSError
    with lock.hold(Waiting(), "the server"):
        assert not lock.admit()


def test_the_limit_holds_in_any_minute():
    now = [0.0]
    limit = RateLimit(2, lambda: now[0])
    assert [limit.admit(), limit.admit(), limit.admit()] == [True, True, False]
    now[0] = 59.9
    assert not limit.admit()
    now[0] = 60.0
    assert [limit.admit(), limit.admit(), limit.admit()] == [True, True, False]
    now[0] = 90.0
    assert not limit.admit()
    now[0] = 120.0
    assert limit.admit()


PATIENCE = 60


def busy(after=0.01, kind=RemoteError):
    error = RemoteError("Server busy", code=-31001) if kind is RemoteError else HTTPStatusError("503", status=503)
    error.retry_after = after
    return error


class Server:
    """Raises what it is given, one at each attempt, and then returns a result."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), []

    def __call__(self, call):
        self.calls.append(call)
        if self.errors:
            raise self.errors.pop(0)
        return {"tools": []}


def send_patiently(send, call):
    """Send a request as the sessions do."""
    begun = time.monotonic()
    try:
        return send(call)
    except (RemoteError, HTTPStatusError) as error:
        return send_again(send, call, error, time.monotonic() - begun)


@pytest.mark.parametrize("kind", [RemoteError, HTTPStatusError])
def test_a_request_that_may_run_twice_is_sent_again(kind):
    server = Server(busy(kind=kind), busy(kind=kind))
    assert send_patiently(server, Call("tools/list", id=7, timeout=50.0, max_timeout=60.0)) == {"tools": []}
    assert [call.id for call in server.calls] == [7, None, None], "each with an id of its own"
    assert 0 == server.calls[0].spent < server.calls[1].spent < server.calls[2].spent < 50
    assert (server.calls[2].timeout, server.calls[2].max_timeout) == (50.0, 60.0)


@pytest.mark.parametrize("call, times", [
    (Call("tools/call", {"name": "a", "requestState": "s"}), 2), (Call("tools/call", {"name": "a"}), 1),
    (Call("initialize", {}, 50.0), 2), (Call("server/discover", {}, 50.0), 2), (Call("subscriptions/listen"), 1)])
def test_which_requests_are_sent_again(call, times):
    # An answer to a question, and the first request of a connection; subscriptions have attempts of their own.
    server = Server(busy())
    with pytest.raises(RemoteError, match="Server busy") if times == 1 else contextlib.nullcontext():
        assert send_patiently(server, call) == {"tools": []}
    assert len(server.calls) == times


@pytest.mark.parametrize("error, call", [
    (RemoteError("another", code=-32603), Call("tools/list")), (busy(11.0), Call("tools/list")),
    (busy(2.0), Call("tools/list", timeout=1.0)), (busy(2.0), Call("tools/list", max_timeout=1.0))])
def test_other_errors_and_long_pauses_are_the_callers(error, call):
    server = Server(error)
    with pytest.raises(RemoteError) as caught:
        send_patiently(server, call)
    assert caught.value is error and len(server.calls) == 1


def test_a_cancelled_call_does_not_wait():
    token = CancelToken()
    server = Server(*[busy(5.0)] * 100)
    raised = []

    def call():
        try:
            send_patiently(server, Call("tools/list", cancel=token))
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not server.calls:
        time.sleep(0.01)
    token.cancel("enough")
    thread.join(PATIENCE)
    assert raised and len(server.calls) <= 2


class Shared(MemoryBackend):
    """A store that can be away."""

    shared = True
    away = False

    def take(self, key):
        if self.away:
            raise BackendError("the store is away")
        return super().take(key)


@pytest.mark.slow
def test_the_answer_of_a_user_outlives_an_outage_of_the_servers_store():
    backend = Shared()
    server = mcplite.Server("shop", backend=backend, state_keys=[secrets.token_hex(16)])

    @server.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?").action

    asked = []

    def answer(request):
        asked.append(request.message)
        backend.away = True
        back.start()
        return True

    def end():
        backend.away = False

    back = threading.Timer(1.0, end)
    with mcplite.serve(server) as served, mcplite.connect(served.url, elicitation_handler=answer, timeout=PATIENCE) as client:
        assert client.call_tool("ask").text == "accept"
    back.join(PATIENCE)
    assert asked == ["Sure?"], "the user is asked once"


def http_date(seconds):
    return email.utils.formatdate(seconds, usegmt=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("headers, asked", [
    ({"Retry_After": "7"}, 7.0), ({"Retry_After": " 0 "}, 0.0), ({"Retry_After": "1.5"}, 1.5),
    ({"Retry_After": http_date(1e9 + 5), "Date": http_date(1e9)}, 5.0),  # by the server's own clock
    ({"Retry_After": "Sunday, 09-Sep-01 01:46:45 GMT", "Date": http_date(1e9)}, 5.0),
    ({"Retry_After": "Sun Sep  9 01:46:45 2001", "Date": http_date(1e9)}, 5.0), ({"Retry_After": http_date(1e9)}, 0.0),
    ({"Retry_After": http_date(1e9), "Date": "now"}, 0.0), ({"Retry_After": "soon"}, None), ({"Retry_After": "-1"}, None),
    ({"Retry_After": "9" * 400}, None), ({"Retry_After": "Sun, 99 Sep 99999 99:46:45 GMT"}, None), ({}, None)])
def test_the_error_of_a_busy_server_says_when_to_try_again(status, headers, asked):
    with WebScript() as script:
        script.on_tools_call = lambda request, answer: answer.status(status, "slow down", **headers)
        with mcplite.connect(script.url, options=mcplite.ClientOptions(era="legacy"), timeout=PATIENCE) as client:
            with pytest.raises(HTTPStatusError, match=f"{status}: slow down") as caught:
                client.call_tool("t")
        assert caught.value.retry_after == asked and len(script.wait_for("tools/call")) == 1


@pytest.mark.parametrize("limit, text", [("timeout", r"1\.5 s \(timeout\)"), ("max_timeout", r"1\.5 s in all \(max_timeout\)")])
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_a_call_has_one_deadline_for_all_attempts(era, limit, text):
    begun = []

    def late(request, answer):
        if not begun:
            time.sleep(1)  # as long as a slow proxy takes to refuse
            begun.append(time.monotonic())
            return answer.status(503, Retry_After="0")
        return answer.hold()

    with WebScript() as script:
        script.on_resources_list = late
        script.on_server_discover = lambda request, answer: answer.json(script.result(request, {
            "supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}}, "resultType": "complete"}))
        with mcplite.connect(script.url, options=mcplite.ClientOptions(era=era), timeout=PATIENCE) as client:
            with pytest.raises(mcplite.RequestTimeout, match=rf"within {text}"):
                client.list_resources_page(**{limit: 1.5})
        assert time.monotonic() - begun[0] < 1.3
        assert len(script.wait_for("resources/list")) == 2

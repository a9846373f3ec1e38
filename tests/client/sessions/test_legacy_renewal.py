"""The renewal of a session that the server has lost: the state that it restores, and the limits of the calls that need it."""

import _thread
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from tests.support import connecting
from tests.support.fakes import limited, start
from tests.support.webscript import WebScript

LIMIT = 30
#: Seconds for opening, against which the limits of the calls are small, and in which each test has to be over.
OPENING, SOON = 60, 20
# --- the limits of the calls that need it ------------------------------------------------------------------------------


class Lost(WebScript):
    """A server that has lost its first session, and does one of its steps for the next one in a way of its own.

    :param step: called for this request in a renewal, with the request and its answer; it may answer, hold or refuse.
    """

    def __init__(self, method="initialize", step=lambda request, answer: answer.hold()):
        super().__init__()
        self.method, self.step = method, step

    def lose(self):
        self.session = "s2"

    def refuses(self, request, answer):
        if self.session != "s1" and request.does == self.method:
            return self.step(request, answer) is not NotImplemented
        lost = request.does != "initialize" and request.headers.get("mcp-session-id") != self.session
        if lost:
            answer.status(404)
        return lost

    def on_tools_call(self, request, answer):
        answer.json(self.text(request, request.headers["mcp-session-id"]))

    def connect(self, **options):
        return connecting.connect(self.url, **{"timeout": LIMIT, "era": "legacy", "open_timeout": OPENING, **options})


class Once:
    """A step that holds its first request, and lets the server go on with the others."""

    def __init__(self, act=lambda request, answer: answer.hold()):
        self._act, self._left = act, [1]

    def __call__(self, request, answer):
        if self._left:
            self._left.pop()
            return self._act(request, answer)
        return NotImplemented


@pytest.mark.parametrize("limit", ["timeout", "max_timeout", "cancel"])
@pytest.mark.parametrize("method", ["initialize", "logging/setLevel"])
def test_the_limits_of_a_call_hold_while_a_session_is_renewed(method, limit):
    with Lost(method, Once()) as script, script.connect() as client:
        client.set_log_level("warning")
        script.lose()
        known = len([request for request in script.requests if request.does == method])
        options, kind, text, token = limited(limit)
        begun = time.monotonic()
        caller, outcome = start(client.call_tool, "t", **options)
        script.wait_for(method, known + 1)
        if token is not None:
            token.cancel("enough")
        caller.join(LIMIT)
        assert time.monotonic() - begun < SOON
        with pytest.raises(kind, match=text):
            raise outcome[0]
        # The next call tries again, with all of it.
        assert client.call_tool("t").text == "s2"
        assert script.wait_for("logging/setLevel")[-1].headers["mcp-session-id"] == "s2"


def test_a_session_that_was_not_completed_is_ended():
    with Lost("logging/setLevel", Once()) as script, script.connect() as client:
        client.set_log_level("warning")
        script.lose()
        with pytest.raises(mcplite.RequestTimeout):
            client.call_tool("t", timeout=0.3)
        assert script.wait_for("DELETE")[0].headers["mcp-session-id"] == "s2"


@pytest.mark.parametrize("limit", ["timeout", "max_timeout", "cancel"])
def test_the_limits_of_a_call_hold_while_another_thread_renews_the_session(limit):
    with Lost() as script, script.connect() as client:
        script.lose()
        given_up = mcplite.CancelToken()
        other, _ = start(client.call_tool, "t", cancel=given_up)
        script.wait_for("initialize", 2)
        options, kind, text, token = limited(limit)
        begun = time.monotonic()
        caller, outcome = start(client.call_tool, "t", **options)
        script.wait_for("tools/call", 2)
        if token is not None:
            token.cancel("enough")
        caller.join(LIMIT)
        given_up.cancel()
        other.join(LIMIT)
        assert time.monotonic() - begun < SOON
        with pytest.raises(kind, match=text):
            raise outcome[0]


def test_threads_that_wait_for_a_renewal_share_a_failure_of_the_server():
    arrived = threading.Event()

    def fail(request, answer):
        assert arrived.wait(LIMIT)
        answer.status(500)

    with Lost(step=fail) as script, script.connect() as client, ThreadPoolExecutor(8) as pool:
        script.lose()
        calls = [pool.submit(client.call_tool, "t") for _ in range(8)]
        script.wait_for("tools/call", 8)
        time.sleep(0.2)  # they have their answers, and wait
        arrived.set()
        assert {type(call.exception(LIMIT)) for call in calls} == {mcplite.errors.HTTPStatusError}
        assert len(script.wait_for("initialize")) == 2


def test_threads_that_wait_for_a_renewal_use_a_session_whose_state_was_refused():
    def refuse(request, answer):
        time.sleep(0.3)
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32602, "message": "gone"}})

    with Lost("resources/subscribe", refuse) as script, script.connect() as client, ThreadPoolExecutor(8) as pool:
        client.subscribe_resource("a://b")
        script.lose()
        calls = [pool.submit(client.call_tool, "t") for _ in range(8)]
        failed = [call for call in calls if call.exception(LIMIT)]
        assert len(failed) == 1 and {call.result().text for call in calls if call not in failed} == {"s2"}
        assert len(script.wait_for("initialize")) == 2


def test_what_a_new_session_refuses_does_not_cost_the_rest_of_the_state():
    def refuse(request, answer):
        if request.message["params"]["uri"] != "a://gone":
            return NotImplemented
        answer.json({"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32602, "message": "gone"}})

    with Lost("resources/subscribe", refuse) as script, script.connect() as client:
        for uri in ("a://gone", "a://stays"):
            client.subscribe_resource(uri)
        script.lose()
        with pytest.raises(mcplite.RemoteError, match="gone"):
            client.call_tool("t")
        assert client.call_tool("t").text == "s2"
        script.session = "s3"
        assert client.call_tool("t").text == "s3"
        asked = [request.message["params"]["uri"] for request in script.wait_for("resources/subscribe", 5)]
        assert asked == ["a://gone", "a://stays"] * 2 + ["a://stays"]


def test_threads_that_wait_for_a_renewal_do_not_share_the_limit_of_another_call():
    with Lost(step=Once()) as script, script.connect() as client:
        script.lose()
        begun = time.monotonic()
        first, hasty = start(client.call_tool, "t", timeout=0.5)
        script.wait_for("initialize", 2)
        second, patient = start(client.call_tool, "t")
        first.join(LIMIT), second.join(LIMIT)
        assert isinstance(hasty[0], mcplite.RequestTimeout) and patient[0].text == "s2"
        assert time.monotonic() - begun < SOON


def test_attempts_that_were_given_up_are_no_renewals():
    # REL-47 bounds the sessions that a server loses.
    with Lost() as script, script.connect() as client:
        script.lose()
        for _ in range(5):
            with pytest.raises(mcplite.RequestTimeout):
                client.call_tool("t", timeout=0.1)
        script.step = lambda request, answer: NotImplemented
        assert client.call_tool("t").text == "s2"


@pytest.mark.parametrize("limit, text", [("timeout", r"1\.5 s \(timeout\)"), ("max_timeout", r"1\.5 s in all \(max_timeout\)")])
@pytest.mark.slow
def test_a_call_has_one_deadline_with_the_renewal(limit, text):
    left = []

    class Silent(Lost):
        def on_tools_call(self, request, answer):
            if request.headers["mcp-session-id"] == "s2":
                left.append(time.monotonic())
                answer.hold()

        def refuses(self, request, answer):
            if request.does == "tools/call" and request.headers["mcp-session-id"] != self.session:
                time.sleep(1)
            return super().refuses(request, answer)

    with Silent(step=lambda request, answer: NotImplemented) as script, script.connect() as client:
        script.lose()
        with pytest.raises(mcplite.RequestTimeout, match=rf"did not answer 'tools/call' within {text}"):
            client.call_tool("t", **{limit: 1.5})
        assert time.monotonic() - left[0] < 1.2, "the second attempt had what the first had left"


def test_ctrl_c_ends_the_wait_for_a_renewal():
    with Lost() as script, script.connect() as client:
        script.lose()
        given_up = mcplite.CancelToken()
        other, _ = start(client.call_tool, "t", cancel=given_up)
        script.wait_for("initialize", 2)
        begun = time.monotonic()
        ctrl_c = threading.Timer(0.3, _thread.interrupt_main)
        ctrl_c.start()
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("t")
        assert time.monotonic() - begun < SOON
        given_up.cancel()
        other.join(LIMIT), ctrl_c.join(LIMIT)

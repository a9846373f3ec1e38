"""Calls that wait while a client is opened: by another thread, or again in a forked process."""

import threading
import time

import pytest

import mcplite
from tests.support.fakes import LIMIT, SILENCE, Fake, limited, start
from tests.support.forks import POSIX_ONLY, in_fork
from tests.support.webscript import WebScript

#: Seconds for opening, against which the limits of the calls are small, and in which each test has to be over.
OPENING, SOON = 60, 20
CALLS = {
    "call_tool": lambda client, **limits: client.call_tool("t", **limits),
    "request": lambda client, **limits: client.request("echo", **limits),
    "list_tools": lambda client, **limits: client.list_tools(**limits),
    "get_prompt": lambda client, **limits: client.get_prompt("p", **limits),
    "read_resource": lambda client, **limits: client.read_resource("a://b", **limits),
    "subscribe_resource": lambda client, **limits: client.subscribe_resource("a://b", **limits),
    "set_log_level": lambda client, **limits: client.set_log_level("info", **limits),
    "complete": lambda client, **limits: client.complete(argument="a", value="", prompt="p", **limits),
    "list_tasks": lambda client, **limits: client.list_tasks(**limits),
}
#: Those that have a timeout only.
TIMED = {
    "ping": lambda client, **limits: client.ping(**limits),
    "listen": lambda client, **limits: client.listen(tools=True, **limits),
    "task": lambda client, **limits: client.task("1", **limits),
}


@pytest.fixture
def opening():
    """Return a client that another thread opens, for as long as the test lasts."""
    with Fake(handshake=lambda params: SILENCE) as fake:
        client = fake.connect(open_timeout=OPENING)
        opener, _ = start(client.open)
        fake.got("initialize")
        yield client
        client.close()
        opener.join(LIMIT)


@pytest.mark.parametrize("name, limit", [(name, limit) for name in CALLS for limit in ("timeout", "max_timeout", "cancel")]
                         + [(name, "timeout") for name in TIMED])
@pytest.mark.slow
def test_the_limits_of_a_call_hold_while_another_thread_opens_the_client(opening, name, limit):
    options, kind, text, token = limited(limit)
    begun = time.monotonic()
    caller, outcome = start({**CALLS, **TIMED}[name], opening, **options)
    if token is not None:
        time.sleep(0.1)
        token.cancel("enough")
    caller.join(LIMIT)
    assert time.monotonic() - begun < SOON
    with pytest.raises(kind, match=text):
        raise outcome[0]


def test_the_timeout_of_the_client_holds_as_well():
    with Fake(handshake=lambda params: SILENCE) as fake:
        client = fake.connect(open_timeout=OPENING, timeout=0.3)
        opener, _ = start(client.open)
        fake.got("initialize")
        for call in (client.list_tools, lambda: client.notify("notifications/roots/list_changed")):
            with pytest.raises(mcplite.RequestTimeout, match=r"within 0\.3 s \(timeout\)"):
                call()
        client.close()
        opener.join(LIMIT)


@pytest.mark.parametrize("limit, text", [("timeout", r"1\.5 s \(timeout\)"), ("max_timeout", r"1\.5 s in all \(max_timeout\)")])
@pytest.mark.parametrize("name", ["call_tool", "list_tools", "get_prompt"])
@pytest.mark.slow
def test_a_call_has_one_deadline_with_the_opening(name, limit, text):
    gate, begun = threading.Event(), []

    def handshake(params):
        assert gate.wait(LIMIT)
        return fake._handshake(params)

    def silent(params):
        begun.append(time.monotonic())
        return SILENCE

    with Fake({"tools/call": silent, "tools/list": silent, "prompts/get": silent}, handshake=handshake) as fake:
        client = fake.connect()
        opener, _ = start(client.open)
        fake.got("initialize")
        caller, outcome = start(CALLS[name], client, **{limit: 1.5})
        time.sleep(1)
        gate.set()
        caller.join(LIMIT)
        assert time.monotonic() - begun[0] < 1.2
        with pytest.raises(mcplite.RequestTimeout, match=text if name != "list_tools" else r"within 1\.5 s"):
            raise outcome[0]
        client.close()
        opener.join(LIMIT)


# --- in a forked process ---------------------------------------------------------------------------------------------


class Reopened(WebScript):
    """A server whose next sessions are not opened in time, as many as it says."""

    silent = 0

    def on_initialize(self, request, answer):
        if self.silent:
            self.silent -= 1
            return answer.hold()
        return NotImplemented

    def on_tools_call(self, request, answer):
        answer.json(self.text(request, "done"))


@POSIX_ONLY
@pytest.mark.parametrize("limit", ["timeout", "max_timeout", "cancel"])
@pytest.mark.parametrize("another", [False, True])
@pytest.mark.slow
def test_the_limits_of_a_call_hold_while_a_forked_process_opens_its_session(limit, another):
    def forked():
        options, kind, text, token = limited(limit)
        given_up, begun = mcplite.CancelToken(), time.monotonic()
        if another:
            other, _ = start(client.call_tool, "t", cancel=given_up)
            time.sleep(0.2)
        caller, outcome = start(client.call_tool, "t", **options)
        if token is not None:
            time.sleep(0.2)
            token.cancel("enough")
        caller.join(LIMIT)
        soon = time.monotonic() - begun < SOON
        if another:
            given_up.cancel()
            other.join(LIMIT)
        with pytest.raises(kind, match=text):
            raise outcome[0]
        return soon, client.call_tool("t").text, client.state

    with Reopened() as script, mcplite.connect(script.url, options=mcplite.ClientOptions(era="legacy"), timeout=LIMIT,
                                               open_timeout=OPENING) as client:
        client.ping()
        script.silent = 1
        assert in_fork(forked) == (True, "done", "open")

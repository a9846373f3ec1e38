"""After ``close()`` has returned no callback of the user runs, and the client's threads have ended."""

import sys
import threading
import time

import pytest

import mcplite
from mcplite.client.sessions import base
from tests.support.fakes import LIMIT, Fake, start

#: Seconds that a callback takes here; closing waits for it.
SLOW = 0.3


class Slow:
    """A callback that notes when it runs; ``entered`` is set by its first call."""

    def __init__(self):
        self.entered, self.began, self.ended = threading.Event(), 0, 0

    def __call__(self, *arguments):
        self.began += 1
        self.entered.set()
        time.sleep(SLOW)
        self.ended += 1


def ours():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcplite")]


@pytest.mark.parametrize("kind", ["log", "elicitation"])
@pytest.mark.slow
def test_no_handler_runs_after_close(kind):
    slow = Slow()
    with Fake({}) as fake:
        client = fake.connect(**{f"{kind}_handler": slow}, max_handlers=1).open()
        for number in range(20):
            if kind == "log":
                fake.tell("notifications/message", {"level": "info", "data": number})
            else:
                fake.ask("elicitation/create", {"message": "m", "requestedSchema": {"type": "object", "properties": {}}})
        assert slow.entered.wait(LIMIT)
        client.close()
        began = slow.began
        assert began == slow.ended < 20
        assert ours() == []
        time.sleep(2 * SLOW)
        assert slow.began == began


def test_no_progress_callback_runs_after_close():
    slow = Slow()

    def work(params):
        for number in range(20):
            fake.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": params["_meta"]["progressToken"], "progress": number}})
        return {"done": True}

    with Fake({"work": work}) as fake:
        client = fake.connect().open()
        thread, outcome = start(client.request, "work", on_progress=slow)
        assert slow.entered.wait(LIMIT)
        client.close()
        began = slow.began
        assert began == slow.ended < 20
        thread.join(LIMIT)
        assert slow.began == began


@pytest.mark.parametrize("close_in", ["log", "progress"])
def test_a_callback_may_close_its_client(close_in):
    closed = threading.Event()

    def close(*arguments):
        client.close()
        closed.set()

    def work(params):
        fake.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        if close_in == "progress":
            fake.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": params["_meta"]["progressToken"], "progress": 1}})
        return {"done": True}

    with Fake({"work": work}) as fake:
        client = fake.connect(log_handler=close if close_in == "log" else lambda message: None).open()
        thread, outcome = start(client.request, "work", on_progress=close if close_in == "progress" else lambda report: None)
        assert closed.wait(LIMIT)
        thread.join(LIMIT)
        assert outcome
        client.close()


def test_the_callback_of_a_disconnection_may_close_its_client(monkeypatch):
    # The thread that closes after a disconnection waits for this callback, which must not wait for it in turn.
    monkeypatch.setattr(base, "_CALLBACK_SECONDS", 10 * LIMIT)
    closed = threading.Event()

    def close(error):
        client.close()
        closed.set()

    with Fake({}) as fake:
        client = fake.connect(on_disconnect=close).open()
        fake.leave()
        assert closed.wait(LIMIT)
        client.close()
        assert ours() == []


@pytest.mark.slow
def test_no_line_of_stderr_comes_after_close():
    slow = Slow()
    program = "import sys\nfor n in range(50): print(n, file=sys.stderr, flush=True)\nsys.stdin.read()"
    client = mcplite.connect([sys.executable, "-c", program], stderr=slow, options=mcplite.ClientOptions(era="legacy"),
                             open_timeout=1.0)
    with pytest.raises(mcplite.MCPError):
        client.open()
    began = slow.began
    assert began == slow.ended
    assert ours() == []
    time.sleep(2 * SLOW)
    assert slow.began == began

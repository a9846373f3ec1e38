"""What a client owes a server over HTTP, its answers and cancel notices, does not hold up its calls."""

import threading

import pytest

import mcplite
from mcplite.client.http import http_channel as channel_module
from mcplite.rpc import peer as peer_module
from tests.support import connecting
from tests.support.webscript import WebScript

LIMIT = 30


def owed(number, kind):
    """A request that is answered on the thread that reads."""
    if kind == "a ping":
        return {"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"}
    if kind == "an id in use":
        return {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}
    return {"jsonrpc": "2.0", "id": f"p{number}", "method": 7}


class Asking(WebScript):
    """Asks on the response of each call, which is not answered, and does what *take* says with the answers."""

    def __init__(self, kind="a ping", count=3):
        super().__init__()
        self.kind, self.count = kind, count
        self.answers, self.overdue = [], threading.Event()

    def take(self, request, answer):
        if not self.closing.wait(LIMIT):
            self.overdue.set()
        answer.cut()

    def on_POST(self, request, answer):
        self.answers.append(request.message["id"])
        return self.take(request, answer)

    def on_tools_call(self, request, answer):
        answer.events(*[owed(number, self.kind) for number in range(self.count)])
        self.asked(request, answer)

    def asked(self, request, answer):
        answer.hold()


def connect(script, **options):
    return connecting.connect(script.url, era="legacy", timeout=LIMIT, **options)


@pytest.mark.parametrize("kind", ["a ping", "an id in use", "no message"])
@pytest.mark.parametrize("ending", ["timeout", "max_timeout", "cancel"])
@pytest.mark.slow
def test_a_call_ends_in_time_though_the_server_does_not_take_answers(kind, ending, monkeypatch):
    monkeypatch.setattr(peer_module, "_ANSWER_SECONDS", 300.0)
    over, token = threading.Event(), mcplite.CancelToken()
    with Asking(kind) as script:
        with connect(script, elicitation_handler=lambda request: over.wait(LIMIT) and False) as client:
            options = {"cancel": token} if ending == "cancel" else {ending: 0.5}
            if ending == "cancel":
                script.asked = lambda request, answer: token.cancel() and answer.hold()
            if kind == "an id in use":
                # The clock stands still while the first question is answered; here it is answered for the rest of the test.
                monkeypatch.setattr(mcplite.rpc.pending.Clock, "pause", lambda clock: None)
                monkeypatch.setattr(mcplite.rpc.pending.Clock, "resume", lambda clock: None)
            with pytest.raises(mcplite.Cancelled if ending == "cancel" else mcplite.RequestTimeout):
                client.call_tool("t", **options)
            over.set()
        assert not script.overdue.is_set()  # neither the call nor close() has waited for an answer


def test_answers_arrive_in_order():
    with Asking(count=30) as script:
        arrived = threading.Event()

        def take(request, answer):
            if len(script.answers) == 30:
                arrived.set()
            answer.status(202)

        def asked(request, answer):
            assert arrived.wait(LIMIT)
            answer.more(script.text(request, "thanks"))
            answer.end()

        script.take, script.asked = take, asked
        with connect(script) as client:
            assert client.call_tool("t").text == "thanks"
        assert script.answers == [f"p{number}" for number in range(30)]


def test_answers_that_are_sent_again_have_so_many_threads(monkeypatch):
    monkeypatch.setattr(channel_module, "_MOST_AGAIN", 2)
    threads = []
    with Asking(count=20) as script:
        def asked(request, answer):
            script.wait_for("POST", 20)
            threads.extend(thread.name for thread in threading.enumerate() if thread.name == "mcplite handler")
            answer.more(script.text(request, "thanks"))
            answer.end()

        script.take, script.asked = lambda request, answer: answer.cut(), asked
        with connect(script) as client:
            assert client.call_tool("t").text == "thanks"
    assert 1 <= len(threads) <= 3  # the queue has one of them

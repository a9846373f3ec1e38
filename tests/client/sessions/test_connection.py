"""The line to a server: who gets what comes, in which order, and how it ends."""

import json
import logging
import threading

import pytest

from mcplite.client.handlers import Handlers
from mcplite.client.sessions.base import Speaker
from mcplite.client.sessions.connection import Line
from mcplite.errors import ConnectionClosed
from mcplite.revisions import NEWEST
from mcplite.rpc.channels import MemoryChannel

LIMIT = 30


class Told(Speaker):
    """A way of talking that notes what it is told, and takes the notifications of one method."""

    def __init__(self, happened):
        self._happened, self.revision = happened, None

    @property
    def agreed(self):
        return self.revision

    def on_request(self, incoming):
        self._happened.append(("request", incoming.method))
        incoming.respond({"here": True})

    def take(self, method, params):
        return method == "notifications/mine"

    def on_cancelled(self, params):
        self._happened.append(("cancelled", params))

    def on_end(self):
        self._happened.append(("end of session", None))


class Ends:
    """Both ends of a line. ``happened`` has all that was told, in order; ``news`` wakes on each."""

    def __init__(self, **handlers):
        self.happened, self.custom, self._come = [], {}, threading.Semaphore(0)
        near, self.far = MemoryChannel.pair(("the client", "the server"))
        self.line = Line(near, Handlers(**handlers), places=2, told=lambda *news: self.happened.append(("told", news)),
                         ended=lambda: self.happened.append(("ended", None)), custom=self.custom, trace=None)
        self.line.speaker = Told(self.happened)
        self.line.peer.start()

    def note(self, name):
        """Return a callback that notes its arguments under a name."""
        def callback(*arguments):
            self.happened.append((name, *arguments))
            self._come.release()

        return callback

    def wait(self, count=1):
        """Wait for callbacks."""
        for _ in range(count):
            assert self._come.acquire(timeout=LIMIT), self.happened

    def tell(self, method, params=None):
        self.far.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode())

    def settle(self):
        """Return when all that was told so far has arrived."""
        self.far.write(b'{"jsonrpc": "2.0", "id": "s", "method": "settle"}')
        assert json.loads(self.far.read(LIMIT))["result"] == {"here": True}
        self.happened.remove(("request", "settle"))

    def close(self):
        self.line.close()
        self.far.close()


@pytest.fixture
def make():
    made = []

    def make(**handlers):
        made.append(Ends(**handlers))
        return made[-1]

    yield make
    for ends in made:
        ends.close()


TOOLS = "notifications/tools/list_changed"


def test_news_are_told_first_and_then_handled_on_another_thread(make):
    ends = make(on_tools_changed=lambda: handled())
    handled = ends.note("handled")
    ends.tell(TOOLS, {"a": 1})
    ends.wait()
    assert ends.happened == [("told", (TOOLS, {"a": 1})), ("handled",)]


def test_a_handler_of_ones_own_takes_the_place_of_another(make):
    ends = make(on_tools_changed=lambda: 1 / 0)
    ends.custom[TOOLS] = ends.note("mine")
    ends.custom["notifications/example"] = ends.note("example")
    ends.tell(TOOLS, {"a": 1})
    ends.tell("notifications/example", {"b": 2})
    ends.tell("notifications/nobody")
    ends.wait(2)
    ends.settle()
    assert [item for item in ends.happened if item[0] != "told"] == [("mine", {"a": 1}), ("example", {"b": 2})]
    assert ("told", ("notifications/nobody", {})) in ends.happened


def test_handlers_run_one_after_another_in_the_order_of_the_news(make):
    ends = make()
    gate, running = threading.Event(), []

    def slow(params):
        running.append(params["number"])
        assert gate.wait(LIMIT) and running[-1] == params["number"]  # nobody else has begun meanwhile
        ends.note("done")(params["number"])

    ends.custom["notifications/example"] = slow
    for number in range(5):
        ends.tell("notifications/example", {"number": number})
    ends.line.post(ends.note("posted"))
    ends.settle()  # whatever a handler does, reading goes on
    gate.set()
    ends.wait(6)
    done = [item for item in ends.happened if item[0] == "done"]
    assert done == [("done", number) for number in range(5)] and running == list(range(5))


def test_a_handler_that_fails_keeps_none_from_running(make, caplog):
    ends = make(on_tools_changed=lambda: 1 / 0)
    ends.custom["notifications/example"] = ends.note("example")
    ends.tell(TOOLS)
    ends.tell("notifications/example")
    ends.wait()
    assert "ZeroDivisionError" in caplog.text


def test_news_that_break_the_rules_are_named_and_reach_nobody(make, caplog):
    ends = make(on_resource_updated=lambda uri: 1 / 0, log_handler=lambda message: 1 / 0)
    with caplog.at_level(logging.WARNING, "mcplite"):
        ends.tell("notifications/resources/updated", {"uri": 3})
        ends.tell("notifications/message", {"level": "info"})
        ends.settle()
    assert "has no uri" in caplog.text and "data" in caplog.text and "ZeroDivisionError" not in caplog.text


def test_what_somebody_in_particular_waits_for_is_no_news(make):
    ends = make()
    ends.custom["notifications/mine"] = ends.note("mine")
    ends.tell("notifications/mine")
    ends.settle()
    assert ends.happened == []


def test_requests_and_cancellations_go_to_the_session(make):
    ends = make()
    ends.far.write(b'{"jsonrpc": "2.0", "id": 7, "method": "example"}')
    assert json.loads(ends.far.read(LIMIT)) == {"jsonrpc": "2.0", "id": 7, "result": {"here": True}}
    ends.tell("notifications/cancelled", {"requestId": 7})
    ends.settle()
    assert ends.happened == [("request", "example"), ("cancelled", {"requestId": 7})]


@pytest.mark.parametrize("params", [{}, {"progressToken": 1, "progress": 1}, {"progressToken": 1, "progress": "much"},
                                    {"progressToken": [], "progress": 1}])
def test_progress_that_nobody_waits_for_is_no_news(make, params):
    ends = make()
    ends.tell("notifications/progress", params)
    ends.settle()
    assert ends.happened == []


def test_closing_ends_the_session_first_and_is_no_disconnection(make, caplog):
    ends = make(on_disconnect=lambda error: 1 / 0)
    ends.line.speaker.revision = NEWEST
    ends.line.close()
    ends.line.close()
    assert ends.happened[:2] == [("end of session", None), ("ended", None)] and ends.line.peer.closed
    assert "ZeroDivisionError" not in caplog.text
    with pytest.raises(ConnectionClosed):
        ends.far.read(LIMIT)


def test_what_has_come_before_the_end_is_still_handled(make):
    ends = make()
    ends.custom["notifications/example"] = ends.note("example")
    for number in range(3):
        ends.tell("notifications/example", {"number": number})
    ends.settle()
    ends.line.close()
    assert [item[1]["number"] for item in ends.happened if item[0] == "example"] == [0, 1, 2]


def test_a_handler_may_close(make):
    ends = make()
    closed = threading.Event()
    ends.custom["notifications/example"] = lambda params: (ends.line.close(), closed.set())
    ends.tell("notifications/example")
    assert closed.wait(LIMIT) and ends.line.peer.closed


@pytest.mark.parametrize("how", ["the server leaves", "we give up"])
def test_a_line_that_is_lost_is_a_disconnection(make, how):
    lost = []
    ends = make(on_disconnect=lambda error: (lost.append(error), gone()))
    gone = ends.note("gone")
    ends.line.speaker.revision = NEWEST
    if how == "we give up":
        ends.line.close(ConnectionClosed("no answer to a ping"))
    else:
        ends.far.close()
    ends.wait()
    assert isinstance(lost[0], ConnectionClosed) and ends.line.peer.wait_closed(LIMIT)
    ends.line.close()
    assert len(lost) == 1 and str(lost[0]) == str(ends.line.peer.last_error)


def test_before_there_is_a_session_nothing_is_lost(make, caplog):
    ends = make(on_disconnect=lambda error: 1 / 0)
    ends.far.close()
    assert ends.line.peer.wait_closed(LIMIT)
    ends.line.close()
    assert "ZeroDivisionError" not in caplog.text


def test_a_session_that_was_not_begun_yet_has_no_revision(make):
    ends = make()
    assert ends.line.accepts_batches() is False and ends.line.names_unreadable_ids() is True
    ends.line.speaker.revision = NEWEST
    assert ends.line.accepts_batches() is False and ends.line.names_unreadable_ids() is False
    assert ends.line.name == "the server" and ends.line.last_words() == ""


def test_last_words_are_those_of_a_child(make):
    ends = make()
    ends.line.channel.stderr_tail = "x" * 5000 + "\nno database\x1b[0m\n"
    words = ends.line.last_words()
    assert words.startswith("\n--- last lines of its stderr ---\n") and "no database" in words
    assert "\x1b" not in words and len(words) < 2500


def test_the_notice_of_a_speaker_is_short():
    notice = Speaker().cancel_notice(3, "x" * 1000)
    assert notice.method == "notifications/cancelled" and notice.params == {"requestId": 3, "reason": "x" * 500}

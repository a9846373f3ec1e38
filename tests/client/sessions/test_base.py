"""The connection to a server: what each message causes, in which order, and how it ends."""

import contextlib
import json
import logging
import threading

import pytest

from mcplite.client.cache import Cache
from mcplite.client.client_options import ClientSettings
from mcplite.client.handlers import Handlers
from mcplite.client.sessions.base import ClientSession, ServerConnection, SessionOptions
from mcplite.errors import ConnectionClosed
from mcplite.revisions import NEWEST
from mcplite.rpc.channels import MemoryChannel
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.pending import Clock
from tests.support.faults import every_fault, strike

LIMIT = 30


class RecordingSession(ClientSession):
    """A session that records its calls, and takes the notifications of one method."""

    def __init__(self, connection, happened):
        super().__init__(connection)
        self._happened = happened

    def on_request(self, incoming):
        self._happened.append(("request", incoming.method))
        incoming.respond({"here": True})

    def take_notification(self, method, params):
        return method == "notifications/mine"

    def on_cancelled(self, params):
        self._happened.append(("cancelled", params))

    def on_end(self):
        self._happened.append(("end of session", None))


class Ends:
    """Both ends of a connection. ``happened`` has everything in order."""

    def __init__(self, **handlers):
        self.happened, self.custom, self._come = [], {}, threading.Semaphore(0)
        near, self.far = MemoryChannel.pair(("the client", "the server"))
        settings = ClientSettings(max_handlers=2, **handlers)
        self.connection = ServerConnection(near, SessionOptions(
            settings, None, Handlers(settings), self.custom, Cache(), None, [], None,
            lambda *notification: self.happened.append(("notification", notification)),
            lambda: self.happened.append(("closed", None))), Clock())
        self.connection.session = RecordingSession(self.connection, self.happened)
        self.connection.peer.start()

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

    def notify(self, method, params=None):
        self.far.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode())

    def flush(self):
        """Return when all notifications so far has arrived."""
        self.far.write(b'{"jsonrpc": "2.0", "id": "s", "method": "flush"}')
        assert json.loads(self.far.read(LIMIT))["result"] == {"here": True}
        self.happened.remove(("request", "flush"))

    def close(self):
        self.connection.close()
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


def test_a_notification_reaches_the_client_first_and_its_handler_on_another_thread(make):
    ends = make(on_tools_changed=lambda: handled())
    handled = ends.note("handled")
    ends.notify(TOOLS, {"a": 1})
    ends.wait()
    assert ends.happened == [("notification", (TOOLS, {"a": 1})), ("handled",)]


def test_a_custom_handler_replaces_another(make):
    ends = make(on_tools_changed=lambda: 1 / 0)
    ends.custom[TOOLS] = ends.note("mine")
    ends.custom["notifications/example"] = ends.note("example")
    ends.notify(TOOLS, {"a": 1})
    ends.notify("notifications/example", {"b": 2})
    ends.notify("notifications/unknown")
    ends.wait(2)
    ends.flush()
    assert [item for item in ends.happened if item[0] != "notification"] == [("mine", {"a": 1}), ("example", {"b": 2})]
    assert ("notification", ("notifications/unknown", {})) in ends.happened


def test_handlers_run_one_after_another_in_the_order_of_the_notifications(make):
    ends = make()
    proceed, running = threading.Event(), []

    def slow(params):
        running.append(params["number"])
        assert proceed.wait(LIMIT) and running[-1] == params["number"]  # no other has begun meanwhile
        ends.note("done")(params["number"])

    ends.custom["notifications/example"] = slow
    for number in range(5):
        ends.notify("notifications/example", {"number": number})
    ends.connection.post(ends.note("posted"))
    ends.flush()  # a blocked handler does not stop the reading
    proceed.set()
    ends.wait(6)
    done = [item for item in ends.happened if item[0] == "done"]
    assert done == [("done", number) for number in range(5)] and running == list(range(5))


def test_a_failing_handler_does_not_stop_the_next(make, caplog):
    ends = make(on_tools_changed=lambda: 1 / 0)
    ends.custom["notifications/example"] = ends.note("example")
    ends.notify(TOOLS)
    ends.notify("notifications/example")
    ends.wait()
    assert "ZeroDivisionError" in caplog.text


def test_invalid_notifications_are_logged_and_not_handled(make, caplog):
    ends = make(on_resource_updated=lambda uri: 1 / 0, log_handler=lambda message: 1 / 0)
    with caplog.at_level(logging.WARNING, "mcplite"):
        ends.notify("notifications/resources/updated", {"uri": 3})
        ends.notify("notifications/message", {"level": "info"})
        ends.flush()
    assert "has no uri" in caplog.text and "data" in caplog.text and "ZeroDivisionError" not in caplog.text


def test_a_notification_that_the_session_takes_is_not_delivered(make):
    ends = make()
    ends.custom["notifications/mine"] = ends.note("mine")
    ends.notify("notifications/mine")
    ends.flush()
    assert ends.happened == []


def test_requests_and_cancellations_go_to_the_session(make):
    ends = make()
    ends.far.write(b'{"jsonrpc": "2.0", "id": 7, "method": "example"}')
    assert json.loads(ends.far.read(LIMIT)) == {"jsonrpc": "2.0", "id": 7, "result": {"here": True}}
    ends.notify("notifications/cancelled", {"requestId": 7})
    ends.flush()
    assert ends.happened == [("request", "example"), ("cancelled", {"requestId": 7})]


@pytest.mark.parametrize("params", [{}, {"progressToken": 1, "progress": 1}, {"progressToken": 1, "progress": "much"},
                                    {"progressToken": [], "progress": 1}])
def test_progress_of_an_unknown_request_is_not_delivered(make, params):
    ends = make()
    ends.notify("notifications/progress", params)
    ends.flush()
    assert ends.happened == []


def test_closing_ends_the_session_first_and_is_no_disconnection(make, caplog):
    ends = make(on_disconnect=lambda error: 1 / 0)
    ends.connection.session.agreed = NEWEST
    ends.connection.close()
    ends.connection.close()
    assert ends.happened[:2] == [("end of session", None), ("closed", None)] and ends.connection.peer.closed
    assert "ZeroDivisionError" not in caplog.text
    with pytest.raises(ConnectionClosed):
        ends.far.read(LIMIT)


def test_notifications_before_the_end_are_still_handled(make):
    ends = make()
    ends.custom["notifications/example"] = ends.note("example")
    for number in range(3):
        ends.notify("notifications/example", {"number": number})
    ends.flush()
    ends.connection.close()
    assert [item[1]["number"] for item in ends.happened if item[0] == "example"] == [0, 1, 2]


def test_a_handler_may_close(make):
    ends = make()
    closed = threading.Event()
    ends.custom["notifications/example"] = lambda params: (ends.connection.close(), closed.set())
    ends.notify("notifications/example")
    assert closed.wait(LIMIT) and ends.connection.peer.closed


@pytest.mark.parametrize("how", ["the server leaves", "we give up"])
def test_a_lost_connection_is_a_disconnection(make, how):
    lost = []
    ends = make(on_disconnect=lambda error: (lost.append(error), gone()))
    gone = ends.note("gone")
    ends.connection.session.agreed = NEWEST
    if how == "we give up":
        ends.connection.close(ConnectionClosed("no answer to a ping"))
    else:
        ends.far.close()
    ends.wait()
    assert isinstance(lost[0], ConnectionClosed) and ends.connection.peer.wait_closed(LIMIT)
    ends.connection.close()
    assert len(lost) == 1 and str(lost[0]) == str(ends.connection.peer.last_error)


def test_an_end_before_the_session_is_no_disconnection(make, caplog):
    ends = make(on_disconnect=lambda error: 1 / 0)
    ends.far.close()
    assert ends.connection.peer.wait_closed(LIMIT)
    ends.connection.close()
    assert "ZeroDivisionError" not in caplog.text


def test_a_session_without_revision_accepts_no_batches(make):
    ends = make()
    assert ends.connection.accepts_batches() is False and ends.connection.names_unreadable_ids() is True
    ends.connection.session.agreed = NEWEST
    assert ends.connection.accepts_batches() is False and ends.connection.names_unreadable_ids() is False
    assert ends.connection.name == "the server" and ends.connection.stderr_tail() == ""


def test_the_stderr_tail_is_that_of_the_child(make):
    ends = make()
    ends.connection.channel.stderr_tail = "x" * 5000 + "\nno database\x1b[0m\n"
    tail = ends.connection.stderr_tail()
    assert tail.startswith("\n--- last lines of its stderr ---\n") and "no database" in tail
    assert "\x1b" not in tail and len(tail) < 2500


def test_the_reason_in_a_cancel_notice_is_cut(make):
    notice = make().connection.session.cancel_notice(3, "x" * 1000)
    assert notice.method == "notifications/cancelled" and notice.params == {"requestId": 3, "reason": "x" * 500}


@every_fault
@pytest.mark.parametrize("owner, name", [("peer", "close"), ("session", "on_end"), ("_mailbox", "flush")])
def test_a_fault_at_the_end_keeps_no_thread(make, monkeypatch, fault, owner, name):
    connection, posted = make().connection, threading.Event()
    connection.post(posted.set)
    assert posted.wait(LIMIT)
    struck = strike(monkeypatch, getattr(connection, owner), name, fault)
    with contextlib.suppress(BaseException):
        connection.close()
    assert struck.is_set() and connection._mailbox.join(Deadline(LIMIT)) and connection.workers.join(Deadline(LIMIT))
    connection.peer.close()

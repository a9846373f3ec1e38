"""The wait for one task: when the server is asked for its state."""

import queue
import time

from mcplite.client.features.tasks.following import TaskFollower
from mcplite.client.features.tasks.view import TaskView
from mcplite.protocol import codec
from mcplite.types.tasks import DetailedTask
from tests.support.fakes import LIMIT, start

HOUR = 3_600_000


def wire(status):
    at = "2026-07-28T12:00:00Z"
    return {"taskId": "t1", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": HOUR,
            "pollIntervalMs": HOUR}


class Session:
    """What a wait needs of a session."""

    name = "the server"

    def now(self):
        return time.monotonic()

    def watch_task(self, id, view, lasting):
        return lambda: None


def test_the_server_is_asked_when_a_stream_of_changes_begins_and_when_it_ends():
    asked, view = queue.Queue(), TaskView(codec.decode(DetailedTask, wire("working")))

    def send(session, method, params, **limits):
        asked.put(method)
        return wire("working")

    thread, outcome = start(TaskFollower(view, send, Session).follow, lambda state: state.finished)
    for pushed in (True, False):
        view.set_pushed("stream", pushed)
        assert asked.get(timeout=LIMIT) == "tasks/get", "the hour of the server's interval has not passed"
    view.put(codec.decode(DetailedTask, wire("completed")))
    thread.join(LIMIT)
    assert outcome == [True]

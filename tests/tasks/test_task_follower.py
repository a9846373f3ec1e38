"""The wait for one task: when the server is asked for its state."""

import queue
import time

import pytest

from mcplite.errors import Cancelled, RequestTimeout
from mcplite.rpc.cancel import CancelToken
from mcplite.tasks.task_follower import TaskFollower
from mcplite.tasks.task_view import TaskView
from mcplite.types import codec
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

    change_streams = False

    def __init__(self):
        self.parts = {}


def test_the_server_is_asked_when_a_stream_of_changes_begins_and_when_it_ends():
    asked, view = queue.Queue(), TaskView(codec.decode(DetailedTask, wire("working")))

    def send(session, method, params, **limits):
        asked.put(method)
        return wire("working")

    thread, outcome = start(TaskFollower(view, send, lambda *limits: Session()).follow, lambda state: state.finished)
    for pushed in (True, False):
        view.set_pushed("stream", pushed)
        assert asked.get(timeout=LIMIT) == "tasks/get", "the hour of the server's interval has not passed"
    view.put(codec.decode(DetailedTask, wire("completed")))
    thread.join(LIMIT)
    assert outcome == [True]


@pytest.mark.parametrize("limit", ["within", "cancel"])
def test_the_limits_of_a_wait_hold_while_a_session_is_opened(limit):
    given, token = [], CancelToken()

    def current(within, cancel):
        given.append((within, cancel))
        if cancel is not None:
            raise Cancelled("enough")
        time.sleep(within)
        raise RequestTimeout("no session")

    follower = TaskFollower(TaskView(codec.decode(DetailedTask, wire("working"))), lambda *args: None, current)
    if limit == "cancel":
        with pytest.raises(Cancelled):
            follower.follow(lambda state: state.finished, cancel=token)
        assert given == [(None, token)]
    else:
        assert follower.follow(lambda state: state.finished, within=0.05) is False
        assert given == [(0.05, None)]


@pytest.mark.slow
def test_the_time_of_opening_a_session_is_part_of_the_wait():
    def current(within, cancel):
        time.sleep(1)
        return Session()

    view = TaskView(codec.decode(DetailedTask, wire("working")))
    follower = TaskFollower(view, lambda *args, **limits: wire("working"), current)
    begun = time.monotonic()
    assert follower.follow(lambda state: state.finished, within=1.5) is False
    assert time.monotonic() - begun < 2.4

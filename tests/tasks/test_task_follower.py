"""The wait for one task: when the server is asked for its state."""

import queue
import time

import pytest

from mcplite.client.call import DEFAULT
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


class Client:
    """What a wait needs of a client.

    :param opened: returns the open session.
    """

    def __init__(self, opened=lambda limits: Session()):
        self.opened, self.asked = opened, queue.Queue()

    def _session_for(self, options):
        return self.opened(options), options

    def _request(self, session, method, params, options):
        self.asked.put(method)
        return wire("working")


def working():
    return TaskView(codec.decode(DetailedTask, wire("working")))


def test_the_server_is_asked_when_a_stream_of_changes_begins_and_when_it_ends():
    client, view = Client(), working()
    thread, outcome = start(TaskFollower(view, client).follow, lambda state: state.finished)
    for pushed in (True, False):
        view.set_pushed("stream", pushed)
        assert client.asked.get(timeout=LIMIT) == "tasks/get", "the hour of the server's interval has not passed"
    view.put(codec.decode(DetailedTask, wire("completed")))
    thread.join(LIMIT)
    assert outcome == [True]


@pytest.mark.parametrize("limit", ["within", "cancel"])
def test_the_limits_of_a_wait_hold_while_a_session_is_opened(limit):
    given, token = [], CancelToken()

    def opened(options):
        given.append((options.max_timeout, options.cancel))
        if options.cancel is not None:
            raise Cancelled("enough")
        time.sleep(options.max_timeout)
        raise RequestTimeout("no session")

    follower = TaskFollower(working(), Client(opened))
    if limit == "cancel":
        with pytest.raises(Cancelled):
            follower.follow(lambda state: state.finished, cancel=token)
        assert given == [(DEFAULT, token)]
    else:
        assert follower.follow(lambda state: state.finished, within=0.05) is False
        assert given == [(0.05, None)]


@pytest.mark.slow
def test_the_time_of_opening_a_session_is_part_of_the_wait():
    def opened(options):
        time.sleep(1)
        return Session()

    follower = TaskFollower(working(), Client(opened))
    begun = time.monotonic()
    assert follower.follow(lambda state: state.finished, within=1.5) is False
    assert time.monotonic() - begun < 2.4

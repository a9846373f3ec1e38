"""The pool is fair to senders: who waits, who gets the next place, and whose memory is in use."""

import threading

import pytest

from mcplite.rpc.deadline import Deadline
from mcplite.rpc.fair_queue import QueuedJob
from mcplite.rpc.threads import Workers

LIMIT = 30


class Call(QueuedJob):
    """A task that runs until it is let go."""

    def __init__(self, sender, connection=1, size=0):
        self._sender, self._connection, self._size = sender, connection, size
        self.started, self.go, self.refused = threading.Event(), threading.Event(), False

    @property
    def sender(self):
        return self._sender

    @property
    def connection(self):
        return self._connection

    @property
    def size(self):
        return self._size

    queued_size = size

    def execute(self):
        self.started.set()
        self.go.wait(LIMIT)

    def refuse(self):
        self.refused = True


@pytest.fixture
def pool():
    made = []

    def make(slots, queue=100, **options):
        workers, calls = Workers(slots, queue, "fair worker", **options), []
        made.append((workers, calls))

        def call(*args, **more):
            calls.append(Call(*args, **more))
            assert workers.enqueue(calls[-1])
            return calls[-1]

        return workers, call

    yield make
    for workers, calls in made:
        for one in calls:
            one.go.set()
        assert workers.drain(Deadline(LIMIT))
        workers.stop()


def running(calls):
    return [call.started.is_set() for call in calls]


def test_a_lone_sender_has_all_places_and_no_more(pool):
    workers, call = pool(16)
    calls = [call("a") for _ in range(20)]
    assert all(one.started.wait(LIMIT) for one in calls[:16])
    assert not any(running(calls[16:])) and not workers.run_here(call("a"), pytest.fail, "it has run")


def test_spare_places_are_for_senders_and_sessions_of_whom_none_runs(pool):
    _, call = pool(16)
    hog = [call("a") for _ in range(18)]
    assert all(one.started.wait(LIMIT) for one in hog[:16])
    assert call("a", 2).started.wait(LIMIT), "another session of the same sender"
    others = [call("a", 3), call("b")]
    assert others[1].started.wait(LIMIT) and running(others) == [False, True], "the last spare place is for other senders"
    late = [call("b"), call("c")]
    assert running(late) == [False, False]
    hog[0].go.set()
    assert late[1].started.wait(LIMIT) and running(late) == [False, True]


def test_a_small_pool_and_pipes_have_no_spare_places(pool):
    _, call = pool(7)
    assert all(one.started.wait(LIMIT) for one in [call("a") for _ in range(7)])
    assert not call("b").started.wait(0.05)
    _, call = pool(8)
    assert all(one.started.wait(LIMIT) for one in [call("") for _ in range(8)])
    assert not call("", 2).started.wait(0.05)


def test_requests_that_take_much_memory_do_not_run_all_at_once(pool):
    workers, call = pool(10, running_bytes=100)
    large = [call("a", size=60) for _ in range(3)]
    assert large[0].started.wait(LIMIT)
    small = call("a", 2)
    assert small.started.wait(LIMIT), "others pass it"
    other = call("b", size=70)
    assert call("c", size=50).started.wait(LIMIT), "a quarter more is for senders who keep none"
    assert running([*large[1:], other]) == [False, False, False]
    large[0].go.set()
    assert other.started.wait(LIMIT), "of two that wait, the one of whom fewer run"
    assert not workers.run_here(Call("a", size=60), pytest.fail, "it has run")


def test_a_task_that_returns_from_waiting_goes_before_queued_ones_but_not_on_spare_places(pool):
    workers, call = pool(8)
    answered, back = threading.Event(), threading.Event()

    def ask():
        with workers.suspended():
            answered.wait(LIMIT)
        back.set()

    assert workers.submit(ask)
    calls = [call("a") for _ in range(10)]
    assert all(one.started.wait(LIMIT) for one in calls[:8])
    answered.set()
    assert call("b").started.wait(LIMIT) and not back.is_set()
    calls[0].go.set()
    calls[1].go.set()
    assert back.wait(LIMIT)


def test_when_the_queue_is_full_the_sender_with_the_most_gives_way(pool):
    workers, call = pool(1, queue=3)
    first = call("a")
    assert first.started.wait(LIMIT)
    waiting = [call("a") for _ in range(3)]
    assert not workers.enqueue(Call("a"))
    other = call("b")
    assert [one.refused for one in waiting] == [False, False, True] and not other.refused
    for one in (first, *waiting):
        one.go.set()
    other.go.set()
    assert all(one.started.wait(LIMIT) for one in (other, *waiting[:2])) and not waiting[2].started.is_set()

"""Which of the waiting tasks is next, and which goes when there are too many."""

import threading
import time
from types import SimpleNamespace

import pytest

from mcplite.errors import RemoteError
from mcplite.rpc import fair_queue as turns_module
from mcplite.rpc.fair_queue import EVERYONE, IDLE_CONNECTIONS, IDLE_SENDERS, FairQueue, QueuedJob, Turns
from tests.support.children import wait_until


class Named(QueuedJob):
    """A task of a sender and a connection that its name begins with, such as ``a1.first``."""

    def __init__(self, name, size=0):
        self.name, self._size = name, size

    def __repr__(self):
        return self.name

    @property
    def sender(self):
        return self.name[0].strip("-")

    @property
    def connection(self):
        return self.name[1]

    @property
    def size(self):
        return self._size

    queued_size = size


def tasks(names):
    return [Named(name) for name in names.split()]


def filled(names, most=100, **options):
    queue = FairQueue(most, **options)
    for task in tasks(names):
        queue.add(task)
    return queue


def taken(queue, running="", open_to=EVERYONE):
    """Take all that may run, each of which runs from then on."""
    busy, order = tasks(running), []
    while True:
        task = queue.take(busy, open_to, lambda task: True)
        if task is None:
            return " ".join(map(repr, order))
        order.append(task)
        busy.append(task)


def test_the_sender_with_the_fewest_running_tasks_is_next():
    assert taken(filled("a1.v a1.w a1.x b1.y c1.z"), running="a1 a1 c1") == "b1.y c1.z a1.v a1.w a1.x"


def test_senders_with_equal_numbers_take_turns():
    assert taken(filled("a1.u a1.v a1.w b1.x b1.y b1.z")) == "a1.u b1.x a1.v b1.y a1.w b1.z"


def test_the_connections_of_a_sender_take_turns():
    assert taken(filled("a1.v a1.w a1.x a2.y"), running="a1") == "a2.y a1.v a1.w a1.x"
    assert taken(filled("a1.x a2.y b1.z"), running="a1 a1") == "b1.z a2.y a1.x"


@pytest.mark.parametrize("open_to, order", [(IDLE_CONNECTIONS, "b1.y a2.x"), (IDLE_SENDERS, "b1.y")])
def test_spare_places_are_for_those_of_whom_none_runs(open_to, order):
    assert taken(filled("a1.w a2.x b1.y b1.z -1.pipe"), running="a1 a1", open_to=open_to) == order


def test_a_task_that_does_not_fit_waits_and_others_pass_it():
    queue = FairQueue(10)
    for task in (Named("a1.large", 100), Named("a1.next"), Named("b1.small", 10)):
        queue.add(task)
    assert queue.take(tasks("a1"), EVERYONE, lambda task: task.size < 50).name == "b1.small"
    assert queue.take([], EVERYONE, lambda task: task.size < 50).name == "a1.next"
    assert queue.take([], EVERYONE, lambda task: task.size < 50) is None and taken(queue) == "a1.large"


def test_a_task_that_was_taken_goes_back_to_the_front():
    queue = filled("a1.x a1.y")
    task = queue.take([], EVERYONE, lambda task: True)
    queue.add(task, first=True)
    assert taken(queue) == "a1.x a1.y"


def added(queue, task):
    queue.add(task)
    return " ".join(map(repr, queue.excess(task)))


def test_a_lone_sender_is_refused_when_the_queue_is_full():
    queue = filled("a1.x a1.y", most=2)
    assert added(queue, Named("a1.z")) == "a1.z" and taken(queue) == "a1.x a1.y"


def test_the_sender_with_the_most_waiting_tasks_gives_way():
    queue = filled("a1.w a2.x a2.y b1.z", most=4)
    assert added(queue, Named("c1.new")) == "a2.y"
    assert added(queue, Named("b1.new")) == "b1.new", "as many as any other: the newcomer goes"
    assert added(queue, Named("c1.other")) == "c1.other"
    assert taken(queue) == "a1.w b1.z c1.new a2.x"


def test_the_memory_of_waiting_tasks_is_bounded():
    queue = FairQueue(10, most_bytes=100)
    for task in (Named("a1.large", 60), Named("a1.small"), Named("b1.x", 20)):
        assert added(queue, task) == ""
    assert added(queue, Named("a1.more", 30)) == "a1.more"
    assert added(queue, Named("c1.new", 50)) == "a1.large"
    assert added(queue, Named("d1.huge", 101)) == "d1.huge"
    assert added(queue, Named("d1.x", 30)) == ""
    assert taken(queue) == "a1.small b1.x c1.new d1.x"


def test_a_task_is_discarded_once():
    queue = filled("a1.x a1.y")
    task = Named("b1.z", 10)
    queue.add(task)
    assert queue.discard(task) and not queue.discard(task) and queue.count == 2
    queue.clear()
    assert queue.count == 0 and taken(queue) == ""


# --- one thread at a time, and the senders alternate ----------------------------------------------


LIMIT = 20


class Line:
    """Threads that take turns; each notes its name and waits until it is let go."""

    def __init__(self, **options):
        self.turns, self.begun, self.at_once, self.errors = Turns(**options), [], 0, {}
        self.go, self.threads = {}, []

    def join(self, name, left=lambda: False):
        """Take a turn of the sender that the name begins with; return when it has begun, or waits."""
        go = self.go[name] = threading.Event()

        def run():
            try:
                with self.turns.begin(name[0], left):
                    self.at_once += 1
                    self.begun.append((name, self.at_once))
                    go.wait(LIMIT)
                    self.at_once -= 1
            except RemoteError as error:
                self.errors[name] = error

        waiting = self.turns._waiting.count
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        assert wait_until(lambda: name in self.errors or self.turns._waiting.count > waiting or name in dict(self.begun))

    def end(self, name, following):
        """End a turn, and wait for the next one."""
        self.go[name].set()
        assert wait_until(lambda: self.begun[-1][0] == following), self.begun

    def close(self):
        for go in self.go.values():
            go.set()
        for thread in self.threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.fixture
def make():
    made = []

    def make(**options):
        made.append(Line(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def line(make):
    return make()


def test_one_at_a_time_and_the_senders_alternate(line):
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        line.join(name)
    assert line.begun == [("a1", 1)] and line.turns._waiting.count == 5
    order = "a1", "b1", "a2", "c1", "b2", "a3"
    for name, following in zip(order, order[1:]):
        line.end(name, following)
    line.close()
    assert line.begun == [(name, 1) for name in order]
    line.join("d1")
    assert line.begun[-1] == ("d1", 1), "without anyone before it, a turn begins at once"


def test_a_turn_that_does_not_come_in_time_is_given_up(make, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    line = make(seconds=0.02)
    line.join("a1")
    line.join("b1")
    assert wait_until(lambda: "b1" in line.errors) and "Server busy" in str(line.errors["b1"])
    assert line.turns._waiting.count == 0


def test_a_turn_that_lasts_too_long_is_passed_on(line, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(turns_module, "_LONGEST_SECONDS", 0.0)
    line.join("a1")
    line.join("b1")
    assert wait_until(lambda: line.begun == [("a1", 1), ("b1", 2)])
    line.end("a1", "b1")
    monkeypatch.setattr(turns_module, "_LONGEST_SECONDS", 1000.0)
    line.join("c1")
    assert line.turns._waiting.count == 1, "the end of a turn that was passed on ends no other one"
    line.end("b1", "c1")


def test_a_turn_without_a_block_lasts_until_it_is_ended(line):
    turn = line.turns.begin("a")
    line.join("b1")
    line.join("c1")
    assert line.turns._waiting.count == 2 and line.begun == []
    turn.end()
    assert wait_until(lambda: line.begun == [("b1", 1)])
    turn.end()
    assert line.turns._waiting.count == 1, "a second end is of no other turn"
    line.end("b1", "c1")


@pytest.mark.parametrize("long, pauses", [(0.0, 1), (1000.0, 0)])
def test_a_pause_follows_a_long_turn_if_another_one_waits(line, monkeypatch, long, pauses):
    slept = []
    monkeypatch.setattr(turns_module, "_PAUSE_SECONDS", long)
    monkeypatch.setattr(turns_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    line.join("a1")
    line.join("b1")
    line.end("a1", "b1")
    line.close()
    assert slept == [long] * pauses


def test_a_turn_ends_with_an_exception(line):
    with pytest.raises(ZeroDivisionError), line.turns.begin("a"):
        raise ZeroDivisionError
    line.join("b1")
    assert line.begun == [("b1", 1)]


def test_in_a_forked_process_nobody_has_a_turn(line):
    line.join("a1")
    line.join("b1")
    other = Turns()
    with other.begin("a"):
        other.let_go()
        with other.begin("b"):
            assert other._waiting.count == 0
    assert other._current is None

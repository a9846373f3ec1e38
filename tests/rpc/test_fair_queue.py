"""Which of the waiting tasks is next, and which goes when there are too many."""

import pytest

from mcplite.rpc.fair_queue import EVERYONE, IDLE_CONNECTIONS, IDLE_SENDERS, FairQueue, QueuedJob


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


def test_one_line_is_served_in_order():
    assert taken(filled("a1.x a1.y a1.z")) == "a1.x a1.y a1.z"


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
    assert queue.discard(task) and not queue.discard(task) and len(queue) == 2
    queue.clear()
    assert len(queue) == 0 and taken(queue) == ""

"""The watchdog notices tasks that take long."""

import threading

import pytest

from mcplite.rpc import threads as watchdog_module
from mcplite.rpc.threads import Watchdog
from tests.support.children import LIMIT, wait_until


class Work:
    """A watchdog, and the numbers of the tasks that it found late; *late* is called with them as well."""

    def __init__(self, late=None):
        self.seen = []
        self.noticed = threading.Event()
        self.late = late
        self.watchdog = Watchdog(0.002, self.note)
        self.watchdog.start()

    def note(self, task):
        self.seen.append(task)
        self.noticed.set()
        if self.late is not None:
            self.late(task)

    def begin(self):
        return self.watchdog.begin()

    def end(self, task):
        return self.watchdog.end(task)


@pytest.fixture
def work():
    made = []

    def make(late=None):
        made.append(Work(late))
        return made[-1]

    yield make
    for one in made:
        one.watchdog.stop()


def test_a_task_that_takes_long_is_noticed_once(work, monkeypatch):
    monkeypatch.setattr(watchdog_module, "_AGAIN_SECONDS", 1000)
    made = work()
    task = made.begin()
    assert made.noticed.wait(LIMIT)
    assert not wait_until(lambda: len(made.seen) > 1, 0.05) and made.seen == [task]
    assert made.end(task) and not made.end(task)


def test_a_task_that_was_taken_over_cannot_end(work):
    made = work()
    made.late = made.end
    task = made.begin()
    assert made.noticed.wait(LIMIT) and wait_until(lambda: made.watchdog.job == 0)
    assert not made.end(task)


def test_it_sleeps_between_tasks_and_wakes_for_the_next(work):
    made = work()
    assert wait_until(lambda: made.watchdog._asleep)
    made.begin()
    assert made.noticed.wait(LIMIT)


def test_a_failing_callback_does_not_end_the_watchdog_and_is_called_again(work, caplog, monkeypatch):
    monkeypatch.setattr(watchdog_module, "_AGAIN_SECONDS", 0.01)

    def fail(task):
        raise RuntimeError("can't start new thread")

    made = work(fail)
    for task in (1, 2):
        assert made.begin() == task
        assert wait_until(lambda: made.seen.count(task) >= 3)
        made.end(task)
    assert sorted(set(made.seen)) == [1, 2]
    assert "watchdog failed, and is tried again" in caplog.text


def test_a_task_that_begins_while_the_watchdog_falls_asleep_is_noticed(work):
    made = work()
    assert wait_until(lambda: made.watchdog._asleep)
    awake = made.watchdog._awake
    clear = awake.clear
    begun = []

    def clear_late():
        clear()
        if not begun:
            begun.append(made.begin())  # the leader does not see the mark yet

    awake.clear = clear_late
    made.end(made.begin())  # which wakes it
    assert wait_until(lambda: made.seen == begun != [])


def test_of_two_threads_that_end_a_task_one_succeeds(work):
    made = work()
    for _ in range(200):
        task, both, ended = made.begin(), threading.Barrier(2), []

        def end(task=task, both=both, ended=ended):
            both.wait()
            ended.append(made.end(task))

        threads = [threading.Thread(target=end) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ended) == [False, True]

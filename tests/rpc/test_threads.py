"""The bounded pool: slots, queue, suspension, stuck tasks."""

import logging
import threading
import time
import weakref

import pytest

from mcplite.rpc.deadline import Deadline
from mcplite.rpc.fair_queue import QueuedJob
from mcplite.rpc.threads import Workers, start_thread, wait_for_end


@pytest.fixture
def make():
    made = []

    def make(slots=2, queue=8):
        made.append(Workers(slots, queue, "test worker"))
        return made[-1]

    yield make
    for workers in made:
        workers.stop()


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="slots"):
        Workers(0, 1, "x")
    with pytest.raises(ValueError, match="slots"):
        Workers(1, -1, "x")


def test_tasks_run_after_one_that_failed(make, caplog):
    workers, done = make(), threading.Event()
    assert workers.submit(lambda: 1 / 0)
    assert workers.submit(done.set)
    assert done.wait(20)
    assert workers.drain(Deadline(20))
    assert "a job of test worker failed" in caplog.text


def test_an_idle_thread_keeps_nothing_of_its_first_task(make):
    class Task:
        def __call__(self):
            done.set()

    workers, done, task = make(), threading.Event(), Task()
    kept = weakref.ref(task)
    assert workers.submit(task)
    del task
    assert done.wait(20) and workers.drain(Deadline(20))
    until = Deadline(20)
    while kept() is not None and not until.expired:
        time.sleep(0.001)
    assert kept() is None


def test_the_places_bound_running_tasks_and_the_queue_is_bounded(make):
    workers, go, running, most = make(slots=2, queue=3), threading.Event(), [], []
    lock = threading.Lock()

    def task():
        with lock:
            running.append(1)
            most.append(len(running))
        go.wait(20)
        with lock:
            running.pop()

    accepted = [workers.submit(task) for _ in range(8)]
    assert accepted == [True] * 5 + [False] * 3
    go.set()
    assert workers.drain(Deadline(20))
    assert len(most) == 5 and max(most) <= 2


class Task(QueuedJob):
    size = 0


def test_a_reserved_place_counts_as_a_running_task(make):
    workers, done = make(slots=1), threading.Event()
    assert workers.take_slot(Task())
    assert not workers.take_slot(Task())
    workers.submit(done.set)
    assert not done.wait(0.05)
    workers.release_slot()
    assert done.wait(20)


def test_a_suspended_task_releases_its_place(make):
    workers, order, inner, done = make(slots=1), [], threading.Event(), threading.Event()

    def outer():
        order.append("outer asks")
        with workers.suspended():
            assert inner.wait(20)
        order.append("outer continues")
        done.set()

    def answer():
        order.append("inner")
        inner.set()

    workers.submit(outer)
    workers.submit(answer)
    assert done.wait(20)
    assert order == ["outer asks", "inner", "outer continues"]


def test_a_returning_task_goes_before_new_ones(make):
    workers, order = make(slots=1), []
    answered, queued, finished = threading.Event(), threading.Event(), threading.Event()

    def asker():
        with workers.suspended():
            answered.wait(20)
        order.append("asker")

    def blocker():
        queued.wait(20)
        order.append("blocker")

    workers.submit(asker)
    workers.submit(blocker)
    workers.submit(lambda: (order.append("new"), finished.set()))
    answered.set()
    while workers._returning == 0:
        pass  # the asker has its answer and waits for a place
    queued.set()
    assert finished.wait(20)
    assert order == ["blocker", "asker", "new"]


def test_suspension_without_a_place_does_nothing(make):
    with make().suspended():
        pass


def test_stuck_tasks_are_logged_with_their_stacks(make, caplog):
    workers, go, inside = make(), threading.Event(), threading.Event()

    def hangs():
        inside.set()
        go.wait(20)

    workers.submit(hangs)
    assert inside.wait(20)
    assert not workers.drain(Deadline(0.01))
    workers.log_stuck(logging.getLogger("test"))
    assert "test worker" in caplog.text and "hangs" in caplog.text
    go.set()
    assert workers.drain(Deadline(20))


def test_a_stopped_pool_accepts_no_task(make):
    workers = make()
    ran = threading.Event()
    workers.submit(ran.set)
    assert ran.wait(20)
    workers.stop()
    assert not workers.submit(ran.set)
    assert not workers.take_slot(Task())


def test_spawn_needs_no_place(make):
    workers, ran = make(slots=1), threading.Event()
    assert workers.take_slot(Task())
    workers.spawn(ran.set)
    assert ran.wait(20)
    again = threading.Event()
    workers.spawn(again.set)  # on the idle thread, or on a new one
    assert again.wait(20)
    workers.release_slot()


def test_an_idle_thread_ends_after_a_while(make, monkeypatch):
    monkeypatch.setattr("mcplite.rpc.threads._IDLE_SECONDS", 0.01)
    workers, seen = make(), []
    workers.spawn(lambda: seen.append(threading.current_thread()))
    while not seen:
        pass
    seen[0].join(20)
    assert not seen[0].is_alive()


def test_a_thread_that_cannot_be_started_costs_no_place(make, monkeypatch, caplog):
    # REL-39
    workers, done, gate = make(slots=2), [], threading.Event()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not workers.submit(lambda: done.append("lost"))
    assert workers.submit(lambda: gate.wait(20))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert workers.submit(lambda: done.append("later"))  # the running task passes its place on
    gate.set()
    assert workers.drain(Deadline(20)) and done == ["later"]
    assert "can't start new thread" in caplog.text


def test_idle_threads_beyond_the_limit_end_at_once():
    workers, gate = Workers(1, 0, "kept worker", keep=1), threading.Event()
    before = threading.active_count()
    for _ in range(3):
        workers.spawn(lambda: gate.wait(20))
    gate.set()
    until = Deadline(20)
    while threading.active_count() > before + 1 and not until.expired:
        threading.Event().wait(0.005)
    assert threading.active_count() == before + 1
    workers.stop()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_thread_whose_start_is_interrupted_runs_nothing(monkeypatch, error):
    ran, threads, real = threading.Event(), [], threading.Thread.start

    def start(thread):
        real(thread)
        threads.append(thread)
        raise error  # in the wait until the thread runs

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(error):
        start_thread(ran.set, "interrupted")
    assert wait_for_end(threads[0], Deadline(30)) and not ran.is_set()

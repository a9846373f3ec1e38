"""The bounded pool: slots, queue, suspension, stuck tasks."""

import threading
import time
import weakref

import pytest

from mcplite.errors import TransportError
from mcplite.rpc import threads as watchdog_module
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.fair_queue import QueuedJob
from mcplite.rpc.threads import CallQueue, Loop, Mailbox, Watchdog, Workers, start_thread, wait_for_end
from tests.support.children import LIMIT, wait_until
from tests.support.faults import FAULTS, no_threads
from tests.support.processes import at_once


@pytest.fixture
def make():
    made = []

    def make(slots=2, queue=8):
        made.append(Workers(slots, queue, "test worker"))
        return made[-1]

    yield make
    for workers in made:
        workers.stop()


def test_tasks_run_after_one_that_failed(make, caplog):
    workers, done = make(), threading.Event()
    assert workers.submit(lambda: 1 / 0)
    assert workers.submit(done.set)
    assert done.wait(20)
    assert workers.drain(Deadline(20))
    assert wait_until(lambda: "a job of test worker failed" in caplog.text)  # logged after the slot is free


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


class Task(QueuedJob):
    size = 0


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


# --- the mailbox: callbacks in order on one thread, with a bounded queue --------------------------


def test_callbacks_run_in_order_and_after_one_that_failed(caplog):
    box, seen, done = Mailbox("test mailbox"), [], threading.Event()
    for number in range(100):
        box.post(lambda number=number: seen.append(number))
    box.post(lambda: 1 / 0)
    box.post(done.set)
    assert done.wait(20)
    assert box.wait(20)
    assert seen == list(range(100))
    assert "a notification handler failed" in caplog.text
    box.stop()
    box.post(done.clear)
    assert done.is_set()


def test_a_full_mailbox_drops_the_oldest_and_warns_once(caplog):
    box, seen, go, inside = Mailbox("test mailbox", limit=2), [], threading.Event(), threading.Event()
    box.post(lambda: (inside.set(), go.wait(20)))
    assert inside.wait(20)
    for number in range(5):
        box.post(lambda number=number: seen.append(number))
    assert box.dropped == 3
    go.set()
    assert box.wait(20)
    assert seen == [3, 4]
    assert caplog.text.count("slower than what arrives") == 1
    box.stop()


def test_a_wait_on_the_mailbox_thread_ends_at_once():
    box, answers, done = Mailbox("test mailbox"), [], threading.Event()
    box.post(lambda: (answers.append(box.wait(20)), done.set()))
    assert done.wait(20)
    assert answers == [False]
    box.stop()


def test_a_mailbox_bounds_the_bytes_that_wait_and_keeps_the_newest(caplog):
    box, seen = Mailbox("test mailbox", byte_limit=10, why="the server sends faster"), []
    go, inside = threading.Event(), threading.Event()
    box.post(lambda: (inside.set(), go.wait(20)), 8)
    assert inside.wait(20)
    for number, size in enumerate((4, 4, 4, 100, 3, 3)):
        box.post(lambda number=number: seen.append(number), size)
    assert box.dropped == 4 and "the server sends faster, and more than" in caplog.text
    go.set()
    assert box.wait(20)
    assert seen == [4, 5]
    box.post(lambda: seen.append("large"), 100)
    assert box.wait(20)
    assert seen[-1] == "large"  # one alone may hold more
    box.stop()


def test_callbacks_wait_for_a_thread_until_the_next_one(monkeypatch, caplog):
    box, seen, start = Mailbox("test mailbox"), [], threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    box.post(lambda: seen.append(1))
    monkeypatch.setattr(threading.Thread, "start", start)
    assert seen == [] and "wait for a thread" in caplog.text
    box.post(lambda: seen.append(2))
    assert box.wait(20) and seen == [1, 2]
    box.stop()


def test_a_fault_of_its_own_does_not_end_the_mailbox(monkeypatch):
    box, seen, faults = Mailbox("test mailbox"), [], [MemoryError()]
    wait_for = box._changed.wait_for

    def fail_once(*arguments):
        if faults:
            raise faults.pop()
        return wait_for(*arguments)

    monkeypatch.setattr(box._changed, "wait_for", fail_once)
    box.post(lambda: seen.append(1))
    assert wait_until(lambda: seen == [1]) and not faults
    box.stop()


def test_the_end_says_how_many_callbacks_are_dropped(caplog):
    box, go, inside = Mailbox("test mailbox", why="shop: handlers are slow"), threading.Event(), threading.Event()
    box.post(lambda: (inside.set(), go.wait(20)))
    assert inside.wait(20)
    for _ in range(3):
        box.post(go.clear)
    box.stop()
    assert "shop: handlers are slow; the 3 messages that wait at the end are dropped" in caplog.text
    go.set()


# --- A loop: what it does after a fault, its pauses, its end --------------------------------------


def test_a_call_queue_takes_one_item_after_another_and_each_once_if_asked(caplog):
    called, go = [], threading.Event()

    def call(item):
        called.append((item, threading.current_thread()))
        assert go.wait(LIMIT)
        if item == 2:
            raise SystemExit("a defect")

    queue = CallQueue("calls of a test", call)
    queue.put(1)
    queue.begin()
    assert wait_until(lambda: called)
    for item in (2, 3, 2, 3):
        queue.put(item, once=True)
        queue.begin()
    assert not queue.wait(0.01)
    go.set()
    assert queue.wait(LIMIT)
    assert [item for item, _ in called] == [1, 2, 3] and len({thread for _, thread in called}) == 1
    assert "calls of a test failed for 2" in caplog.text
    queue.put(4)
    queue.begin()
    assert queue.wait(LIMIT) and called[-1][0] == 4


def test_a_call_queue_without_a_thread_keeps_its_items(monkeypatch):
    called = []
    queue = CallQueue("calls of a test", called.append)
    back = no_threads(monkeypatch, "mcplite calls of a test")
    queue.put(1)
    with pytest.raises(TransportError):
        queue.begin()
    back()
    queue.put(2)
    queue.begin()
    assert queue.wait(LIMIT) and called == [1, 2]


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.pauses = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def failing(errors, then=lambda: None):
    """Return a body that raises these errors, one at each call, and then does something and returns."""
    left = list(errors)

    def body():
        if left:
            raise left.pop(0)
        then()

    return body


def test_the_body_is_called_again_after_every_kind_of_exception_until_it_returns(clock, caplog):
    done = []
    Loop("reading from the peer", failing([fault() for fault in FAULTS], lambda: done.append(1)), clock.pause).run()
    assert done == [1] and clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert {record.getMessage() for record in caplog.records} == {"reading from the peer failed, and is tried again"}


def test_faults_that_follow_one_another_cost_longer_pauses_and_few_lines(clock, caplog):
    Loop("x", failing([MemoryError("no memory")] * 100), clock.pause).run()
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8] + [1.0] * 95
    assert len([record for record in caplog.records if record.exc_info]) <= 3 * 5, "five tracebacks in a minute"
    assert "MemoryError: no memory" in caplog.text


def test_after_a_calm_time_a_fault_is_the_first_again(clock):
    errors = [OSError()] * 7

    def body():
        if errors:
            if len(errors) == 1:
                clock.now += 7
            raise errors.pop()

    Loop("x", body, clock.pause).run()
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 0.05]


def test_after_ten_faults_in_a_row_a_loop_ends_that_ends_something(clock):
    ended = []
    Loop("x", failing([OSError(number) for number in range(20)]), clock.pause, ended.append).run()
    (error,) = ended
    assert error.args == (9,) and len(clock.pauses) == 9


def test_a_loop_has_a_thread_that_can_be_waited_for():
    inside, end, seen = threading.Event(), threading.Event(), []

    def body():
        seen.append((threading.current_thread().name, threading.current_thread().daemon, loop.runs_here))
        assert loop.join(Deadline(0)), "its own thread does not wait for itself"
        inside.set()
        end.wait(LIMIT)

    loop = Loop("reader", body, end.wait)
    assert loop.join(Deadline(0)) and not loop.runs_here
    loop.start()
    assert inside.wait(LIMIT) and not loop.join(Deadline(0.01)) and not loop.runs_here
    end.set()
    assert loop.join(Deadline(LIMIT)) and seen == [("mcplite reader", True, True)]


def test_without_a_thread_the_start_fails_and_can_be_tried_again(monkeypatch):
    there, ran = no_threads(monkeypatch, "mcplite x"), threading.Event()
    loop = Loop("x", ran.set)
    with pytest.raises(TransportError, match="mcplite x"):
        loop.start()
    there()
    loop.start()
    assert ran.wait(LIMIT) and loop.join(Deadline(LIMIT))


# --- the watchdog notices tasks that take long ----------------------------------------------------


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

        at_once(end, 2)
        assert sorted(ended) == [False, True]


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="slots"):
        Workers(0, 1, "x")
    with pytest.raises(ValueError, match="slots"):
        Workers(1, -1, "x")

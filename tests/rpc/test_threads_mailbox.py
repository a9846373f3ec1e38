"""The mailbox: callbacks in order on one thread, with a bounded queue."""

import threading

from mcplite.rpc.threads import Mailbox
from tests.support.children import wait_until


def test_callbacks_run_in_order_and_after_one_that_failed(caplog):
    box, seen, done = Mailbox("test mailbox"), [], threading.Event()
    for number in range(100):
        box.post(lambda number=number: seen.append(number))
    box.post(lambda: 1 / 0)
    box.post(done.set)
    assert done.wait(20)
    assert box.flush(20)
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
    assert box.flush(20)
    assert seen == [3, 4]
    assert caplog.text.count("slower than what arrives") == 1
    box.stop()


def test_flush_on_the_mailbox_thread_does_not_wait():
    box, answers, done = Mailbox("test mailbox"), [], threading.Event()
    box.post(lambda: (answers.append(box.flush(20)), done.set()))
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
    assert box.flush(20)
    assert seen == [4, 5]
    box.post(lambda: seen.append("large"), 100)
    assert box.flush(20)
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
    assert box.flush(20) and seen == [1, 2]
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

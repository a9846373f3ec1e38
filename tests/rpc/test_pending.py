"""A waiting call: its clock, its timeout, its outcome."""

import sys
import threading
import time

import pytest

from mcplite.rpc.pending import Clock, Pending


def test_reports_beyond_a_thousand_are_folded_into_the_latest():
    seen = []
    pending = Pending(1, "x", Clock(), None, None, seen.append)
    for number in range(5000):
        pending.add_progress({"n": number})
    pending.deliver_progress()
    assert [params["n"] for params in seen] == [*range(999), 4999]


@pytest.mark.parametrize("size", [100, 100_000])
def test_no_report_is_dropped_while_the_callbacks_keep_up(size):
    def add():
        for number in range(3000):
            pending.add_progress({"n": number}, size)

    seen = []
    pending = Pending(1, "x", Clock(), None, None, seen.append)
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)  # seconds for which the thread that reads may keep the one with the callbacks waiting
    try:
        reader = threading.Thread(target=add)
        reader.start()
        while reader.is_alive() or pending.progress:
            event = pending.prepare_sleep()
            if not pending.progress:
                event.wait(0.05)
            pending.deliver_progress()
        reader.join()
    finally:
        sys.setswitchinterval(before)
    assert [params["n"] for params in seen] == list(range(3000))


def test_a_callback_that_is_slower_than_the_reports_holds_up_the_reading_thread_for_a_while_only(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    pending = Pending(1, "x", Clock(), None, None, lambda params: None)
    for _ in range(2):
        slept.clear()
        for number in range(5000):
            pending.add_progress({"n": number})
        assert 0 < sum(slept) < 0.2
        pending.deliver_progress()


def test_reports_beyond_the_bytes_are_folded_into_the_latest():
    seen = []
    pending = Pending(1, "x", Clock(), None, None, seen.append)
    for _ in range(2):
        seen.clear()
        for number in range(50):
            pending.add_progress({"n": number}, 300_000)
        pending.deliver_progress()
        assert [params["n"] for params in seen] == [0, 1, 49]
    pending.add_progress({"n": 50}, 50 << 20)
    pending.deliver_progress()
    assert seen[2:] == [{"n": 49}, {"n": 50}]


def test_the_bytes_of_reports_that_were_delivered_are_free_for_others():
    def interrupts(params):
        seen.append(params["n"])
        pending.interrupted = params["n"] == 1

    seen = []
    pending = Pending(1, "x", Clock(), None, None, interrupts)
    for number in range(3):
        pending.add_progress({"n": number}, 300_000)
    pending.deliver_progress()
    for number in range(3, 6):
        pending.add_progress({"n": number}, 300_000)
    pending.interrupted = False
    pending.deliver_progress()
    assert seen == [0, 1, 2, 3, 5]


def test_a_pending_call_without_limits_never_times_out():
    pending = Pending(1, "x", Clock(), None, None, None)
    assert pending.remaining() is None
    pending.add_progress({"progress": 1})
    assert pending.progress is None
    pending.complete("first")
    pending.complete("second")
    assert pending.outcome == "first"

"""A waiting call: its clock, its timeout, its outcome."""

import time

import pytest

from mcplite.rpc.pending import Clock, Pending


def test_a_paused_clock_does_not_advance(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    now[0] = 1.0
    clock.pause()
    clock.pause()
    now[0] = 5.0
    assert clock.now() == 1.0 and clock.paused
    clock.resume()
    assert clock.paused
    clock.resume()
    now[0] = 6.0
    assert clock.now() == 2.0 and not clock.paused


def test_progress_restarts_the_timeout_but_not_the_maximum(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pending = Pending(1, "x", Clock(), 2.0, 5.0, lambda params: None)
    assert pending.remaining() == 2.0
    now[0] = 1.5
    pending.add_progress({"progress": 1})
    assert pending.remaining() == 2.0
    now[0] = 3.4
    pending.add_progress({"progress": 2})
    assert pending.remaining() == pytest.approx(1.6)  # the maximum is reached first


def test_a_pending_call_without_limits_never_times_out():
    pending = Pending(1, "x", Clock(), None, None, None)
    assert pending.remaining() is None
    pending.add_progress({"progress": 1})
    assert pending.progress is None
    pending.complete("first")
    pending.complete("second")
    assert pending.outcome == "first"


def test_the_remaining_time_has_a_minimum_while_the_clock_is_paused(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    pending = Pending(1, "x", clock, 1.0, None, None)
    now[0] = 0.999
    clock.pause()
    now[0] = 100.0
    assert pending.remaining() == 0.05
    clock.resume()
    now[0] = 200.0
    assert pending.remaining() < 0


def delivered(pending):
    while pending.progress:
        pending.deliver_progress()


def test_reports_beyond_a_thousand_are_folded_into_the_latest():
    seen = []
    pending = Pending(1, "x", Clock(), None, None, seen.append)
    for number in range(5000):
        pending.add_progress({"n": number})
    delivered(pending)
    assert [params["n"] for params in seen] == [*range(999), 4999]


def test_reports_beyond_the_bytes_are_folded_into_the_latest():
    seen = []
    pending = Pending(1, "x", Clock(), None, None, seen.append)
    for _ in range(2):
        seen.clear()
        for number in range(50):
            pending.add_progress({"n": number}, 300_000)
        delivered(pending)
        assert [params["n"] for params in seen] == [0, 1, 49]
    pending.add_progress({"n": 50}, 50 << 20)
    delivered(pending)
    assert seen[2:] == [{"n": 49}, {"n": 50}]

"""A call that waits: its clock, its timeout, its outcome."""

import time

import pytest

from mcplite.rpc.pending import Clock, Pending


def test_a_stopped_clock_stands(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    now[0] = 1.0
    clock.stop()
    clock.stop()
    now[0] = 5.0
    assert clock.now() == 1.0 and clock.stopped
    clock.go()
    assert clock.stopped
    clock.go()
    now[0] = 6.0
    assert clock.now() == 2.0 and not clock.stopped


def test_progress_starts_the_timeout_anew_but_not_the_maximum(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pending = Pending(1, "x", Clock(), 2.0, 5.0, lambda params: None)
    assert pending.remaining() == 2.0
    now[0] = 1.5
    pending.add_progress({"progress": 1})
    assert pending.remaining() == 2.0
    now[0] = 3.4
    pending.add_progress({"progress": 2})
    assert pending.remaining() == pytest.approx(1.6)  # the maximum comes first


def test_a_pending_call_without_limits_never_times_out():
    pending = Pending(1, "x", Clock(), None, None, None)
    assert pending.remaining() is None
    pending.add_progress({"progress": 1})
    assert pending.progress is None
    pending.complete("first")
    pending.complete("second")
    assert pending.outcome == "first"


def test_what_is_left_does_not_shrink_to_nothing_while_the_clock_stands(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    pending = Pending(1, "x", clock, 1.0, None, None)
    now[0] = 0.999
    clock.stop()
    now[0] = 100.0
    assert pending.remaining() == 0.05
    clock.go()
    now[0] = 200.0
    assert pending.remaining() < 0

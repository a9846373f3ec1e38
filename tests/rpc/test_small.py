"""The small parts of the engine: deadline, cancel token, throttled log, clock and pending call."""

import logging
import threading
import time

import pytest

from mcplite.errors import Cancelled
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.pending import Clock, Pending
from mcplite.rpc.ratelog import RateLog


def test_deadline_without_a_timeout_never_expires():
    deadline = Deadline(None)
    assert deadline.remaining() is None
    assert not deadline.expired


def test_deadline_counts_down_to_zero():
    deadline = Deadline(0)
    assert deadline.remaining() == 0
    assert deadline.expired
    assert 50 < Deadline(60).remaining() <= 60


def test_token_is_set_once_with_the_first_reason():
    token = CancelToken()
    token.check()
    assert token.cancel("enough")
    assert not token.cancel("later")
    assert token.cancelled and token.reason == "enough" and token.wait(0)
    with pytest.raises(Cancelled, match="enough") as caught:
        token.check()
    assert caught.value.reason == "enough"


def test_token_callbacks_run_once_and_may_be_taken_off(caplog):
    token, seen = CancelToken(), []
    token.add_callback(lambda: seen.append("first"))
    token.add_callback(lambda: 1 / 0)
    token.add_callback(lambda: seen.append("off"))()
    token.add_callback(lambda: seen.append("last"))
    token.cancel()
    token.cancel()
    assert seen == ["first", "last"]
    assert "a cancel callback failed" in caplog.text
    token.add_callback(lambda: seen.append("late"))()
    assert seen[-1] == "late"


def test_token_wakes_a_waiter():
    token = CancelToken()
    threading.Timer(0.01, token.cancel).start()
    assert token.wait(20)
    assert not CancelToken().wait(0)


def test_rate_log_holds_lines_back_and_counts_them(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = RateLog(logging.getLogger("test.rate"), per_second=2)
    for number in range(5):
        log.warning("line %d", number)
    now[0] += 1
    log.warning("again")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["line 0", "line 1", "3 more warnings like these were held back", "again"]


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
    pending.settle("first")
    pending.settle("second")
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

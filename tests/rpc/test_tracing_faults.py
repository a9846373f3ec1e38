"""What a loop does after a fault: one line, a pause that grows, and calm afterwards."""

import logging
import time

from mcplite.rpc.tracing import FaultLog
from tests.support.faults import FAULTS


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.pauses = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def fail(faults, count=1):
    for _ in range(count):
        try:
            raise MemoryError("no memory")
        except MemoryError:
            result = faults.survive("reading from %s failed", "the peer")
    return result


def test_faults_that_follow_one_another_cost_one_line_in_ten_seconds_and_longer_pauses(monkeypatch, caplog):
    clock = Clock(monkeypatch)
    faults = FaultLog(logging.getLogger("test.faults"), clock.pause)
    assert fail(faults, 13) == 13
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8] + [1.0] * 8
    assert caplog.text.count("reading from the peer failed") == 1
    fail(faults, 4)
    assert [record.getMessage() for record in caplog.records] == [
        "reading from the peer failed", "13 more faults like these were held back", "reading from the peer failed"]
    assert "MemoryError: no memory" in caplog.text


def test_after_a_calm_time_a_fault_is_the_first_again(monkeypatch, caplog):
    clock = Clock(monkeypatch)
    faults = FaultLog(logging.getLogger("test.faults"), clock.pause)
    fail(faults, 6)
    clock.now += 7
    assert fail(faults) == 1
    assert clock.pauses[-1] == 0.05
    assert caplog.text.count("reading from the peer failed") == 2


def test_a_logger_that_fails_is_survived(monkeypatch):
    clock = Clock(monkeypatch)
    logger = logging.getLogger("test.faults")

    def refuse(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(logger, "error", refuse)
    assert fail(FaultLog(logger, clock.pause), 2) == 2


def test_a_loop_is_called_again_after_every_kind_of_exception_until_it_returns(monkeypatch, caplog):
    clock = Clock(monkeypatch)
    left = list(FAULTS)

    def loop():
        if left:
            raise left.pop()()

    FaultLog(logging.getLogger("test.faults"), clock.pause).keep_running(loop, "serving %s failed", "the peer")
    assert not left and clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert caplog.text.count("serving the peer failed") == 1


def test_a_pause_without_memory_is_a_pause_all_the_same(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)

    def pause(seconds):
        raise MemoryError

    assert fail(FaultLog(logging.getLogger("test.faults"), pause), 2) == 2
    assert slept == [0.05, 0.1]

"""Warnings at a bounded rate, and a count of those held back."""

import logging
import time

from mcplite.rpc.tracing import PeerLog, RateLog


def test_warnings_over_the_rate_are_held_back_and_counted(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = RateLog(logging.getLogger("test.rate"), 2)
    for number in range(5):
        log.warning("line %d", number)
    now[0] += 1
    log.warning("again")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["line 0", "line 1", "3 more warnings like these were held back", "again"]


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1200.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


LOGGER = logging.getLogger("test.peers")


def fail(log, name, error=ValueError):
    try:
        raise error(name)
    except error:
        log.failure(LOGGER, "tool %r failed", name)


def test_each_cause_has_a_rate_of_its_own(caplog, monkeypatch):
    clock, log = Clock(monkeypatch), PeerLog()
    for number in range(1000):
        log.log(LOGGER, logging.WARNING, "flood %d", number)
    log.log(LOGGER, logging.ERROR, "another cause")
    log.log(LOGGER, logging.DEBUG, "not enabled")
    assert [record.getMessage() for record in caplog.records] == [f"flood {number}" for number in range(10)] + ["another cause"]
    clock.now += 10
    log.log(LOGGER, logging.WARNING, "flood %d", 1000)
    assert [record.getMessage() for record in caplog.records[11:]] == [
        "990 more lines like the next were held back", "flood 1000"]


def test_few_tracebacks_of_one_place_are_written_and_then_single_lines(caplog, monkeypatch):
    clock, log = Clock(monkeypatch), PeerLog()
    for number in range(1000):
        fail(log, f"t{number}")
    fail(log, "other", KeyError)
    traced = [record.getMessage() for record in caplog.records if record.exc_info]
    assert traced == [f"tool 't{number}' failed" for number in range(5)] + ["tool 'other' failed"]
    lines = [record.getMessage() for record in caplog.records if not record.exc_info]
    assert lines == [f"tool 't{number}' failed: ValueError: t{number}" for number in range(5, 15)]
    assert len(caplog.text) < 10_000
    clock.now += 60
    fail(log, "later")
    assert caplog.records[-1].exc_info and caplog.records[-1].getMessage() == "tool 'later' failed"


def test_an_exception_without_a_text_is_logged(caplog, monkeypatch):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    Clock(monkeypatch)
    log = PeerLog()
    for _ in range(6):
        try:
            raise Odd
        except Odd:
            log.failure(logging.getLogger("test.odd"), "it failed")
    assert caplog.records[-1].getMessage() == "it failed: Odd"


def test_the_number_of_causes_is_bounded(monkeypatch):
    Clock(monkeypatch)
    log = PeerLog()
    for number in range(3000):
        log.log(logging.getLogger("test.many"), logging.CRITICAL, f"text {number}")
    assert len(log._rates) <= 1000

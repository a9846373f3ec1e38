"""Warnings at a bounded rate, and a count of those held back."""

import logging
import time

from mcplite.rpc.tracing import RateLog


def test_warnings_over_the_rate_are_held_back_and_counted(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = RateLog(logging.getLogger("test.rate"), per_second=2)
    for number in range(5):
        log.warning("line %d", number)
    now[0] += 1
    log.warning("again")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["line 0", "line 1", "3 more warnings like these were held back", "again"]

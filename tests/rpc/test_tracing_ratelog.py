"""Log lines about a bad peer: at most so many a second, then a count."""

import logging
import time

from mcplite.rpc.tracing import RateLog


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

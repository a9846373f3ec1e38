"""What is told later is told after any one fault, and so is what comes afterwards."""

import pytest

import mcplite
from mcplite.errors import BackendError
from tests.fleet.test_fleet_processes_changes import Listening, Shared, shop
from tests.support.faults import every_fault, strike

STOCK = mcplite.ResourceUpdated(uri="shop://stock")


@every_fault
@pytest.mark.slow
def test_changes_are_told_after_a_fault(monkeypatch, caplog, fault):
    backend = Shared()
    one, other = shop(backend), shop(backend)
    with Listening(one, "2026-07-28"), Listening(other, "2026-07-28") as far:
        def is_news(log, *rest):
            return log == "changes/log"

        fails = strike(monkeypatch, backend, "append", fault, is_news)
        away = strike(monkeypatch, backend, "append", lambda: BackendError("away for a moment"), is_news)
        one.resource_updated("shop://stock")
        assert far.hears() == STOCK and away.is_set() and fails.is_set()
        assert "sender of changes failed, and is tried again" in caplog.text
        for _ in range(2):
            one.resource_updated("shop://stock")
            assert far.hears() == STOCK

"""What the log says of an outage of the backend."""

import logging

from mcplite.errors import BackendError
from mcplite.server.runtime.outage import Outage


def test_an_outage_is_one_warning_however_often_it_is_met(caplog):
    caplog.set_level(logging.INFO)
    outage = Outage()
    outage.passed()
    assert not outage and not caplog.records
    for number in range(3):
        outage.found(BackendError(f"error {number}"))
        assert outage
    outage.passed()
    outage.passed()
    assert not outage
    assert [(record.levelname, record.getMessage().rpartition(" ")[2]) for record in caplog.records] == [
        ("WARNING", "0"), ("INFO", "back")]


def test_the_next_outage_is_another_warning(caplog):
    outage = Outage()
    for _ in range(2):
        outage.found(BackendError("the backend is gone"))
        outage.passed()
    assert [record.levelname for record in caplog.records].count("WARNING") == 2

"""What the log says of an outage of the backend."""

import logging

import pytest

import mcplite
from mcplite.errors import BackendError
from mcplite.fleet.backend_health import Outage


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


def test_what_needs_the_backend_is_refused_for_a_while_after_a_failure():
    now = [0.0]
    outage = Outage(lambda: now[0])
    outage.check()
    outage.found(BackendError("the backend at 10.0.0.3 is gone"))
    now[0] = 5.0
    with pytest.raises(mcplite.RemoteError, match="try again later") as caught:
        outage.check()
    assert caught.value.code == -31001 and "10.0.0.3" not in str(caught.value)
    now[0] = 7.0
    outage.check()
    outage.found(BackendError("the backend is gone"))
    outage.passed()
    outage.check()


def test_the_next_outage_is_another_warning_unless_it_follows_at_once(caplog):
    now = [0.0]
    outage = Outage(lambda: now[0])
    for seconds, warnings in ((0, 1), (5, 1), (16, 2)):
        now[0] = float(seconds)
        outage.found(BackendError("the backend is gone"))
        outage.passed()
        assert [record.levelname for record in caplog.records].count("WARNING") == warnings

"""Lines of the log at a bounded rate, and a count of those held back."""

import logging
import time

import pytest

from mcplite.rpc.tracing import RateFilter, bounded, get_logger


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1200.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


LOGGER = get_logger("test.peers")


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def fail(name, error=ValueError):
    try:
        raise error(name)
    except error:
        LOGGER.exception("tool %r failed", name)


def test_each_cause_has_a_rate_of_its_own(caplog, clock):
    for number in range(1000):
        LOGGER.warning("flood %d", number)
    LOGGER.error("another cause")
    get_logger("test.others").warning("flood %d", 7)
    assert said(caplog) == [f"flood {number}" for number in range(10)] + ["another cause", "flood 7"]
    clock.now += 10
    LOGGER.warning("flood %d", 1000)
    LOGGER.warning("flood %d", 1001)
    assert said(caplog)[12:] == ["flood 1000 (990 more lines like this one were held back)", "flood 1001"]


@pytest.mark.parametrize(("level", "passed"), [(logging.DEBUG, 100), (logging.INFO, 10), (logging.WARNING, 10),
                                               (logging.ERROR, 10), (logging.CRITICAL, 10)])
def test_lines_for_debugging_are_not_bounded(level, passed, caplog, clock):
    caplog.set_level(logging.DEBUG, "test.peers")
    for number in range(100):
        LOGGER.log(level, "line %d", number)
    assert len(caplog.records) == passed


def test_few_tracebacks_of_one_place_are_written_and_then_single_lines(caplog, clock):
    for number in range(1000):
        fail(f"t{number}")
    fail("other", KeyError)
    traced = [record.getMessage() for record in caplog.records if record.exc_info]
    assert traced == [f"tool 't{number}' failed" for number in range(5)] + ["tool 'other' failed"]
    lines = [record.getMessage() for record in caplog.records if not record.exc_info]
    assert lines == [f"tool 't{number}' failed: ValueError: t{number}" for number in range(5, 15)]
    assert len(caplog.text) < 10_000
    clock.now += 60
    fail("later")
    assert caplog.records[-1].exc_info and caplog.records[-1].getMessage() == "tool 'later' failed"


def test_an_exception_without_a_text_is_logged(caplog, clock):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    for _ in range(6):
        try:
            raise Odd
        except Odd:
            LOGGER.exception("it failed")
    assert caplog.records[-1].getMessage() == "it failed: Odd"


@pytest.mark.parametrize("text", ["100 % sure", "%s", "%(name)s", ""])
def test_a_text_without_arguments_is_not_filled_in(text, caplog, clock):
    for _ in range(11):
        LOGGER.warning(text)
    clock.now += 10
    LOGGER.warning(text)
    assert said(caplog) == [text] * 10 + [f"{text} (1 more lines like this one were held back)"]


def test_a_line_without_an_exception_that_asks_for_a_traceback_is_a_line(caplog, clock):
    for _ in range(20):
        LOGGER.error("it failed", exc_info=True)
    assert len(caplog.records) == 10


def test_the_number_of_causes_is_bounded(clock):
    rates = RateFilter()
    for number in range(3000):
        rates.filter(logging.makeLogRecord({"msg": f"text {number}", "levelno": logging.WARNING}))
    assert 0 < len(rates._causes) <= 1000
    rates.clear()
    assert not rates._causes


def test_all_loggers_of_the_package_share_one_filter():
    logger = get_logger("test.shared")
    logger.warning("loaded now")
    assert logging.getLogger("test.shared").filters == [bounded]

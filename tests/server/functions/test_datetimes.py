"""Dates, times and durations as JSON; the tables of test_schemas have what each annotation accepts."""

import datetime
import enum

import pytest
from hypothesis import given, strategies as st

from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.datetimes import duration_text, nodes, text_of


@pytest.mark.parametrize("length, text", [
    (datetime.timedelta(0), "PT0S"), (datetime.timedelta(seconds=90), "PT1M30S"), (datetime.timedelta(1), "P1D"),
    (datetime.timedelta(1, 7200), "P1DT2H"), (datetime.timedelta(milliseconds=250), "PT0.25S"),
    (datetime.timedelta(seconds=-1), "-PT1S"), (datetime.timedelta(days=-2, microseconds=1), "-P1DT23H59M59.999999S"),
])
def test_durations_are_written_in_iso_8601(length, text):
    assert duration_text(length) == text


@given(st.timedeltas(datetime.timedelta(-999_999), datetime.timedelta(999_999)))
def test_durations_round_trip(length):
    assert nodes()[datetime.timedelta].convert(duration_text(length)) == length


@given(st.datetimes(timezones=st.sampled_from([None, datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-5))])))
def test_datetimes_are_read_as_python_writes_them(moment):
    assert nodes()[datetime.datetime].convert(moment.isoformat()) == moment
    assert nodes()[datetime.datetime].convert(moment.isoformat(" ")) == moment


@given(st.text(max_size=30) | st.from_regex(r"[0-9T:.,Z+-]{0,30}") | st.from_regex(r"-?P[0-9YMWDTHS.]{0,20}"))
def test_any_text_is_converted_or_refused(text):
    for node in nodes().values():
        try:
            node.convert(text)
        except Mismatch as error:
            assert error.message.endswith(str(error)) and "is not" in error.message


def test_other_classes_have_no_text():
    class Odd(enum.Enum):
        A = 1

    assert text_of(Odd.A) is None

"""Durations; the tables of test_jsonable, test_arrays and test_models have what becomes of other values."""

import datetime

import pytest

from mcplite.protocol.library_values import duration_text


@pytest.mark.parametrize("length, text", [
    (datetime.timedelta(0), "PT0S"), (datetime.timedelta(seconds=90), "PT1M30S"), (datetime.timedelta(1), "P1D"),
    (datetime.timedelta(1, 7200), "P1DT2H"), (datetime.timedelta(milliseconds=250), "PT0.25S"),
    (datetime.timedelta(seconds=-1), "-PT1S"), (datetime.timedelta(days=-2, microseconds=1), "-P1DT23H59M59.999999S"),
])
def test_durations_are_written_in_iso_8601(length, text):
    assert duration_text(length) == text

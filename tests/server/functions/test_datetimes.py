"""Dates, times and durations as JSON; the tables of test_schemas have what each annotation accepts."""

import datetime

from hypothesis import given, strategies as st

from mcplite.protocol.library_values import duration_text
from mcplite.server.functions.datetimes import nodes


@given(st.timedeltas(datetime.timedelta(-999_999), datetime.timedelta(999_999)))
def test_durations_round_trip(length):
    assert nodes()[datetime.timedelta].convert(duration_text(length)) == length

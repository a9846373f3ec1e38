"""Scalars and how errors quote them; what each annotation accepts stands in the tables of test_schemas."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcplite.server.scalars import SIMPLE, Mismatch, duration_text, shown


@pytest.mark.parametrize("length, text", [
    (datetime.timedelta(0), "PT0S"), (datetime.timedelta(seconds=90), "PT1M30S"), (datetime.timedelta(1), "P1D"),
    (datetime.timedelta(1, 7200), "P1DT2H"), (datetime.timedelta(milliseconds=250), "PT0.25S"),
    (datetime.timedelta(seconds=-1), "-PT1S"), (datetime.timedelta(days=-2, microseconds=1), "-P1DT23H59M59.999999S"),
])
def test_durations_are_written_in_iso_8601(length, text):
    assert duration_text(length) == text


@given(st.timedeltas(datetime.timedelta(-999_999), datetime.timedelta(999_999)))
def test_durations_are_read_as_they_were_written(length):
    assert SIMPLE[datetime.timedelta].convert(duration_text(length)) == length


@given(st.datetimes(timezones=st.sampled_from([None, datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-5))])))
def test_moments_are_read_as_python_writes_them(moment):
    assert SIMPLE[datetime.datetime].convert(moment.isoformat()) == moment
    assert SIMPLE[datetime.datetime].convert(moment.isoformat(" ")) == moment


@given(st.text(max_size=30) | st.from_regex(r"[0-9T:.,Z+-]{0,30}") | st.from_regex(r"-?P[0-9YMWDTHS.]{0,20}"))
def test_any_text_is_converted_or_refused(text):
    for node in SIMPLE.values():
        try:
            node.convert(text)
        except Mismatch as error:
            assert error.message.endswith(str(error)) and "is not" in error.message


def test_the_place_leads_through_lists_and_objects():
    error = Mismatch("is required").below("name").below(3).below("items")
    assert error.path == ("items", 3, "name")
    assert error.sentence() == "items[3].name: is required" and error.sentence("arg") == "arg.items[3].name: is required"
    assert Mismatch("is odd").sentence() == "is odd"


def test_long_values_are_cut_and_names_too():
    assert shown("x" * 10 ** 6) == "'" + "x" * 76 + "..."
    assert shown(["x" * 1000] * 5).endswith("...") and len(shown(["x" * 1000] * 5)) == 80
    assert shown([1] * 21) == "a list of 21" and shown([1, 2]) == "[1, 2]"
    assert shown(dict.fromkeys(range(30))) == "an object of 30"
    assert len(Mismatch("is odd").below("k" * 1000).sentence("a")) < 120

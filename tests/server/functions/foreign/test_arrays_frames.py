"""pandas: frames and series as parameters and results."""

import json
import math

import jsonschema
import pytest

from mcplite.protocol.jsonable import jsonable
from mcplite.protocol.library_values import MOST_VALUES
from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.results import tool_result

pandas = pytest.importorskip("pandas", reason="it is used by those who have it")
FRAME = pandas.DataFrame({"city": ["Rome", "Oslo"], "high": [30.5, None], "day": pandas.to_datetime(["2024-05-06", None])})


@pytest.mark.parametrize("value, data", [
    (FRAME, [{"city": "Rome", "high": 30.5, "day": "2024-05-06T00:00:00"}, {"city": "Oslo", "high": None, "day": None}]),
    (FRAME[FRAME.high.isna()], [{"city": "Oslo", "high": None, "day": None}]),
    (FRAME[["city", "high"]].set_index("city"), [{"city": "Rome", "high": 30.5}, {"city": "Oslo", "high": None}]),
    (FRAME.groupby("city")[["high"]].count(), [{"city": "Oslo", "high": 0}, {"city": "Rome", "high": 1}]),
    (pandas.DataFrame({"n": [1, 2]}, index=["a", "b"]), [{"index": "a", "n": 1}, {"index": "b", "n": 2}]),
    (pandas.DataFrame({1: [1], ("a", "b"): [2]}), [{"1": 1, "a_b": 2}]), (pandas.DataFrame({"a": []}), []),
    (pandas.DataFrame(), []), (pandas.DataFrame({"n": pandas.array([1, None], dtype="Int64"), "b": [True, False]}),
     [{"n": 1, "b": True}, {"n": None, "b": False}]),
    (pandas.DataFrame({"d": pandas.to_timedelta(["90s"]), "c": pandas.Categorical(["x"])}), [{"d": "PT1M30S", "c": "x"}]),
    (pandas.DataFrame({"p": pandas.period_range("2024-05", periods=1, freq="M")}), [{"p": "2024-05"}]),
    (pandas.Series([1, 2]), [1, 2]), (pandas.Series([1.5, None]), [1.5, None]),
    (pandas.Series({"a": 1}), [{"index": "a", "value": 1}]),
    (pandas.Series(["x", "x"], name="city").groupby(["x", "x"]).count().rename_axis("key"), [{"key": "x", "city": 2}]),
    (pandas.Timestamp("2024-05-06T07:08:09"), "2024-05-06T07:08:09"), (pandas.Timedelta("90s"), "PT1M30S"), (pandas.NA, None),
    (pandas.Index(["a"]), ["a"]), (pandas.Categorical(["a", None]), ["a", None]),
    (pandas.array([1, None], dtype="Int64"), [1, None]),
    ({"rows": FRAME[["city"]]}, {"rows": [{"city": "Rome"}, {"city": "Oslo"}]}),
], ids=lambda value: type(value).__name__)
def test_values_become_json(value, data):
    made = jsonable(value)
    assert made == data and json.dumps(made) == json.dumps(data)


@pytest.mark.parametrize("value, error, reason", [
    (pandas.DataFrame({"a": [math.inf]}), ValueError, "inf is not a JSON number"),
    (pandas.NaT, ValueError, "NaT is not a time"),
    (pandas.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "two columns of the frame have the name 'a'; rename one"),
    (pandas.DataFrame({"a": range(MOST_VALUES + 1)}), ValueError, f"a table of {MOST_VALUES + 1} values is too large"),
    (pandas.Series(range(MOST_VALUES + 1)), ValueError, "too large"),
    (pandas.DataFrame({"a": [object()]}), TypeError, "object cannot be sent as JSON"),
    (FRAME.groupby("city"), TypeError, "DataFrameGroupBy cannot be sent as JSON; use a frame"),
], ids=lambda value: str(type(value)))
def test_what_has_no_form_in_json_is_an_error(value, error, reason):
    with pytest.raises(error, match=reason):
        jsonable(value)


def test_a_frame_is_a_list_of_records_both_ways():
    def double(rows: pandas.DataFrame) -> pandas.DataFrame:
        return rows.assign(n=rows.n * 2)

    function = compile_function(double)
    records = {"type": "array", "items": {"type": "object"}}
    assert function.input_schema["properties"]["rows"] == records
    assert function.output.schema["properties"]["result"] == records
    bound = function.bind({"rows": [{"n": 1, "s": "a"}, {"n": 2, "s": None}]})
    structured = tool_result(double(**bound), function).structured_content
    assert structured == {"result": [{"n": 2, "s": "a"}, {"n": 4, "s": None}]}
    jsonschema.Draft202012Validator(function.output.schema).validate(structured)
    for bad, reason in (([1], r"rows\[0\]: 1 is not an object"), ({}, "rows: {} is not a list of records")):
        with pytest.raises(BadArguments, match=reason):
            function.bind({"rows": bad})


def test_a_series_is_a_list_both_ways():
    def double(values: pandas.Series) -> pandas.Series:
        return values * 2

    function = compile_function(double)
    assert tool_result(double(**function.bind({"values": [1, 2]})), function).structured_content == {"result": [2, 4]}
    assert len(function.bind({"values": []})["values"]) == 0
    with pytest.raises(BadArguments, match="values: 1 is not a list"):
        function.bind({"values": 1})


def test_timestamps_are_dates_with_their_class():
    def it(at: pandas.Timestamp, length: pandas.Timedelta) -> None: ...

    function = compile_function(it)
    assert function.input_schema["properties"]["at"] == {"type": "string", "format": "date-time"}
    bound = function.bind({"at": "2024-05-06T07:08:09", "length": "PT1M30S"})
    assert bound == {"at": pandas.Timestamp("2024-05-06T07:08:09"), "length": pandas.Timedelta("90s")}
    assert type(bound["at"]) is pandas.Timestamp and type(bound["length"]) is pandas.Timedelta

"""numpy: arrays and scalars as parameters and results."""

import datetime
import json
import math
from typing import Any, List, Optional, Tuple

import jsonschema
import pytest

from mcplite.errors import RegistrationError
from mcplite.protocol.jsonable import jsonable
from mcplite.protocol.library_values import MOST_VALUES
from mcplite.server.functions.function import BadArguments, compile_function
from mcplite.server.functions.results import tool_result
from tests.support.agreement import agree

numpy = pytest.importorskip("numpy", reason="it is used by those who have it")
from numpy.typing import NDArray  # noqa: E402

MATRIX = numpy.ndarray[Tuple[int, int], numpy.dtype[numpy.uint8]]


@pytest.mark.parametrize("annotation, accepted, rejected, unconvertible", [
    (numpy.ndarray, {"[1, 2]": numpy.array([1, 2]), "[[1.5], [2]]": numpy.array([[1.5], [2]]), "[]": numpy.array([]),
                     "[true]": numpy.array([True])}, ["1", '["a"]', "null", "{}"], ["[[1], [2, 3]]", '[["a"]]']),
    (NDArray[numpy.float64], {"[1, 2.5]": numpy.array([1, 2.5]), "[[1], [2]]": numpy.array([[1.0], [2.0]])},
     ['["1"]', "[null]", "[true]", "1"], ['[["1"]]', "[1, [2]]"]),
    (NDArray[numpy.int64], {"[1, 2.0]": numpy.array([1, 2])}, ["[1.5]", '["1"]', "[9223372036854775808]"], []),
    (NDArray[numpy.integer[Any]], {"[1, 2]": numpy.array([1, 2])}, ["[1.5]"], []),
    (NDArray[numpy.floating[Any]], {"[1, 2]": numpy.array([1.0, 2.0])}, ['["a"]'], []),
    (NDArray[numpy.bool_], {"[true]": numpy.array([True])}, ["[1]"], []),
    (NDArray[numpy.str_], {'["a"]': numpy.array(["a"])}, ["[1]"], []),
    (NDArray[numpy.object_], {'["a", 1]': numpy.array(["a", 1], dtype=object)}, ["1"], []),
    (NDArray[numpy.datetime64], {'["2024-05-06"]': numpy.array(["2024-05-06"], dtype="datetime64[us]"),
                                 '["2024-05-06T07:08:09+02:00"]': numpy.array(["2024-05-06T05:08:09"], dtype="datetime64[us]")},
     ["[1]"], ['["soon"]']),
    (NDArray[numpy.float32], {"[1.5]": numpy.array([1.5], dtype=numpy.float32)}, ['["a"]'], ["[1e300]"]),
    (NDArray[Any], {"[1]": numpy.array([1])}, ["1"], []),
    (MATRIX, {"[[1, 2], [3, 4]]": numpy.array([[1, 2], [3, 4]], dtype=numpy.uint8)}, ["[1]", "[[256]]", "[[-1]]", '[["1"]]'],
     ["[[1], [2, 3]]"]),
    (Optional[NDArray[numpy.float64]], {"[1]": numpy.array([1.0]), "null": None}, ["1"], []),
    (List[NDArray[numpy.float64]], {"[]": []}, ["[1]"], []),
    (numpy.int32, {"3": numpy.int32(3)}, ["3.5", "3000000000", '"3"'], []),
    (numpy.float32, {"1": numpy.float32(1)}, ['"1"'], []),
    (numpy.float64, {"1": numpy.float64(1)}, ['"1"'], []),
    (numpy.bool_, {"true": numpy.bool_(True)}, ["1"], []),
    (numpy.integer, {"3": 3}, ["3.5"], []),
    (numpy.datetime64, {'"2024-05-06"': numpy.datetime64("2024-05-06")}, ["1"], ['"soon"']),
], ids=lambda value: str(value)[:40])
def test_the_binder_agrees_with_the_schema(annotation, accepted, rejected, unconvertible):
    agree(annotation, accepted, rejected, unconvertible)


def test_errors_name_the_place():
    def it(matrix: MATRIX, vector: NDArray[numpy.float64]) -> None: ...

    with pytest.raises(BadArguments) as caught:
        compile_function(it).bind({"matrix": [[1, 256]], "vector": [[1], [2, 3]]})
    assert caught.value.problems == ["matrix[0][1]: 256 is not between 0 and 255",
                                     "vector: the list is not an array: its lists have different lengths"]


@pytest.mark.parametrize("kind", [numpy.complex128, numpy.timedelta64, numpy.void, numpy.bytes_])
def test_items_without_a_form_are_refused(kind):
    def it(bad): ...

    it.__annotations__["bad"] = NDArray[kind]
    with pytest.raises(RegistrationError, match="^tool 'it': parameter 'bad' has items of numpy's .*; use float64"):
        compile_function(it)


@pytest.mark.parametrize("value, data", [
    (numpy.float32(0.5), 0.5), (numpy.float64(1.5), 1.5), (numpy.int64(3), 3), (numpy.uint8(3), 3), (numpy.bool_(True), True),
    (numpy.str_("a"), "a"), (numpy.datetime64("2024-05-06"), "2024-05-06T00:00:00"),
    (numpy.datetime64("2024-05-06T07:08:09.123456789"), "2024-05-06T07:08:09.123456"), (numpy.timedelta64(90, "s"), "PT1M30S"),
    (numpy.arange(4).reshape(2, 2), [[0, 1], [2, 3]]), (numpy.array(3), 3), (numpy.array([]), []),
    (numpy.array(["a", None], dtype=object), ["a", None]), (numpy.array([datetime.date(2024, 5, 6)]), ["2024-05-06"]),
    (numpy.array(["2024-05-06", "NaT"], dtype="datetime64[ns]"), ["2024-05-06T00:00:00", None]),
    (numpy.ma.array([1, 2], mask=[False, True]), [1, None]),
    (numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]), [{"a": 1, "b": 2.5}]),
    (numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0], {"a": 1, "b": 2.5}),
    ({"rows": [numpy.array([1])], "n": numpy.int16(1)}, {"rows": [[1]], "n": 1}),
], ids=str)
def test_values_become_json(value, data):
    made = jsonable(value)
    assert made == data and json.dumps(made) == json.dumps(data)


@pytest.mark.parametrize("value, error, reason", [
    (numpy.array([1, math.nan]), ValueError, "nan is not a JSON number; use None"),
    (numpy.float64(math.inf), ValueError, "inf is not a JSON number"),
    (numpy.float32(math.nan), ValueError, "nan is not a JSON number"),
    (numpy.datetime64("NaT", "s"), ValueError, "NaT is not a time"),
    (numpy.array([1j]), TypeError, "complex numbers cannot be sent as JSON; use the real"),
    (numpy.zeros(MOST_VALUES + 1), ValueError, f"an array of {MOST_VALUES + 1} values is too large"),
], ids=str)
def test_what_has_no_form_in_json_is_an_error(value, error, reason):
    with pytest.raises(error, match=reason):
        jsonable(value)


@pytest.mark.parametrize("returns, value, structured", [
    (NDArray[numpy.float64], numpy.array([1.5]), [1.5]), (MATRIX, numpy.array([[1]], dtype=numpy.uint8), [[1]]),
    (numpy.ndarray, numpy.array(["a"]), ["a"]), (numpy.float32, numpy.float32(0.5), 0.5), (numpy.int64, numpy.int64(5), 5),
    (float, numpy.float64(0.5), 0.5), (int, numpy.int64(5), 5), (List[float], numpy.array([0.5]), [0.5]),
])
def test_a_declared_result(returns, value, structured):
    def it(): ...

    it.__annotations__["return"] = returns
    function = compile_function(it)
    assert tool_result(value, function).structured_content == {"result": structured}
    jsonschema.Draft202012Validator(function.output.schema).validate({"result": structured})


def test_an_array_as_default():
    def it(weights: NDArray[numpy.float64] = numpy.array([1.0, 2.0])) -> None: ...  # noqa: B008

    assert compile_function(it).input_schema["properties"]["weights"]["default"] == [1.0, 2.0]

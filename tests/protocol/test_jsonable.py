import collections
import dataclasses
import datetime
import decimal
import inspect
import json
import math
import pathlib
import types
import uuid
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.jsonable import jsonable
from mcplite.server import Image
from mcplite.types import CallToolResult, Root, TextContent, Tool
from tests.support.names import named
from tests.support.odd_values import Color, Level, Loud, Name


class Odd(int):
    def __int__(self):
        return 99

    def __str__(self):
        return "odd"


class Ratio(float):
    pass


class Pair(NamedTuple):
    left: int
    right: Color


@dataclasses.dataclass
class Day:
    date: datetime.date
    high: float = 1.5
    total: int = dataclasses.field(init=False, default=7)


ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


@pytest.mark.parametrize("value, data", [
    (None, None), (True, True), (1, 1), (1.5, 1.5), ("ä", "ä"), ([1, (2, 3)], [1, [2, 3]]), ({"a": [1]}, {"a": [1]}),
    ({2, 1}, [1, 2]), pytest.param(frozenset("ba"), ["a", "b"], id="frozenset"), pytest.param({1, "a"}, [1, "a"], id="set"),
    (Color.RED, "red"), (Level.LOW, 1), (Name.A, "a"), (Loud("a"), "a"), (Odd(3), 3), (Ratio(0.5), 0.5),
    (Pair(1, Color.RED), {"left": 1, "right": "red"}), ({Color.RED: 1}, {"red": 1}), ({Loud("a"): 1}, {"a": 1}),
    ({1: 2, 0.5: 3, None: 4}, {"1": 2, "0.5": 3, "null": 4}), ({False: {Level.LOW: Odd(3)}}, {"false": {"1": 3}}),
    ({uuid.UUID(ID): 1, datetime.date(2024, 5, 6): 2, Name.A: 3}, {ID: 1, "2024-05-06": 2, "a": 3}),
    (Root("file:///x"), {"uri": "file:///x"}), ([Tool("t", {})], [{"name": "t", "inputSchema": {}}]),
    (collections.UserString("lazy"), "lazy"), (Day(datetime.date(2024, 5, 6)), {"date": "2024-05-06", "high": 1.5, "total": 7}),
    (datetime.datetime(2024, 5, 6, 7, 8), "2024-05-06T07:08:00"), (datetime.time(7, 8), "07:08:00"),
    (datetime.timedelta(1, 1), "P1DT1S"), (uuid.UUID(ID), ID), (decimal.Decimal("1.10"), "1.10"),
    (pathlib.PurePosixPath("/a/b"), "/a/b"), (b"\x00\x01\xff", "AAH/"), (bytearray(b"a"), "YQ=="), (memoryview(b"a"), "YQ=="),
    (types.MappingProxyType({"a": 1}), {"a": 1}), (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
], ids=named(40))
def test_data_becomes_plain_json(value, data):
    result = jsonable(value)
    assert result == data and json.loads(json.dumps(result)) == data
    assert plain(result), result


def plain(value):
    if type(value) is list:
        return all(plain(item) for item in value)
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    return type(value) in (str, int, float, bool, type(None))


class Opaque:
    pass


def numbers():
    yield 1


@pytest.mark.parametrize("value, kind, reason", [
    (math.nan, ValueError, "nan is not a JSON number"), ([math.inf], ValueError, "inf is not a JSON number"),
    (Ratio("-inf"), ValueError, "-inf is not a JSON number"),
    (Opaque(), TypeError, "class Opaque cannot be sent as JSON; use a dict, a dataclass or a string"),
    ([{"a": Opaque}], TypeError, "class type cannot be sent"), (1j, TypeError, "class complex cannot be sent"),
    (Day, TypeError, "class type cannot be sent"), ({(1, 2): 3}, TypeError, r"the key \(1, 2\) has no text in JSON"),
    ({Day: 2}, TypeError, "class type cannot be sent"), ({1: 2, "1": 3}, ValueError, "two keys are the same text in JSON"),
    ({math.nan: 2}, ValueError, "nan is not a JSON number"),
    ({"a": TextContent("x")}, TypeError, r"TextContent cannot be sent inside of data, .*such as \[data, TextContent"),
    ([Image(b"GIF8")], TypeError, "class Image cannot be sent inside of data"),
    ([CallToolResult()], TypeError, "return the CallToolResult alone"), (numbers(), TypeError, "a generator cannot be sent"),
    (map(str, [1]), TypeError, "class map cannot be sent as JSON; use a list$"),
    (range(3), TypeError, "class range .* use a list$"),
], ids=named(30))
def test_values_without_a_form_in_json_are_refused(value, kind, reason):
    with pytest.raises(kind, match=reason):
        jsonable(value)


def test_values_that_contain_themselves_are_refused():
    loop = []
    loop.append({"a": (loop,)})
    with pytest.raises(ValueError, match="nested too deeply, or contains itself"):
        jsonable(loop)


def test_a_refused_coroutine_is_closed_without_a_warning():
    async def later():
        return 1

    coroutine = later()
    with pytest.raises(TypeError, match="calls an async function, so call a blocking one instead"):
        jsonable([coroutine])
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_json_data_is_unchanged(value):
    assert jsonable(value) == value

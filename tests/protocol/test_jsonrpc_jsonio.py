import contextlib
import importlib.util
import json
import json.encoder
import random
import sys
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from mcplite.errors import INVALID_REQUEST, PARSE_ERROR
from mcplite.protocol.jsonrpc import (
    DuplicateKey,
    JSONLimits,
    TooLarge,
    count_elements,
    encode_json,
    estimate_memory,
    load,
    memory_size,
)
from tests.support.cost import fastest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12)


def nest(levels):
    return b"[" * levels + b"]" * levels


@given(JSON)
def test_values_come_back(value):
    assert load(json.dumps(value).encode()) == value
    assert load(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) is not NotImplemented


def outcome(decode, text):
    try:
        return decode(text)
    except ValueError as error:
        return str(error)


@given(st.sampled_from(["", " ", "\r\n\t ", "\f", "\u00a0"]),
       JSON.map(json.dumps) | st.text(alphabet='{}[]:,"1ae \n', max_size=8),
       st.sampled_from(["", "\n", " \r\n\t", "\f", "\u00a0", " 1", "{}"]))
def test_what_stands_around_a_value_is_taken_and_refused_as_the_standard_library_does(before, text, after):
    whole = before + text + after
    assert outcome(load, whole.encode()) == outcome(json.JSONDecoder().decode, whole)


@pytest.mark.parametrize("text", [b"{}", b' \r\n[1, "\xef\xbb\xbf"]', b"1", b'"a"'])
@pytest.mark.parametrize("limits", [JSONLimits(), JSONLimits(duplicate_keys=True), JSONLimits(digits=1)])
def test_a_byte_order_mark_in_front_is_skipped(text, limits):
    assert load(b"\xef\xbb\xbf" + text, limits) == load(text, limits)


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_nesting_is_exact(limit):
    # SEC-21
    limits = JSONLimits(nesting=limit)
    assert load(nest(limit), limits) is not None
    with pytest.raises(TooLarge, match=f"more than {limit} levels") as caught:
        load(nest(limit + 1), limits)
    assert caught.value.code == PARSE_ERROR


def test_brackets_side_by_side_are_not_nested():
    assert load(b"[[],[],[],[{}],{}]", JSONLimits(nesting=3)) == [[], [], [], [{}], {}]


def test_brackets_in_strings_do_not_count():
    limits = JSONLimits(nesting=2, elements=3)
    for text in ("[[[[[[", "{{{{", ",,,,,,,", '\\"[[[[,,,', "\\", "\\\\", '"', '"[', "\n[[[[", "]]]]",
                 '","', '\\","[', '\\\\"', ':":[', "[]", '""', '"[]"'):
        data = json.dumps({"a": text}).encode()
        assert load(data, limits) == {"a": text}
        with pytest.raises(TooLarge):
            load(b"[[" + data + b"]]", limits)


@pytest.mark.parametrize("data, elements", [(b"[1,2,3]", 3), (b'{"a":1,"b":[2]}', 3), (b"[[],[],[]]", 6)])
def test_elements_are_counted(data, elements):
    # SEC-27: an opener counts for the first element in it, and each comma for one more
    assert load(data, JSONLimits(elements=elements))
    with pytest.raises(TooLarge, match=f"more than {elements - 1} keys and items") as caught:
        load(data, JSONLimits(elements=elements - 1))
    assert caught.value.code == INVALID_REQUEST


def test_a_string_that_never_ends_is_scanned_in_linear_time():
    start = b"[" * 60 + b"{}," * 10
    for data in (b'["' + b"\\" * 1_000_001 + b"[," * 100_000, b'"' * 1_000_001 + b"," * 200_000,
                 start + b'"' + b'\\"' * 1_000_000, start + b'"' + b'\\' * 2_000_001, start + b'\\"' * 1_000_000,
                 start + b'"a' * 1_000_000 + b"\\"):
        with pytest.raises(ValueError):
            load(data)


@given(JSON, st.integers(1, 6), st.integers(1, 12))
def test_the_bounds_are_those_of_the_value(value, nesting, elements):
    def depth(item):
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    def count(item):
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        return 0 if inner is None else max(len(item), 1) + sum(map(count, inner))

    limits = JSONLimits(nesting=nesting, elements=elements)
    try:
        loaded = load(json.dumps(value).encode(), limits)
    except TooLarge:
        assert depth(value) > nesting or count(value) > elements
    else:
        assert loaded == value
        assert depth(value) <= nesting and count(value) <= elements


@pytest.mark.parametrize("text, reason", [
    (b"NaN", "NaN is not JSON"), (b"[Infinity]", "Infinity is not JSON"), (b"-Infinity", "-Infinity is not JSON"),
    (b"1e400", "1e400 is out of range"), (b"-1e999", "out of range"), (b"\xff", "not UTF-8 at byte 0"),
    (b'"ab\xe9"', "not UTF-8 at byte 3"), (b"[1,]", "."), (b"", "Expecting value"), (b"{}\xef\xbb\xbf", "Extra"),
])
@pytest.mark.parametrize("duplicate_keys", [False, True])
def test_refused_texts(text, reason, duplicate_keys):
    with pytest.raises(ValueError, match=reason):
        load(text, JSONLimits(duplicate_keys=duplicate_keys))


@pytest.mark.parametrize("duplicate_keys", [False, True])
def test_long_integers(duplicate_keys):
    # SEC-22
    limits = JSONLimits(duplicate_keys=duplicate_keys)
    assert load(b"9" * 4300, limits) == int("9" * 4300)
    assert load(b"[" + b"9" * 4000 + b"," + b"8" * 400 + b"]", limits) == [int("9" * 4000), int("8" * 400)]
    for text in (b"9" * 4301, b"[1,-" + b"9" * 5000 + b"]", b'{"a":' + b"1" * 100_000 + b"}"):
        with pytest.raises(ValueError, match="more than 4300 digits"):
            load(text, limits)
    # digits in a string are no number, and a fraction is no integer
    assert load(b'"' + b"9" * 5000 + b'"', limits) == "9" * 5000
    assert load(b"0." + b"9" * 5000, limits) == pytest.approx(1)


@given(st.integers(2, 40), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_the_digit_limit_is_exact_wherever_the_number_is(digits, before, count, after):
    text = b'["' + b"x" * before + b'",-' + b"9" * (count + 1) + b',"' + b"x" * after + b'"]'
    try:
        value = load(text, JSONLimits(digits=digits))
    except ValueError as error:
        assert count + 1 > digits and "digits" in str(error)
    else:
        assert count + 1 <= digits and value[1] == -int("9" * (count + 1))


@pytest.mark.parametrize("data", [
    b'["' + (b"9" * 999 + b"x") * 1000 + b'"]', b'["' + (b"9" * 4299 + b"x") * 240 + b'"]',
    b"[" + (b"9" * 2000 + b",") * 200 + b"0]", b'["' + b"iVBORw0KGgo123" * 70_000 + b'"]',
    b"[" * 60 + b"]" * 60 + b"]" * 1_000_000, b"[" + (b"[" * 60 + b"]" * 60 + b",") * 700 + b"[]]",
    b'[["' + b'\\"[' * 300_000 + b'"]]', b"[" + b",".join([b'["[,",' * 10 + b"0" + b"]" * 10] * 9000) + b"]",
], ids=["runs of digits", "long runs", "long numbers", "base64", "closers", "deep", "escapes", "strings"])
@pytest.mark.slow
def test_the_bounds_cost_little_beside_parsing(data):
    # SEC-27: in C, and without going back; the first two took a thousand times as long when they were not
    def seconds(function):
        def run():
            with contextlib.suppress(ValueError):
                function(data)

        return fastest(run, 3)

    assert seconds(load) < 60 * max(seconds(lambda text: json.loads(text.decode())), 0.002)


def test_a_tight_digit_limit_holds_for_short_texts():
    limits = JSONLimits(digits=20)
    assert load(b"[" + b"9" * 20 + b"]", limits) == [int("9" * 20)]
    with pytest.raises(ValueError, match="more than 20 digits"):
        load(b"[" + b"9" * 21 + b"]", limits)


def test_numbers_keep_their_value():
    assert load(b"[9007199254740993,1.0,-0,1e5,1e-400]") == [9007199254740993, 1.0, 0, 1e5, 0.0]
    assert type(load(b"1.0")) is float and type(load(b"1")) is int
    assert Fraction(load(b"0.1")) == Fraction(0.1)


@pytest.mark.parametrize("text, key", [
    (b'{"a":1,"a":1}', "'a'"), (b'{"a":1,"b":{"c":1,"\\u0063":2}}', "'c'"), (b'[{"":1,"x":2,"":3}]', "''"),
    (b'{"' + b"k" * 5000 + b'":1,"' + b"k" * 5000 + b'":1}', "'kkk"),
])
def test_duplicate_keys(text, key):
    # SEC-24
    with pytest.raises(DuplicateKey, match=key) as caught:
        load(text)
    assert len(str(caught.value)) < 200
    assert load(text, JSONLimits(duplicate_keys=True)) is not None


def test_the_last_duplicate_counts():
    assert load(b'{"a":1,"a":2}', JSONLimits(duplicate_keys=True)) == {"a": 2}


def test_keys_that_only_look_alike():
    assert load('{"a":1,"A":2,"\u0430":3,"a ":4}'.encode()) == {"a": 1, "A": 2, "\u0430": 3, "a ": 4}


def test_deeper_than_the_stack():
    # With a limit beyond Python's own the error is still TooLarge, never RecursionError (SEC-21).
    for text in (nest(200_000), b'{"a":' * 200_000 + b"1" + b"}" * 200_000):
        with pytest.raises(TooLarge, match="too deep") as caught:
            load(text, JSONLimits(nesting=10**6, elements=10**6))
        assert caught.value.code == PARSE_ERROR


def test_the_memory_of_a_value_counts_keys_values_and_containers():
    flat = memory_size("x" * 1000, 10_000)
    assert 1000 < flat < 1200
    nested = memory_size({"key": [{"a": {}}, "x" * 1000, 1.5, None]}, 10_000)
    assert flat + 200 < nested < flat + 2000
    assert memory_size([{}] * 100_000, 1 << 30) > 5_000_000, "as a text these are 300 kB"


def test_counting_memory_ends_above_the_limit():
    endless = []
    endless.append(endless)
    assert memory_size(endless, 5000) > 5000


def test_a_python_that_knows_no_sizes_estimates_them(monkeypatch):
    monkeypatch.setattr(sys, "getsizeof", lambda item, default: default)
    assert memory_size("x" * 1000, 10_000) > 1000
    assert memory_size([{"a": 1}] * 100, 1 << 20) > 6400


@pytest.mark.parametrize("size", [10, 16_383, 16_384, 100_000])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 40, 1000])
def test_elements_are_counted_exactly_in_large_and_small_texts(size, count):
    data = bytearray(b"x" * size)
    places = random.Random(count).sample(range(size), min(count, size))
    for place in places:
        data[place] = random.Random(place).choice(b",[{")
    assert count_elements(bytes(data)) == len(places)


@pytest.mark.parametrize("value", ["x" * 50_000, "é" * 50_000, "\u65e5" * 50_000, "\U0001f388" + "x" * 50_000,
                                   {"a": "x" * 30_000, "b": ["y" * 30_000]}, list(range(60)), [{}] * 5000, ["\u65e5"] * 5000])
@pytest.mark.parametrize("escaped", [True, False])
def test_the_memory_of_a_text_is_estimated_not_far_below_what_it_takes(value, escaped):
    data = json.dumps(value, ensure_ascii=escaped).encode("utf-8")
    taken = len(data) + memory_size(json.loads(data), 1 << 30)
    for decoded in (value, None):
        assert 0.7 * taken < estimate_memory(data, decoded) < 8 * taken
    if type(value) is str:
        assert estimate_memory(data, value) == taken, "one string is measured"


def without_c(monkeypatch):
    """Return what the module makes where Python has no C encoder."""
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    spec = importlib.util.find_spec("mcplite.protocol.jsonrpc")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.encode_json


@pytest.fixture(params=["c", "python"])
def encode(request, monkeypatch):
    return encode_json if request.param == "c" else without_c(monkeypatch)


@given(JSON)
def test_the_encoder_writes_the_same_as_json(value):
    text = encode_json(value)
    assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert json.loads(text) == value


def test_both_encoders_agree(encode):
    value = {"a": [1, 2.5, None, True, False, -0.0, 10**30], "é\u2028\n\"\\😀": {"": [], "b": {}}, "t": (1, "x")}
    assert encode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert "\n" not in encode({"a": "\r\n\0\x1f"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}])
def test_numbers_that_are_not_finite(encode, value):
    # SEC-22
    with pytest.raises(ValueError):
        encode(value)


@pytest.mark.parametrize("value, name", [(object(), "object"), ({1}, "set"), ([b""], "bytes"), ({"a": 1j}, "complex")])
def test_values_that_are_not_json(encode, value, name):
    with pytest.raises(TypeError, match=f"class {name} is not JSON"):
        encode(value)


def test_keys_that_are_not_strings(encode):
    with pytest.raises(TypeError, match="keys must be"):
        encode({(1,): 2})


def test_cycles_and_depth(encode):
    cycle = []
    cycle.append(cycle)
    deep = []
    for _ in range(100_000):
        deep = {"a": deep}
    for value in (cycle, deep):
        with pytest.raises(ValueError):
            encode(value)

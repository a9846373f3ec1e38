import importlib.util
import json
import json.encoder

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.jsonrpc import encode_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12)


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

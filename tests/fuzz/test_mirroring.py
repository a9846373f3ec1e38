"""Headers that repeat the body: for any arguments the client's headers are accepted, and no others."""

import json

import pytest
from hypothesis import example, given, strategies as st

from mcplite.errors import HeaderMismatch
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.routing_headers import (
    Mark,
    check_parameters,
    check_standard,
    decode_value,
    encode_value,
    marks,
    parameters,
    standard,
)
from mcplite.revisions import NEWEST

MARKS = [Mark("Region", ("region",), "string"), Mark("Count", ("count",), "integer"), Mark("Dry", ("dry",), "boolean"),
         Mark("Zone", ("place", "zone"), "string")]
#: Also what no UTF-8 has: JSON can say it, in an escape.
ANY_TEXT = st.lists(st.sampled_from(["\ud800", "\udfff", "a", "\0", " "]) | st.characters(), max_size=8).map("".join)
#: What is taken for a coded value, or nearly.
CODED = st.sampled_from(["=?base64?", "?=", "=?base64?SGVsbG8=?=", "=?base64??=", "=?base64?=", "=?BASE64?eA==?="])
TEXT = st.lists(st.text(max_size=10) | CODED, max_size=3).map("".join)
NUMBERS = st.integers(1 - 2 ** 53, 2 ** 53 - 1)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["zone", "region", "a"]), inner, max_size=3), max_leaves=6)
ARGUMENTS = st.fixed_dictionaries({}, optional={
    "region": TEXT, "count": NUMBERS, "dry": st.booleans(),
    "place": st.fixed_dictionaries({}, optional={"zone": TEXT})})
ANY_ARGUMENTS = st.fixed_dictionaries({}, optional={"region": JSON, "count": JSON, "dry": JSON, "place": JSON}) | JSON
VALUES = TEXT | ANY_TEXT | st.integers().map(str) | st.sampled_from([
    "true", "false", "42", "42.0", "-0", "1e3", "\u0664\u0662"])


def travelled(value):
    """Return a value as it is at the other end."""
    return json.loads(json.dumps(value))


def header_pairs(given):
    return [pair for name, values in given.items() for pair in ((f"Mcp-Param-{name}", value) for value in values)]


HEADERS = st.fixed_dictionaries({}, optional={
    mark.name: st.lists(VALUES, max_size=2) for mark in MARKS}).map(header_pairs)


@given(VALUES)
def test_any_value_of_a_header_is_read_or_refused(value):
    try:
        decoded = decode_value(value)
    except ValueError:
        assert value.startswith("=?base64?") and value.endswith("?=")
    else:
        assert decoded == value or encode_value(decoded).startswith("=?base64?") or decoded.isprintable()


@given(ANY_TEXT)
@example("\ud800")
def test_any_text_can_be_encoded_for_a_header(text):
    value = encode_value(text)
    assert all(" " <= character <= "~" for character in value) and value == value.strip(" ")
    try:
        assert decode_value(value) == text
    except ValueError:
        assert any("\ud800" <= character <= "\udfff" for character in text), "only what is no Unicode is lost"


@given(ARGUMENTS)
def test_headers_of_the_client_fit_the_server(arguments):
    sent = parameters(arguments, MARKS)
    check_parameters(Headers(sent.items()), travelled(arguments), MARKS)
    for name in sent:
        with pytest.raises(HeaderMismatch, match="is missing"):
            check_parameters(Headers((key, value) for key, value in sent.items() if key != name), arguments, MARKS)
        with pytest.raises(HeaderMismatch, match="more than once"):
            check_parameters(Headers([*sent.items(), (name.upper(), sent[name])]), arguments, MARKS)


@given(ARGUMENTS, ARGUMENTS)
@example({"region": "=?base64?eA==?="}, {"region": "x"})
@example({"region": "1"}, {"region": "1.0"})
def test_headers_of_other_arguments_are_refused(one, other):
    sent = parameters(one, MARKS)
    if sent == parameters(other, MARKS):
        check_parameters(Headers(sent.items()), other, MARKS)
    else:
        with pytest.raises(HeaderMismatch):
            check_parameters(Headers(sent.items()), other, MARKS)


@given(ANY_ARGUMENTS)
@example({"count": True})
@example({"count": "abc"})
def test_any_arguments_are_sent_or_too_large(arguments):
    """A client sends what it is given; whatever the server then says of the arguments, the headers pass."""
    try:
        sent = parameters(arguments if isinstance(arguments, dict) else {}, MARKS)
    except ValueError as error:
        assert "2**53" in str(error)
        with pytest.raises(HeaderMismatch):
            check_parameters(Headers(), arguments, MARKS)
    else:
        check_parameters(Headers(sent.items()), travelled(arguments), MARKS)


@given(HEADERS, ANY_ARGUMENTS)
@example([("Mcp-Param-Count", "42")], {"count": "forty-two"})
@example([("Mcp-Param-Count", "1")], {"count": True})
@example([("Mcp-Param-Count", "1")], {"count": 10 ** 5000})
def test_any_headers_are_compared_with_any_arguments(headers, arguments):
    try:
        check_parameters(Headers(headers), arguments, MARKS)
    except HeaderMismatch as error:
        assert error.code == -32020 and len(str(error)) < 1000


@given(st.sampled_from(["tools/call", "prompts/get", "resources/read"]) | st.text(max_size=20),
       st.fixed_dictionaries({}, optional={"name": JSON, "uri": JSON}))
def test_standard_headers_are_accepted(method, params):
    sent = standard(method, params, NEWEST.name)
    check_standard(Headers(sent.items()), method, travelled(params), NEWEST.name)
    for name in sent:
        changed = {**sent, name: sent[name] + "x"}
        with pytest.raises(HeaderMismatch):
            check_standard(Headers(changed.items()), method, params, NEWEST.name)


STANDARD = st.sampled_from(["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Other"])


@given(st.lists(st.tuples(STANDARD, VALUES), max_size=5), VALUES,
       st.fixed_dictionaries({}, optional={"name": JSON, "uri": JSON}), VALUES)
def test_any_headers_are_compared_with_any_request(headers, method, params, version):
    try:
        check_standard(Headers(headers), method, params, version)
    except HeaderMismatch as error:
        assert len(str(error)) < 1000


SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={
        "type": st.sampled_from(["string", "integer", "boolean", "number", "object"]) | JSON,
        "x-mcp-header": st.sampled_from(["A", "a", "B-1", "", "a b"]) | JSON}) | JSON,
    lambda inner: st.fixed_dictionaries({}, optional={
        "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3) | inner, "items": inner,
        "anyOf": st.lists(inner, max_size=2) | inner, "$defs": st.dictionaries(st.text(max_size=3), inner, max_size=2),
        "x-mcp-header": st.sampled_from(["A", "a", "C"]), "type": st.just("object"), "const": inner, "not": inner}),
    max_leaves=8)


@given(SCHEMAS)
@pytest.mark.slow
def test_the_marks_of_any_schema_can_be_sent_or_are_refused(schema):
    try:
        found = marks(schema)
    except ValueError as error:
        assert "x-mcp-header" in str(error)
        return
    names = [mark.name.lower() for mark in found]
    assert len(set(names)) == len(names) and all(name.isascii() and name.isprintable() and name for name in names)
    for mark in found:
        inner = schema
        for step in mark.path:
            inner = inner["properties"][step]
        assert (inner["x-mcp-header"], inner["type"]) == (mark.name, mark.kind)

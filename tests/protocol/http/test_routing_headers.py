"""Headers that repeat the body: what is written, what is compared, and which marks a schema may have."""

import datetime
from types import MappingProxyType

import pytest

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

VERSION = "2026-07-28"


@pytest.mark.parametrize(("text", "value"), [
    ("us-west1", "us-west1"), ("inner blanks stay", "inner blanks stay"), ("", ""),  # MHDR-21
    ("Zürich", "=?base64?WsO8cmljaA==?="),  # MHDR-07
    (" padded ", "=?base64?IHBhZGRlZCA=?="), ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="), ("a\tb", "=?base64?YQli?="),
    ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),  # MHDR-08
    ("=?base64?no end", "=?base64?no end"), ("no beginning?=", "no beginning?="),
    ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),  # MHDR-09
])
def test_values_as_headers_carry_them(text, value):
    assert encode_value(text) == value
    assert decode_value(value) == text


@pytest.mark.parametrize("value", ["=?base64?SGVsbG8?=", "=?base64?SGV%bG8=?=", "=?base64?/w==?=", "=?base64?SGVs bG8=?="])
def test_encoded_values_must_be_base64_of_text(value):
    # MHDR-10
    with pytest.raises(ValueError, match="not Base64 of UTF-8"):
        decode_value(value)


def test_the_shortest_marks_overlap_nothing():
    assert decode_value("=?base64?=") == "=?base64?="
    assert decode_value("=?base64??=") == ""


# --- marks ------------------------------------------------------------------------------------------


def schema(**properties):
    return {"type": "object", "properties": properties}


def marked(name, kind="string", **more):
    return {"type": kind, "x-mcp-header": name, **more}


def test_marks_are_found_along_properties():
    nested = schema(region=marked("Region"), place={"type": "object", "properties": {
        "zone": marked("Zone", "integer"), "plain": {"type": "string"}}}, dry=marked("Dry-Run", "boolean"))
    assert marks(nested) == [Mark("Region", ("region",), "string"), Mark("Zone", ("place", "zone"), "integer"),
                             Mark("Dry-Run", ("dry",), "boolean")]
    assert marks(schema(a={"type": "string"})) == marks({}) == marks(True) == []


@pytest.mark.parametrize("name", ["", "two words", "a:b", "tab\there", "Zürich", "line\nbreak", 7, None, ["a"]])
def test_a_mark_is_the_name_of_a_header_field(name):
    # MHDR-13
    with pytest.raises(ValueError, match="name of a header field"):
        marks(schema(a=marked(name)))


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string", "null"]])
def test_a_marked_parameter_is_a_string_an_integer_or_a_boolean(kind):
    # MHDR-15
    with pytest.raises(ValueError, match="type string, integer or boolean"):
        marks(schema(a={"type": kind, "x-mcp-header": "A"}))


def test_marks_differ_in_more_than_case():
    # MHDR-14
    with pytest.raises(ValueError, match="'REGION' comes twice"):
        marks(schema(a=marked("Region"), b={"type": "object", "properties": {"c": marked("REGION")}}))


@pytest.mark.parametrize("hidden", [
    {"items": marked("A")}, {"anyOf": [marked("A")]}, {"if": schema(a=marked("A"))}, {"not": schema(a=marked("A"))},
    {"additionalProperties": marked("A")}, {"$defs": {"d": marked("A")}}, {"patternProperties": {"x": marked("A")}},
    {"prefixItems": [marked("A")]}, {"dependentSchemas": {"x": schema(a=marked("A"))}}, marked("A"),
])
def test_marks_stand_where_properties_lead(hidden):
    # MHDR-17
    with pytest.raises(ValueError, match="through 'properties' alone"):
        marks(schema(b={"type": "object", **hidden}) if hidden != marked("A") else {**hidden, "type": "object"})


def test_annotations_in_data_are_not_marks():
    assert marks(schema(a={"type": "object", "default": {"x-mcp-header": "A"}, "enum": [{"x-mcp-header": "A"}]})) == []
    assert marks({"type": "object", "properties": {"x-mcp-header": {"type": "string"}}}) == []


# --- a client's headers -------------------------------------------------------------------------------


def test_standard_headers():
    assert standard("tools/call", {"name": "Größe"}, VERSION) == {
        "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?R3LDtsOfZQ==?="}
    assert standard("resources/read", {"uri": "file:///a%20b"}, VERSION)["Mcp-Name"] == "file:///a%20b"
    assert standard("prompts/get", {"name": "p"}, VERSION)["Mcp-Name"] == "p"
    assert "Mcp-Name" not in standard("tools/list", {"name": "x"}, VERSION)
    assert "Mcp-Name" not in standard("tools/call", {}, VERSION)


MARKS = [Mark("Region", ("region",), "string"), Mark("Count", ("n",), "integer"), Mark("Dry", ("dry",), "boolean"),
         Mark("Zone", ("place", "zone"), "string")]


@pytest.mark.parametrize(("arguments", "wanted"), [
    ({"region": "eu", "n": 42, "dry": True}, {"Region": "eu", "Count": "42", "Dry": "true"}),
    ({"region": "", "n": -1, "dry": False}, {"Region": "", "Count": "-1", "Dry": "false"}),
    ({"region": None, "place": {"zone": "a\tb"}}, {"Zone": "=?base64?YQli?="}),  # MHDR-22
    ({"n": 42.0, "place": "nowhere"}, {"Count": "42"}),
    ({"region": ["a list"], "n": 1.5}, {}),
    ({"n": 2 ** 53 - 1}, {"Count": "9007199254740991"}),
    ({"region": datetime.date(2027, 1, 1), "place": MappingProxyType({"zone": "a"})}, {"Region": "2027-01-01", "Zone": "a"}),
])
def test_parameter_headers(arguments, wanted):
    assert parameters(arguments, MARKS) == {f"Mcp-Param-{name}": value for name, value in wanted.items()}


@pytest.mark.parametrize("number", [2 ** 53, -2 ** 53, 10 ** 30])
def test_integers_beyond_the_safe_range_are_refused(number):
    # MHDR-16
    with pytest.raises(ValueError, match=r"beyond 2\*\*53 - 1"):
        parameters({"n": number}, MARKS)


# --- a server's comparison ------------------------------------------------------------------------------


def sent(**changes):
    given = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "add",
             **{name.replace("_", "-").lower(): value for name, value in changes.items()}}
    return Headers([(name, value) for name, value in given.items() if value is not None])


def test_headers_that_match_the_body():
    check_standard(sent(), "tools/call", {"name": "add"}, VERSION)
    check_standard(sent(mcp_name=" add "), "tools/call", {"name": "add"}, VERSION)  # MHDR-05
    check_standard(Headers([("MCP-PROTOCOL-VERSION", VERSION), ("mcp-METHOD", "ping")]), "ping", {}, VERSION)
    check_standard(sent(mcp_name="=?base64?WsO8cmljaA==?="), "tools/call", {"name": "Zürich"}, VERSION)
    check_standard(sent(mcp_name=None), "tools/call", {}, VERSION)  # without a name it fails for another reason


@pytest.mark.parametrize(("changes", "why"), [
    ({"mcp-method": None}, "Mcp-Method is missing"), ({"mcp-name": None}, "Mcp-Name is missing"),
    ({"mcp-protocol-version": None}, "MCP-Protocol-Version is missing"),
    ({"mcp-method": "Tools/Call"}, "says 'Tools/Call', the body 'tools/call'"),  # MHDR-04
    ({"mcp-name": "sub"}, "says 'sub', the body 'add'"), ({"mcp-protocol-version": "2025-11-25"}, "says '2025-11-25'"),
    ({"mcp-name": "ädd"}, "characters that are not allowed in headers"), ({"mcp-name": "=?base64?YWRk?"}, "says"),
    ({"mcp-name": "=?base64?YWR?="}, "not Base64"),
])
def test_headers_that_do_not_match_the_body(changes, why):
    with pytest.raises(HeaderMismatch, match=why.replace("?", r"\?")) as caught:
        check_standard(sent(**changes), "tools/call", {"name": "add"}, VERSION)
    assert caught.value.code == -32020


def test_a_header_that_comes_twice():
    # MHDR-06
    twice = Headers([*sent().items(), ("Mcp-Name", "add")])
    with pytest.raises(HeaderMismatch, match="more than once"):
        check_standard(twice, "tools/call", {"name": "add"}, VERSION)


def of(**given):
    return Headers([(f"Mcp-Param-{name}", value) for name, value in given.items()])


@pytest.mark.parametrize(("headers", "arguments"), [
    (of(Region="eu", Count="42", Dry="false"), {"region": "eu", "n": 42, "dry": False}),
    (of(), {"region": None}), (of(), {}), (of(), None), (of(), [1]),  # MHDR-23
    (of(Count="42.0"), {"n": 42}), (of(Count="42"), {"n": 42.0}),  # MHDR-26
    (of(Other="x"), {}),  # MHDR-27
    (of(Region=""), {"region": ""}),
])
def test_parameters_that_match(headers, arguments):
    check_parameters(headers, arguments, MARKS)


@pytest.mark.parametrize(("headers", "arguments", "why"), [
    (of(), {"region": "eu"}, "Mcp-Param-Region is missing"),  # MHDR-24
    (of(Region="us"), {"region": "eu"}, "says 'us', the body 'eu'"),
    (of(Region="eu"), {}, "is given, but the argument 'region' is not"),
    (of(Count="43"), {"n": 42}, "says '43'"), (of(Count="4x"), {"n": 42}, "says '4x'"),
    (of(Region="=?base64?!!?="), {"region": "eu"}, "not Base64"),  # MHDR-25
    (of(Region="\x7f"), {"region": "\x7f"}, "characters that are not allowed in headers"),
    (of(Dry="True"), {"dry": True}, "says 'True', the body 'true'"),
    (of(Count="1"), {"n": 2 ** 60}, "beyond"),
])
def test_parameters_that_do_not(headers, arguments, why):
    with pytest.raises(HeaderMismatch, match=why):
        check_parameters(headers, arguments, MARKS)

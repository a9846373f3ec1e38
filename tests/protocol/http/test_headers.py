"""Header fields: looked up whatever their case, and the few values that decide something."""

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.http.headers import Headers, accepts, check_header, media_type, parse_host, parse_origin


def test_fields_are_found_whatever_their_case():
    # HDR-06
    headers = Headers([("Accept", " text/html\t"), ("X-A", "1"), ("x-a", "2")])
    assert headers.get("accept") == "text/html" and headers.get("missing") is None and headers.get("missing", "-") == "-"
    assert headers.get("x-a") == "1, 2" and headers.all("x-a") == ["1", "2"] and headers.all("missing") == []
    assert "accept" in headers and "missing" not in headers
    assert headers.items() == [("accept", "text/html"), ("x-a", "1"), ("x-a", "2")]
    assert headers["ACCEPT"] == "text/html" and headers.get("X-a") == "1, 2" and list(headers) == ["accept", "x-a"]
    assert dict(headers) == {"accept": "text/html", "x-a": "1, 2"} == {**headers} and len(headers) == 2
    with pytest.raises(KeyError, match="'Missing'"):
        headers["Missing"]


@pytest.mark.parametrize("value, kind", [
    ("application/json", "application/json"), ("Application/JSON ; charset=utf-8", "application/json"), (None, ""), ("", ""),
    ("json", ""), ("a/b/c", ""), ("application/json, text/html", ""), ("text/plain;", "text/plain"),
    (" text/plain\t; a=b; c=d", "text/plain"), ("text/plain\x0b", ""), ("text/plain\x0c; a=b", ""),
])
def test_media_types(value, kind):
    assert media_type(value) == kind


@pytest.mark.parametrize("value, wanted", [
    (None, True), ("*/*", True), ("application/json, text/event-stream", True), ("TEXT/*, application/json;q=0.1", True),
    ("application/json", False), ("text/event-stream;q=0, */*", False), ("*/*;q=0.000", False), ("", False),
    ("nonsense", False), ("text/html, *; q=.2", True), ("*;q=0", False),
    ("text/event-stream, \tapplication/json\t ; q=1", True), ("*/*\x0b", False), ("*/*\x0c; q=1", False),
])
def test_accept_values(value, wanted):
    assert accepts(value, "application/json", "text/event-stream") is wanted


@pytest.mark.parametrize("value, parsed", [
    ("localhost", ("localhost", None)), ("LocalHost.:8000", ("localhost", 8000)), ("[::1]:80", ("[::1]", 80)),
    ("127.0.0.1:65535", ("127.0.0.1", 65535)), ("127.0.0.1:65536", None), ("", None), ("a b", None), ("a@b", None),
    ("a:b", None), ("a:80:80", None), ("::1", None), ("a/b", None), ("ä.example", None), ("-a", None), ("a\n", None),
    (".", None), ("example.\N{KELVIN SIGN}om", None), ("example.kom", ("example.kom", None)),
])
def test_hosts(value, parsed):
    assert parse_host(value) == parsed


@pytest.mark.parametrize("value, parsed", [
    ("http://localhost:3000", ("http", "localhost", 3000)), ("HTTPS://A.example:443", ("https", "a.example", None)),
    ("http://a:80", ("http", "a", None)), ("null", None), ("file://", None), ("ftp://a", None), ("http://a/", None),
    ("http://a@b", None), ("http:", None), ("", None), ("https://http://host", None), ("http://a://host", None),
    ("evil://https://host", None),
])
def test_origins(value, parsed):
    assert parse_origin(value) == parsed


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_none(value):
    for parsed in (parse_host(value), parse_origin(value), parse_origin("http://" + value)):
        assert parsed is None or isinstance(parsed, tuple)
    assert isinstance(media_type(value), str) and accepts(value, "a/b") in (True, False)


@pytest.mark.parametrize("name, value", [("A", "b\r\nC: d"), ("A", "\0"), ("A", "\x7f"), ("A B", "c"), ("", "c"), ("A:", "c")])
def test_fields_that_cannot_be_sent(name, value):
    with pytest.raises(ValueError, match="cannot be sent"):
        check_header(name, value)
    check_header("X-A", "tab\tand ümlaut")

"""Heads of responses: what they say about the body and the connection, and what is refused."""

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.http.http1 import (
    BadRequest,
    BadResponse,
    ChunkedDecoder,
    ResponseHeads,
    find_response_head,
    parse_response_head,
)


def head_of(*lines, method="POST"):
    return parse_response_head("\r\n".join([*lines, "", ""]).encode("latin-1"), method)


def ends(*lines, method="POST"):
    """Return the length of the body, whether it is chunked, and whether the connection can be used again."""
    head = head_of(*lines, method=method)
    return head.length, head.chunked, head.keep_alive


def test_a_head():
    head = head_of("HTTP/1.1 200 All right", "Content-Type: text/plain", "X-Two: a", "Content-Length: 12", "x-two: b \t")
    assert (head.status, head.reason) == (200, "All right")
    assert head.headers == {"content-type": "text/plain", "x-two": "a, b", "content-length": "12"}


@pytest.mark.parametrize("line, status, reason, version", [
    ("HTTP/1.1 200 OK", 200, "OK", (1, 1)), ("HTTP/1.1 404", 404, "", (1, 1)), ("HTTP/1.1 500 ", 500, "", (1, 1)),
    ("HTTP/1.0 999 a b\tc", 999, "a b\tc", (1, 0)), ("HTTP/1.9 200 \xe9", 200, "\xe9", (1, 1))])
def test_status_lines(line, status, reason, version):
    head = head_of(line, "Content-Length: 0")
    assert (head.status, head.reason, head.keep_alive) == (status, reason, version == (1, 1))


@pytest.mark.parametrize("line", [
    "", "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20 OK", "HTTP/1.1 099 OK", "HTTP/1.1 2000 OK", "HTTP/2.0 200 OK", "HTTP/1.1  200 OK",
    "http/1.1 200 OK", "HTTP/1.1 200 a\x00b", "HTTP/1.1 \xb2\xb2\xb2 OK", " HTTP/1.1 200 OK", "ICY 200 OK", "HTTP/1.1\t200 OK"])
def test_malformed_status_lines(line):
    with pytest.raises(BadResponse, match="malformed status line"):
        head_of(line)


@pytest.mark.parametrize("line", [" folded", "no colon", "a : b", ": b", "a: b\x01", "a: b\nc: d", "a\xe9: b"])
def test_malformed_fields(line):
    with pytest.raises(BadResponse, match="malformed header line"):
        head_of("HTTP/1.1 200 OK", line)


@pytest.mark.parametrize("fields, expected", [
    (["Content-Length: 5"], (5, False, True)),
    (["Content-Length: 5, 5"], (5, False, True)),
    (["Content-Length: 5", "Content-Length: 5"], (5, False, True)),
    (["Content-Length: 5", "Connection: close"], (5, False, False)),
    (["Content-Length: 5", "Connection: X, Close"], (5, False, False)),
    (["Transfer-Encoding: chunked"], (None, True, True)),
    (["Transfer-Encoding: Chunked", "Connection: close"], (None, True, False)),
    (["Transfer-Encoding: chunked", "Content-Length: 5"], (None, True, False)),
    ([], (None, False, False)),
    (["Connection: keep-alive"], (None, False, False)),
])
def test_where_the_body_ends(fields, expected):
    assert ends("HTTP/1.1 200 OK", *fields) == expected


@pytest.mark.parametrize("fields, expected", [
    (["Content-Length: 5"], (5, False, False)), (["Content-Length: 5", "Connection: Keep-Alive"], (5, False, True)),
    (["Transfer-Encoding: chunked", "Connection: keep-alive"], (None, True, False))])
def test_the_connection_of_an_old_server(fields, expected):
    assert ends("HTTP/1.0 200 OK", *fields) == expected


@pytest.mark.parametrize("line, method", [("HTTP/1.1 204 No Content", "POST"), ("HTTP/1.1 304 Not Modified", "GET"),
                                          ("HTTP/1.1 200 OK", "HEAD")])
def test_responses_without_a_body(line, method):
    assert ends(line, method=method) == (0, False, True)
    assert ends(line, "Connection: close", method=method) == (0, False, False)
    kept = "204" not in line  # the others may say how long the body would be
    assert ends(line, "Content-Length: 7", method=method) == (0, False, kept)
    assert ends(line, "Transfer-Encoding: chunked", method=method) == (0, False, kept)


@pytest.mark.parametrize("line", ["Content-Length: ", "Content-Length: -1", "Content-Length: +1", "Content-Length: 1 2",
                                  "Content-Length: 1, 2", "Content-Length: 0x1", "Content-Length: 1_0",
                                  "Content-Length: \xb2", "Content-Length: 1,", "Content-Length: " + "9" * 16])
def test_malformed_lengths(line):
    with pytest.raises(BadResponse, match="malformed Content-Length"):
        head_of("HTTP/1.1 200 OK", line)


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, chunked", "identity", "", "xchunked"])
def test_other_transfer_encodings(coding):
    with pytest.raises(BadResponse, match="transfer encoding"):
        head_of("HTTP/1.1 200 OK", f"Transfer-Encoding: {coding}")


def test_the_headers_of_an_interim_response_do_not_count():
    head = head_of("HTTP/1.1 103 Early Hints", "Content-Length: nonsense", "Transfer-Encoding: gzip")
    assert head.status == 103 and head.headers == {}


def test_switching_protocols_ends_with_the_connection():
    assert ends("HTTP/1.1 101 Switching Protocols", "Upgrade: x") == (None, False, False)


def test_the_limits_of_a_head():
    long = "X: " + "y" * 65_000
    assert head_of("HTTP/1.1 200 OK", long).status == 200
    with pytest.raises(BadResponse, match="1000 headers"):
        head_of("HTTP/1.1 200 OK", *["a: b"] * 1001)
    assert find_response_head(bytearray(f"HTTP/1.1 200 OK\r\n{long}".encode())) is None
    for data in ("HTTP/1.1 200 " + "y" * 65_600, f"HTTP/1.1 200 OK\r\n{long}\r\n{long}", "a: b\r\n" * 20_000):
        with pytest.raises(BadResponse, match="65536"):
            find_response_head(bytearray(data.encode()))


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\nA: b\n\n", b"HTTP/1.1 200 OK\r\nA: b\n\r\n"])
def test_lines_end_with_cr_lf(data):
    with pytest.raises(BadResponse, match="CR LF"):
        find_response_head(bytearray(data))


# --- chunked bodies of responses --------------------------------------------------------------------------


def decode(pieces, trailers=100):
    decoder = ChunkedDecoder(None, trailers)
    body = b"".join([decoder.feed(piece) for piece in pieces])
    return body, decoder.done, decoder.rest


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC:\r\n"]),
       st.binary(max_size=5), st.integers(1, 40))
def test_trailers_are_dropped_however_they_are_cut(pieces, trailers, rest, step):
    data = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n" + rest
    assert decode([data]) == (b"".join(pieces), True, rest)
    assert decode([data[at:at + step] for at in range(0, len(data), step)]) == (b"".join(pieces), True, rest)


@pytest.mark.parametrize("data", [b"no colon\r\n\r\n", b" a: b\r\n\r\n", b"a: b\n\r\n", b"a: b\x00\r\n\r\n",
                                  b"a: " + b"b" * 100, b"a: bbbbbb\r\n" * 12])
def test_malformed_trailers(data):
    with pytest.raises(BadRequest, match="trailer"):
        decode([b"0\r\n" + data])


@pytest.mark.parametrize("lines", [[100], [60, 40], [50, 45, 5], [99], []])
def test_trailers_of_just_the_limit_are_read(lines):
    fields = [b"\xe9".rjust(length, b"x").replace(b"xx", b"x:", 1) for length in lines]
    data = b"0\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\nrest"
    assert decode([data]) == decode([bytes([byte]) for byte in data]) == (b"", True, b"rest")
    if sum(lines) == 100:
        with pytest.raises(BadRequest, match="trailer"):
            decode([b"0\r\nx:" + data[4:]])


@pytest.mark.parametrize("data", [b"a: b\n", b"a: b\r\nc\n", b"x" * 102, b"a:" + b"x" * 58 + b"\r\n" + b"y" * 42,
                                  b"no colon\r\n"])
def test_malformed_trailers_are_refused_at_once(data):
    assert decode([b"0\r\n" + data[:-1]]) == (b"", False, b"")
    with pytest.raises(BadRequest, match="trailer") as caught:
        decode([b"0\r\n" + data])
    assert caught.value.status == 400


def test_a_stream_has_no_limit(monkeypatch):
    from mcplite.protocol.http import http1

    monkeypatch.setattr(http1, "_MOST_CHUNKS", 10)
    assert decode([b"1\r\nx\r\n" * 1000]) == (b"x" * 1000, False, b"")


def test_the_middle_of_a_chunk_is_passed_on():
    decoder = ChunkedDecoder(None, 1)
    assert decoder.feed(b"a\r\n") == b""
    assert [decoder.feed(piece) for piece in (b"abc", b"defg", b"hij")] == [b"abc", b"defg", b"hij"] and not decoder.done
    assert decoder.feed(b"\r\n2\r\nxy\r\n") == b"xy"
    with pytest.raises(BadRequest, match="longer"):
        [decoder.feed(piece) for piece in (b"1\r\n", b"z", b"zz")]


def parsed(parse, fields, method="POST", first="HTTP/1.1 200 OK"):
    try:
        head = parse("\r\n".join([first, *fields, "", ""]).encode("latin-1"), method)
    except BadResponse as error:
        return str(error)
    return {name: getattr(head, name) for name in type(head).__slots__}


@pytest.mark.parametrize("fields, others", [
    (["Content-Type: application/json; charset=utf-8", "content-length:7"], []),
    (["Content-Length: 7"], ["Content-Length: 7"]), (["Content-Length: 7"], ["Content-Length: 8"]),
    (["Content-Length: 7 "], ["Content-Length: 7"]), (["Content-Length: 7"], ["Transfer-Encoding: chunked"]),
    (["Content-Length: 7"], ["Connection: close"]), (["A: content-length: 7"], ["Content-Length: 7"]),
])
@pytest.mark.parametrize("method, first", [("POST", "HTTP/1.1 200 OK"), ("HEAD", "HTTP/1.1 200 OK"),
                                           ("POST", "HTTP/1.1 204 No Content"), ("POST", "HTTP/1.0 200 OK")])
def test_a_head_that_differs_in_its_length_only_is_read_as_any_other(fields, others, method, first):
    for row in ([*fields, *others], [*others, *fields]):
        parse = ResponseHeads().parse
        for length in ("7", "7", "0", "12", "007", "8", "999999999999999", "9999999999999999", "-1", "", "7"):
            again = [field.replace("7", length, 1) for field in row]
            for asked in (method, "POST", method):
                assert parsed(parse, again, asked, first) == parsed(parse_response_head, again, asked, first)

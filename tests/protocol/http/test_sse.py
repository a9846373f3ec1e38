"""Event streams: however the bytes are cut the same events come out, and they are those of the WHATWG's rules."""

import pytest
from hypothesis import example, given, strategies as st

from mcplite.errors import ProtocolError
from mcplite.protocol.http.sse import EventParser, encode_event

BOM = b"\xef\xbb\xbf"


def parse(pieces, limit=1000):
    """Return the events as tuples, and whether all are within the limit."""
    parser = EventParser(limit)
    events = []
    try:
        for piece in pieces:
            events += [(event.event, event.data, event.id, event.retry) for event in parser.feed(piece)]
    except ProtocolError:
        return events, False
    return events, True


def by_the_rules(data, limit=1000):
    """The WHATWG's rules once more, slowly, with our two differences: the events, and whether all are within the limit."""
    if data.startswith(BOM):
        data = data[len(BOM):]
    *lines, unfinished = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events = []
    kind, content, id, retry, size = "", [], None, None, 0
    for line in lines:
        size += len(line)
        if size > limit:
            return events, False
        if not line:
            if content or id is not None or retry is not None:
                events.append((kind or "message", b"\n".join(content), id, retry))
            kind, content, id, retry, size = "", [], None, None, 0
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            content.append(value)
        elif field == b"event":
            kind = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")
        elif field == b"retry" and value and all(byte in b"0123456789" for byte in value) and len(value) < 12:
            retry = min(int(value), 30 * 24 * 3600 * 1000)
    return events, size + len(unfinished) <= limit


STREAMS = st.lists(st.sampled_from([
    b"data", b"event", b"id", b"retry", b"other", b":", b": ", b" ", b"\n", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r",
    b"\r\n\r\n", b"\0", BOM, b"\xef", b"\xbb", "é\u2028\x85".encode(), b"\xff", b"1500", b"99999999999", b"999999999999", b"-1",
    b"data: {}\n\n", b'event: message\nid: 1-2\ndata: {"a":1}\n\n', b": keep-alive\n\n", b"id: 0-0\nretry: 1000\ndata:\n\n",
    b"x" * 40]), max_size=20).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 1000), max_size=6), st.sampled_from([1000, 60, 1]))
@example(BOM + BOM + b"data: x\n\n", [1, 2, 4], 1000)
@example(b"data: a\r\ndata: b\r\r\ndata: c\r\n\r\n", [8, 9, 17, 18, 19], 1000)
def test_events_are_the_same_however_the_stream_is_cut(data, places, limit):
    # HTTP-38, REL-51
    expected = by_the_rules(data, limit)
    whole, known = parse([data], limit)
    assert known == expected[1]
    assert whole == (expected[0] if known else [])
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    parts = parse([data[start:stop] for start, stop in zip(at, at[1:])], limit)
    bytewise = parse([bytes([byte]) for byte in data], limit)
    assert bytewise == expected
    # Of the piece with the fault nothing comes out.
    assert parts[1] == expected[1] and parts[0] == expected[0][:len(parts[0])] and (not known or parts == expected)


@pytest.mark.parametrize("data, event", [
    (b"data: x\n\n", ("message", b"x", None, None)), (b"data:x\n\n", ("message", b"x", None, None)),
    (b"data:  x \n\n", ("message", b" x ", None, None)), (b"data\n\n", ("message", b"", None, None)),
    (b"data:\n\n", ("message", b"", None, None)), (b"data: a\ndata: b\ndata:\n\n", ("message", b"a\nb\n", None, None)),
    (b"data: a:b\n\n", ("message", b"a:b", None, None)),
    (b"event: endpoint\ndata: /messages?session_id=1\n\n", ("endpoint", b"/messages?session_id=1", None, None)),
    (b"event: one\nevent: two\ndata: x\n\n", ("two", b"x", None, None)), (b"event\ndata: x\n\n", ("message", b"x", None, None)),
    (b"id: 1-2\ndata: x\n\n", ("message", b"x", "1-2", None)), (b"id\ndata: x\n\n", ("message", b"x", "", None)),
    (b"id: a\0b\ndata: x\n\n", ("message", b"x", None, None)), (b"id: \xc3\xa9\ndata: x\n\n", ("message", b"x", "\xe9", None)),
    (b"retry: 1500\ndata: x\n\n", ("message", b"x", None, 1500)), (b"retry: 0\n\n", ("message", b"", None, 0)),
    (b": a comment\ndata: x\n: another\n\n", ("message", b"x", None, None)),
    (b"Data: y\ndata: x\nunknown: z\n\n", ("message", b"x", None, None)),
    (b"id: 0-0\nretry: 1000\ndata:\n\n", ("message", b"", "0-0", 1000)), (b"id: 7\n\n", ("message", b"", "7", None)),
    (BOM + b"data: x\n\n", ("message", b"x", None, None)), (b"data: " + BOM + b"\n\n", ("message", BOM, None, None)),
    ("data: \u2028\x85\x0c\n\n".encode(), ("message", "\u2028\x85\x0c".encode(), None, None)),
    (b"data: \xff\n\n", ("message", b"\xff", None, None)),
])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_fields(data, event, end):
    assert parse([data.replace(b"\n", end)])[0] == [event]


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b": keep-alive\n\n", b"event: x\n\n", b"data: x\n", b"data: x",
                                  b"id: 1\nretry: 2\ndata: x", BOM, BOM[:2], b"unknown: x\n\n", BOM + BOM + b"data: x\n\n"])
def test_data_without_an_event(data):
    # The second mark of byte order is a part of the field's name, which is then unknown.
    assert parse([data]) == ([], True)


@pytest.mark.parametrize("value, known", [(b"1500", 1500), (b"0", 0), (b"1000000000000", None), (b"99999999999", 2_592_000_000),
                                          (b"-5", None), (b"1.5", None), (b"soon", None), (b"", None), (b"1 ", None),
                                          ("\u0661".encode(), None)])
def test_retry_times_are_plain_numbers_within_a_month(value, known):
    # REL-46
    assert parse([b"retry: " + value + b"\ndata: x\n\n"]) == ([("message", b"x", None, known)], True)


@pytest.mark.parametrize("pieces", [[b"data: " + b"x" * 100], [b"x"] * 101, [b"data: x\n"] * 20,
                                    [b":" + b"x" * 50 + b"\n"] * 2 + [b"x"], [b"data: " + b"x" * 95 + b"\n\n"]])
def test_an_event_has_a_limit(pieces):
    # SEC-63: also without any delimiter.
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        parser = EventParser(100)
        for piece in pieces:
            parser.feed(piece)


def test_the_limit_is_for_each_event():
    parser = EventParser(100)
    for _ in range(20):
        assert len(parser.feed(b"data: " + b"x" * 94 + b"\n\n: keep-alive\n\n")) == 1


def test_a_big_event_in_small_pieces_takes_time_in_proportion():
    # Each byte is looked at once: searching the buffer again with each piece would read some 8 GB.
    piece = b"x" * 4096
    parser = EventParser(20_000_000)
    parser.feed(b"data: ")
    for _ in range(2000):
        assert parser.feed(piece) == []
    event, = parser.feed(b"\n\n")
    assert len(event.data) == 2000 * 4096


@pytest.mark.parametrize("size", [65_530, 65_536, 200_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("space", [b"", b" ", b"  "])
def test_a_large_value_is_that_of_a_small_one(size, end, space):
    data = (b"id: 7" + end + b"data:" + space + b"x" * size + end + b"data" + end + b"data:" + end + b"y" * size + end
            + b": " + b"z" * size + end + end)
    for step in (len(data), 4096, 65_536):
        assert parse([data[at:at + step] for at in range(0, len(data), step)], 1 << 20) == by_the_rules(data, 1 << 20)


@pytest.mark.parametrize("id", [None, "3-14"])
@pytest.mark.parametrize("event", ["message", "endpoint"])
@pytest.mark.parametrize("data", [b"{}", b"x" * 100_000])
def test_what_is_encoded_is_parsed(data, id, event):
    assert parse([encode_event(data, id, event)], 1 << 20) == ([(event, data, id, None)], True)

import json
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.framing import KEPT_BYTES, CutLine, LineBuffer, refuse_unread
from mcplite.protocol.jsonrpc import Batch, Invalid
from tests.support.cost import fastest

BOM = b"\xef\xbb\xbf"


def drain(buffer):
    """All lines: those that were cut as (their beginning, their end, their size)."""
    return [(line[:-1], line.tail, line.size) if type(line) is CutLine else line for line in iter(buffer.next, None)]


def cut(data, limit):
    """The rules once more, slowly: all lines of *data*, and what is left."""
    *parts, rest = data.split(b"\n")
    lines = []
    for part in parts:
        part = part[:-1] if part.endswith(b"\r") else part
        if part.strip(b" \t\r\v\f" + BOM):  # also a part of a mark is blank
            head, tail = part[:KEPT_BYTES], part[KEPT_BYTES:][-KEPT_BYTES:]
            lines.append((head, tail, len(part)) if len(part) > limit else part)
    return lines, rest


def test_carriage_returns_blank_lines_and_the_bom():
    buffer = LineBuffer(100)
    buffer.feed(BOM + b"one\r\n\r\n\n  \n\ttwo\r\nth\rree\n" + BOM + b"four\n")
    assert drain(buffer) == [BOM + b"one", b"\ttwo", b"th\rree", BOM + b"four"]


def test_looking_and_dropping():
    buffer = LineBuffer(100)
    assert buffer.first() is None
    buffer.feed(b"a\nb\n")
    assert buffer.first() == b"a" and buffer.first() == b"a"
    buffer.drop()
    assert buffer.first() == b"b" and buffer.next() == b"b"
    assert buffer.first() is None


def test_a_reader_may_append_by_itself():
    buffer = LineBuffer(100)
    buffer.arrived.append(b"a\nb")
    assert buffer.ready and buffer.next() == b"a"
    buffer.arrived.append(b"c\n")
    assert buffer.next() == b"bc"


@pytest.mark.parametrize("line", [b"x", b"x ", b" x", b"x\r", b"\r", b"  ", b"", b"12345", b"12345\r", b"123456", b"\0",
                                  b"{}", b"{12345}", b"{}\r"])
def test_a_line_that_comes_alone_is_as_one_of_many(line):
    alone, many = LineBuffer(5), LineBuffer(5)
    many.feed(b"a\n" + line + b"\nz\n")
    alone.feed(b"a\n")
    assert alone.next() == b"a"
    found = []
    for chunk in (line + b"\n", b"z\n"):
        alone.feed(chunk)
        found += iter(alone.next, None)
    assert [b"a", *found] == list(iter(many.next, None))


def test_the_end_is_an_empty_chunk():
    buffer = LineBuffer(100)
    buffer.feed(b"a\nhalf")
    assert not buffer.ended
    buffer.feed(b"")
    assert buffer.next() == b"a" and buffer.ended
    assert buffer.next() is None and buffer.pending == 4
    buffer.feed(b"\n")
    assert buffer.next() == b"half" and buffer.ended


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_has_a_byte_at_least(limit):
    with pytest.raises(ValueError, match="at least 1"):
        LineBuffer(limit)


@pytest.mark.parametrize("size", [1001, 1002, KEPT_BYTES, KEPT_BYTES + 1, KEPT_BYTES + 2, 2 * KEPT_BYTES - 1,
                                  2 * KEPT_BYTES, 2 * KEPT_BYTES + 1, 40 * KEPT_BYTES])
@pytest.mark.parametrize("piece", [999, 65_536, 1 << 30])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_of_a_line_over_the_limit_both_ends_are_kept(size, piece, end):
    # SEC-60
    line = b"".join(b"%08d" % number for number in range(size // 8 + 1))[:size]
    buffer = LineBuffer(1000)
    data = b"before\n" + line + end + b"behind\n"
    for at in range(0, len(data), piece):
        buffer.feed(data[at:at + piece])
        buffer.ready
    assert drain(buffer) == [b"before", (line[:KEPT_BYTES], line[KEPT_BYTES:][-KEPT_BYTES:], size), b"behind"]
    assert buffer.pending == 0


def test_an_endless_line_uses_bounded_memory():
    # SEC-60: 128 MiB without a line end
    buffer = LineBuffer(1 << 20)
    chunk = b"x" * (1 << 16)
    buffer.feed(b"ok\n")
    assert buffer.next() == b"ok"
    tracemalloc.start()
    try:
        for _ in range(2048):
            buffer.feed(bytes(bytearray(chunk)))
            assert buffer.next() is None
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert buffer.pending == 128 << 20
    buffer.feed(b"\nnext\n")
    assert drain(buffer) == [(chunk, chunk, 128 << 20), b"next"]


def test_a_cut_line_is_no_json_text():
    buffer = LineBuffer(10)
    buffer.feed(b'{"id":1}' + b" " * 100 + b"\n")
    line = buffer.next()
    assert type(line) is CutLine and (line.size, line.limit) == (108, 10)
    with pytest.raises(ValueError):
        json.loads(line)


def test_a_long_line_in_small_pieces_is_joined_once():
    buffer = LineBuffer(1 << 22)
    for _ in range(100_000):
        buffer.feed(b"0123456789")
        assert not buffer.ready
    buffer.feed(b"\n")
    assert buffer.next() == b"0123456789" * 100_000


def test_chunks_that_gather_are_looked_at_once():
    # What takes quadratic time takes 64 times as long for eight times as many chunks.
    def seconds(count):
        buffers = [LineBuffer(1000) for _ in range(3)]
        for buffer in buffers:
            for _ in range(count):
                buffer.feed(b"{}\n" * 50)
        left = iter(buffers)
        best = fastest(lambda: next(left).first(), len(buffers))
        for buffer in buffers:
            assert drain(buffer) == [b"{}"] * (50 * count)
        return best

    assert seconds(2000) < 30 * seconds(250) + 0.05


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b" ", BOM, b"\xef", b"\xbb", b"long" * 4, b'{"a":1}\n',
                                 b"\n\n", b"12345678", b"123456789\n"])),
       st.lists(st.integers(0, 400)), st.integers(1, 12), st.booleans())
def test_any_split_gives_the_same_lines(pieces, cuts, limit, eager):
    data = b"".join(pieces)
    wanted, rest = cut(data, limit)
    buffer = LineBuffer(limit)
    places = sorted({min(place, len(data)) for place in cuts} | {0, len(data)})
    lines = []
    for start, end in zip(places, places[1:]):
        buffer.feed(data[start:end])
        if eager:
            lines += drain(buffer)
    lines += drain(buffer)
    assert lines == wanted
    assert buffer.pending == len(rest)
    buffer.feed(b"\n")
    assert lines + drain(buffer) == cut(data + b"\n", limit)[0]


@pytest.mark.parametrize("limit", [1, 1 << 20, 2 << 20])
def test_a_line_without_an_end_is_noticed(limit):
    lines, chunk = LineBuffer(limit), b"x" * (1 << 20)
    for _ in range(64 * max(1, limit >> 20)):
        lines.feed(chunk)
        lines.first()
    assert not lines.endless
    lines.feed(chunk)
    lines.first()
    assert lines.endless and lines.first() is None
    lines.feed(b"\n")
    assert lines.next().size > 64 << 20 and not lines.endless


LONG = "a" * 300_000
#: What would be an id if a string were not one.
QUOTED = '","id":9},{"id":10,' * 20_000


def seen(text, limit=1000, answers=False):
    """The ids of a text, and whether each is that of an answer."""
    buffer = LineBuffer(limit)
    buffer.feed(text.encode() + b"\n")
    line = buffer.next()
    assert type(line) is CutLine
    found = refuse_unread(line[:-1], line.tail, Invalid(None, -32700, "too long", oversized=True), answers)
    return [(one.id, one.answers) for one in (found.items if type(found) is Batch else [found])]


def request(**members):
    return {"jsonrpc": "2.0", "method": "tools/call", **members}


@pytest.mark.parametrize("message, id", [
    ({"id": 7, **request(params={"a": LONG})}, 7), (request(params={"a": LONG}, id="é\"\\}"), "é\"\\}"),
    (request(id=0, params={"a": LONG}), 0), (request(params=[LONG], id=""), ""), (request(params={"a": LONG}, id=-5), -5),
    (request(params={"id": 8, "a": LONG}), None), (request(params={"a": LONG, "id": 8}), None),
    (request(params={"a": LONG, "x": {"id": 8}}, id=7), 7), (request(params={"a": [{"id": 8}] * 20_000}, id=7), 7),
    (request(params={"id": 8, "a": LONG, "x": [{"id": 9}, {"method": "x", "id": 10}]}), None),
    ({"params": {"a": LONG}, "id": 7, **request()}, 7), (request(params={"a": QUOTED}, id=7), 7),
    (request(params={"a": QUOTED}), None), (request(params={"a": ["\\", LONG, '\\"id":9}']}), None),
    (request(params={"a": LONG, 'b"id': 9}), None), (request(id=None, params={"a": LONG}), None),
    (request(id=True, params={"a": LONG}), None), (request(id=[7], params={"a": LONG}), None),
    (request(id="a" * 300, params={"a": LONG}), None), (request(params={"a": LONG}, **{"x": "id"}), None),
    ({"id": 7, "x": LONG}, 7), ({"x": LONG, "id": 7}, 7), ({"x": LONG}, None), ({"method": LONG, "id": 7}, 7)])
@pytest.mark.parametrize("spaces", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize("limit", [1000, 100_000])
def test_the_id_of_a_request(message, id, spaces, limit):
    for escaped in (True, False):
        assert seen(json.dumps(message, separators=spaces, ensure_ascii=escaped), limit) == [(id, False)]


@pytest.mark.parametrize("message, told", [
    ({"jsonrpc": "2.0", "id": 7, "result": {"a": LONG, "id": 8}}, (7, True)), ({"result": {"a": LONG}, "id": 7}, (7, True)),
    ({"error": {"message": LONG, "id": 8}, "jsonrpc": "2.0", "id": "7"}, ("7", True)), ({"id": 7, "x": LONG}, (7, True)),
    ({"id": 7, "params": {"a": LONG}}, (7, False)), ({"params": LONG, "id": 7, "method": "ping"}, (7, False)),
    ({"method": "notifications/x", "params": {"a": LONG, "id": 8}}, (None, True)),
    ({"params": {"a": LONG, "id": 8}, "method": "notifications/x"}, (None, True)),
    ({"result": {"a": LONG, "id": 8}}, (None, False))])
def test_what_a_message_is(message, told):
    assert seen(json.dumps(message), answers=True) == [told]


def test_the_messages_of_an_array():
    first, last = request(id=1), request(id=3, params={"id": 9})
    assert seen(json.dumps([first, request(params={"a": LONG}, id="2"), last])) == [(1, False), ("2", False), (3, False)]
    assert seen(json.dumps([first, request(id=2, params={"a": LONG}), last])) == [(1, False), (2, False), (3, False)]
    assert seen(json.dumps([request(params={"a": LONG}), last, first])) == [(3, False), (1, False)]
    assert seen(json.dumps([{"id": 1, "result": {"a": LONG}}, {"id": 2, "result": {}}])) == [(1, True), (2, True)]
    assert seen(json.dumps([{"method": "notifications/x", "params": {"a": LONG}}])) == [(None, False)]
    assert seen(json.dumps([first] * 10_000)) == [(1, False)]


@pytest.mark.parametrize("text", [LONG, "7" * 100_000, '"' + LONG + '"', "{" * 100_000, "[" * 100_000,
                                  '{"id":7' + "0" * 100_000,
                                  LONG + ',"id":7}', '[' + LONG, '[{"id":' + LONG, '{"id":"' + LONG, '[' + '{"id":7' * 30_000])
def test_what_is_no_message_shows_no_id(text):
    assert seen(text) == [(None, False)]


def test_a_mark_and_blanks_stand_in_front():
    assert seen("\ufeff \t" + json.dumps(request(id=7, params={"a": LONG}))) == [(7, False)]

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.framing import LineBuffer
from tests.support.cost import fastest

BOM = b"\xef\xbb\xbf"


def drain(buffer):
    lines, oversize = [], 0
    while True:
        line = buffer.next()
        if line is None:
            break
        lines.append(line)
    while buffer.take_oversize():
        oversize += 1
    return lines, oversize


def cut(data, limit):
    """The rules once more, slowly: all lines of *data* and how many were too long."""
    lines, oversize = [], 0
    parts = data.split(b"\n")
    rest = parts.pop()
    for index, part in enumerate(parts):
        if part.endswith(b"\r"):
            part = part[:-1]
        if index == 0 and part.startswith(BOM):
            part = part[len(BOM):]
        if len(part) > limit:
            oversize += 1
        elif part.strip():
            lines.append(part)
    return lines, oversize, rest


def test_lines_come_out_as_they_went_in():
    # STD-25
    buffer = LineBuffer(100)
    buffer.feed(b'{"a":1}\n{"b"')
    assert buffer.ready and buffer.pending == 4
    assert buffer.next() == b'{"a":1}'
    assert buffer.next() is None and not buffer.ready
    buffer.feed(b':2}')
    assert buffer.next() is None and buffer.pending == 7
    buffer.feed(b'\n')
    assert buffer.next() == b'{"b":2}' and buffer.pending == 0


def test_carriage_returns_blank_lines_and_the_bom():
    buffer = LineBuffer(100)
    buffer.feed(BOM + b"one\r\n\r\n\n  \n\ttwo\r\nth\rree\n" + BOM + b"four\n")
    assert drain(buffer) == ([b"one", b"\ttwo", b"th\rree", BOM + b"four"], 0)


def test_a_bom_alone_is_a_blank_line():
    buffer = LineBuffer(100)
    buffer.feed(BOM + b"\r\n" + b"x\n")
    assert drain(buffer) == ([b"x"], 0)


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


def test_a_buffer_says_when_there_is_more_to_look_at_than_lines():
    buffer = LineBuffer(5)
    for chunk, line, noted in ((b"ab", None, False), (b"c\nd", b"abc", False), (b"efghijk", None, True)):
        buffer.feed(chunk)
        assert (buffer.first(), buffer.noted) == (line, noted)
        if line is not None:
            buffer.drop()
    assert buffer.take_oversize() and not buffer.take_oversize() and not buffer.noted
    buffer.feed(b"\n123456\n1234567\nok\n")
    assert buffer.first() == b"ok" and buffer.noted
    assert buffer.take_oversize() and buffer.noted and buffer.take_oversize()
    assert not buffer.take_oversize() and not buffer.noted
    buffer.feed(b"")
    assert buffer.next() == b"ok" and buffer.noted and buffer.ended
    assert not buffer.take_oversize() and buffer.noted and buffer.next() is None


@pytest.mark.parametrize("line", [b"x", b"x ", b" x", b"x\r", b"\r", b"  ", b"", b"12345", b"12345\r", b"123456", b"\0"])
def test_a_line_that_comes_alone_is_as_one_of_many(line):
    alone, many = LineBuffer(5), LineBuffer(5)
    many.feed(b"a\n" + line + b"\nz\n")
    alone.feed(b"a\n")
    assert alone.next() == b"a"
    found = []
    for chunk in (line + b"\n", b"z\n"):
        alone.feed(chunk)
        found += iter(alone.next, None)
    assert ([b"a", *found], alone.oversize) == drain(many)


def test_the_end_is_an_empty_chunk():
    buffer = LineBuffer(100)
    buffer.feed(b"a\nhalf")
    assert not buffer.ended
    buffer.feed(b"")
    assert buffer.ended and buffer.next() == b"a"
    assert buffer.next() is None and buffer.pending == 4
    buffer.feed(b"\n")
    assert buffer.next() == b"half" and buffer.ended


def test_the_limit_is_exact():
    for end in (b"\n", b"\r\n"):
        for start in (b"", b"x\n"):
            buffer = LineBuffer(10)
            buffer.feed(start + b"a" * 10 + end + b"b" * 11 + end + b"c" * 10 + end)
            lines, oversize = drain(buffer)
            assert (lines[-2:], oversize) == ([b"a" * 10, b"c" * 10], 1)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_has_a_byte_at_least(limit):
    with pytest.raises(ValueError, match="at least 1"):
        LineBuffer(limit)


def test_a_long_line_is_told_once_and_before_it_ends():
    # SEC-60: an endless line never ends
    buffer = LineBuffer(1000)
    buffer.feed(b"ok\n")
    for _ in range(50):
        buffer.feed(b"x" * 100)
    assert not buffer.oversize or buffer.oversize == 1
    assert buffer.next() == b"ok" and buffer.next() is None
    assert buffer.oversize == 1
    assert buffer.take_oversize() and not buffer.take_oversize()
    buffer.feed(b"x" * 5000 + b"\nfine\n")
    assert drain(buffer) == ([b"fine"], 0)


def test_an_endless_line_uses_bounded_memory():
    # SEC-60: 128 MiB without a line end
    buffer = LineBuffer(1 << 20)
    chunk = b"x" * (1 << 16)
    tracemalloc.start()
    try:
        for _ in range(2048):
            buffer.feed(bytes(bytearray(chunk)))
            assert buffer.next() is None
            assert buffer.pending <= (1 << 27) + 1
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert buffer.take_oversize() and not buffer.take_oversize()
    buffer.feed(b"\nnext\n")
    assert drain(buffer) == ([b"next"], 0)


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
            lines, oversize = drain(buffer)
            assert (len(lines), oversize) == (50 * count, 0) and lines[0] == b"{}"
        return best

    assert seconds(2000) < 30 * seconds(250) + 0.05


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b" ", BOM, b"\xef", b"\xbb", b"long" * 4, b'{"a":1}\n',
                                 b"\n\n", b"12345678", b"123456789\n"])),
       st.lists(st.integers(0, 400)), st.integers(1, 12), st.booleans())
def test_any_split_gives_the_same_lines(pieces, cuts, limit, eager):
    data = b"".join(pieces)
    wanted, oversize, rest = cut(data, limit)
    buffer = LineBuffer(limit)
    places = sorted({min(place, len(data)) for place in cuts} | {0, len(data)})
    lines, seen = [], 0
    for start, end in zip(places, places[1:]):
        buffer.feed(data[start:end])
        if eager:
            more, told = drain(buffer)
            lines += more
            seen += told
    more, told = drain(buffer)
    assert lines + more == wanted
    # The rest has no end yet, and is told of only once it is certain that it is too long.
    assert oversize <= seen + told <= oversize + (len(rest) > limit + 1)
    assert buffer.pending <= len(rest)
    buffer.feed(b"\n")
    whole_lines, whole_oversize, _ = cut(data + b"\n", limit)
    more_again, told_again = drain(buffer)
    assert lines + more + more_again == whole_lines
    assert seen + told + told_again == whole_oversize


@given(st.binary(max_size=200), st.integers(1, 50))
def test_byte_by_byte(data, limit):
    wanted, oversize, _ = cut(data + b"\n", limit)
    buffer = LineBuffer(limit)
    for index in range(len(data)):
        buffer.feed(data[index:index + 1])
        buffer.ready
    buffer.feed(b"\n")
    assert drain(buffer) == (wanted, oversize)

"""Reading one response from a socket: heads, bodies, and whether the connection is good for another one."""

import socket
import threading

import pytest

from mcplite.net.exchange import Exchange, ResponseReader, Stopped, receive, send_whole
from mcplite.protocol.http.http1 import BadResponse

LIMIT = 30
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def reader_of(pair, *pieces, end=True, method="POST"):
    ours, theirs = pair
    for piece in pieces:
        theirs.sendall(piece)
    if end:
        theirs.shutdown(socket.SHUT_WR)
    return ResponseReader(ours, Exchange(lambda: float(LIMIT)), method)


def whole(reader):
    pieces = []
    while True:
        data = reader.read1()
        if not data:
            return b"".join(pieces)
        pieces.append(data)


@pytest.mark.parametrize("data, body, reusable", [
    (b"Content-Length: 5\r\n\r\nhello", b"hello", True),
    (b"Content-Length: 5\r\n\r\nhelloHTTP/1.1", b"hello", False),
    (b"Content-Length: 0\r\n\r\n", b"", True),
    (b"Content-Length: 0\r\n\r\nx", b"", False),
    (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello", True),
    (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nSum: 1\r\n\r\n", b"hello", True),
    (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nx", b"hello", False),
    (b"\r\nhello", b"hello", False),
    (b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
])
@pytest.mark.parametrize("cut", [1000, 1, 7])
def test_bodies(pair, data, body, reusable, cut):
    reader = reader_of(pair, *[(OK + data)[at:at + cut] for at in range(0, len(OK + data), cut)])
    assert reader.begin().status == 200
    assert not reader.over or not body
    assert whole(reader) == body and reader.read1() == b"" and reader.over
    assert reader.reusable is reusable and not reader.length


def test_a_body_that_is_not_over_is_not_reusable(pair):
    reader = reader_of(pair, OK + b"Content-Length: 5\r\n\r\nhell")
    reader.begin()
    assert whole(reader) == b"hell" and reader.length == 1 and not reader.over and not reader.reusable


@pytest.mark.parametrize("data, text", [
    (b"", "without a response"), (b"HTTP/1.1 200 OK\r\nA: b\r\n", "in the middle of the headers"),
    (b"HTTP/1.1 100 Continue\r\n\r\n", "without a response"), (b"SSH-2.0\r\n\r\n", "malformed status line"),
    (b"HTTP/1.1 102 P\r\n\r\n" * 21, "more than 20 interim")])
def test_heads_that_are_none(pair, data, text):
    with pytest.raises(BadResponse, match=text):
        reader_of(pair, data).begin()


def test_interim_responses_are_skipped(pair):
    hints = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n"
    reader = reader_of(pair, hints * 20 + OK + b"Content-Length: 2\r\n\r\nhi")
    assert reader.begin().status == 200 and whole(reader) == b"hi" and reader.reusable


@pytest.mark.parametrize("data, text", [(b"5\r\nhel", "middle of a chunked body"), (b"zz\r\n", "malformed chunk size"),
                                        (b"2\r\nhello\r\n", "longer than its size"),
                                        (b"0\r\nbad\r\n\r\n", "malformed trailer")])
def test_malformed_chunks(pair, data, text):
    reader = reader_of(pair, OK + b"Transfer-Encoding: chunked\r\n\r\n" + data)
    reader.begin()
    with pytest.raises(BadResponse, match=text):
        whole(reader)
    assert not reader.reusable


@pytest.mark.parametrize("block", [receive, lambda sock, exchange: send_whole(sock, exchange, b"x" * (64 << 20))],
                         ids=["read", "write"])
def test_each_read_and_write_asks_how_long_it_may_block(pair, block):
    asked = []

    def next_timeout():
        asked.append(1)
        if len(asked) > 3:
            raise Stopped
        return 0.01

    with pytest.raises(Stopped):
        block(pair[0], Exchange(next_timeout))
    assert len(asked) == 4


@pytest.mark.parametrize("head, size", [(5_120_000, 0), (300, 5_120_000), (300, 65_536), (300, 65_537), (300, 1)])
def test_a_large_body_is_sent_in_pieces(pair, head, size):
    data, got = (bytes(range(251)) * 20_400)[:head + size], []
    assert len(data) == head + size

    def read():
        while sum(map(len, got)) < len(data):
            got.append(pair[1].recv(65_536))

    thread = threading.Thread(target=read)
    thread.start()
    send_whole(pair[0], Exchange(lambda: float(LIMIT)), data[:head], data[head:])
    thread.join(LIMIT)
    assert b"".join(got) == data

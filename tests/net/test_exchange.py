"""Reading one response from a socket: heads, bodies, and whether the connection is good for another one."""

import socket
import threading

import pytest

from mcplite.errors import TransportError
from mcplite.net.connection_pool import DirectReply, read_head, receive, send_whole
from mcplite.net.exchange import Exchange, Stopped
from mcplite.protocol.http.http1 import BadResponse

LIMIT = 30
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Connection:
    """Stands for a connection and for the pool that it comes from; ``kept`` says whether it is good for another request."""

    def __init__(self, sock):
        self.sock, self.kept = sock, False

    def put_back(self, connection):
        self.kept = True


def reply_of(pair, *pieces):
    ours, theirs = pair
    for piece in pieces:
        theirs.sendall(piece)
    theirs.shutdown(socket.SHUT_WR)
    exchange, connection = Exchange(lambda: float(LIMIT)), Connection(ours)
    return DirectReply(connection, connection, *read_head(ours, exchange, "POST"), exchange, "http://here/"), connection


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
    reply, connection = reply_of(pair, *[(OK + data)[at:at + cut] for at in range(0, len(OK + data), cut)])
    assert reply.status == 200 and not connection.kept
    assert reply.read(100) == body and reply.read1() == b"" and connection.kept is reusable


@pytest.mark.parametrize("data, text", [
    (b"", "without a response"), (b"HTTP/1.1 200 OK\r\nA: b\r\n", "in the middle of the headers"),
    (b"HTTP/1.1 100 Continue\r\n\r\n", "without a response"), (b"SSH-2.0\r\n\r\n", "malformed status line"),
    (b"HTTP/1.1 102 P\r\n\r\n" * 21, "more than 20 interim")])
def test_heads_that_are_none(pair, data, text):
    with pytest.raises(BadResponse, match=text):
        reply_of(pair, data)


def test_interim_responses_are_skipped(pair):
    hints = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n"
    reply, connection = reply_of(pair, hints * 20 + OK + b"Content-Length: 2\r\n\r\nhi")
    assert reply.status == 200 and reply.read(100) == b"hi" and connection.kept


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("data, text", [
    (b"Content-Length: 5\r\n\r\nhell", "1 bytes are missing"), (CHUNKED + b"5\r\nhel", "middle of a chunked body"),
    (CHUNKED + b"zz\r\n", "malformed chunk size"), (CHUNKED + b"2\r\nhello\r\n", "longer than its size"),
    (CHUNKED + b"0\r\nbad\r\n\r\n", "malformed trailer")])
def test_malformed_bodies(pair, data, text):
    reply, connection = reply_of(pair, OK + data)
    with pytest.raises(TransportError, match=text):
        reply.read(100)
    assert not connection.kept and connection.sock.fileno() < 0


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


def test_a_socket_that_is_none_of_the_internet_has_no_address(pair):
    exchange = Exchange(lambda: 1.0)
    exchange.records_address = True
    exchange.attach(pair[0])  # a Unix socket without a name
    assert exchange.address is None

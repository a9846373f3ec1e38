"""Bodies off a socket: their length, their time, and what is left in the buffer behind them."""

import socket
import threading

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.http1 import RequestHead
from mcplite.server.http.messages import UnreadableBody
from mcplite.server.transports import request_body
from mcplite.server.transports.client_socket import ClientSocket
from mcplite.server.transports.request_body import RequestBody

LIMIT = 1000


@pytest.fixture
def ends():
    """The server's and the client's end of a connection."""
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(30)
        yield here, there


def body_of(sock, plan, *, buffered=b"", version=(1, 1), headers=(), **limits):
    client = ClientSocket(sock, "a test", 30)
    client.buffer += buffered
    head = RequestHead("POST", "/", version, Headers(headers))
    return RequestBody(client, head, plan, mcplite.Limits(**limits)), client


@pytest.mark.parametrize("buffered, sent", [(b"hello", b""), (b"hel", b"lo"), (b"", b"hello")])
def test_a_body_of_known_length(ends, buffered, sent):
    ends[1].sendall(sent)
    body, client = body_of(ends[0], 5, buffered=buffered)
    assert body.unread and body.read(LIMIT) == b"hello"
    assert not body.unread and client.buffer == b""


def test_the_next_request_stays_in_the_buffer(ends):
    body, client = body_of(ends[0], 5, buffered=b"helloPOST /")
    assert body.read(LIMIT) == b"hello" and client.buffer == b"POST /"
    chunked, client = body_of(ends[0], None, buffered=b"5\r\nhello\r\n0\r\n\r\nPOST /")
    assert chunked.read(LIMIT) == b"hello" and client.buffer == b"POST /"


def test_no_body_is_read_at_once(ends):
    body, _ = body_of(ends[0], 0)
    assert not body.unread and body.read(LIMIT) == b""


@pytest.mark.parametrize("plan, sent, status", [
    (LIMIT + 1, b"", 413), (None, b"3e9\r\n" + b"x" * 1001, 413),
    (None, b"no chunk\r\n", 400), (10, b"short", 400), (None, b"5\r\nshor", 400),
])
def test_a_body_that_cannot_be_read(ends, plan, sent, status):
    ends[1].sendall(sent)
    ends[1].shutdown(socket.SHUT_WR)
    body, _ = body_of(ends[0], plan)
    with pytest.raises(UnreadableBody) as caught:
        body.read(LIMIT)
    assert caught.value.status == status and body.unread


def test_a_body_has_a_time_limit(ends):
    body, _ = body_of(ends[0], 5, body_seconds=0.05)
    with pytest.raises(UnreadableBody) as caught:
        body.read(LIMIT)
    assert caught.value.status == 408


def test_a_body_has_a_minimal_rate(ends, monkeypatch):
    monkeypatch.setattr(request_body, "_RATE_AFTER_SECONDS", 0.05)
    ends[1].sendall(b"x")
    body, _ = body_of(ends[0], 900, body_rate=100_000)
    with pytest.raises(UnreadableBody) as caught:
        body.read(LIMIT)
    assert caught.value.status == 408


@pytest.mark.parametrize("version, headers, buffered, asked", [
    ((1, 1), [("Expect", "100-Continue")], b"", True), ((1, 1), [], b"", False),
    ((1, 0), [("Expect", "100-continue")], b"", False), ((1, 1), [("Expect", "100-continue")], b"h", False),
])
def test_a_client_that_waits_for_permission_gets_it(ends, version, headers, buffered, asked):
    body, _ = body_of(ends[0], 5, version=version, headers=headers, buffered=buffered)

    def send():
        if asked:
            assert ends[1].recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        ends[1].sendall(b"hello"[len(buffered):])

    sending = threading.Thread(target=send)
    sending.start()
    assert body.read(LIMIT) == b"hello"
    sending.join(30)
    ends[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        ends[1].recv(100)

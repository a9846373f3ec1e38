"""The client socket: blocking and non-blocking, and what happens before it blocks."""

import socket
import threading

import pytest

from mcplite.server.transports.client_socket import ClientGone, ClientSocket
from tests.support.children import LIMIT, wait_until


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(LIMIT)
    client = ClientSocket(ours, "the test", 0.2)
    with ours, theirs:
        yield client, theirs


def test_before_blocking_is_called_first(pair):
    client, theirs = pair
    steps = []
    client.may_block, client._before_blocking = False, lambda: steps.append("down")
    theirs.sendall(b"here")
    assert client.recv(10, LIMIT) == b"here" and not steps and not client.may_block
    client.send_all(b"answer")
    assert theirs.recv(10) == b"answer" and not steps
    threading.Timer(0.05, theirs.sendall, [b"later"]).start()
    assert client.recv(10, LIMIT) == b"later"
    assert steps == ["down"] and client.may_block


def test_before_blocking_is_called_when_the_send_buffer_is_full(pair):
    client, theirs = pair
    steps, data = [], b"x" * (8 << 20)
    client._write_seconds = LIMIT
    client.may_block, client._before_blocking = False, lambda: steps.append("down")
    sender = threading.Thread(target=client.send_all, args=(data,))
    sender.start()
    assert wait_until(lambda: steps)  # a client that reads at once may leave room all the time
    left = len(data)
    while left:
        left -= len(theirs.recv(1 << 20))
    sender.join(LIMIT)
    assert steps == ["down"] and not sender.is_alive()


@pytest.mark.parametrize("tail", [b"", b"the end"])
@pytest.mark.parametrize("size", [0, 1, 131_072, 131_073, 3 << 20])
def test_three_parts_arrive_as_one(pair, size, tail):
    client, theirs = pair
    client._write_seconds = LIMIT
    client.may_block = False
    body = bytes(range(251)) * (size // 251) + b"x" * (size % 251)
    sender = threading.Thread(target=client.send_parts, args=(b"the head", body, tail))
    sender.start()
    got = bytearray()
    while len(got) < 8 + len(body) + len(tail):
        got += theirs.recv(1 << 20)
    sender.join(LIMIT)
    assert got == b"the head" + body + tail


@pytest.mark.parametrize("may_block", [True, False])
def test_a_client_that_takes_nothing_is_given_up(pair, may_block):
    client, _ = pair
    client.may_block = may_block
    with pytest.raises(ClientGone, match="took no byte"):
        client.send_all(b"x" * (8 << 20))


def test_receiving_times_out(pair):
    client, _ = pair
    with pytest.raises(socket.timeout):
        client.recv(1, 0.05)


class Sleeper:
    """A socket whose recv() is not ended by a shutdown(), as on Windows."""

    def __init__(self, sock):
        self._sock = sock

    def shutdown(self, how):
        if how != socket.SHUT_RD:
            self._sock.shutdown(socket.SHUT_WR)

    def __getattr__(self, name):
        return getattr(self._sock, name)


@pytest.mark.parametrize("how, ends", [(socket.SHUT_RD, True), (socket.SHUT_RDWR, True), (socket.SHUT_WR, False)])
def test_a_read_that_a_shutdown_does_not_end_ends_with_its_timeout(pair, how, ends):
    client, theirs = pair
    client.sock = Sleeper(client.sock)
    client.shut(how)
    if ends:
        assert client.recv(1, 0.05) == b""
        theirs.sendall(b"x")
        assert client.recv(1, LIMIT) == b"x", "what has come is not lost"
    else:
        with pytest.raises(socket.timeout):
            client.recv(1, 0.05)


def test_a_disconnect_is_seen_unless_data_is_pending(pair):
    client, theirs = pair
    assert not client.disconnected()
    theirs.sendall(b"next")
    assert not client.disconnected()
    client.receive_pending(10)
    assert client.buffer == b"next"
    theirs.close()
    assert not client.disconnected()  # the pending request hides what follows
    client.buffer.clear()
    assert client.disconnected()
    client.close()
    assert client.disconnected()
    client.receive_pending(10)
    client.shut(socket.SHUT_RDWR)


def test_input_that_was_not_read_is_seen(pair):
    client, theirs = pair
    assert not client.has_input()
    theirs.sendall(b"request")
    assert client.has_input()
    client.recv(100, LIMIT)
    assert not client.has_input()
    client.close()
    assert not client.has_input()

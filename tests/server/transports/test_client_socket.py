"""The client socket: blocking and non-blocking, and what happens before it blocks."""

import socket
import threading

import pytest

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.http1 import RequestHead
from mcplite.server.http.messages import UnreadableBody
from mcplite.server.transports import client_socket
from mcplite.server.transports.client_socket import BodyBudget, ClientSocket, RequestBody, parts_of
from tests.support.children import LIMIT, wait_until
from tests.support.tight import tight


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(LIMIT)
    client = ClientSocket(ours, "the test", 0.2)
    with ours, theirs:
        yield client, theirs


@pytest.mark.parametrize("tail", [b"", b"the end"])
@pytest.mark.parametrize("size", [0, 1, 131_072, 131_073, 3 << 20])
def test_three_parts_arrive_as_one(pair, size, tail):
    client, theirs = pair
    client._write_seconds = LIMIT
    client.may_block = False
    body = bytes(range(251)) * (size // 251) + b"x" * (size % 251)
    parts = parts_of(b"the head", body, tail)
    sender = threading.Thread(target=lambda: list(map(client.send_all, parts)))
    sender.start()
    got = bytearray()
    while len(got) < 8 + len(body) + len(tail):
        got += theirs.recv(1 << 20)
    sender.join(LIMIT)
    assert got == b"the head" + body + tail


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


# --- bodies off a socket: their length, their time, and what is left in the buffer behind them ----


MOST = 1000


@pytest.fixture
def ends():
    """The server's and the client's end of a connection."""
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(30)
        yield here, there


def body_of(sock, plan, *, buffered=b"", version=(1, 1), headers=(), budget=None, sender="a test", **limits):
    client = ClientSocket(sock, "a test", 30)
    client.buffer += buffered
    head = RequestHead("POST", "/", version, Headers(headers))
    bounds = tight(**limits)
    return RequestBody(client, head, plan, bounds, budget or BodyBudget(bounds), sender), client


def read_in_thread(body, limit):
    """Begin to read a body; return a function that waits for the end, and returns the body or the error."""
    found = []

    def read():
        try:
            found.append(body.read(limit))
        except UnreadableBody as error:
            found.append(error)

    thread = threading.Thread(target=read)
    thread.start()

    def result():
        thread.join(30)
        assert not thread.is_alive()
        return found[0]

    return result


@pytest.mark.parametrize("plan", [60_000, None])
def test_unfinished_bodies_have_a_budget(ends, plan):
    budget = BodyBudget(tight(body_bytes_at_once=100_000))
    first, _ = body_of(ends[0], plan, budget=budget, sender="one")
    here, there = socket.socketpair()
    with here, there:
        second, _ = body_of(here, 60_000, budget=budget, sender="one")
        ends[1].sendall(b"ea60\r\n" * (plan is None) + b"x" * 50_000)
        one = read_in_thread(first, 60_000)
        assert wait_until(lambda: budget.shares.bytes == 50_000)
        there.sendall(b"x" * 59_000)
        two = read_in_thread(second, 60_000)
        refused = one()
        assert refused.status == 503 and "too large" in str(refused) and first.unread
        assert wait_until(lambda: budget.shares.bytes == 59_000)
        there.sendall(b"x" * 1000)
        refused = two()  # decoded it takes twice as much
        assert refused.status == 503 and budget.shares.bytes == 0
    for body in (first, second):
        body.close()


def test_a_body_counts_until_its_request_was_answered(ends):
    budget = BodyBudget(tight(body_bytes_at_once=30_000))
    body, _ = body_of(ends[0], 10_000, buffered=b"x" * 10_000, budget=budget)
    assert body.read(10_000) == b"x" * 10_000 and budget.shares.bytes == 20_000
    here, there = socket.socketpair()
    with here, there:
        other, _ = body_of(here, 10_000, buffered=b"x" * 10_000, budget=budget, sender="a test")
        with pytest.raises(UnreadableBody) as caught:
            other.read(10_000)
        assert caught.value.status == 503 and ends[0].fileno() >= 0
        body.close()
        again, _ = body_of(here, 10_000, buffered=b"x" * 10_000, budget=budget, sender="a test")
        assert again.read(10_000) and not again.unread
        again.close()
    assert budget.shares.bytes == 0


def test_small_bodies_that_arrive_whole_count_to_no_budget(ends):
    body, _ = body_of(ends[0], 4096, buffered=b"x" * 4096, body_bytes_at_once=1)
    assert body.read(MOST * 5) == b"x" * 4096
    body, _ = body_of(ends[0], 4097, buffered=b"x" * 4097, body_bytes_at_once=1)
    with pytest.raises(UnreadableBody):
        body.read(MOST * 5)


def test_many_small_values_count_as_what_they_are_decoded_to(ends):
    budget = BodyBudget(mcplite.Limits())
    body, _ = body_of(ends[0], 5000, buffered=b"[1," + b"[]," * 1665 + b"1]", budget=budget)
    assert body.read(5000) and budget.shares.bytes > 5000 * 2 + 64 * 3000
    body.close()


def test_room_for_an_answer_is_taken_from_the_oldest_one_after_a_moment(ends, monkeypatch):
    monkeypatch.setattr(client_socket, "_ROOM_SECONDS", 0.02)
    budget = BodyBudget(tight(body_bytes_at_once=100))
    first, other = socket.socketpair()
    with first, other:
        old, _ = body_of(first, 0, budget=budget, body_bytes_at_once=100)
        new, _ = body_of(ends[0], 0, budget=budget, body_bytes_at_once=100)
        assert old.reserve(60) and budget.shares.bytes == 60
        assert new.reserve(1000), "one answer alone may be larger than the budget"
        assert budget.shares.items() == [new.planned] and budget.shares.bytes == 100
        other.settimeout(30)
        assert other.recv(1) == b"", "the client of the older answer is cut off"
        new.over = True
        new.close()
        assert len(budget.shares) == 0


def test_an_answer_waits_for_one_that_is_read(ends, monkeypatch):
    monkeypatch.setattr(client_socket, "_ROOM_SECONDS", 60)
    budget = BodyBudget(tight(body_bytes_at_once=100))
    old, _ = body_of(ends[1], 0, budget=budget, body_bytes_at_once=100)
    new, _ = body_of(ends[0], 0, budget=budget, body_bytes_at_once=100)
    assert old.reserve(60)
    reserved = []
    thread = threading.Thread(target=lambda: reserved.append(new.reserve(60)))
    thread.start()
    old.close()
    thread.join(30)
    assert reserved == [True] and budget.shares.items() == [new.planned]
    ends[0].sendall(b"x")
    assert ends[1].recv(1) == b"x", "no client was cut off"


def test_there_is_no_room_beside_bodies_that_are_served(ends, monkeypatch):
    monkeypatch.setattr(client_socket, "_ROOM_SECONDS", 0.02)
    budget = BodyBudget(tight(body_bytes_at_once=100_000))
    served, _ = body_of(ends[1], 40_000, buffered=b"x" * 40_000, budget=budget, body_bytes_at_once=100_000)
    served.read(50_000)
    new, _ = body_of(ends[0], 0, budget=budget, body_bytes_at_once=100_000)
    assert not new.reserve(60_000) and len(budget.shares) == 1


def test_an_answer_whose_client_has_left_counts_to_nothing(ends):
    budget = BodyBudget(mcplite.Limits())
    body, _ = body_of(ends[0], 0, budget=budget)
    body.over = True
    body.close()
    body.reserve(60)
    assert len(budget.shares) == 0


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

"""More connections of one client than are served at once: none of its requests is lost, and none of another client waits."""

import contextlib
import select
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import mcplite
from mcplite.server import Limits, Server
from mcplite.server.transports import connection as connection_module, httpd
from mcplite.server.transports.client_socket import BodyBudget, ClientSocket
from mcplite.server.transports.connection import Connection
from mcplite.server.transports.httpd import most_connections
from tests.support.children import wait_until
from tests.support.rawhttp import LIMIT, Wire, begin, call, initialize, listen, post
from tests.support.systems import posix_only
from tests.support.tight import tight

PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has all of 127.0.0.0/8")


@pytest.fixture
def served():
    """``served(bounds...)``: a server with tools that take long; gives it, and the event that lets ``held`` end."""
    with contextlib.ExitStack() as stack:
        def served(**bounds):
            server, go = Server("crowded", limits=tight(**{"grace": 5.0, **bounds})), threading.Event()

            @server.tool()
            def slow(seconds: float) -> str:
                time.sleep(seconds)
                return "slow"

            @server.tool()
            def held() -> str:
                assert go.wait(LIMIT)
                return "held"

            made = stack.enter_context(mcplite.serve(server))
            stack.callback(go.set)
            return made, go

        yield served


def occupied(made, stack, count, tool="held"):
    """Return connections, each with a call in progress, in one session."""
    with Wire(made.port) as control:
        session = begin(control)
    wires = [stack.enter_context(Wire(made.port)).send(post(call(tool, id=number), session)) for number in range(count)]
    assert wait_until(lambda: sum(connection.busy for connection in made._open_connections()) == count)
    return wires, session


@pytest.mark.slow
def test_no_request_of_a_client_with_too_many_connections_is_lost(served):
    made, _ = served(connections=4, running=64)
    with contextlib.ExitStack() as stack:
        with Wire(made.port) as control:
            session = begin(control)
        wires = [stack.enter_context(Wire(made.port)) for _ in range(40)]
        for number, wire in enumerate(wires):
            wire.send(post(call("slow", id=number, seconds=0.05), session))
        replies = [wire.reply() for wire in wires]
        assert [(reply.status, reply.json["id"]) for reply in replies] == [(200, number) for number in range(40)]
    assert wait_until(lambda: len(made._connections) == 0)


def test_a_connection_ends_with_its_response_while_others_of_its_client_wait(served):
    made, go = served(connections=2)
    with contextlib.ExitStack() as stack:
        wires, session = occupied(made, stack, 2)
        late = stack.enter_context(Wire(made.port)).send(post(PING, session))
        assert wait_until(lambda: made.crowded)
        go.set()
        assert wires[0].reply().headers["connection"] == "close"
        assert late.reply().status == 200
        with Wire(made.port) as wire:
            assert "connection" not in wire.post(PING, session).headers


def test_a_connection_whose_request_is_on_its_way_makes_no_room_for_its_own_client(served):
    made, _ = served(connections=3)
    data = post(initialize())
    head, body = data[:data.index(b"\r\n\r\n") + 4], data[data.index(b"\r\n\r\n") + 4:]
    with contextlib.ExitStack() as stack:
        silent, started, headed = (stack.enter_context(Wire(made.port)) for _ in range(3))
        started.send(head[:20])
        headed.send(head)
        # Both heads were read. The poller waits for the body, or on a busy machine a thread does.
        assert wait_until(lambda: [connection.has_input for connection in made._open_connections()] == [False] * 3)
        late = stack.enter_context(Wire(made.port)).send(data)
        assert wait_until(lambda: len(made._waiting) == 1)
        silent.send(data)
        started.send(head[20:] + body)
        headed.send(body)
        assert [wire.reply().status for wire in (silent, started, headed, late)] == [200] * 4


@linux
def test_another_client_does_not_wait_behind_those_that_do(served):
    made, go = served(connections=4, queue_seconds=LIMIT)
    with contextlib.ExitStack() as stack:
        wires, session = occupied(made, stack, 4)
        late = [stack.enter_context(Wire(made.port)).send(post(PING, session)) for _ in range(3)]
        assert wait_until(lambda: len(made._waiting) == 3)
        with Wire(made.port, source="127.0.0.2") as other:
            begin(other)
            # While that connection lasts: its place is free for one that waits when it ends.
            assert wires[0].ended() and not select.select([wire.sock for wire in late], [], [], 0)[0]
        go.set()
        assert [wire.reply().status for wire in [*wires[1:], *late]] == [200] * 6


def test_a_client_that_has_sent_something_does_not_wait_behind_silent_ones(served):
    made, go = served(connections=2)
    with contextlib.ExitStack() as stack:
        _, session = occupied(made, stack, 2)
        silent = stack.enter_context(Wire(made.port))
        late = stack.enter_context(Wire(made.port)).send(post(PING, session))
        assert wait_until(lambda: len(made._waiting) == 2)
        go.set()
        assert late.reply().status == 200
        assert silent.post(PING, session).status == 200


@pytest.mark.slow
def test_a_crowd_that_connects_before_it_sends_is_served_whole(served, monkeypatch):
    monkeypatch.setattr(connection_module, "_OWED_SECONDS", 0.01)
    made, _ = served(connections=4)
    with contextlib.ExitStack() as stack:
        crowd = []
        for number in range(12):
            crowd.append(stack.enter_context(Wire(made.port)))
            assert wait_until(lambda: len(made._open_connections()) == number + 1)
        for wire in crowd:
            wire.send(post(initialize()))
        assert [wire.reply().status for wire in crowd] == [200] * 12


def test_a_silent_connection_makes_room_for_one_that_has_sent_something(served, monkeypatch):
    monkeypatch.setattr(connection_module, "_OWED_SECONDS", 0.01)
    made, _ = served(connections=2)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Wire(made.port)) for _ in range(2)]
        assert wait_until(lambda: len(made._open_connections()) == 2)
        with Wire(made.port) as wire:
            begin(wire)
        assert silent[0].ended()


@pytest.mark.slow
def test_what_waits_for_too_long_is_refused(served):
    made, go = served(connections=2, queue_seconds=0.2)
    with contextlib.ExitStack() as stack:
        wires, session = occupied(made, stack, 2)
        reply = stack.enter_context(Wire(made.port)).send(post(PING, session)).reply()
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        go.set()
        assert [wire.reply().status for wire in wires] == [200, 200]


def test_what_waits_is_refused_when_the_server_stops(served):
    made, go = served(connections=2)
    with contextlib.ExitStack() as stack:
        wires, session = occupied(made, stack, 2)
        late = stack.enter_context(Wire(made.port)).send(post(PING, session))
        assert wait_until(lambda: len(made._waiting) == 1)
        go.set()
        made.close()
        assert late.reply().status in (200, 503)  # the calls may end first
        assert [wire.reply().status for wire in wires] == [200, 200]


def test_a_stream_makes_room_only_for_one_that_has_waited(served, monkeypatch):
    monkeypatch.setattr(connection_module, "_OWED_SECONDS", 0.5)
    made, _ = served(connections=2)
    with Wire(made.port) as control:
        sessions = [begin(control) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(listen(made.port, session)) for session in sessions]
        late = stack.enter_context(Wire(made.port)).send(post(PING, sessions[0]))
        assert wait_until(lambda: len(made._waiting) == 1)
        assert late.reply().status == 200
        streams[0].rest()  # which ends


def test_large_heads_that_do_not_arrive_whole_have_a_budget(served):
    made, _ = served(head_bytes_at_once=50_000)
    part = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"x" * 7000 + b"\r\n"
    with contextlib.ExitStack() as stack:
        small = stack.enter_context(Wire(made.port)).send(b"GET /m")
        slow = []
        for _ in range(5):  # one after another: the server reads in any order what arrives together
            slow.append(stack.enter_context(Wire(made.port)).send(part))
            port = slow[-1].sock.getsockname()[1]
            assert wait_until(lambda: port in [connection.client_address[1] for connection in made.budget.heads.items()])
        assert slow[0].ended() and slow[1].ended()
        assert made.budget.heads.bytes <= 50_000
        with Wire(made.port) as wire:
            begin(wire)
        assert small.send(b"cp HTTP/1.1\r\nHost: localhost\r\n\r\n").reply().status == 400
        slow[4].send(b"Content-Length: 2\r\n\r\n{}")
        assert slow[4].reply().status == 415
    assert wait_until(lambda: made.budget.heads.bytes == 0)


def test_a_head_larger_than_the_budget_is_refused(served):
    made, _ = served(head_bytes_at_once=5000)
    with Wire(made.port) as wire:
        assert wire.send(b"GET /mcp HTTP/1.1\r\nX-A: " + b"x" * 7000).reply().status == 503


def test_of_those_that_wait_the_oldest_gives_up_its_place(served, monkeypatch):
    monkeypatch.setattr(httpd, "_MOST_WAITING", 2)
    made, go = served(connections=1)
    with contextlib.ExitStack() as stack:
        _, session = occupied(made, stack, 1)
        late = []
        for _ in range(3):
            late.append(stack.enter_context(Wire(made.port)).send(post(PING, session)))
            assert wait_until(lambda: len(made._open_connections()) == min(1 + len(late), 3))
        assert late[0].reply().status == 503
        go.set()
        assert [wire.reply().status for wire in late[1:]] == [200, 200]


@posix_only
def test_a_process_that_may_open_few_files_serves_fewer_connections(monkeypatch):
    import resource

    limits = Limits(connections=500)
    for descriptors, found in ((resource.RLIM_INFINITY, (500, 1024)), (100_000, (500, 1024)), (1024, (500, 256)),
                               (256, (128, 64)), (1, (1, 1))):
        monkeypatch.setattr(resource, "getrlimit", lambda which, soft=descriptors: (soft, soft))
        assert most_connections(limits) == found
    monkeypatch.setattr(httpd.sys, "platform", "win32")
    assert most_connections(Limits(connections=600))[0] == 500


def test_the_time_that_a_connection_waited_does_not_count_as_its_clients(monkeypatch):
    monkeypatch.setattr(connection_module, "_OWED_SECONDS", 0.5)
    ours, theirs = socket.socketpair()
    limits = Limits()
    made = Connection(ours, ("192.0.2.1", 1), SimpleNamespace(
        limits=limits, budget=BodyBudget(limits), client_socket=ClientSocket))
    with theirs, contextlib.closing(made):
        assert wait_until(lambda: made.owed_for_long) and not made.due(parked=False)
        made.admit()
        assert made.due(parked=False)


def test_finish_is_called_for_a_connection_that_is_refused():
    finished = threading.Semaphore(0)

    class Counting(Connection):
        def finish(self):
            finished.release()

    server = Server("counted", limits=tight(connections=1))
    with contextlib.ExitStack() as stack:
        with mcplite.serve(server, handler=Counting) as made:
            for _ in range(3):
                stack.enter_context(socket.create_connection(("127.0.0.1", made.port)))
            assert wait_until(lambda: len(made._open_connections()) == 3 and len(made._waiting) == 2)
        for _ in range(3):
            assert finished.acquire(timeout=LIMIT)
        assert not finished.acquire(blocking=False)

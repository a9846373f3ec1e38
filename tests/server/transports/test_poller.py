"""Which thread serves which connection: the leader, its successors, and threads for one connection."""

import errno
import logging
import selectors
import socket
import threading

import pytest

from mcplite.errors import TransportError
from mcplite.protocol.http.http1 import HeadLimits
from mcplite.server.http.messages import HTTPResponse, UnreadableBody
from mcplite.server.state.response_bodies import StreamingBody
from mcplite.server.transports import poller as poller_module
from mcplite.server.transports.client_socket import BodyBudget, ClientSocket, State
from mcplite.server.transports.connection import Connection
from mcplite.server.transports.poller import Poller
from tests.support.children import LIMIT, wait_until
from tests.support.rawhttp import Wire, request
from tests.support.tight import tight


class Host:
    """A poller with a handler that records its thread, and waits for an event if there is one for its path."""

    proxies, crowded, client_socket = None, frozenset(), ClientSocket

    def __init__(self, **limits):
        self.limits = tight(**limits)
        self.head_limits, self.budget = HeadLimits(), BodyBudget(self.limits)
        self.poller = Poller(self.limits.idle_seconds, self.left, lambda: False)
        self.accepted, self.gone = [], []
        self.threads = {}
        self.bodies = []
        self.events = {}
        self.closing = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.server_port = self.listener.getsockname()[1]
        self.poller.add_listener(self.listener, self.accept)

    def accept(self):
        sock, _ = self.listener.accept()
        connection = Connection(sock, ("192.0.2.1", 5), self)
        self.accepted.append(connection)
        self.poller.park(connection)
        return True

    def note_served(self, connection):
        """Nothing chooses among these connections."""

    def handle_error(self, sock, address):
        logging.getLogger("mcplite.server").exception("a response to %s:%s failed", *address)

    def answer(self, asked):
        return self.handle(asked)

    def left(self, connection):
        self.gone.append(connection)

    def handle(self, asked):
        try:
            self.bodies.append(asked.read(1000))
        except UnreadableBody as error:
            return HTTPResponse(error.status, [], [])
        self.threads.setdefault(asked.path, []).append(threading.current_thread())
        event = self.events.get(asked.path)
        if event is not None:
            assert event.wait(LIMIT)
        return HTTPResponse(200, [("Content-Type", "text/plain")], [asked.path.encode()])

    def client(self):
        return Wire(self.listener.getsockname()[1])

    def close(self):
        self.closing = True
        for event in self.events.values():
            event.set()
        self.poller.close()
        self.listener.close()


@pytest.fixture
def host():
    made = []

    def make(**limits):
        made.append(Host(**limits))
        made[-1].poller.start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(wire, path):
    wire.send(request("GET", path))
    return wire.reply().body


def test_a_slow_request_does_not_delay_others(host):
    made = host()
    event = made.events["/slow"] = threading.Event()
    with made.client() as slow, made.client() as quick:
        slow.send(request("GET", "/slow"))
        assert wait_until(lambda: "/slow" in made.threads)
        assert ask(quick, "/quick") == b"/quick"
        assert made.threads["/quick"][0] is not made.threads["/slow"][0]
        event.set()
        assert slow.reply().body == b"/slow"
        assert ask(slow, "/again") == b"/again"


def head_of(path, length=4, *lines):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", ""]).encode()


def awaited(made):
    return [connection for connection in made.poller._idle.values() if connection.state is State.BODY]


def test_a_body_that_comes_after_its_head_takes_no_other_thread(host):
    made = host()
    with made.client() as wire:
        for number in range(20):
            wire.send(head_of("/apart"))
            assert wait_until(lambda: awaited(made))
            wire.send(b"%04d" % number)
            assert wire.reply().body == b"/apart"
    assert made.bodies == [b"%04d" % number for number in range(20)]
    assert len(set(made.threads["/apart"])) <= 2


def test_a_body_in_three_pieces_blocks_a_thread_of_its_own(host):
    made = host()
    with made.client() as wire, made.client() as quick:
        wire.send(head_of("/slow"))
        assert wait_until(lambda: awaited(made))
        wire.send(b"ab")
        assert wait_until(lambda: not awaited(made))
        assert ask(quick, "/quick") == b"/quick"
        wire.send(b"cd" + head_of("/next") + b"more")
        assert wire.reply().body == b"/slow" and wire.reply().body == b"/next"
    assert made.bodies == [b"", b"abcd", b"more"]
    assert made.threads["/quick"][0] is not made.threads["/slow"][0]


@pytest.mark.slow
def test_a_body_that_does_not_come_is_waited_for_within_its_limit(host):
    made = host(body_seconds=1)
    with made.client() as wire, made.client() as quick:
        wire.send(head_of("/stalled"))
        assert wait_until(lambda: awaited(made))
        assert ask(quick, "/quick") == b"/quick"
        assert wire.reply().status == 408
    assert made.bodies == [b""]


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_client_that_leaves_instead_of_sending_its_body_is_let_go(host, end, caplog):
    made = host()
    with made.client() as wire:
        wire.send(head_of("/gone"))
        assert wait_until(lambda: awaited(made))
        if end == "reset":
            wire.reset()
    assert wait_until(lambda: len(made.gone) == 1)
    assert made.bodies == [] and not caplog.records


def test_a_request_whose_body_is_awaited_is_served_by_a_server_that_stops(host):
    made = host()
    with made.client() as wire:
        wire.send(head_of("/last"))
        assert wait_until(lambda: awaited(made))
        made.closing = True
        made.poller.close()
        wire.send(b"body")
        assert wire.reply().body == b"/last"
    assert made.bodies == [b"body"]


def test_a_thread_that_waits_for_its_client_gives_up_the_leader_role(host):
    made = host(idle_seconds=LIMIT)
    with made.client() as slow, made.client() as quick:
        slow.send(request("GET", "/slow")[:20])
        assert wait_until(lambda: made.accepted and made.accepted[0].state is State.HEAD), "part of the head is read"
        for number in range(5):
            assert ask(quick, "/quick") == b"/quick"
        slow.send(request("GET", "/slow")[20:])
        assert slow.reply().body == b"/slow"
        assert made.threads["/slow"][0] not in made.threads["/quick"]


def test_idle_connections_are_closed(host):
    made = host(idle_seconds=0.3)
    with made.client() as wire, made.client() as other:
        assert ask(other, "/first") == b"/first"
        assert wire.ended() and other.ended()
    assert wait_until(lambda: len(made.gone) == 2)


def test_a_connection_that_was_hung_up_is_closed_although_it_does_not_become_readable(host):
    # As on Windows, where that shows at the end of the client's side alone.
    made = host(idle_seconds=LIMIT)
    ours, theirs = socket.socketpair()
    idle = Connection(ours, ("192.0.2.1", 5), made)
    with theirs, made.client() as other:
        made.poller.park(idle)
        assert ask(other, "/") == b"/" and made.gone == []
        idle._socket.shut = bool
        idle.hang_up()
        assert wait_until(lambda: made.gone == [idle])
        assert theirs.recv(1) == b"" and ask(other, "/again") == b"/again"


def test_closing_serves_pending_requests_and_closes_the_others(host):
    made = host()
    event = made.events["/slow"] = threading.Event()
    with made.client() as slow, made.client() as idle:
        assert ask(idle, "/idle") == b"/idle"
        slow.send(request("GET", "/slow"))
        assert wait_until(lambda: "/slow" in made.threads)
        made.closing = True
        made.poller.close()
        made.poller.close()
        assert idle.ended()
        event.set()
        assert slow.reply().body == b"/slow" and slow.ended()
        late, ours = socket.socketpair()
        made.poller.park(Connection(ours, ("192.0.2.1", 5), made))
        with late:
            assert late.recv(1) == b""
    assert wait_until(lambda: len(made.gone) == 3)


class Faulty:
    """A selector that raises each of ``faults`` once, at the method that it is for; mixed into one of the library's."""

    faults = []

    def _fail(self, method):
        for fault in self.faults:
            if fault[0] == method:
                self.faults.remove(fault)
                raise fault[1]

    def select(self, timeout=None):
        self._fail("select")
        return super().select(timeout)

    def register(self, fileobj, events, data=None):
        self._fail("register")
        return super().register(fileobj, events, data)

    def unregister(self, fileobj):
        self._fail("unregister")
        return super().unregister(fileobj)


# With select(), which Windows has alone, a closed socket makes each call fail until it is removed.
@pytest.fixture(params=sorted({selectors.DefaultSelector.__name__, "SelectSelector"}))
def faults(request, monkeypatch):
    kind = type("Selector", (Faulty, getattr(selectors, request.param)), {})
    monkeypatch.setattr(poller_module.selectors, "DefaultSelector", kind)
    monkeypatch.setattr(Faulty, "faults", [])
    return Faulty.faults


def fault(method):
    return method, OSError(errno.ENOSPC, "No space left on device") if method == "register" else MemoryError()


@pytest.mark.parametrize("method", ["select", "register", "unregister"])
@pytest.mark.slow
def test_one_fault_of_the_selector_costs_one_connection_at_most(host, faults, method, caplog):
    made = host(idle_seconds=0.2)
    with made.client() as before:
        assert ask(before, "/before") == b"/before"
        faults.append(fault(method))
        with made.client() as struck:  # accepted, and closed again by the sweep
            assert struck.ended()
        assert wait_until(lambda: not faults)
        for _ in range(3):  # with the numbers of the sockets that were closed
            with made.client() as after:
                assert ask(after, "/after") == b"/after"
        assert before.ended()
    assert wait_until(lambda: len(made.gone) == 5), "each connection was closed and reported"
    assert [record for record in caplog.records if record.exc_info]


def test_a_closed_socket_that_could_not_be_removed_does_not_stop_the_others(host, faults):
    made = host(idle_seconds=LIMIT)
    with made.client() as other:
        assert ask(other, "/before") == b"/before"
        with made.client() as struck:
            assert ask(struck, "/struck") == b"/struck"
            faults.append(fault("unregister"))
        assert wait_until(lambda: len(made.gone) == 1 and not faults)
        # No new connection takes the number of the closed socket.
        for _ in range(3):
            assert ask(other, "/after") == b"/after"


def test_a_connection_that_could_not_be_removed_is_served_by_one_thread(host, faults, monkeypatch):
    monkeypatch.setattr(poller_module, "_BURST_SECONDS", LIMIT)  # in which each connection gets a thread
    made = host(idle_seconds=LIMIT)
    event = made.events["/slow"] = threading.Event()
    with made.client() as slow:
        faults.append(fault("unregister"))
        slow.send(request("GET", "/slow"))
        assert wait_until(lambda: not faults), "another thread leads"
        slow.send(request("GET", "/next"))
        with made.client() as other:
            assert ask(other, "/other") == b"/other" and "/next" not in made.threads
            event.set()
            assert slow.reply().body == b"/slow" and slow.reply().body == b"/next"
    assert wait_until(lambda: len(made.gone) >= 2) and made.threads["/slow"] == made.threads["/next"]


def test_a_fault_that_stays_costs_neither_the_log_nor_the_close(host, monkeypatch, caplog, faults):
    made = host()

    def fail(self, timeout=None):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(Faulty, "select", fail)
    client = made.client()  # wakes the leader
    assert wait_until(lambda: "Cannot allocate memory" in caplog.text)
    with client:
        made.close()
        assert client.ended()
    assert len([record for record in caplog.records if record.exc_info]) <= 3


def test_listening_is_resumed_although_that_failed_once(faults):
    refusals = [True]

    class Refusing(Host):
        def accept(self):
            if not refusals:
                return super().accept()
            refusals.pop()
            faults.append(fault("register"))
            return False

    made = Refusing()
    made.poller.start()
    try:
        with made.client() as wire:
            assert ask(wire, "/late") == b"/late" and not faults and not refusals
    finally:
        made.close()


def test_closing_takes_the_role_from_a_leader_that_serves_when_there_is_no_thread(host, monkeypatch):
    made = host()
    event = made.events["/slow"] = threading.Event()

    def refuse(task):
        raise TransportError("no thread")

    with made.client() as slow:
        assert ask(slow, "/first") == b"/first"
        monkeypatch.setattr(made.poller._threads, "spawn", refuse)
        slow.send(request("GET", "/slow"))
        assert wait_until(lambda: "/slow" in made.threads)
        made.closing = True
        made.poller.close()
        event.set()
        assert slow.reply().body == b"/slow" and slow.ended()
    assert wait_until(lambda: len(made.gone) == 1)


class Pieces(StreamingBody):
    """A body with one piece; whoever looks for more waits until the test lets it go, and then it has ended."""

    def __init__(self):
        self._pieces = [b"piece"]
        self._asked = False
        self.let_go = threading.Event()

    def take(self):
        if self._pieces:
            return self._pieces.pop()
        assert self.let_go.wait(LIMIT)
        self._asked, asked = True, self._asked
        return None if asked else b""

    def stop(self):
        """It has ended by then."""

    def close(self):
        """It holds nothing."""


def test_a_stream_that_ends_while_its_leader_loses_the_role_is_closed(host):
    made = host()
    body = Pieces()
    made.handle = lambda asked: HTTPResponse(200, [("Content-Type", "text/event-stream")], body, streaming=True)
    made.poller._watchdog._late = lambda job: None  # the role stays with the leader until close() takes it
    with made.client() as wire:
        wire.send(request("GET", "/stream"))
        wire.head()
        assert wire.piece() == b"piece"
        made.closing = True
        made.poller.close()
        body.let_go.set()
        assert wire.piece() == b"" and wire.ended()
        assert wait_until(lambda: len(made.gone) == 1)


def test_a_fault_while_serving_does_not_end_the_leader(host):
    made = host()
    handle = made.handle

    def fail(asked):
        if asked.path == "/exit":
            raise SystemExit(3)
        return handle(asked)

    made.handle = fail
    with made.client() as wire, made.client() as other:
        wire.send(request("GET", "/exit"))
        assert wire.ended()
        assert ask(other, "/next") == b"/next"
    assert wait_until(lambda: len(made.gone) == 2)

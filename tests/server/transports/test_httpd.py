"""Our own HTTP server as a whole: conversations over sockets, floods, misbehaving clients, and the end."""

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.server import Context, Server
from mcplite.server.state import streams
from mcplite.server.transports import connection as connection_module
from mcplite.server.transports.client_socket import State
from mcplite.server.transports.httpd import HTTPServer
from tests.support import connecting
from tests.support.children import wait_until
from tests.support.processes import at_once
from tests.support.rawhttp import BOTH, LIMIT, Wire, begin, call, chunked, initialize, listen, post, refuses, request
from tests.support.results import text_of
from tests.support.tight import tight

ROOT = Path(__file__).parents[3]
PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


def result_in(reply):
    """Return the result at the end of a response, whether it is a stream or not."""
    return (reply.events[-1] if reply.headers["content-type"] == "text/event-stream" else reply.json)["result"]


class Tools:
    """A server with tools that a test can block, and their state."""

    def __init__(self, options):
        self.server = connecting.new_server("httpd", **options)
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.ended = threading.Semaphore(0)
        for tool in (self.add, self.held, self.watched, self.flood):
            self.server.add_tool(tool)

    def add(self, a: int, b: int) -> int:
        return a + b

    def held(self) -> str:
        """Runs on the thread of the request, and ignores cancellation."""
        self.started.release()
        assert self.go.wait(LIMIT)
        self.ended.release()
        return "done"

    def watched(self, ctx: Context) -> str:
        """Sends a message first, and ends when it is cancelled."""
        ctx.info("started")
        self.started.release()
        try:
            while not self.go.wait(0.01):
                ctx.check_cancelled()
        finally:
            self.ended.release()
        return "done"

    def flood(self, ctx: Context) -> str:
        for _ in range(2000):
            ctx.info("x" * 10_000)
        self.ended.release()
        return "done"

    def wait_started(self, count=1):
        for _ in range(count):
            assert self.started.acquire(timeout=LIMIT)

    def wait_ended(self):
        assert self.ended.acquire(timeout=LIMIT)


class Served(Tools):
    """The same, served over HTTP; ``http`` is the server."""

    def __init__(self, stack, app_options, options):
        super().__init__(app_options)
        self.http = stack.enter_context(mcplite.serve(self.server, **options))
        self.port = self.http.port
        stack.callback(self.go.set)

    @property
    def open(self):
        return len(self.http._connections)

    def wire(self, **options):
        return Wire(self.port, **options)


@pytest.fixture
def served():
    """Serve tools: ``served(host options, bounds...)``; everything is closed after the test."""
    with contextlib.ExitStack() as stack:

        def served(app=None, options=None, **bounds):
            return Served(stack, {"limits": tight(**{"grace": 5.0, **bounds}), **(app or {})}, options or {})

        yield served


# --- a conversation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_conversation(served, revision):
    with served().wire() as wire:
        session = begin(wire, revision)
        tools = wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, session).json["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["add", "held", "watched", "flood"]
        reply = wire.post(call("add", a=2, b=3), session)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json["id"] == 1 and reply.json["result"]["content"][0]["text"] == "5"
        accepted = wire.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}, session)
        assert (accepted.status, accepted.body, accepted.headers["content-length"]) == (202, b"", "0")  # HTTP-06
        assert wire.post({"jsonrpc": "2.0", "id": 2, "method": "no/such"}, session).status == 200  # HTTP-42
        assert wire.ask("DELETE", headers={"Mcp-Session-Id": session}).status == 204
        assert wire.post(PING, session).status == 404  # SESS-07


def test_a_call_that_sends_a_message_is_a_stream(served):
    # HTTP-08, HTTP-10, HTTP-11, HTTP-19
    made = served()
    with made.wire() as wire:
        session = begin(wire)
        wire.send(post(call("watched"), session))
        head = wire.head()
        assert head.headers["content-type"] == "text/event-stream" and "connection" not in head.headers
        text = b""
        while b"started" not in text:
            text += wire.piece()
        made.go.set()
        while b'"result"' not in text:
            text += wire.piece()
        assert wire.piece() == b""
        assert wire.post(PING, session).status == 200  # HTTP-46: the connection goes on


def test_a_call_byte_by_byte_and_in_chunks(served):
    # HTTP-46
    with served().wire() as wire:
        session = begin(wire)
        for byte in post(call("add", a=2, b=3), session):
            wire.send(bytes([byte]))
        assert wire.reply().json["result"]["structuredContent"] == {"result": 5}
        body = json.dumps(call("add", a=2, b=3)).encode()
        reply = wire.ask(body=chunked(*(bytes([byte]) for byte in body)), headers={
            "Content-Length": None, "Transfer-Encoding": "chunked", "Content-Type": "application/json", "Accept": BOTH,
            "Mcp-Session-Id": session, "Expect": "100-continue"})
        assert reply.json["result"]["structuredContent"] == {"result": 5}


def test_header_names_are_case_insensitive(served):
    # HDR-06, SEC-19
    with served().wire() as wire:
        session = begin(wire)
        body = json.dumps(PING).encode()
        for name, status in (("mcp-SESSION-id", 200), ("MCP-SESSION-ID", 200), ("Mcp_Session_Id", 400)):
            headers = {"CONTENT-type": "Application/JSON; charset=utf-8", "aCCept": "*/*", name: session}
            assert wire.ask(body=body, headers=headers).status == status


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "CONNECT", "FOO", "post", "Get", "OPTIONS"])
def test_other_methods(served, method):
    # HTTP-37, SEC-14
    with served().wire() as wire:
        reply = wire.ask(method, headers={"X-Secret": "said by the client"})
        assert (reply.status, reply.headers["allow"], reply.headers["connection"]) == (405, "POST, GET, DELETE", "close")
        assert b"said by" not in reply.body
        assert wire.ended()


# --- where it listens -------------------------------------------------------------------------------------------


def test_the_address(served):
    # HTTP-35
    made = served()
    assert made.http.url == f"http://127.0.0.1:{made.port}/mcp" and made.http.socket.getsockname()[0] == "127.0.0.1"
    other = served(options={"path": "/deep/er/", "host": "localhost"})
    assert other.http.url == f"http://localhost:{other.port}/deep/er"
    with other.wire() as wire:
        for path, status in (("/deep/er", 200), ("/deep/er/", 200), ("/mcp", 404)):
            reply = wire.send(post(initialize()).replace(b"/mcp", path.encode(), 1)).reply()
            assert reply.status == status


def _has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address(served):
    made = served(options={"host": "::1"})
    assert made.http.url == f"http://[::1]:{made.port}/mcp"
    with made.wire(host="::1") as wire:
        assert wire.send(post(initialize(), Host=f"[::1]:{made.port}")).reply().status == 200
        assert wire.send(post(initialize(), Host="[::2]")).reply().status == 421


def test_a_port_that_is_taken_is_named(served):
    made = served()
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{made.port}: ") as caught:
        HTTPServer(made.server.runtime, port=made.port)
    assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.com"])
def test_a_server_for_a_network_needs_allowed_hosts(host):
    # SEC-45
    with pytest.raises(ValueError, match="allowed_hosts"):
        HTTPServer(Server("open").runtime, host=host, port=0)


@pytest.mark.parametrize("options", [{"path": "mcp"}, {"port": 65536}, {"port": -1}, {"allowed_hosts": ["http://x"]},
                                     {"allowed_hosts": "localhost"}, {"allowed_origins": ["x"]}])
def test_invalid_options_are_refused(options):
    with pytest.raises(ValueError):
        HTTPServer(Server("wrong").runtime, **{"port": 0, **options})


def test_a_server_for_a_network_accepts_its_allowed_hosts(served):
    made = served(options={"host": "0.0.0.0", "allowed_hosts": ["mcp.example.com"]})
    assert made.http.url == f"http://127.0.0.1:{made.port}/mcp"
    with made.wire() as wire:
        assert wire.send(post(initialize(), Host="mcp.example.com:8000")).reply().status == 200
        assert wire.send(post(initialize())).reply().status == 421


# --- the origin policy of every path ----------------------------------------------------------------------------------


PATHS = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("OPTIONS", "/mcp"), ("PUT", "/mcp"), ("GET", "/sse"),
         ("POST", "/messages"), ("GET", "/health"), ("GET", "/elsewhere")]


@pytest.mark.parametrize("name, value, status", [
    ("Host", "evil.example", 421), ("Host", "localhost.evil", 421), ("Host", "localhost:80.evil", 421),
    ("Host", "127.0.0.1:80@evil", 421), ("Host", "[::1].evil", 421), ("Host", "a b", 421), ("Host", "", 421),
    ("Origin", "http://evil.example", 403), ("Origin", "null", 403), ("Origin", "file://", 403),
    ("Origin", "http://localhost.evil", 403),
])
def test_every_path_has_the_same_origin_policy(served, name, value, status):
    # SEC-12, SEC-42 to SEC-44, SEC-46, HTTP-32 to HTTP-34
    asked = []
    made = served(options={"legacy_sse": True,
                           "routes": {"/health": lambda request: asked.append(1) or (200, "text/plain", b"")}})
    with made.wire() as wire:
        session = begin(wire)
    routes = {path for _, path in PATHS}
    assert {*made.http.endpoint._protected, *made.http.endpoint._public} <= routes  # a new path must be added here
    for method, path in PATHS:
        with made.wire() as wire:
            reply = wire.ask(method, path, headers={
                "Mcp-Session-Id": session, "Accept": BOTH, "Content-Type": "application/json", name: value})
            assert (reply.status, reply.headers["connection"]) == (status, "close"), (method, path)
            assert "access-control-allow-origin" not in reply.headers  # SEC-47
    assert asked == []
    with made.wire() as wire:
        assert wire.post(PING, session).status == 200  # the DELETE did nothing
        assert wire.ask("GET", "/health", headers={"Origin": "http://localhost:3000"}).status == 200  # SEC-48
    assert asked == [1]


# --- extra paths -----------------------------------------------------------------------------------------------------


def test_extra_paths(served):
    def health(request):
        if request.method not in ("GET", "HEAD"):
            return 405, "text/plain", b"no"
        return 200, "text/html; charset=utf-8", f"<p>{request.path}?{request.query}".encode()

    made = served(options={"routes": {"/health": health, "/": lambda request: (200, "text/plain", b"root")}})
    with made.wire() as wire:
        reply = wire.ask("GET", "/health?a=1")
        assert (reply.status, reply.headers["content-type"], reply.body) == (200, "text/html; charset=utf-8", b"<p>/health?a=1")
        assert wire.ask("GET", "/health/").status == 200
        assert wire.send(request("HEAD", "/health")).reply("HEAD").headers["content-length"] == "11"
        assert wire.ask("GET", "/").body == b"root"
        assert wire.ask("PUT", "/health", b"x").status == 405
        assert wire.ended()  # its body was not read
    with made.wire() as wire:
        begin(wire)
        assert wire.ask("GET", "/health/deeper").status == 404


@pytest.mark.parametrize("answer", [
    lambda request: 1 / 0, lambda request: None, lambda request: (200, "text/plain", "text"),
    lambda request: (200, "a\r\nb: c", b""), lambda request: (200, None, b""),
])
def test_an_extra_path_that_fails(served, answer, caplog):
    # SEC-18
    made = served(options={"routes": {"/broken": answer}})
    with made.wire() as wire:
        reply = wire.ask("GET", "/broken")
        assert (reply.status, reply.json["error"]["message"]) == (500, "Internal error")
    with made.wire() as wire:
        begin(wire)
    assert "/broken" in caplog.text


# --- too much of everything ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data, status", [
    (post(b"{", Content_Length=str(10 << 30)), 413),  # SEC-08
    (post(b"", Content_Length=None, Transfer_Encoding="chunked") + chunked(b"x" * 600, b"x" * 600), 413),  # SEC-09
    (post(b"x" * 1001), 413), (post(b"x" * 1000), 400), (post(b"{}", Content_Encoding="gzip"), 415),  # SEC-10
    (post(json.dumps([0] * 101).encode()), 413), (post(b"{", Content_Type="text/plain"), 415),  # SEC-27, SEC-40
    (post(b"[" * 900), 400),  # SEC-21
])
def test_refused_bodies_leave_no_session(served, data, status):
    # SEC-53
    made = served(message_bytes=1000, json_elements=100)
    with made.wire() as wire:
        reply = wire.send(data).reply()
        assert reply.status == status and reply.json["error"]["message"] and reply.json.get("id") is None
        wire.finish()
        assert wire.ended()
    assert len(made.http.endpoint.sessions) == 0
    assert wait_until(lambda: made.open == 0)


def test_a_flood_of_sessions(served):
    # SEC-52, SESS-18
    made = served(sessions=5)
    with made.wire() as wire, contextlib.ExitStack() as streams:
        for _ in range(3):
            streams.enter_context(listen(made.port, begin(wire)))
        used, before = begin(wire), threading.active_count()
        for _ in range(50):
            assert wire.post(initialize()).status == 200
            assert wire.post(PING, used).status == 200
        assert len(made.http.endpoint.sessions) == 5
        assert wait_until(lambda: threading.active_count() <= before + 4)  # threads that are kept
        with listen(made.port, used), listen(made.port, begin(wire)):
            reply = wire.post(initialize())
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert reply.json["error"]["code"] == mcplite.errors.SERVER_BUSY
            assert reply.json["id"] == 0 and "mcp-session-id" not in reply.headers


def test_expired_sessions_are_let_go_without_traffic(served):
    made = served(session_start_seconds=0.3, idle_seconds=0.2)
    with made.wire() as wire:
        for _ in range(3):
            wire.post(initialize())
    assert wait_until(lambda: made.open == 0 and len(made.http.endpoint.sessions) == 0)


def slow_head(made, stack):
    return stack.enter_context(made.wire()).send(b"POST /mcp HTTP/1.1\r\n")


def slow_body(made, stack):
    return stack.enter_context(made.wire()).send(request(headers={"Content-Type": "application/json", "Accept": BOTH,
                                                                  "Content-Length": "100"}) + b"{")


def silent(made, stack):
    return stack.enter_context(made.wire())


def idle(made, stack):
    wire = stack.enter_context(made.wire())
    begin(wire)
    return wire


@pytest.fixture
def hasty(monkeypatch):
    """Count connections as idle soon."""
    monkeypatch.setattr(connection_module, "_OWED_SECONDS", 0.1)
    monkeypatch.setattr(connection_module, "_SETTLED_SECONDS", 0.1)


@pytest.mark.parametrize("occupy", [silent, slow_head, slow_body, idle])
def test_connections_that_wait_for_their_client_make_room(served, hasty, occupy):
    made = served(connections=3, idle_seconds=1000, header_seconds=1000, body_seconds=1000, body_rate=0.001)
    with contextlib.ExitStack() as stack:
        wires = [occupy(made, stack) for _ in range(6)]
        with made.wire() as wire:
            session = begin(wire)
            assert wire.post(PING, session).status == 200
            assert wires[0].rest() is not None  # it has ended
    assert wait_until(lambda: made.open == 0)


def test_a_connection_that_was_used_stays_longer_than_one_that_was_not(served, hasty):
    made = served(connections=3)
    with contextlib.ExitStack() as stack:
        used = idle(made, stack)
        wires = [silent(made, stack) for _ in range(2)]
        with made.wire() as wire:
            begin(wire)
            assert wires[0].ended() and used.post(initialize()).status == 200


def test_a_connection_whose_request_has_arrived_stays_although_the_leader_has_not_read_it(served, monkeypatch):
    leader, go = threading.Event(), threading.Event()
    accept = HTTPServer._accept

    def held(server):
        leader.set()
        assert go.wait(LIMIT)
        return accept(server)

    monkeypatch.setattr(HTTPServer, "_accept", held)
    made = served(connections=2)
    with made.wire() as early, made.wire(), made.wire() as late:
        assert leader.wait(LIMIT)
        for wire in (early, late):
            wire.send(post(initialize()))
        go.set()  # all three are accepted before any of them is read
        assert [wire.reply().status for wire in (early, late)] == [200, 200]


@pytest.mark.slow
def test_connections_with_requests_in_progress_make_no_room_for_the_same_client(served, hasty):
    made = served(connections=3, queue_seconds=1.0)
    with contextlib.ExitStack() as stack:
        with made.wire() as control:
            session = begin(control)
        for number in range(3):
            stack.enter_context(made.wire()).send(post(call("held", id=number), session))
            made.wait_started()
        for _ in range(2):
            with made.wire() as extra:
                reply = extra.reply()  # without being asked: the client may be slow to say what it wants
                assert (reply.status, reply.headers["retry-after"], reply.headers["connection"]) == (503, "1", "close")
                assert extra.ended()
        made.go.set()
        assert wait_until(lambda: not any(connection.busy for connection in made.http._open_connections()))
        with made.wire() as wire:
            begin(wire)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has all of 127.0.0.0/8")
def test_connections_with_requests_in_progress_make_room_for_another_client(served):
    made = served(connections=4)
    with contextlib.ExitStack() as stack:
        with made.wire() as control:
            session = begin(control)
        wires = []
        for number in range(4):
            wires.append(stack.enter_context(made.wire()).send(post(call("held", id=number), session)))
            made.wait_started()
        with made.wire(source="127.0.0.2") as other:
            begin(other)
        assert wires[0].ended()
        made.go.set()
        assert [wire.reply().status for wire in wires[1:]] == [200, 200, 200]


@pytest.mark.slow
def test_streams_leave_room_for_calls(served):
    made = served(connections=4, streams=100)
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(made.wire())
        streams = []
        for _ in range(4):
            streams.append(stack.enter_context(listen(made.port, begin(control))))
        session = begin(stack.enter_context(made.wire()))
        with made.wire() as wire:
            assert wire.post(PING, session).status == 200
        streams[0].rest()  # which ends
        assert not made.http.endpoint.sessions.find(session, None).peer.closed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has all of 127.0.0.0/8")
def test_the_streams_of_one_client_do_not_end_those_of_another(served):
    made = served(streams=4)
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(made.wire(source="127.0.0.2"))
        session = begin(other)
        stream = stack.enter_context(listen(made.port, session, source="127.0.0.2"))
        control = stack.enter_context(made.wire())
        for _ in range(12):
            stack.enter_context(listen(made.port, begin(control)))
        assert made.http.endpoint.sessions.find(session, None).reader
        made.server.add_tool(lambda: "new", name="new")
        assert b"list_changed" in stream.piece() + stream.piece()


def test_two_hundred_open_streams(served, monkeypatch):
    # HTTP-44, REL-36
    monkeypatch.setattr(streams, "PROBE_SECONDS", 600)  # the poller sees them leave
    made = served(connections=300, streams=250)
    before = threading.active_count()
    with made.wire() as control, contextlib.ExitStack() as stack:
        sessions = [begin(control) for _ in range(200)]
        wires = [stack.enter_context(listen(made.port, session)) for session in sessions]
        assert made.open == 201 and wait_until(lambda: threading.active_count() <= before + 8)  # none of them has a thread
        assert control.post(call("add", a=2, b=3), sessions[0]).json["result"]["structuredContent"] == {"result": 5}
        made.server.add_tool(lambda: "new", name="new")  # HTTP-25: notifications reach each of them
        for wire in wires:
            text = b""
            while b"list_changed" not in text:
                text += wire.piece()
        for wire in wires[:100]:
            wire.close()
        for wire in wires[100:]:
            wire.reset()
        assert wait_until(lambda: made.open == 1)
        assert wait_until(lambda: threading.active_count() <= before + 8)  # a few are kept for a while
        assert control.post(PING, sessions[0]).status == 200
        listen(made.port, sessions[0]).close()


@pytest.mark.parametrize("stateless", [False, True])
def test_answers_are_not_crossed_between_clients(served, stateless):
    # SEC-50: the same ids at the same time, on connections and in sessions of their own.
    made = served(options={"stateless": stateless})
    failures, clients, rounds = [], 8, 25

    def talk(number):
        try:
            with made.wire() as wire:
                session = None if stateless else begin(wire)
                for id in range(rounds):
                    reply = wire.post(call("add", id=id, a=1000 * number, b=id), session).json
                    assert (reply["id"], reply["result"]["content"][0]["text"]) == (id, str(1000 * number + id))
        except BaseException as error:
            failures.append(error)

    at_once(talk, range(clients))
    assert failures == []


def test_slow_clients_do_not_hold_up_the_others(served):
    # SEC-11
    made = served(header_seconds=1.0, connections=80)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(made.wire()) for _ in range(60)]
        for wire in slow:
            wire.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        with made.wire() as wire:
            session = begin(wire)
            for number in range(50):
                assert wire.post(call("add", a=number, b=1), session).status == 200
        for wire in slow:
            assert wire.reply().status == 408
            wire.close()
    assert wait_until(lambda: made.open == 0)


# --- clients that leave, or do not read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset", "finish"])
def test_a_stream_ends_when_its_client_disconnects(served, monkeypatch, how):
    # HTTP-28, HTTP-44: also when the stream is silent.
    monkeypatch.setattr(streams, "PROBE_SECONDS", 600)
    made = served()
    with made.wire() as control:
        session = begin(control)
        wire = listen(made.port, session)
        assert made.open == 2
        getattr(wire, how)()
        assert wait_until(lambda: made.open == 1)
        wire.close()
        listen(made.port, session).close()  # the next reader is accepted
        assert wait_until(lambda: made.open == 1)


def test_a_client_that_pipelines_behind_its_stream_is_still_watched(served):
    # Its departure cannot be seen behind the request; the next comment cannot be sent then.
    made = served(keep_alive_seconds=0.1)
    with made.wire() as control:
        session = begin(control)
        with listen(made.port, session) as wire:
            wire.send(post(PING, session))
            wire.piece()
            assert made.open == 2
            while wire.piece() != b": keep-alive\n\n":
                continue
        assert wait_until(lambda: made.open == 1)


def test_clients_that_disconnect_at_the_last_message(served, caplog):
    # The poller finds that a client has left while a worker sends the last message.
    made = served()
    made.go.set()
    with made.wire() as wire:
        session = begin(wire)

    def hurry(name):
        for number in range(100):
            with made.wire() as wire:
                wire.send(post(call("watched", id=f"{name}-{number}"), session))
                assert wire.head().status == 200
                while b'"result"' not in wire.piece():
                    continue

    at_once(hurry, range(4))
    assert wait_until(lambda: made.open == 0 and not made.http.poller._streams)
    with made.wire() as wire:
        begin(wire)  # the listener is there
    assert caplog.records == []


def test_disconnecting_does_not_cancel_a_call_of_a_session(served, monkeypatch):
    # HTTP-20, REL-32
    monkeypatch.setattr(streams, "PROBE_SECONDS", 600)
    made = served()
    with made.wire() as control:
        session = begin(control)
        wire = made.wire()
        wire.send(post(call("watched"), session))
        assert wire.head().status == 200
        text = b""
        while b"started" not in text:
            text += wire.piece()
        last = [line[4:].decode() for line in text.split(b"\n") if line.startswith(b"id: ")][-1]
        wire.close()
        assert wait_until(lambda: made.open == 1)  # its thread does not wait for the handler
        assert not made.ended.acquire(blocking=False)
        made.go.set()
        made.wait_ended()
        with made.wire() as again:
            again.send(request("GET",
                               headers={"Accept": "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": last}))
            events = again.reply().events
            assert [text_of(event["result"]) for event in events] == ["done"]
            # Who has it all and comes back is told that nothing will follow, or would come back again and again.
            stream, number = last.split("-")
            again.send(request("GET", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session,
                                               "Last-Event-ID": f"{stream}-{int(number) + 1}"}))
            assert again.reply().status == 204
            again.send(request("GET", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session,
                                               "Last-Event-ID": "99-1"}))
            reply = again.reply()
            assert reply.status == 400 and "not an event that is still kept" in reply.json["error"]["message"]


def test_a_client_that_disconnects_before_the_response(served, caplog):
    # REL-31: a call on the thread of the request
    caplog.set_level(logging.INFO)
    made = served()
    with made.wire() as control:
        session = begin(control)
        wire = made.wire()
        wire.send(post(call("held"), session))
        made.wait_started()
        wire.reset()
        made.go.set()
        made.wait_ended()
        assert wait_until(lambda: made.open == 1)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_client_that_does_not_read_does_not_block_its_handler_forever(served):
    # REL-34, REL-62
    made = served(write_seconds=0.3, unread_seconds=0.3, messages_per_second=None)
    with made.wire() as control:
        session = begin(control)
        with made.wire(small=True) as wire:
            wire.send(post(call("flood"), session))
            made.wait_ended()
            assert wait_until(lambda: made.open == 1)
        assert control.post(PING, session).status == 200


def test_an_unread_get_stream_takes_little_and_blocks_no_publisher(served):
    # The client can come back for what is kept.
    made = served(unread_messages=10)
    with made.wire() as control:
        session = begin(control)
        found = made.http.endpoint.sessions.find(session, None)
        with listen(made.port, session, small=True):
            assert found.reader
            one, = made.server.sessions
            for _ in range(200):
                one.log("error", "x" * 100_000)
            assert found.log.size < 2 * made.server.limits.stream_bytes
        assert control.post(PING, session).status == 200
        listen(made.port, session).close()


# --- trouble of our own ---------------------------------------------------------------------------------------------


class Broken:
    """A listener that fails a few times."""

    def __init__(self, listener, failures):
        self._listener, self.failures = listener, failures

    def accept(self):
        if self.failures:
            raise self.failures.pop()
        return self._listener.accept()

    def __getattr__(self, name):
        return getattr(self._listener, name)


def test_accepting_is_retried_after_a_failure(caplog):
    # REL-39
    made = mcplite.serve(Server("tired"))
    made.socket = broken = Broken(made.socket, [OSError(errno.EMFILE, "Too many open files"), BlockingIOError()])
    with made, Wire(made.port) as wire:
        begin(wire)
    assert broken.failures == []
    record, = caplog.records
    assert "no connection could be accepted" in record.getMessage() and "Too many open files" in record.getMessage()


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.ECONNRESET, errno.ENOTCONN, errno.EPROTO])
def test_a_client_that_left_before_it_was_accepted_costs_the_others_nothing(number, caplog):
    # BSD and Windows report it as an error of accept(), which any client can cause.
    with mcplite.serve(Server("calm")) as made, Wire(made.port) as idle:
        assert wait_until(lambda: len(made._connections) == 1)
        made.socket = Broken(made.socket, [OSError(number, "it left") for _ in range(50)])
        with Wire(made.port) as wire:
            begin(wire)
        assert made.socket.failures == []
        begin(idle)
    assert caplog.records == []


def test_a_connection_is_closed_for_a_new_one_when_there_are_no_descriptors(hasty):
    with mcplite.serve(Server("tired")) as made, Wire(made.port) as idle, Wire(made.port) as used:
        begin(used)
        assert wait_until(lambda: len(made._connections) == 2)
        time.sleep(0.2)  # until both are idle
        made.socket = Broken(made.socket, [OSError(errno.EMFILE, "Too many open files")])
        with Wire(made.port) as wire:
            begin(wire)
            assert idle.ended()
        begin(used)


def test_a_connection_without_a_thread_is_served_by_the_leader(served, monkeypatch, caplog):
    # REL-39
    made = served()
    real = threading.Thread.start

    def refuse(thread):
        if thread.name == "mcplite connection":
            raise RuntimeError("can't start new thread")
        real(thread)

    with monkeypatch.context() as patch, made.wire() as wire, made.wire() as other:
        patch.setattr(threading.Thread, "start", refuse)
        session = begin(wire)
        wire.send(post(PING, session)[:-1])  # the leader has to wait for the rest itself
        assert wait_until(lambda: "can't start new thread" in caplog.text)
        wire.send(post(PING, session)[-1:])
        assert wire.reply().status == 200
        begin(other)
    with made.wire() as wire:
        begin(wire)


def test_a_lifespan_that_fails_is_tried_again(served, caplog):
    failures = [RuntimeError("no database")]
    events = []

    @contextlib.contextmanager
    def lifespan(server):
        if failures:
            raise failures.pop()
        events.append("enter")
        yield
        events.append("leave")

    for stateless in (False, True):
        failures[:] = [RuntimeError("no database")]
        del events[:]
        made = served({"lifespan": lifespan}, {"stateless": stateless})
        with made.wire() as wire:
            assert wire.post(initialize()).status == 500
        with made.wire() as wire:
            assert wire.post(initialize()).status == 200
            assert text_of(result_in(wire.post(call("add", a=1, b=2), None if stateless else begin(wire)))) == "3"
        made.http.close()
        assert events == ["enter", "leave"]
    assert "no database" in caplog.text


# --- the end ------------------------------------------------------------------------------------------------------------------


def test_close_ends_idle_connections_and_streams_at_once(served):
    # REL-38
    made = served(grace=60.0)
    with made.wire() as idle, made.wire() as half, contextlib.ExitStack() as stack:
        session = begin(idle)
        half.send(b"")
        stream = stack.enter_context(listen(made.port, session))
        closer = threading.Thread(target=made.http.close)
        closer.start()
        text = b""
        while stream._buffer or not text.endswith(b"0\r\n\r\n"):
            data = stream.rest()
            assert data
            text += data
        assert idle.ended() and half.ended()
        closer.join(LIMIT)
        assert not closer.is_alive() and made.open == 0
    assert refuses(made.port)
    made.http.close()  # again


def test_a_client_that_reads_slowly_gets_its_response_within_the_grace(served, monkeypatch):
    monkeypatch.setattr("mcplite.server.transports.httpd._FLUSH_SECONDS", 0.05)
    made = served(grace=60.0)
    size = 16_000_000
    made.server.tool(name="large", structured_output=False)(lambda: "x" * size)
    with made.wire(small=True) as wire:
        session = begin(wire)
        wire.send(post(call("large"), session))
        head = wire.head()
        closer = threading.Thread(target=made.http.close)
        closer.start()
        assert wait_until(lambda: made.http.closing) and refuses(made.port)
        time.sleep(0.5)  # longer than every client has
        assert len(wire.rest()) > size and head.status == 200
        closer.join(LIMIT)
        assert not closer.is_alive() and made.open == 0


def test_a_port_is_free_after_the_end(served):
    made = served()
    with made.wire() as wire:
        begin(wire)
        made.http.close()
    again = served(options={"port": made.port})
    assert again.port == made.port
    with again.wire() as wire:
        begin(wire)
        assert wire.post(PING, "of another life").status == 404  # REL-40


@pytest.mark.parametrize("tool", ["held", "watched"])
def test_running_calls_are_answered_at_the_end(served, tool):
    # LIFE-28, REL-38
    made = served(grace=LIMIT)
    with made.wire() as wire, made.wire() as second:
        session = begin(wire)
        begin(second)
        wire.send(post(call(tool), session))
        made.wait_started()
        closer = threading.Thread(target=made.http.close)
        closer.start()
        assert refuses(made.port)
        assert second.ended()
        made.go.set()
        assert text_of(result_in(wire.reply())) == "done"
        assert wire.ended()
        closer.join(LIMIT)
        assert not closer.is_alive()


@pytest.mark.parametrize("message", [PING, initialize()], ids=["ping", "initialize"])
@pytest.mark.parametrize("cut", [20, -1], ids=["head", "body"])
def test_late_requests_are_refused(served, cut, message):
    left = threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield
        left.set()

    made = served({"lifespan": lifespan}, grace=LIMIT)
    with made.wire() as wire, made.wire() as late:
        session = begin(wire)
        data = post(message, session if message is PING else None)
        wire.send(post(call("held"), session))
        made.wait_started()
        late.send(data[:cut])
        waits = {State.SERVING, State.HEAD}, {State.SERVING, State.BODY}  # of which the latter waits for the rest
        assert wait_until(lambda: {one.state for one in list(made.http._connections)} in waits)
        closer = threading.Thread(target=made.http.close)
        closer.start()
        assert refuses(made.port)
        assert wait_until(lambda: made.http.endpoint._closed)
        reply = late.send(data[cut:]).reply()
        assert (reply.status, reply.headers["connection"], reply.headers["retry-after"]) == (503, "close", "1")
        assert late.ended()
        made.go.set()
        assert wire.reply().status == 200
        closer.join(LIMIT)
        assert not closer.is_alive() and left.is_set()


@pytest.mark.slow
def test_a_stalled_client_does_not_delay_the_end(served):
    made = served(grace=0.2)
    with made.wire() as head, made.wire() as body, made.wire(small=True) as reader:
        session = begin(reader)
        head.send(b"POST /mcp HTTP/1.1\r\n")
        body.send(post(b"", session, Content_Length="10"))
        reader.send(post(call("flood"), session))
        assert reader.head().status == 200
        closer = threading.Thread(target=made.http.close)
        closer.start()
        closer.join(LIMIT)
        assert not closer.is_alive() and made.open == 0


def test_a_server_that_was_never_started():
    made = HTTPServer(Server("quiet").runtime, port=0)
    with Wire(made.port) as wire:
        made.close()
        assert wire.ended()
    made.close()


# --- as a process of its own ----------------------------------------------------------------------------------------


SERVER = '''
import logging, os, signal, sys, threading, time
from mcplite.server import Context, Limits, Server

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
mcp = Server("httpd", limits=Limits(grace=float(sys.argv[1])))

def wait(path):
    while not os.path.exists(path):
        time.sleep(0.01)

@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b

@mcp.tool()
def held(folder: str) -> str:
    open(os.path.join(folder, "started"), "w").close()
    wait(os.path.join(folder, "go"))
    return "done"

@mcp.tool()
def watched(folder: str, ctx: Context) -> str:
    ctx.on_cancel(lambda: sys.stderr.write("told to stop\\n"))
    ctx.info("hello")
    open(os.path.join(folder, "started"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        ctx.sleep(0.01)
    return "done"

@mcp.tool()
def strike(number: int) -> str:
    signal.pthread_kill(threading.get_ident(), number)
    return "struck"

if __name__ == "__main__":
    if len(sys.argv) > 2:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
    mcp.run("streamable-http", port=0)
    sys.stderr.write("clean end\\n")
'''


class Process:
    """A server as a child."""

    def __init__(self, folder, *arguments):
        (folder / "server.py").write_text(SERVER)
        self.folder = folder
        self.child = subprocess.Popen(
            [sys.executable, str(folder / "server.py"), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
        line = self.child.stderr.readline().decode()
        assert "serving at http://127.0.0.1:" in line, line + self.child.stderr.read().decode()
        self.port = int(line.rpartition(":")[2].partition("/")[0])

    def hold(self, wire, tool):
        """Call a tool that holds, and return when it runs."""
        wire.send(post(call(tool, folder=str(self.folder)), begin(wire)))
        assert wait_until((self.folder / "started").exists)

    def go(self):
        (self.folder / "go").touch()

    def end(self):
        """Wait for the end; return the status and what it wrote."""
        status = self.child.wait(LIMIT)
        out, err = self.child.communicate(timeout=LIMIT)
        assert out == b""
        return status, err.decode()

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(LIMIT)
        for stream in (self.child.stdout, self.child.stderr):
            stream.close()


@pytest.fixture
def process(tmp_path):
    if os.name != "posix":
        pytest.skip("these signals can be sent to one process on POSIX only")
    with contextlib.ExitStack() as stack:

        def process(grace=20.0, *arguments):
            made = Process(tmp_path, grace, *arguments)
            stack.callback(made.close)
            return made

        yield process


SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_process_while_clients_are_connected(process, number):
    # REL-22, REL-38: neither idle connections nor streams hold it for the grace.
    made = process(grace=600)
    with Wire(made.port) as wire:
        with listen(made.port, begin(wire)) as stream:
            made.child.send_signal(number)
            status, err = made.end()
            assert wire.ended() and stream.rest().endswith(b"0\r\n\r\n")
    assert status == 0 and "clean end" in err and "Traceback" not in err


@pytest.mark.parametrize("tool", ["held", "watched"])
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.slow
def test_running_calls_are_answered_before_the_process_ends(process, number, tool):
    made = process()
    with Wire(made.port) as wire:
        made.hold(wire, tool)
        made.child.send_signal(number)
        assert refuses(made.port)
        assert made.child.poll() is None
        made.go()
        assert text_of(result_in(wire.reply())) == "done"
        assert wire.ended()
    status, err = made.end()
    assert status == 0 and "clean end" in err and "told to stop" not in err and "still runs" not in err


def test_a_long_call_is_cancelled_before_the_process_ends(process):
    made = process(grace=0.3)
    with Wire(made.port) as wire:
        made.hold(wire, "watched")
        made.child.send_signal(signal.SIGTERM)
        status, err = made.end()
    assert status == 0 and "told to stop" in err and "clean end" in err and "still runs" not in err


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.slow
def test_a_hanging_handler_is_logged_and_the_process_ends(process, number):
    # REL-21, REL-66
    made = process(grace=0.2)
    with Wire(made.port) as wire:
        made.hold(wire, "held")
        made.child.send_signal(number)
        status, err = made.end()
    assert status == 0 and "a handler is still running at the end" in err and "in held" in err and "clean end" in err
    assert "Fatal Python error" not in err


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_does_not_wait(process, number):
    made = process(grace=600)
    with Wire(made.port) as wire:
        made.hold(wire, "held")
        made.child.send_signal(number)
        assert refuses(made.port)
        made.child.send_signal(number)
        status, err = made.end()
    assert status != 0 and "clean end" not in err


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.slow
def test_a_signal_delivered_to_another_thread_ends_the_process(process, number):
    # Which thread gets a signal is the system's choice; the main thread's sleep is not interrupted then.
    made = process()
    with Wire(made.port) as wire:
        session = begin(wire)
        assert text_of(result_in(wire.post(call("strike", number=int(number)), session))) == "struck"
        status, err = made.end()
    assert status == 0 and "clean end" in err


def test_a_process_without_free_descriptors_serves_open_connections_and_recovers(process):
    # REL-39
    made = process(20.0, 20)
    with Wire(made.port) as wire, contextlib.ExitStack() as stack:
        session = begin(wire)
        crowd = [stack.enter_context(Wire(made.port)) for _ in range(40)]
        until = time.monotonic() + LIMIT
        while b"no connection could be accepted" not in made.child.stderr.readline():
            assert time.monotonic() < until
        assert text_of(result_in(wire.post(call("add", a=2, b=3), session))) == "5"
        for one in crowd:
            one.close()
        with Wire(made.port) as late:
            begin(late)
    made.child.send_signal(signal.SIGTERM)
    status, err = made.end()
    assert status == 0 and "Traceback" not in err


# --- warnings about open servers ------------------------------------------------------------------------


@pytest.mark.parametrize("host, auth, told", [("0.0.0.0", None, True), ("", None, True), ("127.0.0.1", None, False),
                                              ("localhost", None, False),
                                              ("0.0.0.0", "a token of more than a few letters".replace(" ", "-"), False)])
def test_a_reachable_server_without_tokens_logs_a_warning(host, auth, told, caplog):
    mcp = mcplite.Server("open", auth=None if auth is None else mcplite.StaticTokens(auth))
    HTTPServer(mcp.runtime, host=host, port=0, allowed_hosts=["*"]).close(0.1)
    said = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == told
    for record in said:
        assert "requires no token" in record.getMessage() and "--token-env" in record.getMessage()

"""Large messages are decoded and checked one at a time; small ones, and other clients, do not wait for all of them."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

import mcplite
from mcplite.protocol import jsonrpc
from mcplite.revisions import LEGACY
from mcplite.rpc import fair_queue as turns_module
from tests.server.http.test_endpoint import call as legacy_call, opening, request
from tests.support.children import wait_until
from tests.support.sharing import Reading
from tests.support.stateless import Web, call

LIMIT = 30
ATTACKER, OTHER = "192.0.2.1", "198.51.100.7"
LARGE = "x" * 100_000


class Gate:
    """What large messages pass through: notes who is inside, and lets one through at a time."""

    def __init__(self):
        self.lock, self.inside, self.most, self.passed = threading.Lock(), 0, 0, []
        self.go = threading.Semaphore(0)

    def enter(self, name):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.passed.append(name)
        assert self.go.acquire(timeout=LIMIT)
        with self.lock:
            self.inside -= 1


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.setattr(turns_module, "_LONGEST_SECONDS", LIMIT)
    return Gate()


@pytest.fixture
def decoding(gate, monkeypatch):
    """Let each large message pass through the gate while it is decoded."""
    parse = jsonrpc.parse

    def parse_slowly(data, *limits):
        message = parse(data, *limits)
        if len(data) > 65_536:
            gate.enter(message.id)
        return message

    monkeypatch.setattr(jsonrpc, "parse", parse_slowly)
    return gate


class Server:
    def __init__(self, gate):
        mcp = mcplite.Server("server")

        @dataclass
        class Checked:
            name: str
            text: str = ""

            def __post_init__(self):
                if self.text:
                    gate.enter(self.name)

        @mcp.tool()
        def size(text: str = "") -> int:
            return len(text)

        @mcp.tool()
        def checked(value: Checked, ctx: mcplite.Context) -> str:
            return value.name

        self.mcp, self.web = mcp, Web(mcp, legacy_sse=True)
        self.pool = ThreadPoolExecutor(20)

    def session(self, address):
        response = self.web.respond(opening(), network=address, MCP_Protocol_Version=None)
        return dict(response.headers)["Mcp-Session-Id"]

    def post(self, name, address, id, session=None, **arguments):
        """Return the future of the result of a call."""
        message, changed = call(name, arguments, id), {}
        if session is not None:
            message = legacy_call("tools/call", {"name": name, "arguments": arguments}, id)
            changed = {"MCP_Protocol_Version": None, "mcp_session_id": session}

        def run():
            response = self.web.respond(message, network=address, **changed)
            data = b"".join(response.body)
            response.close()
            return json.loads(data.rpartition(b"data: ")[2])["result"]["content"][0]["text"]

        return self.pool.submit(run)

    @property
    def waiting(self):
        return self.mcp.runtime.turns._waiting.count


@pytest.fixture
def server(gate):
    server = Server(gate)
    yield server
    for _ in range(100):
        gate.go.release()
    server.pool.shutdown()
    server.web.close()


@pytest.mark.parametrize("sessions", [False, True])
def test_large_messages_are_decoded_one_at_a_time_and_those_of_others_first(server, decoding, sessions):
    theirs, other = (server.session(ATTACKER), server.session(OTHER)) if sessions else (None, None)
    calls = []
    for id in range(1, 6):
        calls.append(server.post("size", ATTACKER, id, theirs, text=LARGE))
        assert wait_until(lambda count=id - 1: server.waiting == count and decoding.passed == [1])
    calls.append(server.post("size", OTHER, 9, other, text=LARGE))
    assert wait_until(lambda: server.waiting == 5)
    assert server.post("size", ATTACKER, 20, theirs, text="x").result(LIMIT) == "1", "small ones do not wait"
    decoding.go.release()
    assert wait_until(lambda: decoding.passed == [1, 9])
    for _ in range(6):
        decoding.go.release()
    assert [one.result(LIMIT) for one in calls] == ["100000"] * 6
    assert decoding.most == 1 and sorted(decoding.passed) == [1, 2, 3, 4, 5, 9]


def test_over_two_endpoints_they_are_decoded_one_at_a_time_too(server, decoding):
    endpoint = server.web.endpoint
    stream = Reading(endpoint.handle(request("GET", path="/sse")))
    assert wait_until(lambda: stream.found)
    query = stream.found[0][1].partition("?")[2]

    def post(message):
        return endpoint.handle(request("POST", message, path="/messages", query=query)).status

    assert post(opening(LEGACY[0].name)) == post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
    calls = [server.pool.submit(post, legacy_call("tools/call", {"name": "size", "arguments": {"text": LARGE}}, id))
             for id in range(1, 6)]
    assert wait_until(lambda: server.waiting == 4)
    for _ in range(5):
        decoding.go.release()
    assert [one.result(LIMIT) for one in calls] == [202] * 5
    assert decoding.most == 1 and sorted(decoding.passed) == [1, 2, 3, 4, 5]
    stream.stop()


def test_large_arguments_are_checked_one_at_a_time(server, gate):
    calls = [server.post("checked", ATTACKER, id, value={"name": f"a{id}", "text": LARGE}) for id in range(1, 6)]
    assert wait_until(lambda: server.waiting == 4 and len(gate.passed) == 1), "the others wait to be decoded"
    assert server.post("checked", ATTACKER, 20, value={"name": "small"}).result(LIMIT) == "small"
    for _ in range(5):
        gate.go.release()
    assert [one.result(LIMIT) for one in calls] == ["a1", "a2", "a3", "a4", "a5"] and gate.most == 1


def test_a_client_that_leaves_while_its_message_waits_is_not_served(server, decoding, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    first = server.post("size", ATTACKER, 1, text=LARGE)
    assert wait_until(lambda: decoding.passed == [1])
    left = request("POST", call("size", {"text": LARGE}, 2), MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call",
                   Mcp_Name="size")
    left.disconnected = lambda: True
    assert server.web.endpoint.handle(left).status == 503
    decoding.go.release()
    assert first.result(LIMIT) == "100000" and decoding.passed == [1]


def test_a_call_that_is_cancelled_while_its_arguments_wait_is_not_run(server, gate, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    session, turns = server.session(ATTACKER), server.mcp.runtime.turns
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with turns.begin(OTHER):
        server.pool.submit(server.web.respond, legacy_call(
            "tools/call", {"name": "checked", "arguments": {"value": {"name": "a", "text": "x" * 40_000}}}, 1),
            network=ATTACKER, MCP_Protocol_Version=None, mcp_session_id=session)
        assert wait_until(lambda: turns._waiting.count == 1)
        server.web.respond(cancel, network=ATTACKER, MCP_Protocol_Version=None, mcp_session_id=session)
        assert wait_until(lambda: turns._waiting.count == 0)
    assert gate.passed == []

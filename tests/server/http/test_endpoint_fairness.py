"""Calls of one client that occupy every place: others are answered meanwhile, and afterwards all is as before."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.errors import SERVER_BUSY
from mcplite.rpc.deadline import Deadline
from tests.support.children import wait_until
from tests.support.stateless import Web, call
from tests.support.tight import tight

LIMIT = 30
ATTACKER, OTHER = "192.0.2.1", "198.51.100.7"


class Slow:
    """A server with a slow tool and a quick one."""

    def __init__(self, **limits):
        self.go, self.started = threading.Event(), threading.Semaphore(0)
        mcp = mcplite.Server("slow", limits=tight(commit_seconds=0.01, **limits))

        @mcp.tool()
        def slow(ctx: mcplite.Context, text: str = "") -> str:
            self.started.release()
            self.go.wait(LIMIT)
            return "late"

        @mcp.tool()
        def quick() -> str:
            return "quick"

        self.mcp, self.web = mcp, Web(mcp)

    def session(self, address):
        response = self.web.respond(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
            network=address, MCP_Protocol_Version=None)
        return dict(response.headers)["Mcp-Session-Id"]

    def post(self, name, address, session=None, id=1, **arguments):
        """Return the response to a call of a tool, in a session or without one."""
        if session is None:
            return self.web.respond(call(name, arguments, id), network=address)
        return self.web.respond({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                                 "params": {"name": name, "arguments": arguments}}, network=address, MCP_Protocol_Version=None,
                                mcp_session_id=session)

    def occupy(self, address, count, **arguments):
        """Occupy places by calls in two sessions, and hang up."""
        sessions = [self.session(address) for _ in range(2)]
        # A thread that has answered may hold its place for a moment longer; a call would then get one of the spare places.
        assert self.mcp.runtime.workers.drain(Deadline(LIMIT))
        for number in range(count):
            self.post("slow", address, sessions[number % 2], number, **arguments).close()
        for _ in range(count):
            assert self.started.acquire(timeout=LIMIT)


@pytest.fixture
def make():
    made = []

    def make(**limits):
        made.append(Slow(**limits))
        return made[-1]

    yield make
    for slow in made:
        slow.go.set()
        slow.web.close()


def answer(response):
    data = b"".join(response.body)
    response.close()
    return json.loads(data.rpartition(b"data: ")[2])


def text(response):
    return answer(response)["result"]["content"][0]["text"]


def test_others_are_answered_while_one_client_occupies_every_place(make):
    slow = make(running=16, queue_seconds=LIMIT)
    slow.occupy(ATTACKER, 16)
    for _ in range(3):
        assert text(slow.post("quick", OTHER)) == "quick"
        assert text(slow.post("quick", OTHER, slow.session(OTHER))) == "quick"
        assert text(slow.post("quick", ATTACKER, slow.session(ATTACKER))) == "quick", "another session from there"
    slow.go.set()
    assert slow.mcp.runtime.workers.drain(Deadline(LIMIT))
    assert text(slow.post("quick", ATTACKER)) == "quick" and text(slow.post("slow", ATTACKER)) == "late"


def test_a_client_that_occupies_every_place_waits_itself(make):
    slow = make(running=8, queue_seconds=0.05)
    slow.occupy(ATTACKER, 8)
    last = slow.post("quick", ATTACKER)
    assert last.status == 503 and json.loads(last.content)["error"]["code"] == SERVER_BUSY
    assert slow.mcp.runtime.workers._queue.count == 0, "what is refused leaves the queue"


def test_a_session_goes_on_after_a_call_that_waited_for_too_long(make):
    # The official Python client 1 gives up the session for a status of 503.
    slow = make(running=8, queue_seconds=0.05)
    slow.occupy(ATTACKER, 8)
    session = slow.session(ATTACKER)
    slow.post("slow", ATTACKER, session).close()
    late = slow.post("quick", ATTACKER, session, id=2)
    refused = answer(late)
    assert late.status == 200 and refused["id"] == 2 and refused["error"]["code"] == SERVER_BUSY
    assert "queued for too long" in refused["error"]["message"]
    slow.go.set()
    assert text(slow.post("quick", ATTACKER, session, id=3)) == "quick"


def test_calls_of_one_session_wait_for_a_place(make):
    slow = make(running=8, queue_seconds=LIMIT)
    session = slow.session(OTHER)
    with ThreadPoolExecutor(40) as pool:
        calls = [pool.submit(lambda id=id: text(slow.post("slow", OTHER, session, id))) for id in range(1, 41)]
        for _ in range(8):
            assert slow.started.acquire(timeout=LIMIT)
        assert wait_until(lambda: slow.mcp.runtime.workers._queue.count == 32)
        slow.go.set()
        assert [call.result(LIMIT) for call in calls] == ["late"] * 40


def test_large_requests_of_one_client_leave_room_for_others(make):
    slow = make(running=16, running_bytes=1_000_000, queue_seconds=LIMIT)
    slow.occupy(ATTACKER, 2, text="x" * 200_000)
    late = threading.Thread(target=lambda: slow.post("slow", ATTACKER, text="x" * 200_000).close())
    late.start()
    assert text(slow.post("quick", OTHER)) == "quick"
    assert text(slow.post("quick", ATTACKER)) == "quick"
    other = threading.Thread(target=lambda: slow.post("slow", OTHER, text="x" * 200_000).close())
    other.start()
    assert slow.started.acquire(timeout=LIMIT)
    assert not slow.started.acquire(timeout=0.05), "the third large call of the attacker waits"
    slow.go.set()
    assert slow.started.acquire(timeout=LIMIT)
    late.join(LIMIT)
    other.join(LIMIT)

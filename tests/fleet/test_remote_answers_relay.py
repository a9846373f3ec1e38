"""Requests whose handler waits in another process, which is killed or paused meanwhile."""

import contextlib
import json
import signal
import subprocess
import sys
import time

import pytest
import requests

from mcplite.backend.from_url import open_backend
from tests.support.processes import ROOT
from tests.support.stateless import Web, again, call, encode, headers

KEY = "a key of thirty-two bytes or more!"
CAN = {"capabilities": {"elicitation": {}}}
PATIENCE = 90

_SERVER = """
import os, sys, time
import mcplite

def create(backend, folder, key):
    mcp = mcplite.Server("fleet", backend=backend, state_keys=[key])

    def note(what):
        with open(os.path.join(folder, "notes"), "a") as file:
            file.write(f"{what} {os.getpid()}\\n")

    @mcp.tool()
    def book(ctx: mcplite.Context) -> str:
        note("entered")
        ctx.elicit("Book?")
        ctx.once("payment", lambda: note("paid"))
        return "booked"

    @mcp.tool()
    def ship(ctx: mcplite.Context) -> str:
        ctx.elicit("Ship?")
        ctx.once("payment", lambda: note("paid"))

        def ship():
            note("shipping")
            time.sleep(600)

        ctx.once("shipping", ship)

    @mcp.tool()
    def bake(ctx: mcplite.Context) -> str:
        ctx.elicit("Bake?")
        note("baking")
        try:
            ctx.sleep(600)
        except mcplite.Cancelled:
            note("stopped")
            raise
        return "baked"

    return mcp
"""
_MAIN = """
mcp = create(sys.argv[1], sys.argv[2], sys.argv[3])
server = mcplite.serve(mcp)
print(server.url, flush=True)
sys.stdin.read()
"""


def create(*arguments):
    space = {}
    exec(_SERVER, space)
    return space["create"](*arguments)


class Child:
    """A process of the fleet that can be killed."""

    def __init__(self, folder):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER + _MAIN, f"sqlite:///{folder / 'shop.db'}", str(folder), KEY], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._url = self._process.stdout.readline().strip()

    @property
    def pid(self):
        return self._process.pid

    def send_signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()

    def result(self, request):
        return json.loads(self.send(request).content)["result"]

    def send(self, request):
        port = self._url.split("/")[2]
        return requests.post(self._url, data=encode(request), headers={**headers(request), "Host": port}, timeout=PATIENCE,
                             stream=True)

    def close(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def child(tmp_path):
    child = Child(tmp_path)
    yield child
    child.close()


@pytest.fixture
def web(tmp_path):
    """The process of the test, as another one of the fleet."""
    backend = open_backend(f"sqlite:///{tmp_path / 'shop.db'}")
    web = Web(create(backend, str(tmp_path), KEY))
    yield web
    web.close()
    backend.close()


def notes(folder):
    return [line.split() for line in (folder / "notes").read_text().splitlines()]


def wait_for(folder, what):
    until = time.monotonic() + PATIENCE
    while what not in [said for said, _ in notes(folder)]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_process_that_was_killed_between_question_and_answer_is_replaced(child, web, tmp_path):
    request = call("book", **CAN)
    first = child.result(request)
    child.kill()
    result = web.result(again(request, first))
    assert result["content"][0]["text"] == "booked"
    assert [what for what, _ in notes(tmp_path)] == ["entered", "entered", "paid"]


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="POSIX only")
@pytest.mark.slow
def test_a_process_that_is_paused_is_replaced_and_does_nothing_afterwards(child, web, tmp_path):
    request = call("book", **CAN)
    first = child.result(request)
    child.send_signal(signal.SIGSTOP)
    assert web.result(again(request, first))["content"][0]["text"] == "booked"
    child.send_signal(signal.SIGCONT)
    error = web.error(again(request, first))  # it answers its messages again, or is known as ended
    assert "'payment' done" in error["message"]
    assert [what for what, _ in notes(tmp_path)] == ["entered", "entered", "paid"]


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_runs_the_call_is_named_with_its_steps(child, web, tmp_path):
    request = call("ship", **CAN)
    first = child.result(request)
    response = web.respond(again(request, first))
    wait_for(tmp_path, "shipping")
    child.kill()
    text = b"".join(response.body).decode() if response.streaming else response.content.decode()
    error = json.loads([line[6:] for line in text.splitlines() if line.startswith("data: {")][-1])["error"]
    assert error["code"] == -32603
    assert error["message"] == (
        "the process that ran this call has ended before it answered; what the call has done is not known. Of its steps:"
        " 'payment' done; 'shipping' begun, and whether it took place is not known")
    # A client that sends its answer once more does not repeat them.
    assert web.error(again(request, first))["message"] == (
        "this requestState was used before, and its call is not repeated. Of its steps: 'payment' done; 'shipping' begun, and"
        " whether it took place is not known")
    assert [what for what, _ in notes(tmp_path)] == ["paid", "shipping"]


@pytest.mark.slow
def test_a_handler_is_cancelled_whose_client_was_served_by_a_process_that_is_killed(child, web, tmp_path):
    request = call("bake", **CAN)
    first = web.result(request)
    with contextlib.closing(child.send(again(request, first))) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        wait_for(tmp_path, "baking")
        child.kill()
        wait_for(tmp_path, "stopped")

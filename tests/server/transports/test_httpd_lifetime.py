"""How long a server of ``mcplite.serve`` serves: from the call on, until it is closed."""

import signal
import subprocess
import sys
import threading

import pytest

import mcplite
from tests.support.forks import POSIX_ONLY
from tests.support.processes import ROOT

LIMIT = 30


def make_server():
    mcp = mcplite.Server("lifetime")

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return mcp


def total(url):
    with mcplite.connect(url, timeout=LIMIT) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).text


def test_it_serves_without_a_block_until_it_is_closed():
    server = mcplite.serve(make_server())
    try:
        assert total(server.url) == "3"
        assert server.start() is server
        with server:
            assert total(server.url) == "3"
        with pytest.raises(mcplite.TransportError):
            total(server.url)
    finally:
        server.close()


def test_serve_forever_returns_when_another_thread_closes_the_server():
    server = mcplite.serve(make_server())
    threads = [threading.Thread(target=server.serve_forever) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert total(server.url) == "3"
    server.close()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    server.serve_forever()  # it is closed: returns at once


PROGRAM = """
import logging, sys
import mcplite
mcp = mcplite.Server("program")
logging.basicConfig(level=logging.INFO if "log" in sys.argv else logging.WARNING, format="%(levelname)s %(message)s")
server = mcplite.serve(mcp)
with mcplite.connect(server.url) as client:
    client.ping()
print(server.url, flush=True)
if "forever" in sys.argv:
    server.serve_forever()
if "close" in sys.argv:
    server.close()
"""


def run(*words):
    return subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=str(ROOT), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=2 * LIMIT, check=True)


def test_the_end_of_the_program_names_a_server_that_was_not_closed():
    ran = run()
    assert ran.stderr.startswith(f"WARNING the program ends, and with it the server at {ran.stdout.strip()}, which was not")
    assert "serve_forever()" in ran.stderr and "close()" in ran.stderr and ran.stderr.count("\n") == 1
    assert run("close").stderr == ""


@POSIX_ONLY
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serve_forever(number):
    with subprocess.Popen([sys.executable, "-c", PROGRAM, "forever", "log"], cwd=str(ROOT), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8") as program:
        try:
            url = program.stdout.readline().strip()
            assert f"INFO serving at {url}\n" in iter(program.stderr.readline, "")
            with mcplite.connect(url, timeout=LIMIT) as client:
                client.ping()
            program.send_signal(number)
            assert program.wait(LIMIT) == 0
            assert "not closed" not in program.stderr.read()
        finally:
            program.kill()

"""Little of everything: few descriptors, and a disk that is full."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import mcplite
from tests.support.callers import Caller
from tests.support.processes import LIMIT, free_port, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, str(HERE / "server.py")]


def limited(descriptors, command):
    """Return a command that runs with at most so many descriptors."""
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]


@pytest.fixture
def http(tmp_path):
    """``http(descriptors)``: a server over HTTP that may open so many; gives the process and its port."""
    with contextlib.ExitStack() as stack:
        def http(descriptors):
            port = free_port()
            log = stack.enter_context(open(tmp_path / "log", "wb"))
            process = subprocess.Popen(limited(descriptors, [*SERVER, str(tmp_path), str(port)]), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=log)
            stack.callback(process.wait, LIMIT)
            stack.callback(process.kill)
            # The server is the process itself, since the shell was replaced.
            assert wait_until(lambda: listens(port))
            return process, port

        yield http


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), LIMIT).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_server_with_40_descriptors_and_80_connections(tmp_path, http):
    process, port = http(40)
    for round in range(3):
        idle = [socket.create_connection(("127.0.0.1", port), LIMIT) for _ in range(80)]
        # It waits, and does not spin on connections that it cannot accept.
        before = psutil.Process(process.pid).cpu_times().user
        time.sleep(1)
        assert psutil.Process(process.pid).cpu_times().user - before < 0.5
        for sock in idle:
            sock.close()
        with mcplite.connect(f"http://127.0.0.1:{port}/mcp", timeout=LIMIT) as client:
            assert client.call_tool("act", {"key": f"round-{round}"}).text == f"{round}-dnuor"
    assert process.poll() is None
    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")


def test_many_callers_of_a_server_with_40_descriptors(tmp_path, http):
    _, port = http(40)
    target = json.dumps(f"http://127.0.0.1:{port}/mcp")
    with open(tmp_path / "stderr", "wb") as stderr:
        callers = [Caller([sys.executable, str(HERE / "caller.py"), target], stderr) for _ in range(4)]
        try:
            # Twelve threads with a connection each, and a file for each call: more or less what there is.
            assert all([caller.goes_on(50) for caller in callers])
            assert [caller.end() for caller in callers] == [0] * len(callers)
        finally:
            for caller in callers:
                if caller.process.poll() is None:
                    caller.kill()
    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")


@pytest.mark.parametrize("descriptors", [4, 6, 7, 8, 10, 12, 40])
def test_a_stdio_server_with_few_descriptors_serves_or_says_why_not(tmp_path, descriptors):
    try:
        with mcplite.connect(limited(descriptors, [*SERVER, str(tmp_path), "stdio"]), timeout=LIMIT) as client:
            result = client.call_tool("act", {"key": "one"})
            assert result.text == "eno" or result.is_error and "Too many open files" in result.text
    except mcplite.errors.ConnectionClosed as error:
        assert descriptors < 12 and "Too many open files" in str(error) + (error.stderr_tail or ""), error


# --- a disk that is full ------------------------------------------------------------------------------------

needs_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")


@needs_full_device
def test_a_server_whose_log_is_on_a_full_disk(tmp_path):
    command = ["sh", "-c", 'exec "$@" 2> /dev/full', "sh", *SERVER, str(tmp_path), "stdio"]
    with mcplite.connect(command, env={"MCPLITE_DEBUG": "1"}) as client:
        assert client.call_tool("act", {"key": "one"}).text == "eno"
        with pytest.raises(mcplite.errors.InvalidParams):
            client.call_tool("nothing")
        assert client.call_tool("act", {"key": "two"}).text == "owt"


@needs_full_device
def test_a_client_that_keeps_its_servers_log_on_a_full_disk(tmp_path):
    with mcplite.connect([*SERVER, str(tmp_path), "stdio"], env={"MCPLITE_DEBUG": "1"}, stderr="/dev/full") as client:
        for _ in range(20):
            assert client.call_tool("act", {"key": "one"}).text == "eno"
        assert "tools/call" in client.stderr_tail


STORE = """
import os, sys
sys.path.insert(0, sys.argv[2])
import mcplite

store = mcplite.auth.FileStore(os.path.join(sys.argv[1], "credentials.json"))
old, new = {"token": "o" * 2000}, {"token": "n" * 20000}
store.save("a", old)
filler = os.path.join(sys.argv[1], "filler")
with open(filler, "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
for use in (lambda: store.save("a", new), lambda: store.save("b", new)):
    try:
        use()
    except mcplite.MCPError as error:
        assert "No space left" in str(error), error
    else:
        raise AssertionError("saved on a full disk")
    assert store.load("a") == old and store.load("b") is None
assert sorted(name for name in os.listdir(sys.argv[1]) if name.endswith(".new")) == []
os.remove(filler)
store.save("a", new)
assert store.load("a") == new
print("as it should")
"""


def test_a_store_on_a_full_disk_keeps_the_old_content(tmp_path):
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a small disk of one's own is made by root, with the program unshare")
    (tmp_path / "disk").mkdir(mode=0o700)
    mount = 'mount -t tmpfs -o size=64k,mode=700 none "$0" && exec "$@"'
    ran = subprocess.run(["unshare", "-m", "sh", "-c", mount, str(tmp_path / "disk"), sys.executable, "-c", STORE,
                          str(tmp_path / "disk"), str(HERE.parent.parent)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=LIMIT, encoding="utf-8")
    if "mount:" in ran.stderr or "unshare:" in ran.stderr:
        pytest.skip(f"no small disk here: {ran.stderr}")
    assert (ran.returncode, ran.stdout) == (0, "as it should\n"), ran.stderr

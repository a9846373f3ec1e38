"""A network that is cut and mended: clients in three revisions go on, no answer is wrong, and nothing is done twice.

The server runs in a network namespace of its own, at the other end of a cable; the test pulls it. It needs the right to
make such a namespace (root) and the program ``ip``.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcplite import revisions
from tests.support.callers import Caller
from tests.support.processes import LIMIT, free_port, wait_until

HERE = Path(__file__).resolve().parent
REVISIONS = ["2025-03-26", revisions.NEWEST_LEGACY.name, revisions.NEWEST.name]
ERRORS = {"ConnectionClosed", "TransportError", "RequestTimeout", "HTTPStatusError", "SessionLost"}


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)


class Cable:
    """Two ends of a virtual network: ours, and one in a namespace; both have an address of a range for tests."""

    def __init__(self):
        self.name = f"mcplite{os.getpid()}"
        self._near, self._far = f"near{os.getpid()}"[:15], f"far{os.getpid()}"[:15]
        self.address = "198.18.77.2"
        try:
            run("ip", "netns", "add", self.name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        try:
            run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
            run("ip", "addr", "add", "198.18.77.1/30", "dev", self._near)
            run("ip", "link", "set", self._near, "up")
            run("ip", "-n", self.name, "addr", "add", f"{self.address}/30", "dev", self._far)
            run("ip", "-n", self.name, "link", "set", self._far, "up")
            run("ip", "-n", self.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"no network of our own here: {error.stderr.decode().strip()}")

    def pull(self):
        """Cut the connection: packets are lost, and the programs are not told."""
        run("ip", "-n", self.name, "link", "set", self._far, "down")

    def plug(self):
        """Mend it."""
        run("ip", "-n", self.name, "link", "set", self._far, "up")

    def close(self):
        subprocess.run(["ip", "link", "del", self._near], stderr=subprocess.DEVNULL, timeout=LIMIT)
        run("ip", "netns", "del", self.name)


@pytest.fixture
def cable():
    if sys.platform != "linux" or shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces are made by root, with the program ip, on Linux")
    cable = Cable()
    yield cable
    cable.close()


@pytest.mark.timeout(600)
def test_clients_survive_a_network_that_is_cut(tmp_path, cable, whole):
    port = free_port()
    command = [sys.executable, str(HERE / "server.py"), str(tmp_path), str(port), cable.address]
    server = subprocess.Popen(["ip", "netns", "exec", cable.name, *command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    callers = []
    with open(tmp_path / "stderr", "wb") as stderr:
        try:
            assert wait_until((tmp_path / "started").exists)
            target = json.dumps(f"http://{cable.address}:{port}/mcp")
            callers = [Caller([sys.executable, str(HERE / "caller.py"), target, revision], stderr) for revision in REVISIONS]
            for seconds in (6, 25) if whole else (1.5,):
                assert all([caller.goes_on(20) for caller in callers])
                cable.pull()
                before = [caller.answered() for caller in callers]
                time.sleep(seconds)
                assert all(caller.answered() <= seen + 3 for caller, seen in zip(callers, before)), "the cable was not pulled"
                cable.plug()
                plugged = time.monotonic()
                assert all([caller.goes_on(20) for caller in callers]), [caller.calls[-3:] for caller in callers]
                print(f"cut for {seconds} s: all went on after {time.monotonic() - plugged:.1f} s")
            assert [caller.end() for caller in callers] == [0, 0, 0], (tmp_path / "stderr").read_text()
        finally:
            for caller in callers:
                if caller.process.poll() is None:
                    caller.kill()
            server.kill()
            server.wait(LIMIT)
    done = (tmp_path / "effects").read_text().split()
    assert len(done) == len(set(done))
    for revision, caller in zip(REVISIONS, callers):
        answered = [call for call in caller.calls if "answer" in call]
        assert [call for call in answered if call["answer"] != call["key"][::-1]] == []
        assert {call["key"] for call in answered} <= set(done)
        failed = [call["error"] for call in caller.calls if "error" in call]
        assert set(failed) <= ERRORS
        longest = max(call["took"] for call in caller.calls)
        print(f"{revision}: {len(answered)} answered, {len(failed)} failed, longest {longest:.1f} s")

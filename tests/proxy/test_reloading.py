"""``python -m mcplite.server --reload``: a server on stdio and over HTTP whose files change while clients use it."""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.proxy.reload_fronts import HTTPFront
from mcplite.revisions import NEWEST, NEWEST_LEGACY, REVISIONS
from tests.support import connecting
from tests.support.processes import free_port, running, wait_until

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
SERVER = '''
import time
import mcplite
import number

mcp = mcplite.Server("weather")

@mcp.tool()
def current() -> int:
    return number.VALUE

@mcp.tool()
def slow(seconds: float) -> str:
    open("begun", "w").close()
    time.sleep(seconds)
    return "slept"

@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    return str(ctx.elicit("Which city?", {"type": "object", "properties": {}}).action)

@mcp.resource("note://today")
def today() -> str:
    return "rain"
'''
INITIALIZE = {"protocolVersion": NEWEST_LEGACY.name, "capabilities": {"elicitation": {}},
              "clientInfo": {"name": "host", "version": "1"}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weather.py").write_text(SERVER)
    write(tmp_path, "VALUE = 1")
    return tmp_path


def write(folder, text):
    # In one step, since the server looks at any moment.
    (folder / "number.new").write_text(text + "\n")
    os.replace(folder / "number.new", folder / "number.py")


def value_of(client):
    """Return the value that the tool gives, or the error."""
    try:
        return client.call_tool("current").data
    except mcplite.MCPError as error:
        return str(error)


def becomes(client, wanted):
    return wait_until(lambda: wanted in str(value_of(client)))


class Host:
    """A host application that writes and reads lines."""

    def __init__(self, folder):
        self.said = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mcplite.server", "weather.py", "--reload"], cwd=str(folder),
            env={**os.environ, "PYTHONPATH": ROOT}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.said.append(json.loads(line))

    def send(self, **message):
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def await_message(self, **members):
        """Return the first message with these members."""
        def found():
            return [one for one in self.said if members.items() <= one.items()]

        assert wait_until(found), self.said
        return found()[0]

    def initialize(self):
        self.send(id=0, method="initialize", params=INITIALIZE)
        answer = self.await_message(id=0)
        self.send(method="notifications/initialized")
        return answer

    def end(self):
        self._process.stdin.close()
        return self._process.wait(60)

    def kill(self):
        # Its child ends with it, and then the pipe.
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def host(folder):
    host = Host(folder)
    yield host
    host.kill()


@pytest.mark.parametrize("revision", [REVISIONS[0].name, NEWEST_LEGACY.name, NEWEST.name])
def test_a_client_on_stdio_sees_each_version_of_a_server_on_one_connection(folder, revision):
    with connecting.connect([sys.executable, "-m", "mcplite.server", "weather.py", "--reload"], cwd=str(folder),
                            env={"PYTHONPATH": ROOT}, revision=revision, timeout=60) as client:
        assert value_of(client) == 1
        write(folder, "VALUE = 2")
        assert becomes(client, "2")
        write(folder, "VALUE = = 3")
        assert becomes(client, "SyntaxError")
        assert "number.py, line 1" in value_of(client)
        write(folder, "VALUE = 4")
        assert becomes(client, "4")


def test_a_session_is_opened_again_and_the_host_learns_that_lists_may_have_changed(host, folder):
    assert host.initialize()["result"]["capabilities"]["tools"]
    host.send(id=1, method="resources/subscribe", params={"uri": "note://today"})
    host.await_message(id=1)
    write(folder, "VALUE = 2")
    for area in ("tools", "resources"):
        host.await_message(method=f"notifications/{area}/list_changed")
    host.send(id=2, method="tools/call", params={"name": "current", "arguments": {}})
    assert host.await_message(id=2)["result"]["structuredContent"] == {"result": 2}
    assert sum(one.get("id") == 0 for one in host.said) == 1, "the host sees one answer to its initialize"
    assert host.end() == 0


def test_a_request_that_outlasts_its_server_gets_an_error(host, folder):
    host.initialize()
    host.send(id=1, method="tools/call", params={"name": "slow", "arguments": {"seconds": 60}})
    assert wait_until((folder / "begun").exists)
    write(folder, "VALUE = 2")
    assert "send the request again" in host.await_message(id=1)["error"]["message"]
    host.send(id=2, method="tools/call", params={"name": "current", "arguments": {}})
    assert host.await_message(id=2)["result"]["structuredContent"] == {"result": 2}


def test_a_question_of_an_earlier_server_is_cancelled_and_its_answer_reaches_no_other(host, folder):
    host.initialize()
    host.send(id=1, method="tools/call", params={"name": "ask", "arguments": {}})
    first = host.await_message(method="elicitation/create")
    write(folder, "VALUE = 2")
    assert host.await_message(method="notifications/cancelled")["params"]["requestId"] == first["id"]
    assert wait_until(lambda: any(one.get("id") == 1 and "method" not in one for one in host.said))
    host.said.clear()
    host.send(id="second", method="tools/call", params={"name": "ask", "arguments": {}})
    second = host.await_message(method="elicitation/create")
    assert second["id"] != first["id"]
    host.send(id=first["id"], result={"action": "decline"})
    host.send(id=second["id"], result={"action": "cancel"})
    assert host.await_message(id="second")["result"]["content"][0]["text"] == "cancel"


def test_a_cancelled_question_of_a_later_server_is_named_as_the_host_knows_it(host, folder):
    host.initialize()
    host.send(id=1, method="tools/call", params={"name": "ask", "arguments": {}})
    first = host.await_message(method="elicitation/create")
    host.send(id=first["id"], result={"action": "decline"})
    host.await_message(id=1)
    write(folder, "VALUE = 2")
    host.await_message(method="notifications/tools/list_changed")
    host.said.clear()
    host.send(id="second", method="tools/call", params={"name": "ask", "arguments": {}})
    second = host.await_message(method="elicitation/create")
    host.send(method="notifications/cancelled", params={"requestId": "second"})
    assert host.await_message(method="notifications/cancelled")["params"]["requestId"] == second["id"] != first["id"]
    write(folder, "VALUE = 3")
    host.await_message(method="notifications/tools/list_changed")
    host.send(id="third", method="tools/call", params={"name": "current", "arguments": {}})
    assert host.await_message(id="third")["result"]["structuredContent"] == {"result": 3}
    ended = [one for one in host.said if one.get("id") == "second" or one.get("method") == "notifications/cancelled"]
    assert len(ended) == 1, "neither the call nor its question ends twice"


def test_a_server_that_is_broken_from_the_start_opens_the_session_once_it_is_mended(folder):
    write(folder, "VALUE =")
    host = Host(folder)
    try:
        host.send(id=0, method="initialize", params=INITIALIZE)
        host.send(id=1, method="ping")
        assert "SyntaxError" in host.await_message(id=1)["error"]["message"]
        write(folder, "VALUE = 5")
        assert host.await_message(id=0)["result"]["serverInfo"]["name"] == "weather"
        assert host.end() == 0
    finally:
        host.kill()


def test_a_module_that_is_missing_is_waited_for(folder):
    (folder / "number.py").unlink()
    host = Host(folder)
    try:
        host.send(id=1, method="ping")
        assert "No module named 'number'" in host.await_message(id=1)["error"]["message"]
        write(folder, "VALUE = 6")
        host.initialize()
    finally:
        host.kill()


@pytest.mark.skipif(os.name != "posix", reason="a process inherits no socket")
def test_over_http_no_connection_is_refused_and_what_runs_is_answered(folder):
    port, answers = free_port(), []
    command = [sys.executable, "-m", "mcplite.server", "weather.py", "--reload", "--http", str(port)]
    with running(command, folder, port):
        url, over = f"http://127.0.0.1:{port}/mcp", threading.Event()

        def use():
            while not over.is_set():
                try:
                    with mcplite.connect(url, timeout=60) as client:
                        answers.append(client.call_tool("current").data)
                except mcplite.MCPError as error:
                    answers.append(error)
                time.sleep(0.02)

        user = threading.Thread(target=use)
        user.start()
        try:
            for value in (2, 3):
                write(folder, f"VALUE = {value}")
                assert wait_until(lambda value=value: value in answers)
        finally:
            over.set()
            user.join()
        # A connection may be closed in the moment in which its client sends the next request; another one is never refused.
        failed = [str(one) for one in answers if not isinstance(one, int)]
        assert all("kept open" in one for one in failed) and len(failed) <= 2, failed
        with mcplite.connect(url, timeout=60) as client:
            slept = []
            call = threading.Thread(target=lambda: slept.append(client.call_tool("slow", {"seconds": 1}).data))
            call.start()
            assert wait_until((folder / "begun").exists)
            write(folder, "VALUE =")
            call.join()
            assert slept == ["slept"]

        def broken():
            try:
                with mcplite.connect(url, timeout=60) as client:
                    return "" if client.ping() is None else ""
            except mcplite.MCPError as error:
                return str(error)

        assert wait_until(lambda: "503" in broken() and "SyntaxError" in broken())


@pytest.mark.skipif(os.name != "posix", reason="a process inherits no socket")
def test_a_port_that_is_taken_is_named(folder):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run([sys.executable, "-m", "mcplite.server", "weather.py", "--reload", "--http", str(port)],
                               cwd=str(folder), env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, timeout=60)
    assert ended.returncode == 1 and f"cannot listen at 127.0.0.1:{port}" in ended.stderr.decode()


def test_a_second_reason_to_refuse_ends_the_answers_with_the_first():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = HTTPFront(queue.SimpleQueue(), listener, False)
        for reason in ("no process", "no process again"):
            front.refuse(reason)
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"no process again" in client.makefile("rb").read()
        front.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "mcplite answers without a server"]

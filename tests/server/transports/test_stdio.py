"""The stdio transport as a real process: hygiene of the streams, the end, signals, faults of the client."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from mcplite.server import Server
from mcplite.server.transports.stdio import own_streams, serve_stdio
from tests.support import stateless
from tests.support.interrupts import OPTIONS, STOPS, ask_to_stop
from tests.support.systems import posix_only

ROOT = Path(__file__).parents[3]
SERVER = '''
import ctypes, os, subprocess, sys, threading, time
from mcplite.server import Context, Limits, Server

mcp = Server("stdio", limits=Limits(grace=float(os.environ.get("GRACE", "0.5")), message_bytes=100_000))

@mcp.tool()
def noisy() -> str:
    print("printed")
    sys.stdout.write("written\\n")
    sys.stdout.flush()
    os.write(1, b"raw\\n")
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).puts(b"from C")
    subprocess.run([sys.executable, "-c", "print('from a child')"])
    return "quiet"

@mcp.tool()
def reads() -> str:
    try:
        line = input()
    except EOFError:
        line = "end of file"
    child = [sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read())"]
    return line + repr(subprocess.run(child, stdout=subprocess.PIPE).stdout)

@mcp.tool()
def flood(ctx: Context) -> str:
    for number in range(1, 100_000):
        ctx.report_progress(number, message="x" * 1000)
        if number == 2:
            sys.stderr.write("flooding\\n")
    return "all of it"

@mcp.tool()
def hang(ctx: Context) -> str:
    ctx.info("hanging")
    while True:
        time.sleep(60)

@mcp.tool()
def wait(ctx: Context) -> str:
    ctx.on_cancel(lambda: sys.stderr.write("told to stop\\n"))
    ctx.info("waiting")
    ctx.sleep(60)

@mcp.tool()
def echo(text: str) -> str:
    return text

@mcp.tool()
def soon(ctx: Context) -> str:
    ctx.report_progress(1, message="soon")
    ctx.sleep(0.1)
    ctx.report_progress(2, message="now")
    return "in time"

@mcp.tool()
def does(code: str) -> str:
    exec(code)
    return "done"

if __name__ == "__main__":
    mcp.run()
    sys.stderr.write("clean end\\n")
'''


class Process:
    """A server as a child, spoken to in raw lines."""

    def __init__(self, path, **environment):
        self.child = subprocess.Popen(
            [sys.executable, "-X", "utf8=0", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, **OPTIONS)
        self.stderr = bytearray()
        self._pump = threading.Thread(target=self._drain)
        self._pump.start()
        self._id = 0

    def _drain(self):
        while True:
            chunk = os.read(self.child.stderr.fileno(), 65536)
            if not chunk:
                return
            self.stderr += chunk

    def write(self, data):
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def receive(self):
        line = self.child.stdout.readline()
        assert line, self.stderr.decode()
        return json.loads(line)

    def start(self, method, params=None):
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}})
        return self._id

    def ask(self, method, params=None):
        id = self.start(method, params)
        answer = self.receive()
        assert answer["id"] == id, answer
        return answer

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]["content"][0]["text"]

    def initialize(self):
        self.ask("initialize",
                 {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def end(self, timeout=20):
        """Wait for the process and return its status and what it wrote to stderr."""
        status = self.child.wait(timeout)
        self._pump.join(20)
        return status, self.stderr.decode(errors="replace")

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(20)
        self._pump.join(20)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                stream.close()
            except OSError:
                pass  # nothing reads what was not sent yet


@pytest.fixture
def process(tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    made = []

    def process(**environment):
        made.append(Process(path, **environment))
        return made[-1]

    yield process
    for one in made:
        one.close()


def test_nothing_but_messages_on_stdout(process):
    server = process().initialize()
    assert server.call("noisy") == "quiet"
    assert server.ask("ping")["result"] == {}
    server.child.stdin.close()
    status, stderr = server.end()
    assert status == 0
    for text in ("printed", "written", "raw", "from C", "from a child"):
        assert text in stderr


def test_handlers_and_their_children_see_no_stdin(process):
    server = process().initialize()
    assert server.call("reads") == "end of fileb''"
    assert server.ask("ping")["result"] == {}


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_utf8_in_every_locale(process, locale):
    server = process(LC_ALL=locale, PYTHONIOENCODING="latin-1").initialize()
    text = "é \U0001f600 \u2028 \u0085 שלום a\nb\r\nc \u0301"
    assert server.call("echo", text=text) == text


def test_any_framing_of_the_input(process):
    server = process()
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    server.write(b"\xef\xbb\xbf" + line + b"\r\n\n   \n")
    assert server.receive()["result"] == {}
    for byte in line + b"\n":
        server.write(bytes([byte]))
    assert server.receive()["result"] == {}
    server.write((line + b"\n") * 50)
    assert [server.receive()["result"] for _ in range(50)] == [{}] * 50


def test_a_line_that_is_too_long_is_refused_and_the_next_one_served(process):
    server = process().initialize()
    server.write(b"x" * 200_000 + b"\n")
    error = server.receive()
    assert error["error"]["code"] == -32700 and error.get("id") is None
    for text in ("x" * 100_000, "é" * 500_000):
        answer = server.ask("tools/call", {"name": "echo", "arguments": {"text": text, "id": 7}})
        assert answer["error"]["code"] == -32600 and "the limit is 100000" in answer["error"]["message"]
    assert server.ask("ping")["result"] == {}


def hello(version):
    return [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"}]


def call(id, name, **arguments):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": name, "arguments": arguments, "_meta": {"progressToken": id}}}


@pytest.mark.parametrize("source", ["pipe", "file"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", None])
@pytest.mark.slow
def test_what_runs_at_the_end_of_stdin_is_answered(tmp_path, source, version):
    path, messages = tmp_path / "server.py", [*hello(version)] if version else []
    path.write_text(SERVER.replace('"0.5"', '"30"'))
    for id in range(1, 101):
        name = ("echo", "soon")[id % 2]
        arguments = {"text": "x" * 50_000} if name == "echo" else {}
        messages.append(call(id, name, **arguments) if version else stateless.message(
            "tools/call", {"name": name, "arguments": arguments}, id=id, progressToken=id))
    data = "".join(json.dumps(message) + "\n" for message in messages).encode()
    (tmp_path / "messages").write_bytes(data)
    with open(tmp_path / "messages", "rb") as file:
        given = {"input": data} if source == "pipe" else {"stdin": file}
        done = subprocess.run([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, **given)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["id"] for one in said if "id" in one} == {one["id"] for one in messages if "id" in one}
    assert all("result" in one for one in said if "id" in one)
    assert sum(one.get("method") == "notifications/progress" for one in said) == 100
    assert done.returncode == 0 and done.stderr.replace(b"\r", b"") == b"clean end\n"


def test_a_subscription_does_not_delay_the_end_of_stdin(process):
    server = process(GRACE="30")
    server.send(stateless.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l"))
    server.receive()
    server.send(stateless.message("tools/call", {"name": "soon", "arguments": {}}, id="s", progressToken="s"))
    server.child.stdin.close()
    answers = [json.loads(line) for line in server.child.stdout.read().splitlines()]
    assert {one["id"] for one in answers if "id" in one} == {"l", "s"}
    assert server.end()[0] == 0


@posix_only
@pytest.mark.parametrize("messages", [[], hello("2025-06-18"), [*hello("2025-06-18"), call(1, "wait")]])
def test_a_server_whose_reader_is_gone_ends(process, messages):
    server = process(GRACE="30")
    for message in messages:
        server.send(message)
    for _ in range(len(messages) > 0) if len(messages) < 3 else range(2):
        server.receive()
    server.child.stdout.close()
    status, stderr = server.end()
    assert status == 0 and "clean end" in stderr and "Traceback" not in stderr
    assert ("told to stop" in stderr) == (len(messages) == 3)


def test_a_server_that_cannot_write_ends(process):
    server = process().initialize()
    server.child.stdout.close()
    server.start("ping")
    status, stderr = server.end()
    assert status == 0 and "clean end" in stderr and "Traceback" not in stderr


@posix_only
@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.slow
def test_closed_descriptors(tmp_path, closed, taken):
    path, file = tmp_path / "server.py", tmp_path / "file"
    path.write_text((f"import os\nos.open({str(file)!r}, os.O_RDWR | os.O_CREAT)\n" if taken else "")
                    + "import mcplite\nmcp = mcplite.Server('x')\n@mcp.tool()\ndef f() -> str:\n    os.write(1, b'raw')\n"
                      "    print('printed')\n    return 'f'\nimport os\nmcp.run()\n")
    data = json.dumps(stateless.message("tools/call", {"name": "f", "arguments": {}}, id=1)).encode() + b"\n"
    child = subprocess.Popen([sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "PYTHONPATH": str(ROOT)}, preexec_fn=lambda: [os.close(fd) for fd in closed])
    stdout, stderr = child.communicate(None if 0 in closed else data, timeout=30)
    if closed == (2,):
        assert child.returncode == 0 and json.loads(stdout)["result"]["content"][0]["text"] == "f"
    else:
        assert child.returncode == 1 and not stdout
        assert 2 in closed or all(f"(descriptor {fd})" in stderr.decode() for fd in set(closed) & {0, 1})
        assert stderr.count(b"\n") == (2 not in closed)
    assert not taken or file.read_bytes() == b""


@pytest.mark.parametrize("environment", [
    {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252:strict"}, {"PYTHONUNBUFFERED": "1"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}])
def test_print_fails_in_no_locale(process, environment):
    server = process(**environment).initialize()
    assert server.call("does", code="print('漢 é \\udc80', flush=True); import sys; sys.stdout.write('é')") == "done"
    server.child.stdin.close()
    status, stderr = server.end()
    assert status == 0 and "Traceback" not in stderr


@pytest.mark.parametrize("code", [
    "sys.stdout.close()", "sys.__stdout__.close()", "sys.stdout.buffer.close()", "sys.stdin.close()", "print(file=None)",
"sys.stdout = None", "sys.stderr.close(); sys.stderr = None", "os.close(1)"])
@pytest.mark.slow
def test_a_handler_may_close_what_it_prints_to(process, code):
    server = process().initialize()
    assert server.call("does", code=f"import os, sys; {code}; print('after')") == "done"
    assert server.call("does", code="print('later'); import sys; sys.stdout and sys.stdout.flush()") == "done"
    server.child.stdin.close()
    if "stderr" not in code:  # with which the server's last line fails
        status, stderr = server.end()
        assert status == 0 and "Traceback" not in stderr


def test_print_does_not_fail_without_a_reader_of_stderr(process):
    server = process().initialize()
    # Its descriptor 1 becomes a pipe that has no reader, as it is when that of stderr has left.
    assert server.call("does", code="import os; r, w = os.pipe(); os.dup2(w, 1); os.close(r); os.close(w)") == "done"
    for _ in range(3):
        assert server.call("does", code="print('x' * 100_000, flush=True)") == "done"
    server.child.stdin.close()
    assert server.end()[0] == 0


def test_garbage_is_answered_and_logged_sparingly(process):
    server = process().initialize()

    def flood():
        for _ in range(4000):
            server.write(b"garbage\n")

    writer = threading.Thread(target=flood)
    writer.start()
    for _ in range(4000):
        assert server.receive()["error"]["code"] == -32700
    writer.join(20)
    assert server.ask("ping")["result"] == {}
    assert len(server.stderr) < 65536


def test_the_end_of_stdin_ends_the_server_and_cancels_its_handlers(process):
    server = process().initialize()
    server.start("tools/call", {"name": "wait"})
    assert server.receive()["method"] == "notifications/message"
    server.child.stdin.close()
    status, stderr = server.end()
    assert status == 0 and "told to stop" in stderr and "clean end" in stderr and "Traceback" not in stderr


def test_half_a_line_at_the_end_is_ignored(process):
    server = process().initialize()
    server.write(b'{"jsonrpc":"2.0","id":9,')
    server.child.stdin.close()
    assert server.child.stdout.read() == b""
    assert server.end()[0] == 0


def test_a_hanging_handler_does_not_delay_the_end_and_is_logged(process):
    server = process().initialize()
    server.start("tools/call", {"name": "hang"})
    server.receive()
    server.child.stdin.close()
    status, stderr = server.end()
    assert status == 0 and "a handler is still running at the end" in stderr and "in hang" in stderr
    assert "Fatal Python error" not in stderr


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("tool", [None, "wait", "hang"])
@pytest.mark.slow
def test_the_first_signal_ends_it_cleanly(process, how, tool):
    server = process().initialize()
    if tool:
        server.start("tools/call", {"name": tool})
        server.receive()
    ask_to_stop(server.child, how)
    status, stderr = server.end()
    assert status == 0 and "clean end" in stderr and "Traceback" not in stderr


def test_a_client_that_does_not_read_is_served_when_it_does(process):
    server = process().initialize()
    text = "x" * 500

    def flood():
        for _ in range(1000):
            server.start("tools/call", {"name": "echo", "arguments": {"text": text}})

    flood()
    answers = [server.receive() for _ in range(1000)]
    assert len({answer["id"] for answer in answers}) == 1000
    assert all(answer["result"]["content"][0]["text"] == text for answer in answers)


def test_stdin_and_stdout_have_one_owner_at_a_time():
    before = [os.fstat(fd).st_ino for fd in (0, 1)]
    for _ in range(2):
        with own_streams() as (read_fd, write_fd):
            assert os.fstat(read_fd).st_ino == before[0] and os.fstat(write_fd).st_ino == before[1]
            with pytest.raises(RuntimeError, match="another server"):
                Server("second").run()
            os.close(read_fd)
            os.close(write_fd)
        assert [os.fstat(fd).st_ino for fd in (0, 1)] == before


def test_serving_given_streams_from_another_thread():
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    server = Server("thread")
    thread = threading.Thread(target=serve_stdio, args=(server.runtime,), kwargs={"streams": (theirs_in, theirs_out)})
    thread.start()
    os.write(ours_out, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert json.loads(os.read(ours_in, 1000)) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    os.close(ours_out)
    thread.join(20)
    assert not thread.is_alive()
    os.close(ours_in)


@pytest.mark.slow
def test_a_client_killed_in_the_middle_leaves_no_server_behind(process, tmp_path):
    script = tmp_path / "client.py"
    script.write_text(
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {str(tmp_path / 'server.py')!r}], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\ntime.sleep(60)\n")
    client = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})
    pid = int(client.stdout.readline())
    client.kill()
    client.wait(20)
    client.stdout.close()
    try:
        psutil.Process(pid).wait(20)
    except psutil.NoSuchProcess:
        pass  # it was gone before we looked


def test_a_subscription_ends_with_the_server(process):
    # SUBS-11, SUBS-12
    server = process()
    server.send(stateless.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l"))
    assert server.receive()["method"] == "notifications/subscriptions/acknowledged"
    ask_to_stop(server.child)
    assert server.receive()["result"]["resultType"] == "complete"
    assert server.receive()["method"] == "notifications/cancelled"
    assert server.end()[0] == 0


def test_unread_notifications_do_not_delay_the_end(process):
    # What is stuck in the pipe holds no lock that the end needs.
    server = process()
    server.send(stateless.message("tools/call", {"name": "flood", "arguments": {}}, id="f", progressToken="f"))
    while b"flooding" not in server.stderr:
        assert server.child.poll() is None
        threading.Event().wait(0.02)
    ask_to_stop(server.child)
    status, stderr = server.end()
    assert status == 0 and "clean end" in stderr

"""What is tortured: short conversations that use each kind of thread, descriptor and lock of the package.

A scenario may fail only with an error that its caller is told to expect. Whatever the fault, a server must serve the next
client, and closing must return.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path

import mcplite
from mcplite.rpc.stdio.pipes import PipeChannel
from mcplite.server.sessions.legacy import serve_channel
from tests.support.rawhttp import Wire, begin, call, listen, request
from tests.torture.server import mcp

HERE = Path(__file__).resolve().parent
#: Seconds that one step of a client may take; only a fault of the package makes it wait that long.
SECONDS = 30
#: Seconds for a call that waits for an answer of ours, which the fault may have kept from going out.
ANSWER_SECONDS = 2
#: What a call of a client may raise: an error of the package, or the lack of memory on its own thread.
EXPECTED = mcplite.MCPError, MemoryError


def _attempt(step, errors):
    """Run a step; return whether it succeeded, and keep its error if that is one to expect."""
    try:
        step()
        return True
    except EXPECTED as error:
        errors.append(error)
        return False


def _use(client, *more, seconds=SECONDS):
    """Open a client, use it, and close it.

    After the fault the client serves, or it has ended with an error that names the cause.
    """
    def add():
        result = client.call_tool("add", {"a": 1, "b": 2}, timeout=seconds)
        assert result.content[0].text == "3", result

    errors = []
    try:
        for step in (client.open, add, *more, lambda: client.list_tools(timeout=seconds)):
            _attempt(step, errors)
        # The fault may strike the first of them.
        if not (_attempt(add, errors) or _attempt(add, errors)):
            assert not isinstance(errors[-1], mcplite.RequestTimeout), errors
            assert any("injected" in str(error) for error in errors), f"no error names the cause: {errors!r}"
    finally:
        client.close()


def stdio_client(url):
    """A child process, a log handler, a file for its stderr, pings."""
    with tempfile.TemporaryDirectory() as folder:
        _use(mcplite.connect([sys.executable, "-m", "mcplite.server", str(HERE / "server.py")],
                             options=mcplite.ClientOptions(era="legacy", ping_interval=0.02, grace=1.0),
                             log_handler=lambda message: None, stderr=os.path.join(folder, "stderr"), timeout=SECONDS))


def _http_client(url, era):
    answers = []

    def answer(*arguments):
        answers.append(arguments)
        return False

    client = mcplite.connect(url, options=mcplite.ClientOptions(era=era, on_tools_changed=lambda: None), timeout=SECONDS,
                             elicitation_handler=answer, log_handler=lambda message: None)
    _use(client, lambda: client.call_tool("talk", {}, on_progress=lambda *report: None, timeout=SECONDS),
         lambda: client.call_tool("ask", {}, timeout=ANSWER_SECONDS))


def http_client_of_the_handshake_era(url):
    """Sessions, a GET stream, a question in the middle of a call."""
    _http_client(url, "legacy")


def http_client_without_a_session(url):
    """Requests that stand alone, a subscription, a question as a result."""
    _http_client(url, "modern")


def _line(file):
    return json.loads(file.readline())


def pipe_server(url):
    """A server on a pipe: its reader, its watchdog, its workers."""
    read_fd, theirs_out = os.pipe()
    theirs_in, write_fd = os.pipe()
    ended = threading.Event()
    try:
        channel = PipeChannel(read_fd, write_fd, name="the client", line_limit=1 << 20)
    except EXPECTED:
        for fd in (read_fd, write_fd, theirs_in, theirs_out):
            os.close(fd)
        return
    os.set_blocking(theirs_in, True)
    try:
        peer = serve_channel(mcp.runtime, channel, ended.set)
    except EXPECTED:
        os.close(theirs_in)
        os.close(theirs_out)
        return
    peer_input, peer_output = os.fdopen(theirs_out, "wb", 0), os.fdopen(theirs_in, "rb")

    def ask(id, method, params):
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        peer_input.write(json.dumps(message).encode() + b"\n")

    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                      "io.modelcontextprotocol/clientCapabilities": {}}}
    timer = threading.Timer(2 * SECONDS, lambda: peer.close())  # ends the wait for an answer that does not come
    timer.start()
    answered = set()
    try:
        for id in range(1, 9):
            with contextlib.suppress(OSError):
                ask(id, "tools/call", {"name": "add" if id % 2 else "talk", "arguments": {"a": 1, "b": 2} if id % 2 else {},
                                       **meta})
        while len(answered) < 7:  # one answer may be lost with the fault
            data = peer_output.readline()
            if not data:
                break
            answered |= {json.loads(data).get("id")} - {None}
        # The server serves on, or it says that its client is gone.
        assert len(answered) >= 7 or ended.wait(SECONDS), f"the server on a pipe has stopped, with answers to {answered}"
        assert timer.is_alive(), f"an answer was waited for, after {answered}"
    finally:
        timer.cancel()
        peer_input.close()
        peer.close()
        peer_output.close()
        timer.join()


def http_server(url):
    """The HTTP server: its leader, connections, event streams, a slow client, the end."""
    try:
        server = mcplite.serve(mcp).start()
    except (OSError, *EXPECTED):
        return  # it could not be started, and says so
    try:
        for attempt in range(4):
            try:
                with Wire(server.port) as wire:
                    wire.sock.settimeout(SECONDS)
                    session = begin(wire)
                    assert b'"3"' in wire.post(call("add", a=1, b=2), session).body
                    assert b"done" in wire.post(call("talk"), session).body
                    with listen(server.port, session) as stream, Wire(server.port) as other:
                        stream.sock.settimeout(SECONDS)
                        other.sock.settimeout(SECONDS)
                        whole = request("DELETE", headers={"Mcp-Session-Id": session})
                        other.send(whole[:20])
                        other.send(whole[20:])
                        assert other.reply().status in (200, 204)
                    break
            except socket.timeout:
                raise AssertionError("the HTTP server does not answer") from None
            except (OSError, AssertionError, ValueError):
                if attempt == 3:
                    raise
    finally:
        with contextlib.suppress(MemoryError):
            server.close()


SCENARIOS = [stdio_client, http_client_of_the_handshake_era, http_client_without_a_session, pipe_server, http_server]

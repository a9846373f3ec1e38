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
from mcplite.auth.login.file_store import FileStore
from mcplite.auth.login.loopback import LoopbackListener
from mcplite.rpc.stdio.pipes import PipeChannel
from mcplite.server.sessions.opening import serve_channel
from tests.support.rawhttp import Wire, begin, call, listen, request
from tests.torture.server import mcp

HERE = Path(__file__).resolve().parent
#: Seconds that one step of a client may take; only a fault of the package makes it wait that long.
SECONDS = 30
#: Seconds for a call that waits for an answer of ours, which the fault may have kept from going out.
ANSWER_SECONDS = 2
#: Seconds for a call whose request the fault may have lost.
LOST_SECONDS = 5
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


def _steps(*steps):
    """Run each step; each may fail as expected."""
    for step in steps:
        _attempt(step, [])


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
        _use(mcplite.connect([sys.executable, "-I", "-S", str(HERE / "child.py")],
                             options=mcplite.ClientOptions(era="legacy", ping_interval=0.02, grace=1.0),
                             log_handler=lambda message: None, stderr=os.path.join(folder, "stderr"),
                             timeout=SECONDS))


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


def memory(url):
    """Both sides in one process."""
    client = mcplite.connect(mcp, timeout=LOST_SECONDS, elicitation_handler=lambda *_: False,
                             log_handler=lambda message: None)
    # A server without memory for a message loses it, and its call ends with its timeout.
    _use(client, lambda: client.call_tool("talk", {}, timeout=LOST_SECONDS),
         lambda: client.call_tool("ask", {}, timeout=ANSWER_SECONDS), seconds=LOST_SECONDS)


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


def file_store(url):
    """The store of credentials: what it has acknowledged is there, and the file is whole."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        store = FileStore(os.path.join(folder, "credentials.json"))
        saved = False
        with contextlib.suppress(*EXPECTED):
            store.save("a", {"n": 1})
            saved = True
        _steps(lambda: store.save("b", {"n": 2}), lambda: store.keys())
        with contextlib.suppress(*EXPECTED), store.lock("a", lambda: None):
            pass
        _steps(lambda: store.delete("b"))
        with contextlib.suppress(*EXPECTED):
            found = store.load("a")
            assert found == {"n": 1} or not saved, found
        for last in (False, True):  # the fault may strike the first
            with contextlib.suppress(*(() if last else EXPECTED)):
                store.save("c", {"n": 3})
                assert store.load("c") == {"n": 3}
                break


def directory(url):
    """Files as resources."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("text")
        server = mcplite.Server("files")
        server.add_directory("file:///d", folder)
        client = mcplite.connect(server, timeout=SECONDS)
        try:
            _steps(client.open, lambda: client.read_resource("file:///d/a.txt"), lambda: client.read_resource("file:///d/"),
                   lambda: client.read_resource("file:///d/a.txt"))
        finally:
            client.close()


def _closed(sock):
    """Return whether the other side has closed a connection."""
    sock.setblocking(False)
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def loopback(url):
    """The listener for the browser that comes back from a login."""
    try:
        listener = LoopbackListener()
    except OSError:
        return
    found = None
    try:
        port = int(listener.redirect_uri.rpartition(":")[2].partition("/")[0])
        for _ in range(4):
            with socket.create_connection(("127.0.0.1", port), SECONDS) as browser:
                with contextlib.suppress(OSError):
                    browser.sendall(f"GET /callback?code=1&state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                for _ in range(40):
                    found = listener.serve("s", 0.1)
                    if found is not None or _closed(browser):
                        break
            if found is not None:
                break
        assert found is not None and found.endswith("code=1&state=s")
        listener.send_page(200, "You are logged in")
    finally:
        listener.close()


SCENARIOS = [stdio_client, http_client_of_the_handshake_era, http_client_without_a_session, memory, pipe_server, http_server,
             file_store, directory, loopback]

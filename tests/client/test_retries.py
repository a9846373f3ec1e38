"""``ClientOptions(retry=)``: what is sent again when connections, servers and processes fail, and how often it took effect."""

import contextlib
import json
import queue
import random
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import mcplite
from mcplite.client import retries
from mcplite.errors import Cancelled, ConnectionClosed, HTTPStatusError, RemoteError, TransportError
from mcplite.middleware import LimitRate
from mcplite.server import Server

ERAS = ["legacy", "modern"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.01)


class Gateway:
    """Passes connections on to a server, and cuts some of them off: after so many bytes of what comes back.

    :param cuts: for each connection with a request whose body has *mark*: how many bytes of the response pass; None for all.
    """

    def __init__(self, url, cuts, mark=b'"tools/call"'):
        self._port, self._cuts, self._mark = int(url.rpartition(":")[2].partition("/")[0]), list(cuts), mark
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/mcp"
        self._threads = [threading.Thread(target=self._accept)]
        self._open = []
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            state = {"left": None}
            for run in (lambda c=client, s=server, st=state: self._forward(c, s, st),
                        lambda c=client, s=server, st=state: self._return(c, s, st)):
                self._threads.append(threading.Thread(target=run))
                self._threads[-1].start()

    def _forward(self, client, server, state):
        with contextlib.suppress(OSError):
            while True:
                data = client.recv(65536)
                if not data:
                    break
                if self._mark in data and self._cuts:
                    state["left"] = self._cuts.pop(0)
                server.sendall(data)
        self._end(client, server)

    def _return(self, client, server, state):
        with contextlib.suppress(OSError):
            while True:
                data = server.recv(65536)
                if state["left"] is not None:
                    client.sendall(data[:state["left"]])
                    state["left"] -= len(data)
                    if state["left"] <= 0:
                        break
                elif not data:
                    break
                else:
                    client.sendall(data)
        self._end(client, server)

    def _end(self, *sockets):
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._end(self._listening, *self._open)
        self._listening.close()
        for thread in self._threads:
            thread.join(20)
        for sock in self._open:
            sock.close()


def with_tools():
    server = Server("shop")
    server.ran = []

    @server.tool(annotations={"readOnlyHint": True})
    def look(n: int) -> int:
        server.ran.append(("look", n))
        return n

    @server.tool(annotations={"idempotentHint": True})
    def put(n: int) -> int:
        server.ran.append(("put", n))
        return n

    @server.tool()
    def pay(n: int) -> int:
        server.ran.append(("pay", n))
        return n

    @server.resource("shop://shelf")
    def shelf() -> str:
        server.ran.append(("shelf", 0))
        return "full"

    return server


def options(era, retry=4, **more):
    return mcplite.ClientOptions(era=era, retry=retry, **more)


@pytest.fixture
def cut():
    """Returns a server and the URL of a gateway to it that cuts connections off."""
    with contextlib.ExitStack() as stack:
        def make(*cuts, mark=b'"tools/call"'):
            server = with_tools()
            served = stack.enter_context(mcplite.serve(server))
            gateway = Gateway(served.url, cuts, mark)
            stack.callback(gateway.close)
            return server, gateway.url

        yield make


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("bytes", [0, 1, 40, 150])
@pytest.mark.parametrize("tool", ["look", "put"])
def test_a_tool_that_may_run_twice_is_called_again(era, bytes, tool, cut):
    server, url = cut(bytes, 0)
    with mcplite.connect(url, options=options(era)) as client:
        assert client.call_tool(tool, {"n": 1}).data == 1
    assert set(server.ran) == {(tool, 1)} and 2 <= len(server.ran) <= 3


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("bytes", [0, 40, 150])
def test_one_that_may_have_run_is_not(era, bytes, cut):
    server, url = cut(bytes)
    with mcplite.connect(url, options=options(era)) as client:
        with pytest.raises(TransportError, match="may or may not have done what was asked"):
            client.call_tool("pay", {"n": 1})
        assert client.call_tool("pay", {"n": 2}).data == 2
    assert server.ran == [("pay", 1), ("pay", 2)]


@pytest.mark.parametrize("era", ERAS)
def test_lists_and_reads_are_sent_again(era, cut):
    server, url = cut(0, 40, mark=b'"resources/read"')
    with mcplite.connect(url, options=options(era)) as client:
        assert client.read_resource("shop://shelf").text == "full"
    server, url = cut(10, 150, 0, mark=b'"tools/list"')
    with mcplite.connect(url, options=options(era)) as client:
        assert len(client.list_tools()) == 3


@pytest.mark.parametrize("era", ERAS)
def test_without_the_option_everything_is_as_before(era, cut):
    server, url = cut(0)
    with mcplite.connect(url, options=mcplite.ClientOptions(era=era)) as client:
        with pytest.raises(TransportError):
            client.call_tool("look", {"n": 1})
    assert len(server.ran) == 1


def test_the_attempts_end_with_the_last_error(cut):
    server, url = cut(*[0] * 9)
    with mcplite.connect(url, options=options("modern", 3)) as client:
        client.list_tools()
        with pytest.raises(TransportError, match="broke before the request was answered"):
            client.call_tool("look", {"n": 1})
    assert server.ran == [("look", 1)] * 3


def test_random_cuts_never_run_a_payment_twice(cut):
    randomly = random.Random(7)
    cuts = [randomly.choice([None, 0, 10, 100, 300]) for _ in range(60)]
    server, url = cut(*cuts)
    with mcplite.connect(url, options=options("modern", 8)) as client:
        client.list_tools()
        for number in range(30):
            assert client.call_tool("put", {"n": number}).data == number
            with contextlib.suppress(TransportError):
                client.call_tool("pay", {"n": number})
    payments = [n for name, n in server.ran if name == "pay"]
    assert len(payments) == len(set(payments)) and len(server.ran) > 60


def test_a_server_that_is_not_there_yet_is_waited_for():
    """Nothing was sent, so that any call is repeated."""
    server = with_tools()
    with mcplite.serve(server) as served:
        client = mcplite.connect(served.url, options=options("modern", 50)).open()
        client.list_tools()
        port = int(served.url.rpartition(":")[2].partition("/")[0])
    again = threading.Timer(0.2, lambda: restarted.append(mcplite.serve(server, port=port)))
    restarted = []
    again.start()
    try:
        assert client.call_tool("pay", {"n": 1}).data == 1
        assert server.ran == [("pay", 1)]
    finally:
        again.join()
        client.close()
        restarted[0].close()


# --- statuses ---------------------------------------------------------------------------------------------------


class Busy(BaseHTTPRequestHandler):
    """Answers tools/call with a status so many times, and then as a server of July 2026."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server, result = self.server, {"resultType": "complete"}
        status, headers = 200, {}
        if message["method"] == "tools/call":
            server.calls.append(time.monotonic())
            if len(server.calls) <= server.times:
                status, headers = server.status, server.headers
            result.update(content=[{"type": "text", "text": "done"}])
        elif message["method"] == "tools/list":
            hints = {"readOnlyHint": True} if server.safe else {}
            result.update(tools=[{"name": "act", "inputSchema": {"type": "object"}, "annotations": hints}], ttlMs=0,
                          cacheScope="private")
        else:
            result.update(supportedVersions=["2026-07-28"], capabilities={"tools": {}}, ttlMs=0, cacheScope="private")
        body = b"busy" if status != 200 else json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)),
                            "Content-Type": "application/json" if status == 200 else "text/plain"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def busy():
    with contextlib.ExitStack() as stack:
        def make(status, times=2, safe=True, **headers):
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Busy))
            server.calls, server.status, server.times, server.safe = [], status, times, safe
            server.headers = {name.replace("_", "-"): value for name, value in headers.items()}
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server, f"http://127.0.0.1:{server.server_port}/mcp"

        yield make


@pytest.mark.parametrize("status, safe, attempts", [
    (429, True, 3), (503, True, 3), (502, True, 3), (504, True, 3), (500, True, 1), (404, True, 1), (403, True, 1),
    (429, False, 3), (503, False, 1), (502, False, 1)])
def test_statuses_that_pass(busy, status, safe, attempts):
    server, url = busy(status, safe=safe)
    with mcplite.connect(url, options=options("modern")) as client:
        if attempts == 3:
            assert client.call_tool("act").text == "done"
        else:
            with pytest.raises(HTTPStatusError):
                client.call_tool("act")
    assert len(server.calls) == attempts


def test_a_server_gets_the_pause_that_it_asks_for(busy):
    server, url = busy(503, times=1, Retry_After="1")
    with mcplite.connect(url, options=options("modern")) as client:
        client.list_tools()
        assert client.call_tool("act").text == "done"
    assert server.calls[1] - server.calls[0] >= 0.99


def test_a_pause_beyond_the_deadline_of_the_call_is_not_begun(busy):
    server, url = busy(503, Retry_After="30")
    with mcplite.connect(url, options=options("modern")) as client:
        client.list_tools()
        for limits in ({"timeout": 5}, {"max_timeout": 5}):
            with pytest.raises(HTTPStatusError) as caught:
                client.call_tool("act", **limits)
            assert caught.value.retry_after == 30
    assert len(server.calls) == 2


def test_a_cancelled_call_is_not_sent_again(busy, monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 100.0)
    monkeypatch.setattr(retries, "_LONGEST_PAUSE", 100.0)
    server, url = busy(503)
    token = mcplite.CancelToken()
    with mcplite.connect(url, options=options("modern", max_timeout=None)) as client:
        client.list_tools()
        timer = threading.Timer(0.2, token.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            client.call_tool("act", timeout=None, cancel=token)
        timer.join()
    assert len(server.calls) == 1


@pytest.mark.parametrize("era", ERAS)
def test_a_refusal_by_rate_is_waited_for(era):
    server = Server("limited", middleware=[LimitRate(1, per=0.3)])
    ran = []
    server.add_tool(lambda: ran.append(1), name="pay")
    with mcplite.connect(server, options=options(era)) as client:
        for _ in range(3):
            client.call_tool("pay").raise_for_error()
    assert len(ran) == 3
    with mcplite.connect(server, options=mcplite.ClientOptions(era=era)) as client:
        with pytest.raises(RemoteError, match="Try again in"):
            for _ in range(10):
                client.call_tool("pay")


# --- processes ---------------------------------------------------------------------------------------------------


DYING = '''
import os, sys
import mcplite
from pathlib import Path

mcp = mcplite.Server("dying")
path = Path(sys.argv[1])

def work(deaths):
    with path.open("a") as file:
        file.write("x")
    if len(path.read_text()) <= deaths:
        os._exit(3)
    return "done"

@mcp.tool(annotations={"readOnlyHint": True})
def look(deaths: int) -> str:
    return work(deaths)

@mcp.tool()
def pay(deaths: int) -> str:
    return work(deaths)

mcp.run()
'''


@pytest.mark.parametrize("era", ERAS)
def test_a_process_that_ends_is_started_again_for_the_call(era, tmp_path):
    (tmp_path / "dying.py").write_text(DYING)

    def client(name):
        return mcplite.connect([sys.executable, str(tmp_path / "dying.py"), str(tmp_path / name)], options=options(era))

    with client("look") as looking:
        assert looking.call_tool("look", {"deaths": 2}).data == "done"
    assert (tmp_path / "look").read_text() == "xxx"
    with client("pay") as paying:
        with pytest.raises(ConnectionClosed, match="may or may not have done what was asked, so it was not sent again"):
            paying.call_tool("pay", {"deaths": 1})
        assert paying.call_tool("pay", {"deaths": 1}).data == "done", "the next call starts it again"
    assert (tmp_path / "pay").read_text() == "xx"


LEAVING = '''
import os, sys
import mcplite
from pathlib import Path

mcp = mcplite.Server("leaving")
begun = Path(sys.argv[1])
if not begun.exists():
    mcp.add_resource("note://gone", lambda: "gone", name="gone")
begun.touch()
mcp.add_resource("note://stays", lambda: "here", name="stays")

@mcp.tool()
def leave() -> None:
    os._exit(3)

@mcp.tool()
def change() -> None:
    mcp.resource_updated("note://stays")

mcp.run()
'''


def test_a_process_that_is_started_again_without_a_resource_can_be_used(tmp_path, caplog):
    (tmp_path / "leaving.py").write_text(LEAVING)
    updated, called = queue.Queue(), queue.Queue()
    with mcplite.connect([sys.executable, str(tmp_path / "leaving.py"), str(tmp_path / "begun")],
                         options=options("legacy", on_resource_updated=updated.put)) as client:
        for name in ("gone", "stays"):
            client.subscribe_resource(f"note://{name}")
        listened = client.listen(resources=["note://stays"])
        client.subscribe(called.put, resources=["note://stays"])
        with pytest.raises(ConnectionClosed):
            client.call_tool("leave")
        client.call_tool("change").raise_for_error()
        assert updated.get(timeout=30) == "note://stays"
        assert listened.get(timeout=30) == called.get(timeout=30) == mcplite.ResourceUpdated(uri="note://stays")
    assert "refuses 'resources/subscribe' in a new session, so it is left out" in caplog.text


@pytest.mark.parametrize("retry", [0, -1, True, 2.5, "3"])
def test_a_number_of_attempts_that_is_none_is_refused(retry):
    with pytest.raises(ValueError, match="retry= is a number of attempts, such as 3"):
        mcplite.ClientOptions(retry=retry)

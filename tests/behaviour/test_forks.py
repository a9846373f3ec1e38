"""Every object of the package in a forked process: it works there, or says at once what to do instead."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests
from requests.adapters import HTTPAdapter

import mcplite
from tests.support import connecting
from tests.support.forks import LIMIT, POSIX_ONLY, Forked, fork, fork_that_lives, in_fork
from tests.support.processes import at_once, free_port, running, serving

pytestmark = POSIX_ONLY
ROOT = Path(__file__).resolve().parents[2]
ERAS = ["2025-11-25", "2026-07-28"]


def refusal(call):
    """Return the text of the error with which a use is refused."""
    with pytest.raises(mcplite.errors.ConnectionClosed) as caught:
        call()
    return str(caught.value)


# --- clients, over every transport -----------------------------------------------------------------------------------


def test_a_client_in_forked_processes(host, client):
    client.call_tool("echo", {"text": "before"})
    works = host.name not in ("memory", "stdio", "sse") and not host.name.startswith("mounted")

    def forked():
        found = []
        for _ in range(4):
            try:
                found.append(client.call_tool("echo", {"text": str(os.getpid())}).text == str(os.getpid()))
            except mcplite.errors.ConnectionClosed as error:
                found.append(str(error))
        state = client.state
        client.close()
        with host.connect(revision=client.protocol_version, timeout=LIMIT) as own:
            text = own.call_tool("echo", {"text": "own"}).text
        return os.getpid(), found, state, text

    three = [Forked(forked) for _ in range(3)]
    assert [client.call_tool("echo", {"text": f"mine {i}"}).text for i in range(8)] == [f"mine {i}" for i in range(8)]
    for one in three:
        pid, found, state, text = one.result()
        assert text == "own"
        if works:
            assert found == [True] * 4 and state == "open"
        else:
            assert len(set(found)) == 1 and state == "closed"
            assert f"belongs to process {os.getpid()}, and process {pid} was forked from it" in found[0]
            assert found[0].endswith("open a client in this process")
    assert client.call_tool("echo", {"text": "after"}).text == "after"


def test_a_client_that_is_left_in_a_forked_process(client):
    in_fork(lambda: client.__exit__(None, None, None))
    assert client.call_tool("echo", {"text": "still"}).text == "still"


def test_a_client_that_was_not_open_is_opened_in_a_forked_process(connect):
    client = connect()

    def forked():
        with client:
            return client.call_tool("echo", {"text": "x"}).text

    assert in_fork(forked) == "x"
    assert client.state == "new"


# --- clients of a URL ------------------------------------------------------------------------------------------------


def make_server(**options):
    mcp = connecting.new_server("forked", **options)
    numbers = itertools.count()

    @mcp.tool()
    def greet(name: str) -> str:
        return f"hello {name}"

    @mcp.tool()
    def change(ctx: mcplite.Context) -> int:
        """Change the list of tools and a resource; return the number of sessions."""
        mcp.add_tool(lambda: 1, name=f"more{next(numbers)}")
        mcp.resource_updated("notes://one")
        return len(mcp.sessions)

    @mcp.resource("notes://one")
    def one() -> str:
        return "one"

    @mcp.tool()
    def progress(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        assert forked.wait(LIMIT)
        return "the answer"

    forked = mcp.forked = threading.Event()
    return mcp


@pytest.fixture(params=ERAS)
def url_client(request):
    """A client of a server in this process, over HTTP."""
    mcp = make_server()
    with mcplite.serve(mcp) as server:
        with mcplite.connect(server.url, revision=request.param, timeout=LIMIT) as client:
            client.server, client.forked = server, mcp.forked
            yield client


def test_a_session_of_its_own(url_client):
    assert url_client.call_tool("greet", {"name": "x"}).text == "hello x"
    sessions = len(url_client.server.endpoint.runtime.sessions)
    legacy = url_client.era == "legacy"

    def forked():
        url_client.call_tool("greet", {"name": "y"})
        with_own = int(url_client.call_tool("change").text)
        url_client.close()
        return with_own, url_client.state

    seen, state = in_fork(forked)
    assert seen == (sessions + 1 if legacy else sessions) and state == "closed"
    # The forked process has ended its own session, and not this one.
    assert len(url_client.server.endpoint.runtime.sessions) == sessions
    assert url_client.call_tool("greet", {"name": "z"}).text == "hello z"


@pytest.mark.parametrize("version", ERAS)
def test_handlers_work_in_a_forked_process_once_the_client_is_used(version):
    noted, changed = [], threading.Event()

    def updated(uri):
        noted.append(uri)
        changed.set()

    with mcplite.serve(make_server()) as server, mcplite.connect(
            server.url, revision=version, timeout=LIMIT,
            options=mcplite.ClientOptions(on_resource_updated=updated, ping_interval=60)) as client:
        client.subscribe_resource("notes://one")

        def forked():
            client.call_tool("change")
            return changed.wait(LIMIT), noted[:1], sorted(thread.name for thread in threading.enumerate())

        happened, uris, threads = in_fork(forked)
        assert happened and uris == ["notes://one"] and "mcplite keep-alive" in threads
        assert changed.wait(LIMIT) and noted[:1] == ["notes://one"], "the first process is told, too"


def test_subscriptions_end_in_a_forked_process(url_client):
    with url_client.listen(tools=True) as events:
        def forked():
            said = refusal(lambda: next(iter(events)))
            events.close()
            with url_client.listen(tools=True) as own:
                url_client.call_tool("change")
                return said, type(own.get(LIMIT)).__name__

        said, event = in_fork(forked)
        assert f"belongs to process {os.getpid()}" in said and said.endswith("subscribe in this process")
        assert event == "ToolsChanged"
        assert type(events.get(LIMIT)).__name__ == "ToolsChanged", "the first process is told, too"


def test_a_call_whose_callback_forks_is_answered_in_the_first_process(url_client):
    read, write = os.pipe()
    pids = []

    def fork_here(progress):
        pids.append(fork())
        url_client.forked.set()

    try:
        said = url_client.call_tool("progress", on_progress=fork_here).text
    except mcplite.errors.ConnectionClosed as error:
        said = str(error)
    if pids == [0]:
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(pids[0], 0)
    os.close(write)
    with open(read) as file:
        heard = file.read()
    assert said == "the answer" and f"belongs to process {os.getpid()}" in heard


def test_many_threads_make_the_first_call_in_a_forked_process(url_client):
    url_client.call_tool("greet", {"name": "x"})

    def forked():
        found = []
        at_once(lambda: found.append(url_client.call_tool("greet", {"name": "t"}).text), 8)
        return found, int(url_client.call_tool("change").text)

    found, sessions = in_fork(forked)
    assert found == ["hello t"] * 8
    assert sessions == (2 if url_client.era == "legacy" else 0), "they opened one session"


def test_a_client_whose_server_is_gone_when_it_is_used_in_a_forked_process():
    with mcplite.serve(make_server()) as server, mcplite.connect(server.url, timeout=LIMIT,
                                                                 options=mcplite.ClientOptions(listen=False)) as client:
        client.call_tool("greet", {"name": "x"})
        go_read, go_write = os.pipe()

        def forked():
            os.read(go_read, 1)
            with pytest.raises(mcplite.TransportError) as first:
                client.call_tool("greet", {"name": "y"})
            with pytest.raises(mcplite.TransportError):
                client.call_tool("greet", {"name": "y"})
            client.close()
            return str(first.value)

        waiting = Forked(forked)
    os.write(go_write, b"x")
    assert "cannot reach" in waiting.result()
    os.close(go_read)
    os.close(go_write)


@pytest.mark.parametrize("own", [False, True])
def test_an_adapter_of_the_users_gets_connections_of_its_own(own):
    class Adapter(HTTPAdapter):
        pass

    with requests.Session() as session, mcplite.serve(make_server()) as server:
        if own:
            session.mount("http://", Adapter())
        with mcplite.connect(server.url, session=session, revision="2026-07-28", timeout=LIMIT) as client:
            client.call_tool("greet", {"name": "x"})

            def forked():
                return [client.call_tool("greet", {"name": str(os.getpid())}).text == f"hello {os.getpid()}" for _ in range(5)]

            three = [Forked(forked) for _ in range(3)]
            assert [client.call_tool("greet", {"name": "p"}).text for _ in range(5)] == ["hello p"] * 5
            assert [one.result() for one in three] == [[True] * 5] * 3


def test_a_group_in_a_forked_process(tmp_path):
    program = tmp_path / "server.py"
    program.write_text("import mcplite\nmcp = mcplite.Server('s')\n@mcp.tool()\ndef one() -> int:\n    return 1\nmcp.run()\n")
    with mcplite.serve(make_server()) as server:
        config = {"mcpServers": {"far": {"url": server.url}, "near": {"command": sys.executable, "args": [str(program)],
                                                                       "env": {"PYTHONPATH": str(ROOT)}}}}
        with mcplite.connect_all(config) as group:
            def forked():
                text = group.call_tool("far.greet", {"name": "x"}).text
                said = refusal(lambda: group.call_tool("near.one"))
                group.close()
                return text, said, group.status

            text, said, status = in_fork(forked)
            assert text == "hello x" and f"belongs to process {os.getpid()}" in said
            assert status["near"] == "failed"
            assert group.call_tool("near.one").text == "1"


def test_streams_of_the_callers(capfd):
    ours, theirs = socket.socketpair()
    mcp = make_server()
    with ours, theirs:
        mcp.serve_channel(mcplite.extend.StreamChannel(theirs, theirs))
        with mcplite.connect((ours, ours), timeout=LIMIT) as client:
            def forked():
                said = refusal(lambda: client.call_tool("greet", {"name": "x"}))
                client.close()
                mcp.close()
                return said

            assert "open a client in this process" in in_fork(forked)
            with fork_that_lives():
                assert client.call_tool("greet", {"name": "x"}).text == "hello x"
                client.close()
                try:
                    ended = theirs.fileno() == -1 or theirs.recv(1) == b""
                except OSError:  # the server has closed it meanwhile
                    ended = theirs.fileno() == -1
                assert ended, "the server has seen the end"


def test_tokens_and_stores():
    token, store = mcplite.CancelToken(), mcplite.auth.MemoryStore()
    store.save("key", {"a": 1})

    def forked():
        token.cancel("here")
        store.save("other", {"b": 2})
        with store.lock("key", lambda: None):
            return token.reason, sorted(store.keys())

    assert in_fork(forked) == ("here", ["key", "other"])
    assert not token.cancelled and store.keys() == ["key"]


# --- servers ---------------------------------------------------------------------------------------------------------


def test_leaving_a_server_in_a_forked_process():
    mcp = make_server()
    with mcplite.serve(mcp) as server, mcplite.connect(server.url, timeout=LIMIT) as client:
        client.call_tool("greet", {"name": "x"})

        def forked():
            server.__exit__(None, None, None)
            server.close()
            mcp.close()
            with pytest.raises(RuntimeError) as caught:
                server.start()
            return str(caught.value), server.port

        said, port = in_fork(forked)
        assert f"belongs to process {os.getpid()}" in said and "make one in this process" in said and port == server.port
        assert client.call_tool("greet", {"name": "x"}).text == "hello x"


def test_a_forked_process_serves_the_same_server_itself():
    events = []

    @contextlib.contextmanager
    def lifespan(server):
        events.append("entered")
        yield len(events)
        events.append("left")

    mcp = make_server(lifespan=lifespan)
    with mcplite.serve(mcp) as server, mcplite.connect(server.url, timeout=LIMIT) as client:
        client.call_tool("greet", {"name": "x"})

        def forked():
            with mcplite.serve(mcp) as own, mcplite.connect(own.url, timeout=LIMIT) as far, mcplite.connect(mcp) as near:
                texts = far.call_tool("greet", {"name": "far"}).text, near.call_tool("greet", {"name": "near"}).text
            return texts, events

        texts, seen = in_fork(forked)
        assert texts == ("hello far", "hello near")
        assert seen == ["entered", "entered", "left"], "a lifespan of its own; that of the first process is not left"
        assert events == ["entered"]


@pytest.mark.parametrize("version", ERAS)
def test_a_forked_process_keeps_no_connection_and_no_port(version):
    with mcplite.serve(make_server()) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        client = mcplite.connect(server.url, revision=version, timeout=LIMIT).open()
        client.call_tool("greet", {"name": "x"})
        with fork_that_lives():
            client.close()
            server.close()
            assert connection.recv(1) == b"", "the connection has ended for its client"
            socket.create_server(("127.0.0.1", server.port)).close()
            connection.close()


def test_an_idle_connection_ends_although_a_forked_process_lives():
    with mcplite.serve(make_server(limits=mcplite.Limits(idle_seconds=0.2))) as server:
        with socket.create_connection(("127.0.0.1", server.port), LIMIT) as connection:
            with fork_that_lives():
                assert connection.recv(1) == b""


def test_the_connections_of_a_client_end_although_a_forked_process_lives():
    with mcplite.serve(make_server()) as server:
        client = mcplite.connect(server.url, revision="2026-07-28", timeout=LIMIT).open()
        client.call_tool("greet", {"name": "x"})
        with fork_that_lives():
            client.close()
            until = time.monotonic() + LIMIT
            while server._connections and time.monotonic() < until:
                time.sleep(0.01)
            assert not server._connections


# --- handlers that fork ----------------------------------------------------------------------------------------------

FORKING = """
import multiprocessing, os, signal, sys, time
import mcplite

mcp = mcplite.Server("forking")
fork = multiprocessing.get_context("fork")

def square(number):
    return number * number

@mcp.tool()
def pooled(count: int) -> int:
    with fork.Pool(2) as pool:
        return sum(pool.map(square, range(count)))

@mcp.tool()
def terminated() -> int:
    process = fork.Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode

@mcp.tool()
def interrupted() -> str:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, b"ready ")
            time.sleep(600)
        except KeyboardInterrupt:
            os.write(write, b"interrupted")
        os._exit(0)
    said = os.read(read, 100)
    # Again and again: in a process that a thread has forked, Python 3.13.0 overlooks a signal that comes outside of a call.
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        os.kill(pid, signal.SIGINT)
        time.sleep(1)
    return (said + os.read(read, 100)).decode()

@mcp.tool()
def returns(plain: bool) -> int:
    pid = os.fork()
    if pid == 0:
        if plain:
            return 0
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@mcp.tool()
def returns_from_worker(ctx: mcplite.Context) -> int:
    return returns(True)

@mcp.tool()
def asks(ctx: mcplite.Context) -> str:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctx.info("not sent")
            ctx.report_progress(1)
            ctx.elicit("Who?")
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(read, 4096).decode()

@mcp.tool()
def leaves_one() -> int:
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    return pid

if __name__ == "__main__":
    mcp.run(*sys.argv[1:], **({"port": int(os.environ["PORT"])} if sys.argv[1:] else {}))
"""


@pytest.fixture(scope="module")
def forking(tmp_path_factory):
    path = tmp_path_factory.mktemp("forking") / "forking.py"
    path.write_text(FORKING)
    return path


@pytest.fixture(params=["stdio", "http"])
def remote(request, forking):
    """The target of a server whose tools fork, in a process of its own."""
    if request.param == "stdio":
        yield [sys.executable, "-W", "ignore::DeprecationWarning", str(forking)]
        return
    port = free_port()
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(forking), "streamable-http"]
    with running(command, ROOT, port, PORT=str(port)) as (process, _):
        yield f"http://127.0.0.1:{port}/mcp"
    assert process.returncode == 0, "it ends at the first SIGTERM"


@pytest.fixture(params=ERAS)
def of_forking(request, remote):
    options = {} if isinstance(remote, str) else {"env": {"PYTHONPATH": str(ROOT)}}
    with connecting.connect(remote, revision=request.param, timeout=LIMIT, elicitation_handler=lambda question: True,
                         **options) as client:
        yield client


def test_a_pool_in_a_tool(of_forking):
    for _ in range(20):
        assert int(of_forking.call_tool("pooled", {"count": 10}).text) == 285


@pytest.mark.slow
def test_signals_have_their_former_effect_in_a_process_that_a_tool_forks(of_forking):
    assert int(of_forking.call_tool("terminated").text) == -signal.SIGTERM
    assert of_forking.call_tool("interrupted").text == "ready interrupted"


def test_a_forked_process_that_returns_from_a_tool_ends(of_forking):
    assert int(of_forking.call_tool("returns", {"plain": True}).text) == 1
    assert int(of_forking.call_tool("returns", {"plain": False}).text) == 7
    assert int(of_forking.call_tool("returns_from_worker").text) == 1


def test_a_forked_process_cannot_ask_the_client(of_forking):
    said = of_forking.call_tool("asks").text
    assert said.startswith("ConnectionClosed: the connection to the client belongs to process ")
    assert said.endswith("only that process can reach it")


def test_a_forked_process_does_not_keep_the_clients_pipes(forking):
    process = subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", str(forking)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    with process, process.stdin, process.stdout:
        for message in ({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                                                                     "clientInfo": {"name": "c", "version": "1"}}},
                        {"id": 2, "method": "tools/call", "params": {"name": "leaves_one", "arguments": {}}}):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        pid = answer["result"]["structuredContent"]["result"]
        try:
            process.stdin.close()
            assert process.stdout.read() == b"", "the end of the server's output"
            assert process.wait(LIMIT) == 0
            os.kill(pid, 0)  # it lives
        finally:
            os.kill(pid, signal.SIGKILL)


# --- many processes, in every way in which Python makes them ---------------------------------------------------------

WAYS = [(way, era) for way in ("fork", "process", "executor", "os.fork") for era in ERAS]
WAYS += [("fork", "command"), ("spawn", ERAS[-1]), ("forkserver", ERAS[0])]
#: As ``make chaos`` sets it, as many as leave no doubt.
CALLS = 400 if os.environ.get("MCPLITE_CHAOS") == "whole" else 12


@pytest.fixture(scope="module")
def far():
    """The URL of a server in a process of its own."""
    here = Path(__file__).resolve().parent
    with serving([sys.executable, "-m", "mcplite.server", "server.py", "--http=PORT"], here) as url:
        yield url + "mcp"


@pytest.mark.parametrize(("way", "target"), WAYS)
@pytest.mark.slow
def test_one_client_in_many_processes(way, target, far):
    where, version = ("command", ERAS[-1]) if target == "command" else (far, target)
    program = Path(__file__).resolve().parent / "forking.py"
    done = subprocess.run([sys.executable, str(program), way, where, version, str(CALLS)], stdout=subprocess.PIPE, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=3 * LIMIT + CALLS)
    found = json.loads(done.stdout)
    assert found == {"refused" if target == "command" else "right": CALLS}

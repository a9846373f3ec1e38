"""A mounted client that goes down takes its own part away, says so, and comes back."""

import logging
import queue
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite.errors import ConnectionClosed
from mcplite.proxy import reconnecting
from mcplite.proxy.reconnecting import MainUpstream
from tests.support.children import wait_until
from tests.support.faults import every_fault, lines, strike

LIMIT = 30
ROOT = str(Path(mcplite.__file__).resolve().parent.parent)


class Upstream:
    """A server that can be stopped and started again; each connection to it is a channel of the hub."""

    def __init__(self):
        self.up = True
        self.channels = []
        self.server = self.create()

    def create(self):
        server = mcplite.Server("upstream")
        server.add_tool(lambda: "hi", name="greet")
        return server

    @property
    def name(self):
        return "upstream"

    def serve_channel(self, channel):
        if not self.up:
            raise ConnectionClosed("nothing listens")
        return self.server.serve_channel(channel)

    def stop(self):
        self.up = False
        self.server.close()

    def start(self):
        self.server = self.create()
        self.up = True


@pytest.fixture(params=["legacy", "modern"])
def mounted(request, monkeypatch):
    monkeypatch.setattr(reconnecting, "_FIRST_PAUSE", 0.02)
    upstream, hub = Upstream(), mcplite.Server("hub")
    hub.add_tool(lambda: "own", name="own")
    hub.mount(mcplite.connect(upstream, options=mcplite.ClientOptions(era=request.param)), prefix="up")
    yield hub, upstream
    hub.close()


def wait_for_tools(client, changes, expected):
    while sorted(tool.name for tool in client.list_tools(fresh=True)) != expected:
        changes.get(timeout=LIMIT)


def test_a_mount_goes_down_and_comes_back(mounted, caplog):
    hub, upstream = mounted
    changes = queue.Queue()
    with caplog.at_level(logging.WARNING), mcplite.connect(
            hub, options=mcplite.ClientOptions(on_tools_changed=lambda: changes.put(1))) as client:
        wait_for_tools(client, changes, ["own", "up_greet"])
        upstream.stop()
        wait_for_tools(client, changes, ["own"])
        assert "the mounted server 'up' is down" in caplog.text
        assert client.call_tool("own").text == "own"
        with pytest.raises(mcplite.errors.InternalError, match=r"the mounted server 'up' \(upstream\) cannot be reached"):
            client.call_tool("up_greet")
        upstream.start()
        wait_for_tools(client, changes, ["own", "up_greet"])
        assert client.call_tool("up_greet").text == "hi"
        assert "the mounted server 'up' is back" in caplog.text


def test_a_call_that_ends_its_server_says_so(tmp_path):
    (tmp_path / "fragile.py").write_text("""
import os, mcplite
mcp = mcplite.Server("fragile")
@mcp.tool()
def die() -> str:
    os._exit(7)
mcp.run()
""")
    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect([sys.executable, str(tmp_path / "fragile.py")], env={"PYTHONPATH": ROOT}), prefix="up")
    with mcplite.connect(hub) as client:
        with pytest.raises(mcplite.errors.InternalError,
                           match=r"the mounted server 'up' \(fragile\) did not answer this call: .* exited with status 7"):
            client.call_tool("up_die")


def test_a_mount_that_is_down_from_the_start(mounted):
    hub, upstream = mounted
    upstream.stop()
    changes = queue.Queue()
    with mcplite.connect(hub, options=mcplite.ClientOptions(on_tools_changed=lambda: changes.put(1))) as client:
        assert [tool.name for tool in client.list_tools()] == ["own"]
        assert client.list_resources() == client.list_prompts() == [], "what comes with the server is declared"
        with pytest.raises(mcplite.errors.InternalError, match="the mounted server 'up' cannot be reached"):
            client.call_tool("up_greet")
        upstream.start()
        wait_for_tools(client, changes, ["own", "up_greet"])


def test_a_list_of_a_mounted_client_changes(mounted):
    hub, upstream = mounted
    changed = threading.Event()
    with mcplite.connect(hub, options=mcplite.ClientOptions(on_tools_changed=changed.set)) as client:
        upstream.server.add_tool(lambda: 1, name="new")
        assert changed.wait(LIMIT)
        assert [tool.name for tool in client.list_tools(fresh=True)] == ["own", "up_greet", "up_new"]


def reopening(hub, upstream, serve):
    """Have a function serve the next connection to a server that goes down; return what keeps the mount, and its thread."""
    kept = next(value for value in vars(hub.registry.providers[0]).values() if isinstance(value, MainUpstream))
    begun, usual = threading.Event(), upstream.serve_channel

    def late(channel):
        upstream.serve_channel = usual
        begun.set()
        return serve(channel)

    upstream.serve_channel = late
    upstream.server.close()
    upstream.server = upstream.create()
    assert begun.wait(LIMIT)
    (keeper,) = [thread for thread in threading.enumerate() if "mount of" in thread.name]
    return kept, keeper


def test_an_attempt_that_ends_late_leaves_the_connection_of_later_clients_alone(mounted):
    hub, upstream = mounted
    gate, usual = threading.Event(), upstream.serve_channel

    def serve(channel):
        assert gate.wait(LIMIT)
        return usual(channel)

    with mcplite.connect(hub) as client:
        assert client.call_tool("up_greet").text == "hi"
        kept, keeper = reopening(hub, upstream, serve)
    assert wait_until(lambda: kept._run is None)
    with mcplite.connect(hub) as client:
        assert client.call_tool("up_greet").text == "hi"
        gate.set()
        keeper.join(LIMIT)
        assert not keeper.is_alive()
        assert client.call_tool("up_greet").text == "hi" and [tool.name for tool in client.list_tools()] == ["own", "up_greet"]


def test_an_attempt_ends_with_the_last_client(mounted):
    hub, upstream = mounted
    with mcplite.connect(hub) as client:
        assert client.call_tool("up_greet").text == "hi"
        _, keeper = reopening(hub, upstream, lambda channel: None)  # a server that does not answer
    keeper.join(LIMIT)
    assert not keeper.is_alive()


@every_fault
@pytest.mark.slow
def test_a_mount_comes_back_after_a_fault_of_the_thread_that_keeps_it(mounted, monkeypatch, caplog, fault):
    hub, upstream = mounted
    changes = queue.Queue()
    with mcplite.connect(hub, options=mcplite.ClientOptions(on_tools_changed=lambda: changes.put(1))) as client:
        wait_for_tools(client, changes, ["own", "up_greet"])
        kept = next(value for value in vars(hub.registry.providers[0]).values() if isinstance(value, MainUpstream))
        struck = strike(monkeypatch, kept._pool.main.client, "ping", fault)
        kept.doubt()
        assert struck.wait(LIMIT)
        for _ in range(2):
            upstream.stop()
            wait_for_tools(client, changes, ["own"])
            upstream.start()
            wait_for_tools(client, changes, ["own", "up_greet"])
            assert client.call_tool("up_greet").text == "hi"
    assert lines(caplog, "mount of ") == 1


@every_fault
@pytest.mark.parametrize("name", ["_fault", "_look_after", "_close"])
@pytest.mark.slow
def test_a_fault_costs_the_connection_and_another_is_opened(mounted, monkeypatch, fault, name):
    hub, upstream = mounted
    changes = queue.Queue()
    with mcplite.connect(hub, options=mcplite.ClientOptions(on_tools_changed=lambda: changes.put(1))) as client:
        wait_for_tools(client, changes, ["own", "up_greet"])
        kept = next(value for value in vars(hub.registry.providers[0]).values() if isinstance(value, MainUpstream))
        struck = strike(monkeypatch, kept, name, fault)
        if name == "_close":
            upstream.stop()
        else:
            kept.doubt()
        assert struck.wait(LIMIT)
        upstream.stop()
        wait_for_tools(client, changes, ["own"])
        upstream.start()
        wait_for_tools(client, changes, ["own", "up_greet"])

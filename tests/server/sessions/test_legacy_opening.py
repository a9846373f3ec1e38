"""What begins on a channel: a session with a handshake, requests that stand alone, or both."""

import threading

import pytest

from mcplite.rpc.channels import MemoryChannel
from mcplite.server import Server
from mcplite.server.sessions import legacy
from mcplite.server.sessions.legacy import create_session, serve_channel


@pytest.fixture
def runtime():
    mcp = Server("open")
    mcp.add_tool(lambda: "yes", name="answer")
    yield mcp.runtime
    mcp.close()


def test_a_closed_channel_ends_the_session(runtime):
    ours, theirs = MemoryChannel.pair()
    ended = threading.Event()
    peer = serve_channel(runtime, theirs, ended.set)
    session, = runtime.sessions
    assert session.peer is peer
    ours.close()
    assert ended.wait(20) and peer.wait_closed(20)
    assert runtime.sessions == []


def test_a_client_that_comes_while_the_last_one_leaves_has_threads(runtime, monkeypatch):
    """The last client's end stops the threads, and must not stop those of a client that is just being opened."""
    ours, theirs = MemoryChannel.pair()
    first = serve_channel(runtime, theirs)
    create_peer = legacy.create_peer

    def leave_meanwhile(*arguments, **options):
        peer = create_peer(*arguments, **options)
        first.close()
        return peer

    monkeypatch.setattr(legacy, "create_peer", leave_meanwhile)
    ours, theirs = MemoryChannel.pair()
    second = serve_channel(runtime, theirs)
    assert second._workers.submit(lambda: None)
    second.close()
    assert not second._workers.submit(lambda: None)


def test_a_client_that_cannot_be_opened_leaves_the_server(runtime, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(legacy, "create_peer", fail)
    with pytest.raises(MemoryError):
        create_session(runtime, MemoryChannel.pair()[0])
    assert runtime._users == 0

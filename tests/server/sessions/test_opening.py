"""What begins on a channel: a session with a handshake, requests that stand alone, or both."""

import threading

import pytest

from mcplite.rpc.channels import MemoryChannel
from mcplite.server import Server, ServerOptions
from mcplite.server.sessions import opening
from mcplite.server.sessions.opening import create_session, create_sessionless_peer, serve_channel
from tests.support.stateless import message


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


@pytest.mark.slow
def test_a_session_for_one_message_is_not_among_those_that_last(runtime):
    session, peer = create_session(runtime, MemoryChannel.pair()[1], persistent=False)
    assert runtime.sessions == [] and not session.persistent and session.agreed is None
    peer.close()


@pytest.mark.parametrize("era, handshake, alone", [(None, True, True), ("legacy", True, False), ("modern", False, True)])
def test_each_message_on_a_pipe_chooses_its_era(connect, era, handshake, alone):
    client = connect(Server("both", options=ServerOptions(era=era)), revision=None)
    begun = client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                      "clientInfo": {"name": "raw", "version": "1"}})
    assert ("result" in begun) == handshake
    found = client.ask("server/discover", message("server/discover")["params"])
    assert ("result" in found) == alone


def test_one_peer_answers_all_clients_without_a_session(runtime):
    ours, theirs = MemoryChannel.pair()
    peer = create_sessionless_peer(runtime, theirs)
    peer.start()
    ours.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    assert b'"error"' in ours.read(20)
    peer.close()


def test_a_client_that_comes_while_the_last_one_leaves_has_threads(runtime, monkeypatch):
    """The last client's end stops the threads, and must not stop those of a client that is just being opened."""
    ours, theirs = MemoryChannel.pair()
    first = serve_channel(runtime, theirs)
    create_peer = opening._peer

    def leave_meanwhile(*arguments, **options):
        peer = create_peer(*arguments, **options)
        first.close()
        return peer

    monkeypatch.setattr(opening, "_peer", leave_meanwhile)
    ours, theirs = MemoryChannel.pair()
    second = serve_channel(runtime, theirs)
    assert second._workers.submit(lambda: None)
    second.close()
    assert not second._workers.submit(lambda: None)


def test_a_client_that_cannot_be_opened_leaves_the_server(runtime, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(opening, "_peer", fail)
    with pytest.raises(MemoryError):
        create_session(runtime, MemoryChannel.pair()[0])
    assert runtime._users == 0

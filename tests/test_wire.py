"""The judge is judged: it finds what is wrong, and it does see what goes over the wire."""

import json

import wire
import pytest

import mcplite
from mcplite.revisions import JUNE_2025, NOVEMBER_2024, NOVEMBER_2025


pytestmark = pytest.mark.skipif(wire.schemas.FOLDER is None, reason=wire.schemas.REASON)


class Peer:
    """Stands for a peer; the recorder only asks which one it is."""


def conversation(side, revision=NOVEMBER_2025):
    """Return a function that lets a recorder see messages of one conversation whose handshake is done."""
    recorder, peer = wire.Recorder(), Peer()
    asking, answering = ("->", "<-") if side == "client" else ("<-", "->")
    info = {"name": "test", "version": "1"}

    def see(direction, **message):
        recorder.observe(peer, direction, json.dumps({"jsonrpc": "2.0", **message}).encode())
        return recorder.problems()

    assert see(asking, id=1, method="initialize", params={
        "protocolVersion": revision.name, "capabilities": {}, "clientInfo": info}) == []
    assert see(answering, id=1, result={"protocolVersion": revision.name, "capabilities": {}, "serverInfo": info}) == []
    return see


def test_a_client_that_sends_what_it_may():
    see = conversation("client")
    assert see("->", method="notifications/initialized") == []
    assert see("->", id=2, method="tools/call", params={"name": "x", "arguments": {"a": 1}}) == []
    assert see("<-", id=7, method="roots/list") == []
    assert see("->", id=7, result={"roots": [{"uri": "file:///a"}]}) == []


def test_a_client_that_does_not():
    see = conversation("client")
    assert "'name' is a required property" in see("->", id=2, method="tools/call", params={"arguments": {}})[0]
    assert "no request that a client may send" in see("->", id=3, method="roots/list")[0]
    assert see("<-", id=7, method="roots/list") == []
    assert "'roots' is a required property" in see("->", id=7, result={})[0]


def test_a_wrong_message_is_found_every_time():
    see = conversation("client")
    assert see("->", id=2, method="tools/call", params={}) and see("->", id=3, method="tools/call", params={})


def test_a_server_whose_result_is_of_a_later_revision():
    result = {"content": [{"type": "text", "text": "1"}], "structuredContent": {"result": 1}}
    for revision, wrong in ((NOVEMBER_2024, 1), (JUNE_2025, 0)):
        see = conversation("server", revision)
        assert see("<-", id=2, method="tools/call", params={"name": "x"}) == []
        assert len(see("->", id=2, result=result)) == wrong


def test_numbers_out_of_bounds_are_found():
    see = conversation("server")
    for priority, wrong in ((0.5, 0), (1, 0), (7.5, 1), (-0.5, 1)):
        assert see("<-", id=2, method="tools/call", params={"name": "x"}) == []
        assert len(see("->", id=2, result={"content": [
            {"type": "text", "text": "1", "annotations": {"priority": priority}}]})) == wrong


def test_what_the_other_side_sends_and_methods_of_ones_own_are_not_judged():
    see = conversation("server")
    assert see("<-", id=2, method="tools/call", params={}) == []
    assert see("<-", id="a", method="com.example/own", params={"x": 1}) == []
    assert see("->", id="a", result={"anything": True}) == []
    assert see("->", method="com.example/told") == []


def test_both_sides_of_a_real_conversation_are_seen(monkeypatch):
    seen = []
    observe = wire.Recorder.observe
    monkeypatch.setattr(wire.Recorder, "observe", lambda self, peer, direction, data: (
        seen.append((direction, json.loads(data).get("method"))), observe(self, peer, direction, data)))
    mcp = mcplite.Server("seen")
    mcp.add_tool(lambda: "yes", name="seen")
    with wire.recording() as recorder, mcplite.connect(mcp) as client:
        assert client.call_tool("seen").text == "yes"
    assert ("->", "tools/call") in seen and ("<-", "tools/call") in seen
    assert recorder.problems() == []

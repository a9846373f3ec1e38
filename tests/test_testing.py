"""The recording transport: what passed is remembered, and nothing else changes."""

import mcplite
from mcplite.rpc.channel import MemoryChannel
from mcplite.testing import Recorded, Recording, record


def test_a_conversation_is_recorded():
    server = mcplite.Server("recorded")
    server.add_tool(lambda: "hello", name="greet")
    channel = record(server)
    with mcplite.connect(channel, revision="2025-06-18") as client:
        assert client.call_tool("greet").text == "hello"
    methods = [item.message["method"] for item in channel.messages if item.direction == "->"]
    assert methods == ["initialize", "notifications/initialized", "tools/call"]
    assert channel.sent("tools/call")[0]["params"]["name"] == "greet"
    assert len(channel.sent()) == 3
    answers = [item.message for item in channel.messages if item.direction == "<-"]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[-1]["result"]["content"][0]["text"] == "hello"


def test_everything_is_passed_on():
    ours, theirs = MemoryChannel.pair()
    channel = Recording(ours)
    assert channel.name == ours.name and channel.interruptible
    deep = b"[" * 100_000
    theirs.write(deep)
    assert channel.read(1) == deep
    theirs.write(b"no json")
    assert channel.buffered and channel.read(1) == b"no json"
    channel.consume()
    channel.wake()
    assert channel.read(1) is None
    channel.write(b"{}")
    assert theirs.read(1) == b"{}"
    assert channel.messages == [Recorded("<-", deep), Recorded("<-", b"no json"), Recorded("->", {})]
    channel.close()

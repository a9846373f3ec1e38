"""The recording transport to a server object."""

import mcplite
from mcplite.testing import record


def test_a_connection_to_a_server_object_is_recorded():
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

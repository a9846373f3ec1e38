import threading

import pytest

import mcplite
from mcplite.client.connect import memory_channel

LIMIT = 30


def test_a_server_in_this_process():
    server = mcplite.Server("here")

    @server.tool()
    def where() -> int:
        return threading.get_ident()

    with mcplite.connect(server, timeout=LIMIT) as client:
        assert client.server_info.name == "here" and "'here'" in repr(client)
        assert client.call_tool("where").structured_content != {"result": threading.get_ident()}
        assert len(server.sessions) == 1
    server.close()
    assert server.sessions == []


def test_any_object_that_serves_a_channel_is_a_server():
    class Wall:
        name = "wall"

        def serve_channel(self, channel):
            self.channel = channel

    wall = Wall()
    ours = memory_channel(wall)
    ours.write(b"hello")
    assert wall.channel.read(LIMIT) == b"hello" and "'wall'" in ours.name and wall.channel.name == "the client"
    ours.close()
    with pytest.raises(mcplite.errors.ConnectionClosed):
        wall.channel.read(LIMIT)


def test_the_error_of_a_server_that_cannot_serve_is_raised():
    class Broken:
        def serve_channel(self, channel):
            raise RuntimeError("no database")

    client = mcplite.connect(Broken())
    with pytest.raises(RuntimeError, match="no database"):
        client.open()
    assert client.state == "closed" and str(client.last_error) == "no database"

import threading

import pytest

import mcplite
from mcplite import revisions
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


@pytest.mark.parametrize("revision", revisions.LEGACY, ids=str)
def test_a_server_in_this_process_in_each_revision(revision):
    server = mcplite.Server("here")
    server.add_tool(lambda: 3, name="three")
    with mcplite.connect(server, revision=revision, timeout=LIMIT) as client:
        assert client.revision is revision and client.call_tool("three").text == "3"
    server.close()


def test_several_clients_of_one_server():
    server = mcplite.Server("here")
    server.add_tool(lambda: 3, name="three")
    with mcplite.connect(server, timeout=LIMIT) as one, mcplite.connect(server, timeout=LIMIT) as two:
        assert one.call_tool("three").text == two.call_tool("three").text == "3"
        one.close()
        assert two.call_tool("three").text == "3"
    server.close()


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

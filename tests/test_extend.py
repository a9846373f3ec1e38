"""What extends the library, by its public names."""

import socket

import mcplite
from mcplite.extend import Backend, Channel, LineBuffer, StreamChannel, open_backend


def test_a_channel_of_streams_and_its_lines():
    one, other = socket.socketpair()
    with one, other, other.makefile("rb") as read:
        channel = StreamChannel(one.makefile("rb", buffering=0), one.makefile("wb", buffering=0))
        assert isinstance(channel, Channel)
        channel.write(b"{}")
        assert read.readline() == b"{}\n"
        channel.close()
    lines = LineBuffer(100)
    lines.feed(b"one\ntwo")
    assert lines.next() == b"one" and lines.next() is None


def test_a_backend_is_opened_by_its_url(tmp_path):
    backend = open_backend(f"sqlite:///{tmp_path}/state.db")
    try:
        assert isinstance(backend, Backend)
        with mcplite.connect(mcplite.Server("shared", backend=backend, state_keys=["k" * 32])) as client:
            assert client.server_info.name == "shared"
    finally:
        backend.close()

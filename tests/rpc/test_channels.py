"""Channels over memory and over streams, and the defaults of the interface."""

import io
import socket
import sys
import threading

import pytest

from mcplite.errors import ConnectionClosed, RequestTimeout
from mcplite.protocol.framing import CutLine
from mcplite.rpc.channels import MemoryChannel, StreamChannel
from mcplite.rpc.interfaces import Channel


def test_a_channel_must_implement_its_methods_and_has_default_hooks():
    channel = Channel()
    assert not channel.buffered and not channel.interruptible
    channel.consume()
    channel.wake()
    for method, arguments in (("read", ()), ("write", (b"",)), ("close", ())):
        with pytest.raises(NotImplementedError):
            getattr(channel, method)(*arguments)


def test_memory_carries_messages_both_ways():
    left, right = MemoryChannel.pair(("client", "server"))
    assert (left.name, right.name) == ("server", "client")
    left.write(b"one")
    left.write(b"two")
    assert right.buffered
    assert right.read(0) == b"one" and right.read() == b"two"
    assert right.read(0) is None
    right.write(b"back")
    assert left.read(1) == b"back"


def test_a_memory_read_is_woken_and_ends_with_the_other_side():
    left, right = MemoryChannel.pair()
    threading.Timer(0.01, right.wake).start()
    assert right.read(20) is None
    left.write(b"last")
    left.close()
    assert right.read(20) == b"last"
    with pytest.raises(ConnectionClosed, match="closed"):
        right.read(20)
    with pytest.raises(ConnectionClosed):
        right.write(b"x")


def test_a_memory_write_waits_for_room():
    left, right = MemoryChannel.pair(limit=1)
    left.write(b"one")
    with pytest.raises(RequestTimeout, match="did not read"):
        left.write(b"two", timeout=0.01)
    threading.Timer(0.01, lambda: right.read(1)).start()
    left.write(b"three", timeout=20)


def test_a_stream_channel_over_a_socket_pair():
    ours, theirs = socket.socketpair()
    channel = StreamChannel(ours, ours, name="them", line_limit=10)
    theirs.sendall(b'{"a":1}\n\nlong long long long\n{}\n')
    assert channel.most_bytes == 10
    assert channel.read() == b'{"a":1}'
    assert channel.buffered
    line = channel.read()
    assert type(line) is CutLine and line[:-1] == b"long long long long"
    assert channel.read() == b"{}"
    channel.write(b"[]")
    assert theirs.recv(10) == b"[]\n"
    closer = threading.Timer(0.01, channel.close)
    closer.start()
    with pytest.raises(ConnectionClosed):
        channel.read()
    closer.join()
    with pytest.raises(ConnectionClosed, match="closed"):
        channel.write(b"x")
    channel.close()
    theirs.close()


def test_the_other_side_of_a_stream_channel_may_read_on():
    ours, theirs = socket.socketpair()
    channel = StreamChannel(ours, ours, name="them")
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionClosed):
        channel.read()
    assert channel.still_read() or sys.platform == "win32"
    channel.write(b"{}")
    assert theirs.recv(10) == b"{}\n"
    theirs.close()
    assert not channel.still_read() or sys.platform == "win32"
    channel.close()
    assert not channel.still_read()
    assert not StreamChannel(io.BytesIO(), io.BytesIO()).still_read()


def test_a_stream_channel_over_file_objects():
    out = io.BytesIO()
    channel = StreamChannel(io.BytesIO(b"one\ntwo"), out, name="them")
    channel.write(b"hello")
    assert out.getvalue() == b"hello\n"
    assert channel.read() == b"one"
    with pytest.raises(ConnectionClosed, match="them closed"):
        channel.read()
    channel.close()
    with pytest.raises(ConnectionClosed):
        channel.read()


def test_a_stream_write_times_out_while_another_writer_blocks():
    class Slow(io.RawIOBase):
        def write(self, data):
            inside.set()
            go.wait(20)
            return len(data)

    inside, go = threading.Event(), threading.Event()
    channel = StreamChannel(io.BytesIO(), Slow(), name="them")
    thread = threading.Thread(target=channel.write, args=(b"x",))
    thread.start()
    assert inside.wait(20)
    with pytest.raises(RequestTimeout, match="did not read"):
        channel.write(b"y", timeout=0.01)
    go.set()
    thread.join(20)
    channel.close()

"""Channels over memory and over streams, and the defaults of the interface."""

import io
import os
import socket
import subprocess
import sys
import threading

import pytest

import mcplite
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


# --- closing a channel over the user's streams ends its read where the system allows, and never waits for it ----


LIMIT = 30
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX only")


class Reader(threading.Thread):
    """Reads one message; keeps it, or the error."""

    def __init__(self, channel):
        super().__init__()
        self.channel, self.found = channel, None
        self.start()

    def run(self):
        try:
            self.found = self.channel.read()
        except Exception as error:
            self.found = error

    def end(self):
        self.join(LIMIT)
        assert not self.is_alive(), "the read goes on"
        return self.found


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(write)


def within_limit(step):
    """Run a step that must not block."""
    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "it blocks"


@posix
@pytest.mark.parametrize("buffering", [0, -1, 1 << 20])
def test_closing_ends_the_read_of_a_pipe_that_the_peer_keeps_open(pipe, buffering):
    reader = os.fdopen(pipe[0], "rb", buffering)
    channel = StreamChannel(reader, io.BytesIO(), name="them")
    os.write(pipe[1], b"{}\n[")
    assert channel.read() == b"{}"
    reading = Reader(channel)
    within_limit(channel.close)
    found = reading.end()
    assert isinstance(found, ConnectionClosed) and "them was closed on this side" in str(found)
    assert reader.closed
    with pytest.raises(ConnectionClosed):
        channel.read()
    channel.close()


@posix
def test_a_channel_that_was_never_read_frees_all(pipe):
    reader = os.fdopen(pipe[0], "rb")
    StreamChannel(reader, io.BytesIO()).close()
    assert reader.closed


@posix
def test_what_the_reader_has_read_before_is_not_lost(pipe):
    reader = os.fdopen(pipe[0], "rb")
    os.write(pipe[1], b"banner\n{}\n")
    assert reader.readline() == b"banner\n"
    channel = StreamChannel(reader, io.BytesIO())
    assert os.get_blocking(pipe[0])
    reading = Reader(channel)
    assert reading.end() == b"{}"
    channel.close()


@posix
def test_a_file_and_the_end_of_a_pipe_are_read_to_their_end(tmp_path):
    path = tmp_path / "messages"
    path.write_bytes(b"[1]\n[2]\n")
    copy, copied = os.pipe()
    os.write(copied, path.read_bytes())
    os.close(copied)
    for reader in (path.open("rb"), os.fdopen(copy, "rb")):
        channel = StreamChannel(reader, io.BytesIO(), name="them")
        assert [channel.read(), channel.read()] == [b"[1]", b"[2]"]
        with pytest.raises(ConnectionClosed, match="them closed the connection"):
            channel.read()
        channel.close()


CHILD = """
import sys, time
import mcplite
mcp = mcplite.Server("deaf")
@mcp.tool()
def add(a: int, b: int) -> int: return a + b
mcp.run()
while True: time.sleep(60)
"""


@posix
def test_a_client_over_the_pipes_of_a_child_that_does_not_end_closes():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            client = mcplite.connect((child.stdout, child.stdin), timeout=LIMIT).open()
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            within_limit(client.close)
            assert child.stdout.closed and child.stdin.closed and child.poll() is None
        finally:
            child.kill()


class Blocking(io.RawIOBase):
    """A stream of a class that the package does not know; its calls block until they are released."""

    def __init__(self):
        self.inside, self.go, self.misused = threading.Event(), threading.Event(), False

    def readable(self):
        return True

    def writable(self):
        return True

    def block(self):
        self.inside.set()
        self.go.wait(LIMIT)

    def read(self, size=-1):
        self.block()
        return b""

    def write(self, data):
        self.block()
        return len(data)

    def close(self):
        self.misused |= self.inside.is_set() and not self.go.is_set()
        super().close()


def test_closing_waits_for_no_read_and_the_reading_thread_closes_the_stream():
    reader, writer = Blocking(), io.BytesIO()
    channel = StreamChannel(reader, writer)
    reading = Reader(channel)
    assert reader.inside.wait(LIMIT)
    within_limit(channel.close)
    assert writer.closed and not reader.closed
    reader.go.set()
    assert isinstance(reading.end(), ConnectionClosed)
    assert reader.closed and not reader.misused


def test_closing_waits_for_no_write_and_the_writing_thread_closes_the_stream():
    reader, writer = io.BytesIO(), Blocking()
    channel = StreamChannel(reader, writer)
    writing = threading.Thread(target=channel.write, args=(b"{}",))
    writing.start()
    assert writer.inside.wait(LIMIT)
    within_limit(channel.close)
    assert reader.closed and not writer.closed
    writer.go.set()
    writing.join(LIMIT)
    assert writer.closed and not writer.misused


def test_a_read_is_tried_again_when_another_process_has_read_what_was_there():
    class Raced(io.RawIOBase):
        def __init__(self):
            self.chunks = [None, b"{}\n", None, b""]

        def read(self, size=-1):
            return self.chunks.pop(0)

    channel = StreamChannel(Raced(), io.BytesIO(), name="them")
    assert channel.read() == b"{}"
    with pytest.raises(ConnectionClosed, match="them closed the connection"):
        channel.read()
    channel.close()


@posix
def test_a_channel_over_streams_is_of_no_use_in_a_forked_process(pipe):
    reader, writer = os.fdopen(pipe[0], "rb"), io.BytesIO()
    channel = StreamChannel(reader, writer, name="them")
    channel.let_go(1)
    for use in (channel.read, lambda: channel.write(b"{}")):
        with pytest.raises(ConnectionClosed, match="them belongs to process 1"):
            use()
    channel.close()
    assert not writer.closed and not writer.getvalue()

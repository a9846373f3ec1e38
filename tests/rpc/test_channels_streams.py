"""Closing a channel over the user's streams ends its read where the system allows, and never waits for it."""

import io
import os
import subprocess
import sys
import threading

import pytest

import mcplite
from mcplite.errors import ConnectionClosed
from mcplite.rpc.channels import StreamChannel

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
    assert isinstance(found, ConnectionClosed) and "them is closed" in str(found)
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

import contextlib
import errno
import os
import threading

import pytest

from mcplite.rpc.stdio.descriptors import PipeReader, cancel_read, make_pipe, set_nonblocking, write_piece
from tests.support.faults import every_fault, strike
from tests.support.systems import open_descriptors, posix_only, windows_only

LIMIT = 30


@pytest.fixture
def pipe():
    """A reader, and the descriptor of the other end; ``None`` in its place says that it is closed."""
    read_fd, write_fd = make_pipe()
    reader = PipeReader(read_fd, "reader")
    with contextlib.ExitStack() as stack:
        stack.callback(reader._thread.join, LIMIT)
        closing = stack.enter_context(contextlib.closing(open(write_fd, "wb", buffering=0)))
        yield reader, closing


def take(reader):
    assert reader.poll(LIMIT * 1000)
    return next(map(*reader.next_chunk))


def test_chunks_come_in_order_and_then_the_end(pipe):
    reader, out = pipe
    for text in (b"one", b"two"):
        out.write(text)
        assert take(reader) == text
    out.close()
    assert take(reader) == b""


def test_waiting_ends_after_its_time_and_when_it_is_woken(pipe):
    reader, out = pipe
    assert not reader.poll(0) and not reader.poll(10)
    woken = []
    thread = threading.Thread(target=lambda: woken.append(reader.poll(None)))
    thread.start()
    reader.wake()
    thread.join(LIMIT)
    assert woken == [[]]


def test_what_is_not_taken_is_not_read_without_end(pipe):
    reader, out = pipe
    set_nonblocking(out.fileno())
    written = 0
    with pytest.raises(BlockingIOError):
        while written < 64 << 20:
            written += (write_piece if os.name == "nt" else os.write)(out.fileno(), bytes(65536))
            while written > 32 << 20:
                raise AssertionError("all of it was read")
    # The rest goes on as soon as what is there was taken.
    taken = 0
    while taken < written:
        taken += len(take(reader))
    assert taken == written


def test_a_reader_that_discards_reads_on(pipe):
    reader, out = pipe
    reader.discard()
    for _ in range(64):
        out.write(bytes(65536))
    assert len(reader.chunks) <= 1  # what it was reading before
    out.close()
    reader._thread.join(LIMIT)
    assert reader.chunks[-1] == b""


def test_the_thread_closes_the_descriptor():
    before = open_descriptors()
    read_fd, write_fd = make_pipe()
    reader = PipeReader(read_fd, "reader")
    os.close(write_fd)
    reader._thread.join(LIMIT)
    assert open_descriptors() == before


@windows_only
def test_a_read_is_cancelled_when_the_reader_is_stopped(pipe):
    reader, out = pipe
    reader.close()
    assert not reader._thread.is_alive()
    reader.close()


@posix_only
def test_a_read_that_cannot_be_cancelled_ends_with_the_pipe(pipe):
    reader, out = pipe
    reader.close()
    assert not cancel_read(reader._thread)
    out.close()
    reader._thread.join(LIMIT)
    assert cancel_read(reader._thread)


@every_fault
def test_a_fault_does_not_end_the_reading(pipe, monkeypatch, fault):
    reader, out = pipe
    struck = strike(monkeypatch, reader._room, "clear", fault)
    for text in (b"one", b"two"):
        out.write(text)
        assert take(reader) == text
    assert struck.is_set()
    out.close()
    assert take(reader) == b""


def test_a_fault_of_the_system_that_passes_is_no_end(pipe, monkeypatch):
    reader, out = pipe
    struck = strike(monkeypatch, os, "read", lambda: OSError(errno.ENOMEM, "Cannot allocate memory"))
    for text in (b"one", b"two"):
        out.write(text)
        assert take(reader) == text
    assert struck.is_set()

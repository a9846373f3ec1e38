"""Descriptors of pipes: what they share between the systems."""

import io
import os

import pytest

from mcplite.rpc.stdio.descriptors import PIPE_CLOSED, is_terminal, make_pipe, set_nonblocking, write_piece
from tests.support.systems import posix_only, windows_only


def test_children_inherit_no_end_of_a_pipe():
    ends = make_pipe()
    assert not any(map(os.get_inheritable, ends))
    for end in ends:
        os.close(end)


def test_a_write_without_a_reader_fails_by_its_number():
    read_fd, write_fd = make_pipe()
    os.close(read_fd)
    with pytest.raises(OSError) as caught:
        os.write(write_fd, b"x")
    assert caught.value.errno == PIPE_CLOSED
    os.close(write_fd)


def test_a_full_pipe_does_not_block():
    read_fd, write_fd = make_pipe()
    set_nonblocking(write_fd)
    written, write = 0, write_piece if os.name == "nt" else os.write
    with pytest.raises(BlockingIOError):
        while True:
            written += write(write_fd, bytes(4096))
    assert written > 0
    for end in (read_fd, write_fd):
        os.close(end)


@windows_only
def test_a_full_pipe_takes_the_part_that_fits():
    read_fd, write_fd = make_pipe()
    set_nonblocking(write_fd)
    data, sent = memoryview(bytes(range(256)) * 1024), 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += write_piece(write_fd, data[sent:])
    assert 0 < sent < len(data)
    got = b""
    while len(got) < sent:
        got += os.read(read_fd, 65536)
    assert got == bytes(data[:sent])
    os.close(read_fd)
    with pytest.raises(OSError):
        write_piece(write_fd, data)
    os.close(write_fd)


# --- which streams are terminals ------------------------------------------------------------------


@posix_only
def test_a_terminal_is_one_until_it_is_closed():
    import pty

    outside, inside = pty.openpty()
    with os.fdopen(outside, "rb", buffering=0), os.fdopen(inside, "rb", buffering=0) as stream:
        assert is_terminal(stream)
    assert not is_terminal(stream)


def test_the_null_device_is_no_terminal():
    with open(os.devnull) as null:
        assert not is_terminal(null)  # although it is one by isatty() on Windows
    assert not is_terminal(null)


@pytest.mark.parametrize("says", [True, False])
def test_a_stream_of_the_programs_own_says_what_it_is(says):
    stream = io.StringIO()
    stream.isatty = lambda: says
    assert is_terminal(stream) is says


def test_files_pipes_and_none_are_no_terminals(tmp_path):
    reading, writing = os.pipe()
    with open(tmp_path / "file", "w") as file, os.fdopen(reading) as source, os.fdopen(writing, "w") as pipe:
        assert not any(map(is_terminal, (None, file, source, pipe)))

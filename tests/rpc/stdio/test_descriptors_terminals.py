"""Which streams are terminals."""

import io
import os

import pytest

from mcplite.rpc.stdio.descriptors import is_terminal
from tests.support.systems import posix_only


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

import io
import logging
import os
import threading

import pytest

from mcplite.client.stdio import stderr
from mcplite.client.stdio.stderr import StderrPump, open_sink
from mcplite.errors import TransportError
from mcplite.rpc.stdio.descriptors import PipeReader
from tests.support.faults import every_fault, lines
from tests.support.processes import wait_until

LIMIT = 30


class Pipe:
    """A pump on a pipe that the test writes to."""

    def __init__(self, target=None):
        read_end, self.write_end = os.pipe()
        self.pump = StderrPump(read_end, open_sink(target), "the child")
        self.pump.start()

    def write(self, data):
        while data:
            data = data[os.write(self.write_end, data):]

    def end(self):
        os.close(self.write_end)
        assert self.pump.wait(LIMIT)
        self.pump.stop(LIMIT)


def through(data, target=None):
    """Send *data* through a pump and return the tail."""
    pipe = Pipe(target)
    pipe.write(data)
    pipe.end()
    return pipe.pump.tail


def test_only_the_last_64_kib_are_kept():
    data = b"".join(b"line %06d\n" % number for number in range(100_000))
    assert through(data) == data[-65536:].decode()


def test_a_callable_gets_each_line_and_bytes_that_are_not_utf8_are_replaced():
    lines = []
    assert through(b"one\ntw\xc3\xb6\r\n\nla\xffst", lines.append) == "one\ntwö\r\n\nla\ufffdst"
    assert lines == ["one", "twö", "", "la\ufffdst"]


def test_a_character_may_come_in_two_pieces():
    lines = []
    first = threading.Event()

    def take(line):
        lines.append(line)
        first.set()

    pipe = Pipe(take)
    pipe.write(b"start\n\xc3")
    assert first.wait(LIMIT)
    pipe.write(b"\xa9\n")
    pipe.end()
    assert lines == ["start", "é"]


def test_an_endless_line_is_passed_on_in_pieces():
    lines = []
    through(b"x" * 300_000, lines.append)
    assert "".join(lines) == "x" * 300_000
    assert max(map(len, lines)) == 65536


@pytest.mark.parametrize(("file", "written"), [(io.StringIO(), "é\ntwo\n"), (io.BytesIO(), "é\ntwo\n".encode())])
def test_a_file_object_of_text_or_of_bytes(file, written):
    through("é\ntwo\n".encode(), file)
    assert file.getvalue() == written


def test_a_file_that_was_closed_does_not_stop_the_pump(caplog):
    file = io.StringIO()
    file.close()
    assert through(b"one\ntwo\n", file) == "one\ntwo\n"
    assert len(caplog.records) == 1


def test_a_path_is_appended_to(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("before\n")
    through("é\n".encode(), path)
    through(b"more", str(path))
    assert path.read_text("utf-8") == "before\né\nmore\n"


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(TransportError, match="server.log"):
        open_sink(tmp_path / "no" / "server.log")


def test_a_logger_gets_lines_that_cannot_forge_others(caplog):
    caplog.set_level(logging.INFO)
    through(b"hello\n100% \x1b[31mred\rover\n", logging.getLogger("weather"))
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("weather", "hello"), ("weather", r"100% \x1b[31mred\rover")]


def test_other_targets_are_refused():
    with pytest.raises(TypeError, match="not int"):
        open_sink(2)


def test_stop_reads_what_has_arrived_though_a_grandchild_keeps_the_pipe_open():
    lines = []
    pipe = Pipe(lines.append)
    pipe.write(b"one\ntwo")
    pipe.pump.stop(LIMIT)
    assert pipe.pump.wait(LIMIT)
    assert lines == ["one", "two"]
    os.close(pipe.write_end)


def test_stop_ends_the_pump_where_pipes_cannot_be_polled(monkeypatch):
    monkeypatch.setattr(stderr, "open_input", PipeReader)
    lines = []
    pipe = Pipe(lines.append)
    pipe.write(b"one\ntwo")
    assert wait_until(lambda: pipe.pump.tail == "one\ntwo")
    pipe.pump.stop(LIMIT)
    assert pipe.pump.wait(LIMIT)
    assert lines == ["one", "two"]
    os.close(pipe.write_end)


def test_stop_ends_the_pump_though_a_grandchild_never_stops_writing():
    pipe = Pipe()
    over = threading.Event()

    def flood():
        try:
            while not over.is_set():
                os.write(pipe.write_end, b"x" * 65536)
        except OSError:
            return

    writer = threading.Thread(target=flood)
    writer.start()
    pipe.pump.stop(LIMIT)
    ended = pipe.pump.wait(LIMIT)
    over.set()
    writer.join(LIMIT)
    os.close(pipe.write_end)
    assert ended


def test_stop_from_the_callback_does_not_wait_for_itself():
    seen = threading.Event()

    def take(line):
        pipe.pump.stop(LIMIT)
        seen.set()

    pipe = Pipe(take)
    pipe.write(b"now\n")
    assert seen.wait(LIMIT)
    assert pipe.pump.wait(LIMIT)
    os.close(pipe.write_end)


def test_a_fault_does_not_end_the_reading_of_stderr(monkeypatch, caplog):
    read, faults = os.read, [OSError(12, "Cannot allocate memory")]

    def fail_once(fd, size):
        if faults:
            raise faults.pop()
        return read(fd, size)

    monkeypatch.setattr(stderr.os, "read", fail_once)
    assert through(b"one\ntwo\n") == "one\ntwo\n"
    assert not faults and "stderr of the child failed" in caplog.text


@every_fault
def test_a_callable_that_raises_anything_does_not_stop_the_pump(caplog, fault):
    seen = []

    def sink(line):
        seen.append(line)
        if len(seen) == 1:
            raise fault()

    through(b"one\ntwo\n", sink)
    assert seen[0] == "one"
    if isinstance(fault(), Exception):
        assert seen == ["one", "two"] and lines(caplog, "the stderr sink of the child failed") == 1
    else:  # what was read together with the line is lost
        assert lines(caplog, "stderr of the child failed") == 1

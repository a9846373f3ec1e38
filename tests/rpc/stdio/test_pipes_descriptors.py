"""A descriptor's number may lead to another file at once when it is closed: no thread may use it any more by then."""

import contextlib
import os
import threading

import pytest

from mcplite.errors import ConnectionClosed
from mcplite.rpc.stdio import pipes
from mcplite.rpc.stdio.pipes import PipeChannel
from tests.support.children import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX only")


class Ends:
    """A channel, the other ends of its pipes, and files that take the numbers that it closes."""

    def __init__(self, monkeypatch):
        #: What is called in place of os.read and os.write from then on, by their names.
        self.instead = {}
        for name in ("read", "write"):
            original = getattr(os, name)
            monkeypatch.setattr(os, name, lambda fd, argument, name=name, original=original: self.instead.get(
                name, lambda fd, argument, original: original(fd, argument))(fd, argument, original))
        ours_in, self.theirs_out = os.pipe()
        self.theirs_in, ours_out = os.pipe()
        os.set_blocking(ours_out, False)
        self.channel = PipeChannel(ours_in, ours_out, name="them", line_limit=1 << 20)
        self.foreign = []

    def reuse(self):
        """Open pipes with something to read, until one end of them has a number above all of the channel's."""
        for _ in range(8):
            read_fd, write_fd = os.pipe()
            os.set_blocking(read_fd, False)
            os.write(write_fd, b"foreign")
            self.foreign.append((read_fd, write_fd))

    def untouched(self):
        return all(os.read(read_fd, 100) == b"foreign" for read_fd, _ in self.foreign)

    def end(self):
        for fd in [self.theirs_in, self.theirs_out, *(fd for pair in self.foreign for fd in pair)]:
            os.close(fd)


@pytest.fixture
def ends(monkeypatch):
    made = Ends(monkeypatch)
    yield made
    made.channel.close()
    made.end()


@pytest.fixture
def during(ends):
    """Close the channel in another thread, and reuse its numbers, at the moment when a call of the system begins."""
    def arrange(name, chosen):
        closers = []

        def call(fd, argument, original):
            if not closers and chosen(fd, argument):
                closer = threading.Thread(target=ends.channel.close)
                closers.append(closer)
                closer.start()
                closer.join(0.6)  # longer than close() waits for a writer
                ends.reuse()
            return original(fd, argument)

        ends.instead[name] = call
        return closers

    return arrange


def finish(closers):
    assert len(closers) == 1
    closers[0].join(LIMIT)
    assert not closers[0].is_alive()


def test_a_wake_up_never_goes_into_another_file(ends, during):
    closers = during("write", lambda fd, data: bytes(data) == b"\0")
    ends.channel.wake()
    finish(closers)
    assert ends.untouched()


def test_a_read_never_takes_from_another_file(ends, during):
    closers = during("read", lambda fd, size: size > 10_000)
    os.write(ends.theirs_out, b"ours\n")
    with contextlib.suppress(ConnectionClosed):
        assert ends.channel.read(LIMIT) in (None, b"ours")
        ends.channel.consume()
    finish(closers)
    assert ends.untouched()
    with pytest.raises(ConnectionClosed, match="on this side"):
        ends.channel.read(LIMIT)


def test_a_message_never_goes_into_another_file(ends, during):
    closers = during("write", lambda fd, data: bytes(data) == b"ours\n")
    with contextlib.suppress(ConnectionClosed):
        ends.channel.write(b"ours", LIMIT)
    finish(closers)
    assert ends.untouched()


def test_closing_ends_a_read(ends):
    errors = []

    def read():
        try:
            ends.channel.read()
        except ConnectionClosed as error:
            errors.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(0.05)  # most likely it waits by now
    ends.channel.close()
    reader.join(LIMIT)
    assert errors == ["the connection to them was closed on this side"]


def test_the_last_user_closes_each_descriptor_once(ends, monkeypatch):
    closed = []
    close = os.close

    def note(fd):
        closed.append(fd)
        close(fd)

    monkeypatch.setattr(pipes.os, "close", note)
    reader = threading.Thread(target=lambda: pytest.raises(ConnectionClosed, ends.channel.read), daemon=True)
    reader.start()
    closers = [threading.Thread(target=ends.channel.close) for _ in range(4)]
    for thread in closers:
        thread.start()
    for thread in [*closers, reader]:
        thread.join(LIMIT)
    assert len(closed) == len(set(closed)) == 4


def test_a_wake_up_out_of_a_signal_handler_does_not_block(ends, monkeypatch):
    write, nested = os.write, []

    def interrupted(fd, data):
        if not nested:
            nested.append(fd)
            ends.channel.wake()  # as a signal handler would that runs in the middle of a wake-up
        return write(fd, data)

    monkeypatch.setattr(pipes.os, "write", interrupted)
    woken = threading.Thread(target=ends.channel.wake, daemon=True)
    woken.start()
    woken.join(LIMIT)
    assert not woken.is_alive() and ends.channel.read(LIMIT) is None

"""Newline framing over descriptors: interruption, full pipes, the end."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.errors import Cancelled, ConnectionClosed, RequestTimeout, TransportError
from mcplite.protocol.framing import CutLine
from mcplite.rpc.cancel import CancelToken
from mcplite.rpc.peer import Peer
from mcplite.rpc.pending import Clock, Pending
from mcplite.rpc.request import MessageHandler
from mcplite.rpc.stdio import pipes
from mcplite.rpc.stdio.descriptors import make_pipe, set_nonblocking
from mcplite.rpc.stdio.pipes import PipeChannel
from mcplite.rpc.threads import Workers
from tests.support.children import taken
from tests.support.systems import posix_only


class Pair:
    """A channel and the raw other end of its two pipes."""

    def __init__(self, **options):
        self.read_fd, theirs_out = make_pipe()
        theirs_in, self.write_fd = make_pipe()
        ours_in, ours_out = self.read_fd, self.write_fd
        if options.pop("nonblocking", False):
            set_nonblocking(ours_out)
        self.channel = PipeChannel(ours_in, ours_out, name="them", line_limit=options.pop("line_limit", 1 << 20), **options)
        self.theirs_out, self.theirs_in = theirs_out, theirs_in

    def say(self, data):
        os.write(self.theirs_out, data)

    def close(self):
        self.channel.close()
        for fd in (self.theirs_out, self.theirs_in):
            try:
                os.close(fd)
            except OSError:
                pass


@pytest.fixture
def make():
    made = []

    def make(**options):
        made.append(Pair(**options))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


def take(channel, timeout=20):
    message = channel.read(timeout)
    if message is not None:
        channel.consume()
    return message


def test_lines_are_read_from_chunks_of_any_size(make):
    pair = make()
    pair.say(b"on")
    pair.say(b"e\r\ntwo\n\n  \nthr")
    assert take(pair.channel) == b"one"
    assert pair.channel.buffered
    assert take(pair.channel) == b"two"
    assert not pair.channel.buffered
    assert take(pair.channel, 0.01) is None
    pair.say(b"ee\n")
    assert take(pair.channel) == b"three"


def test_a_message_stays_until_it_is_consumed(make):
    pair = make()
    pair.say(b"one\ntwo\n")
    assert pair.channel.read(20) == b"one"
    assert pair.channel.read(20) == b"one"
    pair.channel.consume()
    assert pair.channel.read(20) == b"two"


def test_a_line_over_the_limit_is_cut_and_read_at_its_end(make):
    pair = make(line_limit=10)
    assert pair.channel.most_bytes == 10
    pair.say(b"first\n" + b"x" * 50)
    assert take(pair.channel) == b"first" and pair.channel.read(0.01) is None
    pair.say(b"y" * 50 + b"\nshort\n")
    line = take(pair.channel)
    assert type(line) is CutLine and line[:-1] == b"x" * 50 + b"y" * 50 and line.size == 100
    assert take(pair.channel) == b"short"


def test_a_reader_that_is_gone_is_noticed(make):
    pair = make(end_unread=True)
    pair.say(b"{}\n")
    assert take(pair.channel) == b"{}" and pair.channel.read(0) is None
    assert pair.channel.still_read()
    os.close(pair.theirs_in)
    if sys.platform == "win32":  # only a write tells it there
        with pytest.raises(ConnectionClosed):
            pair.channel.write(b"{}")
    else:
        assert not pair.channel.still_read()
    with pytest.raises(ConnectionClosed, match="reads nothing more|writing to them failed"):
        pair.channel.read(20)
    assert not pair.channel.still_read()


def test_a_write_without_a_reader_ends_the_reading(make):
    pair = make(end_unread=True)
    os.close(pair.theirs_in)
    with pytest.raises(ConnectionClosed, match="writing to them failed"):
        pair.channel.write(b"{}")
    assert not pair.channel.still_read()
    with pytest.raises(ConnectionClosed, match="writing to them failed|reads nothing more"):
        pair.channel.read(20)


def test_a_read_keeps_its_deadline_while_bytes_arrive_one_by_one(make):
    pair, stop = make(), threading.Event()

    def drip():
        while not stop.wait(0.001):
            pair.say(b"x")

    dripper = threading.Thread(target=drip)
    dripper.start()
    assert pair.channel.read(0.05) is None
    pair.channel.wake()
    assert pair.channel.read(20) is None
    stop.set()
    dripper.join(20)


def test_wake_ends_a_read(make):
    pair = make()
    threading.Timer(0.01, pair.channel.wake).start()
    assert pair.channel.read(20) is None
    for _ in range(70_000):  # more than the pipe holds
        pair.channel.wake()
    assert pair.channel.read(20) is None


def test_the_end_of_the_stream_comes_after_its_messages(make):
    pair = make()
    pair.say(b"last\nhalf")
    os.close(pair.theirs_out)
    assert take(pair.channel) == b"last"
    for _ in range(2):
        with pytest.raises(ConnectionClosed, match="them closed"):
            pair.channel.read(20)


@posix_only
def test_the_end_of_a_watched_process_comes_after_its_messages(make):
    watch_read, watch_write = os.pipe()
    pair = make(watch_fd=watch_read)
    pair.say(b"last\n")
    os.close(watch_write)  # readable from now on
    assert take(pair.channel) == b"last"
    with pytest.raises(ConnectionClosed):
        pair.channel.read(20)


def written_by_now(pair):
    """Write a last message, "after"; return all that comes out of the pipe."""
    got = bytearray()

    def read():
        while not got.endswith(b"after\n"):
            got.extend(os.read(pair.theirs_in, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    pair.channel.write(b"after", timeout=20)
    reader.join(20)
    return bytes(got)


def test_a_write_to_a_full_pipe_times_out_and_its_rest_goes_out_first(make):
    pair = make(nonblocking=True)
    big = b"x" * 300_000
    with pytest.raises(RequestTimeout, match="pipe is full"):
        pair.channel.write(big, timeout=0.05)
    with pytest.raises(RequestTimeout):
        pair.channel.write(b"never", timeout=0.05)
    assert written_by_now(pair) == big + b"\nafter\n"


@pytest.mark.parametrize("size", [5, 300_000])
def test_a_message_of_which_no_byte_was_written_is_dropped(make, size):
    pair = make(nonblocking=True)
    sent = 0
    with pytest.raises(RequestTimeout, match="pipe is full"):
        while True:
            pair.channel.write(b"small", timeout=0.05)
            sent += 1
    with pytest.raises(RequestTimeout, match="pipe is full"):
        pair.channel.write(b"x" * size, timeout=0.05)
    got = bytearray()
    while len(got) < 6 * sent:
        got.extend(os.read(pair.theirs_in, 65536))
    pair.channel.write(b"after", timeout=20)
    assert bytes(got) + os.read(pair.theirs_in, 65536) == b"small\n" * sent + b"after\n"


@pytest.mark.parametrize("size", [3, 70_000])
def test_a_message_whose_writer_is_interrupted_just_after_it_is_written_once(make, monkeypatch, size):
    def interrupt(numbers):
        if numbers:
            raise KeyboardInterrupt  # as a signal handler does, once the system has taken the bytes
        return 0

    pair = make(nonblocking=True)
    monkeypatch.setattr(pipes, "sum", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        pair.channel.write(b"x" * size)
    monkeypatch.undo()
    writer = threading.Thread(target=pair.channel.write, args=(b"after",))
    writer.start()
    got = bytearray()
    while not got.endswith(b"after\n"):
        got += os.read(pair.theirs_in, 65536)
    writer.join(30)
    assert got == b"x" * size + b"\nafter\n"


def test_a_write_inside_of_a_write_is_refused_at_once(make, monkeypatch):
    """As that of a signal handler, which has interrupted the thread that writes."""
    pair, refused = make(nonblocking=True), []

    def write_inside(pause):
        with pytest.raises(TransportError, match="^set a flag and call afterwards"):
            pair.channel.write(b"inner", timeout=60)
        refused.append(pause)

    monkeypatch.setattr(pair.channel, "_wait_writable", write_inside)
    with pytest.raises(RequestTimeout):
        pair.channel.write(b"x" * 300_000, timeout=0.02)
    assert refused


@pytest.mark.parametrize("waits_for", ["the pipe", "another writer"])
def test_a_call_that_is_given_up_is_not_written_any_more(make, waits_for):
    pair = make(nonblocking=True)
    writer = threading.Thread(target=lambda: pytest.raises(RequestTimeout, pair.channel.write, b"x" * 300_000, 0.5))
    writer.start()
    while not taken(pair.channel._write_lock):
        time.sleep(0.001)
    if waits_for == "the pipe":
        writer.join(20)
    call = Pending(1, "x", Clock(), 300, None, None)
    threading.Timer(0.05, setattr, (call, "interrupted", True)).start()
    with pytest.raises(RequestTimeout):
        pair.channel.write_request(b"call", 300, call)
    writer.join(20)
    assert written_by_now(pair) == b"x" * 300_000 + b"\nafter\n"


def test_a_token_ends_a_call_whose_request_cannot_be_written(make):
    pair, workers = make(nonblocking=True), Workers(1, 1, "test worker")
    with pytest.raises(RequestTimeout):
        pair.channel.write(b"x" * 300_000, timeout=0.05)
    peer = Peer(pair.channel, MessageHandler(), workers=workers)
    peer.start()
    token = CancelToken()
    threading.Timer(0.05, token.cancel, ["enough"]).start()
    with pytest.raises(Cancelled, match="enough"):
        peer.call("x", timeout=300, cancel=token)
    peer.close()
    workers.stop()


def test_close_ends_a_blocked_writer(make):
    pair = make(nonblocking=True)
    errors = []

    def write():
        try:
            pair.channel.write(b"x" * 300_000)
        except ConnectionClosed as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    while not taken(pair.channel._write_lock):
        time.sleep(0.001)
    pair.channel.close()
    writer.join(20)
    assert len(errors) == 1


def test_a_closed_channel_raises_on_use(make):
    pair = make()
    pair.channel.close()
    pair.channel.close()
    pair.channel.wake()
    with pytest.raises(ConnectionClosed, match="closed on this side"):
        pair.channel.read(1)
    with pytest.raises(ConnectionClosed):
        pair.channel.write(b"x")


@pytest.mark.parametrize("size", [20_000, 100_000])
def test_many_writers_keep_lines_whole(make, size):
    pair = make()
    got = bytearray()
    total = 8 * 20 * (size + 1)

    def read():
        while len(got) < total:
            got.extend(os.read(pair.theirs_in, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=lambda letter=letter: [pair.channel.write(letter * size) for _ in range(20)])
               for letter in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    reader.join(30)
    lines = bytes(got).split(b"\n")[:-1]
    assert len(lines) == 160
    assert all(len(set(line)) == 1 and len(line) == size for line in lines)


#: Runs in a process of its own, with no ``site``: an exception out of a signal handler may strike whatever is
#: running, and a coverage tracer or a test runner that is struck keeps its locks for ever.
STRUCK = """
import os, random, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from mcplite.rpc.stdio.pipes import PipeChannel

class Struck(Exception):
    pass

state = {"armed": False, "strikes": 0}
# At odd times, so that no step is struck each time it is tried.
moments = random.Random(7)

def wind():
    signal.setitimer(signal.ITIMER_REAL, moments.uniform(0.0001, 0.002))

def strike(number, frame):
    wind()
    if state["armed"]:
        state["armed"] = False
        state["strikes"] += 1
        raise Struck

read_fd, theirs = os.pipe()
unread_fd, write_fd = os.pipe()
channel = PipeChannel(read_fd, write_fd, name="them", line_limit=1 << 20)
lines = [b"%d" % number for number in range(100_000)]

def feed():
    for start in range(0, len(lines), 20):
        os.write(theirs, b"\\n".join(lines[start:start + 20]) + b"\\n")

got = []
threading.Thread(target=feed, daemon=True).start()
signal.signal(signal.SIGALRM, strike)
wind()
while len(got) < len(lines):
    try:
        state["armed"] = True
        message = channel.read(20)
        # As the engine does: routing may be repeated, consuming is one step.
        if message is not None:
            if not got or got[-1] != message:
                got.append(message)
            channel.consume()
        state["armed"] = False
    except Struck:
        continue
signal.setitimer(signal.ITIMER_REAL, 0)
print(got == lines, state["strikes"] > 10)
"""


@posix_only
def test_signal_handlers_that_raise_lose_nothing():
    """A caller in the main thread reads its own answer, and Ctrl-C may strike anywhere in it."""
    root = Path(mcplite.__file__).parents[1]
    done = subprocess.run([sys.executable, "-S", "-c", STRUCK, str(root)], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("True True\n", "")

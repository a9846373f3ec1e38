"""The streams of requests: written by handlers, read by the body of the response, and by those that come back for the rest."""

import threading

import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.protocol.http.sse import encode_event
from mcplite.server.eviction import ByteBudget
from mcplite.server.limits import Limits
from mcplite.server.state.logs import StreamLogs
from mcplite.server.state.streams import EventStream, RequestStreams
from tests.support.tight import tight

LIMIT = 30


def home(priming=False, stored=True, **limits):
    limits = tight(**limits)
    if not stored:
        return RequestStreams("s", limits)
    streams = RequestStreams("s", limits, prefix="session-s", logs=StreamLogs(MemoryBackend(), limits))
    streams.priming = priming
    return streams


def read(body, count=1):
    return [next(body) for _ in range(count)]


def test_a_client_that_reconnects_gets_what_it_missed():
    streams = home()
    stream = EventStream(streams)
    stream.send(b"1")
    read(stream)
    stream.close()
    assert stream.send(b"2")  # kept
    body = streams.resume("1.1", 1)
    stream.send(b"3")
    assert b"".join(read(body, 2)).endswith(encode_event(b"2", "1.1-2") + encode_event(b"3", "1.1-3"))
    other = streams.resume("1.1", 3)
    stream.finish(b"4")
    for last in (body, other):
        assert b"".join(last).endswith(encode_event(b"4", "1.1-4"))
    assert streams.resume("1.1", 4).ending
    assert [streams.resume(label, 9) for label in ("1.1", "1.2", "2.1")] == [None] * 3


def test_a_handler_waits_for_a_client_that_has_reconnected_too():
    streams = home(unread_messages=2, unread_seconds=LIMIT)
    stream = EventStream(streams)
    stream.send(b"1")
    body = streams.resume("1.1", 0)
    read(body, 2)
    stream.send(b"2")
    stream.send(b"3")
    sent = threading.Event()
    thread = threading.Thread(target=lambda: (stream.send(b"4"), sent.set()))
    thread.start()
    assert not sent.wait(0.05) and not stream.offer(b"0")
    read(body)
    assert sent.wait(LIMIT) and stream.offer(b"5")
    thread.join(LIMIT)
    body.close()
    for number in range(9):
        stream.send(b"6")  # without a reader it does not wait


def test_without_a_log_a_disconnected_client_misses_the_rest():
    stream = EventStream(home(stored=False))
    stream.send(b"1")
    stream.close()
    assert not stream.send(b"2") and stream.log is None


def test_a_handler_waits_for_a_slow_reader_but_not_for_a_stalled_one():
    stream = EventStream(home(unread_messages=2, unread_seconds=LIMIT))
    stream.send(b"1")
    stream.send(b"2")
    sent = threading.Event()
    thread = threading.Thread(target=lambda: (stream.send(b"3"), sent.set()))
    thread.start()
    assert not sent.wait(0.05)
    read(stream)
    assert sent.wait(LIMIT)
    thread.join(LIMIT)
    still = EventStream(home(unread_messages=1, unread_seconds=0.02, stored=False))
    assert still.send(b"1") and not still.send(b"2") and not still._attached


def test_only_so_many_finished_streams_are_kept():
    streams = home()
    for _ in range(70):
        stream = EventStream(streams)
        stream.send(b"1")
        stream.finish(b"2")
    kept = [number for number in range(1, 71) if streams.resume(f"1.{number}", 0) is not None]
    assert kept == list(range(7, 71)) and len(streams.logs) == 64


@pytest.mark.parametrize("size", [1, 5000])
def test_queued_bytes_are_bounded_too(size):
    stream = EventStream(home(unread_bytes=4000, unread_seconds=0.02))
    assert stream.send(b"x" * size)
    assert stream.send(b"y" * 5000) and not stream._attached  # kept for a client that comes back


# --- an end that is known before -------------------------------------------------------------------------------


def test_a_body_ends_when_it_is_due_after_its_last_messages():
    # AUS-31
    stream = EventStream(home())
    stream.commit()
    body, told = stream, []

    def end():
        told.append(1)
        stream.send(b"last")

    body.end_after(0.05, end)
    assert list(body) == [b": open\n\n", b"id: 1.1-1\nevent: message\ndata: last\n\n"]
    assert told == [1] and not stream._attached and not stream.finished
    assert list(body) == [] and told == [1]


def test_a_body_that_is_done_before_it_is_due():
    stream, told = EventStream(home()), []
    stream.commit()
    stream.end_after(1000, lambda: told.append(1))
    stream.finish(b"answer")
    assert b"answer" in b"".join(stream) and told == []


def test_streams_hold_little_each_while_all_hold_too_much():
    limits = tight(unread_bytes=1_000_000, unread_bytes_at_once=300_000, unread_messages=1000, unread_seconds=0.02)
    unread = ByteBudget(limits.unread_bytes_at_once)
    first, second = (EventStream(RequestStreams(key, limits, unread=unread)) for key in "ab")
    while not unread.full:
        assert first.send(b"x" * 10_000)
    assert first._attached
    for _ in range(8):
        second.send(b"x" * 10_000)
    assert not second._attached
    assert len(next(first)) > 300_000 and unread.full  # it is being sent
    first.end()
    assert list(first) == [] and not unread.full
    second.end()
    assert unread.held == 0


def test_the_end_of_a_stream_gives_its_bytes_back():
    limits = Limits()
    unread = ByteBudget(limits.unread_bytes_at_once)
    answer = EventStream(RequestStreams("a", limits, unread=unread))
    for _ in range(10):
        answer.send(b"x" * 10_000)
    assert unread.held > 100_000
    answer.close()
    assert unread.held == 0


def test_a_body_ends_when_its_client_has_disconnected(monkeypatch):
    monkeypatch.setattr("mcplite.server.state.streams.PROBE_SECONDS", 0.01)
    stream = EventStream(home())
    stream.commit()
    read(stream)
    stream.disconnected = lambda: True
    assert list(stream) == []
    other = EventStream(home())
    other.commit()
    read(other)
    thread = threading.Thread(target=other.stop)
    thread.start()
    assert list(other) == []
    thread.join(LIMIT)

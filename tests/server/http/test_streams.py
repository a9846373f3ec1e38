"""Event streams: written by handlers, read by one body at a time, kept in between."""

import sys
import threading

import pytest

from mcplite.protocol.http.sse import encode_event
from mcplite.server.eviction import ByteBudget
from mcplite.server.http.event_store import MemoryEventStore
from mcplite.server.http.streams import EventStream, StreamSet
from mcplite.server.limits import Limits
from tests.support.tight import tight

LIMIT = 30


def home(priming=False, stored=True, **limits):
    limits = tight(**limits)
    streams = StreamSet("s", MemoryEventStore(limits) if stored else None, limits)
    streams.priming = priming
    return streams


def read(body, count=1):
    return [next(body) for _ in range(count)]


def test_an_event_as_bytes():
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"/x", event="endpoint") == b"event: endpoint\ndata: /x\n\n"
    assert encode_event(b"{}", "1-2") == b"id: 1-2\nevent: message\ndata: {}\n\n"


def test_a_response_alone_is_not_a_stream():
    stream = EventStream(home())
    assert not stream.wait_first(0.01)
    stream.finish(b"answer", -1)
    stream.finish(b"again")
    assert stream.wait_first(1) and not stream.streaming and (stream.answer, stream.code) == (b"answer", -1)
    assert not stream.commit() and not stream.send(b"late") and not stream.close_connection(None)


def test_a_message_before_the_response_makes_a_stream():
    stream = EventStream(home())
    stream.send(b"1")
    assert stream.wait_first(1) and stream.streaming
    stream.finish(b"2")
    assert list(stream.first) == [b"id: 1-1\nevent: message\ndata: 1\n\nid: 1-2\nevent: message\ndata: 2\n\n"]
    assert stream.first.last


def test_a_committed_stream_begins_with_bytes():
    stream = EventStream(home())
    assert stream.commit() and read(stream.first) == [b": open\n\n"]
    primed = EventStream(home(priming=True, retry_seconds=0.5))
    primed.commit()
    assert read(primed.first) == [b"id: 1-0\nretry: 500\ndata:\n\n"]


def test_silence_is_filled_with_keep_alive_comments():
    stream = EventStream(home(keep_alive_seconds=0.02))
    stream.commit()
    assert read(stream.first, 2) == [b": open\n\n", b": keep-alive\n\n"]


def test_a_client_that_reconnects_gets_what_it_missed():
    streams = home()
    stream = EventStream(streams)
    stream.send(b"1")
    read(stream.first)
    stream.first.close()
    assert stream.send(b"2")  # kept
    body = stream.attach(1)
    stream.send(b"3")
    assert b"".join(read(body)) == encode_event(b"2", "1-2") + encode_event(b"3", "1-3")
    other = stream.attach(3)
    assert list(body) == []  # the last body reads
    stream.finish(b"4")
    assert list(other) == [encode_event(b"4", "1-4")]
    assert streams.find(1) is stream and stream.attach(9) is None


def test_without_a_store_a_disconnected_client_misses_the_rest():
    stream = EventStream(home(stored=False))
    stream.send(b"1")
    stream.first.close()
    assert not stream.send(b"2") and stream.attach(0) is None


def test_a_handler_waits_for_a_slow_reader_but_not_for_a_stalled_one():
    stream = EventStream(home(unread_messages=2, unread_seconds=LIMIT))
    stream.send(b"1")
    stream.send(b"2")
    sent = threading.Event()
    thread = threading.Thread(target=lambda: (stream.send(b"3"), sent.set()))
    thread.start()
    assert not sent.wait(0.05)
    read(stream.first)
    assert sent.wait(LIMIT)
    thread.join(LIMIT)
    still = EventStream(home(unread_messages=1, unread_seconds=0.02, stored=False))
    assert still.send(b"1") and not still.send(b"2") and still.reader is None


def test_notifications_do_not_wait_for_a_reader():
    streams = home(unread_messages=2)
    common = streams.common
    for number in range(4):
        assert common.send(b"%d" % number)  # no body reads: the oldest are dropped
    body = common.attach()
    assert next(body) == encode_event(b"2", "0-3") + encode_event(b"3", "0-4")
    for number in range(4, 8):
        common.send(b"%d" % number)
    assert list(body) == []  # too slow: cut off, and may come back
    again = common.attach(4)
    assert next(again).count(b"data: ") == 4


def test_the_messages_of_a_request_wait_for_the_reader_of_the_common_stream():
    common = home(unread_messages=4).common
    body = common.attach()
    read(body)
    for number in range(2):
        assert common.send_of_request(b"%d" % number, lambda: True)
    wanted, results = [True, True], []
    threads = [threading.Thread(target=lambda n=n: results.append(common.send_of_request(b"late", lambda: wanted[n])))
               for n in range(2)]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    assert results == []
    wanted[1] = False  # its response is sent meanwhile
    assert common.send(b"news") and common.reader is body  # which has the other half of the queue
    assert next(body).count(b"data: ") == 3
    for thread in threads:
        thread.join(LIMIT)
    assert sorted(results) == [False, True]
    assert next(body) == encode_event(b"late", "0-4")
    common.end()
    assert not common.send_of_request(b"more", lambda: True)


def test_a_burst_of_notifications_waits_for_a_client_that_reads():
    common = home(unread_messages=4).common
    body = common.attach()
    read(body)
    found = []
    reader = threading.Thread(target=lambda: found.extend(body))
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)  # seconds for which the thread that reads may be kept waiting
    try:
        reader.start()
        for number in range(1000):
            common.send(b"%d" % number)
        common.end()
        reader.join(LIMIT)
    finally:
        sys.setswitchinterval(before)
    assert b"".join(found).count(b"data: ") == 1000


def test_a_client_that_does_not_read_the_messages_of_its_requests_is_gone():
    common = home(unread_messages=4, unread_seconds=0.02).common
    body = common.attach()
    read(body)
    for number in range(3):
        common.send_of_request(b"%d" % number, lambda: True)
    assert common.reader is None and list(body) == []


def test_a_body_ends_when_its_client_has_disconnected(monkeypatch):
    monkeypatch.setattr("mcplite.server.http.streams.PROBE_SECONDS", 0.01)
    stream = EventStream(home())
    stream.commit()
    read(stream.first)
    stream.first.disconnected = lambda: True
    assert list(stream.first) == []
    other = EventStream(home())
    other.commit()
    read(other.first)
    thread = threading.Thread(target=other.first.stop)
    thread.start()
    assert list(other.first) == []
    thread.join(LIMIT)


def test_a_paused_stream_ends_its_body():
    stream = EventStream(home(priming=True))
    assert stream.close_connection(0.25)
    assert b"".join(stream.first).endswith(b"retry: 250\n\n") and stream.first.last
    assert stream.close_connection(None)  # also without a body
    stream.finish(b"answer")
    assert list(stream.attach(0)) == [encode_event(b"answer", "1-1")]
    assert not EventStream(home(priming=False)).close_connection(None)
    assert not EventStream(home(priming=True, stored=False)).close_connection(None)


def test_closing_ends_every_stream_and_drops_its_events():
    streams = home()
    stream = EventStream(streams)
    stream.send(b"1")
    closed = []
    stream.first.on_close = lambda: closed.append(1)
    streams.close()
    assert len(list(stream.first)) == 1 and streams.find(1) is None and not streams.common.send(b"x")
    stream.first.close()
    stream.first.close()
    assert closed == [1]


def test_only_so_many_finished_streams_are_kept():
    streams = home()
    for _ in range(70):
        stream = EventStream(streams)
        stream.send(b"1")
        stream.finish(b"2")
    assert streams.find(6) is None and streams.find(7) is not None and streams.find(70) is stream


@pytest.mark.parametrize("size", [1, 5000])
def test_queued_bytes_are_bounded_too(size):
    stream = EventStream(home(unread_bytes=4000, unread_seconds=0.02))
    assert stream.send(b"x" * size)
    assert stream.send(b"y" * 5000) and stream.reader is None  # kept for a client that comes back


# --- an end that is known before -------------------------------------------------------------------------------


def test_a_body_ends_when_it_is_due_after_its_last_messages():
    # AUS-31
    stream = EventStream(home())
    stream.commit()
    body, told = stream.first, []

    def end():
        told.append(1)
        stream.send(b"last")

    body.end_after(0.05, end)
    assert list(body) == [b": open\n\n", b"id: 1-1\nevent: message\ndata: last\n\n"]
    assert told == [1] and stream.reader is None and not stream.finished
    assert list(body) == [] and told == [1]


def test_a_body_that_was_due_before_it_is_read():
    stream = EventStream(home(), common=True)
    stream.send(b"kept")
    body = stream.attach()
    body.end_after(-5, bool)
    assert b"kept" in b"".join(body) and stream.reader is None


def test_a_body_that_is_done_before_it_is_due():
    stream, told = EventStream(home()), []
    stream.commit()
    stream.first.end_after(1000, lambda: told.append(1))
    stream.finish(b"answer")
    assert b"answer" in b"".join(stream.first) and told == []


def test_streams_hold_little_each_while_all_hold_too_much():
    limits = tight(unread_bytes=1_000_000, unread_bytes_at_once=300_000, unread_messages=1000)
    unread = ByteBudget(limits.unread_bytes_at_once)
    first, second = (StreamSet(key, None, limits, unread=unread).common for key in "ab")
    bodies = [stream.attach() for stream in (first, second)]
    while not unread.full:
        assert first.send(b"x" * 10_000)
    assert first.reader is bodies[0]
    for _ in range(8):
        second.send(b"x" * 10_000)
    assert second.reader is None and first.unread_bytes > 300_000 > 70_000 > second.unread_bytes
    assert len(next(bodies[0])) > 300_000 and unread.full  # it is being sent
    first.end()
    assert list(bodies[0]) == [] and not unread.full
    second.end()
    assert unread.held == 0


def test_the_end_of_a_stream_gives_its_bytes_back():
    limits = Limits()
    unread = ByteBudget(limits.unread_bytes_at_once)
    streams = StreamSet("a", None, limits, unread=unread)
    answer = EventStream(streams)
    for _ in range(10):
        answer.send(b"x" * 10_000)
        streams.common.send(b"x" * 10_000)
    assert unread.held > 100_000
    answer.first.close()
    streams.close()
    assert unread.held == 0

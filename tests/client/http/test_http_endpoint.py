"""Resumption of an event stream: the last event id, and the backoff between connections."""

from mcplite.client.http.http_endpoint import ResumableStream


def test_the_last_event_id():
    # RES-04, RES-08
    messages = []
    stream = ResumableStream(1000, messages.append)
    stream.begin()
    stream.feed(b"data: 1\n\nid: a\ndata:\n\nid: b\ndata: 2\n\nevent: other\ndata: 3\n\nid: c\ndata: cut off")
    assert messages == [b"1", b"2"] and stream.last_id == "b"
    stream.begin()
    stream.feed(b"data: 4\n\n")
    assert messages[-1] == b"4" and stream.last_id == "b"


def test_the_backoff():
    stream = ResumableStream(1000, print)
    stream.begin()
    assert 0.75 <= stream.delay() <= 1.25
    delays = []
    for stream.failures in range(1, 20):
        delays.append(stream.delay())
    assert delays[0] < 2 and delays[3] > 4 and max(delays) <= 37.5 and delays[-1] >= 22
    stream.feed(b"retry: 5000\n\n")
    stream.failures = 0
    assert stream.delay() == 5.0
    stream.failures = 1
    assert stream.delay() >= 5.0
    stream.failures = 0
    for retry, delay in ((0, 0.1), (5, 0.1), (10 ** 9, 60.0)):  # REL-46
        stream.feed(b"retry: %d\n\n" % retry)
        assert stream.delay() == delay

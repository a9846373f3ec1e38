"""Following a stream across connections: where to go on, and when."""

import pytest

from mcplite.client.http.resumption import Following
from mcplite.errors import ProtocolError


def test_the_place_to_go_on_from():
    messages = []
    following = Following(1000, messages.append)
    following.begin()
    following.take(b"data: 1\n\nid: a\ndata:\n\nid: b\ndata: 2\n\nevent: other\ndata: 3\n\nid: c\ndata: cut off")
    assert messages == [b"1", b"2"] and following.last_id == "b"
    following.begin()
    following.take(b"data: 4\n\n")
    assert messages[-1] == b"4" and following.last_id == "b"


def test_the_time_to_wait():
    following = Following(1000, print)
    assert 0.75 <= following.delay() <= 1.25
    delays = []
    for following.failures in range(1, 20):
        delays.append(following.delay())
    assert delays[0] < 2 and delays[3] > 4 and max(delays) <= 37.5 and delays[-1] >= 22
    following.take(b"retry: 5000\n\n")
    following.failures = 0
    assert following.delay() == 5.0
    following.failures = 1
    assert following.delay() >= 5.0
    following.failures = 0
    for said, waited in ((0, 0.1), (5, 0.1), (10 ** 9, 60.0)):  # REL-46
        following.take(b"retry: %d\n\n" % said)
        assert following.delay() == waited


def test_an_event_that_is_too_large():
    with pytest.raises(ProtocolError, match="more than 10 bytes"):
        Following(10, print).take(b"data: " + b"x" * 20)

"""The event store: what it returns, and its limits."""

import pytest

from mcplite.server.http.event_store import EventStore, MemoryEventStore
from tests.support.tight import tight


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def store(**limits):
    clock = Clock()
    return MemoryEventStore(tight(**limits), clock), clock


def fill(kept, stream, count, size=10, first=1):
    for number in range(first, first + count):
        kept.append(stream, number, b"%d" % number + b"x" * size)


def test_the_events_after_a_number_are_returned_in_order():
    kept, _ = store()
    fill(kept, "a", 3, 0)
    fill(kept, "b", 1, 0)
    assert kept.after("a", 0) == [b"1", b"2", b"3"] and kept.after("a", 2) == [b"3"] and kept.after("a", 3) == []
    assert kept.after("a", 4) is None and kept.after("c", 0) is None
    kept.forget("a")
    kept.forget("a")
    assert kept.after("a", 2) is None and kept.after("b", 0) == [b"1"]


@pytest.mark.parametrize("limits, left", [({"stream_events": 3}, 3), ({"stream_bytes": 2000}, 4)])
def test_the_oldest_events_of_a_stream_are_dropped_first(limits, left):
    kept, _ = store(**limits)
    fill(kept, "a", 10)
    assert kept.after("a", 10 - left - 1) is None
    assert len(kept.after("a", 10 - left)) == left


def test_the_stream_with_the_oldest_last_event_is_dropped_first():
    kept, _ = store(store_bytes=6000)
    for stream in "abc":
        fill(kept, stream, 2)
    fill(kept, "a", 2, first=3)
    fill(kept, "d", 2, 1000)
    assert kept.after("b", 0) is None and len(kept.after("a", 0)) == 4 and len(kept.after("d", 0)) == 2


def test_a_dropped_stream_continues_with_a_gap():
    kept, _ = store(store_bytes=3000)
    fill(kept, "a", 2)
    fill(kept, "b", 2, 1000)
    fill(kept, "a", 1, first=3)
    assert kept.after("a", 1) is None and len(kept.after("a", 2)) == 1


def test_old_events_are_dropped():
    kept, clock = store(store_seconds=60)
    fill(kept, "a", 1)
    clock.now = 59
    assert kept.after("a", 0) and kept.sweep()
    clock.now = 61
    assert kept.after("a", 0) is None
    fill(kept, "b", 1)
    assert len(kept) == 1
    clock.now = 122
    assert not kept.sweep() and len(kept) == 0


def test_the_sender_with_the_most_loses_its_oldest_stream():
    kept, _ = store(store_bytes=10_000)
    for sender, stream in (("x", "quiet"), ("y", "a"), ("y", "b"), ("y", "c"), ("y", "d")):
        kept.append_for(sender, stream, 1, b"x" * 1000)
    assert kept.after("quiet", 0) and kept.after("a", 0) is None and kept.after("d", 0)
    kept.append_for("x", "huge", 1, b"x" * 10_000)
    assert kept.after("huge", 0) is None and kept.after("quiet", 0) and kept.after("d", 0)


def test_the_size_of_the_store_is_exact():
    kept, _ = store(stream_events=2, store_bytes=20_000)
    for round in range(5):
        for stream in "abcdefgh":
            fill(kept, stream, 3, 500, first=1 + 3 * round)
    assert len(kept) and kept._shares.bytes <= 20_000
    for stream in "abcdefgh":
        kept.forget(stream)
    assert kept._shares.bytes == len(kept) == 0


def test_a_custom_store_has_three_methods():
    for call in (lambda: EventStore().append("a", 1, b""), lambda: EventStore().after("a", 1),
                 lambda: EventStore().forget("a")):
        with pytest.raises(NotImplementedError):
            call()
    given = []
    own = type("Own", (EventStore,), {"append": lambda self, *event: given.append(event)})()
    own.append_for("a sender", "a", 1, b"x")
    assert given == [("a", 1, b"x")] and own.sweep() is False

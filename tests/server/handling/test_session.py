"""The token bucket, on a clock of our own."""

import pytest

from mcplite.server.handling import session as throttle
from mcplite.server.handling.session import KnownRoots, Throttle
from mcplite.types import Root


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(throttle, "time", clock)
    return clock


def allowed(bucket, attempts):
    return sum(bucket.allow() for _ in range(attempts))


def test_without_a_rate_nothing_is_held_back():
    assert allowed(Throttle(None, 0), 1000) == 1000


def test_a_burst_passes_at_once_and_then_the_rate_applies(clock):
    bucket = Throttle(2.0, 5)
    assert allowed(bucket, 100) == 5
    clock.now += 1.0
    assert allowed(bucket, 100) == 2
    clock.now += 0.25
    assert allowed(bucket, 100) == 0, "half a token is none"
    clock.now += 0.25
    assert allowed(bucket, 100) == 1


def test_tokens_are_saved_up_to_one_burst(clock):
    bucket = Throttle(2.0, 5)
    allowed(bucket, 100)
    clock.now += 3600
    assert allowed(bucket, 100) == 5


def test_the_time_before_the_end_of_the_first_burst_counts(clock):
    bucket = Throttle(1.0, 3)
    for _ in range(50):
        assert bucket.allow(), "a sender that stays below the rate is never held up"
        clock.now += 1.0


def test_a_burst_is_one_message_at_least(clock):
    bucket = Throttle(0.01, 0.1)
    assert allowed(bucket, 5) == 1
    clock.now += 100
    assert allowed(bucket, 5) == 1


def test_over_a_long_time_the_rate_is_kept(clock):
    bucket, sent = Throttle(10.0, 20), 0
    for _ in range(1000):
        clock.now += 0.01
        sent += allowed(bucket, 3)
    assert 100 <= sent <= 121


def test_a_long_list_of_roots_is_requested_each_time():
    asked = []

    def ask(roots):
        asked.append(roots)
        return roots

    known = KnownRoots()
    many = [Root(uri=f"file:///{number}/{'x' * 100}") for number in range(1000)]
    few = many[:5]
    assert known.get(lambda: ask(many)) == many and known.get(lambda: ask(many)) == many and len(asked) == 2
    assert known.get(lambda: ask(few)) == few and known.get(lambda: ask(many)) == few and len(asked) == 3

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


@pytest.mark.parametrize("rate, burst, steps", [
    # How many of a hundred messages may be sent after so many seconds each.
    (None, 0, [(0, 100)]), (2.0, 5, [(0, 5), (1, 2), (0.25, 0), (0.25, 1), (3600, 5)]), (0.01, 0.1, [(0, 1), (100, 1)]),
])
def test_a_burst_passes_at_once_and_then_the_rate_applies(clock, rate, burst, steps):
    bucket, found = Throttle(rate, burst), []
    for seconds, _ in steps:
        clock.now += seconds
        found.append((seconds, allowed(bucket, 100)))
    assert found == steps


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

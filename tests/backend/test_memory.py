"""What is special to memory: the clock, what has expired, and forks."""

import pytest

from mcplite.backend.memory import MemoryBackend
from tests.support.fakes import Clock
from tests.support.forks import POSIX_ONLY, Forked


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock)


def test_what_has_expired_takes_no_memory(backend, clock):
    for number in range(100):
        backend.put(f"a/{number}", b"1", 10)
        backend.append(f"log/{number}", b"1", 10, 5)
    clock.now += 10
    backend.put("b", b"1", 10)
    assert len(backend._values) == 1
    assert {len(log.entries) for log in backend._logs.values()} == {0}
    clock.now += 3600
    backend.put("b", b"1", 10)
    assert not backend._logs


def test_what_is_only_swapped_takes_no_memory_for_ever(backend, clock):
    for number in range(100):
        assert backend.swap(f"once/{number}", None, b"1", 10)
        clock.now += 1
    assert len(backend._values) <= 11


def test_a_log_counts_on_for_an_hour(backend, clock):
    backend.append("log", b"1", 10, 5)
    clock.now += 10 + 3599
    assert backend.append("log", b"2", 10, 5) == 2
    clock.now += 10 + 3600
    assert backend.append("log", b"3", 10, 5) == 1


@POSIX_ONLY
def test_a_forked_process_begins_empty(backend):
    backend.put("a", b"1", 10)
    assert Forked(lambda: backend.get("a")).result() is None
    assert backend.get("a") == b"1"

"""A loop: what it does after a fault, its pauses, its end."""

import threading
import time

import pytest

from mcplite.errors import TransportError
from mcplite.rpc.deadline import Deadline
from mcplite.rpc.threads import Loop
from tests.support.fakes import LIMIT
from tests.support.faults import FAULTS, no_threads


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.pauses = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def failing(errors, then=lambda: None):
    """Return a body that raises these errors, one at each call, and then does something and returns."""
    left = list(errors)

    def body():
        if left:
            raise left.pop(0)
        then()

    return body


def test_the_body_is_called_again_after_every_kind_of_exception_until_it_returns(clock, caplog):
    done = []
    Loop("reading from the peer", failing([fault() for fault in FAULTS], lambda: done.append(1)), clock.pause).run()
    assert done == [1] and clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert {record.getMessage() for record in caplog.records} == {"reading from the peer failed, and is tried again"}


def test_faults_that_follow_one_another_cost_longer_pauses_and_few_lines(clock, caplog):
    Loop("x", failing([MemoryError("no memory")] * 100), clock.pause).run()
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8] + [1.0] * 95
    assert len([record for record in caplog.records if record.exc_info]) <= 3 * 5, "five tracebacks in a minute"
    assert "MemoryError: no memory" in caplog.text


def test_after_a_calm_time_a_fault_is_the_first_again(clock):
    errors = [OSError()] * 7

    def body():
        if errors:
            if len(errors) == 1:
                clock.now += 7
            raise errors.pop()

    Loop("x", body, clock.pause).run()
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 0.05]


def test_after_ten_faults_in_a_row_a_loop_ends_that_ends_something(clock):
    ended = []
    Loop("x", failing([OSError(number) for number in range(20)]), clock.pause, ended.append).run()
    (error,) = ended
    assert error.args == (9,) and len(clock.pauses) == 9


def test_a_loop_has_a_thread_that_can_be_waited_for():
    inside, end, seen = threading.Event(), threading.Event(), []

    def body():
        seen.append((threading.current_thread().name, threading.current_thread().daemon, loop.runs_here))
        assert loop.join(Deadline(0)), "its own thread does not wait for itself"
        inside.set()
        end.wait(LIMIT)

    loop = Loop("reader", body, end.wait)
    assert loop.join(Deadline(0)) and not loop.runs_here
    loop.start()
    assert inside.wait(LIMIT) and not loop.join(Deadline(0.01)) and not loop.runs_here
    end.set()
    assert loop.join(Deadline(LIMIT)) and seen == [("mcplite reader", True, True)]


def test_without_a_thread_the_start_fails_and_can_be_tried_again(monkeypatch):
    there, ran = no_threads(monkeypatch, "mcplite x"), threading.Event()
    loop = Loop("x", ran.set)
    with pytest.raises(TransportError, match="mcplite x"):
        loop.start()
    there()
    loop.start()
    assert ran.wait(LIMIT) and loop.join(Deadline(LIMIT))

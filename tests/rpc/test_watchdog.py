"""Who notices that a piece of work takes long."""

import threading

import pytest

from mcplite.rpc.watchdog import Watchdog
from tests.support.children import LIMIT, wait_until


class Work:
    """A watchdog, and the tickets that it found late; *late* may do something else with them."""

    def __init__(self, late=None):
        self.lock = threading.Lock()
        self.seen = []
        self.noticed = threading.Event()
        self.late = late
        self.dog = Watchdog(self.lock, 0.002, self.note)
        self.dog.start()

    def note(self, ticket):
        self.seen.append(ticket)
        self.noticed.set()
        if self.late is not None:
            self.late(ticket)

    def begin(self):
        with self.lock:
            return self.dog.begin()

    def end(self, ticket):
        with self.lock:
            return self.dog.end(ticket)


@pytest.fixture
def work():
    made = []

    def make(late=None):
        made.append(Work(late))
        return made[-1]

    yield make
    for one in made:
        one.dog.stop()


def test_work_that_takes_long_is_noticed_once(work):
    made = work()
    ticket = made.begin()
    assert made.noticed.wait(LIMIT)
    assert not wait_until(lambda: len(made.seen) > 1, 0.05) and made.seen == [ticket]
    assert made.end(ticket) and not made.end(ticket)


def test_a_ticket_that_was_taken_away_is_gone(work):
    made = work()
    made.late = made.end
    ticket = made.begin()
    assert made.noticed.wait(LIMIT) and wait_until(lambda: made.dog.ticket == 0)
    assert not made.end(ticket)


def test_it_sleeps_while_nothing_happens_and_wakes_for_the_next_piece(work):
    made = work()
    assert wait_until(lambda: made.dog._dozing)
    made.begin()
    assert made.noticed.wait(LIMIT)


def test_a_failure_does_not_end_it(work, caplog):
    def fail(ticket):
        raise RuntimeError("can't start new thread")

    made = work(fail)
    for ticket in (1, 2):
        assert made.begin() == ticket
        assert made.noticed.wait(LIMIT)
        made.noticed.clear()
        made.end(ticket)
    assert made.seen == [1, 2]
    assert wait_until(lambda: caplog.text.count("can't start new thread") >= 2)

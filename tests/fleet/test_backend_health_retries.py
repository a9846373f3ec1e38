"""What the store did not take is stored after any one fault of the thread that tries again."""

import threading

import pytest

from mcplite.errors import BackendError
from mcplite.fleet.backend_health import Retries
from mcplite.rpc import deadline
from tests.support.faults import every_fault, lines, no_threads

PATIENCE = 60


class Due:
    """What is to be stored in a store that is away, or fails in another way, a few times."""

    def __init__(self, *faults):
        self._faults, self.stored = list(faults), threading.Event()

    def store(self):
        if self._faults:
            raise self._faults.pop()()
        self.stored.set()


def made():
    return Retries("storage of streams", "the end of a stream was not stored", 60, 10)


@every_fault
@pytest.mark.slow
def test_the_ends_of_streams_are_stored_after_a_fault(caplog, fault):
    retries, due = made(), [Due(fault, lambda: BackendError("away")), Due()]
    for one in due:
        retries.add(one, one.store)
    assert all(one.stored.wait(PATIENCE) for one in due)
    later = Due()
    retries.add(later, later.store)
    assert later.stored.wait(PATIENCE)
    assert lines(caplog, "storage of streams failed, and is tried again") == 1
    retries.stop()


@pytest.mark.slow
def test_the_ends_of_streams_are_stored_once_the_system_has_a_thread(monkeypatch):
    retries, due = made(), [Due(), Due()]
    there = no_threads(monkeypatch, "mcplite storage of streams")
    retries.add(0, due[0].store)
    there()
    retries.add(1, due[1].store)
    assert all(one.stored.wait(PATIENCE) for one in due)
    retries.stop()


def test_the_oldest_is_given_up_for_one_too_many():
    retries, due = Retries("storage of streams", "lost", 60, 2), [Due(lambda: BackendError("away")) for _ in range(3)]
    for one in due:
        retries.add(one, one.store)
    assert due[1].stored.wait(PATIENCE) and due[2].stored.wait(PATIENCE) and not due[0].stored.is_set() and len(retries) == 0


def test_each_is_tried_for_its_own_time_and_the_oldest_first(monkeypatch, caplog):
    now, away, stored = [100.0], [True], []
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    retries = Retries("storage of streams", "the end of a stream was not stored", 60, 10)
    retries.running = True  # this thread tries, in the place of its own

    def add(name):
        def store():
            if away:
                raise BackendError("away")
            stored.append(name)
        retries.add(name, store)

    class Turns:
        """In the place of the event that ends the thread: each wait is a step of this test."""

        steps = iter([lambda: None, lambda: now.__setitem__(0, 150.0) or [add(2), add(3)],
                      lambda: now.__setitem__(0, 165.0), away.clear])

        def wait(self, seconds):
            next(self.steps)()
            return False

    add(1)
    retries._run(Turns())
    assert stored == [2, 3] and len(retries) == 0 and not retries.running
    assert lines(caplog, "the end of a stream was not stored") == 1

"""The end of a stream is stored after any one fault of the thread that does it later."""

import threading

import pytest

from mcplite.errors import BackendError
from mcplite.server.state.streams import Backlog
from tests.support.faults import every_fault, lines, no_threads

PATIENCE = 60


class Log:
    """The log of a stream whose store is away, or fails in another way, a few times."""

    def __init__(self, *faults):
        self._faults, self.stored = list(faults), threading.Event()

    def flush(self):
        if self._faults:
            raise self._faults.pop()()
        self.stored.set()


@every_fault
@pytest.mark.slow
def test_the_ends_of_streams_are_stored_after_a_fault(caplog, fault):
    backlog, logs = Backlog(), [Log(fault, lambda: BackendError("away")), Log()]
    for log in logs:
        backlog.add(log)
    assert all(log.stored.wait(PATIENCE) for log in logs)
    later = Log()
    backlog.add(later)
    assert later.stored.wait(PATIENCE)
    assert lines(caplog, "storage of streams failed, and is tried again") == 1
    backlog.close()


@pytest.mark.slow
def test_the_ends_of_streams_are_stored_once_the_system_has_a_thread(monkeypatch):
    backlog, logs = Backlog(), [Log(), Log()]
    there = no_threads(monkeypatch, "mcplite storage of streams")
    backlog.add(logs[0])
    there()
    backlog.add(logs[1])
    assert all(log.stored.wait(PATIENCE) for log in logs)
    backlog.close()

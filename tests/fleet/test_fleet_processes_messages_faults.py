"""The thread that reads messages goes on after any one fault, and what was sent meanwhile comes."""

import pytest

from mcplite.errors import TransportError
from tests.fleet.test_fleet_processes_messages import Process, Shared, backend  # noqa: F401
from tests.support.faults import every_fault, lines, no_threads, strike

PATIENCE = 60


@pytest.fixture
def pair(backend):  # noqa: F811
    one, other = Process(backend), Process(backend)
    yield one, other
    for process in (one, other):
        process.messages.stop()
        process.leases.stop()


@every_fault
@pytest.mark.parametrize("operation", ["wait", "since"])
@pytest.mark.slow
def test_letters_come_after_a_fault(pair, monkeypatch, caplog, operation, fault):
    one, other = pair
    struck = strike(monkeypatch, one.backend, operation, fault)
    one.messages.start()
    other.messages.send(one.leases.number, "greeting", 1)
    assert struck.wait(PATIENCE)
    other.messages.broadcast("greeting", 2)
    assert {one.gets(), one.gets()} == {1, 2}
    assert lines(caplog, "reader of messages failed, and is tried again") == 1


def test_letters_are_read_once_the_system_has_a_thread(pair, monkeypatch):
    one, other = pair
    there = no_threads(monkeypatch, "mcplite reader of messages")
    with pytest.raises(TransportError, match="mcplite reader of messages"):
        one.messages.start()
    there()
    one.messages.start()
    other.messages.broadcast("greeting", 1)
    assert one.gets() == 1

"""The processes of a server in one process: there are no others; with a shared backend they are those of its leases."""

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from tests.support.sharing import KEY, Shared


def test_one_process_has_no_others():
    processes = mcplite.Server("demo").runtime.processes
    assert isinstance(processes.backend, MemoryBackend) and processes.backend is processes.backend and not processes.shared
    assert processes.alive(processes.number) and not processes.alive(7)
    told = []
    processes.on("a kind", told.append)
    processes.broadcast("a kind", {})
    processes.failed(BackendError("away"))
    processes.check()
    assert told == []


def test_a_shared_backend_makes_them_known():
    backend = Shared()
    one, two = (mcplite.Server("demo", backend=backend, state_keys=[KEY]).runtime.processes for _ in range(2))
    try:
        assert one.shared and one.number == one.leases.number != two.number
        assert one.alive(two.number)
        one.failed(BackendError("away"))
        assert one.outage and not two.outage
    finally:
        for processes in (one, two):
            processes.stop()

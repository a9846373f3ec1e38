"""The processes of a server in one process: there are no others; with a shared backend they are those of its leases."""

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from tests.support.sharing import KEY, Shared


def test_one_process_has_no_others():
    processes = mcplite.Server("demo").runtime.processes
    assert isinstance(processes.backend, MemoryBackend) and not processes.shared and not processes.away
    assert processes.number == processes.candidate and processes.alive(processes.number) and not processes.alive(7)
    told = []
    processes.on("a kind", told.append)
    processes.on_lost(told.append)
    processes.send(processes.number, "a kind", {})
    processes.broadcast("a kind", {})
    processes.failed(BackendError("away"))
    assert told == [] and not processes.away


def test_a_shared_backend_makes_them_known():
    backend = Shared()
    one, two = (mcplite.Server("demo", backend=backend, state_keys=[KEY]).runtime for _ in range(2))
    try:
        assert one.processes.shared and one.processes.number == one.processes.leases.number != two.processes.number
        assert one.processes.alive(two.processes.number)
        one.processes.failed(BackendError("away"))
        assert one.processes.away and not two.processes.away
    finally:
        for runtime in (one, two):
            runtime.processes.leases.stop()

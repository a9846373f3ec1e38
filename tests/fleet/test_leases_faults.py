"""The thread that renews a lease goes on after any one fault: a process that runs is not taken for ended."""


import pytest

from mcplite.errors import BackendError
from tests.fleet.test_leases import PATIENCE, Shared, create, wait_swaps, wait_until  # noqa: F401
from tests.support.faults import every_fault, lines, no_threads, strike


@every_fault
@pytest.mark.slow
def test_a_lease_is_renewed_after_a_fault(create, monkeypatch, caplog, fault):  # noqa: F811
    backend = Shared()
    one, other = create(backend, 3.0), create(backend, 3.0)
    number = one.number
    assert other.alive(number)
    struck = strike(monkeypatch, backend, "swap", fault, lambda key, *rest: key == f"lease-{number}/process")
    assert struck.wait(PATIENCE)
    wait_swaps(backend, 6)  # of both, for two lengths of a lease
    assert other.alive(number) and one.number == number
    assert lines(caplog, "renewal of the lease failed, and is tried again") == 1


@pytest.mark.parametrize("fault", [MemoryError, OSError, RuntimeError])
def test_who_is_told_of_a_lost_number_keeps_nothing_from_the_others(create, fault):  # noqa: F811
    backend, told = Shared(), []
    one = create(backend, 0.3)
    number = one.number

    def fail(lost):
        raise fault()

    one.on_lost(fail)
    one.on_lost(told.append)
    backend.put(f"lease-{number}/process", b"ended", 60)
    wait_until(lambda: told)
    assert told == [number] and one.number != number


def test_a_process_has_a_number_once_the_system_has_a_thread(create, monkeypatch):  # noqa: F811
    backend = Shared()
    one = create(backend)
    there = no_threads(monkeypatch, "mcplite renewal of the lease")
    with pytest.raises(BackendError, match="'mcplite renewal of the lease' cannot be started"):
        one.number
    assert not one.held
    there()
    assert create(backend).alive(one.number)

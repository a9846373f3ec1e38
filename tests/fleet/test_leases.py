"""The numbers of processes, and how the others learn that one has ended."""

import contextlib
import logging
import secrets
import signal
import subprocess
import sys
import time

import pytest

import mcplite
from mcplite.backend.from_url import open_backend
from mcplite.errors import BackendError
from mcplite.fleet.backend_health import Outage
from mcplite.fleet.leases import Leases
from tests.support.forks import POSIX_ONLY, Forked
from tests.support.sharing import Shared

PATIENCE = 60


@pytest.fixture
def create():
    """A function that makes the leases of one more process; all are given back after the test."""
    made = []

    def create(backend, seconds=6.0):
        made.append(Leases(backend, Outage(), seconds))
        return made[-1]

    yield create
    for leases in made:
        leases.stop()


@pytest.fixture
def sqlite(tmp_path):
    with contextlib.closing(open_backend(f"sqlite:///{tmp_path / 'shop.db'}")) as backend:
        yield backend


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def wait_swaps(backend, count):
    """Wait for so many more leases to be taken or renewed."""
    begun = len(backend.trips)
    wait_until(lambda: sum(kind == "swap" for kind, _ in backend.trips[begun:]) >= count)


def test_each_process_has_a_number_from_its_first_use_on(create):
    backend = Shared()
    one, other = create(backend), create(backend)
    assert backend.trips == [], "a server that needs no number takes none"
    assert one.number == one.number != other.number
    assert 0 < one.number < 2**20
    assert one.alive(one.number) and one.alive(other.number) and other.alive(one.number)


def test_a_number_that_is_taken_is_not_taken_again(create, monkeypatch):
    backend = Shared()
    numbers = iter([7, 7, 7, 8])
    monkeypatch.setattr("mcplite.fleet.leases._random_number", lambda: next(numbers))
    one, other = create(backend), create(backend)
    assert (one.number, other.number) == (7, 8)
    monkeypatch.setattr("mcplite.fleet.leases._random_number", lambda: 1 + secrets.randbelow(1000))


def test_a_process_that_stops_has_ended_at_once_and_can_begin_again(create):
    backend = Shared()
    one, other = create(backend), create(backend)
    before = one.number
    one.stop()
    assert not other.alive(before)
    assert one.number != before and other.alive(one.number)


_CHILD = """
import sys
from mcplite.backend.from_url import open_backend
from mcplite.fleet.leases import Leases
from mcplite.fleet.backend_health import Outage

leases = Leases(open_backend(sys.argv[1]), Outage(), float(sys.argv[2]))
leases.on_lost(lambda number: print("lost", number, flush=True))
print(leases.number, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(sqlite, tmp_path):
    """A function that starts a process with a lease of some seconds."""
    started = []

    def start(seconds):
        command = [sys.executable, "-c", _CHILD, f"sqlite:///{tmp_path / 'shop.db'}", str(seconds)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def child(start):
    """A process with a number."""
    return start(3.0)


@pytest.mark.slow
def test_a_process_that_was_killed_is_found_ended(create, sqlite, child, monkeypatch):
    # As one of another machine.
    monkeypatch.setattr("mcplite.fleet.leases.has_ended", lambda mark: False)
    leases, number = create(sqlite, 3.0), int(child.stdout.readline())
    assert leases.alive(number)
    child.kill()
    wait_until(lambda: not leases.alive(number))
    assert not create(sqlite, 3.0).alive(number), "for all others as well"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the lease has to expire")
def test_a_process_of_this_machine_that_was_killed_is_found_ended_before_its_lease_expires(create, sqlite, start):
    child = start(3600.0)
    number = int(child.stdout.readline())
    assert create(sqlite, 3600.0).alive(number)
    child.kill()
    child.communicate()
    # By a process that has just begun, too.
    assert not create(sqlite, 3600.0).alive(number)
    other = create(sqlite, 3600.0)
    assert not other.alive(number) and other.alive(other.number)


def test_a_process_that_has_just_begun_leaves_it_to_others_whether_one_has_ended(create):
    backend, doubts = Shared(), []
    old, young = create(backend, 1.5), create(backend, 600.0)
    young.on_doubt = doubts.append
    old.judge(99)
    assert backend.get("lease-99/process") is None, "a process without a lease judges nothing"
    assert old.number != young.number
    assert young.alive(99) and doubts == [99], "it might be the first one after an outage"
    until = time.monotonic() + PATIENCE
    while young.alive(99):  # it never becomes sure within the limit
        assert time.monotonic() < until
        old.judge(99)
        time.sleep(0.05)
    assert set(doubts) == {99}


@pytest.mark.slow
def test_the_processes_of_a_server_ask_each_other():
    backend = Shared()
    old, young = [mcplite.Server("shop", backend=backend, state_keys=["a key of sixteen bytes"]).runtime for _ in range(2)]
    old.processes.leases._seconds, young.processes.leases._seconds = 1.5, 600.0
    with contextlib.ExitStack() as stack:
        for runtime in (old, young):
            runtime.enter()
            stack.callback(runtime.leave)
        assert old.processes.leases.number != young.processes.leases.number
        wait_until(lambda: not young.processes.leases.alive(99))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="POSIX only")
@pytest.mark.slow
def test_a_process_that_was_paused_and_taken_for_ended_learns_of_it(create, sqlite, child):
    leases, number = create(sqlite, 3.0), int(child.stdout.readline())
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: not leases.alive(number))
    child.send_signal(signal.SIGCONT)
    assert child.stdout.readline() == f"lost {number}\n"


@pytest.mark.slow
def test_after_a_store_has_lost_all_leases_no_process_is_taken_for_ended(create):
    shift = [0.0]
    backend = Shared(lambda: time.monotonic() + shift[0])
    one, other = create(backend, 4.0), create(backend, 4.0)
    lost = []
    one.on_lost(lost.append)
    other.on_lost(lost.append)
    numbers = one.number, other.number
    time.sleep(3.2)  # both would be sure of what they find
    shift[0] = 1000.0
    until = time.monotonic() + PATIENCE
    while backend.get(f"lease-{other.number}/process") is None:
        assert one.alive(other.number) and time.monotonic() < until
    wait_swaps(backend, 4)
    assert one.alive(other.number) and other.alive(one.number)
    assert (one.number, other.number) == numbers and not lost


@pytest.mark.slow
def test_an_outage_fails_with_its_reason_and_is_one_warning(create, caplog):
    backend = Shared()
    one, other = create(backend, 2.0), create(backend, 2.0)
    number = other.number
    assert one.number != number
    with caplog.at_level(logging.INFO):
        backend.away = {"swap", "get"}
        wait_until(lambda: caplog.text.count("is away; what needs it") == 2)  # one for each
        with pytest.raises(BackendError, match="the backend is away"):
            create(backend).number  # noqa: B018
        with pytest.raises(BackendError, match="the backend is away"):
            create(backend).alive(number)
        time.sleep(1.2)  # further attempts
        backend.away = ()
        wait_until(lambda: caplog.text.count("is back") == 2)
        assert caplog.text.count("is away; what needs it") == 2
    assert one.alive(number) and other.number == number


@POSIX_ONLY
def test_a_forked_process_has_a_number_of_its_own(create, sqlite):
    leases = create(sqlite)
    number = leases.number

    def child():
        leases.let_go()
        own = leases.number
        return own, leases.alive(number), leases.alive(own)

    own, parent_alive, own_alive = Forked(child).result()
    assert own != number and parent_alive and own_alive
    assert leases.number == number

"""The bound on the sessions of a fleet: who goes for a new session, on each store and from several processes at once."""

import contextlib
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcplite.backend.from_url import open_backend
from mcplite.backend.memory import MemoryBackend
from mcplite.fleet.session_records import LISTED_BYTES, FleetSessions, SessionRecord, SessionRecords
from mcplite.revisions import NEWEST_LEGACY
from tests.support.fleets import EVERY_KIND, running_store
from tests.support.tight import tight


class Process:
    """One process that opens sessions in a store, and ends those that have to go."""

    def __init__(self, backend, clock=None, **limits):
        self.records = SessionRecords(backend, tight(**limits), clock=clock or (lambda: 1000.0))
        self.fleet_sessions = FleetSessions(self.records, "shop")

    def open(self, sender="ada", letter="A"):
        """Open a session whose id begins with a letter; return the id, or None if there was no room."""
        id = letter + secrets.token_urlsafe(24)[:31]
        if not self.end(self.fleet_sessions.add(id, sender)):
            return None
        self.records.put(id, SessionRecord(NEWEST_LEGACY, None, sender, self.records.now, 0))
        return id

    def end(self, ids):
        for id in ids or []:
            assert self.records.remove(id)
        return ids is not None

    def use(self, id):
        data = self.records.get(id)
        self.records.swap(id, data, SessionRecord.load(data).changed(touched=self.records.now))

    def held(self, ids):
        return [id for id in ids if self.records.get(id) is not None]


class Clock:
    now = 1000.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def process(clock):
    return Process(MemoryBackend(clock), clock, fleet_sessions=4, session_start_seconds=900)


def test_what_was_never_used_goes_first(process):
    ids = [process.open() for _ in range(4)]
    for id in (ids[0], ids[1], ids[3]):
        process.use(id)
    assert process.open() is not None
    assert process.held(ids) == [ids[0], ids[1], ids[3]]


def test_then_what_has_been_idle_for_longest(process):
    ids = [process.open() for _ in range(4)]
    for id in (ids[2], ids[0], ids[1], ids[3]):
        process.use(id)
    newest = process.open()
    process.use(newest)
    assert process.held(ids) == [ids[0], ids[1], ids[3]]
    process.use(ids[0])
    process.use(process.open())
    assert process.held(ids) == [ids[0], ids[3]]


def test_the_client_with_the_most_makes_room(process):
    theirs = process.open("bob")
    process.use(theirs)
    for _ in range(20):
        process.use(process.open("eve"))
    assert process.held([theirs])
    assert process.open("carol") and process.open("dave")
    assert process.held([theirs])


def test_what_has_ended_makes_room_without_a_loss(process):
    ids = [process.open() for _ in range(4)]
    for id in ids:
        process.use(id)
    process.records.remove(ids[1])
    process.fleet_sessions.remove(ids[1])
    assert process.open() and len(process.held(ids)) == 3
    process.records.remove(ids[2])  # it has expired, and the list has it still
    assert process.open() and process.held(ids) == [ids[0], ids[3]]


def test_large_sessions_count_by_their_bytes(clock):
    process = Process(MemoryBackend(clock), clock, fleet_session_bytes=10 * LISTED_BYTES, session_start_seconds=900)
    ids = [process.open() for _ in range(10)]
    assert len(process.held(ids)) == 10
    assert process.end(process.fleet_sessions.resize(ids[9], "ada", 5 * LISTED_BYTES))
    assert process.held(ids) == ids[4:]
    assert process.fleet_sessions.resize(ids[9], "ada", 11 * LISTED_BYTES) is None


def test_a_call_at_the_limit_reads_few_records(clock):
    class Counting(MemoryBackend):
        reads = 0

        def get(self, key):
            self.reads += "record" in key
            return super().get(key)

    backend = Counting(clock)
    process = Process(backend, clock, fleet_sessions=90, session_start_seconds=9000)
    ids = [process.open() for _ in range(90)]
    for id in ids:
        process.use(id)
    backend.reads = 0
    assert process.open()
    assert backend.reads <= 9


@pytest.fixture(scope="module", params=EVERY_KIND)
def store(request, tmp_path_factory):
    with running_store(request.param, tmp_path_factory.mktemp("store")) as (url, _):
        yield url


def test_a_stranger_at_all_processes_grows_no_store_without_bound(store):
    with contextlib.ExitStack() as stack:
        processes = [Process(stack.enter_context(contextlib.closing(open_backend(store))), fleet_sessions=300)
                     for _ in range(3)]
        known = processes[0].open("a client that stays")
        processes[0].use(known)
        opened, lock = [], threading.Lock()

        def open_one(number):
            id = processes[number % 3].open("a stranger", letter="ABCDEFGH"[number % 8])
            with lock:
                opened.append(id)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(open_one, range(600)))
        held = processes[0].held(opened)
        assert 200 <= len(held) <= 300
        assert processes[1].held([known])

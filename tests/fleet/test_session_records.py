"""The records of sessions in a backend: their bytes, their lifetime, and two processes that change one."""

import json

from mcplite.backend.memory import MemoryBackend
from mcplite.fleet.session_records import SessionRecord, SessionRecords
from mcplite.revisions import NEWEST_LEGACY
from mcplite.server.limits import Limits
from mcplite.types import ClientCapabilities, Implementation
from tests.support.fakes import Clock
from tests.support.tight import tight

ID = "A" * 32


def record(**changes):
    return SessionRecord(NEWEST_LEGACY, "ada", "ada", 1000.0, 7, **changes)


def test_a_record_is_read_as_it_was_written():
    one = record(info=Implementation("ü", "1"), capabilities=ClientCapabilities(elicitation={}), level="error", uris=("a://b",),
                 ready=True, roots=2, version=5, reader=9)
    assert SessionRecord.load(one.dump()) == one
    assert SessionRecord.load(record().dump()) == record()
    newer = json.dumps({**json.loads(one.dump()), "later": {"a": 1}}).encode()
    assert SessionRecord.load(newer) == one, "a newer release writes members that this one does not know"


def test_a_revision_that_is_not_known_cannot_be_read():
    assert SessionRecord.load(record().dump().replace(NEWEST_LEGACY.name.encode(), b"2099-01-01")) is None


def test_a_session_lasts_while_it_is_used_and_never_longer_than_the_limit():
    # SESS-18
    clock = Clock()
    limits = tight(session_start_seconds=10, session_idle_seconds=100, session_seconds=150)
    records = SessionRecords(MemoryBackend(clock), limits, clock=clock)
    data = records.put(ID, record())
    clock.now += 9
    assert records.get(ID) == data
    data = records.swap(ID, data, record(touched=records.now))
    clock.now += 90
    data = records.swap(ID, data, record(touched=records.now))
    clock.now += 50
    assert records.get(ID) == data and SessionRecord.load(data).touched == 1099
    clock.now += 2
    assert records.get(ID) is None and records.swap(ID, data, record()) is None


def test_of_two_changes_one_is_first():
    records = SessionRecords(MemoryBackend(), Limits(), clock=Clock())
    data = records.put(ID, record())
    changed = records.swap(ID, data, record().changed(level="error"))
    assert SessionRecord.load(changed).version == 2
    assert records.swap(ID, data, record().changed(level="debug")) is None
    assert records.remove(ID) and not records.remove(ID)


def test_an_id_that_was_not_issued_is_not_looked_up():
    records = SessionRecords(MemoryBackend(), Limits())
    assert [records.get(id) for id in ("", "a", "A" * 33, "ä" * 32, "a/" * 16)] == [None] * 5

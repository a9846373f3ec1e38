import threading

import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.errors import RemoteError
from mcplite.tasks import Tasks
from mcplite.tasks.task_record import TaskCall, TaskRecord
from mcplite.tasks.task_store import TaskStore

CALL = TaskCall("t", "r", {}, {}, {}, {}, None, None)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return TaskStore(MemoryBackend(clock), "s", Tasks(kept=3, bytes=16 << 20), clock=clock)


def new(store, owner="ann", sender="", server="s", ttl=60.0):
    now = store.now()
    return TaskRecord(store.new_id(), server, "t", owner, sender, "r", now, now, ttl, 0.5)


def create(store, **options):
    record = new(store, **options)
    store.create(record, CALL)
    return record


def test_a_task_is_found_until_its_time_is_over(store, clock):
    record = create(store)
    assert store.get(record.id) == record and store.call(record.id) == CALL
    clock.now += 61
    assert store.get(record.id) is None and store.call(record.id) is None and store.list("ann") == []


@pytest.mark.parametrize("wrong", [None, 5, "", "x", "a/b" * 10 + "ab", "ü" * 32, "x" * 33])
def test_what_is_no_id_is_not_looked_up(store, wrong):
    assert store.get(wrong) is None


def test_the_tasks_of_another_server_are_not_there(store):
    record = new(store, server="other")
    store.create(record, CALL)
    assert store.get(record.id) is None


def test_changes_of_many_threads_all_count(store):
    record = create(store)

    def add(number):
        def change(found):
            found.once[str(number)] = 1
            return True

        assert store.change(record.id, change) is not None

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(store.get(record.id).once) == 20


def test_the_oldest_finished_one_goes_for_one_too_many(store):
    first, second, third = create(store), create(store), create(store)

    def finish(found):
        found.end("completed", None)
        return True

    with pytest.raises(RemoteError, match="unfinished"):
        create(store)
    store.put_result(second, {"content": []})
    assert store.change(second.id, finish) is not None
    fourth = create(store)
    assert store.list("ann") == [first.id, third.id, fourth.id] and store.get(second.id) is None
    assert store.result(second) is None
    create(store, owner="bob")


def test_one_caller_sends_a_question(store):
    record = create(store)
    assert store.claim(record, "k") and not store.claim(record, "k") and store.claim(record, "other")
    store.release(record, "k")
    assert store.claim(record, "k")


# --- bytes -----------------------------------------------------------------------------------------------


class SharedBackend(MemoryBackend):
    shared = True


def sized(clock, shared, task_bytes=105_000):
    return TaskStore(SharedBackend(clock) if shared else MemoryBackend(clock), "s", Tasks(bytes=task_bytes), clock=clock)


def large(store, size=20_000, **options):
    record = new(store, **options)
    store.create(record, TaskCall("t", "r", {"text": "x" * size}, {}, {}, {}, None, None))
    return record


def complete(store, record, result):
    assert store.put_result(record, result)

    def end(found):
        found.result_bytes, found.listed = record.result_bytes, record.listed
        found.end("completed", None)
        return True

    return store.change(record.id, end)


@pytest.mark.parametrize("shared", [False, True])
def test_calls_take_no_more_bytes_than_there_are(clock, shared):
    store = sized(clock, shared)
    kept = [large(store) for _ in range(4)]
    with pytest.raises(RemoteError, match="unfinished tasks take the bytes"):
        large(store)
    assert store.list("ann") == [record.id for record in kept]
    complete(store, kept[2], {"content": []})
    assert large(store) and store.get(kept[2].id) is not None  # its arguments were all that was large


@pytest.mark.parametrize("shared", [False, True])
def test_results_take_no_more_bytes_than_there_are(clock, shared):
    store = sized(clock, shared)
    kept = []
    for _ in range(10):
        record = create(store)
        complete(store, record, {"text": "x" * 20_000})
        kept.append(record)
    found = [record for record in kept if store.get(record.id) is not None]
    assert found == kept[-len(found):] and 3 <= len(found) <= 5
    assert sum(len(kept.value) for kept in store.backend._values.values()) < 110_000


@pytest.mark.parametrize("shared", [False, True])
def test_a_result_that_is_too_large_is_not_stored(clock, shared):
    store = sized(clock, shared)
    other, record = create(store), create(store)
    complete(store, other, {"content": []})
    assert not store.put_result(record, {"text": "x" * 200_000})
    assert store.result(record) is None and store.get(other.id) is not None


@pytest.mark.parametrize("shared", [False, True])
def test_a_record_that_grows_too_large_is_failed(clock, shared):
    store = sized(clock, shared)
    record = create(store)

    def grow(found):
        found.answers["a"] = {"result": "x" * 200_000}
        return True

    changed = store.change(record.id, grow)
    assert changed.status == "failed" and "Tasks.bytes" in changed.message
    assert store.get(record.id) == changed and len(changed.dump()) < 4096
    assert store.list("ann") == [record.id] and large(store, 80_000)


def test_each_client_has_its_bytes_in_a_shared_store(clock):
    store = sized(clock, shared=True)
    for owner in ("ann", "bob"):
        assert all(large(store, owner=owner) for _ in range(4))
        with pytest.raises(RemoteError, match="that are kept for you"):
            large(store, owner=owner)

import threading

import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.errors import RemoteError
from mcplite.server.tasks.record import TaskCall, TaskRecord
from mcplite.server.tasks.store import TaskStore

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
    return TaskStore(MemoryBackend(clock), "s", 3, clock)


def new(store, owner="ann", sender="", server="s", ttl=60.0):
    now = store.now()
    return TaskRecord(store.new_id(), server, "t", owner, sender, "r", now, now, ttl, 0.5)


def create(store, **options):
    record = new(store, **options)
    store.create(record, CALL)
    return record


def test_ids_are_long_and_differ(store):
    ids = {store.new_id() for _ in range(1000)}
    assert len(ids) == 1000 and {len(one) for one in ids} == {32}


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


def test_a_change_that_changes_nothing(store):
    record = create(store)
    assert store.change(record.id, lambda found: False) is None
    assert store.change("x" * 32, lambda found: True) is None
    assert store.get(record.id) == record


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


def test_each_client_has_a_list_of_its_own(store):
    mine, his, unknown = create(store), create(store, owner="bob"), create(store, owner=None, sender="1.2.3.4")
    assert store.list("ann") == [mine.id] and store.list("bob") == [his.id]
    assert unknown.id not in store.list("ann")


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


def test_what_is_dropped_is_gone(store):
    record = create(store)
    store.put_result(record, {"content": []})
    assert store.result(record) == {"content": []}
    store.drop(record)
    assert store.get(record.id) is None and store.result(record) is None and store.list("ann") == []


def test_one_caller_sends_a_question(store):
    record = create(store)
    assert store.claim(record, "k") and not store.claim(record, "k") and store.claim(record, "other")
    store.release(record, "k")
    assert store.claim(record, "k")


import pytest

from mcplite.backend.memory import MemoryBackend
from mcplite.errors import RemoteError
from mcplite.tasks import Tasks
from mcplite.tasks.task_record import TaskCall, TaskRecord
from mcplite.tasks.task_store import ListedTask, TaskBudget, TaskStore
from tests.support.fakes import Clock
from tests.support.processes import at_once

CALL = TaskCall("t", "r", {}, {}, {}, {}, None, None)


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

    at_once(add, range(20))
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


# --- test_task_store_budget.py --------------------------------------------------------------------


KIB = 1024


class Budgeted:
    """A budget of 100 KiB, and the ids of the tasks that had to go."""

    def __init__(self, in_memory=True):
        self.now, self.gone = 1000.0, []
        self.budget = TaskBudget(100 * KIB, in_memory, self.gone.append, lambda: self.now)

    def add(self, id, held=0, stored=0, client="ann", finished=False):
        record = TaskRecord(id, "s", "t", None, client, "r", self.now, self.now, 60.0, 0.5)
        if finished:
            record.end("completed", None)
        return record if self.budget.add(record, held * KIB, stored * KIB) else None


@pytest.fixture
def tasks():
    return Budgeted()


def finish(tasks, record, stored):
    record.end("completed", None)
    return tasks.budget.count(record, stored * KIB)


def test_the_oldest_finished_one_goes_first(tasks):
    first, second, third = (tasks.add(id, 25) for id in "abc")
    for task in (second, first):
        assert finish(tasks, task, 20)
        tasks.budget.release(task.id)
    assert tasks.add("d", 50) and tasks.gone == ["a"]
    assert third is not None


def test_there_is_no_room_beside_unfinished_ones_of_the_same_client(tasks):
    assert tasks.add("a", 60)
    assert tasks.add("b", 60) is None and tasks.gone == []
    assert tasks.add("c", 30)


def test_another_client_gets_its_share_of_what_is_in_use(tasks):
    for id in "abcdefghi":
        assert tasks.add(id, 10)
    assert tasks.add("x", 20, client="bob") and tasks.gone == ["a", "b"]
    assert tasks.add("y", 20, client="bob") and tasks.gone == ["a", "b", "c", "d"]
    assert tasks.add("z", 20, client="bob") is None  # bob would have the most


def test_a_run_that_ends_gives_back_what_it_held(tasks):
    task = tasks.add("a", 90, 5)
    assert finish(tasks, task, 5)
    assert tasks.add("b", 50, client="bob") and tasks.gone == ["a"]
    task = tasks.add("c", 40)
    assert task is not None
    tasks.budget.release("c")
    assert tasks.add("d", 40, client="bob")


def test_what_grows_beyond_the_budget_is_not_counted_any_more(tasks):
    task, small = tasks.add("a", 10), tasks.add("b", 10, finished=True)
    assert not tasks.budget.count(task, 200 * KIB)
    assert tasks.gone == [] and tasks.budget.bytes < 12 * KIB  # nothing else goes for what has no room anyway
    assert small is not None and tasks.budget.count(task, 1)


def test_a_task_whose_time_is_over_is_not_counted_any_more(tasks):
    tasks.add("a", 0, 90)
    tasks.now += 61
    assert tasks.add("b", 90) and tasks.gone == []


def test_what_lies_in_a_shared_store_is_not_in_this_process():
    tasks = Budgeted(in_memory=False)
    task = tasks.add("a", 10, 90)
    assert tasks.budget.bytes < 12 * KIB and tasks.budget.count(task, 200 * KIB)
    tasks.budget.release("a")
    assert tasks.budget.bytes == 0
    tasks.budget.release("a")


# --- test_task_store_listing.py -------------------------------------------------------------------


A, B, C = ListedTask("a", 10.0, 4096), ListedTask("b", 30.5, 0), ListedTask("c", 20.0, 8192)


def complete(store, record, result):
    assert store.put_result(record, result)

    def end(found):
        found.result_bytes, found.listed = record.result_bytes, record.listed
        found.end("completed", None)
        return True

    return store.change(record.id, end)


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

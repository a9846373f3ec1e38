import pytest

from mcplite.tasks.task_record import TaskRecord
from mcplite.tasks.task_store import TaskBudget

KIB = 1024


class Tasks:
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
    return Tasks()


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
    tasks = Tasks(in_memory=False)
    task = tasks.add("a", 10, 90)
    assert tasks.budget.bytes < 12 * KIB and tasks.budget.count(task, 200 * KIB)
    tasks.budget.release("a")
    assert tasks.budget.bytes == 0
    tasks.budget.release("a")

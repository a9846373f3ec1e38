"""The wait for logs: what is asked of the store, what is told, what is forgotten."""

import threading

import pytest

from mcplite.backend.log_watch import LogWatch
from mcplite.errors import BackendError

#: Seconds to wait for what has to come.
PATIENCE = 30


class Numbers:
    """A store of numbers that notes what was asked."""

    def __init__(self, **numbers):
        self.numbers = numbers
        self.followed, self.forgotten = [], []
        self.watch = LogWatch(self.follow, self.forgotten.extend)

    def follow(self, logs):
        self.followed.append(sorted(logs))
        return {log: self.numbers.get(log, 0) for log in logs}


def test_a_report_ends_the_wait_of_each_thread_that_it_concerns():
    store = Numbers()
    store.watch.wait({"a": 0, "b": 0}, 0)  # from now on both are followed
    found = []
    threads = [threading.Thread(target=lambda log=log: found.append(store.watch.wait({log: 0}, 60))) for log in "aab"]
    for thread in threads:
        thread.start()
    store.watch.report({"a": 1})
    store.watch.report({"b": 7, "unknown": 3})
    for thread in threads:
        thread.join(60)
    assert sorted(map(sorted, found)) == [["a"], ["a"], ["b"]]
    assert store.followed == [["a", "b"]]


def test_a_report_during_the_first_look_is_newer():
    def follow(logs):
        watch.report({"a": 5})
        return {"a": 4}

    watch = LogWatch(follow)
    assert watch.wait({"a": 5}, 0) == set()
    assert watch.wait({"a": 4}, 60) == {"a"}


def test_a_first_look_that_fails_is_repeated_by_the_next_wait():
    answers = [BackendError("away"), {"a": 1}]

    def follow(logs):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = LogWatch(follow)
    with pytest.raises(BackendError):
        watch.wait({"a": 0}, 60)
    assert watch.wait({"a": 0}, 60) == {"a"}


def test_logs_that_no_wait_names_are_forgotten():
    store = Numbers()
    store.watch.wait({f"old/{number}": 0 for number in range(200)}, 0)
    assert not store.forgotten
    store.watch.wait({"new": 0}, 0)
    assert len(store.forgotten) == 200 and store.watch.logs == ["new"]


def test_after_close_no_wait_waits():
    store = Numbers()
    store.watch.close()
    assert store.watch.wait({"a": 0}, 60) == set()


@pytest.mark.parametrize("announced", [10 ** 15, b"1000000000000000", 6, "6"])
def test_a_false_announcement_wakes_once_and_is_compared_with_the_store(announced):
    reads = []

    def read(logs):
        reads.append(list(logs))
        return dict.fromkeys(logs, 5)

    watch = LogWatch(lambda logs: dict.fromkeys(logs, 5), read=read)
    assert watch.wait({"a": 5}, 0) == set()
    watch.announce("a", announced)
    assert watch.wait({"a": 5}, PATIENCE) == {"a"}, "an announcement wakes without a look at the store"
    assert watch.wait({"a": 5}, 0.05) == set() and reads == [["a"]]
    for number in range(7, 200):  # while others like it are held back, they cost nothing
        watch.announce("a", 10 ** 15 + number)
        assert watch.wait({"a": 5}, 0) == set()
    assert len(reads) <= 2


def test_a_true_announcement_is_found_behind_false_ones():
    number = 5
    watch = LogWatch(lambda logs: dict.fromkeys(logs, number))
    watch.wait({"a": 5}, 0)
    for _ in range(3):
        watch.announce("a", 10 ** 15)
        watch.wait({"a": 5}, 0.01)
    number = 6
    watch.announce("a", 6)
    assert watch.wait({"a": 5}, PATIENCE) == {"a"}
    assert watch.wait({"a": 6}, 0) == set()


@pytest.mark.parametrize("junk", [b"junk", "", None, b"1.5", "0x10", b"\xff", [], {}, "1 2"])
def test_an_announcement_without_a_number_is_ignored(junk):
    watch = LogWatch(lambda logs: dict.fromkeys(logs, 5))
    watch.wait({"a": 5}, 0)
    watch.announce("a", junk)
    watch.announce("never watched", 7)
    assert watch.wait({"a": 5}, 0) == set() and watch.logs == ["a"]

"""One thread at a time, and the senders alternate."""

import threading
import time
from types import SimpleNamespace

import pytest

from mcplite.errors import SERVER_BUSY, RemoteError
from mcplite.rpc import fair_queue as turns_module
from mcplite.rpc.fair_queue import Turns
from tests.support.children import wait_until

LIMIT = 20


class Line:
    """Threads that take turns; each notes its name and waits until it is let go."""

    def __init__(self, **options):
        self.turns, self.begun, self.at_once, self.errors = Turns(**options), [], 0, {}
        self.go, self.threads = {}, []

    def join(self, name, left=lambda: False):
        """Take a turn of the sender that the name begins with; return when it has begun, or waits."""
        go = self.go[name] = threading.Event()

        def run():
            try:
                with self.turns.turn(name[0], left):
                    self.at_once += 1
                    self.begun.append((name, self.at_once))
                    go.wait(LIMIT)
                    self.at_once -= 1
            except RemoteError as error:
                self.errors[name] = error

        waiting = self.turns.waiting
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        assert wait_until(lambda: name in self.errors or self.turns.waiting > waiting or name in dict(self.begun))

    def end(self, name, following):
        """End a turn, and wait for the next one."""
        self.go[name].set()
        assert wait_until(lambda: self.begun[-1][0] == following), self.begun

    def close(self):
        for go in self.go.values():
            go.set()
        for thread in self.threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.fixture
def make():
    made = []

    def make(**options):
        made.append(Line(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def line(make):
    return make()


def test_one_at_a_time_and_the_senders_alternate(line):
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        line.join(name)
    assert line.begun == [("a1", 1)] and line.turns.waiting == 5
    order = "a1", "b1", "a2", "c1", "b2", "a3"
    for name, following in zip(order, order[1:]):
        line.end(name, following)
    line.close()
    assert line.begun == [(name, 1) for name in order]
    line.join("d1")
    assert line.begun[-1] == ("d1", 1), "without anyone before it, a turn begins at once"


def test_a_client_that_leaves_does_not_get_its_turn(line, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    gone = threading.Event()
    line.join("a1")
    line.join("b1", gone.is_set)
    line.join("c1")
    gone.set()
    assert wait_until(lambda: "b1" in line.errors) and line.errors["b1"].code == SERVER_BUSY
    line.end("a1", "c1")


def test_a_turn_that_does_not_come_in_time_is_given_up(make, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    line = make(seconds=0.02)
    line.join("a1")
    line.join("b1")
    assert wait_until(lambda: "b1" in line.errors) and "Server busy" in str(line.errors["b1"])
    assert line.turns.waiting == 0


def test_a_turn_that_lasts_too_long_is_passed_on(line, monkeypatch):
    monkeypatch.setattr(turns_module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(turns_module, "_LONGEST_SECONDS", 0.0)
    line.join("a1")
    line.join("b1")
    assert wait_until(lambda: line.begun == [("a1", 1), ("b1", 2)])
    line.end("a1", "b1")
    monkeypatch.setattr(turns_module, "_LONGEST_SECONDS", 1000.0)
    line.join("c1")
    assert line.turns.waiting == 1, "the end of a turn that was passed on ends no other one"
    line.end("b1", "c1")


def test_a_turn_without_a_block_lasts_until_it_is_ended(line):
    turn = line.turns.begin("a")
    line.join("b1")
    line.join("c1")
    assert line.turns.waiting == 2 and line.begun == []
    turn.end()
    assert wait_until(lambda: line.begun == [("b1", 1)])
    turn.end()
    assert line.turns.waiting == 1, "a second end is of no other turn"
    line.end("b1", "c1")


@pytest.mark.parametrize("long, pauses", [(0.0, 1), (1000.0, 0)])
def test_a_pause_follows_a_long_turn_if_another_one_waits(line, monkeypatch, long, pauses):
    slept = []
    monkeypatch.setattr(turns_module, "_PAUSE_SECONDS", long)
    monkeypatch.setattr(turns_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    line.join("a1")
    line.join("b1")
    line.end("a1", "b1")
    line.close()
    assert slept == [long] * pauses


def test_a_turn_ends_with_an_exception(line):
    with pytest.raises(ZeroDivisionError), line.turns.turn("a"):
        raise ZeroDivisionError
    line.join("b1")
    assert line.begun == [("b1", 1)]


def test_in_a_forked_process_nobody_has_a_turn(line):
    line.join("a1")
    line.join("b1")
    other = Turns()
    with other.turn("a"):
        other.let_go()
        with other.turn("b"):
            assert other.waiting == 0
    assert other._current is None

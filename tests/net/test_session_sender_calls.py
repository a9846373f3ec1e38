"""A function on another thread: its result, its errors, and a caller that stops waiting for it."""

import threading

import pytest

from mcplite.net.exchange import Exchange, Stopped
from mcplite.net.session_sender import ThreadedCall
from mcplite.rpc.threads import Workers

LIMIT = 30


@pytest.fixture
def workers():
    workers = Workers(1, 0, "test")
    yield workers
    workers.stop()


def nothing(value):
    """Take what comes, and do nothing."""


def test_a_result_comes_from_another_thread(workers):
    call = ThreadedCall(threading.get_ident, nothing, nothing)
    assert call.run(workers, Exchange(lambda: float(LIMIT))) != threading.get_ident()
    assert not call.given_up


def test_an_error_is_the_callers(workers):
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ThreadedCall(fail, nothing, nothing).run(workers, Exchange(lambda: float(LIMIT)))


@pytest.mark.parametrize("fails", [False, True])
def test_a_caller_that_stops_waiting(workers, fails):
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()
    threads, late = [], []

    def wait():
        threads.append(threading.get_ident())
        begun.set()
        assert go.wait(LIMIT)
        if fails:
            raise OSError("in vain")
        return "result"

    def on_late(result):
        late.append(result)
        ended.set()

    def interrupt():
        threads.append(threading.get_ident())
        go.set()

    exchange = Exchange(lambda: float(LIMIT))
    threading.Thread(target=lambda: (begun.wait(LIMIT), exchange.interrupt())).start()
    with pytest.raises(Stopped):
        ThreadedCall(wait, interrupt, on_late).run(workers, exchange)
    assert ended.wait(LIMIT) and late == [None if fails else "result"]
    assert threads[1:] == [threading.get_ident()]


def test_nothing_begins_for_an_exchange_that_was_interrupted(workers):
    ran = []
    exchange = Exchange(lambda: float(LIMIT))
    exchange.interrupt()
    with pytest.raises(Stopped):
        ThreadedCall(lambda: ran.append(1), nothing, nothing).run(workers, exchange)
    assert ran == []


def test_a_limit_ends_the_wait(workers):
    go, left = threading.Event(), [3]

    def next_timeout():
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return 0.01

    with pytest.raises(Stopped):
        ThreadedCall(lambda: go.wait(LIMIT), go.set, nothing).run(workers, Exchange(next_timeout))
    assert go.is_set()

"""Signals that stop a process: the first is ours, the second has its former effect."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcplite.server.transports.signals import StopRequest, stop_signals
from tests.support.interrupts import INTERRUPT, OPTIONS, STOPS, ask_to_stop

ROOT = Path(__file__).parents[3]
BOTH = (signal.SIGINT, getattr(signal, "SIGBREAK", signal.SIGTERM))


@pytest.fixture
def theirs():
    """Former handlers, which record their signals; the real ones are restored after the test."""
    noted = []
    before = {which: signal.signal(which, lambda number, frame: noted.append(number)) for which in BOTH}
    yield noted
    for which, handler in before.items():
        signal.signal(which, handler)


def handlers():
    return [signal.getsignal(which) for which in BOTH]


@pytest.mark.parametrize("second", BOTH)
@pytest.mark.parametrize("first", BOTH)
def test_the_first_signal_stops_and_the_second_has_its_former_effect(theirs, first, second):
    # REL-22
    before, stopped = handlers(), []
    with stop_signals(lambda: stopped.append(theirs[:])):
        assert all(handler not in before for handler in handlers())
        signal.raise_signal(first)
        assert stopped == [[]] and theirs == [] and handlers() == before
        signal.raise_signal(second)
        assert stopped == [[]] and theirs == [second]
    assert handlers() == before


def test_nested_blocks(theirs):
    outer, inner = [], []
    with stop_signals(lambda: outer.append(1)):
        with stop_signals(lambda: inner.append(1)):
            signal.raise_signal(signal.SIGTERM)
            assert (outer, inner) == ([], [1])
            signal.raise_signal(signal.SIGINT)
            assert (outer, inner) == ([1], [1])
    assert theirs == []


def test_signals_that_were_ignored(theirs):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped = []
    with stop_signals(lambda: stopped.append(1)):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert stopped == [1] and signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_a_handler_that_was_not_set_from_python_is_left_alone(theirs, monkeypatch):
    # It could not be put back.
    real = signal.getsignal
    before = real(signal.SIGTERM)
    monkeypatch.setattr(signal, "getsignal", lambda which: None if which == signal.SIGTERM else real(which))
    with stop_signals(bool):
        assert real(signal.SIGTERM) is before and real(signal.SIGINT) is not before
    assert real(signal.SIGTERM) is before


def test_another_thread_sets_no_handlers(theirs):
    seen = []

    def body():
        with stop_signals(bool):
            seen.append(handlers())

    before = handlers()
    thread = threading.Thread(target=body)
    thread.start()
    thread.join(20)
    assert seen == [before]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals have no threads on this system")
@pytest.mark.parametrize("which", BOTH)
def test_a_signal_delivered_to_another_thread_is_not_lost(theirs, which):
    # A thread that is starting another one may get it: the main thread's sleep is not interrupted then.
    stop = StopRequest()
    thread = threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), which))
    with stop_signals(stop.set):
        thread.start()
        stop.wait()
    thread.join(20)
    assert theirs == []


@pytest.mark.parametrize("which", STOPS)
def test_two_signals_end_a_process_at_once(which):
    child = subprocess.Popen(
        [sys.executable, "-c", "import time\nfrom mcplite.server.transports.signals import stop_signals\n"
         "with stop_signals(lambda: print('stopping', flush=True)):\n"
         "    print('ready', flush=True)\n    while True:\n        time.sleep(60)\n"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, **OPTIONS)
    try:
        assert child.stdout.readline().rstrip() == b"ready"
        ask_to_stop(child, which)
        assert child.stdout.readline().rstrip() == b"stopping"
        ask_to_stop(child, which)
        assert child.wait(30) != 0
    finally:
        child.kill()
        out, err = child.communicate()
    assert out == b"" and (b"KeyboardInterrupt" in err) is (which == INTERRUPT)

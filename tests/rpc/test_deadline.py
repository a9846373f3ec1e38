"""A deadline counts down, or has no limit; a wait of the user is made of short ones."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from mcplite.rpc.deadline import WAKE_SECONDS, Sleepers, WakeSignal, end_at_interrupt, wait_interruptibly


def test_a_wakeup_ends_one_wait_however_often_it_is_set():
    wakeup = WakeSignal()
    assert not wakeup.wait(0)
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(20) and not wakeup.wait(0.001)
    wakeup.set()
    wakeup.clear()
    assert not wakeup.wait(0)
    threading.Timer(0.01, wakeup.set).start()
    assert wakeup.wait()


def test_threads_wait_for_changes():
    changes, seen, ended = Sleepers(), [], []
    waiting = [threading.Thread(target=lambda: ended.append(changes.wait_for(lambda: seen, 60))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    changes.notify()  # of something that is no reason to end
    seen.append("it")
    changes.notify()
    for thread in waiting:
        thread.join(30)
    assert ended == [True] * 3 and not changes._sleepers
    assert not changes.wait_for(lambda: False, 0.001) and changes.wait_for(lambda: True, 0)


def test_a_wait_without_a_limit_is_made_of_short_ones():
    waits = []

    def wait(seconds):
        waits.append(seconds)
        return len(waits) == 3

    assert wait_interruptibly(wait, None)
    assert waits == [WAKE_SECONDS] * 3


LOADING = """
import os, signal, weakref
from mcplite.rpc.deadline import end_at_interrupt

class Thing:
    pass

signal.signal(signal.SIGINT, signal.{before})
with end_at_interrupt():
    thing = Thing()
    # In a callback of the interpreter, where an exception would be dropped.
    weakref.finalize(thing, lambda: signal.raise_signal(signal.SIGINT))
    del thing
print("goes on", flush=True)
"""


def load(before):
    return subprocess.run([sys.executable, "-c", LOADING.format(before=before)], capture_output=True, timeout=60, text=True)


def test_an_interrupt_while_a_program_is_loaded_ends_it():
    ran = load("default_int_handler")
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_a_program_that_ignores_interrupts_goes_on_loading():
    ran = load("SIG_IGN")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "goes on\n", "")


def test_interrupts_are_exceptions_again_once_the_program_is_loaded():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(ImportError), end_at_interrupt():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            raise ImportError
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_loads_without_a_word_about_signals():
    loaded = []

    def run():
        with end_at_interrupt():
            loaded.append(os.getpid())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert loaded

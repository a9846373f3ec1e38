"""Checks for every test: no leftovers, no wrong messages, no settings from outside.

- ``leaves_nothing`` (REL-69): after the test the same threads, descriptors and children are there as before.
- ``sends_nothing_wrong``: what our side sent fits the official schemas; ``@pytest.mark.bad_wire`` is for
  tests that make it send wrong things on purpose.
- ``no_settings``: the library's environment variables are not set.

A test that hangs is ended by pytest-timeout, which prints the stacks of all threads (REL-68).
"""

import gc
import os
import signal
import threading
import time

import psutil
import pytest
from hypothesis import settings

from tests.support import wire
from tests.support.systems import open_descriptors

#: Variables that are for the tests themselves.
TEST_SETTINGS = {"MCPLITE_CHAOS", "MCPLITE_CHAOS_SEED", "MCPLITE_FLEET", "MCPLITE_INTEROP", "MCPLITE_SCHEMAS",
                 "MCPLITE_STORES", "MCPLITE_TORTURE"}
#: Seconds for threads and children that are ending; Wine takes longer for them on a busy machine.
PATIENCE = 5 if os.name == "posix" else 30


def pytest_configure(config):
    config.addinivalue_line("markers", "bad_wire: makes our side send what the schemas forbid, on purpose")
    # No limits in wall-clock time: the machine may be busy.
    settings.register_profile("patient", deadline=None, max_examples=50)
    settings.load_profile("patient")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores Ctrl-C in what it runs in the background, and children inherit that. Some tests send it to them.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(config, val):
    # pytest puts the name of the test into the environment, and a variable of Windows has 32,767 characters at most.
    return repr(val[:60])[1:-1] + "..." if isinstance(val, (str, bytes)) and len(val) > 1000 else None


def pytest_collection_finish(session):
    # The collected tests live to the end; garbage collection need not look at them again.
    gc.collect()
    gc.freeze()


def _children():
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return {}  # much cheaper than looking through all processes
    found = {}
    for child in psutil.Process().children():
        try:
            found[child.pid] = f"{child.status()} {child.cmdline()}"
        except psutil.NoSuchProcess:
            pass
        except psutil.AccessDenied:
            found[child.pid] = "ending"  # Windows no longer lets its command line be read
    return found


def _left(before):
    """Return the new threads, descriptors and children, as sentences."""
    threads, descriptors, children = before
    left = [f"thread {thread.name}" for thread in threading.enumerate() if thread not in threads]
    left += [f"descriptor {fd} of {target}" for fd, target in open_descriptors().items() if descriptors.get(fd) != target]
    left += [f"child {pid}, {text}" for pid, text in _children().items() if pid not in children]
    return left


@pytest.fixture(scope="module")
def collects_new_objects_only():
    """For tests that often collect garbage: at the end of a run of all tests, looking at all objects takes seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaves_nothing():
    before = set(threading.enumerate()), open_descriptors(), _children()
    yield
    begun = time.monotonic()
    left, pause = _left(before), 0.002
    while left and time.monotonic() < begun + PATIENCE:
        if time.monotonic() > begun + PATIENCE / 20:
            gc.collect()  # slow, so only when something is still there after a wait
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
        left = _left(before)
    assert not left, "left behind: " + "; ".join(left)


@pytest.fixture(autouse=True)
def sends_nothing_wrong(request):
    with wire.recording() as recorder:
        yield
    problems = recorder.problems()
    if problems and request.node.get_closest_marker("bad_wire") is None:
        pytest.fail("our side sent what the protocol forbids:\n" + "\n".join(problems), pytrace=False)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("MCPLITE_") and name not in TEST_SETTINGS:
            monkeypatch.delenv(name)

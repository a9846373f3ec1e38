"""Checks for every test: no leftovers, no wrong messages, no settings from outside.

- ``leaves_nothing`` (REL-16, REL-69): after the test the same threads, descriptors and children are there as before.
- ``sends_nothing_wrong``: what our side sent fits the official schemas; ``@pytest.mark.bad_wire`` is for
  tests that make it send wrong things on purpose.
- The library's environment variables are not set.
- No line of the log is held back because of those of the tests before.

``pytest`` alone runs what is quick: ``left_out`` says which tests it leaves out, and by which rule. With ``--all``, and
where the command line has files, tests, ``-k``, ``-m`` or ``--lf``, all that was asked for runs. ``--rows`` changes which
rows of a matrix run. Without any of these and without folders, several processes (pytest-xdist) run the tests, which wait
more than they compute.

A test that hangs is ended by pytest-timeout, which prints the stacks of all threads (REL-68).
"""

import collections
import compileall
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from mcplite.rpc import tracing
from tests.support import wire
from tests.support.systems import open_descriptors

ROOT = Path(__file__).resolve().parent.parent
#: Variables that are for the tests themselves.
TEST_SETTINGS = {"MCPLITE_CHAOS", "MCPLITE_CHAOS_SEED", "MCPLITE_FLEET", "MCPLITE_INTEROP", "MCPLITE_SCHEMAS",
                 "MCPLITE_STORES", "MCPLITE_TORTURE"}
#: Seconds for threads and children that are ending; Wine takes longer for them on a busy machine.
PATIENCE = 5 if os.name == "posix" else 30
#: The folders of tests that are slow as a whole: processes that are started, killed or starved of something.
SLOW_FOLDERS = {"browser", "chaos", "conformance", "fleet", "frameworks", "torture"}
#: The folders of tests that run on one Python as a whole: they take minutes, and what they test is in other tests as well, or
#: is about the libraries of others.
ONE_PYTHON_FOLDERS = {"fuzz", "inspector", "llm"}
#: Processes that run the tests of ``pytest`` alone, on POSIX, where pytest-xdist is installed.
PROCESSES = 3
#: What ``pytest`` alone left out.
LEFT_OUT = pytest.StashKey()


class _Loggers(dict):
    """The loggers of the standard library, which can be looked through while another thread makes one.

    pytest 9.2 looks through them before each phase of a test, without the lock of ``logging``. A logger of ours is made with
    its first line, on any thread: the phase failed with "dictionary changed size during iteration".
    """

    def values(self):
        return list(super().values())


def pytest_unconfigure(config):
    if hasattr(config, "workerinput") and "coverage" in sys.modules:
        # A worker of pytest-xdist ends without atexit, which is where coverage would write what it has measured.
        measuring = sys.modules["coverage"].Coverage.current()
        if measuring is not None:
            measuring.stop()
            measuring.save()


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run every test: slow ones, and all rows of each matrix")
    parser.addoption("--rows", choices=("one", "values", "every"), help="of a test that runs over a matrix, run one row, "
                     "as pytest alone does; as few rows as have each value; or every row, as --all does")
    parser.addoption("--cases", type=int, metavar="N", help="of a test with more sets of parameters run N, "
                     "and 5 examples of what Hypothesis makes up")
    parser.addoption("--without-quick", action="store_true", help="leave out what pytest alone runs")


def _named(config):
    """Return whether the command line names tests, by more than their folders."""
    return (config.option.keyword or config.option.markexpr or config.getoption("lf", False)
            or not all(os.path.isdir(name) for name in config.args))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the number here
def pytest_cmdline_main(config):
    option = config.option
    if os.name != "posix" or hasattr(config, "workerinput") or getattr(option, "numprocesses", 0) is not None:
        return  # a worker of pytest-xdist starts none of its own
    whole = config.args_source is config.ArgsSource.TESTPATHS and not _named(config)
    if whole and not option.collectonly and not option.usepdb and option.capture != "no":  # workers show no output
        option.numprocesses, option.dist = PROCESSES, "worksteal"


def pytest_configure(config):
    logging.root.manager.loggerDict = _Loggers(logging.root.manager.loggerDict)
    for name in os.environ.keys() - TEST_SETTINGS:
        if name.startswith("MCPLITE_"):
            del os.environ[name]
    option = config.option  # which xdist passes on to its workers
    if getattr(option, "numprocesses", None) and not hasattr(config, "workerinput") and not sys.dont_write_bytecode:
        for folder in ("mcplite", "tests"):  # each worker would compile all of it, at the same time as the others
            compileall.compile_dir(str(ROOT / folder), quiet=2)
    option.all = option.all or bool(_named(config))
    option.rows = option.rows or ("every" if option.all else "one")
    config.addinivalue_line("markers", "bad_wire: makes our side send what the schemas forbid, on purpose")
    # No limits in wall-clock time: the machine may be busy.
    settings.register_profile("patient", deadline=None, max_examples=5 if option.cases else 50)
    settings.load_profile("patient")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores Ctrl-C in what it runs in the background, and children inherit that. Some tests send it to them.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(config, val):
    # pytest puts the name of the test into the environment, and a variable of Windows has 32,767 characters at most.
    return repr(val[:60])[1:-1] + "..." if isinstance(val, (str, bytes)) and len(val) > 1000 else None


def pytest_itemcollected(item):
    if SLOW_FOLDERS.intersection(item.path.parts[-3:-1]):
        item.add_marker("slow")
    if ONE_PYTHON_FOLDERS.intersection(item.path.parts[-3:-1]):
        item.add_marker("one_python")


def _matrix_row(item):
    """Return a test's values for the fixtures that outlive it, as servers of each transport do; () if it has none."""
    fixtures = item._fixtureinfo.name2fixturedefs
    return tuple((name, repr(value)) for name, value in (item.callspec.params if hasattr(item, "callspec") else {}).items()
                 if name in fixtures and fixtures[name][-1].scope != "function")


def _chosen(rows, values, ran, each):
    """Return which of a test's rows run: one, or as few as have each value together.

    :param rows: of one test.
    :param values: each row's, by the row's id.
    :param ran: how often each value, and each row, has been chosen; this function counts on.
    :param each: whether each value is to occur.
    """
    missing, chosen, left = {value for row in rows for value in values[id(row)]}, [], list(rows)
    while not chosen or each and missing:
        # The next test takes other rows: so each transport occurs, with each revision, and does so often.
        best = min(left, key=lambda row: (-each * len(missing.intersection(values[id(row)])), ran[values[id(row)]],
                                          sorted((ran[value] for value in values[id(row)]), reverse=True)))
        chosen.append(best)
        left.remove(best)
        missing.difference_update(values[id(best)])
        ran.update([*values[id(best)], values[id(best)]])
    return chosen


def left_out(items, marks=("interop", "slow"), rows="one", cases=None):
    """Return the tests that do not run, by rule; as ``pytest`` alone leaves them out, or with other options.

    - ``interop``, ``slow``: they have this mark, if it is one of *marks*.
    - ``rows``: of a test that runs over a matrix, the rows but for one, or but for as few as have each value, as *rows* says;
      and what has the mark ``further``.
    - ``cases``: of a test with more than *cases* sets of parameters all but so many, which lie far apart.
    """
    rules = {**{mark: [] for mark in marks}, "rows": [], "cases": []}
    tests, tables = {}, {}
    for item in items:
        mark = next((name for name in marks if item.get_closest_marker(name)), None)
        if mark:
            rules[mark].append(item)
        elif rows != "every" and item.get_closest_marker("further"):
            rules["rows"].append(item)
        elif _matrix_row(item) and rows != "every":
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif cases and hasattr(item, "callspec"):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for table in tables.values():
        chosen = {number * len(table) // cases for number in range(cases)}
        rules["cases"] += [item for place, item in enumerate(table) if len(table) > cases and place not in chosen]
    ran = collections.Counter()
    for test in tests.values():
        values = {id(item): _matrix_row(item) for item in test}
        chosen = {values[id(item)] for item in _chosen(test, values, ran, rows == "values")}
        # A test may have other parameters beside those of the matrix: they all run on its rows.
        rules["rows"] += [item for item in test if values[id(item)] not in chosen]
    return rules


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    option = config.option
    rules = left_out(items, () if option.all else ("interop", "slow"), option.rows, option.cases)
    if option.without_quick:
        gone = {id(item) for left in left_out(items).values() for item in left}
        stays = {id(item) for left in rules.values() for item in left}
        rules["quick"] = [item for item in items if id(item) not in gone and id(item) not in stays]
    left = {id(item) for items in rules.values() for item in items}
    if left:
        config.hook.pytest_deselected(items=[item for left in rules.values() for item in left])
        config.stash[LEFT_OUT] = ", ".join(f"{len(left)} by the rule {rule}" for rule, left in rules.items() if left)
        items[:] = [item for item in items if id(item) not in left]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, "")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", "")  # each worker collects them all


def pytest_terminal_summary(terminalreporter, config):
    left = config.stash.get(LEFT_OUT, "")
    if left:
        terminalreporter.line(f"left out: {left}; they run with --all alone")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    # The collected tests live to the end; garbage collection need not look at them, which took a sixth of this time.
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    tracing.bounded.clear()


@contextlib.contextmanager
def _turn(alone):
    """Hold a worker of pytest-xdist back while a test of another one runs that has to be alone.

    :param alone: whether the test has to run while no other does.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ or os.name != "posix":
        yield
        return
    import fcntl

    with open(ROOT / "setup.cfg") as queue, open(ROOT / "README.rst") as place:
        fcntl.flock(queue, fcntl.LOCK_EX)  # no test overtakes one that waits to be alone
        fcntl.flock(place, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
        fcntl.flock(place, fcntl.LOCK_UN)  # a forked child may still have it open


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    with _turn(item.get_closest_marker("alone") is not None):  # outside of the test's time limit
        yield


def _child_processes():
    tasks = "/proc/self/task"
    if not os.path.exists(f"{tasks}/{os.getpid()}/children"):
        return psutil.Process().children()
    # psutil looks through all processes of the machine, which took a tenth of the time of some folders.
    found = []
    for task in os.listdir(tasks):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # the thread, or the child, has ended
            with open(f"{tasks}/{task}/children") as children:
                found += [psutil.Process(int(pid)) for pid in children.read().split()]
    return found


def _children():
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return {}  # much cheaper than looking through all processes
    found = {}
    for child in _child_processes():
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
    # Garbage is collected when something is still there after a wait, and then ever more seldom: a collection takes long.
    left, pause, collect = _left(before), 0.002, begun + PATIENCE / 20
    while left and time.monotonic() < begun + PATIENCE:
        if time.monotonic() > collect:
            gc.collect()
            collect += 2 * (time.monotonic() - begun)
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

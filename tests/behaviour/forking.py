"""A program that uses one client in many processes, in every way in which Python makes them.

``python forking.py HOW URL REVISION CALLS`` prints what came of the calls, as JSON. HOW is ``fork``, ``spawn`` or
``forkserver`` for a ``multiprocessing`` pool, ``process`` for a ``Process`` each, ``executor`` for a
``ProcessPoolExecutor``, or ``os.fork``. URL may be ``command``, for a server that is a child process.
"""

import collections
import concurrent.futures
import functools
import json
import multiprocessing
import os
import sys
import warnings
from pathlib import Path

import mcplite

HERE = Path(__file__).resolve().parent
PROCESSES = 4
TIMEOUT = 60


@functools.lru_cache(maxsize=None)
def client(target, revision):
    """Return the client of this process, or, after a fork, that of the first one."""
    options = {"revision": revision, "timeout": TIMEOUT}
    if target == "command":
        return mcplite.connect([sys.executable, str(HERE / "server.py")], env=dict(os.environ), **options).open()
    return mcplite.connect(target, **options).open()


def call(job):
    """Make one call, and say what came of it."""
    target, revision, number = job
    mine = f"{os.getpid()} {number}"
    try:
        text = client(target, revision).call_tool("echo", {"text": mine}).text
    except mcplite.errors.ConnectionClosed as error:
        return "refused" if str(error).endswith("open a client in this process") else f"ConnectionClosed: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right" if text == mine else "wrong"


def many(jobs, results):
    results.put([call(job) for job in jobs])


def by_process(jobs, context):
    results = context.SimpleQueue()
    processes = [context.Process(target=many, args=(jobs[first::PROCESSES], results)) for first in range(PROCESSES)]
    for process in processes:
        process.start()
    found = [outcome for _ in processes for outcome in results.get()]
    for process in processes:
        process.join()
    return found


def by_os_fork(jobs):
    read, write = os.pipe()
    for first in range(PROCESSES):
        if os.fork() == 0:
            os.write(write, "".join(f"{call(job)}\n" for job in jobs[first::PROCESSES]).encode())
            os._exit(0)
    os.close(write)
    with open(read) as file:
        found = file.read().splitlines()
    for _ in range(PROCESSES):
        os.wait()
    return found


def main():
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which are what this is about
    how, target, revision, calls = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    jobs = [(target, revision, number) for number in range(calls)]
    assert call(jobs[0]) == "right"
    if how == "os.fork":
        found = by_os_fork(jobs)
    elif how == "process":
        found = by_process(jobs, multiprocessing.get_context("fork"))
    elif how == "executor":
        with concurrent.futures.ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("fork")) as executor:
            found = list(executor.map(call, jobs))
    else:
        with multiprocessing.get_context(how).Pool(PROCESSES) as pool:
            # Meanwhile the first process goes on with its own.
            coming = pool.map_async(call, jobs, chunksize=1)
            own = [call(job) for job in jobs[:10]]
            found = coming.get(10 * TIMEOUT)
            assert set(own) == {"right"}, own
    assert call(jobs[0]) == "right", "the first process goes on"
    print(json.dumps(collections.Counter(found)))
    client(target, revision).close()


if __name__ == "__main__":
    main()

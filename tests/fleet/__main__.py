"""``python -m tests.fleet``: four workers of gunicorn on a shared store, for minutes, and a report with figures.

    questions   500 questions of a client of each era on each store; each effect happens once
    sessions    10,000 sessions are opened and used through any worker; what one costs the store
    restarts    all workers are replaced, as a deployment does, while clients call
    kills       a random worker is killed every second while 64 clients call
    tasks       1,000 tasks of 100 principals; none is lost, and none is seen by another principal
    deaths      the workers of tasks of thirty seconds are killed; one is failed within ten, the other is finished elsewhere
    redis       Redis is stopped, killed, full, frozen and started empty, one after another
    slow        each round trip to Redis takes 100 ms
    postgres    PostgreSQL is stopped, killed and frozen
    sqlite      SQLite is locked, read-only, on a full disk, and its file is deleted (root: it mounts a small file system)
    hosts       two network namespaces with one Redis; their cables are cut and plugged (root, with the program ip)

Each line of the report is one of these on one store. The exit status is 1 if something that must hold did not; the line
then says what. What is not installed is skipped, and the line says that. A failure of "kills" can be repeated with the
seed that its line names.

    python -m tests.fleet                                 all of it, about half an hour
    python -m tests.fleet questions --store redis         one of them on one store
    python -m tests.fleet kills --seconds 20 --clients 16 a short one
    python -m tests.fleet redis --keep /tmp/fleet         with the workers' logs kept in a folder
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from tests.fleet import faults, hosts, scenarios, tasks
from tests.support.fleets import EVERY_KIND, running_fleet, running_store

HERE = Path(__file__).resolve().parent
#: Those that run on each store, and those that bring their own.
ON_EACH = ["questions", "sessions", "restarts", "kills", "tasks", "deaths"]
ALONE = {"redis": faults.redis_faults, "slow": faults.slow_redis, "postgres": faults.postgres_faults,
         "sqlite": faults.sqlite_faults, "hosts": hosts.two_hosts}


def on_each(name, kind, options, folder):
    """Run one of ON_EACH on a new fleet."""
    with running_store(kind, folder) as (backend, server):
        # Each open stream takes a thread; after a restart the first worker may get all of them.
        threads = max(16, options.clients + 32)
        principals = {"tasks": options.principals, "deaths": 2}.get(name, 0)
        with running_fleet("server:application", HERE, folder, backend, threads=threads, spread=name in ("questions", "tasks"),
                           grace=5, FLEET_PRINCIPALS=str(principals)) as fleet:
            if name == "questions":
                return scenarios.questions(fleet, options.questions)
            if name == "sessions":
                return scenarios.sessions(fleet, options.sessions, kind, server)
            if name == "restarts":
                return scenarios.restarts(fleet, options.clients, options.restarts)
            if name == "tasks":
                return tasks.tasks(fleet, options.principals, options.tasks)
            if name == "deaths":
                return tasks.task_deaths(fleet, seconds=30, within=10)
            return scenarios.kills(fleet, options.clients, options.seconds, seed=options.seed)


class Report:
    """Lines with figures, printed as they come, and whether all held."""

    def __init__(self):
        self.failures = 0

    def run(self, title, function):
        begun = time.monotonic()
        print(f"\n== {title}", flush=True)
        try:
            figures = function()
        except pytest.skip.Exception as reason:
            print(f"   skipped: {reason}", flush=True)
            return
        except (Exception, pytest.fail.Exception) as error:
            self.failures += 1
            print(f"   FAILED after {time.monotonic() - begun:.0f} s: {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            return
        for name, value in figures.items():
            print(f"   {name}: {value}", flush=True)
        print(f"   held, {time.monotonic() - begun:.0f} s", flush=True)

    def run_alone(self, name, folder):
        """Run the cases of one of ALONE; what cannot be prepared fails as a whole."""
        def prepare():
            for title, case in ALONE[name](folder):
                self.run(title, case)
            return {}

        reason = hosts.reason_against() if name in ("hosts", "sqlite") else None
        if reason is not None:
            print(f"\n== {name}\n   skipped: {reason}", flush=True)
            return
        self.run(f"{name}, all of it", prepare)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to run (default: all)")
    parser.add_argument("--store", action="append", choices=EVERY_KIND, help="stores for the first six (default: all four)")
    parser.add_argument("--questions", type=int, default=500, help="of each era on each store (default 500)")
    parser.add_argument("--sessions", type=int, default=10_000, help="how many are held (default 10,000)")
    parser.add_argument("--restarts", type=int, default=5, help="how often all workers are replaced (default 5)")
    parser.add_argument("--clients", type=int, default=64, help="that call meanwhile (default 64)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of kills (default 120)")
    parser.add_argument("--tasks", type=int, default=1000, help="that are started in all (default 1,000)")
    parser.add_argument("--principals", type=int, default=100, help="that start them (default 100)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="which workers are killed")
    parser.add_argument("--keep", metavar="FOLDER", help="keeps the logs and notes of the workers there")
    options = parser.parse_args()
    unknown = set(options.names) - {*ON_EACH, *ALONE}
    if unknown:
        parser.error(f"no such name: {', '.join(sorted(unknown))}; there are {', '.join([*ON_EACH, *ALONE])}")
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    report, begun = Report(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mcplite-fleet-") as base:
        def folder(title):
            place = os.path.join(options.keep or base, title.replace(" ", "-"))
            os.makedirs(place)
            return place

        for name in options.names or [*ON_EACH, *ALONE]:
            if name in ALONE:
                report.run_alone(name, folder(name))
                continue
            for kind in options.store or EVERY_KIND:
                title = f"{name} on {kind}" + (f", seed {options.seed}" if name == "kills" else "")
                report.run(title, lambda name=name, kind=kind: on_each(name, kind, options, folder(f"{name} {kind}")))
    print(f"\n{report.failures} failed, {time.monotonic() - begun:.0f} s")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a fleet has to survive: each function does it to one fleet, checks what must hold, and returns figures."""

import collections
import contextlib
import os
import random
import re
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import mcplite
from tests.fleet.conversation import Conversation
from tests.fleet.load import REVISIONS, Load, act, answer, book, expected, linger, read, reverse, tools
from tests.support.marks import SharedMarks
from tests.support.processes import wait_until
from tests.support.rawhttp import call

#: Seconds for what ends by an event.
LIMIT = 90
#: What the error of a call says whose worker was killed, or whose connection was.
REASON = re.compile("process that ran|processes share|connection|closed|reset|refused|disconnected|broke|used before",
                    re.IGNORECASE)


def effects(fleet, keys):
    """How often each call has had its effect."""
    marks = SharedMarks(fleet.folder)
    return {key: marks.count(f"{key} act") for key in keys}


def questions(fleet, number):
    """Answer so many questions of a client of each era; no answer is lost, and each effect happens once."""
    figures = {}
    for revision in REVISIONS:
        keys = [f"q{revision}n{count}p{os.getpid()}" for count in range(number // 2)]
        before, begun = fleet.served(), time.monotonic()
        with mcplite.connect(fleet.url, revision=revision, timeout=LIMIT, elicitation_handler=answer) as client:
            with ThreadPoolExecutor(8) as pool:
                results = list(pool.map(lambda key: client.call_tool("book", {"key": key}).text, keys))
        took = time.monotonic() - begun
        assert results == [expected(key) for key in keys]
        assert set(effects(fleet, keys).values()) == {1}
        served = fleet.served() - before
        assert len(served) > 1, f"only one worker served: {served}"
        shares = ", ".join(map(str, sorted(served.values())))
        figures[revision] = f"{2 * len(keys)} questions in {took:.1f} s, each effect once, requests by worker: {shares}"
    return figures


def judge(load, fleet, allowed):
    """Check what holds of a load under any trouble; *allowed* tells whether a failure may be."""
    assert not load.wrong, load.wrong[:5]
    assert load.lost == 0, f"{load.lost} sessions were lost"
    unexplained = [failure for failure in load.failed if not allowed(failure)]
    assert not unexplained, f"{len(unexplained)} of {len(load.failed)} failures, such as {unexplained[:5]}"
    repeated = {key: count for key, count in effects(fleet, load.keys).items() if count > 1}
    assert not repeated, f"effects that happened again: {list(repeated.items())[:5]}"
    kinds = collections.Counter(kind for _, _, kind, _ in load.failed)
    return {"right answers": dict(load.right), "failed calls": dict(kinds), "longest call": f"{load.longest:.1f} s",
            "longest failing call": f"{load.slowest_failure:.1f} s", "lost sessions": 0, "repeated effects": 0}


def kills(fleet, clients, seconds, pause=1.0, seed=None):
    """Kill a random worker again and again while clients call; each failed call names the reason.

    On a busy machine a worker takes seconds to begin. So the next one is killed when there was an answer for every fourth
    client since; otherwise no worker would serve at all, and calls would time out for that.
    """
    dice, killed = random.Random(seed), 0
    with Load(fleet.url, clients, [reverse, book, read, linger, act, tools], pause=0.02) as load:
        assert load.goes_on(3 * clients), load.failed[:5]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            workers = fleet.workers()
            if workers:
                os.kill(dice.choice(workers), signal.SIGKILL)
                killed += 1
            time.sleep(pause)
            assert load.goes_on(clients // 4), f"no answers after {killed} kills: {load.failed[-5:]}"
        assert load.goes_on(3 * clients), load.failed[-5:]

    def allowed(failure):
        return REASON.search(failure[3]) is not None and failure[2] != "SessionLost"

    return {"killed workers": killed, "clients": clients, **judge(load, fleet, allowed)}


def restarts(fleet, clients, times):
    """Replace all workers again and again while clients call; no call that may be repeated fails."""
    with Load(fleet.url, clients, [reverse, read, tools], pause=0.02) as load:
        assert load.goes_on(3 * clients), load.failed[:5]
        for _ in range(times):
            before = set(fleet.workers())
            fleet.reload()
            assert wait_until(lambda: not before & set(fleet.workers()), LIMIT), f"old workers are still there: {fleet.log}"
            assert load.goes_on(3 * clients), load.failed[-5:]

    def allowed(failure):
        return failure[0] == "reverse"

    return {"restarts": times, "clients": clients, **judge(load, fleet, allowed)}


def stored_bytes(kind, fleet, server):
    """How many bytes a store takes by its own account."""
    if kind in ("redis", "cluster"):
        import redis

        used = 0
        for node in [server] if kind == "redis" else server.nodes:
            with contextlib.closing(redis.Redis(port=node.port)) as client:
                used += client.info("memory")["used_memory"]
        return used
    if kind == "postgres":
        import psycopg

        with psycopg.connect(server.url) as connection:
            return connection.execute("SELECT pg_database_size(current_database())").fetchone()[0]
    with contextlib.closing(sqlite3.connect(fleet.backend[len("sqlite:///"):])) as connection:
        (pages,), (size,) = (connection.execute(f"PRAGMA page_{name}").fetchone() for name in ("count", "size"))
        return pages * size


def sessions(fleet, number, kind, server):
    """Hold so many sessions, and use each through whichever worker; tell what one costs the store."""
    before, begun = stored_bytes(kind, fleet, server), time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        held = list(pool.map(lambda count: Conversation(fleet), range(number)))
        opened = time.monotonic()
        after = stored_bytes(kind, fleet, server)
        statuses = collections.Counter(pool.map(lambda session: session.post(call("reverse", text="abc")).status, held))
    assert statuses == {200: number}, statuses
    used = time.monotonic()
    return {"sessions": number, "opened": f"{number / (opened - begun):.0f} a second",
            "calls": f"{number / (used - opened):.0f} a second",
            "bytes of the store for each": f"{(after - before) / number:.0f}", "workers that served": len(fleet.served())}

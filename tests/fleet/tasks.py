"""Tasks of many principals, and of workers that are killed: functions as in scenarios.py, for fleets with principals."""

import contextlib
import os
import random
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import mcplite
from tests.fleet.load import LEGACY, MODERN, REVISIONS
from tests.support.processes import wait_until
from tests.support.taskclients import patiently

#: Seconds for what ends by an event.
LIMIT = 90
#: Threads that act for the clients.
THREADS = 16
#: The statuses of a task that is not finished.
UNFINISHED = ("working", "input_required")


def token(principal):
    """The bearer token of a principal, by its number; the server knows as many as FLEET_PRINCIPALS says."""
    return f"the-token-of-principal-{principal:04}"


def connect(fleet, principal, revision):
    return mcplite.connect(fleet.url, revision=revision, auth=token(principal), timeout=LIMIT, open_timeout=LIMIT)


def tasks(fleet, clients, number):
    """Run so many tasks of so many principals: none is lost, and each is seen by its own principal alone."""
    each, begun = number // clients, time.monotonic()

    def start(principal):
        with connect(fleet, principal, REVISIONS[principal % len(REVISIONS)]) as client:
            return [client.start_tool("sign", {"text": f"{principal}-{count}"}).id for count in range(each)]

    def finish(principal):
        """Take the tasks up with a new client, and look at those of others; return what was wrong."""
        with connect(fleet, principal, REVISIONS[principal % len(REVISIONS)]) as client:
            wrong = [(id, text) for count, id in enumerate(ids[principal])
                     for text in [client.task(id).result(LIMIT).text] if text != f"principal {principal}: {principal}-{count}"]
            others = [id for other, listed in enumerate(ids) if other != principal for id in listed]
            for id in random.Random(principal).sample(others, min(each, len(others))):
                with contextlib.suppress(mcplite.errors.InvalidParams):
                    wrong.append((id, f"seen as {client.task(id).state}"))
            return wrong

    def listed(principal):
        """Return the list that a principal gets; that of July 2026 has none."""
        with connect(fleet, principal, LEGACY) as client:
            return sorted(task.id for task in client.list_tasks())

    before = fleet.served()
    with ThreadPoolExecutor(THREADS) as pool:
        ids = list(pool.map(start, range(clients)))
        started = time.monotonic()
        assert len({id for of_one in ids for id in of_one}) == clients * each
        wrong = [problem for found in pool.map(finish, range(clients)) for problem in found]
        finished = time.monotonic()
        lists = list(pool.map(listed, range(clients)))
    assert not wrong, f"{len(wrong)}, such as {wrong[:5]}"
    assert lists == [sorted(of_one) for of_one in ids]
    served = fleet.served() - before
    assert len(served) > 1, f"only one worker served: {served}"
    return {"tasks": clients * each, "principals": clients, "started": f"{clients * each / (started - begun):.0f} a second",
            "results": f"{clients * each / (finished - started):.0f} a second", "lost": 0, "seen by others": 0,
            "requests by worker": ", ".join(map(str, sorted(served.values())))}


def _runs_in(client, id, but=None):
    """Wait until a task says which worker runs it, another one than *but*; return that worker."""
    end = time.monotonic() + LIMIT
    while True:
        state = patiently(lambda: client.task(id), LIMIT).state
        found = re.search(r"in (\d+)", state.status_message or "")
        if found and int(found.group(1)) != but:
            return int(found.group(1))
        assert state.status in UNFINISHED and time.monotonic() < end, state
        time.sleep(0.05)


def task_deaths(fleet, seconds, within=None):
    """Kill the workers of two tasks of each era: the plain one is failed, and a restartable one is finished by another.

    :param seconds: that the restartable one takes.
    :param within: seconds in which a failure must be told, once a worker runs; None for any.
    """
    figures = {}
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(fleet, *both)) for both in enumerate((LEGACY, MODERN))]
        lost = [client.start_tool("take_time", {"seconds": 30}).id for client in clients]
        kept = [client.start_tool("take_time_again", {"seconds": seconds}).id for client in clients]
        first = [_runs_in(client, id) for client, id in zip(clients, kept)]
        for worker in {*first, *(_runs_in(client, id) for client, id in zip(clients, lost))}:
            os.kill(worker, signal.SIGKILL)
        patiently(clients[0].ping, LIMIT)  # those may have been all workers, and new ones take their time on a busy machine
        killed = time.monotonic()

        def follow(client, lost, kept, victim):
            """Return the seconds until one task was failed and the other was begun again."""
            assert wait_until(lambda: patiently(lambda: client.task(lost), LIMIT).status == "failed", LIMIT)
            told = time.monotonic() - killed
            message = patiently(lambda: client.task(lost), LIMIT).status_message
            assert "has ended" in message, message
            _runs_in(client, kept, but=victim)
            again = time.monotonic() - killed
            text = patiently(lambda: client.task(kept).result(LIMIT + seconds), LIMIT).text
            begun, done = map(int, re.findall(r"\d+", text))
            assert begun == victim != done, text
            return told, again

        with ThreadPoolExecutor(len(clients)) as pool:
            for client, (told, again) in zip(clients, pool.map(follow, clients, lost, kept, first)):
                assert within is None or told <= within, f"the failure was told after {told:.1f} s"
                figures[client.protocol_version] = f"failed after {told:.1f} s, begun again after {again:.1f} s"
    return figures

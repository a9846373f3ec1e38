"""Tasks over every transport, in both generations: what they do, and that they outlive their client."""

import os
import re
import signal
import tempfile
import time
import uuid
from contextlib import contextmanager

import pytest

from mcplite.revisions import JULY_2026, NOVEMBER_2025
from tests.support.fleets import running_fleet, running_store
from tests.support.taskclients import TaskClient, patiently, task_client

from .conftest import HERE, HOSTS

LIMIT = 60
GENERATIONS = [NOVEMBER_2025, JULY_2026]


@pytest.fixture
def key():
    return uuid.uuid4().hex


def skip_without(host, revision):
    if revision not in [one.name for one in GENERATIONS]:
        pytest.skip("this revision has no tasks")


@pytest.fixture
def tasks(host, connect, revision):
    """Return a client whose calls become tasks."""
    skip_without(host, revision)
    with connect(elicitation_handler=lambda question: {"city": "Oslo", "days": 3}) as client:
        yield TaskClient(client)


def go(client, key):
    # Again if its worker was killed at this moment; one mark is as good as two.
    patiently(lambda: client.client.call_tool("mark", {"key": key}))


def said(client, task, pattern):
    """Wait for a text about the status, and return its match."""
    end = time.monotonic() + LIMIT
    while True:
        found = client.get(task)
        match = re.search(pattern, found.get("statusMessage") or "")
        if match:
            return match
        assert found["status"] in ("working", "input_required") and time.monotonic() < end, found
        time.sleep(0.02)


def test_a_task_from_its_beginning_to_its_result(tasks, key):
    task = tasks.start("work", steps=2, key=key)
    said(tasks, task, "step 0")
    go(tasks, f"{key} go 0")
    said(tasks, task, "step 1")
    go(tasks, f"{key} go 1")
    assert tasks.result(task)["structuredContent"] == {"result": 2}


def test_a_task_is_cancelled(tasks, key):
    task = tasks.start("work", steps=1, key=key)
    said(tasks, task, "step 0")
    tasks.cancel(task)
    assert tasks.until(task)["status"] == "cancelled"


def test_a_task_asks(tasks):
    task = tasks.start("sign")
    found = tasks.until(task, "input_required")
    if tasks.modern:
        answer = {"action": "accept", "content": {"city": "Oslo", "days": 3}}
        tasks.request("tasks/update", taskId=task["taskId"], inputResponses=dict.fromkeys(found["inputRequests"], answer))
    assert tasks.result(task)["content"][0]["text"] == "signed: accept"


def test_a_task_goes_on_without_its_client(host, connect, revision, tasks, key):
    if host.name == "stdio":
        pytest.skip("the process ends with its client")
    with connect() as other:
        task = TaskClient(other).start("work", steps=1, key=key)
    go(tasks, f"{key} go 0")
    assert tasks.result(task)["structuredContent"] == {"result": 1}


# --- a worker that is killed ----------------------------------------------------------------------------


@contextmanager
def four_workers():
    with tempfile.TemporaryDirectory(prefix="mcplite-tasks-") as folder, running_store("sqlite", folder) as (backend, _):
        with running_fleet("server:crowd", HERE, folder, backend, threads=24, spread=True, preload=True) as workers:
            yield workers


@pytest.mark.skipif("gunicorn" not in HOSTS, reason="gunicorn needs a POSIX system")
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_a_worker_that_is_killed(key):
    with four_workers() as workers, task_client(workers.url, JULY_2026) as client:
        lost, kept = client.start("work", steps=1, key=key), client.start("work_anyway", key=key)
        first = said(client, lost, r"in (\d+)").group(1), said(client, kept, r"in (\d+)").group(1)
        for pid in set(first):
            os.kill(int(pid), signal.SIGKILL)
        found = client.until(lost)
        assert found["status"] == "failed" and "has ended" in found["statusMessage"]
        assert said(client, kept, rf"in (?!{first[1]}$)\d+")
        go(client, f"{key} go")
        text = client.result(kept)["content"][0]["text"]
        assert re.fullmatch(rf"begun in {first[1]}, done in \d+", text) and not text.endswith(f"done in {first[1]}")

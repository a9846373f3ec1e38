"""Hosts that load a module, with its clients and servers, and fork afterwards: gunicorn with ``--preload``, and Celery."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

import mcplite
from tests.support.forks import LIMIT, POSIX_ONLY
from tests.support.processes import ROOT, running, serving

pytestmark = POSIX_ONLY
HERE = Path(__file__).resolve().parent
SERVER = HERE.parent / "behaviour" / "server.py"
#: As ``make chaos`` sets it, as many as leave no doubt.
CALLS = 400 if os.environ.get("MCPLITE_CHAOS") == "whole" else 24
WORKERS = 3


@pytest.fixture(scope="module")
def far():
    """The URL of a server in a process of its own."""
    with serving([sys.executable, "-m", "mcplite.server", str(SERVER), "--http=PORT"], SERVER.parent) as url:
        yield url + "mcp"


def test_an_application_of_gunicorn_that_is_preloaded(far):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "gunicorn", "--preload", "--bind=127.0.0.1:PORT",
               "--worker-class=gthread", "--threads=4", f"--workers={WORKERS}", "--graceful-timeout=5",
               "prefork_app:application"]
    with serving(command, HERE, FAR=far) as url:
        used, end = set(), time.monotonic() + LIMIT
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            # One worker may be quick enough to take all of a round.
            while len(used) < 2 and time.monotonic() < end:
                answers = threads.map(lambda number: requests.get(f"{url}{number}"), range(CALLS))
                found = [answer.text.split() for answer in answers]
                assert [kind for kind, _ in found] == ["right"] * CALLS
                used.update(pid for _, pid in found)
        assert len(used) > 1, "more than one worker has used the client"
        with mcplite.connect(url + "mcp", options=mcplite.ClientOptions(era="modern"), timeout=LIMIT) as client:
            pids = {client.call_tool("whoami").text for _ in range(8)}
        assert len(pids) <= WORKERS and str(os.getpid()) not in pids


@pytest.fixture
def queue(tmp_path, monkeypatch, far):
    for folder in ("queue", "control", "results"):
        (tmp_path / folder).mkdir()
    variables = {"QUEUE": str(tmp_path), "FAR": far, "NEAR": str(SERVER), "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return tmp_path


SEND = """
import json, sys, time
import tasks
calls, seconds = int(sys.argv[1]), float(sys.argv[2])
found, end = [], time.monotonic() + seconds
# One worker may be quick enough to take all of a round.
while len({pid for pid, _ in found}) < 2 and time.monotonic() < end:
    results = [tasks.use.delay(number) for number in range(calls)]
    found += [result.get(timeout=60) for result in results]
refused = tasks.use_command.delay()
print(json.dumps([found, refused.get(timeout=60)]))
"""


def test_the_workers_of_celery(queue):
    pytest.importorskip("celery")
    words = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tasks", "worker", "--pool=prefork",
             f"--concurrency={WORKERS}", "--without-mingle", "--without-gossip", "--without-heartbeat"]
    with running(words, HERE) as (worker, said):
        sent = subprocess.run([sys.executable, "-W", "ignore", "-c", SEND, str(CALLS), str(LIMIT)], cwd=str(HERE),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3 * LIMIT)
        assert sent.returncode == 0, (sent.stderr + b"".join(said)).decode()
        found, refused = json.loads(sent.stdout)
        assert all(right for _, right in found) and len(found) % CALLS == 0
        assert len({pid for pid, _ in found}) > 1, "more than one worker has used the client"
        assert f"belongs to process {worker.pid}" in refused and refused.endswith("open a client in this process")
    assert worker.returncode == 0

"""What holds for tasks in any queue of jobs: real workers on a real Redis, and clients over HTTP."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mcplite.revisions import JULY_2026, NOVEMBER_2025
from tests.support.processes import running, serving
from tests.support.stores import RedisServer
from tests.support.taskclients import task_client

HERE = Path(__file__).resolve().parent
LIMIT = 90
KEY = "a secret of at least 16 bytes"


@contextlib.contextmanager
def working(queue, words):
    """Run a server and a worker on a Redis of their own; gives the server's URL, and what the worker says."""
    with contextlib.ExitStack() as stack:
        store = RedisServer()
        store.start()
        stack.callback(store.close)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {"MCPLITE_TEST_QUEUE": queue, "MCPLITE_BACKEND": store.url, "MCPLITE_STATE_KEYS": KEY,
                            "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), str(HERE)])}.items():
            patch.setenv(name, value)
        words = [sys.executable, "-W", "ignore", *(word.replace("REDIS", store.url) for word in words)]
        _, said = stack.enter_context(running(words, HERE))
        with serving([sys.executable, "-W", "ignore", "-m", "mcplite.server", "queue_app:mcp", "--http=PORT"], HERE) as url:
            yield url + "mcp", said


def until(client, task, said, *statuses):
    end = time.monotonic() + LIMIT
    while True:
        found = client.get(task)
        if found["status"] in statuses:
            return found
        assert time.monotonic() < end, (found, b"".join(said).decode())
        time.sleep(0.05)


def check_a_queue(url, said):
    """Tasks run, ask and are cancelled in the workers."""
    with task_client(url, JULY_2026, elicitation_handler=print) as client:
        found = until(client, client.start("where"), said, "completed")
        assert found["result"]["structuredContent"]["result"] != client.client.call_tool("here").data
        task = client.start("ask")
        found = until(client, task, said, "input_required")
        assert found["statusMessage"] == "about to ask"
        client.request("tasks/update", taskId=task["taskId"], inputResponses={
            key: {"action": "decline"} for key in found["inputRequests"]})
        assert until(client, task, said, "completed")["result"]["content"][0]["text"] == "decline"
        task = client.start("wait")
        while "statusMessage" not in until(client, task, said, "working"):
            time.sleep(0.05)
        client.cancel(task)
        assert client.get(task)["status"] == "cancelled"
        # The only worker is free again, so the handler has stopped.
        assert until(client, client.start("where"), said, "completed")
    with task_client(url, NOVEMBER_2025) as client:
        assert until(client, client.start("where"), said, "completed")


def check_a_death(url, said):
    """A task whose process is killed is reported as failed."""
    with task_client(url, JULY_2026) as client:
        task = client.start("wait")
        while "statusMessage" not in until(client, task, said, "working"):
            time.sleep(0.05)
        os.kill(int(client.get(task)["statusMessage"]), signal.SIGKILL)
        found = until(client, task, said, "failed")
        assert "has ended" in found["statusMessage"]

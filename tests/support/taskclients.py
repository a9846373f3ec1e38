"""Servers with tasks, and clients that speak of them in either generation without help of ours."""

import contextlib
import time

import mcplite
from mcplite.revisions import JULY_2026, NOVEMBER_2025
from mcplite.types.tasks import TERMINAL
from tests.support import connecting

LIMIT = 30
REVISIONS = [NOVEMBER_2025, JULY_2026]


def patiently(ask, limit=LIMIT):
    """Return what *ask* returns, which is called again while workers that were killed take its connections with them."""
    end = time.monotonic() + limit
    while True:
        try:
            return ask()
        except mcplite.TransportError:
            assert time.monotonic() < end
            time.sleep(0.05)


class TaskClient:
    """A client that calls tools as tasks, by plain requests."""

    def __init__(self, client):
        self.client = client
        self.modern = client.revision.modern

    def request(self, method, **params):
        return self.client.request(method, params, timeout=LIMIT)

    def start(self, tool, ttl=None, **arguments):
        """Call a tool as a task; return the task."""
        params = {"name": tool, "arguments": arguments}
        if not self.modern:
            params["task"] = {} if ttl is None else {"ttl": ttl}
        result = self.request("tools/call", **params)
        return result if self.modern else result["task"]

    def get(self, task):
        return patiently(lambda: self.request("tasks/get", taskId=task["taskId"]))

    def until(self, task, *statuses):
        """Poll until the status is one of these, by default a final one; return the task."""
        end = time.monotonic() + LIMIT
        while True:
            found = self.get(task)
            if found["status"] in (statuses or TERMINAL):
                return found
            assert time.monotonic() < end, found
            time.sleep(0.02)

    def result(self, task):
        """Return the result of a finished task, without what a message about it adds."""
        found = self.until(task)["result"] if self.modern else self.request("tasks/result", taskId=task["taskId"])
        return {name: value for name, value in found.items() if name not in ("_meta", "resultType")}

    def cancel(self, task):
        return self.request("tasks/cancel", taskId=task["taskId"])


@contextlib.contextmanager
def task_client(target, revision, **options):
    with connecting.connect(target, revision=revision.name, timeout=LIMIT, **options) as client:
        yield TaskClient(client)

"""Tasks that run elsewhere: ``Server(tasks=runner)`` and ``Server.run_task``."""

import threading

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import RemoteError
from mcplite.revisions import JULY_2026
from mcplite.tasks.server_tasks import QueueRunner
from tests.support.taskclients import LIMIT, REVISIONS, task_client

KEY = "a secret of at least 16 bytes"


class Shared(MemoryBackend):
    shared = True


class Queue(QueueRunner):
    """Keeps what is submitted, until the test runs it."""

    def __init__(self):
        self.jobs, self.attached = [], []

    def submit(self, name, payload):
        if name == "broken":
            raise OSError("the queue is away")
        self.jobs.append((name, payload))

    def attach(self, run, shared):
        self.attached.append(shared)


def server(backend, runner=None):
    mcp = mcplite.Server("jobs", backend=backend, state_keys=[KEY], options=mcplite.ServerOptions(tasks=runner))

    @mcp.tool(task="optional")
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool(task="optional")
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?").action

    mcp.add_tool(lambda: None, name="broken", task="required")
    return mcp


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_job_runs_in_another_process(revision):
    backend, queue = Shared(), Queue()
    front, worker = server(backend, queue), server(backend)
    with task_client(front, revision) as client:
        task = client.start("add", a=1, b=2)
        assert client.get(task)["status"] == "working"
        (name, payload), = queue.jobs
        assert name == "add" and payload == task["taskId"] and queue.attached == [True]
        worker.run_task(payload)
        assert client.result(task)["structuredContent"] == {"result": 3}
        worker.run_task(payload)  # a queue may deliver twice
        worker.run_task("x" * 32)
    front.close()
    worker.close()


def test_a_job_asks():
    backend, queue = Shared(), Queue()
    front, worker = server(backend, queue), server(backend)
    with task_client(front, JULY_2026, elicitation_handler=print) as client:
        task = client.start("ask")
        thread = threading.Thread(target=worker.run_task, args=(task["taskId"],))
        thread.start()
        key, = client.until(task, "input_required")["inputRequests"]
        client.request("tasks/update", taskId=task["taskId"], inputResponses={key: {"action": "decline"}})
        assert client.result(task)["content"][0]["text"] == "decline"
        thread.join(LIMIT)
        assert not thread.is_alive()
    front.close()
    worker.close()


def test_a_job_that_was_cancelled_before_does_not_run():
    backend, queue = Shared(), Queue()
    front, worker = server(backend, queue), server(backend)
    with task_client(front, JULY_2026) as client:
        task = client.start("add", a=1, b=2)
        client.cancel(task)
        worker.run_task(task["taskId"])
        assert client.get(task)["status"] == "cancelled"
    front.close()
    worker.close()


def test_a_queue_that_fails():
    front = server(Shared(), Queue())
    with task_client(front, JULY_2026) as client, pytest.raises(RemoteError, match="cannot be started"):
        client.start("broken")
    front.close()

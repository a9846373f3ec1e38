"""The context of a handler that runs as a task: status, progress, the client's description, ``once``."""

import threading

import pytest

import mcplite
from mcplite.revisions import JULY_2026, NOVEMBER_2025
from mcplite.types.tasks import RELATED_TASK
from tests.support.taskclients import LIMIT, REVISIONS, task_client

both = pytest.mark.parametrize("revision", REVISIONS, ids=str)


@both
def test_the_status_is_what_the_handler_said_last(revision):
    mcp, said, go = mcplite.Server("x"), threading.Event(), threading.Event()

    @mcp.tool(task="required")
    def talk(ctx: mcplite.Context) -> None:
        for number in range(100):
            ctx.task_status(f"step {number}")
        ctx.report_progress(1, 2)
        said.set()
        go.wait(LIMIT)

    with task_client(mcp, revision) as client:
        task = client.start("talk")
        assert said.wait(LIMIT)
        while client.get(task).get("statusMessage") != "1 of 2":
            assert client.get(task)["status"] == "working"
        go.set()
        assert "statusMessage" not in client.until(task)
    mcp.close()


@both
def test_the_client_is_described_as_in_a_call(revision):
    mcp, seen = mcplite.Server("x"), []

    @mcp.tool(task="optional")
    def look(ctx: mcplite.Context) -> None:
        seen.append((ctx.client_info.name, ctx.protocol_version, ctx.can_elicit, ctx.can_sample, ctx.method, ctx.task_id,
                     ctx.meta.get("com.example/a")))

    with task_client(mcp, revision, elicitation_handler=print) as client:
        params = {"name": "look", "arguments": {}, "_meta": {"com.example/a": 1}, **({} if revision.modern else {"task": {}})}
        task = client.request("tools/call", **params)
        task = task.get("task", task)
        client.until(task)
    assert seen == [("mcplite", revision.name, True, False, "tools/call", task["taskId"], 1)]


def test_progress_keeps_its_token_and_names_its_task():
    mcp, go = mcplite.Server("x"), threading.Event()
    told, statuses, there = [], [], threading.Event()

    @mcp.tool(task="required")
    def work(ctx: mcplite.Context) -> None:
        go.wait(LIMIT)
        ctx.report_progress(1, 2, "half")

    def note(method, params):
        if method == "notifications/progress":
            told.append(params)
        if method == "notifications/tasks/status":
            statuses.append(params)
            there.set()

    with task_client(mcp, NOVEMBER_2025) as client:
        session = mcp.runtime.sessions[0]
        sent = session.peer.notify
        session.peer.notify = lambda method, params=None: note(method, params) or sent(method, params)
        task = client.request("tools/call", name="work", arguments={}, task={}, _meta={"progressToken": "mine"})["task"]
        go.set()
        client.until(task)
        assert there.wait(LIMIT)
    assert told == [{"progressToken": "mine", "progress": 1, "total": 2, "message": "half",
                     "_meta": {RELATED_TASK: {"taskId": task["taskId"]}}}]
    assert [status["status"] for status in statuses] == ["completed"] and "_meta" not in statuses[0]
    mcp.close()


def test_once_must_be_json_where_the_task_may_be_begun_again():
    mcp = mcplite.Server("x")

    @mcp.tool(task="required", restartable=True)
    def strict(ctx: mcplite.Context) -> str:
        assert ctx.once("a", lambda: (1, 2)) == ctx.once("a", lambda: 5) == [1, 2]
        ctx.once("b", object)
        return "never"

    @mcp.tool(task="required")
    def loose(ctx: mcplite.Context) -> str:
        kept = ctx.once("b", object)
        return str(kept is ctx.once("b", object))

    with task_client(mcp, JULY_2026) as client:
        found = client.result(client.start("strict"))
        assert found["isError"] and "cannot be kept as JSON" in found["content"][0]["text"]
        assert client.result(client.start("loose"))["content"][0]["text"] == "True"
    mcp.close()


def test_a_timeout_ends_the_task():
    mcp, stopped = mcplite.Server("x"), threading.Event()

    @mcp.tool(task="required", timeout=0.05)
    def long(ctx: mcplite.Context) -> None:
        ctx.on_cancel(stopped.set)
        ctx.sleep(10 * LIMIT)

    with task_client(mcp, JULY_2026) as client:
        found = client.result(client.start("long"))
        assert found["isError"] and "did not finish within" in found["content"][0]["text"]
        assert stopped.wait(LIMIT)
    mcp.close()

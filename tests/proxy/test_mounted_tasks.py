"""Tasks of mounted servers: offered as their servers do, in any pair of revisions, and for as long as the hub says."""

import threading
import time

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.client.call import Call
from mcplite.protocol.meta import CAPABILITIES
from mcplite.proxy import mounted_tasks
from mcplite.revisions import JULY_2026, NOVEMBER_2025, TASKS_EXTENSION
from mcplite.rpc.cancel import CancelToken
from tests.support import connecting
from tests.support.children import wait_until
from tests.support.taskclients import LIMIT, REVISIONS, task_client


class Shared(MemoryBackend):
    """A store that several servers of this process share as several processes would."""

    shared = True


class Works:
    """A server whose tools wait until the test says go, and how often each has begun."""

    def __init__(self, **options):
        self.go, self.begun, self.stopped = threading.Event(), [], threading.Event()
        self.mcp = mcplite.Server("works", **options)
        self.mcp.add_tool(self.work, task="optional")
        self.mcp.add_tool(self.must, task="required")
        self.mcp.add_tool(self.ask, task="required")
        self.mcp.add_tool(self.fail, task="optional")
        self.mcp.add_tool(self.plain)

    def work(self, ctx: mcplite.Context) -> str:
        self.begun.append(ctx.task_id)
        try:
            ctx.report_progress(1, 2, "at work")
            while not self.go.is_set():
                ctx.sleep(0.01)
        except mcplite.Cancelled:
            self.stopped.set()
            raise
        return "done"

    def must(self) -> str:
        return "as it must"

    def ask(self, ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?").action

    def fail(self) -> str:
        raise mcplite.ToolError("it fails")

    def plain(self) -> str:
        return "plain"


@pytest.fixture
def works():
    works = Works()
    yield works
    works.go.set()
    works.mcp.close()


def hub_of(works, kind, **options):
    """A server that mounts the server itself, or a client of it in one of the eras."""
    hub = connecting.new_server("hub", **options)
    hub.mount(works.mcp if kind == "server" else mcplite.connect(works.mcp,
                                                                 options=mcplite.ClientOptions(era=kind)), prefix="far")
    return hub


kinds = pytest.mark.parametrize("kind", ["server", "legacy", "modern"])
revisions = pytest.mark.parametrize("revision", REVISIONS, ids=str)


@kinds
def test_a_hub_offers_the_tasks_of_its_servers(works, kind):
    hub = hub_of(works, kind)
    with mcplite.connect(hub, revision=NOVEMBER_2025.name, timeout=LIMIT) as client:
        assert client.server_capabilities.tasks["requests"] == {"tools": {"call": {}}}
        found = {tool.name: tool.task_support for tool in client.list_tools()}
        if kind == "modern":
            # Its server says with each call whether that becomes a task.
            assert set(found.values()) == {"optional"}
        else:
            assert found == {"far_work": "optional", "far_must": "required", "far_ask": "required", "far_fail": "optional",
                             "far_plain": "forbidden"}
    with mcplite.connect(hub, revision=JULY_2026.name, timeout=LIMIT) as client:
        assert client.server_capabilities.extensions == {TASKS_EXTENSION: {}}
        assert client.request("tools/call", {"name": "far_plain"})["content"][0]["text"] == "plain"


@kinds
@revisions
def test_progress_and_status_messages_pass(works, kind, revision):
    hub, seen = hub_of(works, kind), []
    with mcplite.connect(hub, revision=revision.name, timeout=LIMIT) as client:
        task = client.start_tool("far_work", on_progress=lambda progress: (seen.append(progress.message), works.go.set()))
        assert task.result(LIMIT).text == "done"
    assert "at work" in seen
    assert len(works.begun) == 1


@kinds
@revisions
def test_a_cancelled_task_ends_at_its_server(works, kind, revision):
    with task_client(hub_of(works, kind), revision) as client:
        task = client.start("far_work")
        while not works.begun:
            time.sleep(0.01)
        client.cancel(task)
        assert client.until(task)["status"] == "cancelled"
        assert works.stopped.wait(LIMIT)


@pytest.mark.parametrize("kind, patient", [(None, False), ("legacy", False), ("modern", False), ("modern", True)])
@revisions
def test_a_task_ends_whose_call_is_cancelled_before_the_answer(kind, patient, revision, monkeypatch):
    monkeypatch.setattr(mounted_tasks, "_DECISION_SECONDS", LIMIT if patient else 0.0)
    calls, held, made, answer, token = [], [], threading.Event(), threading.Event(), CancelToken()

    def note(ctx, proceed):
        if ctx.method == "tools/call":
            calls.append(ctx)
        return proceed()

    def hold(ctx, proceed):
        result = proceed()
        if ctx.method == "tools/call" and wait_until(lambda: works.begun):
            held.append(ctx)
            made.set()
            answer.wait(LIMIT)
        return result

    # The server is not told of the cancellation where the mount waits for its answer.
    waits = patient or kind == "legacy"
    works = Works(middleware=[hold] if waits else [note, hold])
    hub, name = (works.mcp, "work") if kind is None else (hub_of(works, kind, middleware=[note] if waits else []), "far_work")
    with task_client(hub, revision) as client:
        if kind == "modern" and not client.modern:  # which has the task of the hub at once
            task = client.start(name)
            assert made.wait(LIMIT)
            client.cancel(task)
        else:
            threading.Thread(target=lambda: made.wait(LIMIT) and token.cancel()).start()
            with pytest.raises(mcplite.Cancelled):
                client.client.request("tools/call", {"name": name, "arguments": {}, **({} if client.modern else {"task": {}})},
                                      cancel=token, timeout=LIMIT)
        # A mount that has answered with a task of its own tells only that.
        assert patient and not client.modern or wait_until(lambda: calls[0].cancelled)
        answer.set()
        assert works.stopped.wait(LIMIT)
        assert held[0].cancelled is not waits
    works.mcp.close()


@kinds
@revisions
def test_a_task_outlives_its_client(works, kind, revision):
    hub = hub_of(works, kind)
    with task_client(hub, revision) as client, task_client(hub, revision) as other:
        task = client.start("far_work")
        client.client.close()
        works.go.set()
        assert other.result(task)["content"][0]["text"] == "done"
    assert len(works.begun) == 1


@kinds
@revisions
def test_a_task_that_fails(works, kind, revision):
    with task_client(hub_of(works, kind), revision) as client:
        task = client.start("far_fail")
        assert client.until(task)["status"] == ("completed" if revision.modern else "failed")
        result = client.result(task)
        assert result["isError"] and result["content"][0]["text"] == "it fails"


@kinds
@pytest.mark.parametrize("shared", [False, True])
@revisions
def test_questions_reach_the_client_of_their_task(works, kind, revision, shared):
    hub = mcplite.Server("hub")
    hub.mount(works.mcp if kind == "server" else mcplite.connect(
            works.mcp, options=mcplite.ClientOptions(era=kind)), prefix="far", shared=shared)
    clients = [mcplite.connect(hub, revision=revision.name, timeout=LIMIT,
                               elicitation_handler=lambda request, answer=answer: answer)
               for answer in (True, False)]
    with clients[0], clients[1]:
        tasks = [client.start_tool("far_ask") for client in clients]
        assert [task.result(LIMIT).text for task in tasks] == ["accept", "decline"]


@kinds
def test_a_client_without_tasks_gets_the_result(works, kind):
    with mcplite.connect(hub_of(works, kind), revision="2025-06-18", timeout=LIMIT,
                         elicitation_handler=lambda request: True) as client:
        assert client.call_tool("far_must").text == "as it must"
        assert client.call_tool("far_ask").text == "accept"


@kinds
def test_a_client_that_did_not_declare_tasks_is_refused_as_by_the_server(works, kind):
    with mcplite.connect(hub_of(works, kind), revision=JULY_2026.name, timeout=LIMIT) as client:
        with pytest.raises(mcplite.errors.MissingCapability, match=TASKS_EXTENSION):
            client.send(Call("tools/call", {"name": "far_must"}, timeout=LIMIT, sender={CAPABILITIES: {}}))


@revisions
@pytest.mark.parametrize("kind", ["legacy", "modern"])
@pytest.mark.slow
def test_another_process_follows_a_task_of_one_that_has_stopped(works, kind, revision):
    """The mounted server is not called again: the record of the task names the task there."""
    backend = Shared()
    first, second = (hub_of(works, kind, backend=backend, state_keys=["k" * 32]) for _ in range(2))
    with task_client(second, revision) as other:
        with task_client(first, revision) as client:
            task = client.start("far_work")
            while not works.begun or client.get(task).get("statusMessage") != "at work":
                time.sleep(0.01)
            first.close()
        works.go.set()
        assert other.result(task)["content"][0]["text"] == "done"
    assert len(works.begun) == 1


@pytest.mark.parametrize("kind", ["legacy", "modern"])
def test_a_task_is_followed_over_a_new_connection(works, kind):
    with mcplite.serve(works.mcp, port=0) as httpd:
        hub = mcplite.Server("hub")
        hub.mount(mcplite.connect(httpd.url, options=mcplite.ClientOptions(era=kind)), prefix="far")
        with mcplite.connect(hub, timeout=LIMIT) as client:
            task = client.start_tool("far_work")
            while not works.begun:
                time.sleep(0.01)
            for provider in hub.registry.providers:
                provider.pool.main.client.close()
            works.go.set()
            assert task.result(LIMIT).text == "done"
    assert len(works.begun) == 1

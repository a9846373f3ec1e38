"""Tasks of several processes over one store, of several principals, and their bounds."""

import threading
import time

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import SERVER_BUSY, BackendError, InvalidParams, RegistrationError, RemoteError
from mcplite.revisions import JULY_2026, NOVEMBER_2025
from mcplite.tasks import Tasks
from mcplite.tasks.server_tasks import tasks_of
from mcplite.tasks.task_store import TaskStore
from tests.support import connecting
from tests.support.faults import every_fault, lines, strike
from tests.support.taskclients import LIMIT, REVISIONS, task_client

KEY = "a secret of at least 16 bytes"
both = pytest.mark.parametrize("revision", REVISIONS, ids=str)


class Shared(MemoryBackend):
    """A store that several servers of this process share as several processes would."""

    shared = True


class Process:
    """One process of a server: in truth a server of its own, over the same store."""

    def __init__(self, backend, **options):
        self.go, self.begun = threading.Event(), threading.Event()
        self.runs = []
        self.mcp = connecting.new_server("fleet", backend=backend, state_keys=[KEY], **options)

        @self.mcp.tool(task="optional")
        def wait(ctx: mcplite.Context) -> str:
            self.begun.set()
            while not self.go.wait(0.01):
                ctx.check_cancelled()
            return "waited"

        @self.mcp.tool(task="optional", restartable=True)
        def again(ctx: mcplite.Context) -> str:
            first = ctx.once("first", lambda: self.runs.append(1) or "kept")
            answer = ctx.elicit("Sure?").action
            self.begun.set()
            while not self.go.wait(0.01):
                ctx.check_cancelled()
            return f"{first} {answer}"

    def die(self):
        """End as a process that was killed does, as the others see it."""
        tasks_of(self.mcp.runtime).stop(None)
        self.mcp.runtime.processes.messages.stop()
        self.mcp.runtime.processes.leases.stop()


@pytest.fixture
def two():
    backend = Shared()
    pair = Process(backend), Process(backend)
    yield pair
    for process in pair:
        process.go.set()
        process.mcp.close()


@both
def test_any_process_answers_for_a_task(two, revision):
    one, other = two
    with task_client(one.mcp, revision) as first, task_client(other.mcp, revision) as second:
        task = first.start("wait")
        assert second.get(task)["status"] == "working"
        one.go.set()
        assert second.result(task) == {"content": [{"type": "text", "text": "waited"}]}


@both
def test_a_task_is_cancelled_from_another_process(two, revision):
    one, other = two
    begun, stopped = threading.Event(), threading.Event()

    @one.mcp.tool(task="required")
    def until_cancelled(ctx: mcplite.Context) -> None:
        ctx.on_cancel(stopped.set)
        begun.set()
        ctx.sleep(10 * LIMIT)

    with task_client(one.mcp, revision) as first, task_client(other.mcp, revision) as second:
        task = first.start("until_cancelled")
        assert begun.wait(LIMIT)
        second.cancel(task)
        assert stopped.wait(LIMIT)
        assert first.until(task)["status"] == "cancelled"


def test_questions_are_answered_at_another_process(two):
    one, other = two
    with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first, task_client(other.mcp, JULY_2026) as second:
        task = first.start("again")
        key, = second.until(task, "input_required")["inputRequests"]
        second.request("tasks/update", taskId=task["taskId"], inputResponses={key: {"action": "accept"}})
        assert one.begun.wait(LIMIT)
        one.go.set()
        assert second.result(task)["content"][0]["text"] == "kept accept"


@both
def test_a_task_whose_process_has_ended_is_failed(two, revision):
    one, other = two
    with task_client(one.mcp, revision) as first, task_client(other.mcp, revision) as second:
        task = first.start("wait")
        assert one.begun.wait(LIMIT)
        one.die()
        found = second.until(task)
        assert found["status"] == "failed" and "has ended" in found["statusMessage"]
        one.go.set()  # what the lost process does now is dropped
        time.sleep(0.05)
        assert second.get(task)["status"] == "failed"


def test_a_restartable_task_is_begun_again_with_what_it_has_done(two):
    one, other = two
    with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first, task_client(
            other.mcp, JULY_2026, elicitation_handler=print) as second:
        task = first.start("again")
        key, = first.until(task, "input_required")["inputRequests"]
        first.request("tasks/update", taskId=task["taskId"], inputResponses={key: {"action": "decline"}})
        assert one.begun.wait(LIMIT)
        one.die()
        second.until(task, "working", "completed")
        assert other.begun.wait(LIMIT)
        other.go.set()
        assert second.result(task)["content"][0]["text"] == "kept decline"
        assert one.runs == [1] and other.runs == [], "neither the action nor the question came twice"


def test_a_restart_keeps_what_is_finished():
    backend = Shared()
    before = Process(backend)
    with task_client(before.mcp, JULY_2026) as client:
        done, lost = client.start("wait"), None
        before.go.set()
        client.until(done)
        before.go.clear()
        lost = client.start("wait")
    before.mcp.close()
    before.die()
    after = Process(backend)
    with task_client(after.mcp, JULY_2026) as client:
        assert client.result(done)["content"][0]["text"] == "waited"
        assert client.until(lost)["status"] == "failed"
    after.mcp.close()


# --- principals and bounds --------------------------------------------------------------------------


def tokens(*names):
    return mcplite.StaticTokens({f"token-{name}-of-the-test": mcplite.Principal(name, audience=mcplite.auth.ISSUED_HERE)
                                 for name in names})


def jobs(**options):
    mcp, go = connecting.new_server("jobs", **options), threading.Event()

    @mcp.tool(task="optional")
    def who(ctx: mcplite.Context) -> str:
        return ctx.principal.subject if ctx.principal else "nobody known"

    @mcp.tool(task="required")
    def wait() -> None:
        go.wait(LIMIT)

    return mcp, go


@both
def test_a_task_is_its_principals(revision):
    mcp, go = jobs(auth=tokens("ann", "bob"), page_size=2)
    with mcplite.serve(mcp, port=0) as httpd, task_client(
            httpd.url, revision, headers={"Authorization": "Bearer token-ann-of-the-test"}) as ann, task_client(
            httpd.url, revision, headers={"Authorization": "Bearer token-bob-of-the-test"}) as bob:
        mine = [ann.start("who") for _ in range(5)]
        his = bob.start("who")
        assert ann.result(mine[0])["content"][0]["text"] == "ann" and bob.result(his)["content"][0]["text"] == "bob"
        for method in ("tasks/get", "tasks/cancel", "tasks/update" if revision.modern else "tasks/result"):
            more = {"inputResponses": {}} if method == "tasks/update" else {}
            with pytest.raises(InvalidParams):
                bob.request(method, taskId=mine[0]["taskId"], **more)
        if revision.modern:
            return
        listed, cursor, pages = [], {}, 0
        while True:
            page = ann.request("tasks/list", **cursor)
            listed += [task["taskId"] for task in page["tasks"]]
            pages += 1
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert listed == [task["taskId"] for task in mine] and pages == 3
        assert [task["taskId"] for task in bob.request("tasks/list")["tasks"]] == [his["taskId"]]
        with pytest.raises(InvalidParams, match="cursor"):
            ann.request("tasks/list", cursor="nonsense")
    go.set()


@both
def test_bounds_for_each_client(revision):
    mcp, go = jobs(tasks=Tasks(kept=3))
    with task_client(mcp, revision) as client:
        finished = client.start("who")
        client.until(finished)
        for _ in range(3):
            client.start("wait")  # the finished one goes for the last of these
        with pytest.raises(InvalidParams):
            client.get(finished)
        with pytest.raises(RemoteError) as caught:
            client.start("wait")
        assert caught.value.code == SERVER_BUSY and "unfinished" in str(caught.value)
        go.set()
    mcp.close()


@both
def test_too_many_for_the_pool(revision):
    mcp, go = jobs(tasks=Tasks(running=1, queued=1))
    with task_client(mcp, revision) as client:
        kept = [client.start("wait"), client.start("wait")]
        with pytest.raises(RemoteError) as caught:
            client.start("wait")
        assert caught.value.code == SERVER_BUSY
        go.set()
        assert {client.until(task)["status"] for task in kept} == {"completed"}
    mcp.close()


def test_a_task_is_gone_after_its_time():
    mcp, stopped = mcplite.Server("short"), threading.Event()

    @mcp.tool(task="required")
    def long(ctx: mcplite.Context) -> None:
        ctx.on_cancel(stopped.set)
        ctx.sleep(10 * LIMIT)

    with task_client(mcp, NOVEMBER_2025) as client:
        task = client.start("long", ttl=1000)
        assert task["ttl"] == 1000
        assert stopped.wait(LIMIT)
        with pytest.raises(InvalidParams, match="its time is over"):
            client.get(task)
        assert client.start("long", ttl=10 ** 12)["ttl"] == 3_600_000
    mcp.close()


@both
def test_a_plain_call_is_not_held_up_by_tasks(revision):
    mcp, go = jobs(tasks=Tasks(running=2), limits=mcplite.Limits(running=1))
    mcp.add_tool(lambda: "plain", name="plain")
    with task_client(mcp, revision) as client:
        tasks = [client.start("wait") for _ in range(5)]
        assert client.client.call_tool("plain").text == "plain"
        go.set()
        assert {client.until(task)["status"] for task in tasks} == {"completed"}
    mcp.close()


@both
def test_a_stopped_server_marks_its_tasks(revision):
    mcp, go = jobs()
    with task_client(mcp, revision) as client:
        task = client.start("wait")
        tasks_of(mcp.runtime).close(None)
        assert client.until(task)["status"] == "failed"
        go.set()


def test_the_lifespan_lasts_as_long_as_a_task():
    import contextlib

    left, go = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield {"open": True}
        left.set()

    mcp, seen = mcplite.Server("lasting", lifespan=lifespan), []

    @mcp.tool(task="required")
    def look(ctx: mcplite.Context) -> None:
        go.wait(LIMIT)
        seen.append((ctx.lifespan, ctx.task_id, ctx.http))

    with task_client(mcp, JULY_2026) as client:
        task = client.start("look")
    assert not left.is_set()
    go.set()
    assert left.wait(LIMIT) and seen == [({"open": True}, task["taskId"], None)]


# --- registration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, why", [
    ({"task": "sometimes"}, "task must be"), ({"task": True}, "task must be"), ({"restartable": True}, "is for tasks"),
])
def test_options_that_cannot_be_used(options, why):
    with pytest.raises(RegistrationError, match=why):
        mcplite.Server("x").add_tool(lambda: None, name="tool", **options)


def test_a_server_without_tasks_loads_nothing_of_them():
    import subprocess
    import sys

    code = ("import sys, mcplite; mcp = mcplite.Server('x'); mcp.add_tool(lambda: 1, name='t'); print(sorted(name for name in"
            " sys.modules if name.startswith(('mcplite.tasks', 'mcplite.types.tasks'))))")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout == "[]\n"


# --- the thread that looks after tasks goes on after any one fault --------------------------------


def wait_taken(task, process):
    end = time.monotonic() + LIMIT
    while task["taskId"] not in tasks_of(process.mcp.runtime)._runs:
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(process):
    """End a process as a kill does: it writes nothing any more."""
    tasks_of(process.mcp.runtime)._roster._store = lambda number, running: None
    process.die()


def test_the_other_tasks_of_an_ended_process_are_begun_again_after_an_outage(two, monkeypatch):
    one, other = two
    with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first:
        tasks = [first.start("again") for _ in range(3)]
        for task in tasks:
            first.until(task, "input_required")
        begun = []

        def is_second(store, task_id, change):
            begun.extend([] if task_id in begun else [task_id])
            return len(begun) == 2

        struck = strike(monkeypatch, TaskStore, "change", lambda: BackendError("away"), is_second)
        gone(one)
        tasks_of(other.mcp.runtime).start(None)
        assert struck.wait(LIMIT)
        for task in tasks:
            wait_taken(task, other)


def test_a_task_of_an_ended_process_that_finds_no_room_fails_and_stays():
    backend = Shared()
    one, other = Process(backend), Process(backend, tasks=Tasks(running=1, queued=1))
    for process in (one, other):
        process.mcp.add_tool(lambda: other.go.wait(LIMIT), name="hold", task="required", restartable=True)
    with task_client(one.mcp, JULY_2026) as first:
        tasks = [first.start("hold") for _ in range(4)]
    gone(one)
    tasks_of(other.mcp.runtime).start(None)
    store = tasks_of(other.mcp.runtime).store

    def failed():
        records = [store.get(task["taskId"]) for task in tasks]
        return [record.message for record in records if record.status == "failed"]

    end = time.monotonic() + LIMIT
    while len(failed()) < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert failed() == ["Server busy: too many tasks are waiting; try again later"] * 2
    other.go.set()
    while tasks_of(one.mcp.runtime)._runs or tasks_of(other.mcp.runtime)._runs:
        assert time.monotonic() < end
        time.sleep(0.02)
    one.mcp.close()
    other.mcp.close()


@every_fault
@pytest.mark.slow
def test_the_tasks_of_an_ended_process_are_found_after_a_fault(two, monkeypatch, caplog, fault):
    one, other = two
    with task_client(one.mcp, JULY_2026, elicitation_handler=print) as first, task_client(other.mcp, JULY_2026):
        task = first.start("again")
        first.until(task, "input_required")
        struck = strike(monkeypatch, tasks_of(other.mcp.runtime)._roster, "look", fault)
        assert struck.wait(LIMIT)
        one.die()
        wait_taken(task, other)
    assert lines(caplog, "watch over tasks failed, and is tried again") == 1

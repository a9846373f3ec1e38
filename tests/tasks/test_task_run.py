"""What the runs of tasks hold: threads that wait, arguments, and results."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import SERVER_BUSY, BackendError, RemoteError
from mcplite.revisions import JULY_2026
from mcplite.tasks import Tasks, task_run
from mcplite.tasks.server_tasks import tasks_of
from tests.support import connecting
from tests.support.taskclients import LIMIT, REVISIONS, task_client
from tests.support.tight import tight

KEY = "a secret of at least 16 bytes"
both = pytest.mark.parametrize("revision", REVISIONS, ids=str)


class Shared(MemoryBackend):
    shared = True


class Jobs:
    """A server with tasks, over a memory of its own or a store that is shared."""

    def __init__(self, shared=False, tasks=None, backend=None, **limits):
        self.go, self.arguments = threading.Event(), []
        options = {"backend": backend or Shared(), "state_keys": [KEY]} if shared else {}
        self.mcp = connecting.new_server("jobs", limits=tight(**limits), tasks=tasks, **options)

        @self.mcp.tool(task="optional")
        def ask(ctx: mcplite.Context, number: int = 0) -> str:
            return ctx.elicit(f"Well, {number}?").action

        @self.mcp.tool(task="optional")
        def wait(ctx: mcplite.Context, text: str = "") -> str:
            while not self.go.wait(0.01):
                ctx.check_cancelled()
            return "waited"

        @self.mcp.tool(task="optional")
        def hold(text: str) -> None:
            self.go.wait(LIMIT)

        @self.mcp.tool(task="optional")
        def make(size: int) -> str:
            return "é" * size

    @property
    def store(self):
        return tasks_of(self.mcp.runtime).store

    def stored(self):
        """Return the bytes of all values in the backend."""
        backend = self.store.backend
        return sum(len(kept.value) for kept in getattr(backend, "_backend", backend)._values.values())

    def close(self):
        self.go.set()
        self.mcp.close()


@pytest.fixture
def jobs():
    made = []

    def make(**options):
        made.append(Jobs(**options))
        return made[-1]

    yield make
    for server in made:
        server.close()


def until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("shared", [False, True])
@both
@pytest.mark.slow
def test_tasks_that_wait_for_answers_are_bounded(jobs, revision, shared):
    server = jobs(shared=shared, waiting_calls=3)
    before = threading.active_count()
    with task_client(server.mcp, revision, elicitation_handler=print) as client:
        tasks = []
        for number in range(8):
            tasks.append(client.start("ask", number=number))
            client.until(tasks[-1], "input_required")
        found = [client.until(task, "failed") for task in tasks[:5]]
        assert "the server needed the room for the questions of other calls" in found[0]["statusMessage"]
        assert [client.get(task)["status"] for task in tasks[5:]] == ["input_required"] * 3
        until(lambda: len(server.mcp.runtime.suspended_calls) == 3)
        until(lambda: threading.active_count() - before < 20)
        for task in tasks[5:]:
            client.cancel(task)
        until(lambda: not len(server.mcp.runtime.suspended_calls))


@pytest.mark.parametrize("shared", [False, True])
@both
def test_the_arguments_of_unfinished_tasks_are_bounded(jobs, revision, shared):
    server = jobs(shared=shared, tasks=Tasks(bytes=1_000_000))
    with task_client(server.mcp, revision) as client:
        tasks = [client.start("wait", text="x" * 300_000) for _ in range(3)]
        with pytest.raises(RemoteError) as caught:
            client.start("wait", text="x" * 300_000)
        assert caught.value.code == SERVER_BUSY and "unfinished" in str(caught.value)
        assert server.stored() < 10_000  # only what another process could use is stored
        server.go.set()
        assert {client.until(task)["status"] for task in tasks} == {"completed"}
        until(lambda: server.store.budget.bytes < 10_000)
        client.until(client.start("wait", text="x" * 300_000))


@pytest.mark.parametrize("shared", [False, True])
@both
def test_the_results_of_finished_tasks_are_bounded(jobs, revision, shared):
    server = jobs(shared=shared, tasks=Tasks(bytes=1_000_000))
    with task_client(server.mcp, revision) as client:
        tasks = []
        for _ in range(10):
            tasks.append(client.start("make", size=100_000))
            assert client.result(tasks[-1])["content"][0]["text"] == "é" * 100_000
            until(lambda: server.mcp.runtime.turns._current is None)  # it was made in a turn, which has ended with it
        assert server.stored() < 1_050_000
        client.get(tasks[-4])
        with pytest.raises(mcplite.errors.InvalidParams):
            client.get(tasks[0])


@pytest.mark.parametrize("shared", [False, True])
@both
def test_a_result_that_is_too_large_fails_its_task(jobs, revision, shared):
    server = jobs(shared=shared, tasks=Tasks(bytes=1_000_000))
    with task_client(server.mcp, revision) as client:
        other = client.start("make", size=10)
        client.until(other)
        task = client.start("make", size=600_000)
        found = client.until(task)
        assert found["status"] == "failed" and "Tasks.bytes" in found["statusMessage"]
        assert client.get(other)["status"] == "completed" and server.stored() < 10_000


def test_another_client_gets_room_from_one_whose_tasks_do_not_end(jobs):
    server = jobs(tasks=Tasks(bytes=1_000_000, running=1))
    with mcplite.serve(server.mcp, port=0) as httpd:
        with task_client(httpd.url, JULY_2026) as client:
            running, queued, last = (client.start("hold", text="x" * 300_000) for _ in range(3))
            store = server.store
            other = store.get(running["taskId"])
            for task, held in (running, 200_000), (queued, 250_000):
                other.id, other.sender = store.new_id(), "127.0.0.9"
                assert store.budget.add(other, held, 100)  # as for a call from another address
                failed = client.until(task)
                assert failed["status"] == "failed" and "another client's tasks" in failed["statusMessage"]
            assert set(tasks_of(server.mcp.runtime)._runs) == {running["taskId"], last["taskId"]}
            server.go.set()
            assert client.until(last)["status"] == "completed"


@both
def test_the_questions_of_several_threads_are_all_asked(revision):
    mcp = connecting.new_server("threads", tasks=Tasks())

    @mcp.tool(task="optional")
    def ask(ctx: mcplite.Context) -> str:
        together = threading.Barrier(3)

        def one(number):
            together.wait(LIMIT)
            return ctx.elicit(f"Number {number}?", int).data

        with ThreadPoolExecutor(3) as pool:
            return str(list(pool.map(one, range(3))))

    with mcplite.connect(mcp, revision=revision.name,
                         elicitation_handler=lambda asked: asked.accept({"value": int(asked.message[7:-1])})) as client:
        assert client.start_tool("ask").result(LIMIT).text == "[0, 1, 2]"


def test_a_task_that_is_cancelled_before_its_turn_does_not_run(jobs):
    server, ran = jobs(tasks=Tasks(running=1)), []

    @server.mcp.tool(task="optional")
    def note() -> None:
        ran.append(1)

    with task_client(server.mcp, JULY_2026) as client:
        first, queued = client.start("wait"), client.start("note")
        client.cancel(queued)
        last = client.start("note")
        server.go.set()
        assert [client.until(task)["status"] for task in (first, queued, last)] == ["completed", "cancelled", "completed"]
    assert ran == [1]


# --- a store that is away for a moment ----------------------------------------------------------------


class Shaky(Shared):
    """A store that is away while :attr:`away` is set; each refusal is counted."""

    def __init__(self):
        super().__init__()
        self.away, self.refused = threading.Event(), 0

    def _check(self):
        if self.away.is_set():
            self.refused += 1
            raise BackendError("the store is away")

    def get(self, key):
        self._check()
        return super().get(key)

    def swap(self, *arguments):
        self._check()
        return super().swap(*arguments)

    def put(self, *arguments):
        self._check()
        return super().put(*arguments)


@pytest.fixture
def shaky(monkeypatch):
    monkeypatch.setattr(task_run, "_ATTEMPT_SECONDS", 0.01)
    monkeypatch.setattr(task_run, "_LOOK_SECONDS", 0.01)
    server = Jobs(shared=True, backend=Shaky())
    yield server
    server.store.backend._backend.away.clear()
    server.close()


def refuses(server, since):
    """Wait until the store has refused some more operations."""
    until(lambda: server.store.backend._backend.refused > since + 3)


def test_a_task_that_ends_while_the_store_is_away_is_completed(shaky):
    store = shaky.store.backend._backend
    with task_client(shaky.mcp, JULY_2026) as client:
        task = client.start("wait")
        store.away.set()
        shaky.go.set()
        refuses(shaky, store.refused)
        store.away.clear()
        assert client.result(task)["content"][0]["text"] == "waited"


def test_a_question_outlives_an_outage_of_the_store(shaky):
    store = shaky.store.backend._backend
    with task_client(shaky.mcp, JULY_2026, elicitation_handler=print) as client:
        task = client.start("ask")
        key, = client.until(task, "input_required")["inputRequests"]
        store.away.set()
        refuses(shaky, store.refused)
        store.away.clear()
        client.request("tasks/update", taskId=task["taskId"], inputResponses={key: {"action": "accept"}})
        assert client.result(task)["content"][0]["text"] == "accept"


def test_a_step_that_is_done_while_the_store_is_away_is_noted(shaky):
    store, done = shaky.store.backend._backend, []

    @shaky.mcp.tool(task="required", restartable=True)
    def pay(ctx: mcplite.Context) -> str:
        return ctx.once("pay", lambda: done.append(1) or store.away.set() or "paid")

    with task_client(shaky.mcp, JULY_2026) as client:
        task = client.start("pay")
        refuses(shaky, 0)
        store.away.clear()
        assert client.result(task)["content"][0]["text"] == "paid" and done == [1]


def test_a_server_stops_without_a_wait_for_a_store_that_is_away(shaky, monkeypatch):
    store = shaky.store.backend._backend
    with task_client(shaky.mcp, JULY_2026) as client:
        client.start("hold", text="")
        store.away.set()
        refused = store.refused
        tasks_of(shaky.mcp.runtime).close(None)
        assert store.refused == refused + 1
        store.away.clear()


@both
def test_requests_about_tasks_are_refused_as_busy_while_the_store_is_away(shaky, revision):
    store = shaky.store.backend._backend
    with task_client(shaky.mcp, revision) as client:
        task = client.start("wait")
        store.away.set()
        refused = []
        for ask in (lambda: client.start("wait"), lambda: client.request("tasks/get", taskId=task["taskId"]),
                    lambda: client.cancel(task)):
            with pytest.raises(RemoteError, match="Server busy: the store") as raised:
                ask()
            refused.append(raised.value.code)
        store.away.clear()
    assert refused == [SERVER_BUSY] * 3
    assert tasks_of(shaky.mcp.runtime)._roster._running == {task["taskId"]}, "the one that was refused is not noted"


def test_listeners_are_told_of_an_end_whose_answer_was_lost(shaky, monkeypatch):
    store, real = shaky.store.backend._backend, Shaky.swap

    def swap(backend, key, old, new, seconds):
        swapped = real(backend, key, old, new, seconds)
        if key.endswith("/record") and b"completed" in new:
            monkeypatch.setattr(Shaky, "swap", real)
            raise BackendError("the answer was lost")
        return swapped

    told, tasks = [], tasks_of(shaky.mcp.runtime)
    with task_client(shaky.mcp, JULY_2026) as client:
        task = client.start("wait")
        monkeypatch.setattr(tasks.changes, "_on_change", lambda task_id: told.append(shaky.store.get(task_id).status))
        monkeypatch.setattr(Shaky, "swap", swap)
        shaky.go.set()
        until(lambda: "completed" in told)
        assert client.get(task)["status"] == "completed" and not store.away.is_set()


def test_a_status_that_is_said_while_the_store_is_away_is_stored_later(shaky):
    store, go = shaky.store.backend._backend, threading.Event()

    @shaky.mcp.tool(task="required")
    def work(ctx: mcplite.Context) -> None:
        store.away.set()
        ctx.task_status("counting")
        store.away.clear()
        go.wait(LIMIT)

    with task_client(shaky.mcp, JULY_2026) as client:
        task = client.start("work")
        until(lambda: store.refused and shaky.store.get(task["taskId"]).message == "counting")
        go.set()
        client.until(task)

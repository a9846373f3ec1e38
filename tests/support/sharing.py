"""Several processes of a server with one backend, each as a server object of its own, and clients whose requests go to all."""

import contextlib
import json
import threading
import time

import pytest

import mcplite
from mcplite.backend.memory import MemoryBackend
from mcplite.backend.sqlite import SQLiteBackend
from mcplite.revisions import LEGACY
from mcplite.server.http import make_endpoint
from mcplite.server.state import logs
from tests.server.http.test_endpoint import header, opening, request
from tests.support.tight import tight

LIMIT = 60
KEY = "a key of sixteen bytes or more"
STREAMABLE = [revision.name for revision in LEGACY[1:]]  # the oldest has the transport of two endpoints
CHECKED = [revision.name for revision in LEGACY if revision.version_header == "checked"]


class Shared(MemoryBackend):
    """A memory that several servers of this process share, as processes would; notes what they do with it, and can fail."""

    shared = True

    def __init__(self, clock=time.monotonic):
        super().__init__(clock)
        self.trips = []
        #: The names of the operations that fail.
        self.away = ()

    def _use(self, operation, name=None):
        if operation in self.away:
            raise mcplite.errors.BackendError("the backend is away")
        self.trips.append((operation, name))

    def put(self, key, value, seconds):
        self._use("put", key)
        super().put(key, value, seconds)

    def get(self, key):
        self._use("get", key)
        return super().get(key)

    def swap(self, key, old, new, seconds):
        self._use("swap", key)
        return super().swap(key, old, new, seconds)

    def append(self, log, value, seconds, keep):
        self._use("append", log)
        return super().append(log, value, seconds, keep)

    def last(self, log):
        if "last" in self.away:
            self._use("last")
        return super().last(log)

    def wait(self, logs, timeout):
        if "wait" in self.away:
            self._use("wait")
        return super().wait(logs, timeout)


class Process:
    """One process of a fleet: a server, its endpoint, and what its handlers wait for."""

    def __init__(self, backend, **limits):
        self.mcp = mcp = mcplite.Server("demo", backend=backend, state_keys=[KEY], limits=tight(**limits),
                                        options=mcplite.ServerOptions(
                                                on_roots_changed=lambda session: self.told.append("roots")))
        self.told = []
        self.entered, self.left = threading.Event(), threading.Event()

        @mcp.tool()
        def add(a: int, b: int) -> int:
            return a + b

        @mcp.tool()
        def report(ctx: mcplite.Context) -> str:
            ctx.report_progress(1)
            return "reported"

        @mcp.tool()
        def say(ctx: mcplite.Context, level: str) -> str:
            ctx.log(level, "said")
            return "said"

        @mcp.tool()
        def ask(ctx: mcplite.Context) -> str:
            return ctx.elicit("Well?").action

        @mcp.tool()
        def roots(ctx: mcplite.Context) -> int:
            return len(ctx.list_roots())

        @mcp.tool()
        def tell(ctx: mcplite.Context) -> str:
            ctx.session.log("error", "told")
            return "told"

        @mcp.tool()
        def pause(ctx: mcplite.Context) -> bool:
            return ctx.close_stream(0.01)

        @mcp.tool()
        def count(ctx: mcplite.Context, to: int) -> int:
            for number in range(1, to + 1):
                ctx.report_progress(number)
            return to

        @mcp.tool()
        def hold(ctx: mcplite.Context) -> str:
            ctx.report_progress(1)
            self.say = lambda message: ctx.report_progress(2, message=message)
            self.entered.set()
            try:
                while not self.go.wait(0.02):
                    ctx.check_cancelled()
            finally:
                self.left.set()
            return "held"

        @mcp.resource("demo://one")
        def one() -> str:
            return "1"

        self.go = threading.Event()
        self.endpoint = make_endpoint(mcp.runtime, legacy_sse=True)

    def close(self):
        self.go.set()
        self.endpoint.close(0.5)


@contextlib.contextmanager
def running(store, count=3, **limits):
    processes = [Process(store(), **limits) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path, monkeypatch):
    """Return what opens the store for one more process."""
    monkeypatch.setattr(logs, "_WAIT_SECONDS", 0.05)  # so that a response soon sees its end
    if request.param == "memory":
        backend = Shared()
        yield lambda: backend
        backend.close()
        return
    opened = []

    def make():
        opened.append(SQLiteBackend(str(tmp_path / "fleet.db")))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


@pytest.fixture
def processes(store):
    """Three servers of this process that share the store, as three processes do."""
    with running(store) as processes:
        yield processes


class Client:
    """A client whose requests go to one process after the other."""

    def __init__(self, processes, version="2025-11-25", principal=None, **capabilities):
        self.processes, self.turn, self.principal = processes, 0, principal
        opened = self.next().handle(request("POST", opening(version, **capabilities), principal=principal))
        self.headers = {"mcp_session_id": header(opened, "Mcp-Session-Id")}
        if version in CHECKED:
            self.headers["mcp_protocol_version"] = version
        assert self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def next(self):
        self.turn += 1
        return self.processes[self.turn % len(self.processes)].endpoint

    def send(self, message=None, method="POST", process=None, **more):
        endpoint = self.next() if process is None else process.endpoint
        return endpoint.handle(request(method, message, principal=self.principal, **{**self.headers, **more}))

    def session_at(self, process):
        """Return the session as one process knows it; None if it is unknown."""
        return process.endpoint.sessions.find(self.headers["mcp_session_id"], self.principal)


class Reading:
    """A thread that reads a response, as a host does."""

    def __init__(self, response):
        self.response = response
        self.found = []
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        text = ""
        for piece in self.response.body:
            text += piece.decode()
            while "\n\n" in text:
                event, _, text = text.partition("\n\n")
                fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line and line[0] != ":")
                with self._changed:
                    if fields:
                        data = fields.get("data", "")
                        self.found.append((fields.get("id"), json.loads(data) if data[:1] in ("{", "[") else data or None))
                        self._changed.notify_all()
        self.response.close()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait(self, fits):
        """Return the id and the message of the first event that fits."""
        with self._changed:
            fitting = lambda: [event for event in self.found if isinstance(event[1], (dict, list)) and fits(event[1])]  # noqa: E731
            assert self._changed.wait_for(fitting, LIMIT), self.found
            return fitting()[0]

    def messages(self):
        return [message for _, message in self.found if isinstance(message, (dict, list))]

    def wait_over(self):
        with self._changed:
            assert self._changed.wait_for(lambda: self._over, LIMIT)
        self._thread.join(LIMIT)

    def stop(self):
        self.response.body.stop()
        self.wait_over()

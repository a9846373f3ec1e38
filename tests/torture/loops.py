"""What is tortured of the threads that serve in the background: those of a fleet over a file, of tasks, mounts, and hooks.

Such a thread has no caller who would notice its end. So each scenario goes on until that thread has done its work after the
fault; the first attempts may fail, since the fault may have struck one of them.
"""

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import mcplite
from mcplite.backend.from_url import SealedBackend, open_backend
from mcplite.fleet.leases import Leases, Outage
from mcplite.revisions import NEWEST

#: What a caller of the package may get: its errors, or the lack of memory or of a thread.
EXPECTED = mcplite.MCPError, MemoryError, OSError, RuntimeError
KEY = "a secret of at least 16 bytes"
#: Seconds for one attempt, and how many there are.
SECONDS = 5
ATTEMPTS = 5
#: Seconds for which a lease lasts here.
LEASE_SECONDS = 1.5
URI = "x://1"


class Hooks:
    """What the program of the user is called for; the torture has one call end with SystemExit."""

    subscribed = []

    @staticmethod
    def on_subscribe(uri, number):
        Hooks.subscribed.append((uri, number))


def _until(step, what):
    """Run a step until it returns something true."""
    errors = []
    for _ in range(ATTEMPTS):
        try:
            found = step()
            if found:
                return found
        except EXPECTED as error:
            errors.append(error)
    raise AssertionError(f"{what}, after {errors!r}")


def _client(target):
    return mcplite.connect(target, revision=NEWEST.name, timeout=SECONDS, open_timeout=SECONDS)


@contextlib.contextmanager
def _entered(*servers):
    """Let servers have a client all the time, so that their threads are not started again."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            _until(lambda server=server: server.runtime.enter() or True, "a server does not begin")
            stack.callback(server.runtime.leave)
        yield


def _server(backend):
    server = mcplite.Server("fleet", backend=backend, state_keys=[KEY])
    server.add_resource(URI, lambda: "1", name="one")
    server.add_tool(lambda: "done", name="job", task="optional")
    return server


@contextlib.contextmanager
def _fleet(count):
    """Servers of several processes over one file; in truth they are all here."""
    with tempfile.TemporaryDirectory() as folder:
        backends = [_until(lambda: open_backend(f"sqlite:///{folder}/fleet.db"), "no backend") for _ in range(count)]
        try:
            servers = [_until(lambda backend=backend: _server(backend), "a server cannot be made") for backend in backends]
            with _entered(*servers):
                yield servers
            for server in servers:
                with contextlib.suppress(*EXPECTED):
                    server.close()
        finally:
            for backend in backends:
                backend.close()


def fleet(url):
    """Changes that one process tells, and the clients of the other hear of: letters, news, SQLite's notifications."""
    with _fleet(2) as (one, other):
        def told():
            with _client(other) as client:
                with client.listen(resources=[URI]) as events:
                    one.resource_updated(URI)
                    return events.get(SECONDS)

        for _ in range(2):
            _until(told, "a client of the other process does not hear of a change")


def leases(url):
    """Two processes that know of each other that they run."""
    with tempfile.TemporaryDirectory() as folder:
        backend = _until(lambda: SealedBackend(open_backend(f"sqlite:///{folder}/leases.db"), [KEY.encode()]), "no backend")
        pair = [Leases(backend, Outage(), LEASE_SECONDS) for _ in range(2)]
        try:
            numbers = [_until(lambda found=found: found.number, "a process gets no number") for found in pair]
            time.sleep(1.5 * LEASE_SECONDS)  # without a thread the lease has expired, and the number is another's to take
            for mine, theirs in (pair, pair[::-1]):
                number = numbers[pair.index(theirs)]
                _until(lambda mine=mine, number=number: mine.alive(number), "a process that runs is taken for ended")
            assert [found.number for found in pair] == numbers
        finally:
            for found in pair:
                with contextlib.suppress(*EXPECTED):
                    found.stop()
            backend.close()


def tasks(url):
    """Tasks of a fleet: the thread that looks after them, and those that run them."""
    with _fleet(2) as (one, other):
        def done():
            with _client(one) as client:
                task = client.start_tool("job")
                with _client(other) as second:
                    return second.task(task.id).result(SECONDS).text == "done"

        _until(done, "a task does not end")
        time.sleep(1.2)  # a look at the tasks of other processes
        _until(done, "a task does not end")


def mount(url):
    """A mounted server that goes away and comes back."""
    def serve(port=0):
        return mcplite.serve(inner, port=port).start()

    inner, hub = mcplite.Server("inner"), mcplite.Server("hub")
    inner.add_tool(lambda: "hi", name="greet")
    running = _until(serve, "the mounted server does not begin")
    try:
        hub.mount(mcplite.connect(running.url, timeout=SECONDS, open_timeout=SECONDS), prefix="in")

        def greeted():
            with _client(hub) as client:
                end = time.monotonic() + SECONDS
                while time.monotonic() < end:
                    with contextlib.suppress(*EXPECTED):
                        return client.call_tool("in_greet").text == "hi"
                    time.sleep(0.05)
                return False

        with _entered(hub):
            for _ in range(2):
                _until(greeted, "the mounted server is not reached again")
                port = running.port
                with contextlib.suppress(MemoryError):
                    running.close()
                with contextlib.suppress(*EXPECTED), _client(hub) as client:
                    client.call_tool("in_greet")
                running = _until(lambda: serve(port), "the mounted server does not begin again")
            _until(greeted, "the mounted server is not reached again")
    finally:
        with contextlib.suppress(*EXPECTED):
            hub.close()
        with contextlib.suppress(MemoryError):
            running.close()


def on_subscribe(url):
    """The user's hook, which is called for each subscription."""
    server = mcplite.Server("hooked",
                            options=mcplite.ServerOptions(on_subscribe=lambda uri, number: Hooks.on_subscribe(uri, number)))
    server.add_resource(URI, lambda: "1", name="one")
    Hooks.subscribed.clear()

    def called():
        before = len(Hooks.subscribed)
        with _client(server) as client, client.listen(resources=[URI]):
            end = time.monotonic() + SECONDS
            while len(Hooks.subscribed) == before:
                if time.monotonic() > end:
                    return False
                time.sleep(0.01)
        return True

    with _entered(server):
        for _ in range(2):
            _until(called, "the hook is not called")
    with contextlib.suppress(*EXPECTED):
        server.close()


def watch(url):
    """A directory that is watched."""
    with tempfile.TemporaryDirectory() as folder:
        file, size = Path(folder, "a.txt"), 1
        file.write_text("a")
        server = mcplite.Server("watched")
        server.add_directory("file:///d", folder, watch=0.02)

        def told():
            nonlocal size
            with _client(server) as client:
                with client.listen(resources=["file:///d/a.txt"]) as events:
                    size += 1
                    file.write_text("a" * size)
                    return events.get(SECONDS)

        with _entered(server):
            watched = any(thread.name .startswith("mcplite look at ") for thread in threading.enumerate())
            for _ in range(2 if watched else 0):
                _until(told, "a change of a file is not told")
        with _entered(server):  # if the system had no thread for it, the next first client starts it
            _until(told, "a change of a file is not told")
        with contextlib.suppress(*EXPECTED):
            server.close()


LOOPS = [fleet, leases, tasks, mount, on_subscribe, watch]

"""The workloads with a shared backend, and under a WSGI host: what a backend costs, what a question takes, what workers serve.

The floor of the calls is the same server without a backend. Redis and PostgreSQL are measured where their programs are
installed; the tests start them in the same way.
"""

import concurrent.futures
import contextlib
import functools
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from .peers import ROOT, Driver, Failed, Peer, WebServer
from .slices import Figure, Measurement, take_turns
from .workloads import Counts, Peers, close, failed, warm_up

__all__ = ["SHARED_WORKLOADS"]

#: Workers of gunicorn.
FLEETS = (1, 2, 4)
#: Users of a site under a WSGI host.
USERS = (12, 50)
#: Seconds for the start of a fleet.
LIMIT = 60


def variables(url: str) -> Dict[str, str]:
    """Return the environment of a server that uses a backend."""
    return {"MCPLITE_BACKEND": url, "MCPLITE_STATE_KEYS": secrets.token_hex(16)}


@contextlib.contextmanager
def stores() -> Iterator[Dict[str, str]]:
    """Yield the URL of each store that can run here, by its kind."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"sqlite": f"sqlite:///{folder}/store.db"}
        try:
            import pytest

            from tests.support.stores import PostgresServer, RedisServer
        except ImportError:
            yield urls
            return
        for kind, library, create in (("redis", "redis", RedisServer), ("postgres", "psycopg", PostgresServer)):
            try:
                pytest.importorskip(library)
                server = create().start()
            except pytest.skip.Exception:
                continue
            stack.callback(server.close)
            urls[kind] = server.url
        yield urls


def calls(peers: Peers, counts: Counts) -> List[Measurement]:
    """Sequential calls of ``add`` with SQLite as the backend, beside those without one, in both eras."""
    rows = []
    for era, key, title in (("modern", "newest", "2026-07-28"), ("legacy", "handshake", "with a handshake")):
        row = Measurement(f"backend.add.{key}", f"HTTP, add, {title}: with a backend (floor: without)", "us")
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/store.db"
            drivers: Dict[str, Driver] = {}
            for name, environment in (("floor", {}), ("ours", variables(url))):
                web = WebServer(peers["ours"], "json", environment)
                stack.callback(web.close)
                drivers[name] = Driver(peers["ours"], web.url, era=era)
                stack.callback(close, drivers[name])
            warm_up(drivers, row, lambda driver: driver.ask("add", count=counts.warm_up))
            take_turns(row, counts.rounds, {name: (lambda driver=driver: statistics.median(
                driver.ask("add", count=counts.calls)) / 1000) for name, driver in drivers.items()}, failed)
            rows.append(row)
            if era == "legacy" and "ours" in row.figures:
                trip = round_trip(url)
                rows.append(Measurement("backend.trip", "one operation of that backend", "us", {"ours": Figure([trip])}))
                ours = row.figures["ours"]
                less = [ratio * (1 - trip / value) for ratio, value in zip(ours.ratios, ours.values)]
                rows.append(Measurement("backend.add.less", "the call with a handshake, less that operation, by the floor", "x",
                                        {"ours": Figure(less or [1.0])}))
    return rows


def round_trip(url: str) -> float:
    """Return the microseconds of reading a value through the seal, with a pause before each, as between requests."""
    from mcplite.backend.from_url import SealedBackend
    from mcplite.extend import open_backend

    backend = SealedBackend(open_backend(url), [b"a key that is long"])
    try:
        backend.put("trip/value", b"x" * 500, 60)
        times = []
        for _ in range(200):
            time.sleep(0.0002)
            begun = time.perf_counter()
            backend.get("trip/value")
            times.append(time.perf_counter() - begun)
        return statistics.median(times) * 1e6
    finally:
        backend.close()


def questions(peers: Peers, counts: Counts) -> List[Measurement]:
    """A tool that asks, on each backend and in both eras: the median time of a call with its question and the answer."""
    rows = []
    with stores() as urls:
        for kind, url in {"none": None, **urls}.items():
            for era, key, title in (("modern", "newest", "2026-07-28"), ("legacy", "handshake", "with a handshake")):
                row = Measurement(f"backend.ask.{kind}.{key}", f"HTTP, a tool that asks, {title}: backend {kind}", "us")
                rows.append(row)
                with contextlib.ExitStack() as stack:
                    try:
                        web = WebServer(peers["ours"], "json", {} if url is None else variables(url))
                        stack.callback(web.close)
                        driver = Driver(peers["ours"], web.url, era=era)
                        stack.callback(close, driver)
                        driver.ask("ask", count=counts.warm_up // 4 + 1)
                    except Failed as error:
                        row.failures["ours"] = str(error)
                        continue
                    take_turns(row, counts.rounds, {"ours": lambda driver=driver: statistics.median(
                        driver.ask("ask", count=counts.calls // 4 + 1)) / 1000}, failed)
    return rows


@contextlib.contextmanager
def gunicorn(workers: int, url: Optional[str], threads: int = 64, application: str = "ours_wsgi:application",
             pause: float = 0.05) -> "Iterator[Tuple[str, int]]":
    """Run workers of gunicorn; yields the URL of their endpoint, and the process id of their parent.

    :param url: of the backend; None for none.
    :param pause: seconds between two looks whether it listens.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = [str(ROOT), str(ROOT / "benchmarks" / "parts"), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "gunicorn", f"--bind=127.0.0.1:{port}", f"--workers={workers}",
         f"--threads={threads}",
         "--worker-class=gthread", "--keep-alive=60", "--graceful-timeout=1", "--log-level=error", application],
        env={**os.environ, **({} if url is None else variables(url)), "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise Failed("gunicorn did not start") from None
                time.sleep(pause)
        yield f"http://127.0.0.1:{port}/mcp", process.pid
    finally:
        process.terminate()
        process.wait(LIMIT)


def fleets(peers: Peers, counts: Counts) -> List[Measurement]:
    """Many clients of 2026-07-28 that call ``add`` of 1, 2 and 4 workers of gunicorn on SQLite: calls per second."""
    rows = []
    generator = Peer("load", "load", peers["floor"].python)
    with tempfile.TemporaryDirectory() as folder:
        for workers in FLEETS:
            row = Measurement(f"fleet.load.{workers}", f"HTTP, add, {counts.connections[2]} connections, gunicorn"
                              f" with {workers} worker{'s' * (workers > 1)} on SQLite", "calls/s")
            rows.append(row)
            with contextlib.ExitStack() as stack:
                try:
                    url, _ = stack.enter_context(gunicorn(workers, f"sqlite:///{folder}/{workers}.db"))
                    driver = Driver(generator, url)
                    stack.callback(close, driver)
                    driver.ask("warm_up", calls=counts.warm_up, stateless=True)
                except Failed as error:
                    row.failures["ours"] = str(error)
                    continue
                take_turns(row, counts.load_rounds, {"ours": lambda driver=driver: float(driver.ask(
                    "load", connections=counts.connections[2], seconds=counts.load_seconds, stateless=True)["rate"])}, failed)
    return rows


def sessions(peers: Peers, counts: Counts) -> List[Measurement]:
    """Many open sessions of a handshake revision: the bytes that each takes in the backend, keys and values."""
    import mcplite
    from mcplite.backend.memory import MemoryBackend

    class Sized(MemoryBackend):
        """Notes how much is stored under each key."""

        shared = True
        sizes: Dict[str, int] = {}

        def put(self, key: str, value: bytes, seconds: float) -> None:
            super().put(key, value, seconds)
            self.sizes[key] = len(key) + len(value)

        def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
            done = super().swap(key, old, new, seconds)
            if done:
                self.sizes[key] = 0 if new is None else len(key) + len(new)
            return done

    count = counts.sessions * 50
    backend = Sized()
    backend.sizes = {}
    mcp = mcplite.Server("sessions", backend=backend, state_keys=[secrets.token_hex(16)])
    row = Measurement("backend.sessions", f"{count:,} open sessions: bytes of each in the backend", "B")
    with mcplite.serve(mcp) as server:
        before = sum(backend.sizes.values())
        clients = [mcplite.connect(server.url,
                                   options=mcplite.ClientOptions(era="legacy", listen=False)).open() for _ in range(count)]
        row.figures["ours"] = Figure([(sum(backend.sizes.values()) - before) / count])
        for client in clients:
            client.close()
    return [row]


def frameworks(peers: Peers, counts: Counts) -> List[Measurement]:
    """Users of a site under ``gunicorn --threads 4``, all with an open GET stream; the floor are as many without one."""
    import mcplite

    rows = []
    for users in USERS:
        begin = Measurement(f"frameworks.users.{users}", f"gunicorn with 4 threads: until {users} users who listen have"
                            " connected and called add", "ms")
        one = Measurement(f"frameworks.call.{users}", f"a call of add while {users} users listen", "us")
        rows += [begin, one]

        def serve(listen: bool, url: str, one: Measurement, users: int = users) -> float:
            clients = [mcplite.connect(url, options=mcplite.ClientOptions(era="legacy", listen=listen),
                                       timeout=LIMIT) for _ in range(users)]

            def use(client: "mcplite.Client") -> None:
                client.open().call_tool("add", {"a": 1, "b": 2})

            try:
                begun = time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(users) as pool:
                    list(pool.map(use, clients))
                taken = time.perf_counter() - begun
                calls = []
                for number in range(counts.calls):
                    begun = time.perf_counter()
                    clients[number % users].call_tool("add", {"a": number, "b": 2})
                    calls.append(time.perf_counter() - begun)
                one.figures.setdefault("ours" if listen else "floor", Figure()).values.append(statistics.median(calls) * 1e6)
            except mcplite.MCPError as error:
                raise Failed(str(error)) from error
            finally:
                with concurrent.futures.ThreadPoolExecutor(users) as pool:
                    list(pool.map(lambda client: client.close(), clients))
            return taken * 1000

        with gunicorn(1, None, threads=4) as (url, _):
            take_turns(begin, counts.load_rounds, {
                "floor": functools.partial(serve, False, url, one), "ours": functools.partial(serve, True, url, one)}, failed)
        one.failures.update(begin.failures)
        if not one.failures:
            ours, floor = one.figures["ours"], one.figures["floor"]
            ours.ratios.extend(value / beside for value, beside in zip(ours.values, floor.values))
    return rows


#: By the name for ``--only``.
SHARED_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {
    "backend-add": calls, "backend-ask": questions, "backend-sessions": sessions, "fleet-load": fleets,
    "frameworks": frameworks,
}

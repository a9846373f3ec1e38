"""The workloads over HTTP.

The floor's server is a socket with a thread for each connection. Its client is ``http.client`` where a client is
measured beside it, and a bare socket where it shall cost nothing ("bare"). "tuned" is ``http.server`` with one
write for each answer and no Nagle. Servers that have to choose answer in JSON, but where there is progress.
"""

import contextlib
import functools
import statistics
import time
from dataclasses import replace
from typing import Callable, Dict, Iterator, List, Mapping, Optional

from .peers import Driver, Failed, Peer, WebServer
from .slices import Figure, Measurement, take_turns
from .workloads import (
    CLIENTS,
    OWN,
    SERVERS,
    Counts,
    Peers,
    close,
    failed,
    growth,
    one_processor,
    peak_memory,
    sequential_calls,
    warm_up,
)

__all__ = ["WEB_WORKLOADS"]

OWN = {**OWN, "fastmcp": ("fastmcp", "fastmcp")}
CLIENTS = {**CLIENTS, "fastmcp": ("fastmcp", "floor")}
SERVERS = {**SERVERS, "tuned": ("floor", "tuned"), "fastmcp": ("floor", "fastmcp")}
#: Names of the four numbers of connections.
SIZES = ("one", "few", "some", "many")


@contextlib.contextmanager
def web_pairs(peers: Peers, wanted: "Mapping[str, tuple[str, str]]", measurement: Measurement, mode: str = "json",
              client: str = "http.client", era: str = "legacy") -> Iterator[Dict[str, Driver]]:
    """Open a server and a driver for each name in *wanted*; a pair that fails is noted and left out."""
    with contextlib.ExitStack() as stack:
        opened: Dict[str, Driver] = {}
        for name, (driver, server) in wanted.items():
            if driver not in peers or server not in peers:
                continue
            try:
                web = WebServer(peers[server], mode)
                stack.callback(web.close)
                options = {"client": client} if driver == "floor" else {}
                opened[name] = Driver(peers[driver], web.url, era=era, **options)
            except Failed as error:
                measurement.failures[name] = str(error)
            else:
                stack.callback(close, opened[name])
        yield opened


@contextlib.contextmanager
def loads(peers: Peers, counts: Counts, measurement: Measurement) -> "Iterator[Dict[str, tuple[Driver, WebServer]]]":
    """Open every server, and for each a driver with many clients."""
    load = Peer("load", "load", peers["floor"].python)
    with contextlib.ExitStack() as stack:
        opened = {}
        for name, peer in peers.items():
            try:
                web = WebServer(peer, "json")
                stack.callback(web.close)
                driver = Driver(load, web.url)
                stack.callback(close, driver)
                driver.ask("warm_up", calls=counts.warm_up)
            except Failed as error:
                measurement.failures[name] = str(error)
            else:
                opened[name] = (driver, web)
        yield opened


def add(peers: Peers, counts: Counts, era: str = "legacy") -> List[Measurement]:
    """Sequential calls of ``add``, with a handshake ("legacy") or without ("modern")."""
    rows = []
    prefix, words = ("http", "") if era == "legacy" else ("http.newest", " without a handshake")
    if era == "modern":
        # Its driver speaks the handshake's revisions only.
        peers = {name: peer for name, peer in peers.items() if name != "fastmcp"}
    for key, title, wanted, client, sides in (
            ("own", "own client and server", OWN, "http.client", ("usage", "server_usage")),
            ("server", "server, with http.client", SERVERS, "http.client", ("server_usage",)),
            ("bare", "server, with a bare socket", SERVERS, "socket", ("server_usage",)),
            ("client", "client, with the floor's server", CLIENTS, "http.client", ("usage",))):
        row = Measurement(f"{prefix}.{key}", f"HTTP, add{words}: {title}", "us")
        with one_processor(), web_pairs(peers, wanted, row, client=client, era=era) as drivers:
            rows += [row, sequential_calls(row, drivers, counts, sides)]
    return rows


def events(peers: Peers, counts: Counts) -> List[Measurement]:
    """Responses as event streams: a short one, and one with much progress."""
    short = Measurement("http.events", "HTTP, one progress notification and a result: server, with http.client", "us")
    with web_pairs(peers, SERVERS, short, "events") as drivers:
        warm_up(drivers, short, lambda driver: driver.ask("stream", size=10))
        calls = max(1, counts.calls // 5)
        steps = {name: (lambda driver=driver: statistics.median(
            driver.ask("stream", size=10) for _ in range(calls)) / 1000) for name, driver in drivers.items()}
        take_turns(short, counts.rounds, steps, failed)
    row = Measurement("http.progress", f"HTTP, a call with {counts.notifications:,} progress notifications", "ms")
    with web_pairs(peers, OWN, row, "events") as drivers:
        steps = {name: (lambda driver=driver: driver.ask("progress", count=counts.notifications) / 1e6)
                 for name, driver in drivers.items()}
        take_turns(row, counts.progress_rounds, steps, failed)
    return [short, row]


def load(peers: Peers, counts: Counts) -> List[Measurement]:
    """Many clients that all call ``add``: calls per second; a wrong answer is a failure."""
    rows: List[Measurement] = []
    opening = Measurement("", "", "")
    with loads(peers, counts, opening) as drivers:
        for size, connections in zip(SIZES, counts.connections):
            row = Measurement(f"http.load.{size}", f"HTTP, add, {connections} connection{'s' * (connections > 1)}",
                              "calls/s", failures=dict(opening.failures))
            late = Measurement(f"http.late.{size}", "99 of 100 take at most", "ms")
            cost = Measurement(f"http.cost.{size}", "the server's CPU time for a call", "us")

            def step(name: str, driver: Driver, web: WebServer) -> float:
                before = cpu(web.pid)
                answer = driver.ask("load", connections=connections, seconds=counts.load_seconds)
                late.figures.setdefault(name, Figure()).values.append(answer["p99"] / 1e6)
                after = cpu(web.pid)
                if before is not None and after is not None:
                    cost.figures.setdefault(name, Figure()).values.append((after - before) * 1e6 / answer["calls"])
                return float(answer["rate"])

            steps = {name: (lambda name=name, pair=pair: step(name, *pair)) for name, pair in drivers.items()}
            take_turns(row, counts.load_rounds, steps, failed)
            rows += [row, late, cost]
    return rows


def sleepers(peers: Peers, counts: Counts) -> List[Measurement]:
    """Tools that block: all connections at once, and one beside a quick call."""
    seconds = 0.05
    share = Measurement("http.sleep", f"HTTP, a {seconds * 1000:.0f} ms tool, {counts.sleepers} connections: share of the"
                                      " ceiling", "%")
    beside = Measurement("http.beside", f"HTTP, add beside a {counts.sleep * 1000:.0f} ms tool, by add alone", "x")
    with loads(peers, counts, share) as drivers:

        def part(driver: Driver) -> float:
            answer = driver.ask("load", connections=counts.sleepers, seconds=20 * seconds, sleep=seconds)
            return float(100 * answer["rate"] / (counts.sleepers / seconds))

        def slower(driver: Driver) -> float:
            answer = driver.ask("beside", seconds=counts.sleep, calls=counts.calls)
            return float(answer["beside"] / answer["quiet"])

        for row, rounds, value in ((share, counts.load_rounds, part), (beside, counts.quick_calls, slower)):
            take_turns(row, rounds, {name: (lambda driver=driver, value=value: value(driver))
                                     for name, (driver, _) in drivers.items()}, failed)
            for figure in row.figures.values():
                figure.ratios.clear()  # both are ratios already
    return [share, beside]


def payloads(peers: Peers, counts: Counts) -> List[Measurement]:
    """Big texts, as result, as result behind progress, and as argument, and the memory that they cost."""
    rows = []
    small = counts.megabytes[0]
    for mode, what, title in (("json", "text", "result"), ("json", "argument", "argument"),
                              ("events", "stream", "result as event")):
        opening = Measurement("", "", "")
        with web_pairs(peers, OWN, opening, mode) as drivers:
            for size in counts.megabytes:
                row = Measurement(f"http.{what}.{'small' if size == small else 'large'}", f"HTTP, {title} of {size} MB",
                                  "ms", failures=dict(opening.failures))
                usable = dict(drivers)
                warm_up(usable, row, lambda driver: driver.ask(what, size=size * 1_000_000))
                steps = {name: (lambda driver=driver: driver.ask(what, size=size * 1_000_000) / 1e6)
                         for name, driver in usable.items()}
                take_turns(row, counts.payload_rounds, steps, failed)
                rows.append(row)
            rows.append(growth(f"http.growth.{what}", f"HTTP, {title}", counts, *rows[-2:]))
            rows += peak_memory(f"http.memory.{what}", "HTTP, ", drivers)
    return rows


def sessions(peers: Peers, counts: Counts) -> List[Measurement]:
    """Many sessions that do nothing, each with an open stream."""
    count = counts.sessions
    rows = [Measurement("http.sessions.memory", f"HTTP, {count} sessions, each with a stream: resident memory", "MiB"),
            Measurement("http.sessions.each", "resident memory for each", "KiB"),
            Measurement("http.sessions.threads", "threads", ""),
            Measurement("http.sessions.idle", "CPU time when nothing happens", "%")]
    memory, each, threads, idle = rows
    with loads(peers, counts, memory) as drivers:
        for name, (driver, web) in drivers.items():
            try:
                driver.ask("sessions", count=1)
                before = status(web.pid, "VmRSS")
                driver.ask("sessions", count=count)
                after, used = status(web.pid, "VmRSS"), status(web.pid, "Threads")
                busy = cpu(web.pid)
                time.sleep(counts.idle_seconds)
                spent = None if busy is None else (cpu(web.pid) or 0) - busy
                left = driver.ask("still_there")
                if left != count:
                    raise Failed(f"of {count} streams {left} were left after {counts.idle_seconds:g} s")
            except Failed as error:
                memory.failures[name] = str(error)
                continue
            if before is not None and after is not None and used is not None:
                memory.figures[name] = Figure([after / 1024])
                each.figures[name] = Figure([(after - before) / (count - 1)])
                threads.figures[name] = Figure([used])
            if spent is not None:
                idle.figures[name] = Figure([100 * spent / counts.idle_seconds])
    return rows


def changes(peers: Peers, counts: Counts) -> List[Measurement]:
    """A change that many clients follow, each on a stream."""
    count = counts.followers
    rows = [Measurement("http.changes", f"HTTP, resource_updated to {count:,} streams: the server's CPU time", "ms"),
            Measurement("http.changes.blocked", "the caller waits", "ms")]
    spent, blocked = rows
    with contextlib.ExitStack() as stack:

        def step(name: str, driver: Driver, pid: int) -> float:
            before = cpu(pid) or 0.0
            blocked.figures.setdefault(name, Figure()).values.append(driver.ask("change"))
            return ((cpu(pid) or 0.0) - before) * 1000

        steps: Dict[str, Callable[[], float]] = {}
        for name, peer in peers.items():
            if name not in ("floor", "ours", "before"):
                continue
            try:
                web = WebServer(replace(peer, prefix=f"{peer.prefix}_changing"), "json")
                stack.callback(web.close)
                driver = Driver(Peer("load", "load", peers["floor"].python), web.url)
                stack.callback(close, driver)
                driver.ask("follow", count=count)
                driver.ask("change")
            except Failed as error:
                spent.failures[name] = str(error)
            else:
                steps[name] = functools.partial(step, name, driver, web.pid)
        take_turns(spent, counts.rounds, steps, failed)
    return rows


def status(pid: int, name: str) -> Optional[int]:
    """Return a figure of the system about a process; None if it is not available."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), None)
    except OSError:
        return None


def cpu(pid: int) -> Optional[float]:
    """Return the CPU seconds of a process, its ended threads included; None if they are not available."""
    try:
        # The number of the process's clock, as clock_getcpuclockid() of Linux makes it.
        return time.clock_gettime(~pid << 3 | 2)
    except (AttributeError, OSError):
        return None


#: By the name for ``--only``.
WEB_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {
    "http-add": add, "http-newest": functools.partial(add, era="modern"), "http-events": events, "http-load": load,
    "http-sleep": sleepers, "http-payload": payloads, "http-sessions": sessions,
    "http-changes": changes,
}

"""The workloads over stdio, and how often each is repeated."""

import contextlib
import functools
import os
import statistics
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Mapping

from .peers import Driver, Failed, Peer, run
from .slices import Figure, Measurement, take_turns

__all__ = [
    "CLIENTS", "Counts", "FULL", "OWN", "Peers", "QUICK", "SERVERS", "STDIO_WORKLOADS", "close", "failed", "sequential_calls",
    "warm_up",
]

Peers = Mapping[str, Peer]


@dataclass(frozen=True)
class Counts:
    """Numbers of repetitions."""

    starts: int
    rounds: int
    calls: int
    warm_up: int
    quick_calls: int
    sleep: float
    burst_rounds: int
    bursts: "tuple[int, int, float, float]"
    payload_rounds: int
    megabytes: "tuple[int, ...]"
    progress_rounds: int
    notifications: int
    tools: int
    list_rounds: int
    connections: "tuple[int, int, int, int]"
    load_rounds: int
    load_seconds: float
    sleepers: int
    sessions: int
    followers: int
    idle_seconds: float


FULL = Counts(starts=7, rounds=10, calls=200, warm_up=200, quick_calls=5, sleep=0.3, burst_rounds=5,
              bursts=(64, 300, 0.01, 0.05), payload_rounds=4,
              megabytes=(1, 10), progress_rounds=3, notifications=10_000, tools=1000, list_rounds=6,
              connections=(1, 8, 32, 128), load_rounds=3, load_seconds=1.0, sleepers=128, sessions=200, followers=1000,
              idle_seconds=3.0)
#: The tools that each server has besides the many; all of them fit on one page.
_OWN_TOOLS = 7
#: For a test that everything works; the figures mean nothing.
QUICK = Counts(starts=1, rounds=1, calls=10, warm_up=5, quick_calls=1, sleep=0.05, burst_rounds=1,
               bursts=(4, 8, 0.005, 0.01), payload_rounds=1,
               megabytes=(1, 2), progress_rounds=1, notifications=100, tools=20, list_rounds=1, connections=(1, 2, 3, 4),
               load_rounds=1, load_seconds=0.1, sleepers=4, sessions=5, followers=5, idle_seconds=0.1)


def failed(error: Exception) -> bool:
    return isinstance(error, Failed)


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    """Let the programs that are started in the block share one processor, where the system can do that.

    One that sometimes moves to another processor, as the system likes, answers in half of the time or in twice of it.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    try:
        if allowed:
            os.sched_setaffinity(0, {max(allowed)})
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def pairs(peers: Peers, wanted: Mapping[str, "tuple[str, str]"], measurement: Measurement,
          *server_arguments: str, era: str = "legacy") -> Iterator[Dict[str, Driver]]:
    """Open a driver and a server for each name in *wanted*; a pair that fails is noted and left out."""
    with contextlib.ExitStack() as stack:
        opened: Dict[str, Driver] = {}
        for name, (driver, server) in wanted.items():
            if driver not in peers or server not in peers:
                continue
            try:
                opened[name] = Driver(peers[driver], peers[server].server(*server_arguments), era=era)
            except Failed as error:
                measurement.failures[name] = str(error)
            else:
                stack.callback(close, opened[name])
        yield opened


def close(driver: Driver) -> None:
    try:
        driver.close()
    except Failed as error:
        print(f"at the end: {error}")


def warm_up(drivers: Dict[str, Driver], measurement: Measurement, step: Callable[[Driver], object]) -> None:
    """Run a step on each driver without measuring it; a driver that fails is noted and left out."""
    for name, driver in list(drivers.items()):
        try:
            step(driver)
        except Failed as error:
            measurement.failures[name] = str(error)
            del drivers[name]


#: The driver and the server of each pair.
OWN = {name: (name, name) for name in ("floor", "floor2", "ours", "before", "mcp")}
SERVERS = {name: ("floor", name) for name in OWN}
CLIENTS = {name: (name, "floor") for name in OWN}


def seconds(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def imports(peers: Peers, counts: Counts) -> List[Measurement]:
    """A process that imports and ends, and its memory."""
    peak = "\nfor line in open('/proc/self/status'):\n    if line.startswith('VmHWM'): print(line.split()[1])"
    statements = {
        "package": ("import, the package", {"ours": "import mcplite", "before": "import mcplite", "mcp": "import mcp"}),
        "server": ("import, what a server needs", {key: peer.server_import for key, peer in peers.items()}),
        "client": ("import, what a client needs", {key: peer.client_import for key, peer in peers.items()}),
    }
    rows = []
    for key, (title, imported) in statements.items():
        imported = {"floor": "pass", **{name: text for name, text in imported.items() if name in peers}}
        times = Measurement(f"import.{key}", title, "ms")
        steps = {name: (lambda peer=peers[name], text=text: 1000 * seconds(
            lambda: run([peer.python, "-c", text], peer.root)))
                 for name, text in imported.items()}
        for step in steps.values():
            with contextlib.suppress(Failed):
                step()  # bytecode gets written, files get into memory
        take_turns(times, counts.starts, steps, failed)
        memory = Measurement(f"memory.{key}", f"{title}: resident memory", "MiB")
        for name, text in imported.items():
            with contextlib.suppress(Failed):  # no /proc
                memory.figures[name] = Figure([
                    int(run([peers[name].python, "-c", text + peak], peers[name].root)) / 1024])
        rows += [times, memory]
    return rows


def cold_start(peers: Peers, counts: Counts) -> List[Measurement]:
    """From starting a server to its first list; a client program that opens, lists and ends."""
    server = Measurement("cold.server", "cold start: server, to the first tools/list", "ms")
    memory = Measurement("memory.started", "its resident memory then", "MiB")
    client = Measurement("cold.client", "cold start: client, its whole program", "ms")

    def open_server(name: str) -> float:
        driver = Driver(peers["floor"], peers[name].server())
        try:
            taken = driver.opened_in
            rss = driver.ask("server_usage")["rss"]
        finally:
            close(driver)
        if rss is not None:
            memory.figures.setdefault(name, Figure()).values.append(rss / 1048576)
        return 1000 * taken

    def run_client(name: str) -> float:
        return 1000 * seconds(lambda: run(peers[name].driver(*peers["floor"].server())))

    take_turns(server, counts.starts, {name: (lambda name=name: open_server(name)) for name in peers}, failed)
    take_turns(client, counts.starts, {name: (lambda name=name: run_client(name)) for name in peers}, failed)
    return [server, memory, client]


def sequential_calls(row: Measurement, drivers: Dict[str, Driver], counts: Counts, sides: "tuple[str, ...]") -> Measurement:
    """Fill *row* with the median time of one ``add`` after another, and return the row of their CPU time.

    :param sides: the commands that tell the CPU time: "usage" of the client, "server_usage" of the server.
    """
    cost = Measurement(f"{row.key}.cpu", "  its CPU time for a call", "us")

    def spent(driver: Driver) -> float:
        return float(sum(driver.ask(side)["cpu"] for side in sides))

    def step(name: str, driver: Driver) -> float:
        before = spent(driver)
        taken = statistics.median(driver.ask("add", count=counts.calls)) / 1000
        cost.figures.setdefault(name, Figure()).values.append((spent(driver) - before) * 1e6 / counts.calls)
        return taken

    warm_up(drivers, row, lambda driver: driver.ask("add", count=counts.warm_up))
    take_turns(row, counts.rounds, {name: (lambda name=name, driver=driver: step(name, driver))
                                    for name, driver in drivers.items()}, failed)
    floor = cost.figures.get("floor")
    for name, figure in cost.figures.items():
        if floor is not None and name != "floor" and floor.value:
            figure.ratios = [value / floor.value for value in figure.values]
    return cost


def add(peers: Peers, counts: Counts, era: str = "legacy") -> List[Measurement]:
    """Sequential calls of ``add``, with a handshake ("legacy") or without ("modern")."""
    rows = []
    prefix, words = ("add", "") if era == "legacy" else ("newest", " without a handshake")
    for key, title, wanted, sides in (
            ("own", "own client and server", OWN, ("usage", "server_usage")),
            ("server", "server, with the floor's client", SERVERS, ("server_usage",)),
            ("client", "client, with the floor's server", CLIENTS, ("usage",))):
        row = Measurement(f"{prefix}.{key}", f"add{words}: {title}", "us")
        with one_processor(), pairs(peers, wanted, row, era=era) as drivers:
            rows += [row, sequential_calls(row, drivers, counts, sides)]
            if key == "server" and era == "legacy":
                switches = Measurement("switches.server", "its voluntary context switches for a call", "")
                for name in row.figures:
                    driver = drivers[name]
                    used = [driver.ask("server_usage")["switches"]]
                    driver.ask("add", count=counts.calls)
                    used.append(driver.ask("server_usage")["switches"])
                    if None not in used:
                        switches.figures[name] = Figure([(used[1] - used[0]) / (counts.calls + 1)])
                rows.append(switches)
    return rows


def quick_call(peers: Peers, counts: Counts) -> List[Measurement]:
    """An ``add`` that is sent while another call sleeps."""
    row = Measurement("quick.own", f"add, 20 ms after a call that takes {counts.sleep * 1000:.0f} ms", "ms")
    with pairs(peers, OWN, row) as drivers:
        warm_up(drivers, row, lambda driver: driver.ask("add", count=counts.warm_up))
        steps = {name: (lambda driver=driver: driver.ask("quick", seconds=counts.sleep) / 1e6)
                 for name, driver in drivers.items()}
        take_turns(row, counts.quick_calls, steps, failed)
    return [row]


def bursts(peers: Peers, counts: Counts) -> List[Measurement]:
    """Calls that are sent at once on one pipe, each of which sleeps; not to the floor, which runs one after another."""
    few, many, short, long = counts.bursts
    rows = []
    for key, count, sleep in (("few.short", few, short), ("many.short", many, short), ("few.long", few, long),
                              ("many.long", many, long)):
        row = Measurement(f"burst.{key}", f"{count} calls at once that take {sleep * 1000:.0f} ms: server alone", "ms")
        with pairs(peers, {name: pair for name, pair in SERVERS.items() if name != "floor"}, row) as drivers:
            warm_up(drivers, row, lambda driver: driver.ask("add", count=counts.warm_up))
            steps = {name: (lambda driver=driver: driver.ask("burst", count=count, seconds=sleep) / 1e6)
                     for name, driver in drivers.items()}
            take_turns(row, counts.burst_rounds, steps, failed)
        rows.append(row)
    return rows


def payloads(peers: Peers, counts: Counts) -> List[Measurement]:
    """Big texts, as result and as argument, and the memory that they cost."""
    rows = []
    with_memory = Measurement("", "", "")
    small = counts.megabytes[0]
    with pairs(peers, OWN, with_memory) as drivers:
        for what, title in (("text", "result"), ("argument", "argument")):
            for size in counts.megabytes:
                row = Measurement(f"{what}.{'small' if size == small else 'large'}", f"{title} of {size} MB", "ms",
                                  failures=dict(with_memory.failures))
                warm_up(drivers, row, lambda driver: driver.ask(what, size=size * 1_000_000))
                steps = {name: (lambda driver=driver: driver.ask(what, size=size * 1_000_000) / 1e6)
                         for name, driver in drivers.items()}
                take_turns(row, counts.payload_rounds, steps, failed)
                rows.append(row)
            rows.append(growth(f"growth.{what}", title, counts, *rows[-2:]))
        rows += peak_memory("memory.large", "", drivers)
    return rows


def growth(key: str, title: str, counts: Counts, small: Measurement, large: Measurement) -> Measurement:
    """Return the row that compares the time for each byte of two sizes."""
    sizes = counts.megabytes
    row = Measurement(key, f"{title}: time per byte, {sizes[1]} MB by {sizes[0]} MB", "x")
    for name, figure in large.figures.items():
        if name in small.figures:
            row.figures[name] = Figure([figure.value / small.figures[name].value / (sizes[1] / sizes[0])])
    return row


def peak_memory(key: str, prefix: str, drivers: Mapping[str, Driver]) -> List[Measurement]:
    """Return the rows with the peak memory of servers and clients."""
    rows = []
    for side, command in (("server", "server_usage"), ("client", "usage")):
        row = Measurement(f"{key}.{side}", f"{prefix}peak memory of the {side} after all that", "MiB")
        for name, driver in drivers.items():
            with contextlib.suppress(Failed):  # it failed before, and said so
                rss = driver.ask(command)["rss"]
                if rss is not None:
                    row.figures[name] = Figure([rss / 1048576])
        rows.append(row)
    return rows


def progress(peers: Peers, counts: Counts) -> List[Measurement]:
    """A call that reports progress; the drivers check that all of it arrived in order before the result."""
    row = Measurement("progress.own", f"a call with {counts.notifications:,} progress notifications", "ms")
    with pairs(peers, OWN, row) as drivers:
        steps = {name: (lambda driver=driver: driver.ask("progress", count=counts.notifications) / 1e6)
                 for name, driver in drivers.items()}
        take_turns(row, counts.progress_rounds, steps, failed)
    return [row]


def many_tools(peers: Peers, counts: Counts) -> List[Measurement]:
    """Registering many tools, and listing them."""
    register = Measurement("register", f"registering {counts.tools:,} tools", "ms")
    steps = {name: (lambda peer=peer: int(run(peer.server("register", str(counts.tools)))) / 1e6)
             for name, peer in peers.items() if name != "floor"}
    take_turns(register, counts.list_rounds, steps, failed)
    cold = Measurement("cold.tools", f"cold start with {counts.tools:,} tools: server, to the first tools/list", "ms")

    def open_server(name: str) -> float:
        driver = Driver(peers["floor"], peers[name].server(str(counts.tools - _OWN_TOOLS)))
        close(driver)
        return 1000 * driver.opened_in

    take_turns(cold, counts.starts, {name: (lambda name=name: open_server(name)) for name in peers}, failed)
    rows = [register, cold]
    for key, title, wanted in (("server", "server, with the floor's client", SERVERS), ("own", "own client and server", OWN)):
        row = Measurement(f"list.{key}", f"listing {counts.tools:,} tools: {title}", "ms")

        def listing(driver: Driver) -> float:
            answer = driver.ask("list")
            if answer["count"] != counts.tools:
                raise Failed(f"{driver.name} listed {answer['count']} tools")
            return float(answer["taken"]) / 1e6

        with pairs(peers, wanted, row, str(counts.tools - _OWN_TOOLS)) as drivers:
            warm_up(drivers, row, listing)
            steps = {name: (lambda driver=driver: listing(driver)) for name, driver in drivers.items()}
            take_turns(row, counts.list_rounds, steps, failed)
        rows.append(row)
    return rows


#: By the name for ``--only``.
STDIO_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {
    "import": imports, "cold": cold_start, "add": add, "newest": functools.partial(add, era="modern"), "quick": quick_call,
    "bursts": bursts, "payload": payloads, "progress": progress, "tools": many_tools,
}

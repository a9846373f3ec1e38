"""The workloads over HTTP without a handshake (2026-07-28): the cost of a request without a session.

The floor of these is mcplite itself with a handshake (2025-11-25), the same call on the same server: the newest
revision must not be slower than the one before it.
"""

import contextlib
import statistics
from typing import Callable, Dict, Iterator, List

from .peers import Driver, Failed, Peer, WebServer
from .slices import Figure, Measurement, take_turns
from .web import SIZES
from .workloads import Counts, Peers, close, failed, warm_up

__all__ = ["STATELESS_WORKLOADS"]

FLOOR = "(floor: mcplite, with one)"


@contextlib.contextmanager
def pairs(peers: Peers, row: Measurement) -> Iterator[Dict[str, Driver]]:
    """Open our server with a driver of each era; an older commit's and the official SDK's with one of their own."""
    with contextlib.ExitStack() as stack:
        drivers: Dict[str, Driver] = {}

        def add(name: str, peer: Peer, web: WebServer, era: str) -> None:
            drivers[name] = Driver(peer, web.url, era=era)
            stack.callback(close, drivers[name])

        ours = WebServer(peers["ours"], "json")
        stack.callback(ours.close)
        add("floor", peers["ours"], ours, "legacy")
        add("ours", peers["ours"], ours, "modern")
        for name in ("before", "mcp"):
            if name not in peers:
                continue
            try:
                theirs = WebServer(peers[name], "json")
                stack.callback(theirs.close)
                add(name, peers[name], theirs, "modern")
            except Failed as error:
                row.failures[name] = str(error)
        yield drivers


def add(peers: Peers, counts: Counts) -> List[Measurement]:
    """Sequential calls of ``add``: the median time of a call."""
    row = Measurement("stateless.own", f"HTTP, add without a handshake: own client and server {FLOOR}", "us")
    with pairs(peers, row) as drivers:
        warm_up(drivers, row, lambda driver: driver.ask("add", count=counts.warm_up))
        take_turns(row, counts.rounds, {name: (lambda driver=driver: statistics.median(
            driver.ask("add", count=counts.calls)) / 1000) for name, driver in drivers.items()}, failed)
    return [row]


def questions(peers: Peers, counts: Counts) -> List[Measurement]:
    """A tool that asks the user in the middle: the median time of a call with its question and the answer."""
    row = Measurement("stateless.ask", f"HTTP, a tool that asks, without a handshake {FLOOR}", "us")
    # The official SDK's handlers cannot ask in the middle in this revision.
    with pairs({name: peer for name, peer in peers.items() if name != "mcp"}, row) as drivers:
        warm_up(drivers, row, lambda driver: driver.ask("ask", count=counts.warm_up // 4 + 1))
        take_turns(row, counts.rounds, {name: (lambda driver=driver: statistics.median(
            driver.ask("ask", count=counts.calls // 4 + 1)) / 1000) for name, driver in drivers.items()}, failed)
    return [row]


def load(peers: Peers, counts: Counts) -> List[Measurement]:
    """Many clients that all call ``add``: calls per second; a wrong answer is a failure."""
    rows: List[Measurement] = []
    generator = Peer("load", "load", peers["floor"].python)
    with contextlib.ExitStack() as stack:
        drivers: Dict[str, "tuple[Driver, bool]"] = {}
        failures: Dict[str, str] = {}
        for name in ("ours", "before", "mcp"):
            if name not in peers:
                continue
            try:
                web = WebServer(peers[name], "json")
                stack.callback(web.close)
                driver = Driver(generator, web.url)
                stack.callback(close, driver)
                driver.ask("warm_up", calls=counts.warm_up, stateless=True)
            except Failed as error:
                failures[name] = str(error)
                continue
            if name == "ours":
                drivers["floor"] = driver, False
            drivers[name] = driver, True
        for size, connections in zip(SIZES, counts.connections):
            row = Measurement(f"stateless.load.{size}", f"HTTP, add without a handshake, {connections}"
                              f" connection{'s' * (connections > 1)} {FLOOR}", "calls/s", failures=dict(failures))
            late = Measurement(f"stateless.late.{size}", "99 of 100 take at most", "ms")

            def step(name: str, driver: Driver, stateless: bool) -> float:
                answer = driver.ask("load", connections=connections, seconds=counts.load_seconds, stateless=stateless)
                late.figures.setdefault(name, Figure()).values.append(answer["p99"] / 1e6)
                return float(answer["rate"])

            take_turns(row, counts.load_rounds, {name: (lambda name=name, pair=pair: step(name, *pair))
                                                 for name, pair in drivers.items()}, failed)
            rows += [row, late]
    return rows


#: By the name for ``--only``.
STATELESS_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {
    "stateless-add": add, "stateless-ask": questions, "stateless-load": load,
}

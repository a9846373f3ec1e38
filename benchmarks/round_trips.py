"""Counts what requests cost a shared backend: the table of docs/deploying.rst.

    python -m benchmarks.round_trips            print the table
    python -m benchmarks.round_trips --write    write it into the page

Two workers serve one name over one store in memory, each through a :class:`CountedBackend` of its own. An operation of the
interface is one round trip of Redis, and one statement of PostgreSQL.
"""

import argparse
import collections
import contextlib
import itertools
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Counter, Dict, List, Mapping, NamedTuple, Optional, Set

import requests

import mcplite
from mcplite.backend.interface import Backend, Entry
from mcplite.backend.memory import MemoryBackend

from .capacity import Costs, capacity_table

__all__ = ["CountedBackend", "RoundTrips", "costs_of", "count_round_trips", "page", "table"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "deploying.rst"
MARKS = ".. round trips\n\n", ".. end of the round trips\n"
CAPACITY_MARKS = ".. capacity\n\n", ".. end of the capacity\n"
#: What the table calls things that the arithmetic uses.
CALL, STREAM = "a call, a list, a resource", "an answer that is a stream, besides"
MESSAGE, QUESTION = "each message of its progress, besides", "each question of it, with the answer"
TELLS, HEARS = "a change, for the process that tells it", "a change, for each worker"
KEY, URI = "a key that both workers have", "shop://stock"
#: Each figure is the median of some attempts, since a late operation of one thing may be counted for the next.
ATTEMPTS = 5
#: Progress messages of the call that reports some.
MESSAGES = 10
#: Seconds for what another thread does, on a busy machine.
LIMIT = 60
#: The threads of a worker that use the backend for itself, and for what other processes have told it.
LEASE, READER = "mcplite renewal of the lease", "mcplite reader of messages"


class CountedBackend(Backend):
    """The backend of one worker, which counts its operations.

    :param inner: is used by all workers.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        #: Guards ``_counts``; held for an addition.
        self._lock = threading.Lock()
        self._counts: Counter[str] = collections.Counter()

    def operations(self, read: bool = False) -> int:
        """Return how many there were, for requests; or to read what other processes have told.

        The renewals of the lease are left out.
        """
        with self._lock:
            return sum(count for thread, count in self._counts.items() if thread != LEASE and (thread == READER) == read)

    def _counted(self) -> Backend:
        with self._lock:
            self._counts[threading.current_thread().name] += 1
        return self._inner

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._counted().put(key, value, seconds)

    def get(self, key: str) -> Optional[bytes]:
        return self._counted().get(key)

    def take(self, key: str) -> Optional[bytes]:
        return self._counted().take(key)

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        return self._counted().swap(key, old, new, seconds)

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        return self._counted().append(log, value, seconds, keep)

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        return self._counted().since(log, number)

    def last(self, log: str) -> int:
        return self._counted().last(log)

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        return self._inner.wait(logs, timeout)  # the store reports what is new; no worker asks for it

    def close(self) -> None:
        """The store is closed by its owner."""


class RoundTrips(NamedTuple):
    """What one thing costs the backend, in operations; None where a fleet does not have it."""

    what: str
    modern: Optional[int]
    handshake: Optional[int]


def _create_server(backend: Backend) -> mcplite.Server:
    mcp = mcplite.Server("shop", backend=backend, state_keys=[KEY])

    @mcp.resource(URI)
    def stock() -> str:
        return "17"

    @mcp.tool
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool
    def work(ctx: mcplite.Context) -> str:
        for step in range(MESSAGES):
            ctx.report_progress(step, MESSAGES)
        return "done"

    @mcp.tool
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("Sure?").action

    return mcp


def _usual(step: Callable[[], object], operations: Callable[[], int]) -> int:
    """Return how many operations a step takes."""
    found = []
    for _ in range(ATTEMPTS):
        before = operations()
        step()
        time.sleep(0.04)  # for what comes behind the answer
        found.append(operations() - before)
    return statistics.median_low(found)


class Alternating(requests.Session):
    """Sends each request to the next one of some workers, as a balancer may do.

    :param urls: of the workers.
    """

    def __init__(self, urls: List[str]) -> None:
        super().__init__()
        self._next = itertools.cycle(urls)

    def request(self, method: Any, url: Any, *arguments: Any, **options: Any) -> requests.Response:
        return super().request(method, next(self._next), *arguments, **options)


def _per_request(urls: List[str], era: str, workers: List[CountedBackend]) -> Dict[str, Optional[int]]:
    """Return the operations of the requests of one client, by what they do; each request goes to the next worker."""
    def operations() -> int:
        return sum(worker.operations() for worker in workers)

    def with_messages() -> int:
        return sum(worker.operations() + worker.operations(read=True) for worker in workers)

    with contextlib.ExitStack() as stack:
        def connect() -> Any:
            session = stack.enter_context(Alternating(urls))
            return mcplite.connect(urls[0], options=mcplite.ClientOptions(era=era, listen=False), session=session,
                                   timeout=LIMIT,
                                   elicitation_handler=lambda request: {}).open()

        clients = [connect()]
        found: Dict[str, Optional[int]] = {"connects": _usual(lambda: clients.append(connect()), operations)}
        client = clients.pop()
        call = found["call"] = _usual(lambda: client.call_tool("add", {"a": 1, "b": 2}), operations)
        work = _usual(lambda: client.call_tool("work", on_progress=lambda *progress: None), operations)
        found["message"], found["stream"] = divmod(work - call, MESSAGES)
        found["question"] = None
        if not client.call_tool("ask").is_error:
            # The answer reaches another worker, which sends a message to the one that waits.
            found["question"] = _usual(lambda: client.call_tool("ask"), with_messages) - call
        client.close()
        found["disconnects"] = _usual(lambda: clients.pop().close(), operations)
        return found


def _per_change(told: mcplite.Server, workers: List[CountedBackend]) -> Dict[str, Optional[int]]:
    """Return the operations of a change, for the worker that tells it and for each one that hears it."""
    tells, hears = [], []
    for _ in range(ATTEMPTS):
        before = [(worker.operations(), worker.operations(read=True)) for worker in workers]
        told.resource_updated(URI)
        end = time.monotonic() + LIMIT
        while any(worker.operations(read=True) == read for worker, (_, read) in zip(workers, before)):
            if time.monotonic() > end:
                raise TimeoutError("a worker did not hear of a change")
            time.sleep(0.01)
        tells.append(workers[0].operations() - before[0][0])
        hears.append(workers[1].operations(read=True) - before[1][1])
    return {"tells": statistics.median_low(tells), "hears": statistics.median_low(hears)}


def count_round_trips() -> List[RoundTrips]:
    """Count the operations of each thing, in a second or two."""
    store = MemoryBackend()
    store.shared = True
    workers = [CountedBackend(store), CountedBackend(store)]
    servers = [_create_server(worker) for worker in workers]
    with mcplite.serve(servers[0]) as first, mcplite.serve(servers[1]) as second:
        with mcplite.connect(second.url, timeout=LIMIT) as client:
            client.ping()  # from now on this worker listens
        urls = [first.url, second.url]
        modern, handshake = (_per_request(urls, era, workers) for era in ("modern", "legacy"))
        change = _per_change(servers[0], workers)
    rows = [("a client connects", "connects"), (CALL, "call"), (STREAM, "stream"), (MESSAGE, "message"), (QUESTION, "question"),
            ("a client disconnects", "disconnects")]
    return [*(RoundTrips(what, modern[name], handshake[name]) for what, name in rows),
            RoundTrips(TELLS, change["tells"], change["tells"]),
            RoundTrips(HEARS, change["hears"], change["hears"])]


def table(rows: List[RoundTrips]) -> str:
    """Return the table as reStructuredText."""
    rule = f"{'=' * 42} ========== ================"
    lines = [rule, f"{'What':<42} 2026-07-28 With a handshake", rule]
    lines += [f"{row.what:<42} {_figure(row.modern):<10} {_figure(row.handshake)}".rstrip() for row in rows]
    return "\n".join([*lines, rule]) + "\n\n"


def _figure(count: Optional[int]) -> str:
    return "not in a fleet" if count is None else str(count)


def costs_of(rows: List[RoundTrips]) -> Costs:
    """Return the costs for the arithmetic, each of the era in which it is dearer."""
    most = {row.what: max(row.modern or 0, row.handshake or 0) for row in rows}
    return Costs(most[CALL], most[QUESTION], most[STREAM] + most[MESSAGE], most[TELLS], most[HEARS])


def page(rows: List[RoundTrips]) -> str:
    """Return the page with its tables as they should be."""
    text = PAGE.read_text("utf-8")
    for (begin, end), content in ((MARKS, table(rows)), (CAPACITY_MARKS, capacity_table(costs_of(rows)))):
        before, rest = text.split(begin)
        text = before + begin + content + end + rest.split(end)[1]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round_trips", description="what requests cost a shared backend")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    rows = count_round_trips()
    print(table(rows), end="")
    if options.write:
        PAGE.write_text(page(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

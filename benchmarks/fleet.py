"""``python -m benchmarks.fleet``: a fleet of simulated workers on a real backend, with delays and losses of your choice.

No HTTP and no handlers: each simulated worker does to the backend what a worker does for a request, over the real interface
and with its real wake-ups. So it shows what a store, and the way to it, allow, and whether every answer and every event
arrives in spite of lost operations.

    call      a worker reads the record of the client's session
    question  a worker stores a question in the log of the client's stream; another worker reads it there and hands it to
              the client; the answer reaches a third one, which sends a message to the first; that one's handler goes on
    event     a worker appends a change to the log that all workers read

With --sessions it does the arithmetic of docs/deploying.rst: what so many sessions need, at rates that you give and by the
counted costs of real requests, of a store that does as many operations in a second as the load did, or as --operations says.

    --workers 4 --clients 16        how many of each; a client does one thing after another
    --seconds 5                     how long the load lasts
    --backend URL                   memory: (default), sqlite:///file.db, redis://host:6379/0, postgresql://user@host/db
    --latency 0.5 --jitter 0.5      milliseconds that each operation takes longer, and up to as many more at random
    --loss 0.01                     the part of the operations that fail, half of them after they have taken place
    --mix 90,5,5                    calls, questions and events of a hundred
    --seed 1                        the same choices again
    --sessions 1000000              for the arithmetic, with --operations in a second, --calls, --questions and --messages of
                                    a session in a minute, and --changes of all in a second
    --json                          the figures as JSON

Try --loss 0.05: operations are repeated, and nothing is lost. --latency 20: a question takes seven times that, for which its
handler keeps a thread. --workers 32 --mix 0,0,100: an event costs a read of each worker. The exit status is 1 if an answer or
an event was lost, or if one was read twice.
"""

import argparse
import itertools
import json
import random
import sys
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, TypeVar

from mcplite.backend.interface import Backend, Entry
from mcplite.errors import BackendError
from mcplite.extend import open_backend

from .capacity import Rates, need
from .round_trips import costs_of, count_round_trips

__all__ = ["Fleet", "UnsteadyBackend", "main"]

T = TypeVar("T")

EVENTS = "changes/log"
#: Seconds for which everything is kept, and how many entries of a log are.
KEPT, MOST = 120.0, 100_000
RECORD = b"x" * 500
#: Seconds for what has to happen at last; and before a failed operation is done again.
LIMIT, PAUSE = 60.0, 0.005


class UnsteadyBackend(Backend):
    """A backend behind a network: each operation takes longer, and some fail, before or after they have taken place.

    :param latency: milliseconds that are added, and up to *jitter* more.
    :param loss: the part of the operations that fail.
    :param seed: of the choices.
    """

    def __init__(self, inner: Backend, latency: float, jitter: float, loss: float, seed: object) -> None:
        self._inner = inner
        self._latency, self._jitter, self._loss = latency / 1000, jitter / 1000, loss
        #: Guards the two below; held for an addition or one random number.
        self._lock = threading.Lock()
        self._random = random.Random(repr(seed))
        self.counts: "Counter[str]" = Counter()

    def _do(self, name: str, work: Callable[[], T]) -> T:
        with self._lock:
            self.counts[name] += 1
            delay = self._latency + self._jitter * self._random.random()
            fails, before = self._random.random() < self._loss, self._random.random() < 0.5
        if delay:
            time.sleep(delay)
        if fails and before:
            raise BackendError("lost on the way")
        result = work()
        if fails:
            raise BackendError("the answer was lost")
        return result

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._do("put", lambda: self._inner.put(key, value, seconds))

    def get(self, key: str) -> Optional[bytes]:
        return self._do("get", lambda: self._inner.get(key))

    def take(self, key: str) -> Optional[bytes]:
        return self._do("take", lambda: self._inner.take(key))

    def swap(self, key: str, old: Optional[bytes], new: Optional[bytes], seconds: float) -> bool:
        return self._do("swap", lambda: self._inner.swap(key, old, new, seconds))

    def append(self, log: str, value: bytes, seconds: float, keep: int) -> int:
        return self._do("append", lambda: self._inner.append(log, value, seconds, keep))

    def since(self, log: str, number: int) -> Optional[List[Entry]]:
        return self._do("since", lambda: self._inner.since(log, number))

    def last(self, log: str) -> int:
        return self._do("last", lambda: self._inner.last(log))

    def wait(self, logs: Mapping[str, int], timeout: float) -> Set[str]:
        return self._inner.wait(logs, timeout)

    def close(self) -> None:
        self._inner.close()


class Worker:
    """One simulated process: it has a log of messages, which a thread of its own reads together with the events.

    :param start: the number of the last event so far.
    """

    def __init__(self, number: int, backend: UnsteadyBackend, messages: str, start: int) -> None:
        self.number, self.backend, self.messages = number, backend, messages
        #: Guards the handlers that wait, and what has been read.
        self._lock = threading.Lock()
        self._waiting: Dict[str, "threading.Event"] = {}
        self._read_events: "Counter[int]" = Counter()
        #: Answers that came for no handler: of a message that was sent twice, since its first answer was lost.
        self.late = 0
        self.failures = 0
        self._known = {messages: 0, EVENTS: start}
        self._ended = threading.Event()
        # It ends with close(), half a second later at most, since it blocks on the backend for no longer.
        self._thread = threading.Thread(target=self._run, name=f"worker {number}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                for log in self.backend.wait(self._known, 0.5):
                    for at, value in self.backend.since(log, self._known[log]) or []:
                        self._receive(log, at, value)
                        self._known[log] = at
            except BackendError:
                with self._lock:
                    self.failures += 1

    def _receive(self, log: str, at: int, value: bytes) -> None:
        with self._lock:
            if log == EVENTS:
                self._read_events[at] += 1
                return
            waiting = self._waiting.pop(value.decode(), None)
            self.late += waiting is None
        if waiting is not None:
            waiting.set()

    def expect(self, question: str) -> threading.Event:
        """Return what is set by the answer to a question."""
        with self._lock:
            self._waiting[question] = answered = threading.Event()
        return answered

    def events(self) -> "Counter[int]":
        """Return how often each event was read."""
        with self._lock:
            return Counter(self._read_events)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LIMIT)


class Fleet:
    """Workers and their clients.

    :param open_one: opens the backend of one worker.
    """

    def __init__(self, options: argparse.Namespace, open_one: Callable[[], Backend]) -> None:
        self._options = options
        run = f"{options.seed}-{time.time_ns():x}"  # so that a store may have the logs of an earlier run
        self._run = run
        backends = [open_one() for _ in range(options.workers)]
        start = backends[0].last(EVENTS)
        self.workers = [Worker(number, UnsteadyBackend(backend, options.latency, options.jitter, options.loss,
                                                       (options.seed, number)), f"messages-{run}-{number}/in", start)
                        for number, backend in enumerate(backends)]
        #: Guards the fields below; held for an addition.
        self._lock = threading.Lock()
        self.times: Dict[str, List[float]] = {"call": [], "question": [], "event": []}
        #: Operations that were done again, by the error of the one before.
        self.repeated: "Counter[str]" = Counter()
        self._published: Set[int] = set()
        self.wrong: List[str] = []

    def load(self) -> float:
        """Let all clients work, and return how many seconds it took."""
        begun = time.monotonic()
        clients = [threading.Thread(target=self._client, args=(number, begun + self._options.seconds), daemon=True)
                   for number in range(self._options.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return time.monotonic() - begun

    def _client(self, number: int, until: float) -> None:
        choose = random.Random(f"{self._options.seed} client {number}")
        session = f"session-{self._run}-{number}"
        does = {"call": self._call, "question": self._question, "event": self._event}
        try:
            self._surely(choose, lambda worker: worker.backend.put(f"{session}/record", RECORD, KEPT))
            for count in itertools.count():
                if time.monotonic() >= until:
                    return
                kind = choose.choices(list(does), self._options.mix)[0]
                begun = time.monotonic()
                does[kind](choose, session, f"{session}/{count}")
                with self._lock:
                    self.times[kind].append(time.monotonic() - begun)
        except Exception as error:
            with self._lock:
                self.wrong.append(f"client {number}: {type(error).__name__}: {error}")

    def _surely(self, choose: random.Random, operation: Callable[[Worker], T]) -> T:
        """Have any worker do an operation, and another one if it fails."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                return operation(choose.choice(self.workers))
            except BackendError as error:
                if time.monotonic() > end:
                    raise
                with self._lock:
                    self.repeated[str(error).splitlines()[0]] += 1
                time.sleep(PAUSE)

    def _call(self, choose: random.Random, session: str, name: str) -> None:
        if self._surely(choose, lambda worker: worker.backend.get(f"{session}/record")) != RECORD:
            raise AssertionError("a session was lost")

    def _question(self, choose: random.Random, session: str, name: str) -> None:
        self._call(choose, session, name)
        asker = choose.choice(self.workers)
        answered = asker.expect(name)
        stream = f"{session}/stream"
        self._surely(choose, lambda worker: asker.backend.append(stream, name.encode(), KEPT, MOST))
        number = self._surely(choose, lambda worker: worker.backend.last(stream)) - 1
        while True:
            entries = self._surely(choose, lambda worker: worker.backend.since(stream, number))
            if entries:
                break
            self._surely(choose, lambda worker: worker.backend.wait({stream: number}, 0.5))
        if entries[-1][1].decode() != name:
            raise AssertionError("the client was asked something else")
        self._call(choose, session, name)  # the worker that gets the answer looks for the session
        self._surely(choose, lambda worker: worker.backend.append(asker.messages, name.encode(), KEPT, MOST))
        if not answered.wait(LIMIT):
            raise AssertionError("an answer did not reach its handler")

    def _event(self, choose: random.Random, session: str, name: str) -> None:
        number = self._surely(choose, lambda worker: worker.backend.append(EVENTS, name.encode(), KEPT, MOST))
        with self._lock:
            self._published.add(number)

    def check(self) -> None:
        """Wait until each worker has read each event; note what is missing, and what came twice."""
        end = time.monotonic() + LIMIT
        for worker in self.workers:
            while not self._published <= set(worker.events()) and time.monotonic() < end:
                time.sleep(0.01)
            read = worker.events()
            missing, twice = self._published - set(read), [at for at, count in read.items() if count > 1]
            if missing or twice:
                self.wrong.append(f"worker {worker.number}: {len(missing)} events missing, {len(twice)} read twice")

    def operations(self) -> "Counter[str]":
        """Return how often each operation was done."""
        return sum((worker.backend.counts for worker in self.workers), Counter())

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def spread(times: List[float]) -> Dict[str, float]:
    """Return the median, and what 99 of 100 take at most, in milliseconds."""
    ordered = sorted(times)
    return {"median_ms": round(1000 * ordered[len(ordered) // 2], 3),
            "p99_ms": round(1000 * ordered[len(ordered) * 99 // 100], 3)}


def simulate(options: argparse.Namespace) -> Dict[str, Any]:
    """Run a fleet and return its figures."""
    shared = open_backend(options.backend)
    backends = [shared]

    def open_one() -> Backend:
        if not shared.shared:
            return shared
        backends.append(open_backend(options.backend))
        return backends[-1]

    try:
        fleet = Fleet(options, open_one)
        try:
            seconds = fleet.load()
            fleet.check()
        finally:
            fleet.close()
    finally:
        for backend in backends:
            backend.close()
    counts = fleet.operations()
    return {"seconds": round(seconds, 3), "wrong": fleet.wrong, "repeated": dict(fleet.repeated),
            "late_answers": sum(worker.late for worker in fleet.workers),
            "operations": dict(counts), "operations_per_second": round(sum(counts.values()) / seconds, 1),
            "kinds": {kind: {"count": len(times), "per_second": round(len(times) / seconds, 1), **spread(times)}
                      for kind, times in fleet.times.items() if times}}


def as_text(options: argparse.Namespace, found: Dict[str, Any]) -> str:
    lines = [f"{options.workers} workers, {options.clients} clients, {options.backend}, {options.latency:g} to"
             f" {options.latency + options.jitter:g} ms more for each operation, {options.loss:.1%} of them lost, seed"
             f" {options.seed}", "", f"{'':10}{'count':>9}{'in a second':>13}{'median ms':>11}{'p99 ms':>10}"]
    lines += [f"{kind:10}{row['count']:>9,}{row['per_second']:>13,}{row['median_ms']:>11,}{row['p99_ms']:>10,}"
              for kind, row in found["kinds"].items()]
    lines += ["", f"{found['operations_per_second']:,} operations of the backend in a second: "
              + ", ".join(f"{count:,} {name}" for name, count in sorted(found["operations"].items())),
              f"{sum(found['repeated'].values()):,} operations were done again, {found['late_answers']:,} answers came twice,"
              f" and {len(found['wrong'])} things went wrong", *found["wrong"][:10],
              *(f"{count:,} times: {reason[:200]}" for reason, count in found["repeated"].items())]
    if options.sessions:
        operations = options.operations or found["operations_per_second"]
        rates = Rates(options.calls, options.questions, options.messages, options.changes)
        needed = need(options.sessions, costs_of(count_round_trips()), rates, operations)
        lines += ["", f"{options.sessions:,} sessions make {needed.calls:,.0f} calls and {needed.questions:,.0f} questions in a"
                  f" second, and get {needed.messages:,.0f} messages; their streams need {needed.workers:,} workers.",
                  f"That is {needed.operations:,.0f} operations in a second and {needed.bytes / 1e9:,.2f} GB:"
                  f" {needed.stores:,} store(s) of {operations:,.0f} operations in a second, half used."]
    return "\n".join(lines)


def mix(text: str) -> List[float]:
    """Read three numbers with commas between them."""
    found = [float(part) for part in text.split(",")]
    if len(found) != 3 or min(found) < 0 or not sum(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers such as 90,5,5")
    return found


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--backend", default="memory:", metavar="URL")
    parser.add_argument("--latency", type=float, default=0.5, metavar="MS")
    parser.add_argument("--jitter", type=float, default=0.5, metavar="MS")
    parser.add_argument("--loss", type=float, default=0.0, metavar="PART")
    parser.add_argument("--mix", type=mix, default=[90.0, 5.0, 5.0], metavar="CALLS,QUESTIONS,EVENTS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--operations", type=float, help="that the store does in a second; default what was measured")
    parser.add_argument("--calls", type=float, default=1.0, help="of each session in a minute")
    parser.add_argument("--questions", type=float, default=0.1, help="of each session in a minute")
    parser.add_argument("--messages", type=float, default=1.0, help="of each session in a minute: progress, log")
    parser.add_argument("--changes", type=float, default=1.0, help="in a second, which every worker reads")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = simulate(options)
    print(json.dumps(found, indent=1) if options.json else as_text(options, found))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

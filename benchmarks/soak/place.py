"""What the jobs of the soak share: the place they work in, children, expectations, and the times of calls."""

import contextlib
import itertools
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, List

import mcplite
from mcplite import revisions

__all__ = ["ERAS", "LEGACY", "MARK", "MODERN", "ROOT", "Job", "Place", "Reference", "Step", "accept", "child", "expect",
           "timed_calls"]

ROOT = Path(__file__).resolve().parent.parent.parent
LEGACY, MODERN = revisions.NEWEST_LEGACY.name, revisions.NEWEST.name
ERAS = {"handshake": LEGACY, "sessionless": MODERN}
COMMAND = [sys.executable, "-m", "benchmarks.soak.server", "stdio", "20"]
#: Calls of one step whose median time is noted.
TIMED = 11
#: What a proxy cuts a connection behind.
MARK = "cut-here"
Step = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """What the jobs share: where the server is, and where to note figures.

    :param url: of the server.
    :param cut_url: the same through a proxy that breaks off streams.
    :param folder: for the logs of child processes.
    :param watch: called with a name, a process id and the path of a log: sample this process.
    :param note: called with a name and a value: the time of calls, as a multiple of the reference.
    """

    url: str
    cut_url: str
    folder: Path
    watch: Callable[[str, int, str], None]
    note: Callable[[str, float], None]


@dataclass(frozen=True)
class Job:
    """A job: its name, and the seconds from one step to the next."""

    name: str
    every: float
    open: Callable[[Place], ContextManager[Step]]


def expect(wanted: object, got: object) -> None:
    """Raise AssertionError for a wrong answer."""
    if got != wanted:
        raise AssertionError(f"wanted {wanted!r:.200}, got {got!r:.200}")


def child(**options: Any) -> mcplite.Client:
    """Return a client with a server of its own as a child process."""
    return mcplite.connect(COMMAND, env={"PYTHONPATH": str(ROOT)}, **options)


def accept(request: mcplite.types.ElicitRequest) -> Any:
    """Answer the question of the tool ``ask``."""
    return {"n": 40}


class Reference:
    """What a call is compared with: one line to a process that sends it back, the least that any call costs now.

    Both become slower when the machine is busy, so their ratio tells of mcplite alone.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys\nfor line in sys.stdin.buffer:\n"
                                          "    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"x" * 200 + b"\n")
        self._process.stdin.flush()
        expect(201, len(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=30)


def median_time(call: Callable[[], object]) -> float:
    """Return the median time of some calls."""
    taken: List[float] = []
    for _ in range(TIMED):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


@contextlib.contextmanager
def timed_calls(place: Place, name: str, client: mcplite.Client) -> Iterator[Step]:
    """Small calls whose times are noted, and a large answer."""
    numbers = itertools.count()
    reference = Reference()

    def call() -> None:
        n = next(numbers)
        expect(str(n + 1), client.call_tool("add", {"a": n, "b": 1}).text)

    def step() -> None:
        before = median_time(reference)
        taken = median_time(call)
        place.note(f"call, {name}", 2 * taken / (before + median_time(reference)))
        expect(50_000, len(client.call_tool("text", {"size": 50_000}).text))

    try:
        step()
        yield step
    finally:
        reference.close()

"""How many files one call passes through: ``python -m benchmarks.journeys``.

A profile hook notes every call of a function of the package. The server's journey reaches from the end of
one handler's body to the beginning of the next, in a sequence of ``tools/call``: the response goes out,
the next request comes in. The client's journey is one ``call_tool``. Both are taken over stdio and over
HTTP, in the newest revision with a handshake and in the newest of all.

    --json      JSON in place of the table
    --path      the files of each journey, in order

*file changes* counts the calls that enter another file than the call before them on the same thread:
how often a reader turns a page. Of several journeys the median is shown, since another thread may
wake up in one of them.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Dict, Iterator, List, Optional, Tuple

import mcplite
from mcplite import revisions

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(mcplite.__file__).resolve().parent)
#: Calls before the first journey, until caches are filled and threads are started.
WARM_UP = 5
JOURNEYS = 15

#: The names of files, one for each call of a function of the package; by thread.
Trip = Dict[int, List[str]]


@dataclass(frozen=True)
class Journey:
    """What a reader of one call has to follow."""

    transport: str
    side: str
    revision: str
    calls: int
    changes: int
    files: int
    path: List[str]


class Hook:
    """A profile function for all threads; each start of the function *mark* ends a trip and begins the next."""

    def __init__(self, mark: Optional[CodeType] = None) -> None:
        self.trips: List[Trip] = []
        self._mark = mark
        self._trip: Trip = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code is self._mark:
            self.cut()
        elif code.co_filename.startswith(PACKAGE):
            self._trip.setdefault(threading.get_ident(), []).append(code.co_filename)

    def cut(self) -> None:
        """End the trip, if there was one, and begin the next."""
        trip, self._trip = self._trip, {}
        if trip:
            self.trips.append(trip)

    def install(self) -> None:
        """Watch this thread and those that start from now on."""
        threading.setprofile(self)
        sys.setprofile(self)


def measured(trip: Trip) -> Tuple[int, int, List[str]]:
    """Return the calls, the file changes and the files on the way, repeated where the way comes back."""
    calls, path, changes = 0, [], 0
    for names in trip.values():
        stops = [name for index, name in enumerate(names) if not index or name != names[index - 1]]
        calls += len(names)
        changes += len(stops) - 1
        path += [Path(name).relative_to(PACKAGE).as_posix() for name in stops]
    return calls, changes, path


def median(transport: str, side: str, revision: str, trips: List[Trip]) -> Journey:
    """Return the journey in the middle, by its file changes."""
    figures = sorted((measured(trip) for trip in trips), key=lambda figure: figure[:2][::-1])
    calls, changes, path = figures[len(figures) // 2]
    return Journey(transport, side, revision, calls, changes, len(set(path)), path)


# --- the server, in a process of its own -----------------------------------------------------------

def add(a: int, b: int) -> int:
    """The handler whose start separates two journeys of the server."""
    return a + b


def serve(transport: str) -> None:
    """Serve :func:`add` with the hook installed, and a second tool that returns the recorded trips."""
    hook = Hook(add.__code__)
    hook.install()
    server = mcplite.Server("journeys")
    server.add_tool(add)

    def seen() -> str:
        return json.dumps(hook.trips[-JOURNEYS:])

    server.add_tool(seen)
    if transport == "stdio":
        server.run()
        return
    with mcplite.serve(server, port=0) as httpd:
        print(httpd.url, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def target(transport: str) -> Iterator[Tuple[Any, Dict[str, str]]]:
    """Start the server; give the target and the options for :func:`mcplite.connect`."""
    command = [sys.executable, "-m", "benchmarks.journeys", "--serve", transport]
    if transport == "stdio":
        yield command, {"cwd": str(ROOT)}
        return
    with subprocess.Popen(command, cwd=str(ROOT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            yield child.stdout.readline().strip(), {}
        finally:
            child.stdin.close()
            child.wait(10)


# --- the client, here --------------------------------------------------------------------------------

def travel(transport: str, revision: str) -> List[Journey]:
    """Return the server's and the client's journey."""
    hook = Hook()
    hook.install()
    try:
        with target(transport) as (address, options), mcplite.connect(address, revision=revision, **options) as client:
            for count in range(WARM_UP + JOURNEYS):
                if count == WARM_UP:
                    hook.cut()
                    hook.trips.clear()
                client.call_tool("add", {"a": 1, "b": count})
                hook.cut()
            ours = hook.trips[:]
            theirs: List[Trip] = json.loads(client.call_tool("seen").text)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [median(transport, "server", revision, theirs), median(transport, "client", revision, ours)]


def as_table(journeys: List[Journey]) -> str:
    """Return one line for each journey."""
    rows = [f"{'':31} {'calls':>6} {'file changes':>13} {'files':>6}"]
    rows += [f"{one.transport:6} {one.side:8} {one.revision:15} {one.calls:6} {one.changes:13} {one.files:6}"
             for one in journeys]
    return "\n".join(rows)


def main() -> int:
    """Print the journeys; with ``--serve``, be the server of one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journeys", description="how many files one call passes through")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.add_argument("--path", action="store_true", help="the files of each journey, in order")
    parser.add_argument("--serve", choices=["stdio", "http"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    journeys = [journey for transport in ("stdio", "http")
                for revision in (revisions.NEWEST_LEGACY, revisions.NEWEST)
                for journey in travel(transport, revision.name)]
    if options.json:
        print(json.dumps([journey.__dict__ for journey in journeys], indent=2))
        return 0
    print(as_table(journeys))
    if options.path:
        for journey in journeys:
            print(f"\n{journey.transport}, {journey.side}, {journey.revision}\n    " + " > ".join(journey.path))
    return 0


if __name__ == "__main__":
    sys.exit(main())

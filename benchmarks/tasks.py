"""What a task costs: starting and finishing one beside a plain call of the same function, in both generations, in one run.

    python -m benchmarks.tasks [--calls 200] [--rounds 5]

The function adds two numbers. "started" is ``start_tool`` alone, "finished" is ``start_tool`` and ``result``: the client polls
as the server says, at first after 10 ms, or hears of the end: most of the time of so short a task is that pause. The ways take
turns, round by round, so that a busy machine treats them alike; the figure is the median of the rounds' medians, and the ratio
that to the plain call of the same client.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import mcplite
from tests.support.processes import serving

_SERVER = """
import mcplite
mcp = mcplite.Server("adder", options=mcplite.ServerOptions(tasks=Tasks(kept=100_000)))

@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b

@mcp.tool(task="required")
def add_as_task(a: int, b: int) -> int:
    return a + b
"""
_NUMBERS = {"a": 1, "b": 2}
_WAYS: Dict[str, Callable[[Any], object]] = {
    "plain call": lambda client: client.call_tool("add", _NUMBERS),
    "started": lambda client: client.start_tool("add_as_task", _NUMBERS),
    "finished": lambda client: client.start_tool("add_as_task", _NUMBERS).result(60),
}


def main() -> None:
    """Print one line for each way of each client."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        program = Path(folder) / "adder.py"
        program.write_text(_SERVER, "utf-8")
        command = [sys.executable, "-m", "mcplite.server", str(program)]
        url = stack.enter_context(serving([*command, "--http", "PORT"], folder)) + "mcp"
        clients = {f"{name}, {era}": stack.enter_context(mcplite.connect(target, options=mcplite.ClientOptions(era=era)))
                   for name, target in (("stdio", command), ("http", url)) for era in ("legacy", "modern")}
        times: Dict[Tuple[str, str], List[float]] = {(name, way): [] for name in clients for way in _WAYS}
        for _ in range(options.rounds + 1):
            for name, client in clients.items():
                for way, run in _WAYS.items():
                    times[name, way].append(_median(lambda run=run, client=client: run(client), options.calls))
    for (name, way), found in times.items():
        median, plain = (statistics.median(times[name, one][1:]) for one in (way, "plain call"))  # the first round warms up
        print(f"{name:15} {way:10} {median * 1e6:8.0f} us {median / plain:6.1f} x")


def _median(run: Callable[[], object], calls: int) -> float:
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()

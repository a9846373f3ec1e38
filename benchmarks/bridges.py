"""What a bridge costs: calls of a stdio server over HTTP, through our bridge and through those of others, in one run.

    python benchmarks/bridges.py [--calls 300] [--rounds 5] [--gateway PATH/TO/supergateway] [--proxy PATH/TO/mcp-proxy]

The client is ours, and the tool adds two numbers. "direct" is the same server over HTTP without a bridge. The ways take
turns, round by round, so that a busy machine treats them alike; the figure is the median of the rounds' medians.
"""

import argparse
import contextlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import mcplite

_SERVER = """
import mcplite
mcp = mcplite.Server("adder")

@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b
"""


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gateway", help="the JavaScript of supergateway, dist/index.js")
    parser.add_argument("--proxy", help="the program mcp-proxy")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        program = Path(folder) / "adder.py"
        program.write_text(_SERVER, "utf-8")
        stdio = [sys.executable, "-m", "mcplite.server", str(program)]
        clients: Dict[str, Any] = {}
        for era in ("legacy", "modern"):
            for name, command in (("direct", [*stdio, "--http", "PORT"]),
                                  ("bridge", [sys.executable, "-m", "mcplite", "bridge", str(program), "--http", "PORT"])):
                url = stack.enter_context(_served(command))
                clients[f"{name}, {era}"] = stack.enter_context(mcplite.connect(url, era=era))
        if options.gateway:
            url = stack.enter_context(_served(["node", options.gateway, "--stdio", shlex.join(stdio), "--port", "PORT",
                                               "--outputTransport", "streamableHttp", "--stateful"]))
            clients["supergateway, legacy"] = stack.enter_context(mcplite.connect(url, era="legacy"))
        if options.proxy:
            url = stack.enter_context(_served([options.proxy, "--port", "PORT", "--", *stdio]))
            clients["mcp-proxy, legacy"] = stack.enter_context(mcplite.connect(url, era="legacy"))
        rounds: Dict[str, List[float]] = {name: [] for name in clients}
        for _ in range(options.rounds + 1):
            for name, client in clients.items():
                rounds[name].append(_median(client, options.calls))
    for name, times in rounds.items():
        print(f"{name:22} {statistics.median(times[1:]) * 1e6:8.0f} us")  # the first round warms up


def _median(client: Any, calls: int) -> float:
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        client.call_tool("add", {"a": 1, "b": 2})
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


@contextlib.contextmanager
def _served(command: List[str]) -> Iterator[str]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    process = subprocess.Popen([str(port) if word == "PORT" else word for word in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{shlex.join(command)} does not serve") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()

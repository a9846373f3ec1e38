"""What a bridge costs: calls through bridges, ours and those of others, beside direct calls of the same server, in one run.

    python benchmarks/bridges.py [--calls 300] [--rounds 5] [--gateway PATH/TO/supergateway/dist/index.js]
                                 [--proxy PATH/TO/mcp-proxy] [--remote PATH/TO/mcp-remote/dist/proxy.js]

The client is ours, and the tool adds two numbers. "floor" is the sum of a direct call over HTTP and one on stdio: a bridged
call goes over both transports, one after the other. The ways take turns, round by round, so that a busy machine treats them
alike, and share one processor; a figure is the median of the rounds' medians, and a ratio the median of the rounds' ratios. On
Linux, "CPU" is what the bridge's own process takes for one call, and "x sides" its ratio to both sides alone: to the server of
a direct call on the transport of its clients, and the client of one on the other transport.
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
from typing import Any, Dict, Iterator, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mcplite  # noqa: E402
from benchmarks.web import cpu  # noqa: E402
from benchmarks.workloads import one_processor  # noqa: E402

_SERVER = """
import mcplite
mcp = mcplite.Server("adder")

@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b
"""
_BRIDGE = [sys.executable, "-m", "mcplite", "bridge"]
_TO_HTTP, _TO_STDIO = "stdio server, HTTP client", "HTTP server, stdio client"


class _Way:
    """One way to the tool.

    :param client: open.
    :param pid: of the bridge, or of the server of a direct call.
    """

    def __init__(self, client: Any, pid: Optional[int]) -> None:
        self.client = client
        self.pid = pid
        self.medians: List[float] = []
        #: CPU of that process, and of the client, for a call.
        self.cpu: List[float] = []
        self.own: List[float] = []

    def measure(self, calls: int) -> None:
        """Add a round."""
        times, spent, own = [], self._cpu(), time.process_time()
        for _ in range(calls):
            begun = time.perf_counter()
            self.client.call_tool("add", {"a": 1, "b": 2})
            times.append(time.perf_counter() - begun)
        self.medians.append(statistics.median(times) * 1e6)
        self.cpu.append((self._cpu() - spent) / calls * 1e6)
        self.own.append((time.process_time() - own) / calls * 1e6)

    def _cpu(self) -> float:
        return (cpu(self.pid) if self.pid is not None else None) or 0.0


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gateway", help="the JavaScript of supergateway")
    parser.add_argument("--proxy", help="the program mcp-proxy")
    parser.add_argument("--remote", help="the JavaScript of mcp-remote")
    options = parser.parse_args()
    with one_processor(), tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        program = Path(folder) / "adder.py"
        program.write_text(_SERVER, "utf-8")
        ways = _ways(program, options, stack)
        for _ in range(options.rounds + 1):
            for way in ways.values():
                way.measure(options.calls)
    for way in ways.values():
        del way.medians[0], way.cpu[0], way.own[0]  # the first round warms up
    _print(ways)


def _ways(program: Path, options: argparse.Namespace, stack: contextlib.ExitStack) -> Dict[str, _Way]:
    stdio = [sys.executable, "-m", "mcplite.server", str(program)]
    ways: Dict[str, _Way] = {}

    def add(name: str, target: Any, era: str, pid: Optional[int] = None) -> None:
        client = stack.enter_context(mcplite.connect(target, options=mcplite.ClientOptions(era=era), open_timeout=60))
        # A server or a bridge on stdio is a child of this process.
        ways[name] = _Way(client, _child(client) if pid is None else pid)

    def served(command: List[str]) -> "tuple[str, int]":
        return stack.enter_context(_served(command))

    url, server = served([*stdio, "--http", "PORT"])
    for era in ("legacy", "modern"):
        add(f"direct, HTTP, {era}", url, era, server)
        add(f"direct, stdio, {era}", stdio, era)
        add(f"ours, {_TO_HTTP}, {era}", *_with_era(served([*_BRIDGE, str(program), "--http", "PORT"]), era))
        add(f"ours, {_TO_STDIO}, {era}", [*_BRIDGE, url], era)
    if options.gateway:
        add(f"supergateway, {_TO_HTTP}, legacy", *_with_era(served(
            ["node", options.gateway, "--stdio", shlex.join(stdio), "--port", "PORT", "--outputTransport", "streamableHttp",
             "--stateful"]), "legacy"))
        add(f"supergateway, {_TO_STDIO}, legacy", ["node", options.gateway, "--streamableHttp", url], "legacy")
    if options.proxy:
        add(f"mcp-proxy, {_TO_HTTP}, legacy", *_with_era(served([options.proxy, "--port", "PORT", "--", *stdio]), "legacy"))
        add(f"mcp-proxy, {_TO_STDIO}, legacy", [options.proxy, "--transport", "streamablehttp", url], "legacy")
    if options.remote:
        add(f"mcp-remote, {_TO_STDIO}, legacy", ["node", options.remote, url, "--allow-http"], "legacy")
    return ways


def _with_era(address: "tuple[str, int]", era: str) -> "tuple[str, str, int]":
    url, pid = address
    return url, era, pid


def _child(client: Any) -> Optional[int]:
    """Return the process id of the server that a client has started."""
    return getattr(client._opener.channel, "pid", None)


def _print(ways: Dict[str, _Way]) -> None:
    print(f"{'':46} {'us':>7} {'x direct':>9} {'x floor':>8} {'CPU, us':>8} {'x sides':>8}")
    for name, way in ways.items():
        era = name.rpartition(", ")[2]
        http, stdio = ways[f"direct, HTTP, {era}"], ways[f"direct, stdio, {era}"]
        # The client of a bridge asks over the first transport, so that the direct call is one over it.
        front, back = (stdio, http) if _TO_STDIO in name or name.startswith("direct, stdio") else (http, stdio)
        floor, sides = _sums(http.medians, stdio.medians), _sums(front.cpu, back.own)
        ratio, above, beside = (statistics.median(a / b for a, b in zip(figures, base) if b) for figures, base in (
            (way.medians, front.medians), (way.medians, floor), (way.cpu, sides)))
        line = f"{name:46} {statistics.median(way.medians):7.0f} {ratio:9.2f}"
        print(line if name.startswith("direct") else
              f"{line} {above:8.2f} {statistics.median(way.cpu):8.0f} {beside:8.2f}")


def _sums(some: List[float], others: List[float]) -> List[float]:
    return [one + other for one, other in zip(some, others)]


@contextlib.contextmanager
def _served(command: List[str]) -> "Iterator[tuple[str, int]]":
    """Run a server; yields its URL and its process id."""
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
        yield f"http://127.0.0.1:{port}/mcp", process.pid
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()

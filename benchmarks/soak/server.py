"""The server of the soak: ``python -m benchmarks.soak.server stdio|http SECONDS``.

It keeps threads and connections so many seconds for clients that do not come back, and memory for twenty, so that all of
it reaches its full size within the first minutes.
"""

import logging
import os
import sys
import threading
from typing import Dict

import mcplite
from tests.support.tight import tight

KEPT = float(sys.argv[2])

mcp = mcplite.Server("soak", limits=tight(
    session_idle_seconds=20, store_seconds=20, waiting_seconds=KEPT, idle_seconds=KEPT))
#: Which calls were cancelled; an entry is removed when it is asked for. Guarded by the condition.
stopped: Dict[str, bool] = {}
changed = threading.Condition()


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool(structured_output=False)
def text(size: int) -> str:
    """Return a text."""
    return "soak\n" * (size // 5)


@mcp.tool(structured_output=False)
def count(to: int, mark: str, ctx: mcplite.Context) -> str:
    """Report progress *to* times, the second time with a mark, at which a proxy breaks off the connection."""
    for n in range(1, to + 1):
        ctx.report_progress(n, to, mark if n == 2 else None)
        ctx.sleep(0.02)
    return f"counted to {to}"


@mcp.tool(structured_output=False)
def away(ctx: mcplite.Context) -> str:
    """Close the stream of this call, and return once the client may have come back."""
    closed = ctx.close_stream(retry=0.05)
    ctx.report_progress(1, 1)
    return f"closed {closed}"


@mcp.tool(structured_output=False)
def ask(n: int, ctx: mcplite.Context) -> str:
    """Ask the user for a number, and add it."""
    answer = ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    return str(n + answer.content["n"]) if answer.accepted else answer.action


@mcp.tool(structured_output=False)
def wait(key: str, ctx: mcplite.Context) -> str:
    """Wait to be cancelled."""
    try:
        ctx.report_progress(1, 1)
        ctx.sleep(KEPT)
    except mcplite.Cancelled:
        with changed:
            stopped[key] = True
            changed.notify_all()
        raise
    return "not cancelled"


@mcp.tool()
def was_stopped(key: str) -> bool:
    """Tell, within a few seconds, whether a waiting call was cancelled."""
    with changed:
        changed.wait_for(lambda: key in stopped, KEPT)
        return stopped.pop(key, False)


@mcp.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise mcplite.ToolError("as it should")


@mcp.tool(structured_output=False)
def touch(name: str) -> str:
    """Change a resource."""
    mcp.resource_updated(f"soak://{name}")
    return "touched"


@mcp.tool()
def process() -> int:
    """Return the id of this process."""
    return os.getpid()


@mcp.resource("soak://{name}")
def resource(name: str) -> str:
    """A resource that changes."""
    return name


def main(transport: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    if transport == "stdio":
        mcp.run()
        return
    with mcplite.serve(mcp, legacy_sse=True) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])

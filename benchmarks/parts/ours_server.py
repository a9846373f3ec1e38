"""The workloads' tools on mcplite's server."""

import json
import os
import sys
import time

# Clients pass on few environment variables, so the path of the checkout is computed here.
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from common import make_tools, text_of, usage

import mcplite

# The 10 MB argument and the 10,000 notifications are more than the defaults allow a client; over HTTP, so are
# 200 clients with two connections each, and 128 calls at once that all sleep. On a pipe as many handlers run as by default.
mcp = mcplite.Server("ours", limits=mcplite.Limits(message_bytes=64 << 20, messages_per_second=None, connections=450,
                                                   running=mcplite.Limits().running if __name__ == "__main__" else 160))


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool(structured_output=False)
def sleep(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@mcp.tool(structured_output=False)
def text(size: int) -> str:
    """Return a text."""
    return text_of(size)


@mcp.tool(structured_output=False)
def length(text: str) -> str:
    """Return the length of a text."""
    return str(len(text))


@mcp.tool(structured_output=False)
def progress(count: int, ctx: mcplite.Context) -> str:
    """Report progress *count* times."""
    for n in range(1, count + 1):
        ctx.report_progress(n, count)
    return "done"


@mcp.tool(structured_output=False)
def stream(size: int, ctx: mcplite.Context) -> str:
    """Report progress once, then return a text."""
    ctx.report_progress(1, 1)
    return text_of(size)


@mcp.tool(name="usage", structured_output=False)
def usage_tool() -> str:
    """Return what this process has used."""
    return json.dumps(usage())


def main(arguments):
    if arguments[:1] == ["register"]:
        functions = make_tools(int(arguments[1]))
        begun = time.perf_counter_ns()
        for function in functions:
            mcp.add_tool(function)
        print(time.perf_counter_ns() - begun)
        return
    for function in make_tools(int(arguments[0]) if arguments else 0):
        mcp.add_tool(function)
    mcp.run()


if __name__ == "__main__":
    main(sys.argv[1:])

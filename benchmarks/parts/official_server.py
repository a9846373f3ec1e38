"""The workloads' tools on the official SDK's server; runs in an environment that has ``mcp`` 2."""

import json
import sys
import time

from common import make_tools, text_of, usage
from mcp.server.mcpserver import Context, MCPServer

mcp = MCPServer("official", log_level="ERROR")


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


# The SDK reports progress by a coroutine only.
@mcp.tool(structured_output=False)
async def progress(count: int, ctx: Context) -> str:
    """Report progress *count* times."""
    for n in range(1, count + 1):
        await ctx.report_progress(n, count)
    return "done"


@mcp.tool(structured_output=False)
async def stream(size: int, ctx: Context) -> str:
    """Report progress once, then return a text."""
    await ctx.report_progress(1, 1)
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
    mcp.run("stdio")


if __name__ == "__main__":
    main(sys.argv[1:])

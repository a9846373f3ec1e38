"""The workloads' tools on fastmcp's server over HTTP; runs in an environment that has ``fastmcp`` 4."""

import json
import sys
import time

import anyio
from common import listener, text_of, usage
from fastmcp import Context, FastMCP

mcp = FastMCP("fastmcp")


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool(output_schema=None)
def sleep(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@mcp.tool(output_schema=None)
def text(size: int) -> str:
    """Return a text."""
    return text_of(size)


@mcp.tool(output_schema=None)
def length(text: str) -> str:
    """Return the length of a text."""
    return str(len(text))


# Progress is reported by a coroutine only.
@mcp.tool(output_schema=None)
async def progress(count: int, ctx: Context) -> str:
    """Report progress *count* times."""
    for n in range(1, count + 1):
        await ctx.report_progress(n, count)
    return "done"


@mcp.tool(output_schema=None)
async def stream(size: int, ctx: Context) -> str:
    """Report progress once, then return a text."""
    await ctx.report_progress(1, 1)
    return text_of(size)


@mcp.tool(name="usage", output_schema=None)
def usage_tool() -> str:
    """Return what this process has used."""
    return json.dumps(usage())


async def main(mode):
    await mcp.run_http_async(show_banner=False, log_level="error", json_response=mode == "json", sockets=[listener()])


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])

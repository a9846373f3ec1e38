"""What a server opens before it serves, and closes afterwards."""
from contextlib import asynccontextmanager

from fastmcp import Context, FastMCP


@asynccontextmanager
async def database(server):
    rows = {"answer": 42}
    try:
        yield {"rows": rows}
    finally:
        rows.clear()


mcp = FastMCP("archive", lifespan=database)


@mcp.tool
async def look_up(key: str, ctx: Context) -> int:
    """Look a value up."""
    return ctx.lifespan_context["rows"][key]


if __name__ == "__main__":
    mcp.run()

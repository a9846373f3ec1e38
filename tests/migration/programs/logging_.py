"""Log messages to the client."""
from fastmcp import Context, FastMCP

mcp = FastMCP("logger")


@mcp.tool
async def process(name: str, ctx: Context) -> str:
    """Process a file."""
    await ctx.debug(f"opening {name}")
    await ctx.info(f"processing {name}")
    await ctx.warning(f"{name} is large")
    await ctx.error(f"{name} is damaged")
    return "done"


if __name__ == "__main__":
    mcp.run()

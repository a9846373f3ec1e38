"""Progress of a long call."""
from fastmcp import Context, FastMCP

mcp = FastMCP("copier")


@mcp.tool
async def copy(files: int, ctx: Context) -> str:
    """Copy files."""
    for number in range(1, files + 1):
        await ctx.report_progress(progress=number, total=files, message=f"file {number}")
    return f"copied {files} files"


if __name__ == "__main__":
    mcp.run()

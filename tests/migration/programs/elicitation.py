"""Questions to the user."""
from dataclasses import dataclass

from fastmcp import Context, FastMCP

mcp = FastMCP("restaurant")


@dataclass
class Booking:
    name: str
    guests: int


@mcp.tool
async def book(ctx: Context) -> str:
    """Book a table."""
    reply = await ctx.elicit("For whom, and how many?", Booking)
    if reply.action == "accept":
        return f"a table for {reply.data.guests}, {reply.data.name}"
    return f"not booked: {reply.action}"


if __name__ == "__main__":
    mcp.run()

"""The server of the torture: a tool, one that sends messages first, and one that asks."""

import mcplite

mcp = mcplite.Server("tortured")


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@mcp.tool()
def talk(ctx: mcplite.Context) -> str:
    """Send two messages before the answer."""
    ctx.info("one")
    ctx.report_progress(1, 2)
    return "done"


@mcp.tool()
def ask(ctx: mcplite.Context) -> str:
    """Ask the user."""
    return str(ctx.elicit("Sure?", {"type": "object", "properties": {"yes": {"type": "boolean"}}}).action)

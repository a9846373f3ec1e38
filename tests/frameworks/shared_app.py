"""A WSGI application whose workers share the backend that MCPLITE_BACKEND names."""

import os

import mcplite

mcp = mcplite.Server("shared")
stock = {"left": 17}


@mcp.resource("shop://stock")
def left() -> str:
    return str(stock["left"])


@mcp.tool()
def restock() -> int:
    """Announce a change to the clients of all workers."""
    mcp.resource_updated("shop://stock")
    return os.getpid()


@mcp.tool()
def order(item: str, ctx: mcplite.Context) -> str:
    """Ask twice; each answer may reach another worker."""
    count = ctx.elicit("How many?", {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})
    paid = ctx.once("paid", lambda: f"{count.content['count']} {item}")
    sure = ctx.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]})
    return f"{paid}, sure: {sure.content['sure']}"


application = mcp.wsgi(path="/mcp")

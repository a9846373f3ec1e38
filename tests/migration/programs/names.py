"""Tools with a name, a description and hints of their own."""
from fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool(name="find_products", title="Find products", description="Search the catalogue of the shop.",
          annotations={"readOnlyHint": True, "openWorldHint": False})
def search(query: str) -> str:
    """This docstring is not sent, since a description is given."""
    return f"no products match {query!r}"


@mcp.tool("empty_basket", annotations={"destructiveHint": True, "idempotentHint": True})
def clear() -> str:
    """Remove all products from the basket."""
    return "the basket is empty"


if __name__ == "__main__":
    mcp.run()

"""Parameters with defaults, and parameters that may be None."""
from typing import Optional

from fastmcp import FastMCP

mcp = FastMCP("catalogue")


@mcp.tool
def search(query: str, limit: int = 10, category: Optional[str] = None, exact: bool = False) -> str:
    """Search the catalogue."""
    return f"{query} limit={limit} category={category} exact={exact}"


if __name__ == "__main__":
    mcp.run()

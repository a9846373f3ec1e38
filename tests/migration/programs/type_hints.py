"""Tools from functions with type hints."""
from fastmcp import FastMCP

mcp = FastMCP("calculator", instructions="Adds and divides.")


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@mcp.tool()
def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    return a / b


if __name__ == "__main__":
    mcp.run()

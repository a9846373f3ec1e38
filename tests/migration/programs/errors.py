"""Errors: one for the model to read, and an exception of Python."""
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("bank")


@mcp.tool
def withdraw(amount: int) -> str:
    """Withdraw money."""
    if amount > 100:
        raise ToolError("at most 100 a day")
    return f"here is {amount}"


@mcp.tool
def crash() -> str:
    """Fail by accident."""
    raise ValueError("wrong value")


if __name__ == "__main__":
    mcp.run()

"""Constraints of parameters, by pydantic's Field."""
from typing import Annotated

from fastmcp import FastMCP
from pydantic import Field

mcp = FastMCP("thermostat")


@mcp.tool
def set_temperature(
    degrees: Annotated[float, Field(description="Celsius", ge=5, le=30)],
    room: Annotated[str, Field(min_length=2, max_length=20, pattern="^[a-z]+$")] = "kitchen",
    minutes: int = Field(default=60, gt=0),
) -> str:
    """Set the temperature of a room."""
    return f"{room}: {degrees} for {minutes} minutes"


if __name__ == "__main__":
    mcp.run()

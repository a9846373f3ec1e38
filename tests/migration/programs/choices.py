"""Choices: Literal, and enumerations."""
from enum import Enum
from typing import Literal

from fastmcp import FastMCP

mcp = FastMCP("paint")


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@mcp.tool
def paint(colour: Colour, finish: Literal["matt", "gloss"] = "matt") -> str:
    """Paint the wall."""
    return f"{colour.name} is {colour.value}, {finish}"


if __name__ == "__main__":
    mcp.run()

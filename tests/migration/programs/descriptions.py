"""Descriptions of parameters: a string in Annotated."""
from typing import Annotated

from fastmcp import FastMCP

mcp = FastMCP("pictures")


@mcp.tool
def resize(name: Annotated[str, "File name of the picture"], width: Annotated[int, "New width in pixels"] = 800) -> str:
    """Resize a picture."""
    return f"{name} is {width} pixels wide"


if __name__ == "__main__":
    mcp.run()

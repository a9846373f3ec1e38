"""An image, alone and beside text."""
import tempfile
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.utilities.types import Image

mcp = FastMCP("painter")
FILE = Path(tempfile.mkdtemp()) / "dot.png"
FILE.write_bytes(b"\x89PNG\r\n\x1a\n not a whole picture")


@mcp.tool
def draw() -> Image:
    """Draw a dot."""
    return Image(path=FILE)


@mcp.tool
def explain() -> list:
    """Draw a dot, and explain it."""
    return ["A dot:", Image(path=FILE)]


if __name__ == "__main__":
    mcp.run()

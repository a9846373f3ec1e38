"""``server.py`` written with the official SDK; the same arguments."""

import os
import sys
from importlib.metadata import version
from pathlib import Path

if version("mcp").startswith("1."):
    from mcp.server.fastmcp import FastMCP as MCPServer
else:
    from mcp.server.mcpserver import MCPServer

folder = Path(sys.argv[1])
mcp = MCPServer("effects", log_level="ERROR")


def note(name: str, text: str) -> None:
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, text.encode() + b"\n")
    finally:
        os.close(descriptor)


@mcp.tool(structured_output=False)
def act(key: str) -> str:
    """Have an effect, and return the key backwards."""
    note("effects", key)
    return key[::-1]


if __name__ == "__main__":
    note("started", str(os.getpid()))
    if sys.argv[2] == "stdio":
        mcp.run("stdio")
    else:
        import uvicorn

        uvicorn.run(mcp.streamable_http_app(), port=int(sys.argv[2]), log_level="error")

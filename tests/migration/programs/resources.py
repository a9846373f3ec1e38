"""Resources: text, JSON and bytes."""
from fastmcp import FastMCP

mcp = FastMCP("settings")


@mcp.resource("config://version")
def version() -> str:
    """The version."""
    return "2.1"


@mcp.resource("config://settings", name="settings", title="Settings", mime_type="application/json")
async def settings() -> str:
    """All settings, as JSON."""
    return '{"theme": "dark"}'


@mcp.resource("config://logo", mime_type="image/gif")
def logo() -> bytes:
    """The logo."""
    return b"GIF89a"


if __name__ == "__main__":
    mcp.run()

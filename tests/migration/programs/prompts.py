"""Prompts: text with arguments."""
from fastmcp import FastMCP

mcp = FastMCP("writer")


@mcp.prompt
def review(code: str, focus: str = "clarity") -> str:
    """Ask for a review of code."""
    return f"Review this code for {focus}:\n{code}"


@mcp.prompt(name="translate", title="Translate", description="Ask for a translation.")
async def translation(text: str, language: str) -> str:
    return f"Translate into {language}: {text}"


if __name__ == "__main__":
    mcp.run()

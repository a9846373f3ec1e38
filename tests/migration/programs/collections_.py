"""Lists and dicts."""
from typing import Dict, List

from fastmcp import FastMCP

mcp = FastMCP("statistics")


@mcp.tool
def summarize(numbers: List[float]) -> Dict[str, float]:
    """Summarize numbers."""
    return {"least": min(numbers), "mean": sum(numbers) / len(numbers)}


@mcp.tool
def lengths(words: List[str]) -> Dict[str, int]:
    """Count the letters of each word."""
    return {word: len(word) for word in words}


@mcp.tool
def first(words: List[str], count: int = 2) -> List[str]:
    """Return the first words."""
    return words[:count]


if __name__ == "__main__":
    mcp.run()

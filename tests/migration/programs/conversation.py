"""A prompt of several messages."""
from typing import List

from fastmcp import FastMCP
from fastmcp.prompts import Message

mcp = FastMCP("tutor")


@mcp.prompt
def lesson(topic: str) -> List[Message]:
    """Start a lesson."""
    return [
        Message(f"Teach me {topic}."),
        Message("With pleasure. What do you know already?", role="assistant"),
        Message("Nothing at all."),
    ]


if __name__ == "__main__":
    mcp.run()

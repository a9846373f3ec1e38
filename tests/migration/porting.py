"""The port of a program from FastMCP: the changes that docs/coming-from-fastmcp.rst lists, made by a machine.

    python -m tests.migration.porting PROGRAM

prints the program as it runs on mcplite.
"""

import re
import sys
from pathlib import Path

#: What is replaced by what, in this order; regular expressions.
CHANGES = [
    # The import.
    (r"from fastmcp import Client, FastMCP", "from mcplite import Server as FastMCP, connect as Client"),
    (r"from fastmcp import Context, FastMCP", "from mcplite import Context, Server as FastMCP"),
    (r"from fastmcp import FastMCP", "from mcplite import Server as FastMCP"),
    (r"from fastmcp\.exceptions import ToolError", "from mcplite import ToolError"),
    (r"from fastmcp\.utilities\.types import Image", "from mcplite import Image"),
    (r"from fastmcp\.prompts import Message", "from mcplite import assistant, user"),
    # async and await.
    (r"\b(async|await) ", ""),
    (r"import asyncio\n", ""),
    (r"asyncio\.run\((.*)\)\n", r"\1\n"),
    (r"\basynccontextmanager\b", "contextmanager"),
    # Names.
    (r"\bctx\.lifespan_context\b", "ctx.lifespan"),
    (r"\{(\w+)\*\}", r"{+\1}"),
    (r"\bList\[Message\]", "list"),
    (r'\bMessage\((.*), role="assistant"\)', r"assistant(\1)"),
    (r"\bMessage\(", "user("),
]


def ported(source):
    """Return the text of a program for FastMCP as one for mcplite."""
    for old, new in CHANGES:
        source = re.sub(old, new, source)
    return source


if __name__ == "__main__":
    print(ported(Path(sys.argv[1]).read_text("utf-8")), end="")

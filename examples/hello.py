"""A server with one tool: which words a text file uses most."""
from collections import Counter
from pathlib import Path
from typing import Dict

import mcplite

mcp = mcplite.Server("hello")


@mcp.tool()
def top_words(path: str, count: int = 3) -> Dict[str, int]:
    """Count the most frequent words of a text file."""
    return dict(Counter(Path(path).read_text("utf-8").split()).most_common(count))


if __name__ == "__main__":
    mcp.run()

"""A server with one tool: which words a text file uses most."""
import re
from collections import Counter
from pathlib import Path

import mcplite

mcp = mcplite.Server("hello")


@mcp.tool()
def top_words(path: str, count: int = 3) -> dict[str, int]:
    """Count the most frequent long words of a text file."""
    words = re.findall(r"\w{5,}", Path(path).read_text("utf-8").lower())
    return dict(Counter(words).most_common(count))


if __name__ == "__main__":
    mcp.run()

"""A server whose effects are counted outside of it: each call writes its key to a file, whatever becomes of the process.

    python server.py FOLDER stdio
    python server.py FOLDER PORT [HOST]

FOLDER gets two files: ``effects``, with a line for each call, and ``started``, with the id of each process.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mcplite  # noqa: E402
from tests.support.tight import tight

folder = Path(sys.argv[1])
mcp = mcplite.Server("effects", limits=tight(unread_seconds=5, grace=1))


def note(name: str, text: str) -> None:
    """Add a line to a file, whole, whichever processes write at once."""
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
        mcp.run()
    else:
        mcp.run("streamable-http", port=int(sys.argv[2]), host=(sys.argv[3:] or ["127.0.0.1"])[0], allowed_hosts=["*"])

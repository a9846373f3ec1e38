"""A program that connects to a server as a child, for a test that interrupts it while it starts.

    python starts.py FOLDER
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mcplite  # noqa: E402

if __name__ == "__main__":
    with mcplite.connect([sys.executable, str(Path(__file__).with_name("server.py")), sys.argv[1], "stdio"]) as client:
        print(client.call_tool("act", {"key": "one"}).text, flush=True)
        sys.stdin.read()

"""Two servers as one: a server of this process and one of another, under names of their own.

    python -m mcplite list examples/hub.py
"""
import sys
from pathlib import Path

import mcplite

HELLO = Path(__file__).with_name("hello.py")

clock = mcplite.Server("clock")


@clock.tool()
def minutes(hours: float) -> float:
    """Turn hours into minutes."""
    return hours * 60


mcp = mcplite.Server("hub")
mcp.mount(clock, prefix="clock")
# The process starts with the hub's first client; while it is down, the rest of the hub goes on.
mcp.mount(mcplite.connect([sys.executable, str(HELLO)]), prefix="text")

if __name__ == "__main__":
    mcp.run()

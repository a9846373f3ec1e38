"""mcplite's server over HTTP with a resource that changes, for many clients that follow it."""

import json
import sys
import threading
import time

from common import allow_files
from ours_server import mcplite

URI = "floor://changing"
mcp = mcplite.Server("ours", limits=mcplite.Limits(connections=4000, sessions=4000, streams=4000))


@mcp.resource(URI)
def changing() -> str:
    """Return what changes."""
    return "changed"


@mcp.tool(structured_output=False)
def change() -> str:
    """Tell all clients of a change; return the milliseconds that this took."""
    begun = time.perf_counter()
    mcp.resource_updated(URI)
    return json.dumps((time.perf_counter() - begun) * 1000)


def main(mode):
    allow_files()
    with mcplite.serve(mcp) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

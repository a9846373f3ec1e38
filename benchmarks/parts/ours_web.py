"""mcplite's server over HTTP, with the same tools as over stdio, and one that asks."""

import sys
import threading

from ours_server import mcp, mcplite


@mcp.tool(structured_output=False)
def ask(n: int, ctx: mcplite.Context) -> str:
    """Ask the user for a number, and add it."""
    return str(n + ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}}).content["n"])


def main(mode):
    # It chooses JSON, or events if there is more than the result: both modes are one.
    with mcplite.serve(mcp) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""``caller.py`` written with the official SDK, one call after the other; the same arguments and output."""

import json
import os
import sys
import threading
import time

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

TIMEOUT = 4.0
ended = threading.Event()


async def call(target, count):
    """Call over one connection until it fails; return the number of the next call."""
    transport = (streamable_http_client(target) if isinstance(target, str)
                 else stdio_client(StdioServerParameters(command=target[0], args=target[1:])))
    key, begun = "none", time.monotonic()
    try:
        async with transport as streams, ClientSession(*streams[:2]) as session:
            with anyio.fail_after(5 * TIMEOUT):
                await session.initialize()
            while not ended.is_set():
                begun, key = time.monotonic(), f"{os.getpid()}-{count}"
                count += 1
                with anyio.fail_after(TIMEOUT):
                    answer = (await session.call_tool("act", {"key": key})).content[0].text
                print(json.dumps({"key": key, "answer": answer, "took": time.monotonic() - begun}), flush=True)
                await anyio.sleep(0.001)
    except Exception as error:  # groups of them, in most cases
        print(json.dumps({"key": key, "error": type(error).__name__, "text": repr(error)[:300],
                          "took": time.monotonic() - begun}), flush=True)
        await anyio.sleep(0.02)
    return count


async def main(target, *_):
    count = 0
    while not ended.is_set():
        count = await call(json.loads(target), count)


def watch():
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    threading.Thread(target=watch, daemon=True).start()
    anyio.run(main, *sys.argv[1:])

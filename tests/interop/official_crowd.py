"""Official clients of one machine, each with many calls at once; prints what came of them as JSON.

``python official_crowd.py URL CLIENTS CALLS SECONDS``
"""

import asyncio
import collections
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


def failures(error):
    """Return the failures in a group of them."""
    return [one for inner in error.exceptions for one in failures(inner)] if hasattr(error, "exceptions") else [error]


async def converse(url, calls, seconds, found):
    """Be one client."""
    async def call():
        try:
            result = await session.call_tool("slow", {"seconds": seconds})
            found["failed" if result.isError else "answered"] += 1
        except BaseException as error:
            found[f"call: {error!r}"] += 1
            raise

    try:
        async with streamablehttp_client(url) as (reading, writing, _), ClientSession(reading, writing) as session:
            await session.initialize()
            await asyncio.gather(*[call() for _ in range(calls)])
    except BaseException as error:
        for one in failures(error):
            found[f"client: {one!r}"] += 1


async def main(url, clients, calls, seconds):
    found = collections.Counter()
    await asyncio.gather(*[converse(url, int(calls), float(seconds), found) for _ in range(int(clients))])
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))

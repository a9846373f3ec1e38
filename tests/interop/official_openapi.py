"""The official SDK as a client of a server that is made of an API; prints what it saw as one JSON object.

    python official_openapi.py TARGET HEADERS CALLS

TARGET is the URL of the server, or its command as a JSON list. HEADERS is an object of headers of each request, and
CALLS a list of pairs of a tool and its arguments. Runs in an environment with ``mcp`` 1 or 2. The times are in
seconds: from the start of the server to the end of its first list, and of a second list.
"""

import contextlib
import json
import sys
import time

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import PaginatedRequestParams


@contextlib.asynccontextmanager
async def opened(target, headers):
    if target.startswith("http"):
        async with create_mcp_http_client(headers=headers) as http, streamable_http_client(target, http_client=http) as streams:
            yield streams[:2]
    else:
        command, *arguments = json.loads(target)
        async with stdio_client(StdioServerParameters(command=command, args=arguments)) as streams:
            yield streams


async def listed(session):
    tools, cursor = [], None
    while True:
        given = {} if cursor is None else {"params": PaginatedRequestParams(cursor=cursor)}
        page = json.loads((await session.list_tools(**given)).model_dump_json(by_alias=True, exclude_unset=True))
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return tools


async def main():
    target, headers, calls = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    begun = time.perf_counter()
    async with opened(target, headers) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = await listed(session)
        times = [time.perf_counter() - begun]
        await listed(session)
        times.append(time.perf_counter() - begun - times[0])
        results = [json.loads((await session.call_tool(name, arguments)).model_dump_json(by_alias=True))
                   for name, arguments in calls]
    print(json.dumps({"tools": {tool["name"]: tool for tool in tools}, "results": results, "times": times,
                      "bytes": sum(len(json.dumps(tool)) for tool in tools)}))


anyio.run(main)

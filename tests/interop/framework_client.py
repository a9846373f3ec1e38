"""The official SDK as a client of the Flask application and the Django project of ``tests/frameworks``.

    python framework_client.py URL legacy|modern HEADERS CALLS

HEADERS is JSON, and CALLS a list of ``[tool, arguments]``. It prints the revision, the tools, and of each call the texts,
what was asked, and the progress. Runs in an environment with ``mcp`` 1 (legacy only) or 2.
"""

import json
import sys
from contextlib import asynccontextmanager

import anyio
import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

asked = []


async def elicit(context, params):
    asked.append(params.message)
    return types.ElicitResult(action="accept", content={})


@asynccontextmanager
async def connected(url, era, headers):
    http = create_mcp_http_client(headers=headers)
    async with http:
        transport = streamable_http_client(url, http_client=http)
        if era == "modern":
            from mcp import Client

            async with Client(transport, elicitation_callback=elicit) as client:
                yield client, client.protocol_version
            return
        async with transport as streams, ClientSession(*streams[:2], elicitation_callback=elicit) as session:
            opened = await session.initialize()
            yield session, opened.model_dump(by_alias=True)["protocolVersion"]


async def main(url, era, headers, calls):
    progress = []

    async def on_progress(done, total, message):
        progress.append(done)

    async with connected(url, era, json.loads(headers)) as (client, revision):
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        results = []
        for name, arguments in json.loads(calls):
            result = await client.call_tool(name, arguments, progress_callback=on_progress)
            results.append({"text": result.content[0].text, "asked": list(asked), "progress": list(progress)})
            asked.clear()
            progress.clear()
    print(json.dumps({"revision": revision, "tools": tools, "results": results}))


anyio.run(main, *sys.argv[1:])

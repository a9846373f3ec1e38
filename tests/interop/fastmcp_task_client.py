"""FastMCP's client with the tasks of July 2026, for our server; prints what it saw as one JSON object.

    python fastmcp_task_client.py COMMAND ... | URL

Runs in an environment with ``fastmcp-tasks``, whose import makes the client take tasks.
"""

import json
import sys

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task


async def elicit(message, response_type, params, context):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def failure(call):
    try:
        await call
    except Exception as error:
        return str(error)
    return None


async def main(target):
    transport = target[0] if target[0].startswith("http") else StdioTransport(target[0], target[1:])
    async with Client(transport, elicitation_handler=elicit) as client:
        seen = {"plain": (await client.call_tool("plain", {"text": "now"})).content[0].text}
        if target[0].startswith("http"):
            seen["count"] = await failure(client.call_tool("count", {"to": 3}))
            print(json.dumps(seen))
            return
        seen["count"] = (await client.call_tool("count", {"to": 3})).content[0].text
        seen["either"] = (await client.call_tool("either", {"text": "now"})).content[0].text
        seen["greet"] = (await client.call_tool("greet")).content[0].text
        try:
            await client.call_tool("broken")
        except ToolError as error:
            seen["broken"] = str(error)
        task = await call_tool_task(client, "forever", {})
        seen["first"] = (await task.status()).status
        await task.cancel()
        seen["cancelled"] = (await task.status()).status
    print(json.dumps(seen))


anyio.run(main, sys.argv[1:])

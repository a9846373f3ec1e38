"""The official SDK as a client of a server with middleware; prints what each call gave as one JSON array.

    python official_guarded.py URL legacy|REVISION CALL ...

A CALL is the name of a tool; ``tools`` lists them. A call gives its text and whether it failed, or the code and the data of
an error. Runs in an environment with ``mcp`` 2.
"""

import json
import sys

import anyio
from mcp import Client, MCPError


async def main(url, mode, calls):
    seen = []
    async with Client(url, mode=mode) as client:
        for name in calls:
            try:
                if name == "tools":
                    seen.append(sorted(tool.name for tool in (await client.list_tools()).tools))
                    continue
                result = await client.call_tool(name, {})
                seen.append([result.content[0].text, bool(result.is_error)])
            except MCPError as error:
                seen.append({"code": error.error.code, "data": error.error.data})
    print(json.dumps(seen))


anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])

"""fastmcp's server of an OpenAPI document, with a client in the same process; runs in an environment that has ``fastmcp`` 4."""

import json
import sys
import time

import anyio
import httpx2
import official_driver
from common import usage
from fastmcp import Client, FastMCP


class Commands:
    """The commands of a driver, as in ``floor_api_driver.py``."""

    def __init__(self):
        self.client = None

    async def usage(self):
        return usage()

    async def open(self, target, document):
        with open(document, "rb") as file:
            spec = json.load(file)
        mcp = FastMCP.from_openapi(spec, httpx2.AsyncClient(base_url=target), name="fastmcp")
        self.client = Client(mcp)
        await self.client.__aenter__()
        return len(await self.client.list_tools())

    async def call(self, count):
        clock = time.perf_counter_ns
        taken = []
        for n in range(count):
            begun = clock()
            result = await self.client.call_tool("read_item", {"id": n, "limit": 5})
            if result.structured_content["id"] != n:
                raise AssertionError("wrong item")
            taken.append(clock() - begun)
        return taken

    async def close(self):
        await self.client.__aexit__(None, None, None)


async def main(arguments):
    commands = Commands()
    if arguments:
        print(await commands.open(*arguments))
        await commands.close()
    else:
        await official_driver.answer_commands(commands)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])

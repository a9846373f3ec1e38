"""An agent with the official SDK: opens several servers at once and prints how many tools they have."""

import sys

import anyio
from official_driver import connect


async def main(count, *command):
    tools, listed = [], anyio.Event()

    async def use():
        async with connect(list(command)) as client:
            tools.append(len((await client.list_tools()).tools))
            if len(tools) == int(count):
                print(sum(tools), flush=True)
                listed.set()
            await listed.wait()

    async with anyio.create_task_group() as group:
        for _ in range(int(count)):
            group.start_soon(use)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])

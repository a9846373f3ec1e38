"""The official SDK as a client; runs in an environment that has ``mcp`` 2, in its legacy mode."""

import json
import sys
import time

import anyio
from common import expect, text_of, usage
from mcp import Client, StdioServerParameters

#: The SDK's names of the eras.
MODES = {"legacy": "legacy", "modern": "2026-07-28"}


def connect(target, era="legacy"):
    if not isinstance(target, str):
        target = StdioServerParameters(command=target[0], args=target[1:], env=None)
    return Client(target, mode=MODES[era], cache=None)


class Commands:
    """The commands of a driver, as in ``floor_driver.py``."""

    #: The parameter of ``call_tool`` for progress.
    progress_option = "progress_callback"

    def __init__(self):
        self.client = None

    async def open(self, target, era="legacy"):
        self.client = connect(target, era)
        await self.client.__aenter__()
        return len((await self.client.list_tools()).tools)

    async def add(self, count):
        clock = time.perf_counter_ns
        taken = []
        for n in range(count):
            begun = clock()
            result = await self.client.call_tool("add", {"a": n, "b": 1})
            if result.structured_content["result"] != n + 1:
                raise AssertionError("wrong sum")
            taken.append(clock() - begun)
        return taken

    async def text(self, size):
        begun = time.perf_counter_ns()
        result = await self.client.call_tool("text", {"size": size})
        taken = time.perf_counter_ns() - begun
        expect("text", size, len(result.content[0].text))
        return taken

    async def stream(self, size):
        seen = []

        async def note(progress, total, message):
            seen.append(progress)

        begun = time.perf_counter_ns()
        result = await self.client.call_tool("stream", {"size": size}, **{self.progress_option: note})
        taken = time.perf_counter_ns() - begun
        expect("stream", (size, 1), (len(result.content[0].text), len(seen)))
        return taken

    async def argument(self, size):
        text = text_of(size)
        begun = time.perf_counter_ns()
        result = await self.client.call_tool("length", {"text": text})
        taken = time.perf_counter_ns() - begun
        expect("length", str(size), result.content[0].text)
        return taken

    async def progress(self, count):
        seen = []

        async def note(progress, total, message):
            seen.append(progress)

        begun = time.perf_counter_ns()
        await self.client.call_tool("progress", {"count": count}, **{self.progress_option: note})
        taken = time.perf_counter_ns() - begun
        expect("progress", list(range(1, count + 1)), [int(value) for value in seen])
        return taken

    async def quick(self, seconds):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.client.call_tool, "sleep", {"seconds": seconds})
            await anyio.sleep(0.02)
            begun = time.perf_counter_ns()
            await self.client.call_tool("add", {"a": 1, "b": 1})
            taken = time.perf_counter_ns() - begun
        return taken

    async def list(self):
        begun = time.perf_counter_ns()
        count, cursor = 0, None
        while True:
            page = await self.client.list_tools(cursor=cursor)
            count, cursor = count + len(page.tools), page.next_cursor
            if cursor is None:
                return {"taken": time.perf_counter_ns() - begun, "count": count}

    async def server_usage(self):
        return json.loads((await self.client.call_tool("usage", {})).content[0].text)

    async def usage(self):
        return usage()

    async def close(self):
        await self.client.__aexit__(None, None, None)


async def answer_commands(commands):
    """The loop of ``common.answer_commands``, between awaits."""
    while True:
        line = await anyio.to_thread.run_sync(sys.stdin.readline)
        if not line:
            return
        order = json.loads(line)
        name = order.pop("do")
        try:
            reply = {"value": await getattr(commands, name)(**order)}
        except Exception as error:
            import traceback

            traceback.print_exc()
            reply = {"error": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


async def main(arguments):
    if arguments:
        async with connect(arguments) as client:
            await client.list_tools()
    else:
        await answer_commands(Commands())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])

"""The official SDK's client with its experimental tasks, for our server; prints what it saw as one JSON object.

    python official_task_client.py COMMAND ... | URL

Runs in an environment with ``mcp`` 1.30. The client starts tasks at the server, and serves questions that are tasks.
"""

import asyncio
import contextlib
import json
import sys

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore

NAME = types.ElicitResult(action="accept", content={"name": "Ada"})
NICE = types.CreateMessageResult(role="assistant", model="test-model", content=types.TextContent(type="text", text="very"))


class Questions:
    """Answers questions of the server: at once, or as tasks."""

    def __init__(self):
        self.store, self.asked, self.workers = InMemoryTaskStore(), [], set()

    async def elicit(self, context, params):
        self.asked.append("elicitation")
        return NAME

    async def later(self, result, kind, metadata):
        task = await self.store.create_task(metadata)
        self.asked.append(f"{kind} as a task")

        async def work():
            await asyncio.sleep(0.1)
            await self.store.store_result(task.taskId, result)
            await self.store.update_task(task.taskId, status="completed")

        worker = asyncio.create_task(work())
        self.workers.add(worker)
        return types.CreateTaskResult(task=task)

    async def elicit_later(self, context, params, metadata):
        return await self.later(NAME, "elicitation", metadata)

    async def sample_later(self, context, params, metadata):
        return await self.later(NICE, "sampling", metadata)

    async def get(self, context, params):
        task = await self.store.get_task(params.taskId)
        self.asked.append("tasks/get")
        return types.GetTaskResult(**task.model_dump())

    async def result(self, context, params):
        self.asked.append("tasks/result")
        return types.GetTaskPayloadResult.model_validate((await self.store.get_result(params.taskId)).model_dump())

    async def sample(self, context, params):
        self.asked.append("sampling")
        return NICE

    @property
    def handlers(self):
        return ExperimentalTaskHandlers(get_task=self.get, get_task_result=self.result, augmented_sampling=self.sample_later,
                                        augmented_elicitation=self.elicit_later)


@contextlib.asynccontextmanager
async def connected(target):
    if target[0].startswith("http"):
        async with streamablehttp_client(target[0]) as (read, write, _):
            yield read, write
    else:
        async with stdio_client(StdioServerParameters(command=target[0], args=target[1:])) as streams:
            yield streams


async def finished(session, tool, arguments):
    """Call a tool as a task, poll it, and return its last state and its result."""
    created = await session.experimental.call_tool_as_task(tool, arguments, ttl=60_000)
    async for state in session.experimental.poll_task(created.task.taskId):
        if state.status == "input_required":
            break
    result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
    state = await session.experimental.get_task(created.task.taskId)
    return {"first": created.task.status, "last": state.status, "ttl": state.ttl, "interval": state.pollInterval,
            "message": state.statusMessage, "text": result.content[0].text, "is_error": bool(result.isError),
            "related": (result.meta or {}).get("io.modelcontextprotocol/related-task") == {"taskId": created.task.taskId}}


async def failure(call):
    try:
        await call
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}
    return None


async def main(target):
    questions, seen = Questions(), {}
    async with connected(target) as (read, write):
        async with ClientSession(read, write, elicitation_callback=questions.elicit, sampling_callback=questions.sample,
                                 experimental_task_handlers=questions.handlers) as session:
            started = await session.initialize()
            seen["declared"] = started.capabilities.tasks.model_dump(exclude_none=True)
            listed = (await session.list_tools()).tools
            seen["support"] = {tool.name: tool.execution.taskSupport for tool in listed if tool.execution}
            seen["count"] = await finished(session, "count", {"to": 3})
            seen["either"] = await finished(session, "either", {"text": "now"})
            seen["at once"] = (await session.call_tool("either", {"text": "now"})).content[0].text
            seen["broken"] = await finished(session, "broken", {})
            seen["greet"] = await finished(session, "greet", {})
            created = await session.experimental.call_tool_as_task("forever", {}, ttl=60_000)
            seen["cancelled"] = (await session.experimental.cancel_task(created.task.taskId)).status
            seen["again"] = await failure(session.experimental.cancel_task(created.task.taskId))
            seen["unknown"] = await failure(session.experimental.get_task("no-such-task"))
            seen["plain"] = await failure(session.experimental.call_tool_as_task("plain", {"text": "x"}))
            seen["without"] = await failure(session.call_tool("count", {"to": 1}))
            seen["list"] = await failure(session.experimental.list_tasks())
            questions.asked.clear()
            seen["confer"] = (await session.call_tool("confer", {})).content[0].text
            seen["asked"] = questions.asked
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1:]))

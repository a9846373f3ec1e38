"""A server with tasks written with FastMCP, for our client; runs in an environment with ``fastmcp-tasks``.

    python fastmcp_tasks_server.py [stdio | http]

Over HTTP the first line says where it is. The tasks are of the extension of July 2026.
"""

import asyncio
import socket
import sys
from datetime import timedelta

import mcp.types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

mcp = FastMCP("fast tasks")
mcp.add_extension(TasksExtension())
SOON = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))


@mcp.tool(task=SOON)
async def count(to: int) -> int:
    """Count, one step every twentieth of a second."""
    for _ in range(to):
        await asyncio.sleep(0.05)
    return to


@mcp.tool(task=SOON)
async def forever() -> None:
    """Never end."""
    await asyncio.Event().wait()


@mcp.tool(task=SOON)
async def broken() -> str:
    """Fail."""
    raise ToolError("it broke")


@mcp.tool(task=SOON)
async def greet(ctx: Context) -> str | types.InputRequiredResult:
    """Ask for a name in the middle."""
    if ctx.input_responses:
        return f"Hello {ctx.input_responses['who'].content['name']}"
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = types.ElicitRequestFormParams(message="Who is there?", requested_schema=form)
    return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)})


@mcp.tool(task=TaskConfig(mode="optional"))
async def either(text: str) -> str:
    """Return the text."""
    return text


def serve_http():
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    import uvicorn

    uvicorn.Server(uvicorn.Config(mcp.http_app(), log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        serve_http()
    else:
        mcp.run(show_banner=False)

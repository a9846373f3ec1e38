"""A server written with FastMCP, for our client; runs in an environment with ``fastmcp`` 4.

    python fastmcp_server.py [stdio | http | sse]

Over HTTP the first line says where it is; "http" keeps events for resumption. It serves clients with and without a
handshake; a tool asks the latter by what it returns, and nothing tells them of changes (fastmcp 4.1.2).
"""

import json
import socket
import sys
from dataclasses import dataclass

import anyio
import mcp.types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.event_store import EventStore
from fastmcp.utilities.types import Image

mcp = FastMCP("fast", instructions="Try it.", version="4.5.6", cache_ttl=60)


@dataclass
class Weather:
    city: str
    high: float


@dataclass
class Booking:
    name: str
    guests: int


@mcp.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool
def scalar(kind: str) -> str | float | bool | list[str] | None:
    """Return a value that is no object."""
    return {"text": "it is 3", "number": 2.5, "flag": True, "list": ["a", "b"], "empty": [], "nothing": None}[kind]


@mcp.tool
def weather(city: str) -> Weather:
    """Tell the weather."""
    return Weather(city, 21.5)


@mcp.tool
def picture() -> Image:
    """Return an image."""
    return Image(data=b"\x89PNG\r\n\x1a\nrest", format="png")


@mcp.tool
def fail() -> str:
    """Fail."""
    raise ToolError("it went wrong")


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Count, with progress and a log message."""
    for n in range(1, to + 1):
        await ctx.report_progress(n, to, f"at {n}")
    await ctx.warning("counted", logger_name="counter")
    return "counted"


@mcp.tool
async def book(ctx: Context) -> str:
    """Ask for a form."""
    answer = await ctx.elicit("Your booking?", Booking)
    return json.dumps([answer.action, vars(answer.data) if answer.action == "accept" else None])


@mcp.tool
async def ask_model(ctx: Context) -> str:
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="What is the time?"))
    return (await ctx.session.create_message([message], max_tokens=50)).content.text


@mcp.tool
async def list_roots(ctx: Context) -> list[str]:
    """Return the client's roots."""
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


@mcp.tool
async def change(ctx: Context) -> str:
    """Add a tool, and tell of it."""
    mcp.add_tool(new_tool)
    await ctx.send_notification(types.ToolListChangedNotification(method="notifications/tools/list_changed"))
    return "changed"


def new_tool() -> str:
    """New."""
    return "new"


@mcp.tool
async def close_stream(ctx: Context) -> str:
    """Close the connection in the middle of the call."""
    await ctx.report_progress(1, 2)
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2)
    return "went on"


def ask_name(number):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = types.ElicitRequestFormParams(message=f"Name {number}?", requested_schema=schema)
    return {"next": types.ElicitRequest(params=params)}


@mcp.tool
async def interview(ctx: Context) -> str | types.InputRequiredResult:
    """Ask one question after another; what was answered before is in the state."""
    names = json.loads(ctx.request_state or "[]")
    if ctx.input_responses:
        names.append(ctx.input_responses["next"].content["name"])
    if len(names) == 2:
        return json.dumps(names)
    return types.InputRequiredResult(input_requests=ask_name(len(names) + 1), request_state=json.dumps(names))


reads = 0


@mcp.resource("counted://reads")
def counted() -> str:
    """How often it was read."""
    global reads
    reads += 1
    return str(reads)


@mcp.resource("config://settings", mime_type="application/json")
def settings() -> str:
    """The settings."""
    return '{"colour": "blue"}'


@mcp.resource("notes://{title}")
def note(title: str) -> str:
    """A note."""
    return f"the note {title}"


@mcp.prompt
def briefing(city: str, tone: str = "neutral") -> str:
    """Ask for a briefing."""
    return f"Write a {tone} briefing for {city}."


def serve_http(transport):
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/{'sse' if transport == 'sse' else 'mcp'}", flush=True)
    import uvicorn

    options = {} if transport == "sse" else {"event_store": EventStore(), "retry_interval": 100}
    app = mcp.http_app(transport=transport, **options)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] in ([], ["stdio"]):
        anyio.run(lambda: mcp.run_stdio_async(show_banner=False))
    else:
        serve_http(sys.argv[1])

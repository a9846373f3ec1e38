"""A server written with the official SDK, for our client; runs in an environment with ``mcp`` 1 or 2.

    python official_server.py [stdio | http | json | stateless | sse] [REVISION]

Over HTTP the first line says where it is. "http" keeps events for resumption, "json" answers without event
streams, "stateless" keeps no sessions, "sse" is HTTP+SSE. A revision makes the first generation know no other one.

The second generation serves clients with and without a handshake. Without one a handler cannot ask in the middle
(mcp 2.3.0): a resolver asks before it runs, or it returns what it asks. Those are the tools at the end.
"""

import json
import socket
import sys
from importlib.metadata import version
from typing import Annotated, Literal

import anyio
import mcp.types as types
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel, Field

FIRST = version("mcp").startswith("1.")
if FIRST:
    from mcp.server.fastmcp import Context, FastMCP as MCPServer, Image
else:
    from mcp.server.caching import CacheHint
    from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, ListRoots, MCPServer, Resolve, Sample

TRANSPORT = sys.argv[1] if len(sys.argv) > 1 else "stdio"
if sys.argv[2:]:
    # The SDK has no option for it.
    import mcp.server.session

    types.LATEST_PROTOCOL_VERSION = sys.argv[2]
    mcp.server.session.SUPPORTED_PROTOCOL_VERSIONS = [sys.argv[2]]


class Events(EventStore):
    """Keeps events in memory."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream, _ = self.events[last - 1]
        for number, (of, message) in enumerate(self.events[last:], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


#: For Streamable HTTP; the first generation takes it when the server is made.
options = {"event_store": Events(), "retry_interval": 100} if TRANSPORT == "http" else {}
if TRANSPORT in ("json", "stateless"):
    options = {"json_response" if TRANSPORT == "json" else "stateless_http": True}
mcp = MCPServer("official", instructions="Try it.", website_url="https://example.com", log_level="ERROR",
                **(options if FIRST else {"cache_hints": {"tools/list": CacheHint(60_000, "public"),
                                                          "resources/read": CacheHint(60_000)}}))


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Weather(BaseModel):
    city: str
    high: float = Field(description="Degrees")
    notes: list[str] = []


@mcp.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def scalar(kind: str) -> str | float | bool | list[str] | None:
    """Return a value that is no object."""
    return {"text": "it is 3", "number": 2.5, "flag": True, "list": ["a", "b"], "empty": [], "nothing": None}[kind]


@mcp.tool(structured_output=True)
def weather(city: str, unit: Literal["celsius", "kelvin"] = "celsius") -> Weather:
    """Tell the weather."""
    return Weather(city=city, high=21.5, notes=[unit])


@mcp.tool()
def picture() -> Image:
    """Return an image."""
    return Image(data=b"\x89PNG\r\n\x1a\nrest", format="png")


@mcp.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@mcp.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, with progress and log messages."""
    for n in range(1, to + 1):
        await ctx.report_progress(n, to, f"at {n}")
    await ctx.info("counted")
    await ctx.session.send_log_message(level="error", data={"counted": to}, logger="counter")
    return "counted"


stopped = anyio.Event()


@mcp.tool()
async def wait_to_be_cancelled(ctx: Context) -> str:
    """Wait until the client cancels."""
    await ctx.report_progress(1, 2)
    try:
        await anyio.sleep(60)
    finally:
        stopped.set()
    return "nobody cancelled"


@mcp.tool()
async def was_cancelled() -> bool:
    """Tell whether the client did."""
    with anyio.move_on_after(20):
        await stopped.wait()
    return stopped.is_set()


@mcp.tool()
async def close_stream(ctx: Context) -> str:
    """Close the connection in the middle of the call."""
    await ctx.report_progress(1, 2)
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2)
    return "went on"


@mcp.tool()
async def interrupted(ctx: Context) -> str:
    """Say something that makes a proxy break off the connection, and go on."""
    await ctx.report_progress(1, 3, "cut-here")
    await anyio.sleep(0.2)  # what follows is said while there is no connection
    await ctx.report_progress(2, 3)
    await ctx.report_progress(3, 3)
    return "went on"


class Booking(BaseModel):
    name: str = Field(description="Your name")
    guests: int = Field(ge=1, le=9)
    window: bool = True


@mcp.tool()
async def book(ctx: Context) -> str:
    """Ask for a form."""
    answer = await ctx.elicit("Your booking?", Booking)
    return json.dumps([answer.action, answer.data.model_dump() if answer.action == "accept" else None])


@mcp.tool()
async def visit(ctx: Context) -> str:
    """Ask the user to visit a page, and tell that it is done."""
    answer = await ctx.elicit_url("Sign in", "https://example.com/sign-in", "id-1")
    await ctx.session.send_elicit_complete("id-1")
    return answer.action


@mcp.tool()
async def ask_model(ctx: Context) -> str:
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="What is the time?"))
    reply = await ctx.session.create_message([message], max_tokens=50, system_prompt="Be brief.")
    return json.dumps(plain(reply))


@mcp.tool()
async def ask_model_with_tools(ctx: Context) -> str:
    """Ask the client's model, which may use a tool."""
    tool = types.Tool.model_validate({"name": "clock", "inputSchema": {"type": "object"}})
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="What is the time?"))
    reply = await ctx.session.create_message([message], max_tokens=50, tools=[tool],
                                             tool_choice=types.ToolChoice(mode="auto"))
    return json.dumps(plain(reply))


@mcp.tool()
async def list_roots(ctx: Context) -> str:
    """Return the client's roots."""
    return json.dumps([plain(root) for root in (await ctx.session.list_roots()).roots])


@mcp.tool()
async def change(ctx: Context) -> str:
    """Add a tool and tell of it, and of changes elsewhere."""
    mcp.add_tool(lambda: "new", name="new_tool")
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()
    await ctx.session.send_resource_updated("config://settings")
    return "changed"


@mcp.resource("config://settings", mime_type="application/json", title="Settings")
def settings() -> str:
    """The settings."""
    return '{"colour": "blue"}'


@mcp.resource("data://bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    """Some bytes."""
    return b"\x00\x01\x02"


@mcp.resource("notes://{title}", mime_type="text/plain")
def note(title: str) -> str:
    """A note."""
    return f"the note {title}"


@mcp.prompt(title="Briefing")
def briefing(city: str, tone: str = "neutral") -> str:
    """Ask for a briefing."""
    return f"Write a {tone} briefing for {city}."


reads = 0


@mcp.resource("counted://reads")
def counted() -> str:
    """How often it was read."""
    global reads
    reads += 1
    return str(reads)


@mcp.completion()
async def complete(ref, argument, context):
    if argument.name == "city":
        return types.Completion(values=[city for city in ("Paris", "Prague", "Rome") if city.startswith(argument.value)])
    return types.Completion(values=[(context.arguments or {}).get("city", "none") if context else "none"])


# --- for clients without a handshake ---------------------------------------------------------------

if not FIRST:
    TIME = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="What is the time?"))

    class Name(BaseModel):
        name: str

    def ask_booking() -> Elicit[Booking]:
        return Elicit("Your booking?", Booking)

    def ask_time() -> Sample:
        return Sample([TIME], max_tokens=50)

    def ask_roots() -> ListRoots:
        return ListRoots()

    @mcp.tool()
    def reserve(answer: Annotated[ElicitationResult[Booking], Resolve(ask_booking)]) -> str:
        """Ask for a form."""
        return json.dumps([answer.action, answer.data.model_dump() if answer.action == "accept" else None])

    @mcp.tool()
    def survey(booking: Annotated[Booking, Resolve(ask_booking)],
               time: Annotated[types.CreateMessageResult, Resolve(ask_time)],
               roots: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
        """Ask for all kinds of things at once."""
        return json.dumps([booking.name, time.content.text, [str(root.uri) for root in roots.roots]])

    def ask_name(number):
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        params = types.ElicitRequestFormParams(message=f"Name {number}?", requested_schema=schema)
        return {"next": types.ElicitRequest(params=params)}

    @mcp.tool()
    async def interview(ctx: Context) -> str | types.InputRequiredResult:
        """Ask one question after another; what was answered before is in the state."""
        names = json.loads(ctx.request_state or "[]")
        if ctx.input_responses:
            names.append(ctx.input_responses["next"].content["name"])
        if len(names) == 2:
            return json.dumps(names)
        return types.InputRequiredResult(input_requests=ask_name(len(names) + 1), request_state=json.dumps(names))

    @mcp.tool()
    async def later(ctx: Context) -> str | types.InputRequiredResult:
        """Not be ready at first: there is nothing to answer, only to ask again."""
        return "now" if ctx.request_state else types.InputRequiredResult(request_state="soon")

    @mcp.tool()
    async def sign_in(ctx: Context) -> str | types.InputRequiredResult:
        """Ask the user to visit a page."""
        if ctx.input_responses:
            return ctx.input_responses["page"].action
        params = types.ElicitRequestURLParams(message="Sign in", url="https://example.com/sign-in")
        return types.InputRequiredResult(input_requests={"page": types.ElicitRequest(params=params)})

    @mcp.resource("diary://{day}")
    async def diary(day: str, ctx: Context) -> str | types.InputRequiredResult:
        """A diary, by name."""
        if ctx.input_responses:
            return f"{day} of {ctx.input_responses['next'].content['name']}"
        return types.InputRequiredResult(input_requests=ask_name(1))

    @mcp.prompt()
    async def personal(greeting: str, ctx: Context) -> str | types.InputRequiredResult:
        """Ask for a name first."""
        if ctx.input_responses:
            return f"{greeting} {ctx.input_responses['next'].content['name']}"
        return types.InputRequiredResult(input_requests=ask_name(1))

    @mcp.tool()
    def locate(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
               floor: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Floor"})], ctx: Context) -> str:
        """Return parameters that travel in headers as well, and those headers."""
        seen = {name: value for name, value in (ctx.headers or {}).items() if name.startswith("mcp-param-")}
        return json.dumps([region, floor, seen])

    @mcp.tool()
    async def tell(ctx: Context) -> str:
        """Tell those who listen of changes everywhere."""
        for _ in range(2):
            await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()
        await ctx.notify_resource_updated("counted://other")
        await ctx.notify_resource_updated("counted://reads")
        return "told"


def serve_http():
    import uvicorn

    if TRANSPORT == "sse":
        app = mcp.sse_app()
    else:
        app = mcp.streamable_http_app(**({} if FIRST else options))
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/{'sse' if TRANSPORT == 'sse' else 'mcp'}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    mcp.run("stdio") if TRANSPORT == "stdio" else serve_http()

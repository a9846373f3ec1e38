"""The official SDK as one side, and this package as the other, both with OpenTelemetry; each side writes its spans to a file.

    python official_traced.py client OURS THEIRS REVISION     their client starts our server
    python official_traced.py server OURS THEIRS REVISION     our client starts their server
    python official_traced.py serve FILE                      their server, on stdio

Runs in an environment with ``mcp`` 2 and ``opentelemetry-sdk``, and this package on its path.
"""

import os
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

TRACED = Path(__file__).resolve().parent.parent / "contrib" / "otel" / "traced_server.py"


def writing_to(path):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(
        out=open(path, "a", encoding="utf-8"), formatter=lambda span: span.to_json(indent=None) + "\n")))
    return provider


def their_client(ours, theirs, revision):
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    trace.set_tracer_provider(writing_to(theirs))
    server = StdioServerParameters(command=sys.executable, args=[str(TRACED)], env={**os.environ, "SPANS": ours})

    async def call():
        async with Client(stdio_client(server), mode=revision) as client:
            print(await client.call_tool("add", {"a": 1, "b": 2}))

    anyio.run(call)


def their_server(path):
    from mcp.server.mcpserver import MCPServer

    trace.set_tracer_provider(writing_to(path))
    server = MCPServer("theirs")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    server.run("stdio")


def our_client(ours, theirs, revision):
    import mcplite
    from mcplite.contrib import otel

    command = [sys.executable, __file__, "serve", theirs]
    client = mcplite.connect(command, revision=revision, env=dict(os.environ))
    with otel.instrument_client(client, tracer_provider=writing_to(ours)):
        print(client.call_tool("add", {"a": 1, "b": 2}).text)


if __name__ == "__main__":
    side, arguments = sys.argv[1], sys.argv[2:]
    {"client": their_client, "server": our_client, "serve": their_server}[side](*arguments)

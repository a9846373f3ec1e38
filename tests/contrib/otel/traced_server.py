"""The server of the telemetry tests: loaded by them, or a process of its own that writes its spans to a file.

The variable SPANS names the file. The process serves stdio, or WSGI by ``--call traced_server:application``.
"""

import os

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import mcplite
from mcplite.contrib import otel


def make():
    """Return a new server, not instrumented."""
    mcp = mcplite.Server("traced")

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool()
    def fail() -> str:
        raise mcplite.ToolError("no such city")

    @mcp.tool()
    def current(ctx: mcplite.Context) -> dict:
        """The current span of the handler's thread."""
        span = trace.get_current_span().get_span_context()
        return {"trace": f"{span.trace_id:032x}", "span": f"{span.span_id:016x}", "baggage": dict(baggage.get_all())}

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        return ctx.elicit("May I?").action

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        if name == "none":
            raise mcplite.errors.ResourceNotFound("there is no such note")
        return f"note {name}"

    @mcp.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    return mcp


def instrumented():
    """Return a server that writes its spans to the file."""
    file = open(os.environ["SPANS"], "a", encoding="utf-8")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(
        ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")))
    return otel.instrument_server(make(), tracer_provider=provider)


def application():
    return instrumented().wsgi("/mcp")


if __name__ == "__main__":
    instrumented().run()

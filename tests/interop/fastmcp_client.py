"""FastMCP's client of ``everything.py``; prints what it saw as one JSON object.

    python fastmcp_client.py TARGET auto|legacy|REVISION

TARGET is the Python to start the server with, or a URL. Runs in an environment with ``fastmcp`` 4. What its client
cannot do in 4.1.2 is left out: without a handshake it subscribes to nothing, and it keeps lists, but no resources.
"""

import json
import os
import sys
from pathlib import Path

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

EVERYTHING = Path(__file__).with_name("everything.py")
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
asked = []


async def elicit(message, response_type, params, context):
    asked.append(message)
    if message == "Your booking?":
        return ElicitResult(action="accept", content={"name": "Ada", "guests": 2})
    return ElicitResult(action="accept", content={"name": "Ada"} if message == "Your name?" else {"ok": True})


async def sample(messages, params, context):
    asked.append(messages[0].content.text)
    return "It is late."


def transport(target):
    if target.startswith("http:"):
        return target
    environment = {key: os.environ[key] for key in ("WIRE_REPORT", "MCPLITE_SCHEMAS") if key in os.environ}
    return StdioTransport(command=target, args=[str(EVERYTHING)], env=environment, keep_alive=False)


async def main(target, mode):
    report = {}

    async def attempt(name, awaitable):
        try:
            report[name] = await awaitable
        except (ToolError, MCPError) as error:
            report[name] = {"error": type(error).__name__, "message": str(error)}

    async def call(name, arguments=None, **options):
        with anyio.fail_after(60):
            result = await client.call_tool(name, arguments or {}, **options)
            return result.content[0].text if result.structured_content is None else result.structured_content

    seen, logs = [], []

    async def log(message):
        logs.append(message.level)

    async def progress(done, total, message):
        seen.append([done, total, message])

    async with Client(transport(target), mode=mode, cache=True, roots=["file:///srv/data"], elicitation_handler=elicit,
                      sampling_handler=sample, log_handler=log) as client:
        report["revision"] = client.protocol_version
        report["server"] = client.server_info and client.server_info.name
        report["instructions"] = client.instructions
        report["tools"] = [tool.name for tool in await client.list_tools()]
        await attempt("point", call("point"))
        await attempt("fail", call("fail", {"how": "tool"}))
        await attempt("count", call("count", {"to": 3}, progress_handler=progress))
        report["progress"] = seen
        # It has no option for it: a request says it, or, with a handshake, a request of its own.
        if mode == "legacy":
            await client.set_logging_level("error")
        await attempt("write_log", call("write_log", meta={LOG_LEVEL: "error"}))
        report["logs"] = logs
        for name in ("book", "interview", "survey", "visit"):
            await attempt(name, call(name))
        report["diary"] = (await client.read_resource("diary://monday"))[0].text
        report["personal"] = (await client.get_prompt("personal", {"greeting": "Dear"})).messages[0].content.text
        report["ttls"] = [(await client.list_tools_mcp()).ttl_ms,
                          (await client.read_resource_mcp("counted://reads")).ttl_ms]
        await attempt("locate", call("locate", {"region": "Zürich", "floor": -1}))
        await attempt("no_tool", call("no_such_tool"))
        with anyio.move_on_after(30) as scope:
            async def stop(done, total, message):
                scope.cancel()

            await call("wait_to_be_cancelled", progress_handler=stop)
        await attempt("was_cancelled", call("was_cancelled"))
        report["asked"] = asked
    print(json.dumps(report))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])

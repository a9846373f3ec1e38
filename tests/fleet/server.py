"""The server of the fleet's tests; what it has done it notes in files of the folder FLEET_FOLDER, which all workers see."""

import os
from typing import List

import mcplite
from tests.support.marks import counted, create_marks

mcp = mcplite.Server("fleet", limits=mcplite.Limits(sessions=20_000, running=256, connections=2048))
marks = create_marks("FLEET_FOLDER")
FORM = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
READ_ONLY = mcplite.types.ToolAnnotations(read_only_hint=True, idempotent_hint=True)


@mcp.tool(annotations=READ_ONLY)
def reverse(text: str) -> str:
    return text[::-1]


@mcp.tool()
def whoami() -> int:
    return os.getpid()


@mcp.tool()
def act(key: str, ctx: mcplite.Context) -> str:
    """Have one effect."""
    ctx.once("act", lambda: marks.add(f"{key} act"))
    return key[::-1]


@mcp.tool()
def linger(key: str, ctx: mcplite.Context) -> str:
    """Have one effect, and take a while."""
    ctx.sleep(0.3)
    ctx.once("act", lambda: marks.add(f"{key} act"))
    ctx.sleep(0.3)
    return key[::-1]


@mcp.tool()
def book(key: str, ctx: mcplite.Context) -> str:
    """Ask, have an effect, and ask again; the answers to the questions are words of the key."""
    marks.add(f"{key} by {os.getpid()}")
    first = ctx.elicit(f"first {key}", FORM).content["word"]
    ctx.once("pay", lambda: marks.add(f"{key} act"))
    second = ctx.elicit(f"second {key}", FORM).content["word"]
    return f"{first} {second}"


@mcp.tool()
def survey(ctx: mcplite.Context) -> List[str]:
    """Ask everything that a client can be asked."""
    word = ctx.elicit("first survey", FORM).content["word"]
    return [word, ctx.sample("Why?", max_tokens=20).text, *[root.uri for root in ctx.list_roots()]]


@mcp.tool()
def steps(key: str, count: int, ctx: mcplite.Context) -> str:
    """Report progress; after the first step wait until a test lets it go on."""
    for step in range(1, count + 1):
        ctx.report_progress(step, count)
        if step == 1:
            marks.add(f"{key} begun")
            marks.wait(f"{key} go", 90)
    return f"{count} steps in {os.getpid()}"


@mcp.tool()
def block(key: str, ctx: mcplite.Context) -> str:
    """Wait for cancellation, and note it."""
    marks.add(f"{key} begun")
    ctx.report_progress(0)
    try:
        ctx.sleep(90)
    except mcplite.Cancelled:
        marks.add(f"{key} stopped")
        raise
    return "not cancelled"


@mcp.tool()
def speak(words: List[str], ctx: mcplite.Context) -> str:
    for word in words:
        ctx.log("info", word)
        ctx.log("debug", f"quiet {word}")
    return "said"


@mcp.tool()
def touch(uri: str) -> int:
    mcp.resource_updated(uri)
    return os.getpid()


@mcp.resource("shop://stock")
def stock() -> str:
    return "17"


@mcp.resource("shop://price")
def price() -> str:
    return "4"


endpoint = mcp.wsgi(path="/mcp", legacy_sse=True)
application = counted(endpoint)

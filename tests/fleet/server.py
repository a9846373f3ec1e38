"""The server of the fleet's tests; what it has done it notes in files of the folder FLEET_FOLDER, which all workers see."""

import os
from typing import List

import mcplite
from tests.fleet.tasks import token
from tests.support.marks import counted, create_marks
from tests.support.tight import tight

#: How many principals there are; 0 for a server without authentication.
PRINCIPALS = int(os.environ.get("FLEET_PRINCIPALS", "0"))
auth = mcplite.StaticTokens({token(number): f"principal {number}" for number in range(PRINCIPALS)}) if PRINCIPALS else None
limits = tight(sessions=20_000, fleet_sessions=20_000, running=256, connections=2048)
mcp = mcplite.Server("fleet", auth=auth, limits=limits)
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


@mcp.tool(task="required")
def sign(text: str, ctx: mcplite.Context) -> str:
    """Return the text with the name of the principal, as a task that works a little."""
    ctx.sleep(0.05)
    return f"{ctx.principal.subject}: {text}"


@mcp.tool(task="required")
def take_time(seconds: float, ctx: mcplite.Context) -> str:
    """Say which worker runs it, and take a while."""
    ctx.task_status(f"in {os.getpid()}")
    ctx.sleep(seconds)
    return f"done in {os.getpid()}"


@mcp.tool(task="required", restartable=True)
def take_time_again(seconds: float, ctx: mcplite.Context) -> str:
    """As take_time; another worker goes on when this one ends."""
    begun = ctx.once("worker", os.getpid)
    ctx.task_status(f"in {os.getpid()}")
    ctx.sleep(seconds)
    return f"begun in {begun}, done in {os.getpid()}"


@mcp.resource("shop://stock")
def stock() -> str:
    return "17"


@mcp.resource("shop://price")
def price() -> str:
    return "4"


endpoint = mcp.wsgi(path="/mcp", legacy_sse=True)
application = counted(endpoint)

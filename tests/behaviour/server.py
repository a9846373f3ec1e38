"""The server of the behaviour tests: the same object behind every transport.

As a program it serves over stdio; ``application`` is the WSGI application, and ``crowd`` that of several workers.
"""

import collections
import contextvars
import dataclasses
import importlib.util
import os
import threading
from typing import Annotated, Any, Dict, List

import mcplite
from tests.support.marks import counted, create_marks

mcp = mcplite.Server("behaviour", version="1.0", instructions="Use it for tests.",
                     extensions={"com.example/units": {"system": "metric"}},
                     options=mcplite.ServerOptions(on_subscribe=lambda uri, subscriptions: subscribed(uri, subscriptions)),
                     limits=mcplite.Limits(running=128, connections=512))
#: How often each effect has happened, and which calls were cancelled; for several processes in a folder.
marks = create_marks("FLEET_FOLDER")
#: Set by the middleware of WSGI hosts, as tracing and tenants' libraries do.
brought_by: "contextvars.ContextVar[str]" = contextvars.ContextVar("brought_by", default="-")


#: The number of subscriptions to each URI, as the hook was told.
subscriptions: "collections.defaultdict[str, int]" = collections.defaultdict(int)
told = threading.Condition()


def subscribed(uri: str, number: int) -> None:
    with told:
        subscriptions[uri] = number
        told.notify_all()


@dataclasses.dataclass
class Trip:
    city: str
    nights: int = 1


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool(meta={"com.example/unit": "m"}, structured_output=False)
def declared(ctx: mcplite.Context) -> Dict[str, Any]:
    """Tell which extensions the client has declared."""
    return ctx.extensions


@mcp.tool()
def wait_for_subscriptions(uri: str, number: int) -> bool:
    """Wait until there are so many subscriptions to a URI."""
    with told:
        return told.wait_for(lambda: subscriptions[uri] == number, 60)


@mcp.tool(structured_output="bare")
def moons() -> List[str]:
    return ["Phobos"]


@mcp.tool()
def echo(text: str) -> str:
    return text


@mcp.tool()
def fail(how: str) -> str:
    raise mcplite.ToolError(how) if how else KeyError("a secret")


@mcp.tool()
def big(size: int) -> str:
    return "x" * size


@mcp.tool()
def variable() -> str:
    before = brought_by.get()
    brought_by.set("an earlier call")
    return before


@mcp.tool()
def variables(ctx: mcplite.Context) -> List[str]:
    first = brought_by.get()
    ctx.elicit("Go on?")
    return [first, brought_by.get()]


@mcp.tool()
def request_of(ctx: mcplite.Context) -> Dict[str, Any]:
    found = []
    for _ in range(2):
        http = ctx.http
        found.append(http and {"method": http.method, "path": http.mount + http.path, "call": http.headers.get("X-Call"),
                               "remote": http.remote.partition(":")[0], "wsgi": http.environ is not None,
                               "same": http.environ is None or http.environ["HTTP_X_CALL"] == http.headers["x-call"]})
        if len(found) == 1:
            ctx.elicit("Go on?")
    return {"found": found}


@mcp.tool()
def count_up(steps: int, ctx: mcplite.Context) -> str:
    for step in range(1, steps + 1):
        ctx.report_progress(step, steps)
    return f"{steps} steps"


@mcp.tool()
def speak(words: List[str], ctx: mcplite.Context) -> int:
    for word in words:
        ctx.log("info", word)
    ctx.log("debug", "for some levels")
    return len(words)


@mcp.tool()
def book(key: str, ctx: mcplite.Context) -> str:
    """Ask, do a step that must happen once, and ask again."""
    where = ctx.elicit("Where to?", Trip)
    if not where.accepted:
        return f"no trip: {where.action}"
    marks.add(key)
    sure = ctx.elicit(f"Sure about {where.data.city}?")
    return f"{where.data.city} for {where.data.nights}, {sure.action}"


@mcp.tool()
def tell(ctx: mcplite.Context) -> str:
    """Send notifications of the server's own, and ping the client."""
    ctx.notify("notifications/acme/moved", {"to": "Rome"})
    outcomes = []
    for send in (lambda: ctx.session.notify("notifications/acme/moved", {"to": "Oslo"}), ctx.session.ping):
        try:
            send()
            outcomes.append("sent")
        except mcplite.errors.NotSupported:
            outcomes.append("not supported")
    return ", ".join(outcomes)


@mcp.tool()
def patient(ctx: mcplite.Context) -> str:
    """Ask, and return the progress of the answer."""
    seen = []
    ctx.sample("Well?", on_progress=lambda progress: seen.append((progress.progress, progress.total)))
    return str(seen)


@mcp.tool()
def effects_of(key: str) -> int:
    return marks.count(key)


@mcp.tool()
def think(question: str, ctx: mcplite.Context) -> str:
    return ctx.sample(question, max_tokens=50).text


@mcp.tool()
def confer(ctx: mcplite.Context) -> str:
    """Ask the user and the model, as tasks of clients that have such."""
    where = ctx.elicit("Where to?", Trip, task=True)
    return f"{where.data.city}: {ctx.sample('Is it nice?', task=True).text}"


@mcp.tool()
def folders(ctx: mcplite.Context) -> List[str]:
    return [root.uri for root in ctx.list_roots()]


@mcp.tool()
def reserve(key: str, trip: Annotated[Trip, mcplite.Elicit("Where to, and for how long?")], ctx: mcplite.Context) -> str:
    """Run after a declared question, and count how often."""
    number = ctx.once("number", lambda: marks.add(key))
    extras = ctx.ask({"meal": mcplite.Elicit("A meal?"), "window": mcplite.Elicit("At the window?")})
    return f"{number}: {trip.city}, {extras['meal'].action}, {extras['window'].action}"


@mcp.tool()
def wizard(ctx: mcplite.Context) -> Any:
    """Return a question, and run again with the answer."""
    if ctx.round == 0:
        return mcplite.InputRequired({"where": mcplite.Elicit("Where to?", Trip)}, state={"step": 1})
    if ctx.round == 1:
        city = ctx.input_responses["where"].data.city
        return mcplite.InputRequired({"sure": mcplite.Elicit(f"Sure about {city}?")}, state={"step": 2, "city": city})
    return f"{ctx.state['step']}: {ctx.state['city']}, {ctx.input_responses['sure'].action}"


@mcp.tool()
def timid(ctx: mcplite.Context) -> str:
    """Catch ``Exception`` around a question."""
    try:
        answer = ctx.elicit("Where to?", Trip)
    except Exception:
        return "swallowed"
    return answer.action


@mcp.tool()
def block(key: str, ctx: mcplite.Context) -> str:
    """Wait for cancellation."""
    try:
        ctx.report_progress(0)
        ctx.sleep(60)
    except mcplite.Cancelled:
        marks.add(f"{key} stopped")
        raise
    return "not cancelled"


@mcp.tool()
def was_stopped(key: str) -> bool:
    return marks.wait(f"{key} stopped", 20)


def task_tool(**options):
    """Register a tool that may be called as a task; it is an ordinary one in a copy of the package without tasks."""
    return mcp.tool(**options) if importlib.util.find_spec("mcplite.tasks") else mcp.tool()


@task_tool(task="optional")
def work(steps: int, key: str, ctx: mcplite.Context) -> int:
    """Work until the test says so; a task if the client can have tasks."""
    for step in range(steps):
        ctx.task_status(f"step {step} in {os.getpid()}")
        while not marks.count(f"{key} go {step}"):
            ctx.sleep(0.02)
    return steps


@task_tool(task="required", restartable=True)
def work_anyway(key: str, ctx: mcplite.Context) -> str:
    """Work until the test says so; begun again when its process has ended."""
    first = ctx.once("process", os.getpid)
    ctx.task_status(f"in {os.getpid()}")
    while not marks.count(f"{key} go"):
        ctx.sleep(0.02)
    return f"begun in {first}, done in {os.getpid()}"


@mcp.tool()
def mark(key: str) -> int:
    marks.add(key)
    return marks.count(key)


@task_tool(task="required")
def sign(ctx: mcplite.Context) -> str:
    """Ask for a trip."""
    return f"signed: {ctx.elicit('Where to?', Trip).action}"


@mcp.tool()
def grow(name: str) -> str:
    """Add a tool."""
    mcp.add_tool(lambda: name, name=name, description="A new one")
    return name


@mcp.tool()
def touch(times: int = 1) -> None:
    """Change the resource."""
    for _ in range(times):
        mcp.resource_updated("memo://greeting")


@mcp.resource("memo://greeting", mime_type="text/plain")
def greeting() -> str:
    return "hello"


@mcp.resource("memo://{name}/length")
def length(name: str) -> str:
    return str(len(name))


@mcp.resource("memo://asked")
def asked(ctx: mcplite.Context) -> str:
    return ctx.sample("What is in it?", max_tokens=50).text


@mcp.resource("memo://asked/{name}")
def asked_about(name: str, ctx: mcplite.Context) -> str:
    return ctx.sample(f"What about {name}?", max_tokens=50).text


@mcp.prompt()
def interview(ctx: mcplite.Context) -> str:
    return ctx.sample("What to ask?", max_tokens=50).text


@mcp.prompt()
def greet(name: str) -> str:
    """Greet a person."""
    return f"Say hello to {name}."


@mcp.completion(prompt="greet", argument="name")
def names(value: str) -> List[str]:
    return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]


served = mcp.wsgi(path="/mcp", legacy_sse=True)


def application(environ, start_response):
    token = brought_by.set(environ.get("HTTP_X_CALL", "no header"))
    try:
        return served(environ, start_response)
    finally:
        brought_by.reset(token)


crowd = counted(application)


if __name__ == "__main__":
    mcp.run()

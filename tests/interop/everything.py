"""A server that uses everything the library has, for other people's clients to try.

    python everything.py                      over stdin and stdout
    python everything.py http [stateless]     over HTTP: the first line says where; ends when stdin does
    python everything.py http legacy|modern   the same, for clients with or without a handshake alone

With WIRE_REPORT in the environment, what it sends is written to the file of that name at the end, for
``tests.support.wire`` to check against the official schemas.
"""

import dataclasses
import os
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, Dict, List, Literal, NamedTuple, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import mcplite  # noqa: E402
from mcplite import types  # noqa: E402
from tests.support import marks as support  # noqa: E402

#: The smallest PNG and the shortest WAV: one pixel, no sample.
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154789c63000100"
                    "000500010d0a2db40000000049454e44ae426082")
WAV = bytes.fromhex("524946462400000057415645666d74201000000001000100401f0000803e0000020010006461746100000000")

#: What has happened, for handlers that wait for it; in a folder where there are several processes.
marks = support.create_marks("FLEET_FOLDER")

#: The only era that is served; None for both.
ERA = sys.argv[2] if sys.argv[2:] in (["legacy"], ["modern"]) else None

mcp = mcplite.Server(
    "everything", version="1.2.3", title="Everything", description="A server that has everything",
    instructions="Call the tools in any order.", website_url="https://example.com/everything",
    icons=[{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    options=mcplite.ServerOptions(
        page_size=7, experimental={"example.com/extra": {"level": 3}}, era=ERA,
        cache_lists={"tools": mcplite.CacheHint(60, "public"), "discover": mcplite.CacheHint(30)},
        on_roots_changed=lambda session: marks.add("roots changed")))

# --- results of all kinds -------------------------------------------------------------------------


@mcp.tool(title="Echo", annotations={"readOnlyHint": True, "idempotentHint": True}, meta={"example.com/cost": 1},
          icons=[{"src": "https://example.com/echo.png"}])
def echo(text: Annotated[str, "What to say"]) -> str:
    """Say it again."""
    return text


@mcp.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@dataclasses.dataclass
class Day:
    date: str
    high: float
    note: Optional[str] = None


@mcp.tool()
def forecast(city: Annotated[str, "City name", {"minLength": 1}], days: Annotated[int, {"minimum": 1, "maximum": 3}] = 2,
             unit: Literal["celsius", "fahrenheit"] = "celsius") -> List[Day]:
    """Forecast the weather."""
    return [Day(f"{city} {day}", 20.5 + day, None if day else unit) for day in range(days)]


class Point(NamedTuple):
    x: int
    y: int


@mcp.tool()
def point() -> Point:
    """Return an object."""
    return Point(3, 4)


@mcp.tool()
def nothing() -> None:
    """Return nothing."""


@mcp.tool()
def image() -> mcplite.Image:
    """Return an image."""
    return mcplite.Image(PNG, "image/png")


@mcp.tool()
def audio() -> mcplite.Audio:
    """Return a sound."""
    return mcplite.Audio(WAV, "audio/wav")


@mcp.tool()
def link() -> types.ResourceLink:
    """Return a link to a resource."""
    return types.ResourceLink(uri="notes://one", name="one", title="Note one", mime_type="text/plain", size=5,
                              annotations=types.Annotations(audience=["user"], priority=0.5))


@mcp.tool()
def embedded() -> list:
    """Return resources inside of content."""
    text = types.TextResourceContents(uri="notes://one", text="first", mime_type="text/plain")
    blob = types.BlobResourceContents(uri="notes://two", blob="AAEC", mime_type="image/x")
    return [types.EmbeddedResource(resource=text), types.EmbeddedResource(resource=blob)]


@mcp.tool()
def mixed() -> list:
    """Return several things."""
    return ["before", mcplite.Image(PNG, "image/png"), {"plain": "data"}]


@mcp.tool()
def complete_result() -> types.CallToolResult:
    """Return a result that is made by hand."""
    return types.CallToolResult(
        content=[types.TextContent(text="by hand", annotations=types.Annotations(audience=["assistant"], priority=1.0))],
        structured_content={"made": "by hand"}, meta={"example.com/seen": True})


@mcp.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
          input_schema={"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 2}}, "required": ["n"]})
def raw(arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Take and return what JSON Schemas say."""
    return {"n": arguments["n"] // 2}


@mcp.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
def broken_promise() -> Dict[str, Any]:
    """Return what the output schema forbids."""
    return {"n": "none"}


@mcp.tool()
def fail(how: str) -> str:
    """Fail in one of several ways."""
    if how == "tool":
        raise mcplite.ToolError("it went wrong", [mcplite.Image(PNG, "image/png")])
    if how == "protocol":
        raise mcplite.RemoteError("refused", code=-31234, data={"why": "test"})
    raise ValueError(f"no such way to fail: {how}")


headers: List[Dict[str, str]] = []


@mcp.tool()
def locate(region: Annotated[str, mcplite.Header("Region")], floor: Annotated[int, mcplite.Header("Floor")],
           open: Annotated[bool, mcplite.Header("Open")] = True, note: str = "") -> Dict[str, Any]:
    """Take parameters that travel in headers as well; return them, those headers, and how many requests there were."""
    return {"arguments": [region, floor, open, note], "headers": headers[-1] if headers else None,
            "requests": len(headers)}


# --- progress, logs, cancellation -------------------------------------------------------------------


@mcp.tool()
def count(to: int, ctx: mcplite.Context) -> int:
    """Count, with progress."""
    for n in range(1, to + 1):
        ctx.report_progress(n, to, f"at {n}")
    return to


@mcp.tool()
def write_log(ctx: mcplite.Context) -> str:
    """Log at all levels."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        ctx.log(level, {"level": level}, logger="everything")
    return "logged"


reasons: List[Optional[str]] = []


@mcp.tool()
def wait_to_be_cancelled(ctx: mcplite.Context) -> str:
    """Wait until the call is cancelled."""
    ctx.report_progress(1, 2)
    try:
        ctx.sleep(60)
    except mcplite.Cancelled as error:
        reasons.append(error.reason)
        marks.add("cancelled")
        raise
    return "nobody cancelled"


@mcp.tool()
def was_cancelled() -> Dict[str, Any]:
    """Tell whether a call was cancelled, and why."""
    return {"cancelled": marks.wait("cancelled", 20), "reasons": reasons}


@mcp.tool()
def sleep(seconds: float) -> float:
    """Sleep without looking up."""
    threading.Event().wait(seconds)
    return seconds


# --- what needs a stream that can be resumed ------------------------------------------------------------


@mcp.tool()
def close_stream(ctx: mcplite.Context) -> bool:
    """Close the connection in the middle of the call; tell whether there was one to close."""
    ctx.report_progress(1, 2)
    closed = ctx.close_stream(retry=0.05)
    ctx.report_progress(2, 2)
    return closed


@mcp.tool()
def interrupted(ctx: mcplite.Context) -> str:
    """Say something that makes a proxy break off the connection, and go on."""
    ctx.report_progress(1, 3, "cut-here")
    ctx.sleep(0.2)  # what follows is said while there is no connection
    ctx.report_progress(2, 3)
    ctx.report_progress(3, 3)
    return "went on"


@mcp.tool()
def work_on(ctx: mcplite.Context) -> str:
    """Work until the release, whatever becomes of the client."""
    ctx.report_progress(1, 2)
    marks.wait("released", 60)
    ctx.report_progress(2, 2)
    return "worked on"


@mcp.tool()
def release() -> None:
    """Release."""
    marks.add("released")


# --- questions ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Booking:
    name: Annotated[str, "Your name", {"minLength": 2}]
    guests: Annotated[int, {"minimum": 1, "maximum": 9}]
    price: float = 12.5
    window: bool = True
    mail: Annotated[str, {"format": "email"}] = "a@example.com"


@mcp.tool()
def book(ctx: mcplite.Context) -> Dict[str, Any]:
    """Ask for a form of all plain types."""
    answer = ctx.elicit("Your booking?", Booking)
    return {"action": answer.action, "content": answer.content,
            "name": answer.data.name if answer.data is not None else None}


FORMS: Dict[str, Dict[str, Any]] = {
    "enum": {"type": "string", "title": "Colour", "enum": ["red", "green"]},
    "titled": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
               "default": "r"},
    "names": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["red", "green"]}, "minItems": 1, "maxItems": 2},
    "several_titled": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}},
}


@mcp.tool()
def choose(form: str, ctx: mcplite.Context) -> Dict[str, Any]:
    """Ask for a choice; the argument says how the choices are written."""
    answer = ctx.elicit(f"Which one ({form})?",
                        {"type": "object", "properties": {"choice": FORMS[form]}, "required": ["choice"]})
    return {"action": answer.action, "content": answer.content}


@dataclasses.dataclass
class Confirm:
    ok: Annotated[bool, "Really delete?"]


@mcp.tool()
def delete(path: str, answer: Annotated[Confirm, mcplite.Elicit("Delete {path}?")]) -> str:
    """Ask a declared question."""
    return f"{path}: {'deleted' if answer.ok else 'kept'}"


@mcp.tool()
def wizard(ctx: mcplite.Context) -> Any:
    """Ask two questions at once, then go on."""
    if "name" not in ctx.input_responses:
        questions = {"name": mcplite.Elicit("Name?", Confirm), "roots": mcplite.Elicit("Roots?", Confirm)}
        return mcplite.InputRequired(questions, state={"step": 1})
    return f"{ctx.state} {ctx.input_responses['name'].action} {ctx.input_responses['roots'].action}"


@mcp.tool()
def interview(ctx: mcplite.Context) -> Dict[str, Any]:
    """Ask one question after another, of all kinds, with work in between."""
    first = ctx.elicit("First?", Confirm)
    ctx.report_progress(1, 3)
    model = ctx.sample("What is the time?")
    ctx.report_progress(2, 3)
    second = ctx.elicit("Second?", Confirm)
    roots = ctx.list_roots()
    ctx.report_progress(3, 3)
    return {"first": first.content, "model": model.text, "second": second.action, "roots": [root.uri for root in roots]}


@mcp.tool()
def survey(ctx: mcplite.Context) -> Dict[str, Any]:
    """Ask questions of all kinds at once."""
    answers = ctx.ask({"ok": mcplite.Elicit("Ready?", Confirm), "model": mcplite.Sample(["What is the time?"]),
                       "roots": mcplite.ListRoots()})
    return {"ok": answers["ok"].content, "model": answers["model"].text,
            "roots": [root.uri for root in answers["roots"]]}


@mcp.tool()
def visit(ctx: mcplite.Context) -> str:
    """Ask the user to visit a page, and say that it is done."""
    answer = ctx.elicit_url("Please sign in", "https://example.com/sign-in?x=1", elicitation_id="sign-in-1")
    ctx.elicitation_complete("sign-in-1")
    return answer.action


@mcp.tool()
def must_visit(ctx: mcplite.Context) -> str:
    """Refuse until the user has visited a page."""
    if ctx.round:
        return "visited"
    raise mcplite.errors.UrlElicitationRequired("Sign in first", data={"elicitations": [
        {"mode": "url", "elicitationId": "sign-in-2", "url": "https://example.com/sign-in", "message": "Sign in"}]})


@mcp.tool()
def ask_model(ctx: mcplite.Context) -> str:
    """Ask the client's model."""
    image = mcplite.Image(PNG, "image/png").content()
    reply = ctx.sample(["What is the time?", mcplite.assistant("Where?"), mcplite.user(image)],
                       max_tokens=50, system_prompt="Be brief.", temperature=0.5, stop_sequences=["END"],
                       model_preferences=types.ModelPreferences(hints=[types.ModelHint("small")], speed_priority=1.0),
                       metadata={"example.com/for": "test"})
    return f"{reply.model}: {reply.text} ({reply.stop_reason})"


@mcp.tool()
def ask_model_with_tools(ctx: mcplite.Context) -> str:
    """Ask the client's model, which may use a tool."""
    clock = types.Tool(name="clock", description="Tell the time", input_schema={"type": "object", "properties": {
        "place": {"type": "string"}}, "required": ["place"]})
    messages = [types.SamplingMessage("user", [types.TextContent("What is the time?")])]
    first = ctx.sample(messages, max_tokens=50, tools=[clock], tool_choice=types.ToolChoice("auto"))
    used = [block for block in first.content if isinstance(block, types.ToolUseContent)]
    messages.append(types.SamplingMessage("assistant", first.content))
    messages.append(types.SamplingMessage("user", [
        types.ToolResultContent(block.id, [types.TextContent(f"noon in {block.input['place']}")]) for block in used]))
    second = ctx.sample(messages, max_tokens=50, tools=[clock])
    return f"{len(used)} {first.stop_reason}, then {second.text}"


@mcp.tool()
def list_roots(ctx: mcplite.Context) -> List[str]:
    """Return the client's roots."""
    return [f"{root.name}={root.uri}" for root in ctx.list_roots()]


@mcp.tool()
def roots_have_changed() -> bool:
    """Wait for the client to say that its roots have changed."""
    return marks.wait("roots changed", 20)


@mcp.tool()
def who(ctx: mcplite.Context) -> Dict[str, Any]:
    """Tell what is known of the client."""
    info = ctx.client_info
    return {"name": info.name if info else None, "revision": ctx.protocol_version, "elicit": ctx.can_elicit,
            "elicit_url": ctx.can_elicit_url, "sample": ctx.can_sample, "roots": ctx.can_list_roots, "meta": ctx.meta}


# --- resources ------------------------------------------------------------------------------------------

notes: Dict[str, str] = {"one": "first"}


@mcp.resource("config://settings", mime_type="application/json", title="Settings", size=17)
def settings() -> Dict[str, Any]:
    """The settings."""
    return {"colour": "blue"}


@mcp.resource("picture://pixel", mime_type="image/png", annotations={"audience": ["user"], "priority": 0.2})
def pixel() -> bytes:
    """A picture."""
    return PNG


@mcp.resource("bundle://all")
def bundle() -> list:
    """Several contents."""
    return [types.TextResourceContents(uri="bundle://all/a", text="a", mime_type="text/plain"),
            types.BlobResourceContents(uri="bundle://all/b", blob="AAEC", mime_type="application/x-b")]


@mcp.resource("notes://{title}", mime_type="text/plain")
def note(title: str) -> str:
    """A note."""
    if title not in notes:
        raise mcplite.errors.ResourceNotFound(f"no note {title!r}", data={"uri": f"notes://{title}"})
    return notes[title]


@mcp.resource("weather://{city}/history{?year}")
def history(city: str, year: int = 2026) -> str:
    """The weather of a year."""
    return f"{city} in {year}"


reads: Dict[str, int] = {}


@mcp.resource("counted://{name}", cache=mcplite.CacheHint(60, "public"))
def counted(name: str) -> str:
    """How often it was read, which a client need not ask for a minute."""
    reads[name] = reads.get(name, 0) + 1
    return f"{reads[name]}"


@mcp.resource("diary://{day}")
def diary(day: str, ctx: mcplite.Context) -> str:
    """Whatever is in the diary, for those who may read it."""
    answer = ctx.elicit(f"Read the diary of {day}?", Confirm)
    return f"{day}: {answer.action} {answer.content}"


@mcp.tool()
def write_note(title: str, text: str) -> str:
    """Write a note; who subscribed to it is told."""
    notes[title] = text
    mcp.resource_updated(f"notes://{title}")
    return "written"


# --- prompts and completion -------------------------------------------------------------------------------


@mcp.prompt(title="Briefing")
def briefing(city: Annotated[str, "Where"], tone: str = "neutral") -> list:
    """Ask for a briefing."""
    return [mcplite.user(f"Write a {tone} briefing for {city}."), mcplite.assistant("Gladly.")]


@mcp.prompt()
def gallery() -> list:
    """Everything that a prompt can hold."""
    return [mcplite.user("text"), mcplite.user(mcplite.Image(PNG, "image/png").content()),
            mcplite.user(mcplite.Audio(WAV, "audio/wav").content()),
            mcplite.user(types.EmbeddedResource(resource=types.TextResourceContents(uri="notes://one", text="first"))),
            mcplite.user(types.ResourceLink(uri="notes://one", name="one"))]


@mcp.prompt()
def personal(greeting: str, ctx: mcplite.Context) -> str:
    """Ask for a name first."""
    answer = ctx.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{greeting} {answer.action} {answer.content}"


CITIES = ["Paris", "Palermo", "Prague", "Rome"]


@mcp.completion(prompt="briefing", argument="city")
def complete_city(value: str) -> List[str]:
    return [city for city in CITIES if city.lower().startswith(value.lower())]


@mcp.completion(resource="weather://{city}/history{?year}", argument="year")
def complete_year(value: str, filled: Dict[str, str]) -> List[str]:
    return [f"{year}" for year in range(2000, 2300) if str(year).startswith(value)] if filled.get("city") == "Rome" else []


# --- changes at run time ------------------------------------------------------------------------------------


@mcp.tool()
def grow() -> str:
    """Add a tool, a resource and a prompt."""
    mcp.add_tool(lambda: "new", name="new_tool", description="New")
    mcp.add_resource("new://resource", lambda: "new", name="new_resource")
    mcp.add_prompt(lambda: "new", name="new_prompt")
    return "grown"


@mcp.tool()
def shrink() -> str:
    """Take them out again."""
    mcp.remove_tool("new_tool")
    mcp.remove_resource("new://resource")
    mcp.remove_prompt("new_prompt")
    return "shrunk"


def crowd() -> Any:
    """Return the WSGI application of several workers; the tests count how many of them served."""
    return support.counted(mcp.wsgi(path="/mcp", legacy_sse=True))


def serve_http(stateless: bool) -> None:
    """Serve until stdin ends; a second path tells how many sessions there are."""
    def count_sessions(request: Any) -> Tuple[int, str, bytes]:
        return 200, "text/plain", b"%d" % len(server.endpoint.sessions)

    options = {"stateless": stateless, "legacy_sse": mcp.runtime.catalog.speaks_legacy}
    with mcplite.serve(mcp, routes={"/sessions": count_sessions}, **options) as server:
        answer = server.answer

        def answer_and_note(request: Any) -> Any:
            # A handler does not see the headers; the test wants to know whether they came.
            if request.headers.get("mcp-name") == "locate":
                headers.append({name.lower(): value for name, value in request.headers.items()
                                if name.lower().startswith("mcp-")})
            return answer(request)

        server.answer = answer_and_note
        print(server.url, flush=True)
        sys.stdin.read()


def main(transport: str = "stdio", mode: str = "") -> None:
    run = mcp.run if transport == "stdio" else lambda: serve_http(mode == "stateless")
    report = os.environ.get("WIRE_REPORT")
    if not report:
        run()
        return
    from tests.support import wire

    with wire.recording() as recorder:
        run()
    wire.save(recorder.take(), report)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The server that the official conformance suite tests.

    python tests/conformance/server.py --port 8000

serves ``http://127.0.0.1:8000/mcp``. Names, texts and values are those that the suite asks for.
"""

import argparse
import base64
import dataclasses
import logging
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Dict, List

import mcplite
from mcplite.types import EmbeddedResource, TextContent, TextResourceContents

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")
PAUSE = 0.05

mcp = mcplite.Server("mcplite-conformance", version="1.0.0")


# --- tools that answer ------------------------------------------------------------------------------


@mcp.tool()
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@mcp.tool()
def test_image_content() -> mcplite.Image:
    """Return an image."""
    return mcplite.Image(PNG, "image/png")


@mcp.tool()
def test_audio_content() -> mcplite.Audio:
    """Return a sound."""
    return mcplite.Audio(WAV, "audio/wav")


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


@mcp.tool()
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@mcp.tool()
def test_multiple_content_types() -> List[Any]:
    """Return a text, an image and a resource."""
    return [TextContent("Multiple content types test:"), mcplite.Image(PNG, "image/png"),
            embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')]


@mcp.tool()
def test_error_handling() -> str:
    """Fail."""
    raise mcplite.ToolError("This tool intentionally returns an error for testing")


@mcp.tool()
def test_tool_with_logging(ctx: mcplite.Context) -> str:
    """Log three messages."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log("info", text)
        ctx.sleep(PAUSE)
    return "Tool with logging executed successfully"


@mcp.tool()
def test_tool_with_progress(ctx: mcplite.Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        ctx.report_progress(done, 100)
        ctx.sleep(PAUSE)
    return "Tool with progress executed successfully"


@mcp.tool(input_schema={
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                   "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
})
def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Has a schema with many keywords of the 2020-12 dialect."""
    return f"called with {sorted(arguments)}"


# --- tools that ask -------------------------------------------------------------------------------------


@mcp.tool()
def test_sampling(prompt: str, ctx: mcplite.Context) -> str:
    """Ask the client's language model."""
    return f"LLM response: {ctx.sample(prompt, max_tokens=100).text}"


@dataclasses.dataclass
class Person:
    username: str
    email: str


@mcp.tool()
def test_elicitation(message: str, ctx: mcplite.Context) -> str:
    """Ask the user for a name and an address."""
    reply = ctx.elicit(message, Person)
    return f"User response: action={reply.action}, content={reply.content}"


class Status(Enum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    PENDING = "pending"


@dataclasses.dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Status = Status.ACTIVE
    verified: bool = True


@mcp.tool()
def test_elicitation_sep1034_defaults(ctx: mcplite.Context) -> str:
    """Ask with a default for everything."""
    reply = ctx.elicit("Please review and update the form fields with defaults", Defaults)
    return f"Elicitation completed: action={reply.action}, content={reply.content}"


TITLED = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in enumerate(("First", "Second", "Third"), 1)]


@mcp.tool()
def test_elicitation_sep1330_enums(ctx: mcplite.Context) -> str:
    """Ask for choices, in every way that there is."""
    reply = ctx.elicit("Please select options from the enum fields", {"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                       "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    }})
    return f"Elicitation completed: action={reply.action}, content={reply.content}"


@mcp.tool()
def test_reconnection(ctx: mcplite.Context) -> str:
    """Let the client come back for the answer."""
    ctx.close_stream()
    ctx.sleep(PAUSE)
    return "Reconnection test completed successfully"


# --- requests that stand for themselves -------------------------------------------------------------------


@dataclasses.dataclass
class Named:
    name: str


@dataclasses.dataclass
class Confirmed:
    ok: bool


@dataclasses.dataclass
class Colour:
    color: str


@dataclasses.dataclass
class Situation:
    context: str


NAME = mcplite.Elicit("What is your name?", Named)


@mcp.tool()
def test_x_mcp_header(region: Annotated[str, "Where", mcplite.Header("Region")] = "") -> str:
    """Take a parameter that travels in a header as well."""
    return f"region: {region}"


@mcp.tool()
def test_missing_capability(ctx: mcplite.Context) -> str:
    """Need a language model."""
    if not ctx.can_sample:
        raise mcplite.errors.MissingCapability("sampling is needed", data={"requiredCapabilities": {"sampling": {}}})
    return "The client can sample"


@mcp.tool()
def test_streaming_elicitation(ctx: mcplite.Context) -> str:
    """Report progress, then ask."""
    ctx.report_progress(1, 2)
    return f"User response: {ctx.elicit('Your name?', Named).action}"


@mcp.tool()
def test_logging_tool(ctx: mcplite.Context) -> str:
    """Log a message, for those who want it."""
    ctx.log("info", "This is a log message")
    return "Logged"


@mcp.tool()
def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    mcp.add_tool(lambda: "passing", name="test_passing", description="Comes and goes")
    mcp.remove_tool("test_passing")
    return "The list of tools has changed"


@mcp.tool()
def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    mcp.add_prompt(lambda: "passing", name="test_passing", description="Comes and goes")
    mcp.remove_prompt("test_passing")
    return "The list of prompts has changed"


@mcp.tool()
def test_input_required_result_elicitation(ctx: mcplite.Context) -> str:
    """Ask for a name."""
    return f"Hello, {ctx.ask({'user_name': NAME})['user_name'].data.name}!"


@mcp.tool()
def test_input_required_result_sampling(ctx: mcplite.Context) -> str:
    """Ask a language model."""
    question = mcplite.Sample(["What is the capital of France?"], max_tokens=100)
    return f"The model says: {ctx.ask({'capital_question': question})['capital_question'].text}"


@mcp.tool()
def test_input_required_result_list_roots(ctx: mcplite.Context) -> str:
    """Ask for the roots."""
    roots = ctx.ask({"client_roots": mcplite.ListRoots()})["client_roots"]
    return f"Roots: {[root.uri for root in roots]}"


@mcp.tool()
def test_input_required_result_request_state(ctx: mcplite.Context) -> str:
    """Ask, with a state that has to come back."""
    reply = ctx.ask({"confirm": mcplite.Elicit("Go on?", Confirmed)})["confirm"]
    return f"state-ok, confirmed: {reply.data.ok}"


@mcp.tool()
def test_input_required_result_multiple_inputs(ctx: mcplite.Context) -> str:
    """Ask three things at once."""
    replies = ctx.ask({"user_name": NAME, "greeting": mcplite.Sample(["Write a greeting"], max_tokens=50),
                       "client_roots": mcplite.ListRoots()})
    return f"{replies['greeting'].text} {replies['user_name'].data.name}, {len(replies['client_roots'])} roots"


@mcp.tool()
def test_input_required_result_multi_round(ctx: mcplite.Context) -> str:
    """Ask twice."""
    name = ctx.ask({"step1": mcplite.Elicit("Step 1: your name?", Named)})["step1"].data.name
    colour = ctx.ask({"step2": mcplite.Elicit("Step 2: your colour?", Colour)})["step2"].data.color
    return f"{name} likes {colour}"


@mcp.tool()
def test_input_required_result_tampered_state(ctx: mcplite.Context) -> str:
    """Ask, with a state that must not be changed."""
    return f"confirmed: {ctx.ask({'confirm': mcplite.Elicit('Go on?', Confirmed)})['confirm'].data.ok}"


@mcp.tool()
def test_input_required_result_capabilities(ctx: mcplite.Context) -> str:
    """Ask only what the client can be asked."""
    questions: Dict[str, Any] = {}
    if ctx.can_elicit:
        questions["user_name"] = NAME
    if ctx.can_sample:
        questions["greeting"] = mcplite.Sample(["Write a greeting"], max_tokens=50)
    if ctx.can_list_roots:
        questions["client_roots"] = mcplite.ListRoots()
    return f"answered: {sorted(ctx.ask(questions))}"


@mcp.prompt()
def test_input_required_result_prompt(ctx: mcplite.Context) -> str:
    """Ask for the context of the prompt."""
    reply = ctx.ask({"user_context": mcplite.Elicit("What is this about?", Situation)})["user_context"]
    return f"The context is: {reply.data.context}"


# --- tools that run as tasks ----------------------------------------------------------------------------------


@mcp.tool()
def greet(name: str) -> str:
    """Greet, at once."""
    return f"Hello, {name}!"


@mcp.tool(task="optional")
def slow_compute(seconds: float, ctx: mcplite.Context, label: str = "") -> str:
    """Sleep; a task if the client can have tasks."""
    ctx.task_status(f"sleeping for {seconds:g} s")
    ctx.sleep(seconds)
    return f"Slept {seconds:g} s {label}".rstrip()


@mcp.tool(task="required")
def failing_job(ctx: mcplite.Context) -> str:
    """Fail after a second."""
    ctx.sleep(1)
    raise mcplite.ToolError("This job always fails")


@mcp.tool(task="required")
def protocol_error_job() -> str:
    """End with an error of the protocol."""
    raise mcplite.errors.InternalError("This job ends with an error of the protocol")


@dataclasses.dataclass
class Confirm:
    confirm: bool


@mcp.tool(task="optional")
def confirm_delete(filename: str, ctx: mcplite.Context) -> str:
    """Ask before a deletion."""
    reply = ctx.ask({"confirm": mcplite.Elicit(f"Delete {filename}?", Confirm)})["confirm"]
    return f"Deleted {filename}" if reply.accepted and reply.data.confirm else f"Kept {filename}"


@mcp.tool(task="optional")
def multi_input(ctx: mcplite.Context) -> str:
    """Ask two things at once."""
    replies = ctx.ask({"name": NAME, "sure": mcplite.Elicit("Are you sure?", Confirm)})
    return f"{replies['name'].data.name}, sure: {replies['sure'].data.confirm}"


@mcp.tool(task="required")
def test_tool_with_task(user_name: Annotated[Named, NAME]) -> str:
    """Ask for a name first; the greeting is a task."""
    return f"Hello, {user_name.name}!"


# --- resources --------------------------------------------------------------------------------------------


@mcp.resource("test://static-text", mime_type="text/plain", description="A text")
def static_text() -> str:
    return "This is the content of the static text resource."


@mcp.resource("test://static-binary", mime_type="image/png", description="An image")
def static_binary() -> bytes:
    return PNG


@mcp.resource("test://watched-resource", mime_type="text/plain", description="Can be subscribed to")
def watched_resource() -> str:
    return "Watched resource content"


@mcp.resource("test://template/{id}/data", mime_type="application/json", description="Data by id")
def template_data(id: str) -> Dict[str, Any]:
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# --- prompts ----------------------------------------------------------------------------------------------


@mcp.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@mcp.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@mcp.completion(prompt="test_prompt_with_arguments", argument="arg1")
def complete_arg1(value: str) -> List[str]:
    return [word for word in ("test", "testing", "tested") if word.startswith(value)]


@mcp.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> List[Any]:
    """A prompt with a resource in it."""
    return [mcplite.user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
            mcplite.user("Please process the embedded resource above.")]


@mcp.prompt()
def test_prompt_with_image() -> List[Any]:
    """A prompt with an image in it."""
    return [mcplite.user(mcplite.Image(PNG, "image/png").content()), mcplite.user("Please analyze the image above.")]


# --- skills ------------------------------------------------------------------------------------------


SKILLS = Path(__file__).resolve().parent / "skills"
mcp.add_skills(SKILLS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve what the conformance suite asks for.")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 for any free one")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    httpd = mcplite.serve(mcp, port=options.port)
    print(httpd.url, flush=True)
    httpd.serve_forever()

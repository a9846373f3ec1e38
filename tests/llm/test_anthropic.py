import pytest

import mcplite
from mcplite import llm
from mcplite.types import CallToolResult, ImageContent, TextContent
from tests.support.models import PDF, PNG, anthropic_reply, canned_api

USES = (("t1", "chart", {"city": "Rome"}), ("t2", "fails", {"city": "Ur"}))
RESULTS = [
    {"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "text", "text": "Chart of Rome"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "no station in Ur"}], "is_error": True},
]


@pytest.fixture
def sdk():
    return pytest.importorskip("anthropic")


def validated(kind, value):
    """Check a dict against a type of the SDK."""
    pydantic = pytest.importorskip("pydantic")
    return pydantic.TypeAdapter(kind, config=None).validate_python(value)


def test_tools(client):
    kit = llm.anthropic_tools(client)
    assert kit.tools[0] == {"name": "weather__forecast", "description": "The forecast for a city.", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"], "additionalProperties": False}}
    assert kit.tools[4]["input_schema"] == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.slow
def test_the_sdk_knows_what_is_made(client, sdk):
    kit = llm.anthropic_tools(client)
    for tool in kit.tools:
        validated(sdk.types.ToolParam, tool)
    for name in ("everything", "chart", "fails", "nothing", "unknown"):
        block = kit.call({"type": "tool_use", "id": "t", "name": name, "input": {"city": "Rome"}})
        validated(sdk.types.ToolResultBlockParam, block)


def test_content_of_each_kind(client):
    block = llm.anthropic_tools(client).call({"type": "tool_use", "id": "t", "name": "everything", "input": {}})
    assert block == {"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "text", "text": "words"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "text", "text": "[audio (audio/wav, 4 bytes) is left out: this API takes no such content here]"},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        {"type": "text", "text": "Link to the resource log, file:///a/log.txt (text/plain)"}]}


def test_errors_have_text_only():
    server = mcplite.Server("odd")

    @server.tool()
    def broken() -> CallToolResult:
        return CallToolResult([TextContent("look"), ImageContent(PNG, "image/png")], is_error=True)

    @server.tool()
    def silent() -> CallToolResult:
        return CallToolResult([TextContent("")], is_error=True)

    with mcplite.connect(server) as client:
        kit = llm.anthropic_tools(client)
        assert [block["type"] for block in kit.call({"type": "tool_use", "id": "1", "name": "broken"})["content"]] == [
            "text", "text"]
        assert kit.call({"type": "tool_use", "id": "1", "name": "silent"})["content"] == [
            {"type": "text", "text": "The tool failed without a message."}]


def test_what_is_no_call(client):
    kit = llm.anthropic_tools(client)
    with pytest.raises(TypeError, match="of the type 'tool_use' was expected, not 'text'"):
        kit.call({"type": "text", "text": "x"})
    with pytest.raises(TypeError, match="a message of Anthropic's API, or its content, was expected, not int"):
        kit.answers(3)
    with pytest.raises(TypeError, match="a call without the name of a tool"):
        kit.call({"type": "tool_use", "id": "1"})
    assert kit.answers({"role": "assistant", "content": "just text"}) == []


def test_a_loop_with_the_sdk(client, sdk):
    kit = llm.anthropic_tools(client)
    messages = [{"role": "user", "content": "Rome and Ur?"}]
    with canned_api([anthropic_reply(*USES), anthropic_reply()]) as api:
        with sdk.Anthropic(base_url=api.url, api_key="key", max_retries=0) as anthropic:
            while True:
                reply = anthropic.messages.create(model="claude", max_tokens=100, messages=messages, tools=kit.tools)
                messages.append({"role": "assistant", "content": reply.content})
                answers = kit.answers(reply)
                if not answers:
                    break
                messages += answers
    assert reply.content[0].text == "Here you are."
    first, second = api.bodies
    assert [tool["name"] for tool in first["tools"]] == ["weather__forecast", "chart", "fails", "everything", "nothing"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][2]["content"] == RESULTS


def test_the_tool_runner_needs_no_event_loop(client, sdk):
    pytest.importorskip("anthropic.lib.tools", reason="this version of anthropic has no tool runner")
    tools = llm.anthropic_tools(client, exclude=["everything"]).runnable_tools()
    with canned_api([anthropic_reply(*USES), anthropic_reply(("t3", "weather__forecast", {"city": "Ur", "days": 2})),
                     anthropic_reply()]) as api:
        with sdk.Anthropic(base_url=api.url, api_key="key", max_retries=0) as anthropic:
            runner = anthropic.beta.messages.tool_runner(
                model="claude", max_tokens=100, tools=tools, messages=[{"role": "user", "content": "Rome and Ur?"}])
            last = runner.until_done()
    assert last.content[0].text == "Here you are."
    assert [tool["name"] for tool in api.bodies[0]["tools"]] == ["weather__forecast", "chart", "fails", "nothing"]
    # Newer versions send what is new only, as the server keeps the rest.
    assert api.bodies[1]["messages"][-1]["content"] == RESULTS
    (result,) = api.bodies[2]["messages"][-1]["content"]
    assert result["content"] == [{"type": "text", "text": "Ur: sun for 2 days"}]

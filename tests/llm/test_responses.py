import pytest

import mcplite
from mcplite import llm
from mcplite.types import CallToolResult, ImageContent
from tests.support.models import PDF, PNG, canned_api, response

USES = (("t1", "chart", {"city": "Rome"}), ("t2", "fails", {"city": "Ur"}))
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
OUTPUTS = [
    {"type": "function_call_output", "call_id": "t1", "output": [{"type": "input_text", "text": "Chart of Rome"}, IMAGE]},
    {"type": "function_call_output", "call_id": "t2", "output": "Error: no station in Ur"},
]


@pytest.fixture
def sdk():
    return pytest.importorskip("openai")


def use(name, arguments="{}"):
    return {"type": "function_call", "call_id": "t", "name": name, "arguments": arguments}


def test_tools(client):
    assert llm.openai_responses_tools(client).tools[1] == {
        "type": "function", "name": "chart", "description": "A chart of the last day.", "strict": False, "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
    strict = llm.openai_responses_tools(client, strict=True).tools[0]
    assert strict["strict"] is True and strict["parameters"]["required"] == ["city", "days"]


def test_content_of_each_kind(client):
    assert llm.openai_responses_tools(client).call(use("everything"))["output"] == [
        {"type": "input_text", "text": "words"}, IMAGE,
        {"type": "input_text", "text": "[audio (audio/wav, 4 bytes) is left out: this API takes no such content here]"},
        {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_text", "text": "Link to the resource log, file:///a/log.txt (text/plain)"}]


def test_an_error_with_an_image():
    server = mcplite.Server("odd")
    server.add_tool(broken)
    with mcplite.connect(server) as client:
        assert llm.openai_responses_tools(client).call(use("broken"))["output"] == [
            {"type": "input_text", "text": "Error:"}, IMAGE]


def broken() -> CallToolResult:
    return CallToolResult([ImageContent(PNG, "image/png")], is_error=True)


def test_what_is_no_call(client):
    kit = llm.openai_responses_tools(client)
    with pytest.raises(TypeError, match="of the type 'function_call' was expected, not 'message'"):
        kit.call({"type": "message"})
    with pytest.raises(TypeError, match="a response, or its output, was expected, not int"):
        kit.answers(3)
    assert kit.answers([]) == []


def test_the_sdk_knows_what_is_made(client, sdk):
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput

    pydantic = pytest.importorskip("pydantic")
    kit = llm.openai_responses_tools(client, strict=True)
    for tool in kit.tools:
        pydantic.TypeAdapter(FunctionToolParam).validate_python(tool)
    for name in ("everything", "fails", "nothing", "unknown"):
        pydantic.TypeAdapter(FunctionCallOutput).validate_python(kit.call(use(name, '{"city": "Rome"}')))


def test_a_loop_with_the_sdk(client, sdk):
    kit = llm.openai_responses_tools(client)
    items = [{"role": "user", "content": "Rome and Ur?"}]
    with canned_api([response(*USES), response()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            while True:
                reply = openai.responses.create(model="gpt", input=items, tools=kit.tools)
                items += reply.output
                answers = kit.answers(reply)
                if not answers:
                    break
                items += answers
    assert reply.output_text == "Here you are."
    assert api.bodies[1]["input"][3:] == OUTPUTS


def test_the_tool_runner_of_the_sdk(client, sdk):
    runners = pytest.importorskip("openai.lib.responses_tool_runner", reason="this version of openai has no tool runner")
    runner = runners.ResponsesToolRunner(functions=llm.openai_responses_tools(client).runnable_tools())
    with canned_api([response(*USES), response()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            last = runner.run(openai, {"model": "gpt", "input": "Rome and Ur?"})
        runner.close()
    assert last.output_text == "Here you are."
    assert [item for item in api.bodies[1]["input"] if item.get("type") == "function_call_output"] == OUTPUTS

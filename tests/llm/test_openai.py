import json

import pytest

import mcplite
from mcplite import llm
from tests.support.models import PDF, PNG, WAV, canned_api, completion

USES = (("t1", "chart", {"city": "Rome"}), ("t2", "fails", {"city": "Ur"}))
URL = f"data:image/png;base64,{PNG}"


@pytest.fixture
def sdk():
    return pytest.importorskip("openai")


def use(name, arguments="{}"):
    return {"id": "t", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_tools(client):
    assert llm.openai_tools(client).tools[0] == {"type": "function", "function": {
        "name": "weather__forecast", "description": "The forecast for a city.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
            "required": ["city"], "additionalProperties": False}}}


def test_strict_tools_where_the_schema_can_be_strict(client):
    server = mcplite.Server("odd")

    @server.tool()
    def free(anything: dict) -> str:
        return repr(anything)

    @server.tool(input_schema={"type": "object", "properties": {"$a": {"type": "integer"}, "b": {"type": "string"},
                                                                "c": {"type": ["string", "null"]}}, "required": ["b"]})
    def closed(**arguments) -> str:
        return repr(sorted(arguments.items()))

    with mcplite.connect(server) as other:
        kit = llm.openai_tools(other, strict=True)
        first, second = [tool["function"] for tool in kit.tools]
        assert "strict" not in first
        assert second["strict"] is True and second["parameters"] == {
            "type": "object", "additionalProperties": False, "required": ["_a", "b", "c"], "properties": {
                "_a": {"type": ["integer", "null"]}, "b": {"type": "string"}, "c": {"type": ["string", "null"]}}}
        # What was optional is null in the strict mode.
        answer = kit.call(use("closed", '{"_a": null, "b": "x", "c": null}'))
        assert answer["content"] == "[('b', 'x'), ('c', None)]"
        assert kit.call(use("free", '{"anything": {"a": null}}'))["content"] == "{'a': None}"


def test_long_descriptions_are_cut():
    server = mcplite.Server("odd")
    server.add_tool(lambda: "x", name="long", description="x" * 2000)
    with mcplite.connect(server) as client:
        description = llm.openai_tools(client).tools[0]["function"]["description"]
    assert len(description) == 1024 and description.endswith("x…")


def test_one_call(client):
    kit = llm.openai_tools(client)
    assert kit.call(use("weather__forecast", '{"city": "Rome"}')) == {
        "role": "tool", "tool_call_id": "t", "content": "Rome: sun for 3 days"}
    assert kit.call(use("fails", '{"city": "Ur"}'))["content"] == "Error: no station in Ur"
    assert kit.call(use("fails", '{"city": '))["content"].startswith(
        "Error: The tool could not be called: the arguments are not valid JSON")
    assert kit.call(use("nothing", ""))["content"] == ""
    assert kit.call(use("chart", '{"city": "Rome"}'))["content"] == (
        "Chart of Rome\n[image (image/png, 68 bytes) is left out: this API takes no such content here]")
    assert kit.call({"id": "t", "type": "custom", "custom": {"name": "sql", "input": "select"}})["content"].startswith(
        "Error: There is no tool sql.")


def test_media_follow_in_a_message_of_the_user(client):
    reply = {"role": "assistant", "content": None, "tool_calls": [use("everything"), use("nothing")]}
    first, second, media = llm.openai_tools(client).answers(reply)
    assert first["content"].splitlines() == [
        "words", "[image (image/png, 68 bytes) follows after the results]",
        "[audio (audio/wav, 4 bytes) follows after the results]",
        "[file file:///a/report.pdf (application/pdf, 4 bytes) follows after the results]",
        "Link to the resource log, file:///a/log.txt (text/plain)"]
    assert second == {"role": "tool", "tool_call_id": "t", "content": ""}
    assert media == {"role": "user", "content": [
        {"type": "text", "text": "Content that the tools returned, in the order of their results:"},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}]}


def test_a_model_that_reads_text_only(client):
    answers = llm.openai_tools(client, media=False).answers({"role": "assistant", "tool_calls": [use("everything")]})
    assert [answer["role"] for answer in answers] == ["tool"]
    assert "[image (image/png, 68 bytes) is left out: this API takes no such content here]" in answers[0]["content"]


def test_what_is_no_call(client):
    kit = llm.openai_tools(client)
    with pytest.raises(TypeError, match="an item of 'tool_calls' was expected, not dict"):
        kit.call({"type": "function"})
    with pytest.raises(TypeError, match="a completion, or a message of the role 'assistant', was expected, not int"):
        kit.answers(3)
    assert kit.answers({"role": "assistant", "content": "text"}) == []
    assert kit.answers({"choices": []}) == []


def test_the_sdk_knows_what_is_made(client, sdk):
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    pydantic = pytest.importorskip("pydantic")
    for strict in (False, True):
        kit = llm.openai_tools(client, strict=strict)
        for tool in kit.tools:
            pydantic.TypeAdapter(ChatCompletionToolParam).validate_python(tool)
    for message in kit.answers({"role": "assistant", "tool_calls": [use("everything"), use("fails"), use("unknown")]}):
        pydantic.TypeAdapter(ChatCompletionMessageParam).validate_python(message)


def test_a_loop_with_the_sdk(client, sdk):
    kit = llm.openai_tools(client)
    messages = [{"role": "user", "content": "Rome and Ur?"}]
    with canned_api([completion(*USES), completion()]) as api:
        with sdk.OpenAI(base_url=api.url, api_key="key", max_retries=0) as openai:
            while True:
                reply = openai.chat.completions.create(model="gpt", messages=messages, tools=kit.tools)
                messages.append(reply.choices[0].message)
                answers = kit.answers(reply)
                if not answers:
                    break
                messages += answers
    assert reply.choices[0].message.content == "Here you are."
    assert [message["role"] for message in api.bodies[1]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert api.bodies[1]["messages"][3] == {"role": "tool", "tool_call_id": "t2", "content": "Error: no station in Ur"}
    assert api.bodies[1]["messages"][4]["content"][1] == {"type": "image_url", "image_url": {"url": URL}}
    assert json.loads(api.bodies[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}

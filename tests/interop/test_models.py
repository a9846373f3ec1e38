"""The tools of a server of other people, with which a model works through our client: declared, called, images kept."""

import json

import pytest

import mcplite
from mcplite import llm
from tests.support.models import anthropic_reply, canned_api

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
#: Seconds; a loaded machine starts node slowly.
LIMIT = 60


@pytest.fixture
def everything(installed):
    with mcplite.connect(installed.node("server-everything"), open_timeout=LIMIT) as client:
        yield client


def test_the_sync_tool_runner_of_anthropic_works_with_an_image(everything, monkeypatch):
    sdk = pytest.importorskip("anthropic", reason="anthropic is not installed")
    pytest.importorskip("anthropic.lib.tools", reason="this version of anthropic has no tool runner")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    replies = [anthropic_reply(("t1", "get-tiny-image", {}), ("t2", "echo", {"message": "hi"})),
               anthropic_reply(("t3", "get-sum", {"a": "one", "b": 2})), anthropic_reply(text="An image of the logo.")]
    with canned_api(replies) as api, sdk.Anthropic(base_url=api.url, api_key="key", max_retries=0) as anthropic:
        runner = anthropic.beta.messages.tool_runner(
            model="claude", max_tokens=100, tools=llm.anthropic_tools(everything).runnable_tools(),
            messages=[{"role": "user", "content": "What is in the image?"}])
        last = runner.until_done()
    assert last.content[0].text == "An image of the logo."
    assert {"get-tiny-image", "echo", "get-sum"} <= {tool["name"] for tool in api.bodies[0]["tools"]}
    first, second = api.bodies[1]["messages"][-1]["content"]
    (image,) = [block for block in first["content"] if block["type"] == "image"]
    assert image["source"]["media_type"] == "image/png" and image["source"]["data"].startswith("iVBOR")
    assert "hi" in second["content"][0]["text"]
    (third,) = api.bodies[2]["messages"][-1]["content"]
    assert third["is_error"] and third["content"][0]["text"]


def test_all_tools_are_declared_to_each_api_and_the_image_reaches_it(everything):
    listed = everything.list_tools()
    use = {"type": "tool_use", "id": "1", "name": "get-tiny-image", "input": {}}
    kit = llm.anthropic_tools(everything)
    assert [tool["name"] for tool in kit.tools] == [tool.name for tool in listed]
    data = next(block["source"]["data"] for block in kit.call(use)["content"] if block["type"] == "image")
    call = {"id": "1", "type": "function", "function": {"name": "get-tiny-image", "arguments": "{}"}}
    for make, reply in [
        (llm.openai_tools, {"role": "assistant", "tool_calls": [call]}),
        (llm.openai_responses_tools, [{"type": "function_call", "call_id": "1", "name": "get-tiny-image", "arguments": "{}"}]),
        (llm.gemini_tools, {"role": "model", "parts": [{"functionCall": {"name": "get-tiny-image", "args": {}}}]}),
    ]:
        kit = make(everything)
        assert json.dumps(kit.tools).count('"name": "get-') >= 5
        assert data in json.dumps(kit.answers(reply))

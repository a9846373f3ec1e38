"""Sampling handlers: what a server's request is to an API, and what its answer is to the server, in every revision."""

import json

import pytest

import mcplite
from mcplite import ClientOptions, errors, llm
from mcplite.types import (
    AudioContent,
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from tests.support.models import LIMIT, PNG, WAV, anthropic_reply, canned_api, completion

HANDLERS = {"anthropic": llm.anthropic_sampling, "openai": llm.openai_sampling}
CITY = {"city in Italy": {"type": "string"}}
WEATHER = Tool("weather.now", {"type": "object", "properties": CITY, "required": ["city in Italy"]})


class Endpoint:
    """What an SDK's client has: an attribute for each part of a method's name, and a function that remembers its calls."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []
        self.messages = self.chat = self.completions = self

    def create(self, **options):
        self.asked.append(json.loads(json.dumps(options)))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@pytest.fixture(params=sorted(HANDLERS))
def kind(request):
    return request.param


def reply(kind, *uses, text="Rain."):
    return (anthropic_reply if kind == "anthropic" else completion)(*uses, text=text)


def ask(handler, *, revision="2025-11-25", **request):
    """Return what a server's handler gets for a request, as one that a client's handler answers."""
    server, found = mcplite.Server("asker"), []

    @server.tool()
    def run(ctx: mcplite.Context) -> str:
        found.append(ctx.sample(**request))
        return "done"

    options = ClientOptions(sampling_tools=revision >= "2025-11-25")
    with mcplite.connect(server, revision=revision, sampling_handler=handler, options=options, timeout=LIMIT) as client:
        assert client.call_tool("run").text == "done"
    return found[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_text_is_answered_in_every_revision(kind, revision):
    api = Endpoint(reply(kind))
    answer = ask(HANDLERS[kind](api, "small"), revision=revision, messages="Will it rain?", system_prompt="Be short.",
                 max_tokens=50, temperature=0.5, stop_sequences=["END"])
    assert (answer.text, answer.model, answer.stop_reason) == ("Rain.", "claude" if kind == "anthropic" else "gpt", "endTurn")
    (asked,) = api.asked
    said = {"role": "user", "content": [{"type": "text", "text": "Will it rain?"}]}
    if kind == "anthropic":
        assert asked == {"model": "small", "messages": [said], "system": "Be short.", "max_tokens": 50, "temperature": 0.5,
                         "stop_sequences": ["END"]}
    else:
        assert asked == {"model": "small", "messages": [{"role": "system", "content": "Be short."}, said], "temperature": 0.5,
                         "max_completion_tokens": 50, "stop": ["END"]}


def test_tools_go_to_the_model_and_their_names_come_back(kind):
    api = Endpoint(reply(kind, ("u1", "weather__now", {"city_in_Italy": "Rome"}), text="Let me look."))
    answer = ask(HANDLERS[kind](api, "small"), messages="Rain in Rome?", max_tokens=50, tools=[WEATHER],
                 tool_choice=ToolChoice("required"))
    assert answer.content == [TextContent("Let me look."), ToolUseContent("u1", "weather.now", {"city in Italy": "Rome"})]
    assert answer.stop_reason == "toolUse"
    declared = api.asked[0]["tools"][0]
    function = declared if kind == "anthropic" else declared["function"]
    schema = function["input_schema" if kind == "anthropic" else "parameters"]
    assert function["name"] == "weather__now" and list(schema["properties"]) == ["city_in_Italy"]
    assert api.asked[0]["tool_choice"] == ({"type": "any"} if kind == "anthropic" else "required")


def test_a_conversation_with_results_and_pictures(kind):
    api = Endpoint(reply(kind))
    use = ToolUseContent("u1", "weather.now", {"city in Italy": "Rome"})
    result = ToolResultContent("u1", [TextContent("12 mm"), ImageContent(PNG, "image/png")])
    messages = [
        SamplingMessage("user", [TextContent("Rain?"), ImageContent(PNG, "image/png"), AudioContent(WAV, "audio/wav")]),
        SamplingMessage("assistant", [TextContent("Let me look."), use]), SamplingMessage("user", [result])]
    ask(HANDLERS[kind](api, "small"), messages=messages, max_tokens=50, tools=[WEATHER])
    (asked,) = api.asked
    first, second, *rest = asked["messages"]
    types = [block["type"] for block in first["content"]]
    if kind == "anthropic":
        assert types == ["text", "image", "text"] and "audio" in first["content"][2]["text"]
        assert second["content"][1] == {"type": "tool_use", "id": "u1", "name": "weather__now",
                                        "input": {"city_in_Italy": "Rome"}}
        (answered,) = rest
        (block,) = answered["content"]
        assert block["tool_use_id"] == "u1" and [part["type"] for part in block["content"]] == ["text", "image"]
    else:
        assert types == ["text", "image_url", "input_audio"]
        (call,) = second["tool_calls"]
        assert second["content"] == "Let me look." and call["id"] == "u1" and call["function"]["name"] == "weather__now"
        assert json.loads(call["function"]["arguments"]) == {"city_in_Italy": "Rome"}
        answered, picture = rest
        assert answered["role"] == "tool" and answered["tool_call_id"] == "u1" and "12 mm" in answered["content"]
        assert picture["content"][1]["type"] == "image_url"


def test_a_tool_that_failed_and_has_structured_content(kind):
    api = Endpoint(reply(kind))
    messages = [SamplingMessage("user", "Rain?"), SamplingMessage("assistant", [ToolUseContent("u1", "gone", {})]),
                SamplingMessage("user", [ToolResultContent("u1", [TextContent("no station")], {"code": 7}, True)])]
    ask(HANDLERS[kind](api, "small"), messages=messages, max_tokens=50)
    text = json.dumps(api.asked[0]["messages"][-1])
    assert "no station" in text and "7" in text and ('"is_error": true' in text or "Error: " in text)


@pytest.mark.parametrize("hints, chosen", [
    # SAMP-18, SAMP-19
    ([], "big-2"), (["SMALL"], "small-1"), (["unknown", "small"], "small-1"), (["x"], "big-2"),
    (["", None, "small"], "small-1")])
def test_a_hint_chooses_among_the_models_of_the_user(kind, hints, chosen):
    api = Endpoint(reply(kind))
    ask(HANDLERS[kind](api, ["big-2", "small-1"]), messages="Hi", max_tokens=9,
        model_preferences=ModelPreferences([ModelHint(hint) for hint in hints], speed_priority=1.0))
    assert api.asked[0]["model"] == chosen


def test_a_server_gets_no_more_tokens_than_the_user_allows(kind):
    api = Endpoint(reply(kind))
    ask(HANDLERS[kind](api, "small", max_tokens=100), messages="Hi", max_tokens=1_000_000)
    assert 100 in api.asked[0].values() and 1_000_000 not in api.asked[0].values()


def test_others_than_openai_get_the_older_name_of_the_limit():
    api = Endpoint(reply("openai"))
    api.base_url = "http://127.0.0.1:11434/v1/"
    ask(HANDLERS["openai"](api, "llama"), messages="Hi", max_tokens=9)
    assert api.asked[0]["max_tokens"] == 9 and "max_completion_tokens" not in api.asked[0]


class Refused(Exception):
    status_code = 401


@pytest.mark.parametrize("replied, message", [
    (Refused("invalid key sk-12345"), r"the API of the client's model failed \(Refused, 401\)"),
    ({}, "answered with what cannot be read"), ({"content": None}, "cannot be read"), ({"choices": []}, "cannot be read"),
    ("unknown tool", "the tool 'nothing'"), ("no json", "JSON"),
])
def test_an_api_that_fails_is_an_error_without_its_secrets(kind, replied, message, caplog):
    if replied == "unknown tool":
        replied = reply(kind, ("u1", "nothing", {}))
    elif replied == "no json":
        replied = reply(kind, ("u1", "weather__now", [1]))
    with pytest.raises(errors.MCPError, match=message) as caught:
        ask_directly(HANDLERS[kind](Endpoint(replied), "small"), tools=[WEATHER])
    assert "sk-12345" not in str(caught.value)
    assert "sk-12345" in caplog.text or not isinstance(replied, Exception)


def ask_directly(handler, **request):
    """Call a handler as the client does, for errors that a server's handler sees in other words."""
    from mcplite.client.handler_types import AskedSampling

    return handler(AskedSampling(messages=[SamplingMessage("user", [TextContent("Hi")])], max_tokens=9, **request))


def test_a_request_that_cannot_be_asked(kind):
    with pytest.raises(errors.InvalidParams, match="toolChoice"):
        ask_directly(HANDLERS[kind](Endpoint(), "small"), tools=[WEATHER], tool_choice=ToolChoice("maybe"))
    from mcplite.client.handler_types import AskedSampling

    with pytest.raises(errors.InvalidParams, match="send a message with content"):
        HANDLERS[kind](Endpoint(), "small")(AskedSampling(messages=[SamplingMessage("user", [TextContent(" ")])], max_tokens=9))


@pytest.mark.parametrize("api, model, options, error", [
    (object(), "small", {}, TypeError), (Endpoint(), "", {}, ValueError), (Endpoint(), [], {}, ValueError),
    (Endpoint(), "small", {"max_tokens": 0}, ValueError)])
def test_a_handler_that_cannot_work_is_refused_at_once(kind, api, model, options, error):
    with pytest.raises(error):
        HANDLERS[kind](api, model, **options)


def test_an_asynchronous_client_is_refused(kind):
    api = Endpoint()

    async def create(**options):
        raise AssertionError("never awaited")

    api.create = create
    with pytest.raises(TypeError, match="not the asynchronous client"):
        ask_directly(HANDLERS[kind](api, "small"))


def test_the_sdk_of_each_api_asks_a_server_of_the_api(kind, monkeypatch):
    sdk = pytest.importorskip(kind, reason=f"{kind} is not installed")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with canned_api([reply(kind, ("u1", "weather__now", {"city_in_Italy": "Rome"}), text=""), reply(kind)]) as api:
        make = sdk.Anthropic if kind == "anthropic" else sdk.OpenAI
        with make(base_url=api.url, api_key="key", max_retries=0) as client:
            handler = HANDLERS[kind](client, "small")
            answer = ask(handler, messages="Rain?", max_tokens=50, tools=[WEATHER], tool_choice=ToolChoice("auto"))
            assert answer.content[-1] == ToolUseContent("u1", "weather.now", {"city in Italy": "Rome"})
            assert ask(handler, messages="Rain?", max_tokens=50).text == "Rain."
            with pytest.raises(errors.InternalError, match=r"\(InternalServerError, 500\)"):
                ask_directly(handler)
    assert [path.rpartition("/")[2] for path, _ in api.requests] == ["messages" if kind == "anthropic" else "completions"] * 3

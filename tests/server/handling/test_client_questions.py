"""Questions to a client of the handshake era: elicitation in all generations, sampling, roots."""

import enum
import threading
from dataclasses import dataclass
from typing import List, Literal, Optional

import pytest

import mcplite
from mcplite import types
from mcplite.revisions import REVISIONS
from mcplite.server import Context, Server, ServerOptions


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Booking:
    city: str
    nights: int = 1
    color: Color = Color.RED
    note: Optional[str] = None


@dataclass
class Stay:
    nights: int

    def __post_init__(self):
        if self.nights % 2:
            raise ValueError("a stay has an even number of nights")


class Asking:
    """Runs one handler that asks, and plays the client."""

    def __init__(self, connect, handler, revision="2025-11-25", capabilities=None):
        self.server = Server("asking")

        def ask(ctx: Context) -> str:
            return str(handler(ctx))

        self.server.add_tool(ask)
        if capabilities is None:
            capabilities = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
            if revision == "2025-06-18":
                capabilities["elicitation"] = {}
        self.client = connect(self.server, revision, capabilities)
        self.id = self.client.start("tools/call", {"name": "ask"})

    def question(self):
        return self.client.request_from_server()

    def result(self):
        return self.client.answer(self.id)["result"]

    def text(self):
        result = self.result()
        return result["content"][0]["text"] if result["content"] else ""


def test_a_form_of_a_dataclass_gives_a_dataclass(connect):
    got = []

    def ask(ctx: Context) -> str:
        reply = ctx.elicit("Where to?", Booking)
        got.append(reply)
        return reply.data.city

    asking = Asking(connect, ask)
    question = asking.question()
    assert question["method"] == "elicitation/create"
    schema = question["params"]["requestedSchema"]
    assert schema["required"] == ["city"]
    assert schema["properties"]["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert schema["properties"]["note"] == {"type": "string"}
    asking.client.respond(question, {"action": "accept", "content": {"city": "Rome", "nights": 2, "color": "blue"}})
    assert asking.text() == "Rome"
    (reply,) = got
    assert reply.accepted and reply.data == Booking("Rome", 2, Color.BLUE) and "accept" in repr(reply)


@pytest.mark.parametrize("wanted, answer, data", [
    (bool, True, True), (int, 3, 3), (float, 2, 2.0), (Color, "red", Color.RED), (Literal["a", "b"], "b", "b"),
    (List[Literal["a", "b"]], ["a"], ["a"]),
])
def test_a_plain_type_becomes_a_form_with_one_field(connect, wanted, answer, data):
    got = []
    asking = Asking(connect, lambda ctx: got.append(ctx.elicit("?", wanted).data))
    asking.client.respond(asking.question(), {"action": "accept", "content": {"value": answer}})
    asking.result()
    assert got == [data] and type(got[0]) is type(data)


def test_titled_choices_by_revision(connect):
    schema = {"type": "object", "properties": {
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
                 "default": "s"},
        "sure": {"type": "boolean", "default": True}}}

    def ask(ctx: Context) -> str:
        return str(ctx.elicit("?", schema).data)

    asking = Asking(connect, ask)
    question = asking.question()
    assert question["params"]["requestedSchema"] == schema
    asking.client.respond(question, {"action": "accept", "content": {}})
    assert asking.text() == "{'size': 's', 'sure': True}"

    asking = Asking(connect, ask, "2025-06-18")
    question = asking.question()
    assert question["params"]["requestedSchema"]["properties"] == {
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "sure": {"type": "boolean", "default": True}}
    asking.client.respond(question, {"action": "accept", "content": {"size": "l"}})
    assert asking.text() == "{'size': 'l', 'sure': True}"


#: What asks, and the answers that do not fit it.
UNFITTING = [(lambda ctx: ctx.elicit("?", int).data, {"result": answer}) for answer in (
    {"action": "accept", "content": {"value": "x"}}, {"action": "accept", "content": {}}, {"action": "maybe"}, {},
    {"action": "accept", "content": []})] + [
    (lambda ctx: ctx.list_roots(), {"result": answer}) for answer in ({}, {"roots": {}}, {"roots": [{"name": "x"}]})] + [
    (lambda ctx: ctx.elicit("?", int), {"error": {"code": -32603, "message": "no screen"}})]


@pytest.mark.parametrize("ask, answer", UNFITTING)
def test_an_answer_that_does_not_fit_its_question_is_an_error(connect, ask, answer):
    asking = Asking(connect, ask)
    asking.client.send({"jsonrpc": "2.0", "id": asking.question()["id"], **answer})
    result = asking.result()
    assert result["isError"] is True and answer.get("error", {}).get("message", "") in result["content"][0]["text"]


NESTED = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
INVALID = [
    (lambda ctx: ctx.elicit("?", NESTED), "flat", "2025-11-25"),
    (lambda ctx: ctx.elicit("?", List[Literal["a", "b"]]), "several", "2025-06-18"),
    (lambda ctx: ctx.sample([types.SamplingMessage("assistant", [types.ToolUseContent("u1", "t", {})])]), "no results",
     "2025-11-25"),
    (lambda ctx: ctx.sample("?", include_context="everything"), "include_context", "2025-11-25"),
    (lambda ctx: ctx.ask({"x": "what?"}), "not a question", "2025-11-25"),
    *((lambda ctx, url=url: ctx.elicit_url("?", url), "needs an absolute http or https URL", "2025-11-25")  # URLE-03
      for url in ("", "javascript:alert(1)", "file:///etc", "https://", "example.com", "https://a\nb")),
]


@pytest.mark.parametrize("ask, text, revision", INVALID)
def test_what_is_no_valid_question_is_not_sent(connect, ask, text, revision):
    asking = Asking(connect, ask, revision)
    assert text in asking.text() and asking.client.others == []


def test_an_answer_that_the_type_of_the_form_refuses_is_an_error(connect, caplog):
    asking = Asking(connect, lambda ctx: str(ctx.elicit("How long?", Stay).data))
    asking.client.respond(asking.question(), {"action": "accept", "content": {"nights": 3}})
    result = asking.result()
    assert result["isError"] is True and "does not fit the form: a stay has an even" in result["content"][0]["text"]
    assert "Traceback" not in caplog.text


def test_a_field_that_sounds_like_a_secret_is_warned_about(connect, caplog):
    asking = Asking(connect, lambda ctx: ctx.elicit("?", {"type": "object", "properties": {"password": {"type": "string"}}}))
    asking.client.respond(asking.question(), {"action": "cancel"})
    asking.result()
    assert "looks like a secret" in caplog.text


@pytest.mark.parametrize("capabilities, revision, form, url", [
    ({}, "2025-11-25", False, False), ({"elicitation": {}}, "2025-11-25", True, False),
    ({"elicitation": {"form": {}}}, "2025-11-25", True, False), ({"elicitation": {"url": {}}}, "2025-11-25", False, True),
    ({"elicitation": {}}, "2025-06-18", True, False), ({"elicitation": {}}, "2025-03-26", False, False),
])
def test_capabilities_decide_which_questions_can_be_asked(connect, capabilities, revision, form, url):
    def ask(ctx: Context) -> str:
        return f"{ctx.can_elicit} {ctx.can_elicit_url}"

    assert Asking(connect, ask, revision, capabilities).text() == f"{form} {url}"


def test_undeclared_capabilities_are_never_used(connect):
    def ask(ctx: Context) -> str:
        texts = []
        for question in (lambda: ctx.elicit("?"), lambda: ctx.elicit_url("?", "https://example.com"), lambda: ctx.sample("?"),
                         lambda: ctx.sample("?", tools=[types.Tool("t", {})]), ctx.list_roots):
            try:
                question()
            except Exception as error:
                texts.append(f"{type(error).__name__} {error.required}")
        return "\n".join(texts)

    asking = Asking(connect, ask, capabilities={})
    assert asking.text().splitlines() == [
        "MissingCapability {'elicitation': {'form': {}}}", "MissingCapability {'elicitation': {'url': {}}}",
        "MissingCapability {'sampling': {}}", "MissingCapability {'sampling': {'tools': {}}}",
        "MissingCapability {'roots': {}}"]
    assert asking.client.others == []


def test_urls(connect, caplog):
    def ask(ctx: Context) -> str:
        reply = ctx.elicit_url("Sign in", "http://example.com/auth?x=1", "my-id")
        ctx.elicitation_complete("my-id")
        return reply.action

    asking = Asking(connect, ask)
    question = asking.question()
    assert question["params"] == {"mode": "url", "message": "Sign in", "url": "http://example.com/auth?x=1",
                                  "elicitationId": "my-id"}
    asking.client.respond(question, {"action": "accept"})
    assert asking.text() == "accept"
    assert asking.client.others == [{"jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                                     "params": {"elicitationId": "my-id"}}]
    assert "should use https" in caplog.text


def test_sampling(connect):
    got = []

    def ask(ctx: Context) -> str:
        reply = ctx.sample(["Hello", types.assistant("Hi"), types.user("Again"),
                            types.SamplingMessage("assistant", [types.TextContent("x")])], max_tokens=7, system_prompt="s",
                           temperature=0.5, stop_sequences=["."], metadata={"a": 1}, include_context="thisServer",
                           model_preferences=types.ModelPreferences(hints=[types.ModelHint("claude")], speed_priority=1.0))
        got.append(reply)
        return reply.text

    asking = Asking(connect, ask)
    question = asking.question()
    assert question["method"] == "sampling/createMessage"
    assert question["params"] == {
        "messages": [{"role": role, "content": {"type": "text", "text": text}} for role, text in
                     (("user", "Hello"), ("assistant", "Hi"), ("user", "Again"), ("assistant", "x"))], "maxTokens": 7,
        "systemPrompt": "s", "temperature": 0.5, "stopSequences": ["."], "metadata": {"a": 1},
        "modelPreferences": {"hints": [{"name": "claude"}], "speedPriority": 1.0}}
    asking.client.respond(question, {"role": "assistant", "content": {"type": "text", "text": "Yes"}, "model": "m",
                                     "stopReason": "endTurn"})
    assert asking.text() == "Yes"
    assert got[0].model == "m" and got[0].stop_reason == "endTurn"


def test_sampling_with_tools(connect):
    def ask(ctx: Context) -> str:
        use = ctx.sample("?", tools=[types.Tool("t", {"type": "object"})], tool_choice=types.ToolChoice("required")).content[0]
        reply = ctx.sample([types.user("?"), types.SamplingMessage("assistant", [use]),
                            types.SamplingMessage("user", [types.ToolResultContent(use.id, [types.TextContent("42")])])])
        return reply.text

    asking = Asking(connect, ask)
    question = asking.question()
    assert question["params"]["toolChoice"] == {"mode": "required"} and question["params"]["tools"][0]["name"] == "t"
    asking.client.respond(question, {"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [
        {"type": "tool_use", "id": "u1", "name": "t", "input": {}}]})
    question = asking.question()
    assert question["params"]["messages"][2]["content"]["toolUseId"] == "u1"
    asking.client.respond(question, {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "42!"}]})
    assert asking.text() == "42!"


def test_roots_are_asked_for_once_until_they_change(connect):
    changed = threading.Event()

    def roots_changed(session):
        changed.set()

    server = Server("roots", options=ServerOptions(on_roots_changed=roots_changed))

    @server.tool()
    def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in ctx.list_roots())

    client = connect(server, capabilities={"roots": {"listChanged": True}})

    def ask(expect_question, uri):
        id = client.start("tools/call", {"name": "roots"})
        if expect_question:
            question = client.request_from_server()
            assert question["method"] == "roots/list"
            client.respond(question, {"roots": [{"uri": uri, "name": "n"}]})
        return client.answer(id)["result"]["content"][0]["text"]

    assert ask(True, "file:///a") == "file:///a"
    assert ask(False, None) == "file:///a"
    client.notify("notifications/roots/list_changed")
    assert changed.wait(20)
    assert ask(True, "file:///b") == "file:///b"


def test_cancelling_the_call_ends_the_question(connect):
    ended = threading.Event()

    def ask(ctx: Context) -> None:
        try:
            ctx.elicit("?", str)
        finally:
            ended.set()

    asking = Asking(connect, ask)
    question = asking.question()
    asking.client.notify("notifications/cancelled", {"requestId": asking.id})
    assert ended.wait(20)
    notice = asking.client.receive()
    assert notice["method"] == "notifications/cancelled" and notice["params"]["requestId"] == question["id"]


def test_a_question_without_an_answer_times_out(connect):
    from mcplite.server import Limits

    server = Server("impatient", limits=Limits(ask_seconds=0.05))

    @server.tool()
    def ask(ctx: Context) -> None:
        ctx.elicit("?", str)

    client = connect(server, capabilities={"elicitation": {}})
    id = client.start("tools/call", {"name": "ask"})
    result = client.answer(id)["result"]
    assert result["isError"] is True and "did not answer 'elicitation/create'" in result["content"][0]["text"]


def test_one_worker_place_is_enough_for_nested_questions(connect):
    from mcplite.server import Limits

    server = Server("narrow", limits=Limits(running=1))

    @server.tool()
    def ask(depth: int, ctx: Context) -> str:
        return ctx.elicit(str(depth), str).data

    client = connect(server, capabilities={"elicitation": {}})
    ids = [client.start("tools/call", {"name": "ask", "arguments": {"depth": depth}}) for depth in range(5)]
    questions = [client.request_from_server() for _ in ids]
    for question in reversed(questions):
        client.respond(question, {"action": "accept", "content": {"value": question["params"]["message"]}})
    assert sorted(client.answer(id)["result"]["content"][0]["text"] for id in ids) == list("01234")


@pytest.mark.parametrize("messages", [
    lambda picture: [mcplite.user(picture)], lambda picture: mcplite.user(picture), lambda picture: [picture],
    lambda picture: [types.SamplingMessage(role="user", content=[picture])],
], ids=["list", "one", "bare", "message"])
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_images_are_sampled_as_they_are_prompted(messages, revision):
    picture = mcplite.Image(b"\x89PNG\r\n\x1a\n")
    mcp, seen = mcplite.Server("pictures"), []

    @mcp.tool
    def describe(ctx: mcplite.Context) -> str:
        return ctx.sample(messages(picture)).text

    def model(request):
        seen.append(request.messages[0].content[0])
        return "a cat"

    with mcplite.connect(mcp, revision=revision, sampling_handler=model) as client:
        assert client.call_tool("describe").text == "a cat"
    assert seen == [picture.content()]


@pytest.mark.parametrize("given", [None, "flow-7"])
@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision.elicitation_modes], ids=str)
def test_the_answer_to_a_url_question_has_its_id(given, revision):
    mcp, asked = mcplite.Server("pages"), []

    @mcp.tool
    def link(ctx: mcplite.Context) -> str:
        return str(ctx.elicit_url("Sign in", "https://example.com/", elicitation_id=given).elicitation_id)

    def visit(request):
        asked.append(request.elicitation_id)
        return True

    with mcplite.connect(mcp, revision=revision, url_elicitation_handler=visit) as client:
        answered = client.call_tool("link").text
    if revision.elicitation_ids:
        assert asked == [answered] and answered != "None" and given in (None, answered)
    else:
        assert asked == [None] and answered == str(given)

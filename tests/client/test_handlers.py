import dataclasses
import enum
import logging
import pathlib
import re
import threading
from types import MappingProxyType
from typing import Optional

import pytest

import mcplite
from mcplite import revisions
from mcplite.client.client_options import ClientSettings
from mcplite.client.handlers import Handlers
from mcplite.errors import InternalError, InvalidParams, MethodNotFound, RemoteError
from mcplite.rpc.cancel import CancelToken
from mcplite.types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    ImageContent,
    Implementation,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
    ToolUseContent,
)
from tests.support.fakes import LIMIT, Fake

NEWEST = revisions.NEWEST_LEGACY
OLDEST = revisions.LEGACY[0]
FORM = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
        "required": ["name"]}
HELLO = [{"role": "user", "content": {"type": "text", "text": "hello"}}]


@dataclasses.dataclass
class Details:
    name: str
    age: Optional[int] = None


class Ada(enum.Enum):
    NAME = "Ada"


def answer(method, params, revision=NEWEST, **handlers):
    return Handlers(ClientSettings(**handlers)).answer(method, params, revision, CancelToken())


def elicit(handler, revision=NEWEST, **params):
    return answer("elicitation/create", {"message": "Who?", "requestedSchema": FORM, **params}, revision,
                  elicitation_handler=handler)


def visit(handler, **params):
    return answer("elicitation/create", {"mode": "url", "message": "Sign in", "url": "https://example.com/x",
                                         "elicitationId": "e1", **params}, url_elicitation_handler=handler)


def sample(handler, revision=NEWEST, messages=HELLO, sampling_tools=False, **params):
    return answer("sampling/createMessage", {"messages": messages, "maxTokens": 10, **params}, revision,
                  sampling_handler=handler, sampling_tools=sampling_tools)


# --- capabilities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("handlers, capabilities", [
    ({}, {}),
    ({"elicitation_handler": print}, {"elicitation": {"form": {}}}),
    ({"url_elicitation_handler": print}, {"elicitation": {"url": {}}}),
    ({"elicitation_handler": print, "url_elicitation_handler": print}, {"elicitation": {"form": {}, "url": {}}}),
    ({"sampling_handler": print}, {"sampling": {}}),
    ({"sampling_handler": print, "sampling_tools": True, "sampling_context": True},
     {"sampling": {"tools": {}, "context": {}}}),
    ({"roots": []}, {"roots": {"listChanged": True}}),
    ({"log_handler": print, "on_tools_changed": print}, {}),
    ({"experimental": {"x": {}}}, {"experimental": {"x": {}}}),
])
def test_a_handler_is_the_capability(handlers, capabilities):
    requests = {**({"elicitation": {"create": {}}} if "elicitation" in capabilities else {}),
                **({"sampling": {"createMessage": {}}} if "sampling" in capabilities else {})}
    with Fake() as fake, fake.connect(**handlers):
        declared = fake.sent[0]["params"]["capabilities"]
    assert declared.pop("tasks", {"requests": {}})["requests"] == requests  # TSK-01
    assert declared == capabilities  # ELIC-01, ELIC-02, SAMP-01, SAMP-06, ROOT-01


@pytest.mark.parametrize("revision", revisions.LEGACY, ids=str)
def test_a_capability_is_declared_where_the_revision_has_it(revision):
    everything = {"elicitation_handler": print, "url_elicitation_handler": print, "sampling_handler": print,
                  "sampling_tools": True}
    with Fake() as fake, fake.connect(revision=revision, **everything):
        declared = fake.sent[0]["params"]["capabilities"]
    expected = {"sampling": {"tools": {}} if revision.sampling_tools else {}}
    if "elicitation/create" in revision.server_requests:
        expected["elicitation"] = {"form": {}, "url": {}} if revision.elicitation_modes else {}
    if revision.task_requests:
        expected["tasks"] = {"list": {}, "cancel": {},
                             "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}
    assert declared == expected


def test_url_questions_alone_do_not_declare_forms():
    with Fake() as fake, fake.connect(revision="2025-06-18", url_elicitation_handler=print):
        assert fake.sent[0]["params"]["capabilities"] == {}
        assert fake.asked("elicitation/create", {"message": "?", "requestedSchema": FORM})["error"]["code"] == -32602


@pytest.mark.parametrize("revision", revisions.LEGACY, ids=str)
def test_a_question_of_another_revision_is_an_unknown_method(revision):
    ask = {"message": "Who?", "requestedSchema": FORM}
    if "elicitation/create" in revision.server_requests:
        assert answer("elicitation/create", ask, revision, elicitation_handler=lambda request: None) == {"action": "cancel"}
    else:
        with pytest.raises(MethodNotFound):
            answer("elicitation/create", ask, revision, elicitation_handler=print)


@pytest.mark.parametrize("method, keyword", [
    ("elicitation/create", "an elicitation_handler="), ("sampling/createMessage", "a sampling_handler="),
    ("roots/list", "roots="),
])
def test_the_refusal_of_a_question_without_a_handler_names_the_keyword(method, keyword, caplog):
    for revision in revisions.REVISIONS:
        known = method in revision.server_requests | revision.input_requests
        advice = f"; give connect() {keyword}" if known else ""
        with pytest.raises(MethodNotFound, match=f"^Method not found: {method}{re.escape(advice)} \\(code"):
            answer(method, {}, revision)
        assert (f"the server asked for {method.partition('/')[0]}, and nothing answers" in caplog.text) == known
        caplog.clear()


# --- forms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned, sent", [
    ({"name": "Ada", "age": 1}, {"action": "accept", "content": {"name": "Ada", "age": 1}}),
    ({"name": "Ada"}, {"action": "accept", "content": {"name": "Ada", "age": 30}}),
    ({"name": "Ada", "age": None}, {"action": "accept", "content": {"name": "Ada"}}),
    (False, {"action": "decline"}),
    (None, {"action": "cancel"}),
    (ElicitResult("decline", {"name": "secret"}), {"action": "decline"}),
])
def test_results_of_a_form_handler(returned, sent):
    assert elicit(lambda request: returned) == sent  # ELIC-10, ELIC-11


def test_a_form_handler_gets_the_question_and_the_server():
    seen = []
    with Fake() as fake, fake.connect(elicitation_handler=seen.append):
        fake.asked("elicitation/create", {"message": "Who?", "requestedSchema": FORM, "_meta": {"a": 1}, "new": 2})
    request, = seen
    assert isinstance(request, ElicitRequest)
    assert (request.message, request.mode, request.requested_schema) == ("Who?", "form", FORM)  # ELIC-05
    assert request.server == Implementation(name="fake", version="1")  # ELIC-18
    assert request.meta == {"a": 1} and request.extra == {"new": 2} and not request.token.cancelled


@pytest.mark.parametrize("respond, sent", [
    (lambda asked: asked.accept({"name": "Ada"}), {"action": "accept", "content": {"name": "Ada", "age": 30}}),
    (lambda asked: asked.accept(Details("Ada")), {"action": "accept", "content": {"name": "Ada"}}),
    (lambda asked: asked.accept(Details("Ada", 4)), {"action": "accept", "content": {"name": "Ada", "age": 4}}),
    (lambda asked: {"name": Ada.NAME}, {"action": "accept", "content": {"name": "Ada", "age": 30}}),
    (lambda asked: asked.accept(MappingProxyType({"name": "Ada"})),
     {"action": "accept", "content": {"name": "Ada", "age": 30}}),
    (lambda asked: asked.decline(), {"action": "decline"}), (lambda asked: asked.cancel(), {"action": "cancel"}),
])
def test_the_answers_are_methods_of_the_question(respond, sent):
    assert elicit(respond) == sent


@pytest.mark.parametrize("returned", [
    {"age": 3}, {"name": 3}, {"name": "Ada", "age": "old"}, {"name": "Ada", "age": True}, 3, "Ada", ["Ada"],
    ElicitResult("maybe"), "accept", [("name", "Ada")], 5, True, ElicitResult("accept", "Ada"), ElicitResult("accept", 5),
])
def test_a_bad_answer_is_logged_and_not_sent(returned, caplog):
    with pytest.raises(InternalError) as caught:
        elicit(lambda request: returned)  # ELIC-14
    assert caught.value.code == -32603 and "client" in caught.value.message
    assert [record for record in caplog.records if record.levelno == logging.ERROR]
    assert returned != 5 or "True (accepted), False (declined) or None (cancelled), not 5" in caplog.text


def test_a_failing_handler_sends_no_details(caplog):
    def fail(request):
        raise OSError("/home/ada/secret.txt")

    with pytest.raises(InternalError) as caught:
        elicit(fail)
    assert "secret" not in caught.value.message and "secret.txt" in caplog.text


def test_a_handler_may_choose_the_error():
    def refuse(request):
        raise RemoteError("not now", code=-30001)

    with pytest.raises(RemoteError) as caught:
        elicit(refuse)
    assert caught.value.code == -30001


def stop(request):
    raise mcplite.Cancelled("window closed")


def test_a_handler_that_is_cancelled_cancels():
    assert elicit(stop) == {"action": "cancel"}
    assert visit(stop) == {"action": "cancel"}


@pytest.mark.parametrize("params", [
    {"requestedSchema": None}, {"requestedSchema": []}, {"requestedSchema": {"type": "object"}}, {"message": None},
    {"requestedSchema": {"type": "object", "properties": ["a"]}},
])
def test_an_invalid_form_is_refused(params):
    with pytest.raises(InvalidParams):
        elicit(lambda request: pytest.fail("must not be asked"), **params)


def test_invalid_fields_are_asked_and_not_checked(caplog):
    schema = {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "deep": {"type": "object", "properties": {}}}}
    sent = elicit(lambda request: {"id": 1, "deep": {"a": 1}}, requestedSchema=schema)
    assert sent["content"] == {"id": 1, "deep": {"a": 1}}
    assert elicit(lambda request: {"id": 1, "note": "x"}, requestedSchema=schema)["content"] == {"id": 1, "note": "x"}
    with pytest.raises(InternalError):
        elicit(lambda request: {"id": "one"}, requestedSchema=schema)
    with pytest.raises(InternalError):
        elicit(lambda request: {}, requestedSchema=schema)
    assert "'note'" in caplog.text and "'deep'" in caplog.text


# --- pages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned, action", [
    (True, "accept"), ({"a": 1}, "accept"), ({}, "accept"), (False, "decline"), (None, "cancel"),
])
def test_url_consent_has_no_content(returned, action):
    assert visit(lambda request: returned) == {"action": action}  # URLE-04


def test_a_url_handler_sees_the_url_and_its_host():
    seen = []
    visit(seen.append, url="https://user@example.com:8443/sign-in?flow=1#top")
    assert seen[0].url == "https://user@example.com:8443/sign-in?flow=1#top"
    assert seen[0].host == "example.com:8443" and seen[0].elicitation_id == "e1"  # URLE-22


@pytest.mark.parametrize("url", [
    None, "", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "https:", "https://",
    "https:///x", "example.com", "https://example.com/a b", "https://example.com/\u202e", "https://example.com/\n",
    "https://example.com/" + "x" * 9000, "ftp://example.com/", r"https://evil.example\@good.example/",
])
def test_a_url_that_cannot_be_shown_never_reaches_the_user(url):
    with pytest.raises(InvalidParams):
        visit(lambda request: pytest.fail("must not be asked"), url=url)  # SAFE-05


@pytest.mark.parametrize("handlers, text", [
    ({"elicitation_handler": print}, "'url'; give connect() a url_elicitation_handler="),
    ({"url_elicitation_handler": print}, "'form'; give connect() an elicitation_handler="),
    ({"elicitation_handler": print, "url_elicitation_handler": print}, "'telepathy'"),
])
def test_an_undeclared_mode_is_refused(handlers, text):
    mode = text.split("'")[1]
    with pytest.raises(InvalidParams, match=f"{re.escape(text)} \\(code"):  # ELIC-23
        answer("elicitation/create", {"mode": mode, "message": "?", "requestedSchema": FORM, "url": "https://example.com"},
               **handlers)


def test_pages_do_not_exist_before_november_2025():
    with Fake(version="2025-06-18") as fake, fake.connect(elicitation_handler=print, url_elicitation_handler=print):
        reply = fake.asked("elicitation/create", {"mode": "url", "message": "?", "url": "https://example.com",
                                                  "elicitationId": "e1"})
        assert reply["error"]["code"] == -32602


def test_completion_is_reported_once_and_only_for_accepted_questions():
    replies = {"e1": True, "e2": False, "e3": True}
    notified, done = [], threading.Event()
    with Fake() as fake, fake.connect(url_elicitation_handler=lambda request: replies[request.elicitation_id],
                                      on_elicitation_complete=lambda id: (notified.append(id), id == "e3" and done.set())):
        for id in replies:
            fake.asked("elicitation/create", {"mode": "url", "message": "?", "url": "https://example.com", "elicitationId": id})
        for id in ("e0", "e1", "e1", "e2", "e3"):
            fake.tell("notifications/elicitation/complete", {"elicitationId": id})
        assert done.wait(LIMIT)
        assert notified == ["e1", "e3"]  # URLE-08


def test_a_page_may_be_completed_before_the_handler_returns():
    notified = threading.Event()

    def open_page(request):
        fake.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
        assert notified.wait(LIMIT)
        return True

    with Fake() as fake, fake.connect(url_elicitation_handler=open_page, on_elicitation_complete=lambda id: notified.set()):
        reply = fake.asked("elicitation/create", {"mode": "url", "message": "?", "url": "https://example.com",
                                                  "elicitationId": "e1"})
        assert reply["result"] == {"action": "accept"}


def test_a_url_question_without_an_id():
    assert visit(lambda request: True, elicitationId=None) == {"action": "accept"}


def test_the_number_of_remembered_ids_is_bounded():
    handlers = Handlers(ClientSettings(on_elicitation_complete=lambda id: None))
    handlers.expect([{"elicitationId": str(number)} for number in range(1500)])
    tell = "notifications/elicitation/complete"
    assert handlers.callback_for(tell, {"elicitationId": "0"}) is None
    assert handlers.callback_for(tell, {"elicitationId": "1499"}) is not None


# --- sampling ------------------------------------------------------------------------------------------------------

TEXT = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "unknown"}


@pytest.mark.parametrize("returned, sent", [
    ("hi", TEXT),
    (TextContent("hi"), TEXT),
    ([TextContent("hi")], TEXT),
    (mcplite.assistant("hi"), TEXT),
    (SamplingMessage("assistant", TextContent("hi")), TEXT),
    (CreateMessageResult("assistant", TextContent("hi"), "gpt", "endTurn"), {**TEXT, "model": "gpt", "stopReason": "endTurn"}),
    (["hi"], TEXT), ({"type": "text", "text": "hi"}, TEXT), ({"role": "assistant", "content": "hi"}, TEXT),
    ({**TEXT, "model": "gpt"}, {**TEXT, "model": "gpt"}), (mcplite.assistant([{"type": "text", "text": "hi"}]), TEXT),
    (CreateMessageResult("assistant", "hi", "unknown"), TEXT), (CreateMessageResult("assistant", ["hi"], "unknown"), TEXT),
    (mcplite.Image(b"GIF8"), {**TEXT, "content": {"type": "image", "data": "R0lGOA==", "mimeType": "image/gif"}}),
    (ImageContent("aGk=", "image/png"),
     {**TEXT, "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}),
    ([TextContent("a"), TextContent("b")],
     {**TEXT, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
])
def test_results_of_a_sampling_handler(returned, sent):
    assert sample(lambda request: returned) == sent


@pytest.mark.parametrize("refuse", [lambda request: None, lambda request: False, stop])
def test_a_user_who_rejects_is_error_minus_one(refuse):
    with pytest.raises(RemoteError) as caught:
        sample(refuse)
    assert caught.value.code == -1  # SAMP-16


def test_a_sampling_handler_sees_everything():
    seen = []
    preferences = {"hints": [{"name": "claude"}], "costPriority": 0.5}
    with Fake() as fake, fake.connect(sampling_handler=lambda request: seen.append(request) or "ok", sampling_tools=True):
        fake.asked("sampling/createMessage", {
            "messages": HELLO, "maxTokens": 7, "systemPrompt": "Be brief.", "temperature": 0.1, "stopSequences": ["."],
            "modelPreferences": preferences, "includeContext": "none", "metadata": {"a": 1},
            "toolChoice": {"mode": "required"}, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
    request, = seen
    assert (request.max_tokens, request.system_prompt, request.temperature, request.stop_sequences) == (
        7, "Be brief.", 0.1, ["."])  # SAMP-24
    assert request.model_preferences.hints[0].name == "claude" and request.model_preferences.cost_priority == 0.5
    assert request.tool_choice.mode == "required" and request.tools[0].name == "t"  # SAMP-14
    assert request.messages[0].text == "hello" and request.metadata == {"a": 1}
    assert request.server.name == "fake"


@pytest.mark.parametrize("params", [{"tools": [{"name": "t", "inputSchema": {}}]}, {"toolChoice": {"mode": "auto"}}])
def test_tools_need_their_own_capability(params):
    with pytest.raises(InvalidParams, match=r"sampling with tools; .*options=ClientOptions\(sampling_tools=True\)"):
        sample(lambda request: pytest.fail("must not be asked"), **params)  # SAMP-08


USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]}
RESULT = {"type": "tool_result", "toolUseId": "1", "content": []}


@pytest.mark.parametrize("messages", [
    [USE], [USE, *HELLO], [USE, {"role": "user", "content": [RESULT, {"type": "text", "text": "and"}]}],
    [{"role": "user", "content": {"type": "video"}}],
    [{"role": "user", "content": {"type": "image", "data": "?", "mimeType": "image/png"}}],
    [{"role": "user", "content": {"type": "audio", "data": "a", "mimeType": "audio/wav"}}], [{"role": "user"}],
    [{"content": {"type": "text", "text": "x"}}], ["x"], "x",
])
def test_invalid_messages_are_refused(messages):
    with pytest.raises(InvalidParams):  # SAMP-11, SAMP-12, SAMP-17, SAMP-22
        sample(lambda request: pytest.fail("must not be asked"), messages=messages)


def test_a_model_may_use_tools():
    sent = sample(lambda request: CreateMessageResult("assistant", [ToolUseContent("1", "t", {})], "m", "toolUse"),
                  sampling_tools=True)
    assert sent["content"] == {"type": "tool_use", "id": "1", "name": "t", "input": {}}


@pytest.mark.parametrize("returned", [
    3, {"role": "assistant"}, [], [3], {}, {"type": "text"}, {"type": "else"}, b"hi", True,
    CreateMessageResult(5, "hi", "m"), CreateMessageResult("assistant", "hi", None), CreateMessageResult("assistant", 5, "m"),
])
def test_an_invalid_result_of_a_sampling_handler_is_logged(returned, caplog):
    with pytest.raises(InternalError):
        sample(lambda request: returned)
    assert "sampling handler returned" in caplog.text


@pytest.mark.parametrize("returned", [["a", "b"], [TextContent("a"), TextContent("b")]])
def test_texts_are_one_block_in_an_old_revision(returned):
    with Fake(version=OLDEST.name) as fake, fake.connect(sampling_handler=lambda request: returned):
        reply = fake.asked("sampling/createMessage", {"messages": HELLO, "maxTokens": 1})
        assert reply["result"]["content"] == {"type": "text", "text": "a\nb"}  # SAMP-05


def test_blocks_of_two_kinds_do_not_fit_an_old_revision(caplog):
    with Fake(version=OLDEST.name) as fake, fake.connect(
            sampling_handler=lambda request: [TextContent("a"), mcplite.Image(b"GIF8")]):
        reply = fake.asked("sampling/createMessage", {"messages": HELLO, "maxTokens": 1})
        assert reply["error"]["code"] == -32603  # SAMP-05
        assert reply["error"]["message"].startswith("the client's sampling handler failed: a sampling message has exactly one")
    assert "sampling handler returned list" in caplog.text


# --- roots ---------------------------------------------------------------------------------------------------------


def roots(given, revision=NEWEST):
    return answer("roots/list", {}, revision, roots=given)["roots"]


def test_roots_are_paths_uris_objects_or_a_function(tmp_path):
    assert roots([]) == []
    assert roots(["file:///srv/a"]) == [{"uri": "file:///srv/a"}]
    assert roots([Root("file:///srv/a", "A")]) == [{"uri": "file:///srv/a", "name": "A"}]
    folder = tmp_path / "a b\u00e9"
    assert roots([folder]) == roots([str(folder)]) == [{"uri": folder.as_uri()}]  # ROOT-18
    assert roots(lambda: [folder, "file:///x"]) == [{"uri": folder.as_uri()}, {"uri": "file:///x"}]


@pytest.mark.parametrize("root", ["https://example.com/a", "ftp://x", "file:///a/../b", "file:///a/%2e%2e/b", Root("http://x")])
def test_other_roots_are_refused_at_once(root):
    with pytest.raises(ValueError):
        Handlers(ClientSettings(roots=[root]))  # ROOT-04, ROOT-07, NS-16
    with pytest.raises(InternalError):
        roots(lambda: [root])


@pytest.mark.parametrize("given", [
    "file:///a", b"/a", pathlib.PurePosixPath("/a"), Root("file:///a"), {"uri": "file:///a"}, 5, [5], [{"uri": 5}],
])
def test_one_value_is_not_a_list_of_roots(given):
    with pytest.raises(TypeError, match="list|path"):
        Handlers(ClientSettings(roots=given))
    with pytest.raises(InternalError):
        roots(lambda: given)


@pytest.mark.parametrize("given", [[b"/a"], [{"uri": "file:///a"}], ListRootsResult([Root("file:///a")]), {"file:///a"}])
def test_other_forms_of_roots(given):
    assert roots(given) == roots(lambda: given) == [{"uri": "file:///a"}]


def test_a_function_of_roots_that_fails_is_an_internal_error(caplog):
    with pytest.raises(InternalError):
        roots(lambda: 1 / 0)  # ROOT-05
    assert "ZeroDivisionError" in caplog.text


# --- notifications -----------------------------------------------------------------------------------------------------------


def notified(method, params, **handlers):
    task = Handlers(ClientSettings(**handlers)).callback_for(method, params)
    if task is not None:
        task()
    return task is not None


def test_notifications_reach_their_callbacks():
    seen = []
    assert notified("notifications/tools/list_changed", {}, on_tools_changed=lambda: seen.append("tools"))
    assert notified("notifications/resources/list_changed", {}, on_resources_changed=lambda: seen.append("resources"))
    assert notified("notifications/prompts/list_changed", {}, on_prompts_changed=lambda: seen.append("prompts"))
    assert notified("notifications/resources/updated", {"uri": "a://b/c"}, on_resource_updated=seen.append)
    assert seen == ["tools", "resources", "prompts", "a://b/c"]
    assert not notified("notifications/tools/list_changed", {}, on_prompts_changed=seen.append)
    assert not notified("notifications/message", {"level": "info", "data": 1})
    assert not notified("notifications/unknown", {}, log_handler=seen.append)


@pytest.mark.parametrize("data", ["text", None, 3, {"a": [1]}, False])
def test_log_messages_carry_any_json(data):
    seen = []
    assert notified("notifications/message", {"level": "debug", "data": data, "logger": "db"}, log_handler=seen.append)
    assert (seen[0].level, seen[0].data, seen[0].logger) == ("debug", data, "db")  # LOG-13


@pytest.mark.parametrize("name", [
    "elicitation_handler", "url_elicitation_handler", "sampling_handler", "log_handler", "on_tools_changed",
    "on_resources_changed", "on_prompts_changed", "on_resource_updated", "on_elicitation_complete", "on_disconnect"])
def test_a_handler_must_be_callable(name):
    with pytest.raises(TypeError, match=name):
        Handlers(ClientSettings(**{name: "print"}))

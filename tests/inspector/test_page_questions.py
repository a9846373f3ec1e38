"""What a server asks is answered on the page, in both eras."""

import sys

import pytest

from mcplite.revisions import NEWEST_LEGACY
from tests.inspector.conftest import FORM, REVISIONS, make_server
from tests.support.models import canned_api


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_question_is_answered_on_the_page(inspect, target, revision):
    page = inspect(it=target)
    page.open(revision=revision)
    number = page.post("call", server="it", method="tools/call", params={"name": "ask", "arguments": {}})["call"]
    question = page.wait("question", server="it")
    assert (question["kind"], question["call"]) == ("elicitation", number)
    assert question["params"]["message"] == "Your name?" and question["params"]["requestedSchema"] == FORM
    assert "action" in page.post("answer", 400, question=question["question"], result={"name": "Ann"})["error"]
    page.post("answer", question=question["question"], result={"action": "accept", "content": {"name": "Ann"}})
    done = page.wait("call", call=number, state="done")
    assert done["result"]["content"][0]["text"] == "accept {'name': 'Ann'}"
    page.wait("question-closed", question=question["question"])
    page.post("answer", 404, question=question["question"], result={"action": "decline"})


@pytest.mark.parametrize("revision", REVISIONS)
def test_sampling_is_answered_by_hand_canned_and_refused(inspect, revision):
    page = inspect(it=make_server())
    page.open(revision=revision)
    answer = {"role": "assistant", "content": {"type": "text", "text": "roses"}, "model": "me"}
    call = {"server": "it", "method": "tools/call", "params": {"name": "sample", "arguments": {}}}
    number = page.post("call", **call)["call"]
    question = page.wait("question", kind="sampling")
    assert question["params"]["maxTokens"] == 10
    page.post("answer", question=question["question"], result=answer)
    assert page.wait("call", call=number, state="done")["result"]["content"][0]["text"] == "roses"
    page.post("sampling", server="it", mode="canned", canned={**answer, "content": {"type": "text", "text": "violets"}})
    assert page.call("tools/call", call["params"])["result"]["content"][0]["text"] == "violets"
    page.post("sampling", server="it", mode="ask")
    number = page.post("call", **call)["call"]
    question = page.wait("question", call=number)
    page.post("answer", question=question["question"], error={"code": -1, "message": "no"})
    page.wait("question-closed", question=question["question"])
    assert page.ended(number)["state"] in ("cancelled", "done")


def test_roots_are_those_of_the_page(inspect, tmp_path):
    page = inspect(it=make_server())
    uri = tmp_path.as_uri()
    page.open(revision=NEWEST_LEGACY.name)
    page.post("roots", server="it", roots=[{"uri": uri, "name": "work"}])
    assert page.wait("message", method="notifications/roots/list_changed")["direction"] == "->"
    assert page.call("tools/call", {"name": "roots", "arguments": {}})["result"]["content"][0]["text"] == uri
    assert "file" in page.post("roots", 400, server="it", roots=[{"uri": "https://example.com"}])["error"]


REPLIES = {
    "anthropic": {"id": "m1", "type": "message", "role": "assistant", "model": "small-1", "stop_reason": "end_turn",
                  "stop_sequence": None, "content": [{"type": "text", "text": "roses"}],
                  "usage": {"input_tokens": 1, "output_tokens": 1}},
    "openai": {"id": "c1", "object": "chat.completion", "created": 1, "model": "small-1", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "roses"}}]}}


@pytest.mark.parametrize("provider", sorted(REPLIES))
def test_a_model_answers_with_a_key_of_the_page(inspect, monkeypatch, provider, caplog):
    pytest.importorskip(provider, reason=f"{provider} is not installed")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with canned_api([REPLIES[provider]]) as api:
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", api.url)
        page = inspect(it=make_server())
        page.open()
        number = page.post("call", server="it", method="tools/call", params={"name": "sample", "arguments": {}})["call"]
        question = page.wait("question", kind="sampling")["question"]
        asked = {"question": question, "provider": provider, "model": "small", "key": "k3y-of-the-user"}
        result = page.post("model", **asked)["result"]
        assert result["model"] == "small-1" and result["content"]["text"] == "roses"
        assert "failed" in page.post("model", 502, **asked)["error"]  # the API has no second reply
        page.post("answer", question=question, result=result)
        assert page.ended(number)["result"]["content"][0]["text"] == "roses"
        page.post("model", 404, **asked)
        page.post("model", 400, **{**asked, "provider": "other"})
    assert "k3y-of-the-user" not in repr(page.events) + caplog.text


def test_a_provider_whose_sdk_is_not_there_is_named(inspect, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    page = inspect(it=make_server())
    page.open()
    page.post("call", server="it", method="tools/call", params={"name": "sample", "arguments": {}})
    question = page.wait("question", kind="sampling")["question"]
    error = page.post("model", 501, question=question, provider="openai", model="small", key="x")["error"]
    assert "pip install openai" in error

"""Questions as plain objects."""

import pytest

from mcplite.server import Elicit, InputRequired, ListRoots, Sample
from mcplite.server.handling.questions import Elicited, Question
from mcplite.types import ModelPreferences, SamplingMessage, TextContent, Tool, ToolChoice


def test_a_question_to_the_user():
    question = Elicit("Name?", str)
    assert (question.message, question.schema, question.url, question.elicitation_id) == ("Name?", str, None, None)
    assert Elicit("Sure?").schema is None


def test_a_question_by_url():
    question = Elicit("Sign in", url="https://example.com", elicitation_id="7")
    assert (question.url, question.elicitation_id, question.schema) == ("https://example.com", "7", None)


def test_a_form_or_a_url_but_not_both():
    with pytest.raises(ValueError, match=r"^a question has a schema \(form\) or a url, not both$"):
        Elicit("?", str, url="https://example.com")


def test_a_question_to_the_model():
    messages = ("Hello", SamplingMessage("user", TextContent("x")))
    options = dict(system_prompt="s", temperature=0.5, stop_sequences=["."], include_context="none",
                   model_preferences=ModelPreferences(), metadata={"a": 1}, tools=[Tool(name="t", input_schema={})],
                   tool_choice=ToolChoice("auto"))
    question = Sample(messages, max_tokens=5, **options)
    assert question.messages == list(messages) and question.max_tokens == 5
    assert {name: getattr(question, name) for name in options} == options
    plain = Sample(["Hello"])
    assert plain.max_tokens == 1000 and all(getattr(plain, name) is None for name in options)


@pytest.mark.parametrize("action, accepted", [("accept", True), ("decline", False), ("cancel", False)])
def test_the_outcome_of_a_question(action, accepted):
    outcome = Elicited(action, {"n": 1} if accepted else None, 1 if accepted else None)
    assert outcome.accepted is bool(outcome) is accepted
    assert repr(outcome) == f"Elicited({action!r}, {outcome.data!r})"


@pytest.mark.parametrize("content, data", [(None, None), ({}, {}), ({"n": 0}, 0), ({"ok": False}, False)])
def test_an_accepted_question_is_true_whatever_its_form_holds(content, data):
    assert Elicited("accept", content, data)


def test_several_questions_at_once():
    requests = {"name": Elicit("?", str), "text": Sample(["?"]), "roots": ListRoots()}
    required = InputRequired(requests, state={"step": 1})
    assert required.requests == requests and required.requests is not requests and required.state == {"step": 1}
    assert InputRequired({}).state is None


@pytest.mark.parametrize("thing", ["?", None, Elicit, InputRequired({})])
def test_only_questions_can_be_required(thing):
    with pytest.raises(TypeError, match=r"^InputRequired\['a'\] must be Elicit, Sample or ListRoots, not "):
        InputRequired({"a": thing})


def test_questions_are_known_by_a_mark():
    assert all(kind.__mcplite_question__ and issubclass(kind, Question) for kind in (Elicit, Sample, ListRoots))

"""Questions as plain objects."""

import pytest

from mcplite.server import Elicit, InputRequired, ListRoots, Sample
from mcplite.server.handling.questions import Elicited


def test_a_form_or_a_url_but_not_both():
    with pytest.raises(ValueError, match=r"^a question has a schema \(form\) or a url, not both$"):
        Elicit("?", str, url="https://example.com")


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


@pytest.mark.parametrize("message", [Elicited, None, 3, {"type": "object"}])
def test_the_message_of_a_question_is_a_text(message):
    with pytest.raises(TypeError, match=r"^message must be a text for the user, not .*; the form comes after it, as in "):
        Elicit(message)


def test_the_message_of_a_question_may_stand_for_a_text():
    class Lazy:
        def __str__(self):
            return "Combien?"

    assert isinstance(Elicit(Lazy(), int).message, Lazy)

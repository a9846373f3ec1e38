import threading

import pytest

import mcplite
from mcplite.client import Completer
from tests.support.fakes import LIMIT, SILENCE, Fake, Refusal

CITIES = ["Rome", "Rouen", "Paris"]
COMPLETE = "completion/complete"


def complete(params):
    return {"completion": {"values": [city for city in CITIES if city.startswith(params["argument"]["value"])]}}


def test_each_text_is_requested_once():
    with Fake({COMPLETE: complete}) as fake, fake.connect() as client:
        completer = Completer(client, prompt="briefing", pause=0)
        assert completer.values("city", "Ro") == ["Rome", "Rouen"]
        completer.values("city", "Ro").append("changed by the caller")
        assert completer.values("city", "Ro") == ["Rome", "Rouen"]
        assert fake.methods().count(COMPLETE) == 1  # COMP-14
        assert completer.values("city", "Ro", {"country": "IT"}) == ["Rome", "Rouen"]
        assert fake.got(COMPLETE, 2)["params"]["context"] == {"arguments": {"country": "IT"}}


def test_outdated_texts_are_not_requested():
    with Fake({COMPLETE: complete}) as fake, fake.connect() as client:
        completer = Completer(client, resource="a://{city}", pause=0)
        completer.values("city", "Ro")
        completer._pause, outcome = LIMIT, []
        first = threading.Thread(target=lambda: outcome.append(completer.values("city", "R")), daemon=True)
        before = completer._latest
        first.start()
        assert before.wait(LIMIT)  # the call is under way
        assert completer.values("city", "Ro") == ["Rome", "Rouen"]
        first.join(LIMIT)
        assert outcome == [None]
        assert [message["params"]["argument"]["value"] for message in fake.sent if message.get("method") == COMPLETE] == ["Ro"]


def test_outdated_requests_are_cancelled():
    answers = {"R": SILENCE}
    with Fake({COMPLETE: lambda params: answers.get(params["argument"]["value"]) or complete(params)}) as fake:
        with fake.connect() as client:
            completer = Completer(client, prompt="briefing", pause=0)
            outcome = []
            first = threading.Thread(target=lambda: outcome.append(completer.values("city", "R")), daemon=True)
            first.start()
            fake.got(COMPLETE)
            assert completer.values("city", "P") == ["Paris"]
            first.join(LIMIT)
            assert outcome == [None]
            fake.got("notifications/cancelled")


@pytest.mark.parametrize("answer", [
    {"completion": {"values": []}}, Refusal(-32602, "no such argument"), Refusal(-32603), SILENCE])
def test_a_server_without_completions_gives_an_empty_list(answer):
    with Fake({COMPLETE: lambda params: answer}) as fake, fake.connect(timeout=0.2) as client:
        assert Completer(client, prompt="briefing", pause=0).values("city", "Ro") == []  # COMP-15


def test_the_number_of_cached_answers_is_bounded():
    with Fake({COMPLETE: complete}) as fake, fake.connect() as client:
        completer = Completer(client, prompt="briefing", pause=0, remembered=2)
        for value in ("a", "b", "c", "c", "b", "a"):
            completer.values("city", value)
        assert fake.methods().count(COMPLETE) == 4


def test_errors_of_the_connection_are_raised():
    with Fake(capabilities={}) as fake, fake.connect() as client, pytest.raises(mcplite.errors.NotSupported):
        Completer(client, prompt="briefing", pause=0).values("city", "")
    with pytest.raises(mcplite.errors.ConnectionClosed):
        Completer(client, prompt="briefing", pause=0).values("city", "")


def test_exactly_one_reference_is_needed():
    for wrong in ({}, {"prompt": "p", "resource": "r"}):
        with pytest.raises(ValueError, match="prompt= or resource="):
            Completer(None, **wrong)

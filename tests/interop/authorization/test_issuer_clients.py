"""Users of other SDKs log in at a server that issues its own tokens, and are refused there."""

import pytest

from tests.support.issuers import Clock, Person, serving

pytest.importorskip("authlib")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
SDKS = ["mcp2", "mcp1", "fastmcp4", "typescript2", "typescript1"]


@pytest.fixture(params=SDKS)
def sdk(request):
    return request.param


def test_a_user_logs_in_and_the_token_is_refreshed(sdk, visitor):
    clock, person = Clock(), Person()
    with serving(clock=clock) as issuer:
        client = visitor(sdk, issuer.endpoint, person)
        assert client.outcome() == {"said": "connected"}
        assert client.call("hello") == {"said": "ann ann@example.com notes"}
        assert person.forms == 2  # the login and the consent
        clock.ahead = 3601
        if not sdk.startswith("typescript"):
            client.process.tell("later 3601")
        assert client.call("hello") == {"said": "ann ann@example.com notes"}
        assert person.forms == 2


def test_users_are_refused_what_they_decline_and_what_they_may_not_grant(sdk, visitor):
    with serving() as issuer:
        declined = visitor(sdk, issuer.endpoint, Person(decision="deny")).outcome()
        assert "denied" in declined["error"]
        client = visitor(sdk, issuer.endpoint, Person("bob"))
        assert client.outcome() == {"said": "connected"}
        refused = client.call("secret")
        assert "error" in refused, refused


def test_the_example_asks_again_for_a_tool_that_needs_another_scope(sdk, visitor, example):
    person = Person("demo")
    client = visitor(sdk, example, person)
    assert client.outcome() == {"said": "connected"}
    assert client.call("hello") == {"said": "Hello Demo User!"}
    asked = person.forms
    assert client.call("secret") == {"said": "The secret of demo is 42."}
    assert person.forms == asked + 1

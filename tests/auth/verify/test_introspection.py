"""Opaque tokens: introspection, the cache and its limits."""

import base64
import logging
from urllib.parse import parse_qs, unquote_plus

import pytest

import mcplite
from mcplite.auth.verify import introspection
from mcplite.auth.verify.introspection import Introspection
from mcplite.server.http.access import Refused
from tests.support.fakes import Clock
from tests.support.webscript import WebScript

TOKEN, SECRET = "an-opaque-token-0123456789", "the secret: of this/server"
ACTIVE = {"active": True, "sub": "ada", "client_id": "desk", "scope": "read write", "aud": "https://mcp.example/mcp",
          "exp": 5000,
          "iss": "https://login.example"}


class Login(WebScript):
    """An authorization server that gives the same answer for every token."""

    status, said = 200, ACTIVE

    def play(self, request, answer):
        if self.status == 200:
            answer.json(self.said)
        else:
            answer.status(self.status)


@pytest.fixture
def login():
    with Login() as script:
        yield script


def verifier(login, clock=None, **options):
    return Introspection(login.origin + "/introspect", client_id="my server", client_secret=SECRET,
                         clock=clock or Clock(), **options)


def test_the_principal_comes_from_the_authorization_server(login):
    found = verifier(login)(TOKEN)
    assert (found.subject, found.client_id, found.issuer, found.scopes) == ("ada", "desk", "https://login.example",
                                                                            {"read", "write"})
    assert found.audience == ("https://mcp.example/mcp",) and found.expires_at == 5000
    request, = login.requests
    assert request.method == "POST" and parse_qs(request.body.decode()) == {"token": [TOKEN],
                                                                            "token_type_hint": ["access_token"]}
    name, _, secret = base64.b64decode(request.headers["authorization"].split()[1]).decode().partition(":")
    assert (unquote_plus(name), unquote_plus(secret)) == ("my server", SECRET)  # RFC 6749, section 2.3.1
    assert TOKEN not in request.path


@pytest.mark.parametrize("changed", [
    {"active": False}, {"active": None}, {"active": "true"}, {"active": 1}, {"sub": None, "client_id": None}, {"sub": 5},
    {"exp": "soon"}, {"exp": 10 ** 400}, {"exp": True}, {"scope": '"'}, {"iss": 5}, {"client_id": ["x"]}, {"aud": [5]},
    {"cnf": {"jkt": "x"}}, {"token_type": "DPoP"},
])
def test_inactive_and_malformed_answers_have_no_principal(login, changed):
    # AUTH-18
    login.said = {name: value for name, value in {**ACTIVE, **changed}.items() if value is not None}
    assert verifier(login)(TOKEN) is None


@pytest.mark.parametrize("changed, subject", [({"sub": None, "username": "ada2"}, "ada2"), ({"sub": None}, "desk"),
                                              ({"token_type": "Bearer", "exp": None, "scope": ["read"],
                                                "aud": ["a", "b"]}, "ada")])
def test_answers_come_in_several_forms(login, changed, subject):
    login.said = {name: value for name, value in {**ACTIVE, **changed}.items() if value is not None}
    assert verifier(login)(TOKEN).subject == subject


def test_a_token_of_another_audience_or_without_one_is_refused(login):
    # AUTH-18
    for said, status in ((ACTIVE, 200), ({**ACTIVE, "aud": "https://other.example"}, 401),
                         ({"active": True, "sub": "ada"}, 401)):
        login.said = said
        auth = mcplite.BearerAuth(verifier(login), resource="https://mcp.example/mcp", clock=Clock())
        if status == 200:
            assert auth.identify(TOKEN, auth.resource).subject == "ada"
        else:
            with pytest.raises(Refused, match="another server|no audience"):
                auth.identify(TOKEN, auth.resource)


def test_an_answer_is_cached_for_a_minute_and_until_the_token_expires(login):
    # AUTH-18
    clock = Clock()
    verify = verifier(login, clock)
    for _ in range(5):
        assert verify(TOKEN)
    assert len(login.requests) == 1
    clock.now += 59
    assert verify(TOKEN) and len(login.requests) == 1
    clock.now += 1
    assert verify(TOKEN) and len(login.requests) == 2
    login.said = {**ACTIVE, "exp": clock.now + 10}
    assert verify("another-token") and len(login.requests) == 3
    clock.now += 10
    login.said = {"active": False}
    assert verify("another-token") is None and len(login.requests) == 4


def test_setting_the_clock_back_does_not_extend_the_cache(login):
    # AUTH-18
    clock = Clock()
    verify = verifier(login, clock)
    assert verify(TOKEN) and verify(TOKEN) and len(login.requests) == 1
    clock.now -= 1
    login.said = {"active": False}
    assert verify(TOKEN) is None and len(login.requests) == 2
    clock.now += 1
    assert verify(TOKEN) is None and len(login.requests) == 3  # and what was known is forgotten


def test_refusals_are_not_cached_and_the_cache_can_be_switched_off(login):
    login.said = {"active": False}
    verify = verifier(login)
    assert verify(TOKEN) is None and verify(TOKEN) is None and len(login.requests) == 2
    login.said = ACTIVE
    never = verifier(login, cache_seconds=0)
    assert never(TOKEN) and never(TOKEN) and len(login.requests) == 4


def test_the_cache_is_bounded_and_holds_no_token(login, monkeypatch):
    monkeypatch.setattr(introspection, "_MOST_CACHED", 3)
    verify = verifier(login)
    for number in range(5):
        assert verify(f"{TOKEN}-{number}")
    assert len(verify._cache) == 3 and TOKEN not in repr(verify._cache) + repr(verify)
    assert verify(f"{TOKEN}-4") and len(login.requests) == 5
    assert verify(f"{TOKEN}-0") and len(login.requests) == 6


@pytest.mark.parametrize("status, said",
                         [(401, "refuses this server's own"), (403, "refuses this server's own"), (500, "status 500"),
                                          (404, "status 404")])
def test_a_server_that_does_not_answer_is_an_error(login, status, said, caplog):
    # AUTH-17
    caplog.set_level(logging.DEBUG)
    login.status = status
    with pytest.raises(OSError, match=said) as raised:
        verifier(login)(TOKEN)
    for secret in (SECRET, TOKEN):
        assert secret not in str(raised.value) and secret not in caplog.text
    login.status, login.said = 200, ["no object"]
    with pytest.raises(OSError, match="no usable answer"):
        verifier(login)(TOKEN)


@pytest.mark.parametrize("status, said", [(200, {**ACTIVE, "cnf": {}}), (200, {**ACTIVE, "exp": "later"}), (400, None)])
def test_a_flood_of_tokens_of_one_kind_leaves_few_lines_and_hides_no_other_cause(login, caplog, status, said):
    caplog.set_level(logging.INFO, introspection.__name__)
    verify = verifier(login)
    login.status, login.said = status, said
    for number in range(100):
        assert verify(TOKEN + str(number)) is None
    assert 0 < len(caplog.records) <= 30
    caplog.clear()
    login.status, login.said = 200, {**ACTIVE, "token_type": "DPoP"} if said is None else {**ACTIVE, "exp": -5, "sub": 5}
    if status == 200 and said["exp"] == "later":
        login.said = {**ACTIVE, "token_type": "DPoP"}
    assert verify(TOKEN) is None
    assert len(caplog.records) == 1 and "held back" not in caplog.text


def test_a_token_that_the_server_cannot_look_up_is_refused(login, caplog):
    # RFC 7662 names no error for it; the token is to blame, not the server.
    login.status = 400
    verify = verifier(login)
    auth = mcplite.BearerAuth(verify, resource="https://mcp.example/mcp", clock=Clock())
    with pytest.raises(Refused) as caught:
        auth.identify(TOKEN, auth.resource)
    assert caught.value.status == 401
    record, = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "answered 400" in record.getMessage() and login.origin in record.getMessage()
    assert TOKEN not in caplog.text and SECRET not in caplog.text
    login.status = 200
    assert verify(TOKEN).subject == "ada"  # nothing of that is kept


@pytest.mark.parametrize("options, said",
                         [({"cache_seconds": 61}, "cache_seconds"), ({"cache_seconds": -1}, "cache_seconds"),
                                           ({"url": "http://login.example/x"}, "needs https")])
def test_invalid_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Introspection(**{"url": "https://login.example/x", "client_id": "a", "client_secret": "b", **options})


def test_the_issuer_can_be_given_for_answers_without_one(login):
    login.said = {name: value for name, value in ACTIVE.items() if name != "iss"}
    verify = verifier(login, issuer="https://login.example")
    assert verify(TOKEN).issuer == "https://login.example"
    assert mcplite.BearerAuth(verify).issuers == ("https://login.example",)
    assert SECRET not in repr(verify)

"""Checks of bearer tokens for every verifier: audience, issuer, expiry; and failing verifiers.

Static tokens: compared in constant time, never shown.
"""

import hmac
import logging
from urllib.parse import quote

import pytest

import mcplite
from mcplite.auth.verify import bearer_auth
from mcplite.auth.verify.bearer_auth import BearerAuth, StaticTokens, bearer_token
from mcplite.protocol.http.headers import Headers
from mcplite.server.http.access import Refused

URL = "https://mcp.example/mcp"
ISSUER = "https://login.example"
TOKEN = "a-token-that-must-not-be-shown.with-a-payload-too"


def auth_of(result=None, **options):
    """Return a BearerAuth whose verifier returns this, or raises it."""
    def verify(token):
        if isinstance(result, Exception):
            raise result
        return result

    return BearerAuth(verify, **options)


def refused(auth, resource=URL, token=TOKEN):
    with pytest.raises(Refused) as raised:
        auth.identify(token, resource)
    return raised.value


# --- the header ---------------------------------------------------------------------------------------------


def sent(*values):
    return Headers([("Authorization", value) for value in values])


@pytest.mark.parametrize("value",
                         ["Bearer abc", "bearer abc", "BEARER  abc", "Bearer a-._~+/b==", "Bearer " + "x" * 7900])
def test_a_token_is_found(value):
    assert bearer_token(sent(value)) == value.split()[1]


@pytest.mark.parametrize("values", [[], ["Basic YTpi"], ["Bearerabc"], ["Bearer\tabc"], [""], ["abc"], ["DPoP abc"]])
def test_other_schemes_are_not_bearer_tokens(values):
    # AUTH-02
    assert bearer_token(sent(*values)) is None


@pytest.mark.parametrize("values", [
    ["Bearer"], ["Bearer "], ["Bearer  "], ["Bearer a b"], ["Bearer a, Bearer b"], ["Bearer a", "Bearer b"],
    ["Bearer a", "Basic b"], ["Bearer é"], ["Bearer a\x00b"], ["Bearer a\x7f"], ["Bearer \ta"], ["Bearer \"a\""],
    ["Bearer a=b"], ["Bearer " + "x" * 20_000], ["Bearer ａ"],
])
def test_malformed_bearer_tokens_are_refused(values):
    # AUTH-02, AUS-03
    with pytest.raises(Refused) as raised:
        bearer_token(sent(*values))
    assert (raised.value.status, raised.value.error) == (400, "invalid_request")


# --- the audience ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("audience", [
    URL, URL + "/", "HTTPS://MCP.EXAMPLE/mcp", "https://mcp.example:443/mcp", ["https://other.example", URL], "our-name",
])
def test_a_token_for_this_server_is_accepted(audience):
    # AUTH-03
    auth = auth_of(mcplite.Principal("ada", audience=audience), audience=["our-name", "our-other-name"])
    assert auth.identify(TOKEN, URL).subject == "ada"


@pytest.mark.parametrize("audience", [
    "https://other.example/mcp", "https://mcp.example", "https://mcp.example/", "https://mcp.example/mcp/x",
    "https://mcp.example/mcp2", "https://mcp.example/MCP", "http://mcp.example/mcp", "https://mcp.example:8443/mcp", URL + "?x",
    URL + "#x", "mcp.example/mcp", "https://x@mcp.example/mcp", "https://mcp.example:port/mcp", "https://mcp.example.evil/mcp",
    "", "our-nam", "OUR-NAME",
])
def test_a_token_of_another_audience_is_refused(audience):
    # AUS-11
    auth = auth_of(mcplite.Principal("ada", audience=audience), audience="our-name")
    assert (refused(auth).status, refused(auth).error) == (401, "invalid_token")


def test_a_token_without_an_audience_is_refused_with_advice_in_the_log(caplog):
    # AUS-12
    assert refused(auth_of(mcplite.Principal("ada"), audience="x")).status == 401
    assert "issue tokens for https://mcp.example/mcp" in caplog.text and "ISSUED_HERE" in caplog.text


def test_a_server_that_does_not_know_its_url_refuses_tokens_for_it(caplog):
    assert refused(auth_of(mcplite.Principal("ada", audience=URL)), None).status == 401
    assert "resource='https://...'" in caplog.text
    assert auth_of(mcplite.Principal("ada", audience=mcplite.auth.ISSUED_HERE)).identify(TOKEN, None).subject == "ada"
    assert auth_of(mcplite.Principal("ada", audience="x"), audience="x").identify(TOKEN, None).subject == "ada"


@pytest.mark.parametrize("principal, options, resource", [
    (mcplite.Principal("ada", audience=URL, issuer="https://other.example"), {"issuer": ISSUER}, URL),
    (mcplite.Principal("ada", audience="https://other.example"), {}, URL),
    (mcplite.Principal("ada", audience=URL), {}, None),
    (mcplite.Principal("ada"), {}, URL),
    (OSError("refused"), {}, URL),
], ids=["issuer", "audience", "own URL", "no audience", "failure"])
def test_a_flood_of_tokens_of_one_kind_leaves_few_lines_and_hides_no_other_cause(caplog, principal, options, resource):
    caplog.set_level(logging.INFO)
    found = [principal]
    auth = BearerAuth(lambda token: _raised_or(found[-1]), **options)
    for _ in range(300):
        refused(auth, resource)
    assert 0 < len(caplog.records) <= 30
    caplog.clear()
    found.append(OSError("no route") if not isinstance(principal, OSError) else mcplite.Principal("ada"))
    refused(auth, resource)
    assert len(caplog.records) == 1 and "held back" not in caplog.text


def _raised_or(found):
    if isinstance(found, Exception):
        raise found
    return found


# --- issuer, end, scopes ----------------------------------------------------------------------------------------


def here(**options):
    return mcplite.Principal("ada", audience=mcplite.auth.ISSUED_HERE, **options)


def test_the_issuer_is_compared_as_text():
    # AUTH-05
    several = ["https://other.example", ISSUER]
    assert auth_of(here(issuer=ISSUER), issuer=several).identify(TOKEN, URL)
    assert auth_of(here(), issuer=ISSUER).identify(TOKEN, URL) and auth_of(here(issuer="x")).identify(TOKEN, URL)
    for other in (ISSUER + "/", "https://LOGIN.example", "x"):
        assert refused(auth_of(here(issuer=other), issuer=several)).status == 401


def test_an_expired_token_is_refused():
    auth = auth_of(here(expires_at=1000), clock=lambda: 999.5)
    assert auth.identify(TOKEN, URL).expires_at == 1000
    assert refused(auth_of(here(expires_at=1000), clock=lambda: 1000.0)).status == 401


def test_a_broader_scope_includes_the_narrower():
    # AUS-21
    auth = auth_of(here(scopes=["admin"], claims={"a": 1}, expires_at=9e9),
                   implies={"admin": ["write"], "write": ["read"]})
    found = auth.identify(TOKEN, URL)
    assert found.scopes == {"admin", "write", "read"} and found.claims == {"a": 1} and found.expires_at == 9e9
    assert found.audience is mcplite.auth.ISSUED_HERE


# --- verifiers that fail ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome, status", [
    (ConnectionError(f"cannot ask about {TOKEN}"), 503), (TimeoutError("slow"), 503), (ValueError(f"odd: {TOKEN}"), 500),
    (RuntimeError(TOKEN.split(".")[1]), 500), (True, 500), ("ada", 500), (0, 500), ({"sub": "ada"}, 500),
])
def test_a_failing_verifier_admits_no_request_and_is_logged(outcome, status, caplog):
    # AUTH-17, AUTH-19
    caplog.set_level(logging.DEBUG)
    found = refused(auth_of(outcome))
    assert (found.status, found.error) == (status, "")
    assert found.__suppress_context__ == isinstance(outcome,
                                                    Exception) == (not isinstance(found.__context__, type(None)))
    assert len(caplog.records) == 1 and ("Traceback" in caplog.text) == (type(outcome) in (ValueError, RuntimeError))
    for piece in TOKEN.split("."):
        assert piece not in caplog.text and piece not in str(found)


@pytest.mark.parametrize("options, said", [
    ({"issuer": "http://login.example"}, "issuer="), ({"issuer": "login"}, "issuer="),
    ({"issuer": ISSUER + "?x=1"}, "no query"),
    ({"issuer": []}, "issuer="), ({"issuer": [5]}, "issuer="), ({"resource": "http://mcp.example"}, "resource="),
    ({"resource": URL + "#x"}, "no fragment"), ({"resource": 5}, "resource="), ({"audience": ""}, "audience="),
    ({"scopes": "offline_access"}, "offline_access"), ({"scopes_supported": ["a", "offline_access"]}, "offline_access"),
    ({"implies": {"a b": ["c"]}}, "is not a scope"), ({"implies": {"a": ['"']}}, "is not a scope"),
])
def test_invalid_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        auth_of(**options)


def test_a_server_takes_an_auth_or_just_a_verifier():
    auth = auth_of()
    assert mcplite.Server("x", auth=auth).auth is auth
    assert isinstance(mcplite.Server("x", auth=lambda token: None).auth,
                      BearerAuth) and mcplite.Server("x").auth is None
    with pytest.raises(mcplite.errors.RegistrationError, match="auth="):
        mcplite.Server("x", auth="a token")


def test_a_token_in_the_url_of_an_error_is_not_logged(caplog):
    token = "c2VjcmV0/dG9rZW4+b2YgYWRhIGlzIGhlcmU=="

    def verify(text):
        raise ConnectionError(f"GET https://login.example/info?access_token={quote(text, safe='')} failed")

    with pytest.raises(Refused):
        BearerAuth(verify).identify(token, None)
    assert "b2YgYWRhIGlzIGhlcmU" not in caplog.text and "login.example" in caplog.text


ADA, BOB = "a-token-of-ada-0123456789", "a-token-of-bob-0123456789"
UNSENDABLE = "cannot be sent in a header"


def test_holders_are_given_by_name_or_as_principals():
    tokens = StaticTokens({ADA: "ada", BOB: mcplite.Principal("bob", scopes=["write"])}, scopes=["read"])
    ada, bob = tokens(ADA), tokens(BOB)
    assert (ada.subject, ada.scopes, ada.audience) == ("ada", {"read"}, mcplite.auth.ISSUED_HERE)
    assert (bob.subject, bob.scopes) == ("bob", {"write"}) and bob.audience is mcplite.auth.ISSUED_HERE
    assert tokens(ADA + "x") is None and tokens(ADA[:-1]) is None and tokens("") is None


def test_tokens_without_names_are_distinguished():
    assert StaticTokens(ADA)(ADA).subject == "token 1"
    several = StaticTokens([ADA, BOB])
    assert several(ADA).key != several(BOB).key


def test_each_known_token_is_compared_whichever_it_is(monkeypatch):
    # In constant time: no early exit, and only digests of equal length are compared.
    seen = []
    monkeypatch.setattr(bearer_auth.hmac, "compare_digest", lambda a, b: seen.append((len(a), len(b))) or a == b)
    tokens = StaticTokens([ADA, BOB])
    for token in (ADA, BOB, "none"):
        seen.clear()
        tokens(token)
        assert seen == [(32, 32)] * 2
    assert hmac is bearer_auth.hmac


@pytest.mark.parametrize("tokens, said", [
    ("short", "token number 1 has 5 characters"), ([ADA, "x" * 15], "token number 2 has 15"), ({"": "ada"}, UNSENDABLE),
    ("a token with blanks in it", UNSENDABLE), ("ein-schlüssel-mit-umlaut", UNSENDABLE), ([], "no token"), ({}, "no token"),
    ([ADA, ADA], "twice"), ({ADA: 5}, "a name or a Principal"), ([5], UNSENDABLE), ("x" * 9000, UNSENDABLE),
])
def test_unusable_tokens_are_refused_and_not_shown(tokens, said):
    with pytest.raises(ValueError, match=said) as raised:
        StaticTokens(tokens)
    for token in [tokens] if isinstance(tokens, str) else tokens:
        assert len(str(token)) < 6 or str(token) not in str(raised.value)


def test_the_repr_shows_no_token():
    tokens = StaticTokens({ADA: "ada"})
    assert repr(tokens) == "<StaticTokens of 'ada'>"
    assert ADA not in str(vars(tokens))

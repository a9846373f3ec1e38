"""One authorization request: what it asks, and which answers to it are none."""

import base64
import hashlib
import re
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given, strategies as st

import mcplite
from mcplite.auth.login.code_flow import AuthorizationRequest
from mcplite.auth.login.discovery import AuthorizationServer
from mcplite.auth.login.token_endpoint import ClientIdentity

ISSUER = "https://as.example/tenant"
REDIRECT = "http://127.0.0.1:8765/callback?from=us"
RESOURCE = "https://mcp.example/mcp"


def begin(*, endpoint=f"{ISSUER}/authorize", scopes=(), **server):
    found = AuthorizationServer(ISSUER, f"{ISSUER}/token", endpoint, **server)
    return AuthorizationRequest(found, ClientIdentity(ISSUER, "c 1"), REDIRECT, RESOURCE, scopes)


def asked(request):
    pairs = parse_qsl(urlsplit(request.url).query, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs), "a parameter comes twice"
    return dict(pairs)


def back(request, *pairs, state=True, **parameters):
    """Return the URL by which the user comes back."""
    given = [*pairs, *parameters.items(), *([("state", request.state)] if state else [])]
    return f"{REDIRECT.partition('?')[0]}?{urlencode(given)}"


def refused(request, answer):
    with pytest.raises(mcplite.errors.AuthError) as caught:
        request.verified_code(answer)
    return caught.value


# --- what is asked ------------------------------------------------------------------------------------

def test_the_url_has_all_that_it_needs_and_nothing_else():
    request = begin(scopes=["read", "files:write"])
    given = asked(request)
    assert request.url.startswith(f"{ISSUER}/authorize?")
    assert set(given) == {"response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method",
                          "resource", "scope"}
    assert (given["response_type"], given["client_id"], given["resource"]) == ("code", "c 1", RESOURCE)
    assert (given["redirect_uri"], given["scope"], given["state"]) == (REDIRECT, "read files:write", request.state)


def test_offline_access_asks_for_consent():
    given = asked(begin(scopes=["read", "offline_access"]))
    assert (given["scope"], given["prompt"]) == ("read offline_access", "consent")


def test_the_code_is_exchanged_with_the_verifier_of_the_challenge():
    request = begin()
    fields = request.token_request_fields("the code")
    verifier = fields["code_verifier"]
    assert fields == {"grant_type": "authorization_code", "code": "the code", "redirect_uri": asked(request)["redirect_uri"],
                      "code_verifier": verifier}
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode().rstrip("=")
    assert (asked(request)["code_challenge"], asked(request)["code_challenge_method"]) == (digest, "S256")
    assert re.fullmatch(r"[A-Za-z0-9\-._~]{43,128}", verifier) and verifier not in request.url


def test_verifier_and_state_are_new_each_time_and_unrelated():
    requests = [begin() for _ in range(50)]
    values = [value for request in requests for value in (request.state, request.token_request_fields("c")["code_verifier"])]
    assert len(set(values)) == 100 and min(map(len, values)) >= 43
    assert all(request.token_request_fields("c")["code_verifier"] == request.token_request_fields("d")["code_verifier"]
               for request in requests)


@pytest.mark.parametrize("endpoint, query", [
    ("https://as.example/a?x=1&y=", {"x": "1", "y": ""}), ("https://as.example/a?x=%26%3D+z", {"x": "&= z"}),
    ("https://as.example/a?state=evil&client_id=evil&resource=evil&code_challenge_method=plain&redirect_uri=evil", {}),
    ("https://as.example?x=1", {"x": "1"}),
])
def test_the_endpoints_own_query_stays_without_our_parameters(endpoint, query):
    request = begin(endpoint=endpoint)
    given = asked(request)
    assert "evil" not in request.url and {name: given[name] for name in query} == query
    assert (given["state"], given["code_challenge_method"], given["redirect_uri"]) == (request.state, "S256", REDIRECT)


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=30))
def test_nothing_breaks_out_of_its_parameter(text):
    server = AuthorizationServer(ISSUER, f"{ISSUER}/token", f"{ISSUER}/authorize")
    request = AuthorizationRequest(server, ClientIdentity(ISSUER, text), REDIRECT, RESOURCE, [text])
    given = asked(request)
    assert given["client_id"] == text and given["state"] == request.state
    assert re.fullmatch(r"[!-~]+", request.url)


# --- what comes back -----------------------------------------------------------------------------------

@pytest.mark.parametrize("names_issuer", [True, False])
def test_the_code_is_returned(names_issuer):
    request = begin()
    assert request.verified_code(back(request, code="a+b/c=&d \u00fc")) == "a+b/c=&d \u00fc"
    request = begin(names_issuer=names_issuer)
    assert request.verified_code(back(request, code="x", iss=ISSUER, scope="read", unknown="", session_state="5")) == "x"


@pytest.mark.parametrize("state", ["", "x", "{}x", "x{}", "{} ", " {}", "\u00fc", "\x00",
                                   "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")])
def test_the_answer_to_another_login_is_not_used(state):
    # AUC-16
    request = begin()
    error = refused(request, back(request, ("state", state.format(request.state)), code="c0de", state=False))
    assert "the answer to another login" in str(error) and "c0de" not in str(error)


def test_an_answer_without_a_state_is_not_used():
    request, other = begin(), begin()
    for answer in (back(request, code="c0de", state=False), back(other, code="c0de"), REDIRECT, "", "c0de", "?", request.state,
                   back(request, error="access_denied", state=False), back(request, code="c0de").replace("?", "#")):
        error = refused(request, answer)
        assert "the answer to another login" in str(error) and error.error == ""
        assert "c0de" not in str(error) and "access_denied" not in str(error)


@pytest.mark.parametrize("answer", ["http://[/?", "http://[::1?", "http://127.0.0.1/\udcff?state=\udcff&"])
def test_an_answer_that_is_not_a_url_is_not_used(answer):
    request = begin()
    error = refused(request, f"{answer}code=c0de&state={request.state}")
    assert "is not used" in str(error) and "c0de" not in str(error)


@pytest.mark.parametrize("name", ["state", "code", "iss", "error"])
def test_repeated_parameters_are_ignored(name):
    # RFC 6749, section 3.1; an attacker adds a second one so that one reader takes the first and another the last.
    for first, second in (("good", "evil"), ("evil", "good"), ("good", "good"), ("good", "")):
        for names_issuer in (False, True):
            request = begin(names_issuer=names_issuer)
            good = {"state": request.state, "code": "good", "iss": ISSUER, "error": "access_denied"}[name]
            pairs = {"code": "good", "iss": ISSUER, "state": request.state}
            pairs.pop(name, None)
            twice = [(name, good if value == "good" else value) for value in (first, second)]
            error = refused(request, back(request, *pairs.items(), *twice, state=False))
            assert "evil" not in str(error)


PROMISED = "the answer to the login does not name its authorization server"
OTHER = "the answer to the login is not from"
VARIANTS = ["https://other.example", f"{ISSUER}/", "https://as.example", "https://AS.example/tenant",
            "https://as.example:443/tenant", "HTTPS://as.example/tenant", "http://as.example/tenant",
            "https://as.example/Tenant", "https://as.example/%74enant", "", f" {ISSUER}", f"{ISSUER}#", f"{ISSUER}?",
            "https://as.example/x/../tenant", f"{ISSUER}\x00"]


def test_a_server_that_names_its_issuer_has_to_do_so_always():
    request = begin(names_issuer=True)
    for answer in (back(request, code="c0de"), back(request, error="access_denied", error_description="t3xt")):
        error = refused(request, answer)
        assert PROMISED in str(error) and not re.search("c0de|access_denied|t3xt", str(error)) and error.error == ""


@pytest.mark.parametrize("names_issuer", [True, False])
@pytest.mark.parametrize("named", VARIANTS)
def test_no_other_server_may_answer_and_its_error_is_not_shown(names_issuer, named):
    request = begin(names_issuer=names_issuer)
    error = refused(request, back(request, code="c0de", iss=named))
    assert OTHER in str(error) and ISSUER in str(error) and "c0de" not in str(error) and error.error == ""
    assert "other.example" not in str(error)
    answer = back(request, error="acc3ss", error_description="Call 555 now", error_uri="https://evil.example",
                  iss=named)
    error = refused(request, answer)
    assert OTHER in str(error) and error.error == ""
    assert not re.search("acc3ss|555|evil", f"{error} {error!r} {error.__cause__!r} {error.__context__!r}")


def test_an_error_is_reported():
    request = begin(names_issuer=True)
    error = refused(request, back(request, error="access_denied", error_description="not  this\r\ntime", iss=ISSUER))
    assert str(error) == f"{ISSUER} did not authorize: access_denied: not this time" and error.error == "access_denied"
    for code, text in (("x_unknown", "x_unknown"), ("", "error")):
        error = refused(request, back(request, error=code, iss=ISSUER))
        assert (str(error), error.error) == (f"{ISSUER} did not authorize: {text}", code)
    error = refused(request, back(request, error="e" * 1000, error_description="d" * 100_000, iss=ISSUER))
    assert len(str(error)) < 500 and len(error.error) <= 100
    said = {"error": "x\x1b[2J\r\nFAKE: line", "error_description": "\x1b]0;t\x07 \x9b2J"}
    assert str(refused(request, back(request, iss=ISSUER, **said))).isprintable()


@pytest.mark.parametrize("pairs", [{}, {"code": ""}, {"Code": "c0de"}, {"code[]": "c0de"}])
def test_an_answer_with_neither_a_code_nor_an_error(pairs):
    request = begin()
    error = refused(request, back(request, **pairs))
    assert "neither a code nor an error" in str(error) and "c0de" not in str(error)


def test_nothing_secret_is_shown():
    request = begin()
    assert repr(request) == f"<AuthorizationRequest to {ISSUER}>" == str(request)
    verifier = request.token_request_fields("c")["code_verifier"]
    for answer in (back(request, code="c0de", iss="x"), back(request, error="e"),
                   back(request, code="c0de", state=False)):
        error = refused(request, answer)
        assert verifier not in str(error) and request.state not in str(error) and "c0de" not in str(error)

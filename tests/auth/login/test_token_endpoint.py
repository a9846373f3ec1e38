"""Token endpoints: who we say we are there, what is taken for a token, and what never shows."""

import base64
import json
import logging
import time
from urllib.parse import parse_qs, unquote_plus

import pytest

import mcplite
from mcplite.auth.login.discovery import AuthorizationServer
from mcplite.auth.login.jwt_signing import Proofs, SigningKey
from mcplite.auth.login.token_endpoint import ClientIdentity, Credentials, TokenEndpoint, ends_login
from mcplite.auth.login.web import Web
from mcplite.net.exchange import Stopped
from tests.support.webscript import WebScript

RESOURCE = "https://mcp.example/mcp"
TOKEN = {"access_token": "acc3ss", "token_type": "Bearer"}
CODE = {"grant_type": "authorization_code", "code": "c0de"}


class Counter(WebScript):
    """A token and a revocation endpoint, whose answers are ``said``: a document, bytes, or a status and one of them."""

    def __init__(self):
        super().__init__(self._answer)
        self.said = [TOKEN]

    def _answer(self, request, answer):
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        status, body, headers = said if isinstance(said, tuple) else (200, said, {})
        answer.status(status, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    @property
    def forms(self):
        found = [parse_qs(request.body.decode("ascii"), keep_blank_values=True) for request in self.requests]
        assert all(len(values) == 1 for form in found for values in form.values()), "a field comes twice"
        return [{name: values[0] for name, values in form.items()} for form in found]

    def server(self, **more):
        return AuthorizationServer(self.origin, f"{self.origin}/token", revocation_endpoint=f"{self.origin}/revoke",
                                   **more)

    def client(self, secret=None, method="none"):
        return ClientIdentity(self.origin, "c1", secret, method)


@pytest.fixture
def counter():
    with Counter() as counter:
        yield counter


@pytest.fixture
def web(counter):
    with Web(counter.url) as web:
        yield web


@pytest.fixture
def endpoint(counter, web):
    return TokenEndpoint(web, counter.server())


def ask(counter, endpoint, scopes=(), **more):
    return endpoint.request(counter.client(), RESOURCE, {**CODE, **more}, list(scopes))


def claims(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


# --- what is asked ------------------------------------------------------------------------------------

def test_the_resource_is_always_named(counter, endpoint):
    ask(counter, endpoint, scope=None)
    endpoint.refresh(Credentials(counter.origin, RESOURCE, counter.client(), "old", refresh_token="r1"))
    assert counter.forms == [
        {"grant_type": "authorization_code", "code": "c0de", "resource": RESOURCE, "client_id": "c1"},
        {"grant_type": "refresh_token", "refresh_token": "r1", "resource": RESOURCE, "client_id": "c1"}]
    assert [(request.method, request.path) for request in counter.requests] == [("POST", "/token")] * 2
    assert {request.headers["content-type"] for request in counter.requests} == {"application/x-www-form-urlencoded"}
    assert not any("authorization" in request.headers or "dpop" in request.headers for request in counter.requests)


SPECIAL = ["plain", "with space", "a:b", "a%b+c&d=e", "\u00fcber", "~*-_.", "/?#", "\U0001f600", "100%25"]


@pytest.mark.parametrize("id", SPECIAL)
@pytest.mark.parametrize("secret", SPECIAL)
def test_basic_is_encoded_as_a_form_first(counter, endpoint, id, secret):
    client = ClientIdentity(counter.origin, id, secret, "client_secret_basic")
    endpoint.request(client, RESOURCE, CODE, [])
    kind, value = counter.requests[0].headers["authorization"].split(" ")
    parts = base64.b64decode(value, validate=True).decode("ascii").split(":")
    assert kind == "Basic" and list(map(unquote_plus, parts)) == [id, secret]
    assert set(counter.forms[0]) == {"grant_type", "code", "resource"}  # once is enough (RFC 6749, section 2.3)


@pytest.mark.parametrize("id", SPECIAL)
def test_post_has_both_in_the_body_and_a_public_client_its_id_alone(counter, endpoint, id):
    client = ClientIdentity(counter.origin, id, f"s {id}", "client_secret_post")
    endpoint.request(client, RESOURCE, CODE, [])
    endpoint.request(counter.client(secret="s3cret", method="none"), RESOURCE, CODE, [])
    assert counter.forms == [{**CODE, "resource": RESOURCE, "client_id": id, "client_secret": f"s {id}"},
                             {**CODE, "resource": RESOURCE, "client_id": "c1"}]
    assert not any("authorization" in request.headers for request in counter.requests)


def test_a_client_that_authenticates_by_a_key_needs_it(counter, endpoint):
    with pytest.raises(mcplite.errors.AuthError, match="by a private key, which is not available"):
        endpoint.request(counter.client(method="private_key_jwt"), RESOURCE, CODE, [])
    assert counter.requests == []


def test_a_client_of_another_server_is_never_shown(counter, web, endpoint):
    for issuer in ("https://other.example", f"{counter.origin}/", counter.origin.upper()):
        client = ClientIdentity(issuer, "c1", "s3cret", "client_secret_post")
        old = Credentials(issuer, RESOURCE, client, "acc3ss", refresh_token="r3fresh")
        for use in (lambda: endpoint.request(client, RESOURCE, CODE, []), lambda: endpoint.refresh(old),
                    lambda: endpoint.revoke(old)):
            with pytest.raises(mcplite.errors.AuthError, match="is never shown to") as caught:
                use()
            assert not any(secret in str(caught.value) for secret in ("s3cret", "acc3ss", "r3fresh"))
    assert counter.requests == []


# --- what is given -------------------------------------------------------------------------------------

def test_a_token_and_all_that_belongs_to_it(counter, web):
    counter.said = [{**TOKEN, "expires_in": 3600, "refresh_token": "r3fresh", "scope": "read write", "unknown": [1],
                     "id_token": "x"}]
    before, client = time.time(), counter.client()
    found = TokenEndpoint(web, counter.server()).request(client, RESOURCE, CODE, ["asked"], described=False)
    assert before + 3600 <= found.expires_at <= time.time() + 3600 and not found.expired
    found.expires_at = None
    assert found == Credentials(counter.origin, RESOURCE, client, "acc3ss", "Bearer", "r3fresh", None,
                                ["read", "write"], False, None, 3600)


@pytest.mark.parametrize("scope, granted", [
    ("read", ["read"]), ("read write more", ["read", "write", "more"]), ("  read  write ", ["read", "write"]),
    ("", ["read", "write"]),
    ("  ", ["read", "write"]), (None, ["read", "write"]), (5, ["read", "write"]), (["read"], ["read", "write"]),
])
def test_the_granted_scopes_are_those_of_the_answer(counter, endpoint, scope, granted):
    counter.said = [{**TOKEN, "scope": scope, "token_type": "BEARER"}]
    found = ask(counter, endpoint, ["read", "write"])
    assert (found.scopes, found.scheme) == (granted, "Bearer")
    counter.said = [{**TOKEN, "token_type": "bearer"}]
    assert ask(counter, endpoint, ["read", "write"]).scopes == ["read", "write"]


@pytest.mark.parametrize("seconds, span", [
    (b"3600", 3600), (b"0", 0), (b"1.5", 1.5), (b'"3600"', 3600), (b"1e3", 1000), (b"100000000000000000000", 10 ** 9),
    (b"1e300", 10 ** 9), (b"-1", None), (b'"-1"', None), (b"true", None), (b"false", None), (b"null", None), (b'"soon"', None),
    (b'""', None), (b"[]", None), (b"{}", None), (b"NaN", None), (b"Infinity", None), (b"-Infinity", None), (b'"nan"', None),
    (b'"inf"', None), (b"1e400", None), (b"1" + b"0" * 400, None), (b'"1' + b"0" * 400 + b'"', None), (b"[3600]", None),
])
def test_the_lifetime_of_a_token(counter, endpoint, seconds, span):
    counter.said = [b'{"access_token": "acc3ss", "token_type": "Bearer", "expires_in": ' + seconds + b"}"]
    before = time.time()
    found = ask(counter, endpoint)
    if span is None:
        assert found.expires_at is None and not found.expired
    else:
        assert before + span <= found.expires_at <= time.time() + span
    assert Credentials.read(json.loads(json.dumps(found.record(), allow_nan=False))) == found


def test_a_token_expires_a_little_early():
    found = Credentials("https://as.example", RESOURCE, ClientIdentity("https://as.example", "c"), "t")
    for expires_at, expired in ((None, False), (time.time() + 60, False), (time.time() + 5, True),
                                (time.time() - 5, True), (0, True)):
        found.expires_at = expires_at
        assert found.expired is expired
    found.expires_at, found.lifetime = time.time() + 5, 20
    assert not found.expired  # a tenth of its life is enough


@pytest.mark.parametrize("kind", ["mac", "DPoP", "N_A", "", "Bearer ", "x" * 10_000, None, 5, ["Bearer"], {}])
def test_other_kinds_of_tokens_are_refused(counter, endpoint, kind):
    counter.said = [{**TOKEN, "token_type": kind}]
    with pytest.raises(mcplite.errors.AuthError, match="gave a token of the type") as caught:
        ask(counter, endpoint)
    assert "acc3ss" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize("token", [None, "", 5, ["acc3ss"], {}, True, "acc3ss x", "acc3ss\r\nX: y", "acc3ss\x00", "acc3ss\x7f",
                                   "acc3ss\u00fc", "acc3ss\u20ac", " acc3ss", "acc3ss\t"])
def test_tokens_that_cannot_be_sent_are_refused(counter, endpoint, token):
    counter.said = [{**TOKEN, "access_token": token}]
    with pytest.raises(mcplite.errors.AuthError, match="answered without an access_token that can be sent") as caught:
        ask(counter, endpoint)
    assert "acc3ss" not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize("said", [b"", b"<html>acc3ss</html>", b"access_token=acc3ss&token_type=bearer", b'["acc3ss"]',
                                  b"null", b"{"])
def test_answers_that_are_not_json_have_no_token(counter, endpoint, said):
    counter.said = [said]
    with pytest.raises(mcplite.errors.AuthError, match="answered without an access_token") as caught:
        ask(counter, endpoint)
    assert "acc3ss" not in str(caught.value)


@pytest.mark.parametrize("status, said, error, text", [
    (400, {"error": "invalid_grant", "error_description": "code  is\nold"}, "invalid_grant", "invalid_grant: code is old"),
    (401, {"error": "invalid_client"}, "invalid_client", "invalid_client"), (400, b"<html>", "", "status 400"),
    (500, b"", "", "status 500"), (503, TOKEN, "", "status 503"),
    (302, b"", "", "status 302"),
    (200, {"error": "bad_verification_code", **TOKEN}, "bad_verification_code", "bad_verification_code"),
    (400, {"error": "use_dpop_nonce"}, "use_dpop_nonce", "use_dpop_nonce"),
])
def test_a_refusal_says_why(counter, endpoint, status, said, error, text):
    counter.said = [(status, said, {})]
    with pytest.raises(mcplite.errors.AuthError) as caught:
        ask(counter, endpoint)
    assert str(caught.value) == f"{counter.origin} gave no token: {text}" and caught.value.error == error
    assert caught.value.status == status and len(counter.requests) == 1


@pytest.mark.parametrize("status", [200, 201, 202, 203])
def test_a_token_comes_with_any_status_of_success(counter, endpoint, status):
    counter.said = [(status, {**TOKEN, "refresh_token": "r2"}, {})]
    assert ask(counter, endpoint).access_token == "acc3ss"
    assert endpoint.refresh(old_ones(counter)).refresh_token == "r2"


# --- servers that take a secret in another way ----------------------------------------------------------

WRONG = (401, {"error": "invalid_client"}, {})


def by_hand(counter, method="client_secret_basic", guessed=True):
    return ClientIdentity(counter.origin, "c1", "s3cret", method, guessed=guessed)


def how(counter):
    """Return how each request authenticated: where the id and the secret are."""
    return [("header " if "authorization" in request.headers else "") + " ".join(
        name[7:] for name in ("client_id", "client_secret") if name in form)
        for request, form in zip(counter.requests, counter.forms)]


@pytest.mark.parametrize("refusal", [
    WRONG, (400, {"error": "invalid_client"}, {}), (401, b"", {}), (401, {"error": "unauthorized_client"}, {}),
    (200, {"error": "invalid_client"}, {}), (400, {"error": "invalid_request"}, {})])
def test_the_id_of_a_client_is_repeated_in_the_form(counter, endpoint, refusal):
    # Servers of the official Python SDK look for it there.
    counter.said = [refusal, TOKEN]
    endpoint.request(by_hand(counter, guessed=None), RESOURCE, CODE, [])
    assert how(counter) == ["header ", "header id"]
    counter.said = [refusal, b""]
    counter.requests.clear()
    old = old_ones(counter)
    old.client, old.refresh_token = by_hand(counter), None
    endpoint.revoke(old)
    assert how(counter) == ["header ", "header id"]


@pytest.mark.parametrize("method, methods, ways", [
    ("client_secret_basic", ["client_secret_basic", "client_secret_post"], ["header ", "id secret", "header id"]),
    ("client_secret_post", ["client_secret_post", "client_secret_basic"], ["id secret", "header ", "header id"]),
    ("client_secret_basic", ["client_secret_basic"], ["header ", "header id"]),
    ("client_secret_post", ["client_secret_post"], ["id secret"]), ("none", ["none", "client_secret_post"], ["id"]),
])
def test_a_client_that_was_registered_by_hand_tries_each_way_once(counter, web, method, methods, ways):
    counter.said = [WRONG]
    endpoint = TokenEndpoint(web, counter.server(methods=methods))
    with pytest.raises(mcplite.errors.AuthError, match="gave no token: invalid_client") as caught:
        endpoint.request(by_hand(counter, method), RESOURCE, CODE, [])
    assert how(counter) == ways and caught.value.error == "invalid_client" and "s3cret" not in str(caught.value)


def test_a_client_that_registered_for_a_method_uses_that_one(counter, web):
    counter.said = [WRONG]
    endpoint = TokenEndpoint(web, counter.server(methods=["client_secret_post", "client_secret_basic"]))
    with pytest.raises(mcplite.errors.AuthError, match="invalid_client"):
        endpoint.request(by_hand(counter, "client_secret_post", None), RESOURCE, CODE, [])
    assert how(counter) == ["id secret"]


def test_a_server_that_refuses_an_id_in_both_places_is_quoted_for_the_first_refusal(counter, endpoint):
    counter.said = [WRONG, (400, {"error": "invalid_request"}, {})]
    with pytest.raises(mcplite.errors.AuthError, match="invalid_client"):
        endpoint.request(by_hand(counter), RESOURCE, CODE, [])
    for found in ((400, {"error": "invalid_grant"}, {}), (401, {"error": "invalid_grant"}, {})):  # those have found the client
        counter.requests.clear()
        counter.said = [WRONG, found]
        with pytest.raises(mcplite.errors.AuthError, match="invalid_grant"):
            endpoint.request(by_hand(counter), RESOURCE, CODE, [])
        assert len(counter.requests) == 2


@pytest.mark.parametrize("status, error, ends", [
    (400, "invalid_grant", True), (400, "", True), (401, "x", True), (403, "access_denied", True), (404, "", True),
    (410, "", True), (422, "", True), (499, "", True), (200, "bad_refresh_token", True), (200, "", False),
    (200, "temporarily_unavailable", False), (302, "", False), (408, "", False), (429, "invalid_grant", False),
    (500, "invalid_grant", False), (503, "", False), (0, "", False), (400, "use_dpop_nonce", False),
])
def test_which_refusals_end_a_login(status, error, ends):
    assert ends_login(mcplite.errors.AuthError("no", status=status, error=error)) is ends


# --- the next one ---------------------------------------------------------------------------------------

def old_ones(counter, **more):
    return Credentials(counter.origin, RESOURCE, counter.client(), "old", refresh_token="r1", expires_at=1.0,
                       scopes=["read", "write"],
                       **more)


@pytest.mark.parametrize("given, kept", [("r2", "r2"), (None, "r1"), ("", "r1"), (5, "r1")])
def test_a_refresh_token_is_replaced_or_kept(counter, endpoint, given, kept):
    counter.said = [{**TOKEN, "refresh_token": given}]
    old = old_ones(counter, described=False)
    new = endpoint.refresh(old)
    assert (new.access_token, new.refresh_token, new.scopes, new.described) == ("acc3ss", kept, ["read", "write"], False)
    assert (new.issuer, new.resource, new.client, new.expires_at) == (old.issuer, old.resource, old.client, None)
    assert (old.access_token, old.refresh_token) == ("old", "r1")
    assert counter.forms[0]["refresh_token"] == "r1"


# --- the end of them -------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [200, 204])
def test_both_tokens_are_revoked(counter, endpoint, status):
    counter.said = [(status, b"", {})]
    endpoint.revoke(old_ones(counter))
    assert counter.forms == [{"token": "r1", "token_type_hint": "refresh_token", "client_id": "c1"},
                             {"token": "old", "token_type_hint": "access_token", "client_id": "c1"}]
    assert [request.path for request in counter.requests] == ["/revoke"] * 2


def test_missing_tokens_are_not_revoked(counter, web, endpoint):
    old = old_ones(counter)
    old.refresh_token = None
    old.client.secret, old.client.method = "s", "client_secret_post"
    endpoint.revoke(old)
    assert counter.forms == [{"token": "old", "token_type_hint": "access_token", "client_id": "c1",
                              "client_secret": "s"}]
    TokenEndpoint(web, AuthorizationServer(counter.origin, f"{counter.origin}/token")).revoke(old)  # without an endpoint
    assert len(counter.requests) == 1


def test_a_token_that_cannot_be_revoked_does_not_stop_the_other_revocation(counter, endpoint):
    # RFC 7009, section 2.2.1: a server may know how to revoke one kind of the two.
    counter.said = [(400, {"error": "invalid_request"}, {}), b""]
    with pytest.raises(mcplite.errors.AuthError, match="did not revoke the refresh_token: invalid_request"):
        endpoint.revoke(old_ones(counter))
    assert [form["token"] for form in counter.forms] == ["r1", "old"]


def test_a_self_contained_token_need_not_be_revoked(counter, endpoint):
    # RFC 7009, section 2.2.1: a server that signs its tokens cannot take them back.
    counter.said = [b"", (400, {"error": "unsupported_token_type"}, {})]
    endpoint.revoke(old_ones(counter))
    assert [form["token"] for form in counter.forms] == ["r1", "old"]


# --- proofs of possession ------------------------------------------------------------------------------

@pytest.fixture
def proofs():
    return Proofs(SigningKey.generate())


def nonce(value, status=400, error="use_dpop_nonce"):
    return status, {"error": error}, {"DPoP_Nonce": value}


BOUND = {**TOKEN, "token_type": "DPoP"}


def test_a_token_is_bound_to_the_key(counter, web, proofs):
    counter.said = [BOUND]
    found = ask(counter, TokenEndpoint(web, counter.server(), proofs))
    assert (found.scheme, found.key) == ("DPoP", proofs.key.pem)
    said = claims(counter.requests[0].headers["dpop"])
    assert (said["htm"], said["htu"]) == ("POST",
                                          f"{counter.origin}/token") and "ath" not in said and "nonce" not in said


def test_a_nonce_is_put_into_a_new_proof_and_the_request_repeated_once(counter, web, proofs):
    counter.said = [nonce("n1"), BOUND]
    endpoint = TokenEndpoint(web, counter.server(), proofs)
    assert ask(counter, endpoint).scheme == "DPoP"
    first, second = [claims(request.headers["dpop"]) for request in counter.requests]
    assert ("nonce" in first, second["nonce"]) == (False, "n1") and first["jti"] != second["jti"]
    assert counter.forms[0] == counter.forms[1]
    ask(counter, endpoint)  # and from now on without being asked
    assert claims(counter.requests[2].headers["dpop"])["nonce"] == "n1" and len(counter.requests) == 3


@pytest.mark.parametrize("said, requests", [
    ([nonce("n1"), nonce("n2"), nonce("n3")], 2), ([nonce("n1"), nonce("n1")], 2), ([nonce("n1", error="invalid_grant")], 1),
    ([nonce("not one")], 1), ([(400, {"error": "use_dpop_nonce"}, {})], 1),
])
def test_a_second_nonce_is_an_error(counter, web, proofs, said, requests):
    counter.said = said
    with pytest.raises(mcplite.errors.AuthError, match="gave no token"):
        ask(counter, TokenEndpoint(web, counter.server(), proofs))
    assert len(counter.requests) == requests


def test_a_bearer_token_is_refused_in_place_of_a_bound_one(counter, web, proofs):
    with pytest.raises(mcplite.errors.AuthError, match="a token of the type 'Bearer' in place of DPoP"):
        ask(counter, TokenEndpoint(web, counter.server(), proofs))


# --- keeping -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [
    None, {}, {"issuer": "x"}, {"client": {}}, {"client": None}, {"client": "c"}, {"client": []}, {"client": 5},
    {"issuer": "i", "resource": "r", "access_token": "t", "client": {"issuer": "i", "client_id": "c"}, "new": 1},
    {"issuer": "i", "resource": "r", "access_token": "t", "client": {"issuer": "i", "client_id": "c", "new": 1}},
    {"issuer": "i", "resource": "r", "access_token": "t", "client": {"issuer": "i"}},
])
def test_a_record_of_another_version_is_ignored(record):
    assert Credentials.read(record) is None


# --- callers that leave ---------------------------------------------------------------------------------------

def test_a_refresh_completes_when_its_caller_leaves(counter):
    # AUTH-34: the refresh token is used up, so that the answer must not be lost.
    def check():
        raise Stopped

    with Web(counter.url, check=check) as web:
        endpoint = TokenEndpoint(web, counter.server())
        counter.said = [{**TOKEN, "refresh_token": "r2"}]
        old = Credentials(counter.origin, RESOURCE, counter.client(), "old", refresh_token="r1")
        assert endpoint.refresh(old).refresh_token == "r2"
        counter.said = [(400, {"error": "invalid_grant"}, {})]
        with pytest.raises(mcplite.errors.AuthError, match="invalid_grant"):
            endpoint.refresh(old)
        with pytest.raises(Stopped):  # what can be done once more is
            ask(counter, endpoint)
    assert len(counter.requests) == 2


# --- secrets -------------------------------------------------------------------------------------------

SECRETS = ["s3cret", "acc3ss", "r3fresh", "c0de", "v3rifier", "PRIVATE KEY", base64.b64encode(b"c1:s3cret").decode()]


def test_no_secret_is_shown_or_logged(counter, web, proofs, caplog):
    caplog.set_level(logging.DEBUG)
    texts = []
    answers = [
        {**BOUND, "refresh_token": "r3fresh"}, (400, {"error": "invalid_grant", "access_token": "acc3ss"}, {}),
        (200, {**TOKEN, "token_type": "mac"}, {}), b"acc3ss", (500, b"acc3ss r3fresh", {}),
    ]
    for method in ("client_secret_basic", "client_secret_post", "none"):
        for key in (None, proofs):
            endpoint = TokenEndpoint(web, counter.server(), key)
            texts.append(repr(endpoint))
            for said in answers:
                counter.said = [said]
                client = counter.client("s3cret", method)
                try:
                    found = endpoint.request(client, RESOURCE, {**CODE, "code_verifier": "v3rifier"}, [])
                    texts += [repr(found), str(found), repr(found.client), f"{[found]}"]
                    found = endpoint.refresh(found)
                    texts += [repr(found), str(found)]
                except mcplite.errors.AuthError as error:
                    texts += [str(error), repr(error), error.challenge, error.error]
    texts.append(caplog.text)
    assert len(counter.requests) > 30 and len(texts) > 30
    assert [secret for secret in SECRETS for text in texts if secret in text] == []

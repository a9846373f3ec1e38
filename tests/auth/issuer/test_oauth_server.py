"""The token endpoint and its neighbours: how clients prove who they are, and what tokens do."""

import base64
import json
import threading
import time
from urllib.parse import quote_plus

import pytest
import requests

import mcplite
from mcplite.backend.memory import MemoryBackend
from tests.support.issuers import Clock, RawClient, serving
from tests.support.processes import at_once

pytest.importorskip("authlib")
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def issuer():
    with serving(clock=Clock()) as issuer:
        yield issuer


@pytest.fixture
def client(issuer):
    return RawClient(issuer)


# --- clients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_how_a_client_authenticates(issuer, method):
    client = RawClient(issuer, token_endpoint_auth_method=method)
    assert bool(client.secret) == (method != "none")
    changed = {"client_secret": None, "auth": (client.id, client.secret)} if method == "client_secret_basic" else {}
    answer = client.redeem(client.code()["code"], **changed)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    assert client.call(answer.json()["access_token"]).startswith("ann")


def test_a_client_that_signs_its_requests(issuer, monkeypatch):
    jwt = pytest.importorskip("jwt")
    from cryptography.hazmat.primitives.asymmetric import ec

    from mcplite.auth.issuer import client_registry

    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    client = RawClient(issuer, token_endpoint_auth_method="private_key_jwt", jwks={"keys": [public]})

    def signed(**changed):
        claims = {"iss": client.id, "sub": client.id, "aud": issuer.url, "exp": issuer._clock() + 60, "jti": str(time.time())}
        return {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": jwt.encode({**claims, **changed}, key, "ES256"), "client_id": None}

    once = signed()
    code = client.code()["code"]
    for changed in ({"aud": "https://other.example"}, {"exp": issuer._clock() - 100}, {"exp": issuer._clock() + 9000},
                    {"iss": "other"}, {"sub": "other"}):
        assert client.redeem(code, **signed(**changed)).json()["error"] == "invalid_client"
    tokens = client.redeem(code, **once).json()
    assert client.call(tokens["access_token"]).startswith("ann")
    assert client.refresh(tokens["refresh_token"], **once).json()["error"] == "invalid_client"  # it was used before
    text = once["client_assertion"]
    for last in "AEIMQUYcgkosw048":  # the bits that count are the signature's, too
        once["client_assertion"] = text[:-1] + last
        assert client.refresh(tokens["refresh_token"], **once).json()["error"] == "invalid_client"
    assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_client"
    assert client.refresh(tokens["refresh_token"], **signed()).status_code == 200
    monkeypatch.setitem(client_registry._MOST, "assertions", (900, 1, 100))
    assert client.refresh(tokens["refresh_token"], **signed()).status_code == 429


def test_the_secret_of_a_basic_login_may_have_any_character(issuer):
    header = base64.b64encode(b"client:colon:in:secret").decode()
    answer = requests.post(f"{issuer.url}/token", {"grant_type": "authorization_code", "code": "x"},
                           headers={"Authorization": f"Basic {header}"}, timeout=30)
    assert answer.status_code == 401 and answer.json()["error"] == "invalid_client"


@pytest.mark.parametrize("token, others", [("refresh_token", True), ("access_token", False)])
def test_revocation(issuer, token, others):
    client = RawClient(issuer)
    tokens = client.tokens()
    stranger = RawClient(issuer)
    assert stranger.post("/revoke", token=tokens[token], client_id=stranger.id).json()["error"] == "invalid_grant"
    assert client.call(tokens["access_token"]).startswith("ann")
    assert client.post("/revoke", token=tokens[token], client_id=client.id).status_code == 200
    assert client.call(tokens["access_token"]) == "refused"
    assert (client.refresh(tokens["refresh_token"]).status_code == 400) == others
    assert client.post("/revoke", token="unknown", client_id=client.id).status_code == 200


def test_another_resource_server_asks_about_its_tokens():
    other = "https://files.example/mcp"
    with serving(resource_servers={other: "s3cret-of-files"}) as issuer:
        client = RawClient(issuer)
        here, there = client.tokens()["access_token"], client.tokens(resource=other)["access_token"]
        ask = {"auth": (quote_plus(other), "s3cret-of-files")}
        assert client.call(there) == "refused"  # it is for the other server
        found = client.post("/introspect", token=there, **ask).json()
        assert found["active"] and found["aud"] == other and found["sub"] == "ann" and found["scope"] == "notes"
        assert client.post("/introspect", token=here, **ask).json() == {"active": False}
        assert client.post("/introspect", token=there, auth=(quote_plus(other), "guess")).status_code == 401
        assert client.post("/introspect", token=there, client_id=client.id).json()["error"] == "invalid_client"
        verify = mcplite.auth.Introspection(f"{issuer.url}/introspect", client_id=other, client_secret="s3cret-of-files")
        assert verify(there).subject == "ann" and verify(here) is None


def test_a_refresh_token_is_used_once_and_its_second_use_ends_all(issuer):
    client = RawClient(issuer)
    first = client.tokens()
    second = client.refresh(first["refresh_token"]).json()
    assert client.call(second["access_token"]).startswith("ann") and client.call(first["access_token"]).startswith("ann")
    assert client.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.call(second["access_token"]) == "refused"


def test_a_code_is_used_once_and_its_second_use_ends_the_grant(issuer):
    client = RawClient(issuer)
    code = client.code()["code"]
    tokens = client.redeem(code).json()
    assert client.call(tokens["access_token"]).startswith("ann")
    assert client.redeem(code).json()["error"] == "invalid_grant"
    assert client.call(tokens["access_token"]) == "refused"
    assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_refresh_in_place_of_a_login_for_more_scopes_leads_to_the_login(issuer):
    client = RawClient(issuer)
    first = client.tokens()
    assert client.call(first["access_token"], "secret") == "insufficient_scope"
    refused = client.refresh(first["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "consent_required")
    second = client.refresh(first["refresh_token"]).json()  # nothing is lost for a client that does not ask the user
    assert client.call(second["access_token"]).startswith("ann")
    issuer._clock.ahead += 3500
    assert client.call(second["access_token"], "secret") == "insufficient_scope"
    assert client.refresh(second["refresh_token"]).status_code == 200  # the token ends soon, which is reason enough


def test_times(issuer):
    client = RawClient(issuer)
    late = client.code()["code"]
    tokens = client.tokens()
    assert tokens["expires_in"] == 3600 and tokens["token_type"] == "Bearer" and tokens["scope"] == "notes secret"[:5]
    issuer._clock.ahead += 61
    assert client.redeem(late).json()["error"] == "invalid_grant"
    issuer._clock.ahead += 3600
    assert client.call(tokens["access_token"]) == "refused"
    assert client.refresh(tokens["refresh_token"]).status_code == 200


# --- codes and tokens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed, error", [
    ({"code_verifier": None}, "invalid_request"), ({"code_verifier": "x" * 50}, "invalid_grant"),
    ({"code_verifier": "short"}, "invalid_request"), ({"redirect_uri": "http://127.0.0.1:4/callback"}, "invalid_grant"),
    ({"redirect_uri": "https://evil.example/"}, "invalid_grant"), ({"code": "guess"}, "invalid_grant"),
    ({"code": None}, "invalid_request"), ({"client_id": "unknown"}, "invalid_client"), ({"client_id": None}, "invalid_client"),
    ({"resource": "https://other.example/mcp"}, "invalid_target"), ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": "client_credentials"}, "unsupported_grant_type"), ({"grant_type": None}, "unsupported_grant_type"),
    ({"grant_type": "refresh_token"}, "invalid_request"),
])
def test_a_code_that_is_redeemed_in_a_wrong_way(client, changed, error):
    code = client.code()["code"]
    answer = client.redeem(changed.pop("code", code), **changed) if changed.get("code", 1) is not None else client.redeem(None)
    assert answer.status_code in (400, 401) and answer.json()["error"] == error
    assert client.redeem(code).status_code == 200  # it was not used up


def test_a_code_of_another_client(issuer, client):
    other = RawClient(issuer)
    code = client.code()["code"]
    assert other.redeem(code, code_verifier=client.verifier).json()["error"] == "invalid_grant"
    secret = RawClient(issuer, token_endpoint_auth_method="client_secret_post")
    assert secret.redeem(code, code_verifier=client.verifier).json()["error"] == "invalid_grant"
    assert client.redeem(code).status_code == 200


def test_a_secret_cannot_be_left_out(issuer):
    client = RawClient(issuer, token_endpoint_auth_method="client_secret_post")
    code = client.code()["code"]
    for secret in (None, "", "guess", client.id):
        assert client.redeem(code, client_secret=secret).json()["error"] == "invalid_client"
    assert client.redeem(code).status_code == 200


def test_of_many_uses_of_a_code_at_once_one_succeeds_at_most(client):
    code, answers = client.code()["code"], []
    start = threading.Barrier(8)

    def redeem():
        start.wait()
        answers.append(client.redeem(code))

    at_once(redeem, 8)
    good = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(good) <= 1
    assert [client.call(tokens["access_token"]) for tokens in good] in ([], ["refused"])  # a second use ends the grant


def test_of_many_uses_of_a_refresh_token_at_once_one_succeeds_at_most(client):
    token, answers = client.tokens()["refresh_token"], []
    at_once(lambda: answers.append(client.refresh(token)), 8)
    good = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(good) <= 1 and all(client.call(tokens["access_token"]) == "refused" for tokens in good)


@pytest.mark.parametrize("changed, error", [
    ({"refresh_token": None}, "invalid_request"), ({"refresh_token": "guess"}, "invalid_grant"),
    ({"refresh_token": "." * 66}, "invalid_grant"), ({"scope": "notes secret"}, "invalid_scope"),
    ({"resource": "https://other.example/"}, "invalid_target"), ({"client_id": "unknown"}, "invalid_client"),
])
def test_a_refresh_that_is_wrong(client, changed, error):
    tokens = client.tokens(scope="notes")
    answer = client.refresh(changed.pop("refresh_token", tokens["refresh_token"]), **changed)
    assert answer.status_code in (400, 401) and answer.json()["error"] == error
    assert client.call(tokens["access_token"]).startswith("ann")


def test_a_refresh_token_of_another_client_or_an_access_token_in_its_place(issuer, client):
    tokens, other = client.tokens(), RawClient(issuer)
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.refresh(tokens["access_token"]).json()["error"] == "invalid_grant"
    assert client.call(tokens["refresh_token"]) == "refused"
    assert client.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("path", ["/token", "/register", "/revoke", "/introspect"])
@pytest.mark.parametrize("body, kind", [
    (b"", FORM), (b"\xff\xfe=%FF%FE", FORM), (b"[" * 30_000, "application/json"), (b"a=1&" * 200, FORM),
    (b"grant_type=x&grant_type=y", FORM),
    (b"{}", "application/json"), (b"null", "application/json"), (b"x" * 200_000, "text/plain"),
])
def test_bodies_that_are_none(issuer, path, body, kind):
    answer = requests.post(issuer.url + path, body, headers={"Content-Type": kind}, timeout=30)
    assert 400 <= answer.status_code < 500 and answer.json()["error"]


def test_a_client_that_only_refreshes_stays_registered():
    clock = Clock()
    with serving(clock=clock, backend=MemoryBackend(clock)) as issuer:
        client = RawClient(issuer)
        tokens = client.tokens()
        for _ in range(18):
            clock.ahead += 25 * 86_400
            tokens = client.refresh(tokens["refresh_token"]).json()
        assert client.call(tokens["access_token"]).startswith("ann")

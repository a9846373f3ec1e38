"""Attacks on logins at upstream providers: through the browser, as a provider, and between two; no user is logged in by one."""

import gzip
import hashlib
import hmac
import json
import time

import pytest

from mcplite.auth.issuer.upstream_grants import Encryption, UpstreamGrants
from mcplite.auth.issuer.upstream_providers import UpstreamError
from mcplite.auth.verify import fetch
from mcplite.backend.from_url import open_backend
from tests.support.providers import CALLBACK, CLIENT, SECRET, TENANT, Logins, Provider, each, encoded, log_in
from tests.support.webscript import WebScript


def refused(logins, name, query=None, callback=CALLBACK, transaction=None):
    """Log in, with a response of the attacker's; return the error. Nothing is kept of it."""
    if transaction is None:
        transaction = {}
        url = logins.grants.begin(name, transaction, CALLBACK, "state-1")
        query = {**log_in(url), **(query or {})}
    with pytest.raises(UpstreamError) as raised:
        logins.grants.finish({key: value for key, value in query.items() if value is not None}, transaction, callback)
    assert not [key for key in logins.backend.put_keys if key.startswith("upstream-")]
    text = str(raised.value)
    assert SECRET not in text and "up-" not in text and len(text) < 600 and text.isprintable()
    return raised.value


@pytest.fixture
def logins(provider):
    backend = open_backend("memory:")
    put, backend.put_keys = backend.put, []
    backend.put = lambda key, value, seconds: (backend.put_keys.append(key), put(key, value, seconds))
    return Logins(provider.login(), backend=backend)


# --- through the browser ------------------------------------------------------------------------------------


@each("github", "okta")
@pytest.mark.parametrize("change, error", [
    ({"state": "state-2"}, "invalid_request"), ({"state": None}, "invalid_request"), ({"state": ""}, "invalid_request"),
    ({"state": "stat\u00e9-1"}, "invalid_request"), ({"state": "state-1 "}, "invalid_request"),
    ({"state": "STATE-1"}, "invalid_request"), ({"code": None}, "invalid_request"), ({"code": ""}, "invalid_request"),
    ({"code": "x" * 20_000}, "invalid_request"), ({"code": "guessed"}, "invalid_grant"),
    ({"iss": "https://evil.example"}, "invalid_request"), ({"iss": ""}, "invalid_request"),
    ({"iss": "not a url"}, "invalid_request"), ({"error": "access_denied"}, "access_denied"),
    ({"error": "<script>\n\x1b[31m", "error_description": "x\r\nSet-Cookie: a=b" + "y" * 5000}, "access_denied"),
    ({"error": "server_error"}, "temporarily_unavailable")])
def test_a_response_that_does_not_fit(logins, provider, change, error):
    assert refused(logins, provider.kind, change).error == error


@each("okta")
def test_a_response_without_its_issuer_where_the_provider_names_it(logins, provider):
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    assert refused(logins, "okta", {"iss": None}).error == "invalid_request"


@each("github", "okta")
def test_a_code_of_another_login_is_not_redeemed(logins, provider):
    # The attacker has a code of their own account, and has the victim's browser bring it (code injection).
    stolen = log_in(logins.grants.begin(provider.kind, {}, CALLBACK, "state-9"))["code"]
    assert refused(logins, provider.kind, {"code": stolen}).error == "invalid_grant"


@each("github")
def test_a_response_is_good_once(logins, provider):
    transaction = {}
    query = log_in(logins.grants.begin("github", transaction, CALLBACK, "state-1"))
    logins.grants.finish(query, transaction, CALLBACK)
    logins.backend.put_keys.clear()
    assert refused(logins, "github", query, transaction=transaction).error == "invalid_grant"


@each("github")
@pytest.mark.parametrize("noted", [
    None, {}, [], "x", {"name": "github"}, {"name": "github", "sealed": "AAAA"}, {"name": "github", "sealed": 7},
    {"name": "github", "sealed": "not base64!"}, {"name": "github", "sealed": ""}])
def test_a_transaction_that_was_not_begun_here(logins, provider, noted):
    query = log_in(logins.grants.begin("github", {}, CALLBACK, "state-1"))
    assert refused(logins, "github", query, transaction={} if noted is None else {"upstream": noted}).error == "invalid_request"


@each("github")
def test_a_transaction_of_another_issuer(logins, provider):
    transaction = {}
    other = UpstreamGrants([provider.login()], logins.backend, Encryption([b"another key of another issuer"]), 3600)
    query = log_in(other.begin("github", transaction, CALLBACK, "state-1"))
    assert refused(logins, "github", query, transaction=transaction).error == "invalid_request"


@each("github")
def test_a_response_at_another_callback(logins, provider):
    assert refused(logins, "github", callback="https://evil.example/callback").error == "invalid_request"


# --- between two providers ----------------------------------------------------------------------------------


@pytest.fixture
def two(mint):
    with Provider("okta", mint) as one, Provider("keycloak", mint) as other:
        backend = open_backend("memory:")
        backend.put_keys = []
        yield one, other, Logins(one.login(), other.login(), backend=backend)


def test_a_code_of_one_provider_does_not_reach_the_other(two):
    honest, evil, logins = two
    transaction = {}
    logins.grants.begin("keycloak", transaction, CALLBACK, "state-1")
    # The provider sends the browser on to the honest one, whose response comes back for the transaction of the first.
    query = log_in(logins.grants.begin("okta", {}, CALLBACK, "state-1"))
    assert refused(logins, "keycloak", query, transaction=transaction).error == "invalid_request"
    assert evil.asked == [] and honest.asked == []


def test_a_transaction_cannot_change_its_provider(two):
    honest, evil, logins = two
    transaction = {}
    query = log_in(logins.grants.begin("okta", transaction, CALLBACK, "state-1"))
    transaction["upstream"]["name"] = "keycloak"
    assert refused(logins, "keycloak", query, transaction=transaction).error == "invalid_request"
    transaction["upstream"]["name"] = "gone"
    assert refused(logins, "keycloak", query, transaction=transaction).error == "invalid_grant"


def test_an_id_token_of_the_other_provider(two):
    honest, evil, logins = two
    evil.claims = {"iss": honest.issuer, "sub": honest.user["sub"]}
    assert refused(logins, "keycloak").error == "server_error"


def test_equal_identifiers_at_two_providers_are_two_users(two):
    honest, evil, logins = two
    evil.user["sub"] = honest.user["sub"]
    assert logins.log_in("okta")[0].subject != logins.log_in("keycloak")[0].subject


# --- ID tokens ------------------------------------------------------------------------------------------------

PAST, FUTURE = 1_000_000_000, 4_000_000_000
CLAIMS = {
    "another audience": {"aud": "app-2"}, "no audience": {"aud": None}, "an empty audience": {"aud": []},
    "several without a party": {"aud": [CLIENT, "app-2"], "azp": None}, "odd audiences": {"aud": [CLIENT, 7]},
    "another party": {"azp": "app-2"}, "a party that is no text": {"azp": 7},
    "another issuer": {"iss": "https://evil.example"}, "no issuer": {"iss": None}, "an issuer that is no text": {"iss": 7},
    "another nonce": {"nonce": "x"}, "no nonce": {"nonce": None}, "a nonce that is no text": {"nonce": 7},
    "expired": {"exp": PAST}, "no end": {"exp": None}, "an end that is no time": {"exp": "later"},
    "from the future": {"iat": FUTURE},
    "without a begin": {"iat": None}, "not valid yet": {"nbf": FUTURE}, "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is no text": {"sub": 7}, "another access token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    "a hash that is no text": {"at_hash": 7}, "an access token": {"token_use": "access"}, "a refresh token": {"typ": "Refresh"},
    "a logout token": {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
    "a subject with a line break": {"sub": "ada\nadmin"}, "a long subject": {"sub": "x" * 300},
}


@each("keycloak")
@pytest.mark.parametrize("what", sorted(CLAIMS))
def test_an_id_token_that_is_not_for_this_login(logins, provider, what):
    provider.claims = CLAIMS[what]
    provider.user.pop("email_verified")
    assert refused(logins, "keycloak").error == "server_error"


def symmetric(mint, secret):
    def sign(**claims):
        told = {name: value for name, value in claims.items() if value is not None}
        pieces = mint.unsigned({"alg": "HS256", "typ": "JWT"}, told).rpartition(".")[0]
        return f"{pieces}.{encoded(hmac.new(secret.encode(), pieces.encode(), hashlib.sha256).digest())}"

    return sign


def with_another_payload(mint):
    def sign(**claims):
        head, payload, signature = mint.token(**claims).split(".")
        other = mint.token(**{**claims, "sub": "admin"}).split(".")[1]
        return f"{head}.{other}.{signature}"

    return sign


SIGNED = {
    "unsigned": lambda mint: lambda **claims: mint.unsigned({"alg": "none"}, claims),
    "unsigned in capitals": lambda mint: lambda **claims: mint.unsigned({"alg": "NONE"}, claims),
    "by the client's secret": lambda mint: symmetric(mint, SECRET),
    "by the public key as a secret": lambda mint: symmetric(mint, mint.pem()),
    "by an empty secret": lambda mint: symmetric(mint, ""),
    "by a stranger": lambda mint: lambda **claims: mint.token("other", header={"kid": "rsa"}, **claims),
    "by an unknown key": lambda mint: lambda **claims: mint.token("other", header={"kid": "new"}, **claims),
    "by a key in its header": lambda mint: lambda **claims: mint.token("other", header={"jwk": mint.jwk("other")}, **claims),
    "by a key at a URL": lambda mint: lambda **claims: mint.token("other", header={"jku": "https://evil.example/k"}, **claims),
    "with an extension": lambda mint: lambda **claims: mint.token(header={"crit": ["exp"]}, **claims),
    "for another payload": with_another_payload,
    "cut off": lambda mint: lambda **claims: mint.token(**claims)[:-8],
    "no JWT": lambda mint: lambda **claims: "garbage", "no text": lambda mint: lambda **claims: ["x"],
    "nothing": lambda mint: lambda **claims: None,
    "too long": lambda mint: lambda **claims: mint.token(more="x" * 100_000, **claims),
}


@each("keycloak", "google")
@pytest.mark.parametrize("how", sorted(SIGNED))
def test_an_id_token_that_the_provider_has_not_signed(logins, provider, mint, how):
    provider.sign = SIGNED[how](mint)
    assert refused(logins, provider.kind).error == "server_error"


# --- as a provider --------------------------------------------------------------------------------------------

BODIES = {
    "a page": (200, b"<html>hello</html>", {"Content_Type": "text/html"}), "nothing": (200, b"", {}),
    "a list": (200, b"[]", {"Content_Type": "application/json"}), "null": (200, b"null", {"Content_Type": "application/json"}),
    "too deep": (200, b"[" * 100_000, {"Content_Type": "application/json"}),
    "too large": (200, b'{"a":"' + b"x" * 2_000_000 + b'"}', {"Content_Type": "application/json"}),
    "compressed": (200, gzip.compress(b"{}" + b" " * 9_000_000), {"Content_Encoding": "gzip"}),
    "an error": (500, b"{}", {}), "a limit": (429, b"{}", {}), "a refusal": (403, b"{}", {}), "gone": (410, b"", {}),
}


@each("github", "okta")
@pytest.mark.parametrize("what", sorted(BODIES))
@pytest.mark.parametrize("place", ["token", "user"])
def test_answers_that_cannot_be_used(logins, provider, place, what):
    status, body, headers = BODIES[what]
    at = provider._paths[1 if place == "token" else 2]
    provider.on_path = lambda path, answer: answer.status(status, body, **headers) if path == at else NotImplemented
    assert refused(logins, provider.kind).error in ("server_error", "temporarily_unavailable", "invalid_grant")


@each("github", "okta")
@pytest.mark.parametrize("place", ["token", "user", "metadata", "keys"])
def test_no_redirect_is_followed(logins, provider, place):
    with WebScript(lambda request, answer: answer.json({"access_token": "x", "token_type": "bearer", "id": 1})) as other:
        at = {"token": provider._paths[1], "user": provider._paths[2], "keys": "/keys",
              "metadata": "/oauth2/default/.well-known/openid-configuration"}[place]
        provider.on_path = lambda path, answer: (
            answer.status(307, Location=other.origin + path) if path == at else NotImplemented)
        if provider.kind == "okta" or place in ("token", "user"):
            try:
                error = refused(logins, provider.kind)
            except UpstreamError as begun:
                error = begun
            assert error.error == "temporarily_unavailable"
        assert other.requests == []


@each("github", "okta")
@pytest.mark.parametrize("answer", [
    {}, {"access_token": "x"}, {"access_token": "x", "token_type": "mac"}, {"access_token": "", "token_type": "bearer"},
    {"access_token": "a b", "token_type": "bearer"}, {"access_token": "a\r\nX: y", "token_type": "bearer"},
    {"access_token": 7, "token_type": "bearer"}, {"access_token": "x", "token_type": 7},
    {"access_token": "\u00e9", "token_type": "bearer"}, {"access_token": "x" * 20_000, "token_type": "bearer"},
    {"access_token": "x", "token_type": "bearer", "error": "access_denied"}, {"error": ["x"]}, {"error": "a\nb\x1b[0m"}])
def test_a_token_endpoint_without_a_token(logins, provider, answer):
    provider.on_token = lambda fields, back: back.json(answer)
    assert refused(logins, provider.kind).error in ("server_error", "invalid_grant")


@each("github")
@pytest.mark.parametrize("id", [None, "", True, [1], {"a": 1}, 1.5, "1\n2", "x" * 300])
def test_an_account_without_an_identifier(logins, provider, id):
    provider.user["id"] = id
    assert refused(logins, "github").error == "server_error"


@each("okta")
def test_a_user_endpoint_that_answers_for_another_user(logins, provider):
    provider.user = {**provider.user}
    provider.claims = {"sub": "00u2"}
    assert "another user" in str(refused(logins, "okta"))


@each("github")
def test_slow_answers_end_the_login(logins, provider, monkeypatch):
    monkeypatch.setattr(fetch, "_SECONDS", 0.5)

    def drip(path, answer):
        if path != "/user":
            return NotImplemented
        answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(40):
            answer.raw(b" ")
            time.sleep(0.05)
        return answer.cut()

    provider.on_path = drip
    assert refused(logins, "github").error == "temporarily_unavailable"


@each("okta")
@pytest.mark.parametrize("change", [
    {"issuer": "https://evil.example"}, {"issuer": None}, {"token_endpoint": "http://evil.example/token"},
    {"token_endpoint": None}, {"token_endpoint": "https://a@evil.example/t"}, {"jwks_uri": "file:///etc/passwd"},
    {"authorization_endpoint": "javascript:alert(1)"}, {"userinfo_endpoint": "http://evil.example"}])
def test_metadata_that_may_not_be_used(logins, provider, change):
    provider.metadata = change
    with pytest.raises(UpstreamError) as raised:
        logins.grants.begin("okta", {}, CALLBACK, "state-1")
    assert raised.value.error == "temporarily_unavailable" and "evil" not in str(raised.value)


@each("entra")
@pytest.mark.parametrize("issuer", ["{tenantid}/v2.0", "66666666-2222-3333-4444-555555555555/v2.0", "common/v2.0"])
def test_metadata_of_another_tenant(logins, provider, issuer):
    provider.metadata = {"issuer": f"{provider.origin}/{issuer}"}
    with pytest.raises(UpstreamError):
        logins.grants.begin("entra", {}, CALLBACK, "state-1")


@each("entra")
@pytest.mark.parametrize("tenant, issuer", [
    ("66666666-2222-3333-4444-555555555555", TENANT), (TENANT, "66666666-2222-3333-4444-555555555555"), ("x", "x"),
    (None, TENANT), (["a"], TENANT), ("{tenantid}", "{tenantid}"), ("..", "..")])
def test_an_id_token_of_another_tenant_than_it_says(provider, tenant, issuer):
    provider.issuer = provider.origin + "/organizations/v2.0"
    provider.metadata = {"issuer": provider.origin + "/{tenantid}/v2.0"}
    provider._paths = [path.replace(TENANT, "organizations") for path in provider._paths]
    provider.claims = {"iss": f"{provider.origin}/{issuer}/v2.0", "tid": tenant}
    with pytest.raises(UpstreamError, match=r"\(issuer\)"):
        Logins(provider.login(tenant="organizations")).log_in("entra")


@each("entra")
@pytest.mark.parametrize("link", ["https://evil.example/next", "http://[", "file:///etc/passwd", 7, "self"])
def test_a_list_of_groups_that_goes_on_elsewhere_or_for_ever(logins, provider, link):
    del provider.user["groups"]
    provider.user["_claim_names"] = {"groups": "src1"}
    where = "/v1.0/me/transitiveMemberOf/microsoft.graph.group"
    target = provider.origin + where if link == "self" else link
    provider.on_path = lambda path, answer: (
        answer.json({"value": [], "@odata.nextLink": target}) if path == where else NotImplemented)
    logins.grants.logins["entra"] = provider.login(groups=lambda claims: claims["groups"])
    assert refused(logins, "entra").error == "server_error"
    assert len([request for request in provider.requests if "/me/" in request.path]) <= 10


# --- who the user is, and what they may -------------------------------------------------------------------------


@each("github")
@pytest.mark.parametrize("groups", [
    lambda claims: claims["no such claim"], lambda claims: ["a b"], lambda claims: [7], lambda claims: None, lambda claims: 7])
def test_scopes_that_cannot_be_found_are_not_all_scopes(provider, groups):
    with pytest.raises(UpstreamError) as raised:
        Logins(provider.login(groups=groups)).log_in("github")
    assert raised.value.error == "server_error" and "Ada" not in str(raised.value)


@each("github")
def test_a_user_can_be_refused(provider):
    def groups(claims):
        raise PermissionError("only members of the staff log in here")

    with pytest.raises(UpstreamError, match="only members of the staff") as raised:
        Logins(provider.login(groups=groups)).log_in("github")
    assert raised.value.error == "access_denied"


@each("google")
@pytest.mark.parametrize("verified", [False, None, "false", "no", 0, [], "True"])
def test_an_address_that_was_not_verified_is_none(provider, verified):
    provider.user["email_verified"] = verified
    user, _ = Logins(provider.login(groups=lambda claims: ["admin"] if claims["email"] else [])).log_in("google")
    assert user.email == "" == user.claims["email"] and user.scopes == frozenset()


@each("github")
def test_claims_cannot_take_the_names_that_all_providers_have(provider):
    provider.user.update(subject="github:1", groups=["admin"], upstream="google", email="boss@ada.example", emails=[])
    user, _ = Logins(provider.login()).log_in("github")
    assert user.subject == "github:583231" == user.claims["subject"]
    assert user.claims["upstream"] == "github" and user.claims["email"] == "ada@ada.example"


@each("keycloak")
def test_a_refresh_for_another_user_ends_the_grant(provider):
    shift = [0.0]
    logins = Logins(provider.login(), clock=lambda: time.time() + shift[0])
    _, grant = logins.log_in("keycloak")
    provider.user["sub"] = "someone-else"
    shift[0] += 60
    with pytest.raises(UpstreamError, match="another user"):
        logins.grants.renewed(grant)
    assert not logins.has(grant)


@each("github")
def test_a_user_about_whom_too_much_is_said(logins, provider):
    provider.user["bio"] = "x" * 100_000
    assert refused(logins, "github").error == "server_error"


@each("github", "okta")
def test_the_secret_goes_to_the_token_endpoint_alone(logins, provider):
    logins.log_in(provider.kind)
    sent = [request for request in provider.requests if SECRET in request.path + json.dumps(request.headers) + str(request.body)
            or "basic" in request.headers.get("authorization", "").lower()]
    assert [request.path for request in sent] == [provider._paths[1]]

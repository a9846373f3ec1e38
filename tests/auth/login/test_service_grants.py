"""Tokens without a user: what is sent, to whom only, and how often."""

import json
import time
from urllib.parse import parse_qsl

import pytest

import mcplite
from tests.support.authserver import AuthServer, Protected
from tests.support.webscript import WebScript

LIMIT = 30
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture
def auth():
    with AuthServer() as auth:
        auth.know("job", "s3cret-of-the-job")
        auth.know("public")
        yield auth


class Provider(WebScript):
    """A company's identity provider."""

    def __init__(self):
        super().__init__(path="/token")
        self.asked = []
        self.gives = {"access_token": "grant-of-the-company", "token_type": "N_A",
                      "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}
        self.says = 200

    def play(self, request, answer):
        self.asked.append(dict(parse_qsl(request.body.decode())))
        answer.status(self.says, json.dumps(self.gives), Content_Type="application/json")


@pytest.fixture
def provider():
    with Provider() as provider:
        yield provider


def credentials(issuer, **options):
    return mcplite.auth.ClientCredentials("job", "s3cret-of-the-job", issuer=issuer, **options)


def workload(issuer, **options):
    return mcplite.auth.WorkloadIdentity("assertion-of-the-platform", "public", issuer=issuer, **options)


def enterprise(issuer, provider, **options):
    return mcplite.auth.EnterpriseManaged(**{
        "id_token": "id-token-of-the-user", "idp_token_endpoint": provider.url, "idp_client_id": "at-the-company",
        "client_id": "job", "client_secret": "s3cret-of-the-job", "issuer": issuer, **options})


def use(script, grant, times=1):
    with mcplite.connect(script.url, auth=grant, timeout=LIMIT,
                         options=mcplite.ClientOptions(era="legacy", listen=False)) as client:
        for _ in range(times):
            client.ping()


def grants(auth, provider, **options):
    return [credentials(auth.issuer, **options), workload(auth.issuer, **options), enterprise(auth.issuer, provider, **options)]


# --- what is sent -------------------------------------------------------------------------------------------


def test_a_program_gets_a_token_by_its_secret(auth, script):
    # AUX-01, AUC-13, AUC-50
    script.needs = ["read"]
    use(script, credentials(auth.issuer, scopes=["mine"]))
    assert auth.asked == [{"grant_type": "client_credentials", "scope": "read mine", "resource": script.url}]
    assert auth.wait_for("POST")[-1].headers["authorization"].startswith("Basic ") and not auth.registered


def test_a_program_gets_a_token_by_its_key(auth, script):
    jwt = pytest.importorskip("jwt")
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
    from cryptography.hazmat.primitives import serialization

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    auth.know("keyed", method="private_key_jwt")
    grant = mcplite.auth.ClientCredentials("keyed", private_key=pem, issuer=auth.issuer, key_id="k1")
    use(script, grant)
    auth.end()
    use(script, grant)
    assertions = [fields["client_assertion"] for fields in auth.asked]
    assert len(set(assertions)) == 2  # none is used twice
    assert {(fields["client_assertion_type"], fields["client_id"]) for fields in auth.asked} == {
        ("urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "keyed")}
    for assertion in assertions:
        claims = jwt.decode(assertion, key.public_key(), algorithms=["ES256"], audience=auth.issuer)
        assert claims["iss"] == claims["sub"] == "keyed" and jwt.get_unverified_header(assertion)["kid"] == "k1"
    assert "client_secret" not in auth.everything and pem.decode()[40:60] not in repr(vars(grant))


def test_a_workload_gets_a_token_for_its_assertion(auth, script):
    use(script, workload(auth.issuer))
    assert auth.asked == [{"grant_type": JWT_BEARER, "assertion": "assertion-of-the-platform", "resource": script.url,
                           "client_id": "public"}]


def test_a_token_by_the_identity_provider_of_a_company(auth, script, provider):
    # AUX-02
    script.needs = ["read"]
    use(script, enterprise(auth.issuer, provider))
    asked, = provider.asked
    assert asked["subject_token"] == "id-token-of-the-user" and asked["audience"] == auth.issuer
    assert asked["resource"] == script.url and asked["scope"] == "read" and asked["client_id"] == "at-the-company"
    fields, = auth.asked
    assert fields["assertion"] == "grant-of-the-company" and fields["grant_type"] == JWT_BEARER
    # Each gets its own only.
    assert "id-token-of-the-user" not in auth.everything and "s3cret-of-the-job" not in str(provider.asked)


def test_a_callable_is_called_for_each_token(auth, script, provider):
    count = iter(range(100))
    grants = [mcplite.auth.WorkloadIdentity(lambda: f"assertion-{next(count)}", "public", issuer=auth.issuer),
              enterprise(auth.issuer, provider, id_token=lambda: f"id-{next(count)}")]
    for grant in grants:
        use(script, grant)
        auth.end()
        use(script, grant)
    assert [fields["assertion"] for fields in auth.asked] == ["assertion-0", "assertion-1", *["grant-of-the-company"] * 2]
    assert [fields["subject_token"] for fields in provider.asked] == ["id-2", "id-3"]


@pytest.mark.parametrize("given", [FileNotFoundError("no token file"), None, b"bytes", ""])
def test_a_callable_that_returns_nothing_is_an_error_and_nothing_is_sent(auth, script, provider, given):
    def broken():
        if isinstance(given, Exception):
            raise given
        return given

    for grant in (mcplite.auth.WorkloadIdentity(broken, "public", issuer=auth.issuer),
                  enterprise(auth.issuer, provider, id_token=broken)):
        with pytest.raises(mcplite.errors.AuthError, match="no token file" if isinstance(given, Exception) else "text"):
            use(script, grant)
    assert not auth.asked and not provider.asked


# --- how often ----------------------------------------------------------------------------------------------


def test_a_refused_token_is_replaced(auth, script, provider):
    for number, grant in enumerate(grants(auth, provider)):
        use(script, grant, times=2)
        assert len(auth.asked) == 2 * number + 1
        auth.end()
        use(script, grant)
        assert len(auth.asked) == 2 * number + 2


def test_a_stored_token_is_used_again_by_the_same_client_only(auth, script):
    store = mcplite.auth.MemoryStore()
    use(script, credentials(auth.issuer, store=store))
    use(script, credentials(auth.issuer, store=store))
    assert len(auth.asked) == 1
    use(script, workload(auth.issuer, store=store))
    assert len(auth.asked) == 2


def test_an_expired_token_is_replaced(auth, script):
    store = mcplite.auth.MemoryStore()
    use(script, credentials(auth.issuer, store=store))
    key = f"token {script.url}"
    old = store.load(key)["access_token"]
    store.save(key, {**store.load(key), "expires_at": time.time() - 5})
    auth.end()
    use(script, credentials(auth.issuer, store=store))
    assert len(auth.asked) == 2 and store.load(key)["access_token"] != old


def test_a_token_that_the_server_does_not_accept_is_requested_once(auth, script, provider):
    script.on_request = lambda request, token: (401, script.challenge())
    for number, grant in enumerate(grants(auth, provider)):
        with pytest.raises(mcplite.errors.AuthError, match="does not accept the token"):
            use(script, grant)
        assert len(auth.asked) == number + 1


def test_without_a_user_there_is_no_step_up(auth, script, provider):
    # AUC-42
    script.needs_for = {"ping": ["write"]}
    for number, grant in enumerate(grants(auth, provider)):
        with pytest.raises(mcplite.errors.AuthError, match="write.*no user to ask for more") as caught:
            use(script, grant)
        assert caught.value.error == "insufficient_scope" and len(auth.asked) == number + 1


def test_a_refusal_of_the_identity_provider(auth, script, provider):
    provider.says, provider.gives = 400, {"error": "invalid_target", "error_description": "not for you"}
    with pytest.raises(mcplite.errors.AuthError, match="gave no grant.*not for you") as caught:
        use(script, enterprise(auth.issuer, provider))
    assert caught.value.error == "invalid_target" and not auth.asked
    provider.says, provider.gives = 200, {**provider.gives, "access_token": "t"}
    with pytest.raises(mcplite.errors.AuthError, match="gave no grant"):
        use(script, enterprise(auth.issuer, provider))
    provider.gives = {"access_token": "t", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    with pytest.raises(mcplite.errors.AuthError, match="another kind of token"):
        use(script, enterprise(auth.issuer, provider))
    assert not auth.asked


# --- to whom ------------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_another_issuer(auth, script, provider):
    # AUTH-31
    with AuthServer() as evil:
        script.issuers = [evil.issuer]
        for grant in grants(auth, provider):
            with pytest.raises(mcplite.errors.AuthError) as caught:
                use(script, grant)
            assert evil.issuer in str(caught.value) and auth.issuer in str(caught.value)
        assert not evil.requests and not auth.asked and not provider.asked


def test_nothing_is_sent_when_a_server_that_was_trusted_moves(auth, script, provider):
    for grant in grants(auth, provider):
        script.issuers, script.auth = [auth.issuer], auth
        use(script, grant)
        with AuthServer() as evil:
            script.issuers, script.auth = [evil.issuer], evil
            with pytest.raises(mcplite.errors.AuthError):
                use(script, grant)
            assert not evil.requests


def test_nothing_is_sent_where_the_metadata_is_of_another_issuer(auth, script, provider):
    # AUC-09: the URL is right, the metadata is of another issuer.
    auth.metadata = {"issuer": auth.issuer + "/other"}
    for grant in grants(auth, provider):
        with pytest.raises(mcplite.errors.AuthError, match="no metadata was found of .* is of"):
            use(script, grant)
    assert not auth.asked and not provider.asked


def test_a_spelling_of_the_issuer_is_another_one(auth, script):
    with pytest.raises(mcplite.errors.AuthError, match="was\\s+given"):
        use(script, credentials(auth.issuer + "/"))
    assert not auth.asked


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, text", [
    (lambda: mcplite.auth.ClientCredentials("c", issuer="https://a.example"), "one of them"),
    (lambda: mcplite.auth.ClientCredentials("c", "s3cret", private_key="x", issuer="https://a.example"), "one of them"),
    (lambda: mcplite.auth.ClientCredentials("c", "s3cret", issuer=""), "issuer= is needed"),
    (lambda: mcplite.auth.ClientCredentials("c", "s3cret", issuer="http://a.example"), "https"),
    (lambda: mcplite.auth.ClientCredentials("c", private_key="s3cret", issuer="https://a.example"), "PEM"),
    (lambda: mcplite.auth.WorkloadIdentity("s3cret", "c", issuer="http://a.example"), "https"),
    (lambda: mcplite.auth.EnterpriseManaged("s3cret", idp_token_endpoint="http://i.example/token", idp_client_id="i",
                                            client_id="c", issuer="https://a.example"), "idp_token_endpoint=.*https"),
])
def test_arguments_that_cannot_be(make, text):
    with pytest.raises(ValueError, match=text) as caught:
        make()
    assert "s3cret" not in str(caught.value)


def test_the_extensions_are_declared(auth, provider):
    # AUX-04
    with Protected(auth, mcplite.Server("real").wsgi()) as real:
        for grant in grants(auth, provider):
            with mcplite.connect(real.url, auth=grant, timeout=LIMIT, options=mcplite.ClientOptions(era="modern")):
                """Each request says it."""
    declared = ["".join(name for name in ("oauth-client-credentials", "enterprise-managed-authorization")
                        if f"io.modelcontextprotocol/{name}" in request.body.decode())
                for request in real.requests if "authorization" in request.headers]
    assert declared == ["oauth-client-credentials", "", "enterprise-managed-authorization"]

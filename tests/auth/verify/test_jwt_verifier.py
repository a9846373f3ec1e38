"""Signed tokens: which are valid, and what of them is ignored."""

import json
import logging
import sys
import threading

import pytest

import mcplite
from mcplite.auth.verify import jwt_verifier as jwt_module
from mcplite.auth.verify.jwt_verifier import JWTVerifier

BEARER_WRONG_FOR_ITSELF = {"another audience", "a parent path", "a sibling path", "no audience", "an empty audience",
                           "odd audiences"}
NOW = 1_800_000_000


@pytest.fixture
def verify(mint):
    return JWTVerifier(issuer=mint.issuer, keys=mint.jwks())


def at(mint, **options):
    """Return a verifier with a fixed clock."""
    return JWTVerifier(issuer=mint.issuer, keys=mint.jwks(), clock=lambda: NOW, **options)


def test_a_valid_token_has_a_principal(mint, verify):
    found = verify(mint.token(scope="read write", jti="1", exp=NOW + 10 ** 8))
    assert (found.subject, found.issuer, found.client_id, found.audience) == ("ada", mint.issuer, "desk",
                                                                              (mint.resource,))
    assert found.scopes == {"read", "write"} and found.claims["jti"] == "1" and found.expires_at == NOW + 10 ** 8 + 30
    assert verify(mint.token("ec", "ES256")).subject == "ada"


@pytest.mark.parametrize("claims, scopes", [
    ({"scope": "a b"}, {"a", "b"}), ({"scope": ["a", "b"]}, {"a", "b"}), ({"scope": None, "scp": "a b"}, {"a", "b"}),
    ({"scope": None, "scp": ["a", "b"]}, {"a", "b"}), ({"scope": None}, set()), ({"scope": 5}, set()),
    ({"scope": "a", "scp": ["b"]}, {"a"}),
])
def test_scopes_are_read_from_scope_and_scp(mint, verify, claims, scopes):
    assert verify(mint.token(**claims)).scopes == scopes


@pytest.mark.parametrize("claims, client",
                         [({"client_id": "a", "azp": "b"}, "a"), ({"client_id": None, "azp": "b"}, "b"),
                                            ({"client_id": None}, ""), ({"client_id": 5}, "")])
def test_the_client_id_is_read_too(mint, verify, claims, client):
    assert verify(mint.token(**claims)).client_id == client


def test_invalid_tokens_have_no_principal(mint, verify, caplog):
    # AUTH-04 to AUTH-06, AUTH-08
    caplog.set_level(logging.INFO)
    for kind, token in mint.wrong().items():
        if kind in BEARER_WRONG_FOR_ITSELF:
            continue  # the audience is not the verifier's to judge
        caplog.clear()
        assert verify(token) is None, kind
        assert "a token was refused" in caplog.text, kind
        assert not any(piece in caplog.text for piece in token.split(".") if len(piece) > 12), kind


def test_a_flood_of_tokens_of_one_kind_leaves_few_lines_and_hides_no_other_cause(mint, verify, caplog):
    caplog.set_level(logging.INFO)
    for number in range(300):
        assert verify(mint.token(iss=f"https://{number}.example")) is None
    assert 0 < len(caplog.records) <= 30
    caplog.clear()
    assert verify("not a token") is None and "not a signed JWT" in caplog.text


@pytest.mark.parametrize("claims, good", [
    ({"exp": NOW + 1}, True), ({"exp": NOW - 29}, True), ({"exp": NOW - 30}, False), ({"exp": NOW - 1000}, False),
    ({"exp": None}, False),
    ({"exp": str(NOW + 100)}, False), ({"exp": True}, False), ({"exp": 10 ** 20}, False), ({"exp": 10 ** 400}, False),
    ({"exp": -1}, False),
    ({"exp": float("nan")}, False), ({"exp": float("inf")}, False), ({"exp": [NOW + 100]}, False),
    ({"exp": NOW + 0.5}, True),
    ({"nbf": NOW + 30}, True), ({"nbf": NOW + 31}, False), ({"nbf": "now"}, False), ({"nbf": NOW - 5}, True),
    ({"iat": NOW + 30}, True), ({"iat": NOW + 31}, False), ({"iat": False}, False), ({"iat": None}, True),
])
def test_the_times_of_a_token_are_checked(mint, claims, good):
    # AUTH-04
    assert (at(mint)(mint.token(**{"iat": NOW, "exp": NOW + 100, **claims})) is not None) == good


def test_the_issuer_is_compared_as_text(mint, verify):
    # AUTH-05
    for issuer in (mint.issuer + "/", mint.issuer + "x", mint.issuer.upper(), mint.issuer[:-1], [mint.issuer], "", 5):
        assert verify(mint.token(iss=issuer)) is None, issuer


@pytest.mark.parametrize("header", [
    {"alg": "none"}, {"alg": "None"}, {"alg": "HS256"}, {"alg": "PS256"}, {"alg": "RS384"}, {"alg": ["RS256"]},
    {"alg": None}, {},
    {"alg": "RS256", "crit": ["exp"]}, {"alg": "RS256", "crit": []}, {"alg": "RS256", "b64": False},
    {"alg": "RS256", "kid": 5},
    {"alg": "RS256", "kid": "ec"}, {"alg": "ES256", "kid": "rsa"}, {"alg": "RS256", "enc": "A128GCM"},
])
def test_headers_that_make_a_token_invalid(mint, verify, header):
    # AUTH-06
    assert verify(mint.unsigned(header, mint.claims())) is None
    assert verify(mint.unsigned(header, mint.claims(), b"x" * 256)) is None


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c"])
def test_keys_and_urls_in_a_header_are_ignored(mint, verify, monkeypatch, name):
    # AUTH-06: the token does not choose the key that verifies it
    monkeypatch.setattr(jwt_module, "KeySet", None)
    value = {"jku": "https://evil.example/keys", "x5u": "https://evil.example/keys", "jwk": mint.jwk("other"),
             "x5c": ["x"]}[name]
    assert verify(mint.token("other", header={"kid": "rsa", name: value})) is None
    assert verify(mint.token(header={name: value})).subject == "ada"


@pytest.mark.parametrize("claims", [
    {"at_hash": "x"}, {"c_hash": "x"}, {"typ": "ID"}, {"typ": "Refresh"}, {"typ": "Offline"}, {"token_use": "id"},
    {"token_use": "refresh"},
    {"cnf": {"jkt": "x"}},
])
def test_tokens_for_other_purposes_are_refused(mint, verify, claims):
    # AUTH-08
    assert verify(mint.token(**claims)) is None
    assert verify(mint.token(typ="Bearer", token_use="access"))


def test_the_type_of_a_token_can_be_required(mint):
    # AUTH-08, RFC 9068
    strict = JWTVerifier(issuer=mint.issuer, keys=mint.jwks(), token_types=["at+jwt"])
    for kind, good in (("at+jwt", True), ("application/at+jwt", True), ("AT+JWT", True), ("JWT", False), (None, False),
                       ("", False)):
        assert (strict(mint.token(header={"typ": kind})) is not None) == good, kind


@pytest.mark.parametrize("keys", ["pem", "text", "jwk", "jwks", "several", "bytes"])
def test_keys_can_be_given_in_any_form(mint, keys):
    given = {"pem": mint.pem(), "text": json.dumps(mint.jwks()), "jwk": mint.jwk(), "jwks": mint.jwks(),
             "several": [mint.pem("ec"), mint.jwk()], "bytes": mint.pem().encode()}[keys]
    verify = JWTVerifier(issuer=mint.issuer, keys=given)
    assert verify(mint.token()).subject == "ada"
    assert verify(mint.token("other", header={"kid": "rsa"})) is None


def test_a_token_without_a_key_id_is_tried_with_all_suitable_keys(mint, verify):
    assert verify(mint.token(header={"kid": None})).subject == "ada"
    assert verify(mint.token("other", header={"kid": None})) is None


def test_claims_can_be_required(mint):
    strict = JWTVerifier(issuer=mint.issuer, keys=mint.jwks(), required=["exp", "sub", "jti"])
    assert strict(mint.token()) is None and strict(mint.token(jti="1"))


def test_a_token_without_a_valid_subject_has_no_principal(mint, verify):
    for subject in ("", [], {"a": 1}, 5):
        assert verify(mint.token(sub=subject)) is None
    for body in (b"[]", b"1", b"{", b"\xff", b"[" * 5000 + b"]" * 5000, b'{"exp": NaN}'):
        assert verify(mint.sign(body)) is None


@pytest.mark.parametrize("options, said", [
    ({"algorithms": ["HS256"]}, "shared secret"), ({"algorithms": ["RS256", "none"]}, "algorithms"),
    ({"algorithms": []}, "algorithms"),
    ({"leeway": 61}, "leeway"), ({"leeway": -1}, "leeway"), ({"issuer": "http://login.example"}, "issuer="),
    ({"keys": []}, "no usable key"), ({"keys": "nonsense"}, "a PEM text"), ({"keys": "5"}, "a PEM text"),
    ({"keys": {"kty": "oct", "k": "eA"}}, "a JWK of the type 'oct'"),
    ({"keys": "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"}, "not the PEM"),
    ({"keys": "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----"}, "use the public key"),
    ({"jwks_url": "http://login.example/keys"}, "jwks_url="), ({"jwks_url": "https://x.example", "keys": {}}, "not both"),
])
def test_invalid_options_are_refused(mint, options, said):
    with pytest.raises(ValueError, match=said):
        JWTVerifier(**{"issuer": mint.issuer, **({} if "jwks_url" in options else {"keys": mint.jwks()}), **options})


def test_other_signatures_can_be_allowed(mint):
    verify = JWTVerifier(issuer=mint.issuer, keys=mint.jwk(alg="PS256"), algorithms="PS256")
    assert verify(mint.token(algorithm="PS256")) and verify(mint.token()) is None


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_missing_packages_are_named_with_the_pip_command(mint, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'mcplite\[jwt\]'"):
        JWTVerifier(issuer=mint.issuer, keys=mint.jwks())


# --- tokens that were verified lately -------------------------------------------------------------------


class Clock:
    now = float(NOW)

    def __call__(self):
        return self.now


@pytest.fixture
def counted(monkeypatch):
    """The signatures that are verified, each as the token that has it."""
    import jwt

    real, seen = jwt.PyJWS.decode, []
    monkeypatch.setattr(jwt.PyJWS, "decode", lambda self, token, *rest, **named: (
        seen.append(token), real(self, token, *rest, **named))[1])
    return seen


def test_a_token_is_verified_once_a_minute_and_not_after_its_end(mint, counted):
    # AUTH-04, AUTH-18
    clock = Clock()
    verify = JWTVerifier(issuer=mint.issuer, keys=mint.jwks(), clock=clock, leeway=0)
    lasting, short = mint.token(iat=NOW, exp=NOW + 3600), mint.token(iat=NOW, exp=NOW + 20)
    for _ in range(5):
        assert verify(lasting).subject == verify(short).subject == "ada"
    assert counted == [lasting, short]
    clock.now += 19.9
    assert verify(short) and len(counted) == 2
    clock.now += 0.1
    assert verify(short) is None and verify(short) is None and verify(lasting) and len(counted) == 4
    clock.now += 40
    assert verify(lasting) and verify(lasting) and len(counted) == 5
    clock.now -= 41  # set back
    assert verify(lasting) and len(counted) == 6


def test_what_is_verified_once_is_that_token_only(mint, verify, counted):
    good = mint.token()
    assert verify(good)
    wrong = [token for kind, token in mint.wrong().items() if kind not in BEARER_WRONG_FOR_ITSELF]
    for token in (good[:-4] + "AAAA", good + "A", good.upper(), *wrong):
        assert verify(token) is None and verify(token) is None
    assert verify(good).subject == "ada" and counted.count(good) == 1 and good not in repr(vars(verify))


def test_the_tokens_that_were_verified_are_bounded(mint, counted, monkeypatch):
    monkeypatch.setattr(jwt_module, "_MOST_CACHED", 3)
    verify = JWTVerifier(issuer=mint.issuer, keys=mint.jwks())
    tokens = [mint.token(jti=str(number)) for number in range(5)]
    assert all(map(verify, tokens)) and len(verify._cache) == 3
    assert verify(tokens[4]) and len(counted) == 5 and verify(tokens[0]) and len(counted) == 6


def test_many_threads_verify_at_once(mint, verify):
    token, found = mint.token(), []
    threads = [threading.Thread(target=lambda: found.append(verify(token).subject)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == ["ada"] * 8


def test_the_package_exports_it(mint):
    assert mcplite.auth.JWTVerifier is JWTVerifier and mint.issuer in repr(JWTVerifier(issuer=mint.issuer, keys=mint.pem()))

"""Signed tokens: which are valid, and what of them is ignored.

Fetched key sets: found through the issuer, refreshed, and not fetched too often.
"""

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite.auth.verify import jwt_verifier
from mcplite.auth.verify.fetch import FetchError, deadline
from mcplite.auth.verify.jwt_verifier import JWTVerifier, KeySet, fitting, metadata_keys_url, read_keys
from tests.support.fakes import Clock
from tests.support.webscript import LIMIT, WebScript

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
    assert (found.subject, found.issuer, found.client_id, found.audience) == ("ada", mint.issuer, "desk", (mint.resource,))
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
    ({"exp": None}, False), ({"exp": str(NOW + 100)}, False), ({"exp": True}, False), ({"exp": 10 ** 20}, False),
    ({"exp": 10 ** 400}, False), ({"exp": -1}, False), ({"exp": float("nan")}, False), ({"exp": float("inf")}, False),
    ({"exp": [NOW + 100]}, False), ({"exp": NOW + 0.5}, True), ({"nbf": NOW + 30}, True), ({"nbf": NOW + 31}, False),
    ({"nbf": "now"}, False), ({"nbf": NOW - 5}, True), ({"iat": NOW + 30}, True), ({"iat": NOW + 31}, False),
    ({"iat": False}, False), ({"iat": None}, True),
])
def test_the_times_of_a_token_are_checked(mint, claims, good):
    # AUTH-04
    assert (at(mint)(mint.token(**{"iat": NOW, "exp": NOW + 100, **claims})) is not None) == good


def test_the_issuer_is_compared_as_text(mint, verify):
    # AUTH-05
    for issuer in (mint.issuer + "/", mint.issuer + "x", mint.issuer.upper(), mint.issuer[:-1], [mint.issuer], "", 5):
        assert verify(mint.token(iss=issuer)) is None, issuer


@pytest.mark.parametrize("header", [
    {"alg": "none"}, {"alg": "None"}, {"alg": "HS256"}, {"alg": "PS256"}, {"alg": "RS384"}, {"alg": ["RS256"]}, {"alg": None},
    {}, {"alg": "RS256", "crit": ["exp"]}, {"alg": "RS256", "crit": []}, {"alg": "RS256", "b64": False},
    {"alg": "RS256", "kid": 5}, {"alg": "RS256", "kid": "ec"}, {"alg": "ES256", "kid": "rsa"},
    {"alg": "RS256", "enc": "A128GCM"},
])
def test_headers_that_make_a_token_invalid(mint, verify, header):
    # AUTH-06
    assert verify(mint.unsigned(header, mint.claims())) is None
    assert verify(mint.unsigned(header, mint.claims(), b"x" * 256)) is None


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c"])
def test_keys_and_urls_in_a_header_are_ignored(mint, verify, monkeypatch, name):
    # AUTH-06: the token does not choose the key that verifies it
    monkeypatch.setattr(jwt_verifier, "KeySet", None)
    value = {"jku": "https://evil.example/keys", "x5u": "https://evil.example/keys", "jwk": mint.jwk("other"),
             "x5c": ["x"]}[name]
    assert verify(mint.token("other", header={"kid": "rsa", name: value})) is None
    assert verify(mint.token(header={name: value})).subject == "ada"


@pytest.mark.parametrize("claims", [
    {"at_hash": "x"}, {"c_hash": "x"}, {"typ": "ID"}, {"typ": "Refresh"}, {"typ": "Offline"}, {"token_use": "id"},
    {"token_use": "refresh"}, {"cnf": {"jkt": "x"}},
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
    clock = Clock(float(NOW))
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
    monkeypatch.setattr(jwt_verifier, "_MOST_CACHED", 3)
    verify = JWTVerifier(issuer=mint.issuer, keys=mint.jwks())
    tokens = [mint.token(jti=str(number)) for number in range(5)]
    assert all(map(verify, tokens)) and len(verify._cache) == 3
    assert verify(tokens[4]) and len(counted) == 5 and verify(tokens[0]) and len(counted) == 6


ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
#: A process that forks while a thread fetches; the child exits with 0 when it has fetched by itself.
FORK = """
import os, threading
from mcplite.auth.verify.fetch import FetchError
from mcplite.auth.verify.jwt_verifier import KeySet

parent, begun, go = os.getpid(), threading.Event(), threading.Event()

def locate(until):
    begun.set()
    if os.getpid() == parent:
        assert go.wait(30)
    raise FetchError("asked")

def find():
    try:
        keys.find("a", "RS256")
    except FetchError as error:
        return str(error)

keys = KeySet(locate)
thread = threading.Thread(target=find)
thread.start()
assert begun.wait(30)
pid = os.fork()
if pid == 0:
    said = []
    one = threading.Thread(target=lambda: said.append(find()), daemon=True)
    one.start()
    one.join(10)
    os._exit(0 if said and "asked" in said[0] else 9)
code = os.waitpid(pid, 0)[1]
go.set()
thread.join()
print(code)
"""
OAUTH, OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


@pytest.fixture
def login(mint):
    """An authorization server that counts its requests."""
    class Login(WebScript):
        keys = mint.jwks("rsa")
        status = 200

        def play(self, request, answer):
            if self.status != 200:
                answer.status(self.status)
            elif request.path == "/keys":
                answer.json(self.keys)
            else:
                answer.status(404)

        @property
        def count(self):
            return sum(request.path == "/keys" for request in self.requests)

    with Login() as script:
        yield script


@pytest.fixture
def kept(login):
    clock = Clock(float(NOW))
    keys = KeySet(lambda until: login.origin + "/keys", clock)
    keys.test_clock = clock
    return keys


def test_a_new_key_is_found_and_a_flood_of_unknown_ones_fetches_nothing(mint, login, kept):
    # AUTH-07
    assert kept.find("rsa", "RS256") and kept.find("ec", "ES256") == []
    login.keys = mint.jwks("rsa", "ec")
    for number in range(100):
        assert kept.find(f"unknown{number}", "RS256") == []
    assert kept.find("ec", "ES256") == [] and login.count == 1, "not so soon after the last time"
    kept.test_clock.now += 60
    assert kept.find("ec", "ES256") and login.count == 2
    for number in range(100):
        assert kept.find(f"unknown{number}", "RS256") == []
    assert login.count == 2


def test_a_token_of_a_key_that_is_gone_is_refused_as_soon_as_that_is_known(mint, login):
    # AUTH-07: tokens that were verified a moment ago are those of the set of that moment.
    clock = Clock(float(NOW))
    verify = JWTVerifier(issuer=mint.issuer, jwks_url=login.origin + "/keys", algorithms=["RS256", "ES256"])
    verify._keys._clock = clock
    old, new = mint.token(), mint.token("ec", "ES256")
    assert verify(old) and verify(old) and login.count == 1
    login.keys = mint.jwks("ec")
    assert verify(old) and login.count == 1  # not known yet
    clock.now += 60
    assert verify(new) and login.count == 2
    assert verify(old) is None and verify(new)
    login.keys = mint.jwks("rsa")
    clock.now += 599
    assert verify(new) and login.count == 2
    clock.now += 1
    assert verify(new) is None and verify(old) and login.count == 3  # that it was verified just now does not count
    login.keys, login.status = mint.jwks("ec"), 500
    clock.now += 700
    assert verify(old) and verify(old) and login.count == 4  # the set that was there is used, and asked for once a minute


def test_a_set_outlives_a_failing_server_for_a_day(login, kept, caplog):
    assert kept.find("rsa", "RS256")
    login.status = 500
    kept.test_clock.now += 700
    for _ in range(5):
        assert kept.find("rsa", "RS256")
    assert login.count == 2 and "could not be fetched" in caplog.text
    kept.test_clock.now += 86_400
    with pytest.raises(FetchError, match="status 500"):
        kept.find("rsa", "RS256")
    login.status = 200
    kept.test_clock.now += 60
    assert kept.find("rsa", "RS256")


def test_a_first_fetch_that_fails_is_tried_again_soon(login, kept):
    login.status = 503
    for _ in range(3):
        with pytest.raises(FetchError, match="status 503"):
            kept.find("rsa", "RS256")
    assert login.count == 1
    login.status = 200
    kept.test_clock.now += 5
    assert kept.find("rsa", "RS256")


def test_one_thread_fetches_and_the_others_wait_for_the_first_set_only(mint, login, kept):
    # AUTH-07
    asked, go, found = threading.Event(), threading.Event(), []

    def play(request, answer):
        asked.set()
        assert go.wait(LIMIT)
        answer.json(login.keys)

    login._play = play
    threads = [threading.Thread(target=lambda: found.append(len(kept.find("rsa", "RS256")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert asked.wait(LIMIT)
    go.set()
    for thread in threads:
        thread.join(LIMIT)
    assert found == [1] * 8 and login.count == 1
    asked.clear()
    go.clear()
    kept.test_clock.now += 601
    slow = threading.Thread(target=lambda: found.append(len(kept.find("rsa", "RS256"))))
    slow.start()
    assert asked.wait(LIMIT)
    assert kept.find("rsa", "RS256"), "what is there is used meanwhile"
    go.set()
    slow.join(LIMIT)
    assert found == [1] * 9 and login.count == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_is_forked_during_a_fetch_fetches_again():
    # REL-42: a child process does not have the fetching thread.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize("said", [{}, {"keys": 5}, {"keys": []}, {"keys": [{"kty": "oct"}]}, [], "x", {"keys": ["x"]}])
def test_other_documents_are_not_key_sets(login, kept, said):
    login.keys = said
    with pytest.raises(FetchError, match="cannot be used"):
        kept.find("rsa", "RS256")


# --- through the issuer ---------------------------------------------------------------------------------------------


def issuer_of(login, path="", document=None, at=None):
    """Serve metadata; return the issuer."""
    issuer = login.origin + path
    known = {"issuer": issuer, "jwks_uri": login.origin + "/keys", **(document or {})}

    def play(request, answer):
        if request.path == "/keys":
            answer.json(login.keys)
        elif request.path == at:
            answer.json({name: value for name, value in known.items() if value is not None})
        else:
            answer.status(404)

    login._play = play
    return issuer


@pytest.mark.parametrize("path, at",
                         [("", OAUTH), ("", OPENID), ("/tenant", OAUTH + "/tenant"), ("/tenant", OPENID + "/tenant"),
                                      ("/tenant", "/tenant" + OPENID)])
def test_keys_are_found_through_the_issuer(mint, login, path, at):
    issuer = issuer_of(login, path, at=at)
    verify = JWTVerifier(issuer=issuer)
    for _ in range(3):
        assert verify(mint.token(iss=issuer)).subject == "ada"
    assert login.count == 1


@pytest.mark.parametrize("document, said", [
    ({"issuer": "https://login.example"}, "character by character"), ({"issuer": None}, "character by character"),
    ({"jwks_uri": None}, "does not say"),
    ({"jwks_uri": "http://evil.example/keys"}, "needs https"), ({"jwks_uri": 5}, "jwks_uri must be a URL, not of type int"),
])
def test_metadata_of_another_issuer_is_not_used(login, document, said):
    issuer = issuer_of(login, document=document, at=OAUTH)
    with pytest.raises(FetchError, match=said):
        metadata_keys_url(issuer, deadline())
    assert login.count == 0


@pytest.mark.parametrize("useless", [
    b"<html></html>", b"", b"[]", b"{}", 204, 302, 404, 500, 502, {"issuer": "https://other.example"},
    {"jwks_uri": ""}, {"jwks_uri": None}, {"jwks_uri": 5},
])
def test_something_useless_in_place_of_metadata_leads_to_the_next_url(login, useless):
    issuer = login.origin

    def play(request, answer):
        if request.path == OAUTH and isinstance(useless, int):
            return answer.status(useless, Location="/login")
        if request.path == OAUTH and isinstance(useless, bytes):
            return answer.status(200, useless, Content_Type="text/html")
        known = {"issuer": issuer, "jwks_uri": login.origin + "/keys"}
        return answer.json({**known, **useless} if request.path == OAUTH else known)

    login._play = play
    assert metadata_keys_url(issuer, deadline()) == login.origin + "/keys"
    assert [request.path for request in login.requests] == [OAUTH, OPENID]


def test_missing_and_failing_metadata_is_an_error(login):
    with pytest.raises(FetchError, match="jwks_url="):
        metadata_keys_url(issuer_of(login, at="/nowhere"), deadline())
    login.status = 500
    login._play = type(login).play.__get__(login)
    with pytest.raises(FetchError, match="status 500"):
        metadata_keys_url(login.origin, deadline())
    login._play = lambda request, answer: answer.json(["no object"])
    with pytest.raises(FetchError, match="could not be fetched"):
        metadata_keys_url(login.origin, deadline())


def test_fetching_metadata_and_keys_has_one_time_limit(login):
    # AUTH-17
    with pytest.raises(FetchError, match="did not answer"):
        metadata_keys_url(issuer_of(login, at=OAUTH), deadline() - 10)


# --- what a set may hold ----------------------------------------------------------------------------------------------


def test_keys_for_other_uses_are_ignored(mint):
    keys = read_keys({"keys": [mint.jwk(use="enc"), mint.jwk(key_ops=["sign"]), {"kty": "oct", "k": "eA"}, {"kty": "XX"}, 5, {},
                               {"kty": "RSA", "n": "!", "e": "AQAB"}, {"kty": "EC", "crv": "P-256"},
                               mint.jwk(kid="good", use="sig")]})
    assert [key.id for key in keys] == ["good"]


def test_a_key_verifies_its_own_algorithms(mint):
    rsa, ec = read_keys(mint.jwks())
    assert "RS256" in rsa.algorithms and "PS512" in rsa.algorithms and ec.algorithms == {"ES256"}
    assert read_keys(mint.jwk(alg="RS512"))[0].algorithms == {"RS512"}
    assert fitting([rsa, ec], "rsa", "ES256") == [] and fitting([rsa, ec], None, "ES256") == [ec]


def test_a_private_part_is_not_read(mint):
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from jwt.algorithms import RSAAlgorithm

    private = {**json.loads(RSAAlgorithm.to_jwk(mint.keys["rsa"])), "key_ops": ["verify"]}
    assert "d" in private and isinstance(read_keys(private)[0].key, RSAPublicKey)


def test_weak_and_odd_keys_are_not_used(mint):
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def pem(key):
        return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    with pytest.raises(ValueError, match="1024 bits"):
        read_keys(pem(rsa.generate_private_key(65537, 1024)))
    for odd in (ec.generate_private_key(ec.SECP256K1()), ed448.Ed448PrivateKey.generate()):
        with pytest.raises(ValueError, match="not supported"):
            read_keys(pem(odd))
    assert read_keys(pem(ed25519.Ed25519PrivateKey.generate()))[0].algorithms == {"EdDSA"}
    assert read_keys(pem(ec.generate_private_key(ec.SECP384R1())))[0].algorithms == {"ES384"}


def test_a_certificate_can_be_given(mint):
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "login")])
    day = datetime.datetime(2030, 1, 1)
    made = x509.CertificateBuilder(name, name, mint.keys["rsa"].public_key(), 1, day, day + datetime.timedelta(1))
    made = made.sign(mint.keys["rsa"], hashes.SHA256())
    assert JWTVerifier(issuer=mint.issuer, keys=made.public_bytes(Encoding.PEM))(mint.token()).subject == "ada"


def test_a_set_is_bounded(mint):
    # AUTH-07
    assert len(read_keys({"keys": [mint.jwk(kid=str(number)) for number in range(200)]})) == jwt_verifier._MOST_KEYS
    many = read_keys({"keys": [mint.jwk(kid=str(number)) for number in range(50)]})
    assert len(fitting(many, None, "RS256")) == jwt_verifier._MOST_TRIED

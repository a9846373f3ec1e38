"""Fetched key sets: found through the issuer, refreshed, and not fetched too often."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mcplite
from mcplite.auth.verify import keysets
from mcplite.auth.verify.fetch import FetchError, deadline
from mcplite.auth.verify.jwt_verifier import JWTVerifier
from mcplite.auth.verify.keysets import KeySet, fitting, metadata_keys_url, read_keys
from tests.support.webscript import LIMIT, WebScript

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
#: A process that forks while a thread fetches; the child exits with 0 when it has fetched by itself.
FORK = """
import os, threading
from mcplite.auth.verify.fetch import FetchError
from mcplite.auth.verify.keysets import KeySet

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


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


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
    clock = Clock()
    keys = KeySet(lambda until: login.origin + "/keys", clock)
    keys.test_clock = clock
    return keys


def test_a_set_is_fetched_once_for_many_tokens(login, kept):
    assert login.count == 0
    for _ in range(20):
        assert kept.find("rsa", "RS256")
    assert login.count == 1


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


def test_a_revoked_key_is_dropped(mint, login, kept):
    assert kept.find("rsa", "RS256")
    login.keys = mint.jwks("ec")
    kept.test_clock.now += 599
    assert kept.find("rsa", "RS256")
    kept.test_clock.now += 2
    assert kept.find("rsa", "RS256") == [] and kept.find("ec", "ES256")


def test_a_token_of_a_key_that_is_gone_is_refused_as_soon_as_that_is_known(mint, login):
    # AUTH-07: tokens that were verified a moment ago are those of the set of that moment.
    clock = Clock()
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


def test_a_verifier_without_keys_raises(mint, login):
    login.status = 500
    with pytest.raises(FetchError):
        JWTVerifier(issuer=mint.issuer, jwks_url=login.origin + "/keys")(mint.token())


# --- what a set may hold ----------------------------------------------------------------------------------------------


def test_keys_for_other_uses_are_ignored(mint):
    keys = read_keys({"keys": [mint.jwk(use="enc"), mint.jwk(key_ops=["sign"]), {"kty": "oct", "k": "eA"},
                               {"kty": "XX"}, 5, {},
                               {"kty": "RSA", "n": "!", "e": "AQAB"}, {"kty": "EC", "crv": "P-256"},
                               mint.jwk(kid="good", use="sig")]})
    assert [key.id for key in keys] == ["good"]


def test_a_text_of_keys_may_begin_with_a_byte_order_mark(mint):
    text = "\ufeff" + json.dumps(mint.jwk(kid="good"))
    assert [key.id for given in (text, text.encode()) for key in read_keys(given)] == ["good", "good"]


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
    assert len(read_keys({"keys": [mint.jwk(kid=str(number)) for number in range(200)]})) == keysets._MOST_KEYS
    many = read_keys({"keys": [mint.jwk(kid=str(number)) for number in range(50)]})
    assert len(fitting(many, None, "RS256")) == keysets._MOST_TRIED

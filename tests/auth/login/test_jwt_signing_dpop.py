import base64
import hashlib
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from requests.structures import CaseInsensitiveDict

from mcplite.auth.login.jwt_signing import Proofs, SigningKey

URL = "https://mcp.example.com/mcp"
AS = "https://auth.example.com/token"
KEY = SigningKey.generate()


def read(proof, key=KEY):
    """Return header and claims of a proof that another library has checked with the key that is in it."""
    header = jwt.get_unverified_header(proof)
    assert header["jwk"] == key.public_jwk
    return header, jwt.decode(proof, jwt.PyJWK({**header["jwk"], "alg": header["alg"]}), algorithms=[key.algorithm])


def nonce_of(proofs, url):
    return read(proofs.proof("GET", url), proofs.key)[1].get("nonce")


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "PS256"])
def test_a_proof_names_method_and_url(algorithm):
    key = SigningKey({"ES256": lambda: ec.generate_private_key(ec.SECP256R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate,
                      "PS256": lambda: rsa.generate_private_key(65_537, 2048)}[algorithm](), algorithm, None)
    before = int(time.time())
    header, claims = read(Proofs(key).proof("POST", URL), key)
    assert header == {"typ": "dpop+jwt", "alg": algorithm, "jwk": key.public_jwk}
    assert set(claims) == {"jti", "htm", "htu", "iat"}
    assert claims["htm"] == "POST" and claims["htu"] == URL
    assert before <= claims["iat"] <= int(time.time())
    assert "d" not in header["jwk"]


def test_a_token_is_bound_to_the_proof_that_goes_with_it():
    # RFC 9449, section 7.1
    claims = read(Proofs(KEY).proof("GET", URL, "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"))[1]
    assert claims["ath"] == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    digest = hashlib.sha256(b"other").digest()
    assert read(Proofs(KEY).proof("GET", URL,
        "other"))[1]["ath"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert "ath" in read(Proofs(KEY).proof("GET", URL, ""))[1]


def test_a_malformed_token_is_not_quoted():
    with pytest.raises(ValueError, match="only ASCII") as caught:
        Proofs(KEY).proof("GET", URL, "secret-é")
    assert "secret" not in repr(caught.value.args) and caught.value.__context__ is None


@pytest.mark.parametrize("url, written", [
    ("https://h/mcp?a=b", "https://h/mcp"), ("https://h/mcp#x", "https://h/mcp"), ("https://h/mcp?#", "https://h/mcp"),
    ("https://h?a=/b", "https://h/"), ("https://h", "https://h/"), ("https://h/", "https://h/"),
    ("https://h/mcp/", "https://h/mcp/"), ("HTTPS://MCP.Example.com:443/Mcp", "https://mcp.example.com/Mcp"),
    ("http://h:80/x", "http://h/x"), ("http://localhost:8000/x", "http://localhost:8000/x"), ("https://h:/x", "https://h/x"),
    ("http://[::1]:80/x", "http://[::1]/x"), ("https://h/a/../b/./c", "https://h/b/c"),
    ("https://h/%7euser/%c3%a9%2f", "https://h/~user/%C3%A9%2F"), ("https://h/a;b=c,d", "https://h/a;b=c,d"),
    ("https://h//x", "https://h//x"),
])
def test_the_url_is_normalized(url, written):
    assert read(Proofs(KEY).proof("GET", url))[1]["htu"] == written


@pytest.mark.parametrize("url",
    ["", "/mcp", "ftp://h/", "https://user:secret@h/", "https://h:0/", "https://h\n/", "https://bücher.example/"])
def test_no_proof_for_something_that_is_not_a_url(url):
    proofs = Proofs(KEY)
    for attempt in (lambda: proofs.proof("GET", url), lambda: proofs.learn(url, {"DPoP-Nonce": "n"})):
        with pytest.raises(ValueError) as caught:
            attempt()
        assert "secret" not in str(caught.value)


# --- nonces ------------------------------------------------------------------------------------------------

def test_a_nonce_is_in_each_further_proof_for_its_origin():
    proofs = Proofs(KEY)
    assert nonce_of(proofs, URL) is None
    assert proofs.learn(URL, {"DPoP-Nonce": "one"})
    assert nonce_of(proofs, URL) == nonce_of(proofs, "HTTPS://MCP.example.com:443/other?x") == "one"
    assert proofs.learn(URL, {"DPoP-Nonce": "two"})
    assert nonce_of(proofs, URL) == nonce_of(proofs, URL) == "two"


@pytest.mark.parametrize("other",
    [AS, "http://mcp.example.com/mcp", "https://mcp.example.com:8443/mcp", "https://example.com/mcp",
        "https://mcp.example.com./mcp"])
def test_nonces_of_different_origins_are_separate(other):
    proofs = Proofs(KEY)
    assert proofs.learn(URL, {"DPoP-Nonce": "of the server".replace(" ", "-")})
    assert nonce_of(proofs, other) is None
    assert proofs.learn(other, {"DPoP-Nonce": "of-the-server"})
    assert proofs.learn(other, {"DPoP-Nonce": "of-the-other"})
    assert (nonce_of(proofs, URL), nonce_of(proofs, other)) == ("of-the-server", "of-the-other")


@pytest.mark.parametrize("headers", [
    {"DPoP-Nonce": "n"}, {"dpop-nonce": "n"}, {"DPOP-NONCE": "n", "X": "y"}, CaseInsensitiveDict({"dPoP-nOnCe": "n"})])
def test_a_header_is_found_whatever_its_case(headers):
    proofs = Proofs(KEY)
    assert proofs.learn(URL, headers) and nonce_of(proofs, URL) == "n"


@pytest.mark.parametrize("nonce", ["!", "a" * 2048, "eyJ7S_zG.eyJH0-Z.HX4w-7v", "#$%&'()*+,-./:;<=>?@[]^_`{|}~", "0"])
def test_valid_nonces(nonce):
    proofs = Proofs(KEY)
    assert proofs.learn(URL, {"DPoP-Nonce": nonce}) and nonce_of(proofs, URL) == nonce


@pytest.mark.parametrize("nonce",
    ["", " ", "a b", "one, two", 'a"b', "a\\b", "a\x7f", "a\0", "é", "a\r\nX: y", "a\n", "\ta", "a" * 2049, "a" * 1_000_000],
                         ids=lambda text: ascii(text[:12]) + str(len(text)))
def test_malformed_nonces_are_ignored(nonce):
    proofs = Proofs(KEY)
    assert not proofs.learn(URL, {"DPoP-Nonce": nonce}) and nonce_of(proofs, URL) is None
    assert proofs.learn(URL, {"DPoP-Nonce": "good"})
    assert not proofs.learn(URL, {"DPoP-Nonce": nonce}) and nonce_of(proofs, URL) == "good"
    assert not proofs.learn(URL, {"Nonce": "other"}) and not proofs.learn(URL, {})
    assert nonce_of(proofs, URL) == "good"


def test_remembered_origins_are_bounded():
    proofs = Proofs(KEY)
    assert proofs.learn(URL, {"DPoP-Nonce": "kept"}) and proofs.learn(AS, {"DPoP-Nonce": "forgotten"})
    for number in range(150):
        assert proofs.learn(f"https://h{number}.example/", {"DPoP-Nonce": f"n{number}"})
        assert proofs.learn(URL, {"DPoP-Nonce": "kept"}) and nonce_of(proofs, URL) == "kept"
    assert nonce_of(proofs, AS) is None
    assert nonce_of(proofs, "https://h149.example/") == "n149"
    assert nonce_of(proofs, "https://h0.example/") is None


def test_nothing_secret_is_shown():
    proofs = Proofs(KEY)
    proofs.learn(URL, {"DPoP-Nonce": "a-nonce"})
    shown = repr(proofs) + repr(vars(proofs)["key"])
    assert "a-nonce" not in shown and KEY.pem.split("\n")[1] not in shown


# --- threads --------------------------------------------------------------------------------------------------

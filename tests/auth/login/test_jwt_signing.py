import base64
import json
import pickle
import sys
import time
import traceback

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from mcplite.auth.login.jwt_signing import SigningKey, client_assertion
from mcplite.errors import AuthError

MADE = {
    "P-256": ec.generate_private_key(ec.SECP256R1()), "P-384": ec.generate_private_key(ec.SECP384R1()),
    "P-521": ec.generate_private_key(ec.SECP521R1()), "Ed25519": ed25519.Ed25519PrivateKey.generate(),
    "RSA": rsa.generate_private_key(public_exponent=65_537, key_size=2048),
}
PKCS8, OLD = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL


def pem_of(key, form=PKCS8, password=None):
    return key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(password) if password else NoEncryption())


def public_pem(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def body_of(pem):
    """Return the lines of a PEM text that are secret."""
    text = pem.decode("utf-8", "replace") if isinstance(pem, bytes) else pem
    return [line.strip() for line in text.replace("\\n", "\n").splitlines() if len(line) > 30 and "-----" not in line]


def read(token, key, **options):
    """Return header and claims, after another library has checked them with the public half alone."""
    public = jwt.PyJWK({**key.public_jwk, "alg": key.algorithm})
    claims = jwt.decode(token, public, algorithms=[key.algorithm], **options)
    return jwt.get_unverified_header(token), claims


@pytest.mark.parametrize("name, form, algorithm", [
    ("P-256", PKCS8, "ES256"), ("P-384", PKCS8, "ES384"), ("P-521", PKCS8, "ES512"), ("RSA", PKCS8, "RS256"),
    ("Ed25519", PKCS8, "EdDSA"),
    ("P-256", OLD, "ES256"), ("P-384", OLD, "ES384"), ("P-521", OLD, "ES512"), ("RSA", OLD, "RS256"),
])
@pytest.mark.parametrize("kind", [bytes, str])
def test_a_key_signs_with_its_usual_algorithm(name, form, algorithm, kind):
    pem = pem_of(MADE[name], form)
    key = SigningKey.load(pem if kind is bytes else pem.decode("ascii"))
    assert key.algorithm == algorithm and key.key_id is None
    assert read(key.sign({"a": [1, None]}), key) == ({"alg": algorithm, "typ": "JWT"}, {"a": [1, None]})


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_an_rsa_key_signs_with_the_given_algorithm(algorithm):
    key = SigningKey(MADE["RSA"], algorithm, "one")  # loading takes long, as its primes are looked at
    assert read(key.sign({"a": "b"}), key) == ({"alg": algorithm, "typ": "JWT", "kid": "one"}, {"a": "b"})


def test_a_generated_key_can_be_stored():
    made = SigningKey.generate()
    kept = SigningKey.load(made.pem)
    assert made.pem == kept.pem and made.pem.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert made.public_jwk == kept.public_jwk != SigningKey.generate().public_jwk
    assert read(kept.sign({}), made)[0]["alg"] == "ES256"


def test_the_key_id_is_in_the_header_unless_the_key_itself_is():
    key = SigningKey.load(pem_of(MADE["P-256"]), key_id="one")
    assert read(key.sign({}), key)[0]["kid"] == "one"
    assert read(key.sign({}, {"kid": "two", "typ": "x+jwt"}), key)[0] == {"alg": "ES256", "kid": "two", "typ": "x+jwt"}
    assert "kid" not in read(key.sign({}, {"jwk": key.public_jwk}), key)[0]


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES384", None])
def test_no_header_chooses_the_algorithm(algorithm):
    # AUTH-06
    key = SigningKey.load(pem_of(MADE["P-256"]))
    assert read(key.sign({"a": 1}, {"alg": algorithm}), key) == ({"alg": "ES256", "typ": "JWT"}, {"a": 1})


# --- the public half ---------------------------------------------------------------------------------

@pytest.mark.parametrize("name, members", [
    ("P-256", {"kty", "crv", "x", "y"}), ("P-384", {"kty", "crv", "x", "y"}), ("P-521", {"kty", "crv", "x", "y"}),
    ("RSA", {"kty", "n", "e"}), ("Ed25519", {"kty", "crv", "x"}),
])
def test_the_public_half_has_public_members_only(name, members):
    key = SigningKey.load(pem_of(MADE[name]), key_id="one")
    assert set(key.public_jwk) == members
    assert name in (key.public_jwk.get("crv"), key.public_jwk["kty"])
    read = jwt.PyJWK({**key.public_jwk, "alg": key.algorithm}).key
    assert read.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) == public_pem(MADE[name])


@pytest.mark.parametrize("name, curve, size", [
    ("P-256", ec.SECP256R1(), 32), ("P-384", ec.SECP384R1(), 48), ("P-521", ec.SECP521R1(), 66)])
def test_a_coordinate_that_begins_with_zeros_has_them(name, curve, size):
    # RFC 7518, section 6.2.1.2: one key in 256 has a coordinate that would come out too short.
    short = next(key for key in (ec.derive_private_key(secret, curve) for secret in range(2, 20_000))
                 if key.public_key().public_numbers().x.bit_length() <= 8 * (size - 1))
    key = SigningKey.load(pem_of(short))
    data = base64.urlsafe_b64decode(key.public_jwk["x"] + "==")
    assert len(data) == size and data[0] == 0 and "=" not in key.public_jwk["x"]
    assert read(key.sign({"a": 1}), key)[1] == {"a": 1}


def test_a_known_key():
    # RFC 8037, appendices A.1, A.2 and A.4
    seed = base64.urlsafe_b64decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
    key = SigningKey.load(pem_of(ed25519.Ed25519PrivateKey.from_private_bytes(seed)))
    assert key.public_jwk == {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    signature = key._key.sign(b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc")
    assert base64.urlsafe_b64encode(signature).decode().rstrip("=") == (
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")


# --- keys that are not used -----------------------------------------------------------------------------

def broken():
    """Yield what is no key for us, and what the error says of it."""
    for name, key in MADE.items():
        yield f"public {name}", public_pem(key), "is a public one"
        yield f"encrypted {name}", pem_of(key, password=b"password"), "is encrypted"
        pem = pem_of(key)
        yield f"cut {name}", pem[:len(pem) // 2], "cannot be read"
        yield f"without its end {name}", pem.rpartition(b"\n-----END")[0], "cannot be read"
        yield f"on one line {name}", pem.replace(b"\n", b"\\n"), r"its ends of lines are written as \\n"
        lines = pem.split(b"\n")
        yield f"changed {name}", b"\n".join([lines[0], lines[1][::-1], *lines[2:]]), "cannot be read"
        yield f"with a letter that does not belong {name}", pem.replace(lines[1], b"\xc3\xa9" + lines[1][2:]), "cannot be read"
    yield "encrypted in the old form", pem_of(MADE["P-256"], OLD, b"password"), "is encrypted"
    yield ("too short", pem_of(rsa.generate_private_key(public_exponent=65_537, key_size=1024)),
           "of 1024 bits is too short")
    yield "another curve", pem_of(ec.generate_private_key(ec.SECP256K1())), "this kind of key is not supported"
    yield "another Edwards curve", pem_of(ed448.Ed448PrivateKey.generate()), "this kind of key is not supported"
    yield "DSA", pem_of(dsa.generate_private_key(1024)), "this kind of key is not supported"
    yield "OpenSSH", pem_of(MADE["Ed25519"], PrivateFormat.OpenSSH), "cannot be read"
    yield "DER", MADE["P-256"].private_bytes(Encoding.DER, PKCS8, NoEncryption()), "the file's content, not its name"
    yield ("a JWK", json.dumps({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}),
           "the file's content, not its name")
    yield "a file's name", "/etc/keys/client.pem", "the file's content, not its name"
    yield "nothing", "", "the file's content, not its name"


@pytest.mark.parametrize("pem, why", [pytest.param(pem, why, id=name.replace(" ", "_")) for name, pem, why in broken()])
def test_unsupported_keys_are_refused_and_not_quoted(pem, why):
    # AUTH-19
    for given in [pem, pem.decode("latin-1")] if isinstance(pem, bytes) else [pem]:
        with pytest.raises(ValueError,
            match=why + ".*expected is a private key in PEM, without a password") as caught:
            SigningKey.load(given)
        told = "".join(traceback.format_exception(type(caught.value), caught.value, None))
        assert not any(line in told or line in repr(caught.value.args) for line in body_of(given))
        assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize("name, algorithm, wanted", [
    ("P-256", "ES384", "ES256"), ("P-521", "ES256", "ES512"), ("P-256", "RS256", "ES256"), ("RSA", "ES256", "RS256 or RS384"),
    ("Ed25519", "ES256", "EdDSA"), ("P-256", "none", "ES256"), ("P-256", "HS256", "ES256"), ("RSA", "HS256", "RS256 or RS384"),
    ("P-256", "es256", "ES256"), ("P-256", "", "ES256"),
])
def test_a_key_for_another_algorithm_is_refused(name, algorithm, wanted):
    with pytest.raises(ValueError, match=f"this key cannot sign with '{algorithm}', only with {wanted}"):
        SigningKey.load(pem_of(MADE[name]), algorithm)


@pytest.mark.parametrize("key_id", ["", 7, b"one"])
def test_a_key_id_is_a_text(key_id):
    with pytest.raises(ValueError, match="key_id is a text that is not empty"):
        SigningKey.load(pem_of(MADE["P-256"]), key_id=key_id)


@pytest.mark.parametrize("name", MADE)
def test_a_key_is_not_shown(name):
    key = SigningKey.load(pem_of(MADE[name]), key_id="the name")
    assert repr(key) == str(key) == f"<SigningKey for {key.algorithm}>"
    assert not any(line in repr(vars(key)) for line in body_of(key.pem))
    with pytest.raises(TypeError):
        pickle.dumps(key)


# --- who a client is ----------------------------------------------------------------------------------

def test_an_assertion_says_who_the_client_is_and_to_whom():
    key = SigningKey.load(pem_of(MADE["P-256"]), key_id="one")
    before = int(time.time())
    token = client_assertion(key, "client", "https://auth.example.com")
    header, claims = read(token, key, audience="https://auth.example.com")
    after = int(time.time())
    assert header == {"alg": "ES256", "typ": "JWT", "kid": "one"}
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "jti"}
    assert claims["iss"] == claims["sub"] == "client" and claims["aud"] == "https://auth.example.com"
    assert before <= claims["iat"] <= after and claims["exp"] == claims["iat"] + 60


# --- without the extra ----------------------------------------------------------------------------------

@pytest.mark.parametrize("missing", ["jwt", "cryptography.hazmat.primitives.asymmetric.ec"])
def test_without_the_extra_the_error_says_what_to_install(missing, monkeypatch):
    pem = pem_of(MADE["P-256"])
    monkeypatch.setitem(sys.modules, missing, None)
    for attempt in (lambda: SigningKey.load(pem), SigningKey.generate):
        with pytest.raises(AuthError, match=r"pip install 'mcplite\[jwt\]'"):
            attempt()

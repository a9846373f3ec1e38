"""Fixtures of tests with credentials: an authorization server, a server that takes its tokens, a user, and signed tokens."""

import base64
import hashlib
import hmac
import json
import time

import pytest

import mcplite

from .authserver import REDIRECT, AuthServer, Protected, User


class Mint:
    """What an authorization server signs tokens with."""

    issuer = "https://login.example/tenant"
    resource = "https://mcp.example/mcp"

    def __init__(self):
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self.keys = {"rsa": rsa.generate_private_key(65537, 2048), "ec": ec.generate_private_key(ec.SECP256R1()),
                     "other": rsa.generate_private_key(65537, 2048)}

    def pem(self, name="rsa"):
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.keys[name].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def jwk(self, name="rsa", kid=None, **more):
        from jwt.algorithms import ECAlgorithm, RSAAlgorithm

        reader = ECAlgorithm if name == "ec" else RSAAlgorithm
        return {**json.loads(reader.to_jwk(self.keys[name].public_key())), "kid": kid or name, **more}

    def jwks(self, *names):
        return {"keys": [self.jwk(name) for name in names or ("rsa", "ec")]}

    def claims(self, **changed):
        claims = {"iss": self.issuer, "aud": self.resource, "sub": "ada", "client_id": "desk", "scope": "read",
                  "iat": int(time.time()), "exp": int(time.time()) + 300, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key="rsa", algorithm="RS256", header=None, **changed):
        """Return a token that is good, but for what is changed; None takes a claim or a part of the header out."""
        headers = {"kid": key, **(header or {})}
        return self.sign(json.dumps(self.claims(**changed)).encode(), key, algorithm, headers)

    def sign(self, body, key="rsa", algorithm="RS256", header=None):
        """Return a signed token, whatever it says."""
        import jwt

        headers = {"kid": "rsa"} if header is None else {name: value for name,
                                                         value in header.items() if value is not None}
        return jwt.PyJWS().encode(body, self.keys[key], algorithm, headers)

    def unsigned(self, header, claims, signature=b""):
        """Return a token that no library would make."""
        def encode(data):
            raw = data if isinstance(data, bytes) else json.dumps(data).encode()
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")

        return ".".join(map(encode, (header, claims, signature)))

    def confused(self):
        """Return a token whose shared secret is the public key, as text."""
        pieces = self.unsigned({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, self.claims()).rpartition(".")[0]
        signature = hmac.new(self.pem().encode(), pieces.encode(), hashlib.sha256).digest()
        return pieces + "." + base64.urlsafe_b64encode(signature).decode().rstrip("=")

    def wrong(self):
        """Return tokens by what is wrong with them."""
        now, good = time.time(), self.token()
        head, payload, signature = good.split(".")
        return {
            "expired": self.token(exp=int(now) - 3600), "not yet valid": self.token(nbf=int(now) + 3600),
            "issued in the future": self.token(iat=int(now) + 3600),
            "another audience": self.token(aud="https://other.example/mcp"),
            "a parent path": self.token(aud="https://mcp.example"),
            "a sibling path": self.token(aud="https://mcp.example/mcp2"),
            "no audience": self.token(aud=None), "an empty audience": self.token(aud=[]),
            "odd audiences": self.token(aud=[1]),
            "another issuer": self.token(iss="https://login.example/other"),
            "a slash more": self.token(iss=self.issuer + "/"),
            "no issuer": self.token(iss=None), "no end": self.token(exp=None), "no subject": self.token(sub=None),
            "unsigned": self.unsigned({"alg": "none"}, self.claims()),
            "a public key as secret": self.confused(), "an unknown key": self.token(header={"kid": "nobody"}),
            "a stranger's key": self.token("other", header={"kid": "rsa"}), "cut off": good[:-10],
            "another payload": f"{head}.{self.unsigned({}, self.claims(sub='eve')).split('.')[1]}.{signature}",
            "no JWT": "garbage-garbage-garbage",
        }


@pytest.fixture(scope="session")
def mint():
    return Mint()


@pytest.fixture
def auth():
    with AuthServer() as auth:
        yield auth


@pytest.fixture
def script(auth):
    with Protected(auth) as script:
        yield script


@pytest.fixture
def user():
    user = User()
    yield user
    user.may.set()


@pytest.fixture
def grant(user):
    return mcplite.OAuth(ask=user, redirect_uri=REDIRECT)


@pytest.fixture
def path(tmp_path):
    """Where a file with credentials may be made, in a folder that is not there."""
    return tmp_path / "store" / "credentials.json"
